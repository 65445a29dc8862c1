"""A sensor group: all sensors of one class in one scene, whose hooks run once a step for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline.launch import StepCounter

if TYPE_CHECKING:
    from sensorium.pipeline.manager import SensorManager
    from sensorium.worlds import World

BackendT = TypeVar("BackendT")


class Slots:
    """A ring seen from now: ``slots[0]`` is this step's value, ``slots[k]`` the one of k steps ago, (columns, B).

    A ring that ``shifts`` moves its data instead of an index, so that ``slots[0]`` is always the same memory: what a
    CUDA graph needs of tensors that hooks work on.
    """

    def __init__(self, ring: torch.Tensor, group: SensorGroup[Any], shifts: bool = False) -> None:
        self.ring = ring
        self.shifts = shifts
        self._group = group

    def advance(self) -> None:
        """Make room for a new step."""
        if self.shifts:
            self.ring[1:] = self.ring[:-1].clone()

    def __len__(self) -> int:
        return self.ring.shape[0]

    def __getitem__(self, age: int) -> torch.Tensor:
        if not 0 <= age < len(self):
            raise IndexError(f"this ring holds {len(self)} steps; asked for the one {age} steps ago")
        return self.ring[age if self.shifts else (self._group.step - age) % len(self)]


class SensorGroup(Generic[BackendT]):
    """All sensors of one class, as their class's hooks see them.

    Tensors in hooks are (columns, B): the columns of the group's sensors one after the other; ``slices[i]`` are those
    of ``sensors[i]``.

    Attributes:
        sensors: the sensors, in the order in which they were added.
        slices: intermediate columns of each sensor.
        return_slices: return columns of each sensor (the same unless ``_post_process`` changes the format).
        truth: ground truth of the group, (columns, B).
        reading: the measured branch after the hardware stage, (columns, B).
        truth_timeline: the ground-truth timeline, for classes with a response model.
        measured_timeline: the measured one; hardware imperfections never enter it.
        parameters: name -> (sensors, B) tensor of what a class adds to ``sensor.set(...)``.
        backend: the object that the class's ``_build_group`` returned: its typed state, on the CPU or on the GPU.
    """

    backend: BackendT

    def __init__(self, cls: type[Any], sensors: list[Any], manager: SensorManager) -> None:
        self.cls = cls
        self.sensors = sensors
        self.slices: list[slice] = []
        self.return_slices: list[slice] = []
        self._manager = manager
        self._states: dict[str, tuple[torch.Tensor, float]] = {}
        self.dtype: torch.dtype = cls._get_intermediate_dtype()
        self.return_dtype: torch.dtype = cls._get_cache_dtype()

        # which stages the class defines itself
        self.in_pipeline = bool(cls.uses_ring_pipeline)
        self.raw = cls._overrides("_update_raw_data")
        self.hooked = cls._overrides(
            "_update_shared_cache", *_RESPONSE, "_apply_hardware_imperfections", "_apply_delay"
        )
        # a raw signal of its own goes through the fused step like the engine's, except in a graph, where it may have to
        # run after it
        self.hooked = self.hooked or (self.raw and manager.world.is_gpu)
        self.responds = cls._overrides(*_RESPONSE)
        self.post_processed = cls._overrides("_post_process")
        self.delayed = cls._overrides("_apply_delay")
        self.capturable = bool(cls.capturable) and self.in_pipeline and not self.delayed
        self.history_length = max(sensor.options.history_length or 0 for sensor in sensors)
        # whether it needs return storage of its own; else its cache is its part of the working buffer
        stored = self.delayed or self.history_length > 0 or any(sensor.max_delay > 0 for sensor in sensors)
        self.stored = self.in_pipeline and stored

        # where its columns lie; set by the layout
        self.columns = self.delivery_rows = slice(0, 0)
        self.truth = self.reading = self.snapshot = self.return_truth = self.cache = torch.empty(0)
        self.history = self.truth_history = self.scratch = self.before = torch.empty(0)
        self.parameters: dict[str, torch.Tensor] = {}
        self.truth_timeline: Slots | None = None
        self.measured_timeline: Slots | None = None
        self.ring: Slots | None = None
        self.ring_slots = self.ring_first = self.history_first = 0
        self._array_of: dict[int, np.ndarray] = {}

    @property
    def world(self) -> World:
        """The running engine."""
        return self._manager.world

    @property
    def n_envs(self) -> int:
        """B, the number of envs."""
        return self._manager.world.n_envs

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self._manager.world.device

    @property
    def is_gpu(self) -> bool:
        """Whether the hooks run in CUDA graphs."""
        return self._manager.world.is_gpu

    @property
    def seed(self) -> int:
        """The scene's seed, the root of all random keys."""
        return self._manager.seed

    @property
    def due(self) -> torch.Tensor:
        """Whether each sensor of the scene samples in this step, (rows, B), live; see ``due_rows``."""
        return self._manager._timing.due

    @property
    def due_rows(self) -> np.ndarray:
        """Rows of the group's sensors in ``due``, (sensors,) int."""
        return np.array([self._manager._rows[sensor.uuid] for sensor in self.sensors])

    @property
    def is_idle(self) -> bool:
        """Whether the hardware stage leaves the group's columns as they are with the current parameters."""
        return self._manager.is_idle(self)

    @property
    def dt(self) -> float:
        """Seconds of one step."""
        return self._manager.dt

    @property
    def step(self) -> int:
        """Steps since build."""
        return self._manager.step_count

    @property
    def clock(self) -> StepCounter:
        """The same as an argument of :func:`~sensorium.pipeline.launch.launch`, which replays look up again."""
        return self._manager.clock

    @property
    def advancing(self) -> bool:
        """Whether the hooks run in a step; in a reset no time passes."""
        return self._manager._resetting is None

    @property
    def counter(self) -> torch.Tensor:
        """The same on the GPU, where hooks are captured and must not look at ``step``: (1,) int32."""
        counter: torch.Tensor = self._manager._kernels.counter
        return counter[1:]

    @property
    def restarting(self) -> torch.Tensor | None:
        """On the GPU, the mask (B,) of the envs in whose reset the hooks run now; None in a step.

        Hooks run for all envs then. What they leave in ``truth``, ``reading`` and :meth:`state` is undone in the
        others; what they keep elsewhere they must leave alone there themselves.
        """
        mask = self._manager._resetting
        return mask if isinstance(mask, torch.Tensor) else None

    @property
    def n_columns(self) -> int:
        """Intermediate columns of all sensors of the group."""
        return self.columns.stop - self.columns.start

    @property
    def n_returns(self) -> int:
        """Return columns of all sensors of the group."""
        return self.return_slices[-1].stop

    def timing(self, sensor: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Of one sensor, live: whether it takes a sample in this step, and how many steps old a reading is; (B,) each.
        They are renewed in every step, before the hooks."""
        return self._manager.timing(sensor)

    def per_column(self, option: str) -> torch.Tensor:
        """An option of every sensor, repeated over its columns: (columns, 1), ready to broadcast over envs."""
        values = torch.zeros(self.n_columns, 1, device=self.device)
        for sensor, part in zip(self.sensors, self.slices, strict=True):
            values[part] = float(getattr(sensor.options, option))
        return values

    def state(self, name: str, n_columns: int | None = None, fill: float = 0.0) -> torch.Tensor:
        """A (columns, B) tensor that belongs to the class: made at first use, back to ``fill`` when an env is reset.

        Keep what a hook must remember from step to step here (or in the timeline), and nowhere else: then resetting
        some envs leaves the others alone.
        """
        if name not in self._states:
            if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(f"state {name!r} was first asked for in a step; ask for it in _build_group")
            shape = (self.n_columns if n_columns is None else n_columns, self.n_envs)
            self._states[name] = (torch.full(shape, fill, device=self.device), fill)
        return self._states[name][0]

    def states(self) -> list[tuple[torch.Tensor, float]]:
        """Every tensor that :meth:`state` made, with its fill value."""
        return list(self._states.values())

    # -- what the default hooks do ------------------------------------------------------------------------------------

    def gather(self, out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the raw signal that the engine's sensors gave."""
        self._manager.gather(self, out)

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """A tensor that a hook was given as a NumPy array, for kernels on the CPU: faster than ``tensor.numpy()``."""
        found = self._array_of.get(id(tensor))
        return tensor.numpy() if found is None else found

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one (columns, B) tensor to another."""
        self._manager.copy(source, target)

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the generic hardware stage (bias, walk, noise, dead band, saturation, resolution) to ``data``."""
        if data.shape != (self.n_columns, self.n_envs):
            raise OptionError(
                f"the hardware stage works on all columns: expected {(self.n_columns, self.n_envs)}, got {data.shape}"
            )
        self._manager.imperfect(self, data)


_RESPONSE = ("_update_current_timestep_data", "_apply_physics_imperfections", "_apply_transform")
