"""The sensor manager: what scenes and sensors call on the pipeline.

It puts the parts together: storage (``layout.py``), kernels (``cpu.py``, ``gpu.py``), hooks (``stages.py``) and the
plan of a step (``plan.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import mujoco
import numpy as np
import torch

from sensorium.pipeline.describe import describe_group
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import StepCounter
from sensorium.pipeline.layout import Layout, build_layout
from sensorium.pipeline.parameters import EXTRA_OPTIONS, Write
from sensorium.pipeline.plan import CpuPlan, GpuPlan, StepPlan
from sensorium.pipeline.protocols import GraphWorld, GroupSensor, PipelineKernels
from sensorium.pipeline.stages import Stages
from sensorium.pipeline.storage import TIMING_PARAMETERS
from sensorium.worlds import Envs, MujocoWorld, Names, Painter, World, env_index


class SensorManager:
    """All sensors of one scene. Users reach it through the scene and the sensors.

    Attributes:
        world: the engine, after build.
        dt: seconds of one step.
        seed: the scene's seed.
        groups: the sensors by class.
        layout: storage of all sensors.
        stages: runs the hooks of groups.
        clock: the step count, as an argument of kernels on the CPU.
        counter: the step count on the GPU, (2,) int32: before this step, and with it.
        on_change: called with uuid, method and arguments whenever a sensor is changed after build.
    """

    world: World
    layout: Layout
    stages: Stages
    counter: torch.Tensor
    _kernels: PipelineKernels
    _plan: StepPlan

    def __init__(self) -> None:
        self.clock = StepCounter(np.zeros(1, np.int64))
        self.on_change: Callable[[str, str, dict[str, Any]], None] = lambda uuid, method, arguments: None
        self.dt = 0.0
        self.seed = 0
        self.groups: list[SensorGroup[Any]] = []
        self._sensors: list[GroupSensor] = []

    @property
    def step_count(self) -> int:
        """Steps since build."""
        return self._plan.step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        self._plan.step_count = count

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
            self._create_parts()
            for group in self.groups:
                for sensor in group.sensors:
                    sensor._attach(self, group)
                group.backend = group.cls._build_group(group)
            self._write_options()
            self._plan.start()
        except BaseException:
            for sensor in self._sensors:
                sensor._detach()
            raise

    def _create_parts(self) -> None:
        """Create layout, kernels, stages and plan."""
        by_class: dict[type, list[GroupSensor]] = {}
        for sensor in self._sensors:
            by_class.setdefault(type(sensor), []).append(sensor)
        self.groups = [SensorGroup(cls, sensors, self) for cls, sensors in by_class.items()]
        self.layout = build_layout(self.groups, self._sensors, self.world, self.seed, self.dt)
        self.clock.cell[0] = 0
        if self.world.is_gpu:
            from sensorium.pipeline.gpu import GpuKernels  # imports Warp

            graph_world = cast(GraphWorld, self.world)
            gpu_kernels = GpuKernels(graph_world.sensed, graph_world.steps, self.layout, self.dt)
            self._kernels, self.counter = gpu_kernels, gpu_kernels.counter
            self.stages = Stages(self.world, self.layout, gpu_kernels)
            self._plan = GpuPlan(graph_world, self.layout, self.stages, gpu_kernels)
        else:
            from sensorium.pipeline.cpu import CpuKernels  # imports Numba

            cpu_world = cast(MujocoWorld, self.world)
            cpu_kernels = CpuKernels(cpu_world, self.layout, self.clock, self.dt)
            self._kernels = cpu_kernels
            self.stages = Stages(self.world, self.layout, cpu_kernels)
            self._plan = CpuPlan(cpu_world, self.layout, self.stages, cpu_kernels, self.clock)

    def _write_options(self) -> None:
        """Write the parameters that the options give."""
        for sensor in self._sensors:
            for write in [one for name, value in sensor._initial() for one in self._writes(sensor, name, value, None)]:
                write.apply()
        for sensor in self._sensors:
            timing = {name: getattr(sensor.options, name) for name in TIMING_PARAMETERS}
            self.layout.timing_parameters.note(self.layout.rows[sensor.uuid], timing)
        self._plan.update()

    # -- run ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Sense the world as it is after a step."""
        self._plan.step()

    def reset(self, envs: Envs) -> None:
        """Clear rings, drift and response of some envs, and take their first reading from the current state."""
        self._plan.reset(envs)

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
        row, timing = self.layout.rows[sensor.uuid], self.layout.timing_parameters
        timing.check(row, type(sensor).options_type.__name__, values, index)
        for write in writes:
            write.apply()
        timing.note(row, values, index)
        self._plan.update()

    def _writes(self, sensor: GroupSensor, name: str, value: object, index: torch.Tensor | None) -> list[Write]:
        """Return the checked writes that set one parameter of a sensor."""
        option = f"{type(sensor).options_type.__name__}.{name}"
        if name in TIMING_PARAMETERS:
            row = self.layout.rows[sensor.uuid]
            return [self.layout.timing_parameters.write(row, name, option, value, index)]
        kind, part = sensor._parameter(name)
        if kind == "custom":
            return sensor._custom_writes(name, option, value, index)
        parameters = self.layout.block(sensor.group).parameters
        rows = _block_columns(sensor, part)
        if kind == "mix":
            return parameters.mix_write(option, value, rows, index)
        if kind in EXTRA_OPTIONS:
            return parameters.extra_writes(kind, option, value, rows, index, sensor._filter_order())
        return parameters.writes(kind, option, value, rows, index)

    # -- reading ------------------------------------------------------------------------------------------------------

    def noise(self, sensor: GroupSensor, part: slice) -> torch.Tensor:
        """Return the noise per sample of columns ``part`` of a sensor, (B, columns)."""
        noise = self.layout.block(sensor.group).store.parameter("noise")
        return noise[_block_columns(sensor, part)].T

    def read(self, envs: Envs) -> dict[str, torch.Tensor]:
        """Return the readings of all classes: class name -> fresh (B, columns) tensor."""
        index = env_index(envs, self.world.n_envs, self.world.device)
        out = {}
        for group in self.groups:
            if group.in_pipeline:
                cache = group.cache if index is None else group.cache[:, index]
                out[group.cls.options_type.__name__] = cache.T.clone(memory_format=torch.contiguous_format)
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
        if hasattr(self, "_kernels"):
            self._kernels.close()
        for sensor in self._sensors:
            sensor._detach()


def _block_columns(sensor: GroupSensor, part: slice) -> slice:
    """The columns ``part`` of a sensor, as columns of its block."""
    start = sensor.group.columns.start + sensor._columns.start
    return slice(start + part.start, start + part.stop)
