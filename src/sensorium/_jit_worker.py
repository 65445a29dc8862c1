"""Compiles kernels into the cache on disk, in a process of its own. ``sensorium.compiling`` starts it.

The parent writes pickles to standard input: first the search path, the folder of the package and the names of its
packages, then one (module, kernel, argument types) at a time. The worker answers each of these with one byte on
standard output. It does not run the ``__init__`` files of the packages, since they import torch. Kernel modules need
NumPy and Numba only.
"""

import importlib
import pickle
import sys
import types


def _register_bare_package(name: str, folders: list[str]) -> None:
    """Register a package without running its ``__init__``."""
    package = types.ModuleType(name)
    package.__path__ = folders
    sys.modules[name] = package


def main() -> None:
    """Compile the kernels that the parent asks for, until it closes standard input."""
    path, folder, packages = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    for name in packages:
        _register_bare_package(name, [folder + name.removeprefix("sensorium").replace(".", "/")])
    importlib.import_module("sensorium._system").end_with_parent()  # at once: one kernel takes seconds
    while True:
        try:
            module, kernel, signature = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        getattr(importlib.import_module(module), kernel).compile(signature)
        sys.stdout.buffer.write(b".")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
