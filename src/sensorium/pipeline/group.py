"""Sensor groups: all sensors of one class in one scene, whose hooks run once per step for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline.launch import StepCounter

if TYPE_CHECKING:
    from sensorium.pipeline.manager import SensorManager
    from sensorium.pipeline.protocols import GroupSensor
    from sensorium.worlds import World

BackendT = TypeVar("BackendT")

_RESPONSE_HOOKS = ("_update_current_timestep_data", "_apply_physics_imperfections", "_apply_transform")


class Slots:
    """A ring of past values: ``slots[0]`` is this step's value, ``slots[k]`` the value of k steps ago, (columns, B).

    Args:
        ring: storage, (slots, columns, B).
        group: the group whose step counter moves the ring.
        shifts: whether :meth:`advance` moves data instead of an index. Then ``slots[0]`` is always the same memory,
            which a CUDA graph needs of tensors that hooks work on.
    """

    def __init__(self, ring: torch.Tensor, group: SensorGroup[Any], shifts: bool = False) -> None:
        self.ring = ring
        self.shifts = shifts
        self._group = group

    def advance(self) -> None:
        """Make room for the value of a new step."""
        if self.shifts:
            self.ring[1:] = self.ring[:-1].clone()

    def __len__(self) -> int:
        return self.ring.shape[0]

    def __getitem__(self, age: int) -> torch.Tensor:
        if not 0 <= age < len(self):
            raise IndexError(f"age must lie in [0, {len(self)}), the steps that this ring holds; got {age}")
        return self.ring[age if self.shifts else (self._group.step - age) % len(self)]


class SensorGroup(Generic[BackendT]):
    """All sensors of one class, as the hooks of the class see them.

    Tensors in hooks have the shape (columns, B): the columns of the group's sensors one after the other. ``slices[i]``
    are the columns of ``sensors[i]``.

    Attributes:
        cls: the sensor class.
        sensors: the sensors, in the order in which they were added. Untyped, since they are of the class whose hooks
            use them.
        slices: intermediate columns of each sensor.
        return_slices: return columns of each sensor. They equal ``slices`` unless ``_post_process`` changes the format.
        truth: ground truth of the group, (columns, B).
        reading: the measured branch after the hardware stage, (columns, B).
        truth_timeline: the ground-truth timeline of a class with a response model, else None.
        measured_timeline: the measured timeline. Hardware imperfections never enter it.
        parameters: name -> (sensors, B) tensor of the parameters that a class adds to ``sensor.set(...)``.
        backend: the object that ``_build_group`` of the class returned: its state, on the CPU or on the GPU.
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
        self.has_raw_hook: bool = cls._overrides("_update_raw_data")
        self.has_delay_hook: bool = cls._overrides("_apply_delay")
        self.has_response: bool = cls._overrides(*_RESPONSE_HOOKS)
        self.post_processed: bool = cls._overrides("_post_process")
        # On the CPU, a raw signal from a hook goes through the fused step like the engine's signals. In a CUDA graph
        # it cannot, since the hook may have to run after the graph.
        self.has_hooks: bool = (
            cls._overrides("_update_shared_cache", "_apply_hardware_imperfections")
            or self.has_response
            or self.has_delay_hook
            or (self.has_raw_hook and manager.world.is_gpu)
        )
        self.capturable = bool(cls.capturable) and self.in_pipeline and not self.has_delay_hook
        self.history_length: int = max(sensor.options.history_length or 0 for sensor in sensors)
        # without return storage of its own, the cache of a group is its part of the working buffer
        needs_storage = (
            self.has_delay_hook or self.history_length > 0 or any(sensor.max_delay > 0 for sensor in sensors)
        )
        self.has_return_storage = self.in_pipeline and needs_storage

        # storage, assigned by the layout
        self.columns = self.delivery_rows = slice(0, 0)
        self.truth = self.reading = self.snapshot = self.return_truth = self.cache = torch.empty(0)
        self.history = self.truth_history = self.scratch = self.before = torch.empty(0)
        self.parameters: dict[str, torch.Tensor] = {}
        self.truth_timeline: Slots | None = None
        self.measured_timeline: Slots | None = None
        self.ring: Slots | None = None
        self.ring_slots = self.ring_first = self.history_first = 0
        self.arrays: dict[int, np.ndarray] = {}
        """``id(tensor)`` -> NumPy view of the group's own tensors on the CPU; see :meth:`array`."""

    @property
    def world(self) -> World:
        """The engine."""
        return self._manager.world

    @property
    def n_envs(self) -> int:
        """B, the number of envs."""
        return self._manager.world.n_envs

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
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
        return self._manager.layout.timing.due

    @property
    def due_rows(self) -> np.ndarray:
        """Rows of the group's sensors in ``due``, (sensors,) int."""
        return np.array([self._manager.layout.rows[sensor.uuid] for sensor in self.sensors])

    @property
    def is_idle(self) -> bool:
        """Whether the hardware stage leaves the group's columns unchanged with the current parameters."""
        return self._manager.stages.is_idle(self)

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
        """The step count as an argument of :func:`~sensorium.pipeline.launch.launch`, which replays read anew."""
        return self._manager.clock

    @property
    def advancing(self) -> bool:
        """Whether the hooks run in a step. In a reset it is False, and no time passes."""
        return self._manager.stages.resetting is None

    @property
    def counter(self) -> torch.Tensor:
        """The step count on the GPU, (1,) int32. Captured hooks must use it instead of ``step``."""
        return self._manager.counter[1:]

    @property
    def restarting(self) -> torch.Tensor | None:
        """On the GPU, the mask (B,) of the envs whose reset the hooks run in; None in a step, and on the CPU.

        In a reset, hooks run for all envs. Changes of ``truth``, ``reading`` and :meth:`state` are undone in the envs
        that are not reset. Hooks that keep data elsewhere must not change it there.
        """
        envs = self._manager.stages.resetting
        return None if envs is None or envs.ids is not None else envs.mask

    @property
    def n_columns(self) -> int:
        """Intermediate columns of all sensors of the group."""
        return self.columns.stop - self.columns.start

    @property
    def n_returns(self) -> int:
        """Return columns of all sensors of the group."""
        return self.return_slices[-1].stop

    def timing(self, sensor: GroupSensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return whether a sensor samples in this step, and the age of its reading in steps; (B,) each, live.

        Both are updated in every step, before the hooks run.
        """
        layout = self._manager.layout
        row = layout.rows[sensor.uuid]
        return layout.timing.due[row], layout.timing.lag[row]

    def per_column(self, option: str) -> torch.Tensor:
        """Return an option of every sensor, repeated over its columns: (columns, 1), which broadcasts over envs."""
        values = torch.zeros(self.n_columns, 1, device=self.device)
        for sensor, part in zip(self.sensors, self.slices, strict=True):
            values[part] = float(getattr(sensor.options, option))
        return values

    def state(self, name: str, n_columns: int | None = None, fill: float = 0.0) -> torch.Tensor:
        """Return a (columns, B) tensor that belongs to the class.

        It is allocated at first use, and set to ``fill`` in envs that are reset. Keep everything that a hook must
        remember from step to step here or in the timeline. Then resetting some envs does not change the others.

        Args:
            name: name of the tensor within the group.
            n_columns: number of rows; None for all columns of the group.
            fill: value at build and after a reset.

        Raises:
            RuntimeError: the tensor would be allocated while a CUDA graph is captured.
        """
        if name not in self._states:
            if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"state {name!r} cannot be allocated while a CUDA graph is captured; call group.state({name!r}) in "
                    "_build_group"
                )
            shape = (self.n_columns if n_columns is None else n_columns, self.n_envs)
            self._states[name] = (torch.full(shape, fill, device=self.device), fill)
        return self._states[name][0]

    def states(self) -> list[tuple[torch.Tensor, float]]:
        """Return every tensor that :meth:`state` allocated, with its fill value."""
        return list(self._states.values())

    # -- what the default hooks call ----------------------------------------------------------------------------------

    def gather(self, out: torch.Tensor) -> None:
        """Write the raw signal of the engine's sensors to ``out`` (columns, B)."""
        self._manager.stages.gather(self, out)

    def keep_arrays(self) -> None:
        """Create the NumPy views that :meth:`array` returns."""
        own = (self.truth, self.reading, self.scratch, self.before, self.snapshot, self.return_truth)
        self.arrays = {id(tensor): tensor.numpy() for tensor in own}

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """Return a NumPy view of a tensor that a hook was given, for kernels on the CPU.

        It is faster than ``tensor.numpy()``, since the views of the group's own tensors are kept.
        """
        found = self.arrays.get(id(tensor))
        return tensor.numpy() if found is None else found

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one (columns, B) tensor of the group to another."""
        self._manager.stages.copy(source, target)

    def imperfect(self, data: torch.Tensor) -> None:
        """Apply the generic hardware stage to ``data`` (columns, B), in place.

        Raises:
            OptionError: ``data`` is not the shape of all columns of the group.
        """
        if data.shape != (self.n_columns, self.n_envs):
            raise OptionError(
                f"group.imperfect works on all columns of the group: data must have shape "
                f"{(self.n_columns, self.n_envs)}, got {tuple(data.shape)}"
            )
        self._manager.stages.imperfect(self, data)
