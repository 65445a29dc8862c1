"""Checks of sensor classes: that their hooks are class methods or methods as required, take the arguments that the
pipeline passes, and describe readings that can be stored.

Mistakes in a class would otherwise fail silently (a misspelt hook never runs) or far from their cause. Hooks are
checked when the class is declared, the options of a sensor when it is created, and formats and dtypes at build.
"""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any, Generic

import torch

from sensorium.errors import OptionError, did_you_mean
from sensorium.pipeline.imperfections import Imperfections
from sensorium.pipeline.storage import EXACT_DTYPES, INTERMEDIATE_DTYPES
from sensorium.sensors.channels import channels
from sensorium.sensors.hooks import SensorHooks
from sensorium.tree import Module

if TYPE_CHECKING:
    from sensorium.sensors.base import Sensor
    from sensorium.sensors.options import SensorOptions

_SIMILARITY = 0.8
"""Similarity, from 0 to 1, from which a private method counts as a misspelt hook."""
_VERBS = ("_update_", "_apply_", "_get_")
"""How hooks begin; a private method that lacks only the verb counts as a misspelt hook."""
_PLAIN_BASES = (*Module.__mro__, Generic)
"""Bases of every sensor class that have nothing to do with hooks."""
_RING_OPTIONS = ("delay", "jitter", "max_delay", "interpolate", "history_length", "substeps")
"""Options that need a ring or a history."""
_RAW_HOOKS = ("_sources", "_update_raw_data", "_update_current_timestep_data", "_update_shared_cache")
"""Hooks of which a class must define one."""


# -- when a class is declared ------------------------------------------------------------------------------------------


def check_class(cls: type[Any]) -> None:
    """Check the hooks that a class, or a mixin of it, defines.

    Args:
        cls: the sensor class.

    Raises:
        OptionError: a hook is misspelt, of the wrong kind, or has the wrong parameters.
    """
    depth = cls.timeline_depth
    if not isinstance(depth, int) or isinstance(depth, bool) or depth < 2:
        raise OptionError(
            f"{cls.__name__}.timeline_depth must be an integer >= 2, the ticks that a timeline holds; got {depth!r}"
        )
    hooks = _hooks(cls)
    framework = [base for base in cls.__mro__[1:] if issubclass(base, SensorHooks) or base in _PLAIN_BASES]
    known = {name for base in framework for name in base.__dict__}
    for base in [cls, *(base for base in cls.__mro__[1:] if base not in framework)]:  # the class, and its mixins
        for name, value in _methods(base).items():
            if name in hooks:
                _check_kind(cls, name, value, hooks[name])
                _check_parameters(cls, name, value, hooks[name])
            elif name not in known:
                _check_spelling(cls, name, hooks)
        for name in (one for one in base.__dict__ if f"_{one}" in hooks and one not in known):
            raise OptionError(f"{cls.__name__}.{name} is not a hook, so it would never run; did you mean '_{name}'?")


def _hooks(cls: type[Any]) -> dict[str, Any]:
    """Return hook -> default: a function or class method, as in the ``__dict__`` of the base class that defines it."""
    defaults: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__dict__.get("_base"):
            defaults |= _methods(base)
    return {name: default for name, default in defaults.items() if name != "_overrides"}


def _methods(cls: type[Any]) -> dict[str, Any]:
    """Return the private methods that a class itself defines."""
    return {
        name: value
        for name, value in cls.__dict__.items()
        if name.startswith("_")
        and not name.startswith("__")
        and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property))
    }


def _check_spelling(cls: type[Any], name: str, hooks: dict[str, Any]) -> None:
    without_verb = {f"_{hook.split('_', 2)[2]}": hook for hook in hooks if hook.startswith(_VERBS)}
    close = [without_verb.get(name), *difflib.get_close_matches(name, hooks, 1, _SIMILARITY)]
    meant = next((hook for hook in close if hook is not None), None)
    if meant is not None:
        raise OptionError(
            f"{cls.__name__}.{name} is not a hook, so it would never run; did you mean {meant!r}? If it is a helper "
            "method, give it a name that differs more from that hook"
        )


