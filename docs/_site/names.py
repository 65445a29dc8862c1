"""The public names of the package, and the one name under which the reference documents each of them."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

from sphinx.pycode import ModuleAnalyzer

import sensorium

SOURCE = Path(sensorium.__file__).parent

PACKAGES = (
    "",
    "worlds",
    "tree",
    "pipeline",
    "sensors",
    "presets",
    "units",
    "cameras",
    "suites",
    "robots",
    "scenarios",
    "tasks",
    "policies",
    "recording",
    "datasets",
    "generation",
    "entities",
    "training",
    "fit",
    "ros",
    "logs",
    "deploy",
    "doctor",
    "viewer",
    "testing",
    "errors",
)
"""Packages and modules with public names, below ``sensorium``. A name that several export belongs to the first."""


def import_package(name: str) -> ModuleType:
    """Return the package ``sensorium.NAME``, or ``sensorium`` for an empty name."""
    return importlib.import_module(f"sensorium.{name}".rstrip("."))


@functools.cache
def documented() -> dict[str, object]:
    """Return the objects of the reference by their full names, such as ``sensorium.IMU``."""
    found: dict[str, object] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        module = import_package(package)
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType) or name == "__version__":
                continue
            if isinstance(value, type) or inspect.isroutine(value):
                if id(value) in seen:
                    continue
                seen.add(id(value))
            found[f"{module.__name__}.{name}"] = value
    return found


@functools.cache
def canonical_names() -> dict[int, str]:
    """Return the documented name of each public class and function, by its identity."""
    return {id(value): name for name, value in documented().items() if isinstance(value, type) or callable(value)}


@functools.cache
def short_names() -> dict[str, str]:
    """Return the documented names by their last part, where that is unique: "SceneOptions" and so on."""
    names = [name.rpartition(".")[2] for name in documented()]
    return {short: name for short, name in zip(names, documented(), strict=True) if names.count(short) == 1}


def constant_docstring(name: str, package: str = "sensorium") -> list[str]:
    """Return the lines of the docstring below the definition of a public constant.

    Files of the package that exports it are searched first: others may have a constant of the same name.
    """
    folder = SOURCE.parent.joinpath(*package.split("."))
    for file in sorted(SOURCE.rglob("*.py"), key=lambda file: (not file.is_relative_to(folder), file)):
        if re.search(rf"^{name}\b.*=", file.read_text(encoding="utf-8"), re.MULTILINE):
            module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
            if lines := ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name)):
                return lines
    return []


@functools.cache
def resolve(target: str) -> str | None:
    """Return the documented name of a dotted path, such as ``sensorium.IMU`` for ``sensorium.sensors.robot.imu.IMU``.

    Members keep their own name: ``sensorium.worlds.scene.Scene.step`` is ``sensorium.Scene.step``.
    """
    parts = target.split(".")
    for split in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        for index, name in enumerate(parts[split:], split):
            try:
                value = inspect.getattr_static(value, name) if isinstance(value, type) else getattr(value, name)
            except AttributeError:
                return None
            if id(value) in canonical_names():
                return ".".join([canonical_names()[id(value)], *parts[index + 1 :]])
        return None
    return None
