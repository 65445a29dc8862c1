"""Paths that cannot be used: tests/fuzz_calls.py gives them to every public argument that takes a path."""

import inspect
import os
from collections.abc import Callable, Collection
from pathlib import Path

PATHS = {
    "a file": "file{}",
    "a folder": "folder{}",
    "a FIFO": "fifo{}",
    "below a file": "file/name{}",
    "below a FIFO": "fifo/new/name{}",
    "below a device": "/dev/full/name{}",
    "no room for a suffix": f"new/{'x' * 240}{{}}",
    "a long name": f"new/{'x' * 300}{{}}",
    "a deep folder": f"{'x/' * 3000}name{{}}",
    "a surrogate": "new/\ud800{}",
    "not UTF-8": "new/name\udce9{}",
    "a NUL": "new/no\0name{}",
}
"""Name -> path, with a place for the suffix that the argument asks for. A FIFO stands for devices: as root, a fault
would replace a device of the system."""
SUFFIXES = {
    "Scene.snapshot": (".png",),
    "fit.report": (".html", ".pdf"),
    "training.export_policy": (".onnx",),
    "doctor.compare": (".mcap", ".urdf", ".xml", ".yaml"),
    "doctor.examine": (".mcap", ".onnx"),
    "logs.read": (".mcap",),
    "datasets.open": (".mcap",),
}
"""Name of a callable -> suffixes of the files of its arguments; see :func:`suffixes_of` for the others."""
_BY_WORD = {
    "plot": (".png", ".nonesuch", ""),
    "snapshot": (".png",),
    "yaml": (".yaml",),
    "twin": (".yaml",),
    "presets": (".yaml",),
    "cameras": (".yaml", ".json"),
    "rofile": (".json",),
    "sensors": (".py", ".json", ".yaml"),
    "Rig": (".yaml",),
    "map": (".yaml",),
    "Map": (".yaml",),
    "robots": (".urdf", ".xml", ".yaml"),
    "Robot": (".urdf", ".xml"),
    "deploy": (".onnx",),
    "Checkpoint": (".pt",),
    "Environment": (".png",),
}
"""Part of the name of a callable -> suffixes."""


def suffixes_of(target: str) -> tuple[str, ...]:
    """Return the suffixes of the files that a callable takes; that of a folder is empty."""
    return SUFFIXES.get(target) or next((each for word, each in _BY_WORD.items() if word in target), ("",))


def path_arguments(function: Callable[..., object]) -> list[str]:
    """Return the names of the arguments that take paths."""
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if "Path" in str(one.annotation)]


def paths_for(target: str) -> dict[str, str]:
    """Return name -> path that cannot be used, for a callable."""
    return {
        f"{name} {suffix}".strip(): path.format(suffix)
        for suffix in suffixes_of(target)
        for name, path in PATHS.items()
    }


def make_files(suffixes: Collection[str]) -> None:
    """Make the files that :data:`PATHS` names, in the working folder."""
    for suffix in {"", *suffixes}:
        Path(f"file{suffix}").write_bytes(b"no data")
        Path(f"folder{suffix}").mkdir()
        Path(f"folder{suffix}", "other").write_bytes(b"")
        os.mkfifo(f"fifo{suffix}")


def listing() -> dict[str, object]:
    """Return path -> content of everything below the working folder, to see what a call left behind."""
    found = (path for path in Path().rglob("*") if path.name != "MUJOCO_LOG.TXT")  # warnings of MuJoCo itself
    return {str(path): path.read_bytes() if path.is_file() else None for path in found}