def check_custom_parameters(sensor: Sensor[Any]) -> dict[str, tuple[str, slice]]:
    """Return what the hook ``_custom_parameters`` of a sensor returns.

    Raises:
        OptionError: it is not option -> (kind, columns), or names an option that the sensor does not have.
    """
    found, owner = sensor._custom_parameters(), f"{type(sensor).__name__}._custom_parameters"
    shape = 'a dict of option -> ("custom", columns), for example {"threshold": ("custom", slice(0, 1))}'
    if not isinstance(found, dict):
        raise OptionError(f"{owner} must return {shape}, got {found!r}")
    for name, target in found.items():
        pair = target if isinstance(target, tuple) else ()
        if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], slice):
            raise OptionError(f"{owner} must return {shape}, got {target!r} for {name!r}")
        if name not in sensor.options.option_names():
            hint = did_you_mean(name, sensor.options.option_names())
            raise OptionError(f"{owner}: {type(sensor.options).__name__} has no option {name!r}{hint}")
    return found


def _check_kind(cls: type[Any], name: str, value: Any, default: Any) -> None:
    if isinstance(default, classmethod) and not isinstance(value, classmethod):
        raise OptionError(
            f"{cls.__name__}.{name} must be a class method, since it runs once for all sensors of the class: write "
            f"@classmethod above it, and cls as its first parameter"
        )
    if not isinstance(default, classmethod) and not inspect.isfunction(value):
        kind = type(value).__name__
        raise OptionError(
            f"{cls.__name__}.{name} must be a method of each sensor, got a {kind}: remove the decorator, and write "
            "self as its first parameter"
        )


def _check_parameters(cls: type[Any], name: str, value: Any, default: Any) -> None:
    expected = inspect.signature(getattr(default, "__func__", default))
    own = inspect.signature(getattr(value, "__func__", value))
    try:
        own.bind(*expected.parameters)
    except TypeError as error:
        given, needed = ", ".join(own.parameters), ", ".join(expected.parameters)
        raise OptionError(
            f"{cls.__name__}.{name} has the parameters ({given}), but the pipeline passes ({needed}): declare it as "
            f"def {name}({needed})"
        ) from error


# -- when a sensor is created ------------------------------------------------------------------------------------------


def check_options(sensor: Sensor[Any]) -> None:
    """Check that the class of a sensor is complete, and provides what its options ask for.

    Raises:
        OptionError: a required hook is missing, or an option needs what the class does not have.
    """
    cls, options = type(sensor), sensor.options
    if not cls.keeps_columns:
        return
    if not cls._overrides("_get_return_format"):
        raise OptionError(
            f"{cls.__name__} must define _get_return_format: return the shape of a reading without B, such as (3,)"
        )
    if not cls._overrides(*(name for name in _RAW_HOOKS if hasattr(cls, name))):
        raise OptionError(
            f"{cls.__name__} has no signal, so its readings would be 0: define _update_raw_data (or _sources) in a "
            "SimpleSensor, or _update_shared_cache"
        )
    if not cls.uses_ring_pipeline:
        _check_without_rings(cls, options)
    if cls._get_intermediate_dtype() in EXACT_DTYPES:
        for name in _imperfections_set(sensor):
            raise no_imperfections(sensor, name)
        if getattr(options, "window", "instant") == "mean":
            raise OptionError(
                f"{cls.options_type.__name__}.window: signals of dtype {cls._get_intermediate_dtype()} cannot be "
                'averaged; use window="instant", or compute in float32 and convert in _post_process'
            )


def _check_without_rings(cls: type[Any], options: Any) -> None:
    if cls._overrides("_apply_delay"):
        raise OptionError(
            f"{cls.__name__} overrides _apply_delay, which needs rings, but has uses_ring_pipeline = False; remove one"
        )
    for name in _RING_OPTIONS:
        value = getattr(options, name)
        if value != type(options).model_fields[name].default and value not in (0, None):
            raise OptionError(
                f"{cls.options_type.__name__}.{name}={value!r} needs a ring of past readings, which the class does not "
                f"have ({cls.__name__}.uses_ring_pipeline is False); omit the option, or set uses_ring_pipeline = True "
                "in the class"
            )


