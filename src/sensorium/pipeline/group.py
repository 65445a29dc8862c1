"""Sensor groups: all sensors of one class that are captured together. Their hooks run once per tick for all of them.

A tick is a step, or a substep for sensors that are captured at substeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.pipeline.draws import Draws, SampleDraws
from sensorium.pipeline.flags import RATE
from sensorium.pipeline.launch import StepCounter
from sensorium.pipeline.slots import SampleTiming, Slots
from sensorium.pipeline.storage import COLUMN_DTYPES, EXACT_DTYPES

if TYPE_CHECKING:
    from sensorium.pipeline.protocols import GroupSensor
    from sensorium.pipeline.tick_pipeline import TickPipeline
    from sensorium.worlds import World

BackendT = TypeVar("BackendT")

_RESPONSE_HOOKS = ("_update_current_timestep_data", "_apply_physics_imperfections", "_apply_transform")


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
        parameters: name -> (values, B) tensor of the parameters that a class adds to ``sensor.set(...)``: one row per
            sensor, or several where the parameter has several values; see :meth:`parameter_slices`.
        backend: the object that ``_build_group`` of the class returned: its state, on the CPU or on the GPU.
    """

    backend: BackendT

    @checked
    def __init__(self, cls: type[Any], sensors: list[Any], pipeline: TickPipeline) -> None:
        self.cls = cls
        self.sensors = sensors
        self.slices: list[slice] = []
        self.return_slices: list[slice] = []
        self._pipeline = pipeline
        self._states: dict[str, tuple[torch.Tensor, float]] = {}
        self.dtype: torch.dtype = cls._get_intermediate_dtype()
        self.return_dtype: torch.dtype = cls._get_cache_dtype()
        self.is_converted = self.dtype not in COLUMN_DTYPES
        """Whether the hooks work on tensors of their own, since the kernels do not compute with their dtype."""
        self.column_dtype = torch.float32 if self.is_converted else self.dtype
        """Dtype in which the generic stages compute."""

        # which stages the class defines itself
        self.in_pipeline = bool(cls.keeps_columns)
        self.has_rings = self.in_pipeline and bool(cls.uses_ring_pipeline)
        self.has_raw_hook: bool = cls._overrides("_update_raw_data")
        self.has_delay_hook: bool = cls._overrides("_apply_delay")
        self.has_response: bool = cls._overrides(*_RESPONSE_HOOKS)
        self.post_processed: bool = cls._overrides("_post_process")
        self.returns_apart = self.post_processed or self.is_converted
        self.is_averaged = any(getattr(sensor.options, "window", "instant") == "mean" for sensor in sensors)
        # On the CPU, a raw signal from a hook goes through the fused step like the engine's signals. In a CUDA graph
        # it cannot, since the hook may have to run after the graph.
        self.has_hooks: bool = (
            cls._overrides("_update_shared_cache", "_apply_hardware_imperfections")
            or self.has_response
            or self.has_delay_hook
            or (self.has_raw_hook and pipeline.world.is_gpu)
            or self.is_averaged
            or self.is_converted
        )
        self.capturable = bool(cls.capturable) and self.in_pipeline and not self.has_delay_hook
        self.history_length: int = max(sensor.options.history_length or 0 for sensor in sensors)
        is_fast = pipeline.ticks.per_step > 1  # then several samples arrive in a step, which the ring keeps
        self.has_ring = self.has_rings and (
            self.has_delay_hook or is_fast or any(sensor.max_delay > 0 for sensor in sensors)
        )
        # without return storage of its own, the cache of a group is its part of the working buffer
        self.has_return_storage = self.has_rings and (self.has_ring or self.history_length > 0)

        # storage, assigned by the layout
        self.columns = self.delivery_rows = slice(0, 0)
        self.truth = self.reading = self.snapshot = self.return_truth = self.cache = torch.empty(0)
        self.history = self.truth_history = self.scratch = self.before = torch.empty(0)
        self.parameters: dict[str, torch.Tensor] = {}
        self._timelines: tuple[Slots, Slots] | None = None
        self._draws: dict[tuple[str, bool], Draws] = {}
        self.ring: Slots | None = None
        self.ring_slots = self.ring_first = self.history_first = 0
        self.arrays: dict[int, np.ndarray] = {}
        """``id(tensor)`` -> NumPy view of the group's own tensors on the CPU; see :meth:`array`."""

    @property
    def world(self) -> World:
        """The engine."""
        return self._pipeline.world

    @property
    def n_envs(self) -> int:
        """B, the number of envs."""
        return self._pipeline.world.n_envs

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self._pipeline.world.device

    @property
    def is_gpu(self) -> bool:
        """Whether the hooks run in CUDA graphs."""
        return self._pipeline.world.is_gpu

    @property
    def seed(self) -> int:
        """The scene's seed, the root of all random keys."""
        return self._pipeline.seed

    @property
    def due(self) -> torch.Tensor:
        """Whether the reading of each sensor takes a new value in this tick, (rows, B), live; see ``due_rows``."""
        return self._pipeline.layout.timing.due

    @property
    def due_rows(self) -> np.ndarray:
        """Rows of the group's sensors in ``due``, (sensors,) int."""
        return np.array([self._pipeline.layout.rows[sensor.uuid] for sensor in self.sensors])

    @property
    def is_idle(self) -> bool:
        """Whether the hardware stage leaves the group's columns unchanged with the current parameters."""
        return self._pipeline.stages.is_idle(self)

    @property
    def dt(self) -> float:
        """Seconds of one tick: of a step, or of a substep if the sensors are captured at substeps."""
        return self._pipeline.ticks.dt

    @property
    def ticks_per_step(self) -> int:
        """Ticks in one step."""
        return self._pipeline.ticks.per_step

    @property
    def step(self) -> int:
        """Ticks since build."""
        return self._pipeline.tick_count

    @property
    def clock(self) -> StepCounter:
        """The tick count as an argument of :func:`~sensorium.pipeline.launch.launch`, which replays read anew."""
        return self._pipeline.clock

    @property
    def advancing(self) -> bool:
        """Whether the hooks run in a tick. In a reset it is False, and no time passes."""
        return self._pipeline.stages.resetting is None

    @property
    def counter(self) -> torch.Tensor:
        """The tick count on the GPU, (1,) int32. Captured hooks must use it instead of ``step``."""
        return self._pipeline.counter[1:]

    @property
    def restarting(self) -> torch.Tensor | None:
        """On the GPU, the mask (B,) of the envs whose reset the hooks run in; None in a tick, and on the CPU.

        In a reset, hooks run for all envs. Changes of ``truth``, ``reading`` and :meth:`state` are undone in the envs
        that are not reset. Hooks that keep data elsewhere must not change it there.
        """
        envs = self._pipeline.stages.resetting
        return None if envs is None or envs.ids is not None else envs.mask

    @property
    def n_columns(self) -> int:
        """Intermediate columns of all sensors of the group."""
        return self.columns.stop - self.columns.start

    @property
    def n_returns(self) -> int:
        """Return columns of all sensors of the group."""
        return self.return_slices[-1].stop

    def timing(self, sensor: GroupSensor) -> SampleTiming:
        """Return views of the timing of a sensor. They are updated in every tick, before the hooks run."""
        layout = self._pipeline.layout
        row, timing = layout.rows[sensor.uuid], layout.timing
        first, slots = timing.table[row].tolist()
        ring = slice(first, first + slots)
        return SampleTiming(
            timing.due[row], timing.lag[row], timing.part[row], timing.arrives[ring], timing.offset[ring]
        )

    @property
    def ticks(self) -> torch.Tensor:
        """Simulated time of each env in ticks, (B,) int32, live."""
        return self._pipeline.layout.timing.tick

    @property
    def env_ids(self) -> torch.Tensor:
        """The env whose random numbers each env draws, (B,) int32, live: itself, unless ``scene.set_episodes`` changed
        it. Use it instead of the index for what is drawn once per env; :meth:`normal` does so by itself."""
        return self._pipeline.layout.timing.env

    @property
    def draw(self) -> torch.Tensor:
        """The counter of the random numbers of this tick, (2, B) uint32, live; for kernels that draw by
        ``sensorium.pipeline.kernels.words``."""
        return self._pipeline.layout.timing.draw

    def sample_draw(self, sensor: GroupSensor) -> torch.Tensor:
        """Return the counter of the random numbers of the newest sample of one sensor, (2, B) uint32, live.

        Without a rate every tick has a sample, and it is :attr:`draw`. Ask again after the rate was set.
        """
        layout = self._pipeline.layout
        row = layout.rows[sensor.uuid]
        return layout.timing.sample_draw[row] if layout.timing_parameters.flags[row] & RATE else self.draw

    def per_column(self, option: str) -> torch.Tensor:
        """Return an option of every sensor per column: (columns, 1) float32, which broadcasts over envs.

        Args:
            option: an option that is a number, or has one value per column of the sensor.

        Raises:
            OptionError: the option has another number of values.
        """
        values = torch.zeros(self.n_columns, 1)
        for sensor, part in zip(self.sensors, self.slices, strict=True):
            value = torch.as_tensor(getattr(sensor.options, option), dtype=torch.float32).flatten()
            if len(value) not in (1, part.stop - part.start):
                raise OptionError(
                    f"{self.cls.options_type.__name__}.{option} must have 1 value or one per column "
                    f"({part.stop - part.start}), got {len(value)}"
                )
            values[part, 0] = value
        return values.to(self.device)

    def parameter_slices(self, name: str) -> list[slice]:
        """Return the rows of each sensor in ``parameters[name]``."""
        counts = [columns.stop - columns.start for columns in (sensor._parameter(name)[1] for sensor in self.sensors)]
        ends = np.cumsum(counts).tolist()
        return [slice(end - count, end) for count, end in zip(counts, ends, strict=True)]

    @property
    def truth_timeline(self) -> Slots:
        """The ground-truth branch of the last ticks, after the response model. Allocated at first use."""
        return self._require_timelines()[0]

    @property
    def measured_timeline(self) -> Slots:
        """The measured branch of the last ticks. Hardware imperfections never enter it. Allocated at first use."""
        return self._require_timelines()[1]

    @property
    def timelines(self) -> tuple[Slots, ...]:
        """The timelines that were allocated: both or none."""
        return self._timelines or ()

    def _require_timelines(self) -> tuple[Slots, Slots]:
        if self._timelines is None:
            self._check_allocation("a timeline", "use it in _build_group once")
            slots = max(2, self.cls.timeline_depth, self.history_length)
            shape = (slots, self.n_columns, self.n_envs)
            rings = [torch.zeros(shape, dtype=self.dtype, device=self.device) for _ in range(2)]
            self._timelines = Slots(rings[0], self, self.is_gpu), Slots(rings[1], self, self.is_gpu)
        return self._timelines

    def rest_timelines(self) -> None:
        """In a reset, fill the past of the reset envs with the values of now, so that a response starts at rest."""
        envs = self._pipeline.stages.resetting
        if envs is not None:
            for line in self.timelines:
                line.ring.copy_(torch.where(envs.mask, line.at(0).clone(), line.ring))

    def normal(self, name: str, n_columns: int | None = None, per_sample: bool = False) -> torch.Tensor:
        """Return standard normals, (columns, B).

        They depend only on the seed, the uuid of the sensor that a column belongs to, ``name``, the column, the env,
        its episode and the tick or sample: an env draws the same numbers at every batch size and on every device. The
        same name returns the same numbers throughout a tick.

        Args:
            name: name of the draw within the class.
            n_columns: columns per sensor; None for one per intermediate column.
            per_sample: whether the numbers belong to the newest sample: they stay the same until the next one is due,
                and do not depend on the number of substeps. Use it for noise of the reading. False: new numbers in
                every tick, for what changes between samples, e.g. a drift.

        Raises:
            RuntimeError: the memory would be allocated while a CUDA graph is captured.
        """
        return self._draw(name, n_columns, per_sample).normal()

    def uniform(self, name: str, n_columns: int | None = None, per_sample: bool = False) -> torch.Tensor:
        """Return uniform numbers in [0, 1), (columns, B); see :meth:`normal`."""
        return self._draw(name, n_columns, per_sample).uniform()

    def _draw(self, name: str, n_columns: int | None, per_sample: bool) -> Draws:
        if (name, per_sample) not in self._draws:
            self._check_allocation(f"the draw {name!r}", f"call group.normal({name!r}) or uniform in _build_group")
            counts = [columns.stop - columns.start if n_columns is None else n_columns for columns in self.slices]
            names = [sensor.uuid for sensor in self.sensors]
            layout, samples = self._pipeline.layout, None
            if per_sample:
                rows = [layout.rows[uuid] for uuid in names]
                samples = SampleDraws(rows, layout.timing.flags, layout.timing.sample_draw)
            self._draws[name, per_sample] = Draws(self.seed, name, names, counts, self.draw, self.is_gpu, samples)
        return self._draws[name, per_sample]

    def _check_allocation(self, what: str, instead: str) -> None:
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"{what} cannot be allocated while a CUDA graph is captured; {instead}")

    def state(self, name: str, n_columns: int | None = None, fill: float = 0.0) -> torch.Tensor:
        """Return a (columns, B) tensor of the class's intermediate dtype that belongs to the class.

        It is allocated at first use, and set to ``fill`` in envs that are reset. Keep everything that a hook must
        remember from tick to tick here or in the timeline. Then resetting some envs does not change the others.

        Args:
            name: name of the tensor within the group.
            n_columns: number of rows; None for all columns of the group.
            fill: value at build and after a reset.

        Raises:
            RuntimeError: the tensor would be allocated while a CUDA graph is captured.
        """
        if name not in self._states:
            self._check_allocation(f"state {name!r}", f"call group.state({name!r}) in _build_group")
            shape = (self.n_columns if n_columns is None else n_columns, self.n_envs)
            self._states[name] = (torch.full(shape, fill, dtype=self.dtype, device=self.device), fill)
        return self._states[name][0]

    def states(self) -> list[tuple[torch.Tensor, float]]:
        """Return every tensor that :meth:`state` allocated, with its fill value."""
        return list(self._states.values())

    # -- what the default hooks call ----------------------------------------------------------------------------------

    def gather(self, out: torch.Tensor) -> None:
        """Write the raw signal of the engine's sensors to ``out`` (columns, B)."""
        self._pipeline.stages.gather(self, out)

    def keep_arrays(self) -> None:
        """Create the NumPy views that :meth:`array` returns."""
        own = (self.truth, self.reading, self.scratch, self.before, self.snapshot, self.return_truth)
        self.arrays = {id(tensor): tensor.numpy() for tensor in own if tensor.dtype != torch.bfloat16}

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """Return a NumPy view of a tensor that a hook was given, for kernels on the CPU.

        It is faster than ``tensor.numpy()``, since the views of the group's own tensors are kept.
        """
        found = self.arrays.get(id(tensor))
        return tensor.numpy() if found is None else found

    def serve(self, out: torch.Tensor) -> None:
        """Fill ``out`` (return columns, B) with the newest samples that have arrived."""
        self._pipeline.stages.serve(self, out)

    def average(self, data: torch.Tensor) -> None:
        """Replace the columns of sensors with ``window="mean"`` by their mean since the last sample, in place."""
        if self.is_averaged:
            self._pipeline.stages.average(self, data)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one (columns, B) tensor of the group to another."""
        if self.is_converted:
            target.copy_(source)
            return
        self._pipeline.stages.copy(source, target)

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
        if self.dtype not in EXACT_DTYPES:
            self._pipeline.stages.imperfect(self, data)
