"""Interfaces that the pipeline requires of sensors, of kernels, and of the GPU engine.

The sensor classes live in a layer above (``sensorium.sensors``), so the pipeline names here what it calls on them. The
kernels have two implementations: Numba (``cpu.py``) and Warp (``gpu.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import mujoco
import numpy as np
import torch

from sensorium.worlds import Names, Painter

if TYPE_CHECKING:
    from sensorium.pipeline.blocks import ColumnBlock, GroupSnapshots, SignalSource
    from sensorium.pipeline.group import SensorGroup
    from sensorium.pipeline.manager import SensorManager
    from sensorium.pipeline.parameters import Write
    from sensorium.pipeline.slots import Slots

Format = tuple[int, ...] | dict[str, tuple[int, ...]]
"""Shape of a reading without B, or field -> shape."""


class ResetEnvs(NamedTuple):
    """The envs that a reset is for."""

    mask: torch.Tensor
    """(B,) bool, on the world's device."""
    ids: np.ndarray | None
    """The same envs as sorted int32 ids, for the CPU kernels. None on the GPU, where only the mask is used."""


class SensorTiming(Protocol):
    """The options that the pipeline reads of every sensor; see :class:`sensorium.sensors.SensorOptions`."""

    @property
    def rate(self) -> float | None: ...
    @property
    def substeps(self) -> bool: ...
    @property
    def delay(self) -> float: ...
    @property
    def jitter(self) -> float: ...
    @property
    def interpolate(self) -> bool: ...
    @property
    def history_length(self) -> int | None: ...
    @property
    def draw_debug(self) -> bool: ...


class GroupSensor(Protocol):
    """Interface of a sensor and its class to the pipeline; :class:`sensorium.sensors.Sensor` documents it."""

    options_type: ClassVar[type]
    uses_ring_pipeline: ClassVar[bool]
    keeps_columns: ClassVar[bool]
    timeline_depth: ClassVar[int]
    capturable: ClassVar[bool]
    cpu_only: ClassVar[bool]

    @property
    def uuid(self) -> str: ...
    @property
    def options(self) -> SensorTiming: ...
    @property
    def max_delay(self) -> float: ...
    @property
    def group(self) -> SensorGroup[Any]: ...
    @property
    def _columns(self) -> slice: ...

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None: ...
    def _attach(self, manager: SensorManager, group: SensorGroup[Any]) -> None: ...
    def _detach(self) -> None: ...
    def _sources(self) -> list[SignalSource] | None: ...
    def _get_return_format(self) -> Format: ...
    def _get_intermediate_format(self) -> Format: ...
    def _mixed_parts(self) -> list[slice]: ...
    def _extra_parts(self) -> list[slice]: ...
    def _filter_order(self) -> int: ...
    def _memory_per_env(self) -> tuple[int, int, int]: ...
    def _check_format(self) -> None: ...
    def _initial(self) -> list[tuple[str, Any]]: ...
    def _parameter(self, name: str) -> tuple[str, slice]: ...
    def _custom_writes(self, name: str, option: str, value: object, index: torch.Tensor | None) -> list[Write]: ...
    def _bulk_rows(self, history_length: int | None, ground_truth: bool) -> torch.Tensor: ...
    def _describe(self) -> dict[str, str]: ...
    def _draw(self, painter: Painter, env: int) -> None: ...

    @classmethod
    def _overrides(cls, *hooks: str) -> bool: ...
    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype: ...
    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype: ...
    @classmethod
    def _build_group(cls, group: SensorGroup[Any]) -> object: ...
    @classmethod
    def _reset_group(cls, group: SensorGroup[Any], mask: torch.Tensor) -> None: ...
    @classmethod
    def _update_shared_cache(
        cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None: ...
    @classmethod
    def _post_process(
        cls, group: SensorGroup[Any], data: torch.Tensor, out: torch.Tensor, is_measured: bool
    ) -> None: ...
    @classmethod
    def _apply_delay(cls, group: SensorGroup[Any], ring: Slots, out: torch.Tensor) -> None: ...


class StagedSensor(GroupSensor, Protocol):
    """A sensor class whose cache update is made of stages; :class:`sensorium.sensors.SimpleSensor` provides it."""

    @classmethod
    def _update_raw_data(cls, group: SensorGroup[Any], out: torch.Tensor) -> None: ...
    @classmethod
    def _update_current_timestep_data(
        cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None: ...
    @classmethod
    def _respond(cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor) -> None: ...


class PipelineKernels(Protocol):
    """The generic stages, compiled for one device. Every call works on all envs, in place."""

    def time(self) -> None:
        """Advance the clock of every env, and find out which samples are taken and which have arrived."""

    def step(self) -> None:
        """Run the fused columns of all blocks, from the engine's sensor data to the return cache."""

    def gather(self, block: ColumnBlock, group: SensorGroup[Any]) -> None:
        """Write the raw signals of one group to its part of ``truth``."""

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""

    def hardware(self, block: ColumnBlock, group: SensorGroup[Any], before: torch.Tensor, out: torch.Tensor) -> None:
        """Apply the hardware stage of one group to ``before`` and write the result to ``out``, both (columns, B)."""

    def deliver(self, snapshots: GroupSnapshots, rows: slice, serve: bool = True, remember: bool = True) -> None:
        """Write snapshots of return columns ``rows`` to the ring, then to the cache (``serve``) and the history
        (``remember``)."""

    def reset_fused(self, block: ColumnBlock, envs: ResetEnvs) -> None:
        """Take the first sample of the fused columns of a block in the reset envs."""

    def reset_timing(self, envs: ResetEnvs) -> None:
        """Start the clock of the reset envs, with one sample that has arrived."""

    def reset_hardware(
        self,
        block: ColumnBlock,
        group: SensorGroup[Any],
        before: torch.Tensor,
        out: torch.Tensor,
        envs: ResetEnvs,
    ) -> None:
        """Apply the hardware stage of one group in the reset envs; its drift and filters start afresh."""

    def reset_delivery(self, snapshots: GroupSnapshots, rows: slice, envs: ResetEnvs) -> None:
        """Fill ring, cache and history of the reset envs with their first snapshot."""

    def close(self) -> None:
        """Stop threads, if there are any."""
