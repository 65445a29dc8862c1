"""Tables of options: name, type, unit, default and description of each field of an options class."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sphinx.pycode import ModuleAnalyzer

from sensorium import Options

UNITS = [
    "°C",
    "K",
    "Pa",
    "hPa",
    "T",
    "µT",
    "V",
    "A",
    "W",
    "W/K",
    "A·h",
    "ohm",
    "Ω",
    "Hz",
    "1/s",
    "rad",
    "deg",
    "degrees",
    "radians",
    "metres",
    "seconds",
    "pixels",
    "rad/s",
    "rad/s²",
    "m",
    "m²",
    "m³",
    "mm",
    "µm",
    "nm",
    "m/s",
    "m/s²",
    "s",
    "ms",
    "µs",
    "kg",
    "kg/m³",
    "g",
    "N",
    "N·m",
    "N/m",
    "N/mm",
    "mm/h",
    "J",
    "J/K",
    "lux",
    "EV",
    "dB",
    "1/m",
    "W/m²",
    "W/(m·K)",
    "J/(kg·K)",
    "%",
    "bytes",
    "MB",
    "steps",
]
UNIT = re.compile(
    r"(?:,| in|\() ?(?P<unit>"
    + "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
    + r")(?=[.,:;)]| each| per (?:env|axis)|$)"
)
"""A unit as docstrings of options state it: "Latency from capture to arrival, s." or "Mass in kg."."""
SHORT = {"metres": "m", "seconds": "s", "radians": "rad", "degrees": "°", "deg": "°"}


def unit_of(text: str) -> str:
    """Return the unit that the description of an option states in its first sentence, or nothing."""
    first = re.split(r"(?<=\.) (?=[A-Z`])|(?<=\.)$", text.strip(), maxsplit=1)[0]
    found = UNIT.search(first)
    return SHORT.get(found["unit"], found["unit"]) if found else ""


def descriptions(options: type[Options]) -> dict[str, tuple[str, type[Options]]]:
    """Return the description of each option and the class that declares it."""
    found: dict[str, tuple[str, type[Options]]] = {}
    for cls in reversed([each for each in options.__mro__ if issubclass(each, Options)]):
        for (owner, name), lines in ModuleAnalyzer.for_module(cls.__module__).find_attr_docs().items():
            if owner == cls.__qualname__ and name in options.model_fields:
                found[name] = (" ".join(" ".join(lines).split()), cls)
    return found


def annotation_of(options: type[Options], name: str) -> str:
    """Return the annotation of an option as its class spells it."""
    for cls in options.__mro__:
        if issubclass(cls, Options):
            analyzer = ModuleAnalyzer.for_module(cls.__module__)
            analyzer.analyze()
            if text := analyzer.annotations.get((cls.__qualname__, name)):
                return re.sub(r"\s+", " ", text)
    return str(options.model_fields[name].annotation)


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
