"""Channels of a sensor's options, and the short form of their names.

A channel is a field of type :class:`~sensorium.pipeline.Imperfections`, e.g. ``IMU.acc``. Each of its fields has a
short form, ``acc_noise`` for ``acc.noise``, in constructors, ``sensor.set(...)``, YAML files and presets. This module
is the only place that makes or reads short forms.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.pipeline.imperfections import Imperfections


class ShortForm(NamedTuple):
    """Where the value of a short form belongs: ``options.<channel>.<field>``."""

    channel: str
    field: str


@cache
def channels(options: type[Options]) -> dict[str, type[Imperfections]]:
    """Return channel -> class of its imperfections, for the fields of an options class that are channels."""
    kinds = {name: field.annotation for name, field in options.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Imperfections)}


@cache
def short_forms(options: type[Options]) -> dict[str, ShortForm]:
    """Return short form -> channel and field, for all channels of an options class."""
    return {
        f"{channel}_{field}": ShortForm(channel, field)
        for channel, kind in channels(options).items()
        for field in kind.model_fields
    }


def fold(options: type[Options], values: Mapping[str, object]) -> dict[str, object]:
    """Return constructor arguments with the short forms moved into values of their channels.

    A channel can be given as :class:`~sensorium.pipeline.Imperfections`, as a mapping (from YAML or JSON), by short
    forms, or by a value and short forms for other fields.

    Raises:
        OptionError: a field was given twice, or its value is not allowed; names the option as it was given.
    """
    rest = dict(values)
    short = {name: form for name, form in short_forms(options).items() if name in rest}
    for channel, kind in channels(options).items():
        flat = {form.field: rest.pop(name) for name, form in short.items() if form.channel == channel}
        given = rest.get(channel)
        if isinstance(given, Imperfections):
            fields = {name: getattr(given, name) for name in given.model_fields_set}
        elif isinstance(given, Mapping):
            fields = dict(given)
        elif given is None and channel not in rest:
            if not flat:
                continue
            fields = {}
        else:
            raise OptionError(
                f"{options.__name__}.{channel} must be sn.Imperfections or a mapping of its fields, got {given!r}"
            )
        twice = sorted(fields.keys() & flat.keys())
        if twice:
            raise OptionError(f"{options.__name__}: set {channel}.{twice[0]} or {channel}_{twice[0]}, not both")
        rest[channel] = _make(kind, fields | flat, f"{options.__name__}.{channel}", flat.keys())
    return rest


def unfold(options: type[Options], values: Mapping[str, object]) -> dict[str, object]:
    """Return parameters for ``set`` with every channel that is given as Imperfections replaced by its short forms."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        if name in channels(options) and isinstance(value, Imperfections):
            flat |= {f"{name}_{field}": getattr(value, field) for field in value.model_fields_set}
        else:
            flat[name] = value
    return flat


def signature(options: type[Options], unavailable: Collection[str]) -> inspect.Signature:
    """Return the constructor's signature with the short forms of all channels, typed, for completion and ``help()``."""
    kinds: dict[str, tuple[object, object]] = {
        name: (field.annotation, field.get_default(call_default_factory=True))
        for name, field in options.model_fields.items()
    }
    for name, form in short_forms(options).items():
        field = channels(options)[form.channel].model_fields[form.field]
        kinds[name] = (field.annotation, field.default)
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if repr(default) == "PydanticUndefined" else default,
            annotation=annotation,
        )
        for name, (annotation, default) in kinds.items()
        if name not in unavailable
    ]
    return inspect.Signature(parameters)


def _make(kind: type[Imperfections], fields: Mapping[str, Any], owner: str, flat: object) -> Imperfections:
    """Construct a channel; errors name its options as the user wrote them."""
    try:
        return kind(**fields)
    except OptionError as error:
        separator = "_" if flat else "."
        text = str(error).replace(f"{kind.__name__}.", f"{owner}{separator}").replace(f"{kind.__name__}:", f"{owner}:")
    raise OptionError(text.replace(f"{kind.__name__} has no option", f"{owner} has no option"))
