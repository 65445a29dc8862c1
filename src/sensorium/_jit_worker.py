"""Compiles kernels into the cache on disk, in a process of its own. Started by ``sensorium.compiling``.

Standard input holds pickles, written by the parent process: the search path with the folder of the package, then one
(module, kernel, argument types) at a time. A byte on standard output answers each. The package's ``__init__`` files are
not run, since they import torch: kernel modules need NumPy and Numba alone.
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
