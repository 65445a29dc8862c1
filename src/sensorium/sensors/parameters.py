"""``SensorParameters``: the options of a sensor that ``set`` can change at run time, and the columns they act on."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch

from sensorium.errors import OptionError, did_you_mean
from sensorium.pipeline.imperfections import TWINS, Imperfections
from sensorium.pipeline.parameters import EXTRA_OPTIONS, LIVE_PARAMETERS, Write, broadcast, check
from sensorium.pipeline.storage import EXACT_DTYPES
from sensorium.pipeline.timing import LIVE_TIMING
from sensorium.sensors.channels import channels, short_forms, unfold
from sensorium.sensors.class_checks import check_custom_parameters, no_imperfections
from sensorium.sensors.data_sheet import FIELDS, Channel, DataSheet
from sensorium.worlds import Envs, env_index

if TYPE_CHECKING:
    from sensorium.pipeline import SensorGroup, SensorManager
    from sensorium.sensors.base import Sensor

_TIMING = ("rate", "delay", "jitter", "dropout", "stuck")
_KERNEL_NAMES = {"noise_density": "input_noise", "bias_instability": "drift", "misalignment": "mix"}
"""Fields of Imperfections whose parameter in the kernels has another name."""


class Target(NamedTuple):
    """Parameter of the pipeline that an option sets, and the columns that it applies to."""

    kind: str
    """Parameter of the pipeline: a field of Imperfections, "mix" (axis matrix), a timing parameter, or "custom"."""
    columns: slice
    """Intermediate columns of the sensor."""


class SensorParameters:
    """The parameters of one sensor: their names, their targets, and their values as the pipeline takes them.

    Args:
        sensor: the sensor; its hooks ``_channels``, ``_custom_parameters`` and ``_translate`` define the parameters.
    """

    _data_sheet: DataSheet

    def __init__(self, sensor: Sensor[Any]) -> None:
        self._sensor = sensor
        self._options = type(sensor).options_type
        self._is_exact = type(sensor)._get_intermediate_dtype() in EXACT_DTYPES  # then it has no imperfections

    @property
    def names(self) -> list[str]:
        """Names of the options that ``set`` can change."""
        targets = self._targets()
        return [name for name in self._options.option_names() if name in targets]

    def target(self, name: str) -> Target:
        """Return the parameter of the pipeline that an option sets, and its columns.

        Raises:
            OptionError: there is no such option, it is fixed after build, or no memory was allocated for it.
        """
        targets = self._targets()
        if not isinstance(name, str):
            raise OptionError(f"{self._options.__name__}: a parameter must be a name, got {name!r:.80}")
        if name in targets:
            return targets[name]
        owner, names = self._options.__name__, self._options.option_names()
        if self._is_exact and name in (*Imperfections.model_fields, *short_forms(self._options), "temperature"):
            raise no_imperfections(self._sensor, name)
        if name not in names:
            settable = self.names
            hint = did_you_mean(name, settable) or f"; it has {', '.join(settable)}"
            raise OptionError(f"{owner}.{name} is not a parameter{hint}")
        if name.endswith(EXTRA_OPTIONS):
            raise OptionError(
                f"{owner}.{name} was not set at construction, so no memory is allocated for it; construct the sensor "
                f"with {name}=... (its default is allowed)"
            )
        raise OptionError(f"{owner}.{name} cannot be changed after build")

    def initial(self, manager: SensorManager) -> list[tuple[str, Any]]:
        """Return (name, value) of every parameter at build, as the pipeline takes them."""
        values, self._data_sheet = self._new_data_sheet(manager).changed(self._given(), None)
        return [self._sensor._translate(name, value) for name, value in values.items()]

    def spreads(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Return channel -> standard deviations of a sample's noise and of the drift, (axes,), as the options say."""
        manager = self._sensor._manager
        assert manager is not None, "spreads() needs a built scene"
        _, data_sheet = self._new_data_sheet(manager).changed(self._given(), None)
        return dict(zip(self._sensor._channels(), data_sheet.spreads(), strict=True))

    def _given(self) -> dict[str, Any]:
        """Return name -> value of the parameters that the options set."""
        options, targets = self._sensor.options, self._targets()
        given: dict[str, Any] = {}
        for channel in self._sensor._channels():
            imperfections = getattr(options, channel) if channel else options
            if isinstance(imperfections, Imperfections):
                given |= {_name(channel, field): value for field, value in imperfections.parameters().items()}
        given |= {name: getattr(options, name) for name in targets if name not in given}
        return {name: value for name, value in given.items() if name in targets and value is not None}

    def set(self, manager: SensorManager, envs: Envs, parameters: dict[str, Any]) -> dict[str, Any]:
        """Change parameters in some envs; returns them by their names, channels as short forms."""
        given = unfold(self._options, parameters)
        for name, value in given.items():
            if value is None and not self._can_unset(name):
                raise OptionError(f"{self._options.__name__}.{name} must be numbers, got None")
        targets = [(one.kind, one.columns.start, one.columns.stop) for one in map(self.target, given)]
        shared = [one for one in targets if one[0] != "custom" and one[0] not in _TIMING]
        twice = any(_twin(name) in given for name in given)
        if twice or len(set(shared)) < len(shared):
            raise OptionError(f"{self._options.__name__}: {', '.join(given)} set one parameter twice; set it once")
        index = env_index(envs, manager.world.n_envs, manager.world.device)
        converted, data_sheet = self._data_sheet.changed(given, index)
        values = dict(self._sensor._translate(name, value) for name, value in converted.items())
        manager.set(self._sensor, values, envs)
        self._data_sheet = data_sheet
        return given

    def custom_writes(
        self,
        group: SensorGroup[Any],
        position: int,
        name: str,
        option: str,
        value: object,
        index: torch.Tensor | None,
    ) -> list[Write]:
        """Return the write of a parameter of the class's own, stored in ``group.parameters[name]`` (values, B).

        Args:
            group: the group of the sensor.
            position: number of the sensor in it.
            name, option: name of the parameter, and how messages call it.
            value: see ``broadcast``.
            index: ids of the envs; None for all.
        """
        slices, options = group.parameter_slices(name), self._sensor.options
        target = group.parameters.setdefault(name, torch.zeros(slices[-1].stop, group.n_envs, device=group.device))
        n_envs = group.n_envs if index is None else len(index)
        rows = slices[position]
        values = check(option, broadcast(option, value, rows.stop - rows.start, n_envs))
        if values.device.type == "cpu":  # the option's own constraints hold for every value
            given = {each: getattr(options, each) for each in options.model_fields_set}
            is_vector = isinstance(getattr(options, name), Iterable)
            for bounds in (values.amin(1).tolist(), values.amax(1).tolist()):
                type(options)(**(given | {name: tuple(bounds) if is_vector else bounds[0]}))
        return [Write(target, rows, index, values, lambda: None)]

    def bind(self, manager: SensorManager, name: str) -> torch.Tensor:
        """Return the live values of an option, (B, columns)."""
        kind, columns = self.target(name)
        known = (*LIVE_PARAMETERS, *LIVE_TIMING)
        if name in ("delay", "jitter") and not self._sensor.max_delay > 0:
            owner = self._options.__name__
            raise OptionError(
                f"{owner}.{name}: no memory was allocated for a delay; construct the sensor with max_delay"
            )
        bindable = [each for each in self.names if self.target(each).kind in known and self._is_stored_as_given(each)]
        if name not in bindable:
            raise OptionError(
                f"{self._options.__name__}.{name} cannot be bound; these can: {', '.join(bindable)}. Use set() instead"
            )
        return manager.bind(self._sensor, kind, columns)

    def _is_stored_as_given(self, name: str) -> bool:
        """Return whether the pipeline stores the values of an option, not others that follow from them."""
        stored = self._sensor._translate(name, 1.0)[1]
        return isinstance(stored, float) and stored == 1.0

    def _new_data_sheet(self, manager: SensorManager) -> DataSheet:
        """Return the state before any option is set."""
        sensor, targets = self._sensor, self._targets()
        found = []
        for channel, columns in sensor._channels().items():
            names = {field: _name(channel, field) for field in FIELDS}
            own = {  # an option of the class may have the name of a field and another meaning
                field: name
                for field, name in names.items()
                if name in targets and targets[name] == Target(_KERNEL_NAMES.get(field, field), columns)
            }
            found.append(Channel(own, columns.stop - columns.start))
        ticks = 1 / sensor.group.dt
        default = ticks if sensor.options.substeps else 1 / manager.dt
        owner, n_envs = self._options.__name__, manager.world.n_envs
        return DataSheet(owner, n_envs, default, ticks, sensor._filter_order(), tuple(found))

    def extra_columns(self) -> list[slice]:
        """Return the columns of channels with memory for the imperfections from ``scale_error`` on."""
        options = self._sensor.options
        shared = "temperature" in options.model_fields_set
        found = []
        for channel, columns in self._sensor._channels().items():
            given = (getattr(options, channel) if channel else options).model_fields_set
            if shared or any(name in given for name in EXTRA_OPTIONS):
                found.append(columns)
        return found

    def axis_columns(self) -> list[slice]:
        """Return the columns of channels with an axis matrix."""
        kinds = channels(self._options)
        every = self._sensor._channels().items()
        return [columns for channel, columns in every if channel and "misalignment" in kinds[channel].model_fields]

    def _can_unset(self, name: str) -> bool:
        """Return whether an option takes None; of an unknown one :meth:`target` says so."""
        parameter = inspect.signature(self._options).parameters.get(name)
        return parameter is None or NoneType in get_args(parameter.annotation) or parameter.default is None

    def _targets(self) -> dict[str, Target]:
        found = {} if self._is_exact else self._sensor._channels()
        kinds = channels(self._options)
        extra = set() if self._is_exact else {(columns.start, columns.stop) for columns in self._sensor._extra_parts()}
        targets = {
            _name(channel, field): Target(_KERNEL_NAMES.get(field, field), columns)
            for channel, columns in found.items()
            for field in (kinds[channel].model_fields if channel else Imperfections.model_fields)
            if field not in EXTRA_OPTIONS or (columns.start, columns.stop) in extra
        }
        if extra:
            targets["temperature"] = Target("temperature", slice(0, max(columns.stop for columns in found.values())))
        targets |= {name: Target(name, slice(0, 0)) for name in _TIMING}
        targets |= {name: Target(*target) for name, target in check_custom_parameters(self._sensor).items()}
        return {name: targets[name] for name in self._options.option_names() if name in targets}


def _twin(name: str) -> str:
    """Return the option that sets the same parameter in another unit; "" if there is none."""
    for field, twin in TWINS.items():
        if name == field or name.endswith(f"_{field}"):
            return name.removesuffix(field) + twin
    return ""


def _name(channel: str, field: str) -> str:
    return f"{channel}_{field}" if channel else field
