"""Tables of options: name, type, unit, default and description of each field of an options class."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, get_args, get_origin

from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

from sensorium import Options

UNITS = {
    *("m", "m²", "m³", "mm", "µm", "nm", "metres", "rad", "deg", "degrees", "radians", "pixels"),
    *("s", "ms", "µs", "seconds", "Hz", "1/s", "1/m", "m/s", "m/s²", "rad/s", "rad/s²", "mm/h", "steps"),
    *("kg", "kg/m³", "g", "N", "N·m", "N/m", "N/mm", "N·s/m", "N·m/rad", "Pa", "hPa", "J", "W"),
    *("°C", "K", "W/K", "J/K", "W/m²", "W/(m·K)", "W/(m²·K)", "J/(kg·K)"),
    *("V", "A", "A·h", "ohm", "Ω", "T", "µT", "lux", "EV", "dB", "%", "bytes", "MB"),
}
_ONE = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_ANY = rf"(?:{_ONE})(?: or (?:{_ONE}))?"
UNIT = re.compile(rf"(?:, ?|\()({_ANY})(?=[.,:;)]|$)|\bin ({_ANY})(?=[.,:;)]|$| (?:of|about|below|and|each)\b)")
"""A unit as docstrings of options state it: "Latency from capture to arrival, s." or "Mass in kg."."""
SHORT = {"metres": "m", "seconds": "s", "radians": "rad", "degrees": "°", "deg": "°"}


def unit_of(text: str) -> str:
    """Return the unit that the description of an option states in its first sentence, or nothing."""
    first = re.split(r"(?<=\.) (?=[A-Z`])|(?<=\.)$", text.strip(), maxsplit=1)[0]
    found = UNIT.search(first)
    unit = (found[1] or found[2]) if found else ""
    return SHORT.get(unit, unit)


def descriptions(options: type[Options]) -> dict[str, tuple[str, type[Options]]]:
    """Return the description of each option and the class that declares it."""
    found: dict[str, tuple[str, type[Options]]] = {}
    for cls in reversed([each for each in options.__mro__ if issubclass(each, Options)]):
        for (owner, name), lines in ModuleAnalyzer.for_module(cls.__module__).find_attr_docs().items():
            if owner == cls.__qualname__ and name in options.model_fields:
                found[name] = (" ".join(" ".join(lines).split()), cls)
    return found


def annotation_of(options: type[Options], name: str) -> str:
    """Return the annotation of an option as its class spells it, with aliases such as ``Quality`` spelled out."""
    for cls in options.__mro__:
        if issubclass(cls, Options):
            analyzer = ModuleAnalyzer.for_module(cls.__module__)
            analyzer.analyze()
            text = analyzer.annotations.get((cls.__qualname__, name))
            if text and "Annotated" not in text:
                spell_out = functools.partial(_spell_out, vars(sys.modules[cls.__module__]))
                return re.sub(r"\b_?[A-Z]\w+\b", spell_out, re.sub(r"\s+", " ", text))
    return _short(options.model_fields[name].annotation)


def _spell_out(known: Mapping[str, object], word: re.Match[str]) -> str:
    """Return what an alias of a module stands for; the name itself for classes and for names of ``typing``."""
    value = known.get(word[0])
    is_alias = get_origin(value) is not None or isinstance(value, UnionType)
    return _short(value) if is_alias else word[0]


def _short(annotation: object) -> str:
    """Return an annotation as text without the names of modules and without validators."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    text = stringify_annotation(annotation, "smart")
    text = re.sub(r"~(?:\w+\.)*", "", text)
    while (plain := re.sub(r"Annotated\[((?:[^\[\],]|\[[^\[\]]*\])+), [^\[\]]*\]", r"\1", text)) != text:
        text = plain
    return text


def default_of(options: type[Options], name: str) -> str:
    """Return the default of an option as code, or "required"."""
    field = options.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Options):
        given = ", ".join(f"{key}={getattr(value, key)!r}" for key in value.model_fields_set)
        return f"``{type(value).__name__}({given})``"
    text = repr(value)
    return f"``{text}``" if len(text) <= 60 else f"``{text[:57]}...``"


def table(options: type[Options]) -> Iterator[str]:
    """Yield the reStructuredText lines of the tables of a class: its own options, then those it inherits, by class."""
    described = descriptions(options)
    unavailable = getattr(options, "unavailable", {})
    groups: dict[type[Options], list[str]] = {options: []}
    for name in options.model_fields:
        if name in described and name not in unavailable:
            groups.setdefault(described[name][1], []).append(name)
    for cls, names in groups.items():
        if not names:
            continue
        title = "Options" if cls is options else f"Options of :class:`~{cls.__module__}.{cls.__qualname__}`"
        yield from ("", f".. rubric:: {title}", "", ".. list-table::", "   :header-rows: 1", "   :class: options", "")
        yield from _row("option", "type", "unit", "default", "description")
        for name in names:
            text = described[name][0]
            annotation = f"``{annotation_of(options, name)}``"
            yield from _row(f"``{name}``", annotation, unit_of(text), default_of(options, name), text)
        yield ""


def _row(*cells: str) -> Iterator[str]:
    for index, cell in enumerate(cells):
        yield f"   {'* -' if index == 0 else '  -'} {cell}".rstrip()
