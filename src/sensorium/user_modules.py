"""Python modules of the user: imported by the option that names them, never because of where a command runs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from sensorium.errors import OptionError

_files: dict[str, str] = {}
"""Name of a module that was imported from a file -> absolute path of the file."""


def import_modules(modules: Sequence[str]) -> None:
    """Import modules by file or by name, once per process.

    A name is looked up where Python finds installed packages. The working folder is not searched: a file in it is
    imported by its path.

    Args:
        modules: files ("my_tasks.py") or names ("my_package.tasks"). A file is imported under its name without suffix.

    Raises:
        OptionError: a module does not exist, or another module has its name. Errors of a module itself are raised as
            they are.
    """
    if isinstance(modules, str) or not isinstance(modules, Iterable):
        raise OptionError(f"modules must be a sequence of names or files, got {modules!r:.80}")
    for each in modules:
        if not isinstance(each, str) or not each or "\0" in each:
            raise OptionError(f"modules must be names or files, got {each!r:.80}")
        path = Path(each)
        name = path.stem if path.suffix == ".py" else each
        if name in sys.modules:
            file = getattr(sys.modules[name], "__file__", None)
            if path.suffix == ".py" and (file is None or Path(file).resolve() != path.resolve()):
                where = file or "built into Python"
                raise OptionError(f"modules: {each!r} has the name of a module that is imported ({where}); rename it")
            continue
        try:
            if path.suffix == ".py":
                _import_file(name, path)
            else:
                importlib.import_module(name)
        except SyntaxError as error:
            where = f"{error.filename or each}, line {error.lineno}"
            raise OptionError(f"modules: cannot import {each!r}: {where}: {error.msg}") from error
        except ImportError as error:
            hint = f"; import the file as {each}.py" if os.path.isfile(f"{each}.py") else ""
            raise OptionError(f"modules: cannot import {each!r}: {error}{hint}") from error


def _import_file(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise OptionError(f"modules: there is no file {str(path)!r}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _files[name] = str(path.absolute())


def importable(name: str) -> str:
    """Return what another process gives :func:`import_modules` for a module: its file, or its name."""
    return _files.get(name, name)
