"""``TickPipeline``: the sensors of a scene that are captured at the same times, with their storage and kernels.

A scene has one pipeline whose tick is a step. If some of its sensors are captured at substeps, it has a second one
whose tick is a substep, and the two share nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import StepCounter
from sensorium.pipeline.layout import Ticks, build_layout
from sensorium.pipeline.protocols import GroupSensor, PipelineKernels
from sensorium.pipeline.stages import Stages
from sensorium.worlds import CpuWorld, GpuWorld, World


class TickPipeline:
    """Sensors with one tick: their groups, storage, kernels and hooks.

    Args:
        sensors: the sensors, in the order in which they were added.
        world: the engine.
        seed: the scene's seed.
        ticks: when the sensors are captured.

    Attributes:
        groups: the sensors by class.
        layout: storage of all sensors.
        kernels: the generic stages on the device.
        stages: runs the hooks of groups.
        clock: ticks since build, as an argument of kernels on the CPU.
        counter: ticks since build on the GPU, (2,) int32: before this tick, and with it.
    """

    kernels: PipelineKernels
    counter: torch.Tensor

    def __init__(self, sensors: Sequence[GroupSensor], world: World, seed: int, ticks: Ticks) -> None:
        self.world, self.seed, self.ticks = world, seed, ticks
        self.clock = StepCounter(np.zeros(1, np.int64))
        self._count = 0
        by_class: dict[type, list[GroupSensor]] = {}
        for sensor in sensors:
            by_class.setdefault(type(sensor), []).append(sensor)
        self.groups: list[SensorGroup[Any]] = [SensorGroup(cls, members, self) for cls, members in by_class.items()]
        self.layout = build_layout(self.groups, sensors, world, seed, ticks)
        if world.is_gpu:
            from sensorium.pipeline.gpu import GpuKernels  # imports Warp

            gpu_world = cast(GpuWorld, world)
            data = gpu_world.substep_sensed if ticks.per_step > 1 else gpu_world.sensed
            gpu_kernels = GpuKernels(data, gpu_world.steps, self.layout, ticks)
            self.kernels, self.counter = gpu_kernels, gpu_kernels.counter
        else:
            from sensorium.pipeline.cpu import CpuKernels  # imports Numba

            self.kernels = CpuKernels(cast(CpuWorld, world), self.layout, self.clock, ticks.dt)
        self.stages = Stages(world, self.layout, self.kernels)

    @property
    def tick_count(self) -> int:
        """Ticks since build. On the GPU they are counted with the steps of the world, and cannot be set."""
        return self.world.step_count * self.ticks.per_step if self.world.is_gpu else self._count

    @tick_count.setter
    def tick_count(self, count: int) -> None:
        self._count = self.clock.cell[0] = count
