"""``SensorHooks``: the hooks that a class of sensors defines, with their defaults.

Hooks "of the class" are class methods: each runs once per tick, for all sensors of the class (a
:class:`~sensorium.pipeline.SensorGroup`) and all envs, on tensors of shape (columns, B).

==================================== ========== ======================================================================
hook                                 of         purpose
==================================== ========== ======================================================================
``_get_return_format``               sensor     shape, or field -> shape, of a reading (without B)
``_get_intermediate_format``         sensor     the same before ``_post_process``; default: the return format
``_get_cache_dtype``                 class      dtype of a reading; default float32
``_get_intermediate_dtype``          class      float32 (default), another float, a signed integer, uint8 or bool
``_update_shared_cache``             class      fill both branches; ``SimpleSensor`` does it by the next six
``_update_raw_data``                 class      the raw signal; default: from the engine's sensors (``_sources``)
``_apply_physics_imperfections``     class      imperfections before the response, on the measured branch
``_update_current_timestep_data``    class      the two above in one
``_apply_transform``                 class      the response model, once per branch
``_apply_hardware_imperfections``    class      default: the generic imperfections of the options
``_post_process``                    class      intermediate to return space, once per branch and step
``_apply_delay``                     class      default: zero-order hold (or linear) at the sensor's delay
``_channels``                        sensor     which columns the imperfections of each channel act on
``_custom_parameters``               sensor     further options that ``set`` can change, per env
``_build_group``, ``_reset_group``   class      run once at build; run when envs are reset
``_plotted_names``                   sensor     names of the columns of a field in plots
``_plotted_pictures``                sensor     pictures of a reading, for sensors that see space
==================================== ========== ======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import mujoco
import numpy as np
import torch

from sensorium.pipeline import SensorGroup, SignalSource, Slots
from sensorium.pipeline.flags import EXTRA_NAMES
from sensorium.pipeline.layout import n_columns
from sensorium.sensors.readings import Format
from sensorium.worlds import Names

if TYPE_CHECKING:
    from sensorium.sensors.parameters import SensorParameters
    from sensorium.sensors.pictures import Picture

_TIMING_BYTES = 60
"""Bytes per env of when a sensor samples: parameters, delay and random state."""


class SensorHooks:
    """Hooks that a sensor class can define. Each has a default, except for the format of a reading."""

    options: Any
    """Options of the sensor."""
    _parameters: SensorParameters

    uses_ring_pipeline: ClassVar[bool] = True
    """Whether readings can be delayed and kept in a history. If False, the class has no rings, and its readings are
    those of the current tick."""
    keeps_columns: ClassVar[bool] = True
    """Whether the pipeline stores both branches of the class as columns; False for cameras, which store images."""
    timeline_depth: ClassVar[int] = 2
    """Ticks that ``group.truth_timeline`` and ``group.measured_timeline`` hold at least, the current one included."""
    capturable: ClassVar[bool] = True
    """Whether the hooks can be captured in a CUDA graph; False runs them after it. Set it to False if they read values
    back from the device, or depend on anything that changes in Python from step to step."""
    cpu_only: ClassVar[bool] = False
    """Whether the raw signal needs the CPU engine: building on a GPU then raises ``OptionError``."""

    units: ClassVar[Mapping[str, str]] = {}
    """Unit of each field of a reading ("value" for a plain tensor), as plots show it. Numbers have none."""

    # -- hooks of the sensor ------------------------------------------------------------------------------------------

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        """Add the engine's elements (sites, sensors) that the raw signal needs to the scene."""

    def _describe(self) -> dict[str, str]:
        """Return column -> text that replaces the default entries of ``scene.describe()``."""
        return {}

    def _plotted_unit(self, field: str) -> str:
        """Return the unit of a field in plots, "" if it has none."""
        return self.units.get(field, "")

    def _plotted_names(self, field: str) -> Sequence[str]:
        """Return the names of the columns of a field in plots; other numbers of columns are numbered."""
        return ("w", "x", "y", "z") if field == "quat" else ("x", "y", "z")

    def _plotted_pictures(
        self, measured: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]
    ) -> Sequence[Picture]:
        """Return the pictures of one reading of one env; none if lines and bars of the fields show it.

        Args:
            measured: field of the reading ("value" for a plain tensor) -> values.
            truth: the same of ground truth.
        """
        return ()

    def _sources(self) -> list[SignalSource] | None:
        """Return the engine's signal behind each intermediate column; None if the class computes its raw signal."""
        return None

    def _get_return_format(self) -> Format:
        raise TypeError(f"{type(self).__name__} must define _get_return_format")

    def _get_intermediate_format(self) -> Format:
        return self._get_return_format()

    def _channels(self) -> dict[str, slice]:
        """Return channel of the options -> intermediate columns that its imperfections act on; "" is the main one."""
        if not self.keeps_columns:
            return {}
        return {"": slice(0, n_columns(self._get_intermediate_format()))}

    def _mixed_parts(self) -> list[slice]:
        """Return the groups of three columns that have an axis matrix."""
        return self._parameters.axis_columns()

    def _extra_parts(self) -> list[slice]:
        """Return the columns with memory for the imperfections from ``scale_error`` on."""
        return self._parameters.extra_columns()

    def _filter_order(self) -> int:
        return int(getattr(self.options, "filter_order", 2))

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        """Return further parameters: name -> (kind, columns); kind "custom" stores it in ``group.parameters``."""
        return {}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        """Return name and value of the generic parameter that an option sets."""
        return name, value

    def _memory_per_env(self) -> tuple[int, int, int]:
        """Return the number of values of a reading, their bytes, and the bytes per env besides delay and history."""
        if not self.keeps_columns:
            return 0, 0, 0
        values, columns = n_columns(self._get_return_format()), n_columns(self._get_intermediate_format())
        # beside ground truth and reading, each column has seven parameters and a random walk
        extra = {column for part in self._extra_parts() for column in range(*part.indices(columns))}
        other = values * 8 + columns * 4 * 10 + len(extra) * 4 * len(EXTRA_NAMES) + _TIMING_BYTES
        return values, values * self._get_cache_dtype().itemsize, other

    # -- hooks of the class -------------------------------------------------------------------------------------------

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float32

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float32

    @classmethod
    def _build_group(cls, group: SensorGroup[Any]) -> Any:
        """Build what the hooks of the class need, once, at the end of build. The result becomes ``group.backend``."""
        return None

    @classmethod
    def _reset_group(cls, group: SensorGroup[Any], mask: torch.Tensor) -> None:
        """Reset the class's own state of the envs in ``mask`` (B,); ``group.state`` tensors are already reset."""

    @classmethod
    def _update_shared_cache(cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        """Fill both branches of all sensors of the class, each (columns, B), for this step."""
        raise TypeError(f"{cls.__name__} must define _update_shared_cache, or derive from SimpleSensor")

    @classmethod
    def _post_process(cls, group: SensorGroup[Any], data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        """Fill ``out`` (return columns, B) from ``data`` (columns, B).

        When it is called, ``out`` holds the previous output of this branch, so that a class can filter its output. In a
        reset, the envs that are reset start at rest: there ``out`` holds ``data``, or 0 if the formats differ.

        The measured branch acts on samples: where no sample is due, ``out`` and the states are restored after the call.
        """
        out.copy_(data)

    @classmethod
    def _apply_delay(cls, group: SensorGroup[Any], ring: Slots, out: torch.Tensor) -> None:
        """Fill ``out`` (return columns, B) with what is read now; ``ring.at(k)`` is the snapshot of k ticks ago.

        The default fills it with the newest sample that has arrived.
        """
        group.serve(out)

    @classmethod
    def _overrides(cls, *hooks: str) -> bool:
        """Return whether this class replaces any of these hooks."""
        for hook in hooks:
            own = _function(getattr(cls, hook, None))
            defaults = [
                base.__dict__[hook] for base in cls.__mro__ if base.__dict__.get("_base") and hook in base.__dict__
            ]
            if own is not None and not any(own is _function(default) for default in defaults[:1]):
                return True
        return False

    _base: ClassVar[bool] = True


def _function(hook: Any) -> Any:
    """Return the function behind a hook, which is a class method or a plain method."""
    return getattr(hook, "__func__", hook)
