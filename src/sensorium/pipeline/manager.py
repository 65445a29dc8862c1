"""The sensor manager: what scenes and sensors call on the pipeline.

It puts the sensors into one pipeline, or into two if some are captured at substeps (``tick_pipeline.py``). A pipeline
has storage (``layout.py``), kernels (``cpu.py``, ``gpu.py``) and hooks (``stages.py``). ``plan.py`` makes the calls of
a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import mujoco
import torch

from sensorium._arguments import checked_flag
from sensorium.pipeline.capture_times import needs_substeps, warn_of_timing, warn_of_windows
from sensorium.pipeline.describe import describe_group
from sensorium.pipeline.final_readings import FinalReadings
from sensorium.pipeline.gpu_plan import GpuPlan
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.layout import Ticks
from sensorium.pipeline.parameters import EXTRA_PARAMETERS, Write
from sensorium.pipeline.plan import CpuPlans, StepPlan
from sensorium.pipeline.protocols import GroupSensor
from sensorium.pipeline.storage import TIMING_PARAMETERS
from sensorium.pipeline.tick_pipeline import TickPipeline
from sensorium.pipeline.timing import LIVE_TIMING
from sensorium.worlds import CpuWorld, Envs, GpuWorld, Names, Painter, World, env_index, env_mask


class SensorManager:
    """All sensors of one scene. Users reach it through the scene and the sensors.

    Attributes:
        world: the engine, after build.
        dt: seconds of one step.
        seed: the scene's seed.
        groups: the sensors by class, and by whether they are captured at steps or at substeps.
        on_change: called with uuid, method and arguments whenever a sensor is changed after build.
    """

    world: World
    _plan: StepPlan
    _next_episode: torch.Tensor  # (B,) int32: the episode that the next reset of each env begins
    _next_env: torch.Tensor  # (B,) int32: the env whose random numbers it draws

    def __init__(self) -> None:
        self.on_change: Callable[[str, str, dict[str, Any]], None] = lambda uuid, method, arguments: None
        self.dt = 0.0
        self.seed = 0
        self._sensors: list[GroupSensor] = []
        self._final: FinalReadings | None = None
        self._pipelines: list[TickPipeline] = []  # of substeps, if needed, and of steps

    @property
    def groups(self) -> list[SensorGroup[Any]]:
        """All sensor groups."""
        return [group for pipeline in self._pipelines for group in pipeline.groups]

    @property
    def step_count(self) -> int:
        """Steps since build."""
        return self._pipelines[-1].tick_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        if not self.world.is_gpu:  # the clock of a CUDA graph cannot be set
            for pipeline in self._pipelines:
                pipeline.tick_count = count * pipeline.ticks.per_step

    @property
    def episodes(self) -> torch.Tensor:
        """Number of each env's running episode, (B,) int64: its resets since build, or what was set before the last."""
        return self._pipelines[-1].layout.timing.episode.to(torch.int64)

    @property
    def on_host(self) -> bool:
        """Whether :meth:`step` has work to do. False if the world's CUDA graphs do all of it."""
        return self._plan.on_host

    # -- build --------------------------------------------------------------------------------------------------------

    def add(self, sensor: GroupSensor) -> None:
        """Add a sensor, before build."""
        self._sensors.append(sensor)

    def forget(self, sensors: Sequence[GroupSensor]) -> None:
        """Remove sensors that were added, before build."""
        self._sensors = [sensor for sensor in self._sensors if all(sensor is not one for one in sensors)]

    def declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        """Let every sensor add the engine elements that it needs to the model."""
        for sensor in self._sensors:
            sensor._declare(spec, names)

    def bytes_per_env(self) -> int:
        """Return the memory of one env of all sensors besides delays and histories, bytes."""
        return sum(sensor._memory_per_env()[2] for sensor in self._sensors)

    def build(self, world: World, seed: int, dt: float) -> None:
        """Allocate storage for all sensors, compile the kernels, and take the first readings.

        Args:
            world: the engine.
            seed: root of all random keys.
            dt: seconds of one step.

        Raises:
            OptionError: an option or a sensor class cannot be used. All sensors are unbuilt again.
        """
        try:
            self.world, self.seed, self.dt = world, seed, dt
            self._create_pipelines()
            for group in self.groups:
                for sensor in group.sensors:
                    sensor._attach(self, group)
                group.backend = group.cls._build_group(group)
            self._write_options()
            self._next_episode = torch.zeros(world.n_envs, dtype=torch.int32, device=world.device)
            self._next_env = torch.arange(world.n_envs, dtype=torch.int32, device=world.device)
            self.begin_episodes(None)
            self._plan.start()
        except BaseException:
            self.close()
            raise

    def _create_pipelines(self) -> None:
        substeps = self.world.substeps
        fast = [sensor for sensor in self._sensors if needs_substeps(sensor, self.dt, substeps)]
        slow = [sensor for sensor in self._sensors if not any(sensor is one for one in fast)]
        self._pipelines = [TickPipeline(slow, self.world, self.seed, Ticks(self.dt, 1))]
        if fast:
            self._pipelines.insert(0, TickPipeline(fast, self.world, self.seed, Ticks(self.dt / substeps, substeps)))
        self._of = {sensor.uuid: one for one in self._pipelines for group in one.groups for sensor in group.sensors}
        if self.world.is_gpu:
            self._plan = GpuPlan(cast(GpuWorld, self.world), self._pipelines, self._begin)
        else:
            self._plan = CpuPlans(cast(CpuWorld, self.world), self._pipelines)

    def _write_options(self) -> None:
        """Write the parameters that the options give."""
        for sensor in self._sensors:
            given = [*sensor._initial(), ("rate", sensor.options.rate)]
            for write in [one for name, value in given for one in self._writes(sensor, name, value, None)]:
                write.apply()
        for sensor in self._sensors:
            timing = {name: getattr(sensor.options, name) for name in TIMING_PARAMETERS}
            self._note_timing(sensor, timing, None)
            warn_of_timing(sensor, sensor.group.dt, self.dt / self.world.substeps)
        self._plan.update()

    # -- run ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Sense the world as it is after a step."""
        self._plan.step()

    def reset(self, envs: Envs) -> None:
        """Clear rings, drift and response of some envs, and take their first reading from the current state."""
        self._plan.reset(envs)

    def keep_final(self, mask: torch.Tensor) -> None:
        """Keep the readings of the envs whose episode ends now; a mask, (B,) bool on the world's device."""
        self._final_readings().keep(mask)

    def final_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the kept values of some rows of a group; 0 if no episode was ended by a step."""
        return self._final_readings().of(rows)

    def _final_readings(self) -> FinalReadings:
        if self._final is None:  # most programs need no memory for it
            self._final = FinalReadings(self.groups, self.world)
        return self._final

    def begin_episodes(self, envs: Envs) -> None:
        """Begin the next episode of some envs, on which the random numbers depend. Call it before their reset.

        On a GPU the world's reset begins it by itself.
        """
        self._begin(env_mask(envs, self.world.n_envs, self.world.device))

    def _begin(self, begun: torch.Tensor) -> None:
        for pipeline in self._pipelines:
            timing = pipeline.layout.timing
            torch.where(begun, self._next_episode, timing.episode, out=timing.episode)
            torch.where(begun, self._next_env, timing.env, out=timing.env)
        self._next_episode += begun

    def set_episodes(self, numbers: torch.Tensor, envs: Envs, env_ids: torch.Tensor | None) -> None:
        """Set which episode of which env the next reset of ``envs`` begins; see ``scene.set_episodes``."""
        index = env_index(envs, self.world.n_envs, self.world.device)
        rows = slice(None) if index is None else index
        self._next_episode[rows] = numbers.to(torch.int32)
        if env_ids is not None:
            self._next_env[rows] = env_ids.to(torch.int32)

    def set(self, sensor: GroupSensor, values: Mapping[str, object], envs: Envs) -> None:
        """Change parameters of one sensor in some envs. All values are checked before any is changed.

        Args:
            sensor: the sensor.
            values: parameter -> value, as ``sensor.set`` takes them.
            envs: which envs; None for all.

        Raises:
            OptionError: a value cannot be used; nothing was changed.
        """
        index = env_index(envs, self.world.n_envs, self.world.device)
        writes = [write for name, value in values.items() for write in self._writes(sensor, name, value, index)]
        layout = self._of[sensor.uuid].layout
        row = layout.rows[sensor.uuid]
        layout.timing_parameters.check(row, type(sensor).options_type.__name__, values, index)
        warn_of_windows(sensor, values.get("rate"), sensor.group.dt)
        for write in writes:
            write.apply()
        self._note_timing(sensor, values, index)
        self._plan.update()

    def bind(self, sensor: GroupSensor, kind: str, part: slice) -> torch.Tensor:
        """Return the live values of one of ``LIVE_PARAMETERS`` of some columns of a sensor, (B, columns).

        Those of one of ``LIVE_TIMING`` are (B, 1) float64.
        """
        layout = self._of[sensor.uuid].layout
        if kind in LIVE_TIMING:
            live = layout.timing_parameters.live(layout.rows[sensor.uuid], kind)
        else:
            live = layout.block(sensor.group).parameters.live(kind, _block_columns(sensor, part))
        self._plan.update()
        return live.T

    def _note_timing(self, sensor: GroupSensor, values: Mapping[str, object], index: torch.Tensor | None) -> None:
        layout = self._of[sensor.uuid].layout
        values = {name: self._timing_value(sensor, name, value) for name, value in values.items()}
        layout.timing_parameters.note(layout.rows[sensor.uuid], values, index)

    def _timing_value(self, sensor: GroupSensor, name: str, value: object) -> object:
        """Return the value of a timing parameter: without a rate, a sensor takes one sample per step by default, also
        where its signal is averaged over substeps."""
        if name == "rate" and value is None and not sensor.options.substeps and sensor.group.ticks_per_step > 1:
            return 1 / self.dt
        return value

    def _writes(self, sensor: GroupSensor, name: str, value: object, index: torch.Tensor | None) -> list[Write]:
        """Return the checked writes that set one parameter of a sensor."""
        option = f"{type(sensor).options_type.__name__}.{name}"
        layout = self._of[sensor.uuid].layout
        if name in TIMING_PARAMETERS:
            given = self._timing_value(sensor, name, value)
            return [layout.timing_parameters.write(layout.rows[sensor.uuid], name, option, given, index)]
        kind, part = sensor._parameter(name)
        if kind == "custom":
            return sensor._custom_writes(name, option, value, index)
        parameters = layout.block(sensor.group).parameters
        rows = _block_columns(sensor, part)
        if kind == "mix":
            return parameters.mix_write(option, value, rows, index)
        if kind in EXTRA_PARAMETERS:
            return parameters.extra_writes(kind, option, value, rows, index, sensor._filter_order())
        return parameters.writes(kind, option, value, rows, index)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(
        self, envs: Envs, history_length: int | None = None, ground_truth: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return the readings of all classes: class name -> fresh (B, columns) tensor; see ``scene.read_sensors``."""
        ground_truth = checked_flag("read_sensors: ground_truth", ground_truth)
        index = env_index(envs, self.world.n_envs, self.world.device)
        parts: dict[str, list[torch.Tensor]] = {}
        for sensor in self._sensors:
            if sensor.group.in_pipeline:
                rows = sensor._bulk_rows(history_length, ground_truth)  # (columns, B) or (N, columns, B)
                parts.setdefault(type(sensor).options_type.__name__, []).append(rows)
        out = {}
        for name, members in parts.items():
            joined = torch.cat(members, dim=-2)
            joined = joined if index is None else joined[..., index]
            out[name] = joined.movedim(-1, 0).contiguous()
        return out

    def describe(self) -> list[dict[str, str]]:
        """Return one row per sensor: class, shape, dtype, rate, delay, memory, and how it runs."""
        return [row for group in self.groups for row in describe_group(group, self._plan.describe(group))]

    def draw(self, painter: Painter, env: int) -> None:
        """Let the sensors with ``draw_debug`` draw their rays, frames and forces in one env."""
        for sensor in self._sensors:
            if sensor.options.draw_debug:
                sensor._draw(painter, env)

    def close(self) -> None:
        """Stop threads, and make all sensors unbuilt again."""
        for pipeline in self._pipelines:
            pipeline.kernels.close()
        for sensor in self._sensors:
            sensor._detach()


def _block_columns(sensor: GroupSensor, part: slice) -> slice:
    """The columns ``part`` of a sensor, as columns of its block."""
    start = sensor.group.columns.start + sensor._columns.start
    return slice(start + part.start, start + part.stop)