def _imperfections_set(sensor: Sensor[Any]) -> list[str]:
    """Return the imperfections that options set to another value than the default, as options."""
    options, found = sensor.options, []
    options_type: type[SensorOptions] = type(options)
    for channel in ("", *channels(options_type)):
        values = getattr(options, channel) if channel else options
        if isinstance(values, Imperfections):
            changed = [
                name
                for name, field in Imperfections.model_fields.items()
                if name in values.model_fields_set and getattr(values, name) != field.default
            ]
            found += [f"{channel}_{name}" if channel else name for name in changed]
    return found


def no_imperfections(sensor: Sensor[Any], option: str) -> OptionError:
    """Return the error of an imperfection that is set for a class of integers or booleans."""
    cls = type(sensor)
    return OptionError(
        f"{cls.options_type.__name__}.{option}: imperfections do not act on signals of dtype "
        f"{cls._get_intermediate_dtype()}; omit the option, or let {cls.__name__} compute in float32 and convert in "
        "_post_process"
    )


# -- at build ----------------------------------------------------------------------------------------------------------


def check_format(sensor: Sensor[Any]) -> None:
    """Check the formats, ``Data`` and dtypes of a sensor.

    Raises:
        OptionError: they are invalid, or contradict each other.
    """
    cls = type(sensor)
    for hook in ("_get_return_format", "_get_intermediate_format"):
        layout = getattr(sensor, hook)()
        shapes = layout if isinstance(layout, dict) else {"": layout}
        for field, shape in shapes.items():
            where = f"{cls.__name__}.{hook}" + (f" of field {field!r}" if field else "")
            _check_shape(where, shape)
        if not shapes:
            raise OptionError(f"{cls.__name__}.{hook} returned an empty dict; return field -> shape, or a shape")
    _check_data(cls, sensor._get_return_format())
    dtype = cls._get_intermediate_dtype()
    if dtype not in INTERMEDIATE_DTYPES:
        allowed = ", ".join(str(one).removeprefix("torch.") for one in INTERMEDIATE_DTYPES)
        raise OptionError(f"{cls.__name__}._get_intermediate_dtype must be one of {allowed}; got {dtype}")
    returned = cls._get_cache_dtype()
    if (
        not isinstance(returned, torch.dtype)
        or returned.is_complex
        or (returned.itemsize == 1 and returned.is_floating_point)
    ):
        raise OptionError(
            f"{cls.__name__}._get_cache_dtype must be a real torch dtype of at least 16 bits, or an integer or bool "
            f"dtype; got {returned}"
        )


def _check_shape(where: str, shape: Any) -> None:
    is_shape = isinstance(shape, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in shape)
    if not is_shape or not shape or any(n < 1 for n in shape):
        hint = "use (1,) for a scalar" if shape == () else "for several tensors, return a dict of field -> shape"
        raise OptionError(
            f"{where} must be a tuple of integers >= 1 such as (3,), the shape of a reading without B; got {shape!r}. "
            f"{hint[0].upper()}{hint[1:]}"
        )


def _check_data(cls: type[Any], layout: Any) -> None:
    fields = getattr(cls.Data, "_fields", None)
    if not isinstance(layout, dict):
        return
    if fields is None and inspect.isfunction(cls.Data):  # a factory of named tuples
        return
    if fields is None:
        raise OptionError(
            f"{cls.__name__}._get_return_format returns fields ({', '.join(layout)}), but {cls.__name__}.Data is "
            f"{'not set' if cls.Data is None else 'no NamedTuple'}: write a typing.NamedTuple with these fields, and "
            "set Data to it"
        )
    if tuple(fields) != tuple(layout):
        raise OptionError(
            f"{cls.__name__}.Data has the fields ({', '.join(fields)}), but _get_return_format returns "
            f"({', '.join(layout)}): give both the same fields in the same order"
        )
