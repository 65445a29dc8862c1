"""Compiles kernels into the cache on disk, in a process of its own. Started by ``sensorium.compiling``.

Standard input holds two pickles, written by the parent process: the search path with the folder of the package, and the
list of (module, kernel, argument types). The package's ``__init__`` files are not run, since they import torch: kernel
modules need NumPy and Numba alone.
"""

import importlib
import pickle
import sys
import types


def _bare_package(name: str, folders: list[str]) -> None:
    """Register a package whose ``__init__`` is not run."""
    package = types.ModuleType(name)
    package.__path__ = folders
    sys.modules[name] = package


def main() -> None:
    """Compile what standard input asks for."""
    path, folder, packages = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    for name in packages:
        _bare_package(name, [folder + name.removeprefix("sensorium").replace(".", "/")])
    for module, kernel, signature in pickle.load(sys.stdin.buffer):
        getattr(importlib.import_module(module), kernel).compile(signature)


if __name__ == "__main__":
    main()
