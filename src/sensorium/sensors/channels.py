"""Channels of a sensor's options, and the short form of their names.

A channel is a field of type :class:`~sensorium.pipeline.Imperfections`, e.g. ``IMU.acc``. Each of its fields has a
short form, ``acc_noise`` for ``acc.noise``, in constructors, ``sensor.set(...)``, YAML files and presets. This module
is the only place that makes or reads short forms.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.pipeline.imperfections import Imperfections


class ShortForm(NamedTuple):
    """Target of a short form: ``options.<channel>.<field>``."""

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
    forms, or by a value and short forms for other fields. A value replaces the default of the channel. Short forms
    alone keep the other fields of the default.

    Raises:
        OptionError: a field was given twice, or its value is not allowed; names the option as it was given.
    """
    rest = dict(values)
    short = {name: form for name, form in short_forms(options).items() if name in rest}
    for channel, kind in channels(options).items():
        flat = {form.field: rest.pop(name) for name, form in short.items() if form.channel == channel}
        owner = f"{options.__name__}.{channel}"
        if channel in rest:
            fields = _set_fields(owner, rest[channel])
            for field in sorted(fields.keys() & flat.keys()):
                raise _set_twice(options, channel, field)
            rest[channel] = _make(kind, fields | flat, owner, flat.keys())
        elif flat:
            rest[channel] = _default(options, channel) | _make(kind, flat, owner, flat.keys())
    return rest


def unfold(options: type[Options], values: Mapping[str, object]) -> dict[str, object]:
    """Return parameters for ``set`` with every channel replaced by the short forms of the fields that it sets.

    Raises:
        OptionError: a field was given twice, or a channel is neither Imperfections nor a mapping.
    """
    flat = {name: value for name, value in values.items() if name not in channels(options)}
    for channel in [name for name in values if name in channels(options)]:
        for field, value in _set_fields(f"{options.__name__}.{channel}", values[channel]).items():
            if f"{channel}_{field}" in flat:
                raise _set_twice(options, channel, field)
            flat[f"{channel}_{field}"] = value
    return flat


def signature(options: type[Options], unavailable: Collection[str]) -> inspect.Signature:
    """Return the constructor's signature with the short forms of all channels, typed, for completion and ``help()``."""
    kinds: dict[str, tuple[object, object]] = {
        name: (field.annotation, field.get_default(call_default_factory=True))
        for name, field in options.model_fields.items()
    }
    for name, form in short_forms(options).items():
        field = channels(options)[form.channel].model_fields[form.field]
        kinds[name] = (field.annotation, getattr(_default(options, form.channel), form.field, field.default))
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


def _default(options: type[Options], channel: str) -> Imperfections:
    """Return the default of a channel; no imperfections if the channel has none."""
    default = options.model_fields[channel].get_default(call_default_factory=True)
    return default if isinstance(default, Imperfections) else channels(options)[channel]()


def _set_fields(owner: str, channel: object) -> dict[str, object]:
    """Return field -> value of the fields that the value of a channel sets."""
    if isinstance(channel, Imperfections):
        return {name: getattr(channel, name) for name in type(channel).model_fields if name in channel.model_fields_set}
    if isinstance(channel, Mapping):
        return dict(channel)
    raise OptionError(f"{owner} must be sn.Imperfections or a mapping of its fields, got {channel!r}")


def _set_twice(options: type[Options], channel: str, field: str) -> OptionError:
    return OptionError(f"{options.__name__}: set {channel}.{field} or {channel}_{field}, not both")


def _make(kind: type[Imperfections], fields: Mapping[str, Any], owner: str, flat: Collection[str]) -> Imperfections:
    """Construct a channel; errors name its options as the user wrote them, those in ``flat`` by short forms."""

    def rename(match: re.Match[str]) -> str:
        field = match[1] or ""
        return f"{owner}_{field}" if field in flat else f"{owner}.{field}".removesuffix(".")

    try:
        return kind(**fields)
    except OptionError as error:
        text = re.sub(rf"^{kind.__name__}\b(?:\.(\w+))?", rename, str(error), flags=re.MULTILINE)
    raise OptionError(text)
