"""Numba kernels: how they are compiled, and a cache on disk that follows the code.

``kernel`` compiles a function that Python calls; ``helper`` and ``inlined`` compile functions that only kernels call.
All use IEEE arithmetic as written (no fast math), so that every batch size gives the same bits.

Numba's own cache looks only at the file in which a function is defined: after an edit of a helper or a constant in
another file it returns the old machine code. Here a cached kernel is addressed by its content instead: the file name
holds a hash of the kernel's bytecode, of every function that it calls and every constant that it reads, in whatever
file, of its argument types, of the versions of Python, Numba, llvmlite and NumPy, and of the CPU. A cached kernel
therefore cannot be stale: other code has another name.

The cache lies in ``__pycache__`` beside the source; where that folder is read-only, in ``sensorium`` below the user's
cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``); ``NUMBA_CACHE_DIR`` overrides both. Where nothing can be written,
kernels are compiled in every process. Like those of Numba's own cache, the files hold pickles and machine code, and
need as much trust as the ``.pyc`` files beside them. A checksum finds damaged ones, which are compiled again.

The cache replaces Numba's ``Dispatcher._cache`` and uses ``CompileResult._reduce`` and ``_rebuild``, which are private:
checked with Numba 0.68.1. If they are missing, kernels are compiled without a cache, and a warning says so.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_KEPT = 30 * 86_400
"""Seconds after which the machine code of an older version of a kernel is deleted."""
_CONFIG = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "DEBUGINFO_DEFAULT",
           "DISABLE_INTEL_SVML", "LLVM_PASS_TIMINGS", "BOUNDSCHECK")  # fmt: skip
"""Settings of Numba that change the machine code."""
_CACHES = all(hasattr(CompileResult, name) for name in ("_reduce", "_rebuild")) and hasattr(
    CPUDispatcher, "enable_caching"
)
if not _CACHES:
    warnings.warn(
        f"Numba {numba.__version__} is not supported: kernels are not cached on disk, but compiled in every process. "
        "Install a version that Sensorium's requirements allow",
        stacklevel=2,
    )


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call from Python, and cache the machine code on disk.

    Example::

        @kernel
        def double(x):
            for i in range(x.shape[0]):
                x[i] = 2 * x[i]
    """
    # kernels are called from Python or by the chain, never through a C function pointer
    jitted: Any = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    if _CACHES and isinstance(jitted, CPUDispatcher):  # a plain function under NUMBA_DISABLE_JIT
        jitted._cache = KernelCache(function)
    return jitted  # type: ignore[no-any-return]


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that kernels call. It is part of their machine code, and is not cached by itself."""
    return numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Insert a function into the kernels that call it, before types are inferred.

    It compiles about twice as fast as a ``helper`` that is called once.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)  # type: ignore[no-any-return]


# -- what a kernel is made of ------------------------------------------------------------------------------------------


def fingerprint(function: Any) -> str:
    """Return a hash of a kernel's code, of all functions that it calls, and of all constants that it reads.

    Raises:
        TypeError: if the kernel reads a global whose content cannot be hashed.
    """
    state = hashlib.blake2b(digest_size=16)
    for piece in _pieces(_plain(function), set()):
        state.update(piece.encode() + b"\0")
    return state.hexdigest()


def code_size(function: Any) -> int:
    """Return the bytes of bytecode of a kernel and of all functions that it calls: a measure of compilation time."""
    sizes: list[int] = []
    for _ in _pieces(_plain(function), set(), sizes):
        pass
    return sum(sizes)


def _plain(function: Any) -> types.FunctionType:
    return getattr(function, "py_func", function)


def _pieces(function: types.FunctionType, seen: set[int], sizes: list[int] | None = None) -> Iterator[str]:
    """The texts that describe a function; ``seen`` holds the functions that were described already."""
    yield f"{function.__module__}.{function.__qualname__}"
    if id(function) in seen:
        return
    seen.add(id(function))
    if sizes is not None:
        sizes.append(len(function.__code__.co_code))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (function.__defaults__, *cells):
        yield from _value(value, function, seen, sizes)
    names: list[str] = []
    yield from _code(function.__code__, names)
    for name in dict.fromkeys(names):
        if name in function.__globals__:
            yield name
            yield from _global(function.__globals__[name], names, function, seen, sizes)


def _code(code: types.CodeType, names: list[str]) -> Iterator[str]:
    """Bytecode without line numbers; ``names`` collects what it looks up."""
    names += code.co_names
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_argcount}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant, names)
        else:
            yield repr(constant)


def _global(
    value: Any, names: list[str], function: types.FunctionType, seen: set[int], sizes: list[int] | None
) -> Iterator[str]:
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == __name__.partition(".")[0]:
        for name in names:  # attributes that the code may read
            if hasattr(value, name):
                yield from _value(getattr(value, name), function, seen, sizes)
    else:
        yield from _value(value, function, seen, sizes)


def _value(value: Any, function: types.FunctionType, seen: set[int], sizes: list[int] | None) -> Iterator[str]:
    if isinstance(value, CPUDispatcher):
        yield repr(sorted(value.targetoptions.items()))
        yield from _pieces(value.py_func, seen, sizes)
    elif isinstance(value, types.FunctionType) and value.__module__.partition(".")[0] == __name__.partition(".")[0]:
        yield from _pieces(value, seen, sizes)
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__name__} {len(value)}"
        for each in value:
            yield from _value(each, function, seen, sizes)
    elif isinstance(value, (np.ndarray, np.generic)):
        yield f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    elif isinstance(value, types.ModuleType):
        yield value.__name__  # of another package, whose version is part of the key
    elif callable(value) and getattr(value, "__module__", None):
        yield f"{value.__module__}.{getattr(value, '__qualname__', value)}"
    else:
        raise TypeError(
            f"the kernel {function.__module__}.{function.__qualname__} reads a global of type "
            f"{type(value).__name__}, which the kernel cache cannot hash; use a number, a tuple, an array, a class or "
            "a function"
        )


@functools.cache
def environment() -> str:
    """Return what machine code depends on besides the kernel: versions, settings of Numba, and the CPU."""
    import llvmlite
    import llvmlite.binding as llvm

    settings = [f"{name}={getattr(numba.config, name, None)}" for name in _CONFIG]
    cpu = (platform.machine(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    return " ".join(map(str, (*versions, *cpu, *settings)))


# -- the cache on disk -------------------------------------------------------------------------------------------------


class KernelCache:
    """Machine code of one kernel on disk, one file for each tuple of argument types. Numba calls these methods."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._enabled = True

    @functools.cached_property
    def _folder(self) -> Path | None:
        return _writable_folder(str(Path(self._function.__code__.co_filename).parent))

    @functools.cached_property
    def _key(self) -> str:
        return f"{fingerprint(self._function)} {environment()}"

    @property
    def cache_path(self) -> str | None:
        """The folder, or None where no folder can be written."""
        return None if self._folder is None else str(self._folder)

    def path(self, signature: Any) -> Path | None:
        """Return the file of the machine code for these argument types."""
        if self._folder is None or not self._enabled:
            return None
        content = f"{self._key} {[str(each) for each in signature]}"
        digest = hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
        return self._folder / f"{self._stem}-{digest}.nbk"

    @property
    def _stem(self) -> str:
        module = self._function.__module__.rpartition(".")[2]
        return f"{module}.{self._function.__qualname__}-{sys.implementation.cache_tag}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return Numba's compilation for a signature, or None."""
        file = self.path(signature)
        if file is None:
            return _notify(self._function)
        try:
            content = file.read_bytes()
            if hashlib.blake2b(content[32:], digest_size=32).digest() != content[:32]:
                raise ValueError("checksum")
            target.refresh()
            return CompileResult._rebuild(target, *pickle.loads(content[32:]))
        except Exception:  # no such file, or a damaged one, however that came about: compile, and write it anew
            return _notify(self._function)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write Numba's compilation for a signature."""
        file = self.path(signature)
        if file is None or result.lifted or result.library.has_dynamic_globals:
            return
        content = dumps(result._reduce())
        part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            part.write_bytes(hashlib.blake2b(content, digest_size=32).digest() + content)
            os.replace(part, file)  # a file that exists is complete
        except OSError:  # a full disk: the kernel runs all the same
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            return
        for old in file.parent.glob(f"{self._stem}-*.nbk"):
            if old != file and old.stat().st_mtime < time.time() - _KEPT:
                old.unlink(missing_ok=True)

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Neither read nor write."""
        self._enabled = False

    def flush(self) -> None:
        """Delete the files of this kernel."""
        for file in [] if self._folder is None else self._folder.glob(f"{self._stem}-*.nbk"):
            file.unlink(missing_ok=True)


@functools.cache
def _writable_folder(source: str) -> Path | None:
    """The folder for the kernels of a source folder."""
    own = Path(source) / "__pycache__"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sensorium"
    apart = f"{Path(source).name}-{hashlib.blake2b(source.encode(), digest_size=6).hexdigest()}"
    chosen = [Path(numba.config.CACHE_DIR) / apart] if numba.config.CACHE_DIR else [own, user / apart]
    for folder in chosen:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):  # RuntimeError: there is no home folder
            continue
        return folder
    return None


on_miss: Callable[[str], None] = lambda name: None  # noqa: E731
"""Called with a kernel's name before it is compiled; :mod:`sensorium.compiling` tells the user."""


def _notify(function: Any) -> None:
    on_miss(function.__name__)
