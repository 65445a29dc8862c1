"""Numba kernels: how they are compiled, and a cache on disk that follows the code.

``kernel`` compiles a function that Python calls; ``helper`` and ``inlined`` compile functions that only kernels call.
All use IEEE arithmetic as written (no fast math), so that every batch size gives the same bits.

Numba's own cache looks only at the file in which a function is defined: after an edit of a helper or a constant in
another file it returns the old machine code. Here a cached kernel is addressed by its content instead: the file name
holds a hash of the kernel's bytecode, of every function that it calls and every constant that it reads, in whatever
file, of its argument types, of the versions of Python, Numba, llvmlite and NumPy, and of the CPU. A cached kernel
therefore cannot be stale: other code has another name.

The cache lies in ``__pycache__`` beside the source; where that folder is read-only, in ``sensorium`` below the user's
cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``). Both are read. ``NUMBA_CACHE_DIR`` overrides them. Where nothing can
be written, kernels that no folder holds are compiled in every process. Like those of Numba's own cache, the files hold
pickles and machine code, and need as much trust as the ``.pyc`` files beside them. A checksum finds damaged ones, which
are compiled again.

The cache replaces Numba's ``Dispatcher._cache`` and uses ``CompileResult._reduce`` and ``_rebuild``, which are private:
checked with Numba 0.68.1. If they are missing, kernels are compiled without a cache, and a warning says so.
"""

from __future__ import annotations

import contextlib
import enum
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
from numba.core.extending import _Intrinsic
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.types.containers import BaseTuple

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_KEPT = 30 * 86_400
"""Seconds after which files are deleted when the same kernel is compiled anew."""
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
        jitted._cache = KernelCache(function, jitted.targetoptions)
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


_KNOWN = ("numpy", "math", "builtins", "numba")
"""Packages whose content is not hashed, since their versions are part of the key."""


def fingerprint(function: Any) -> str:
    """Return a hash of a kernel's code, of all functions that it calls, and of all constants that it reads.

    Raises:
        TypeError: if the kernel reads a global whose content cannot be hashed.
    """
    state = hashlib.blake2b(digest_size=16)
    for piece in _Reader(_plain(function)).pieces(_plain(function)):
        state.update(piece.encode() + b"\0")
    return state.hexdigest()


def code_size(function: Any) -> int:
    """Return the bytes of bytecode of a kernel and of all functions that it calls: a measure of compilation time."""
    reader = _Reader(_plain(function))
    for _ in reader.pieces(_plain(function)):
        pass
    return reader.size


def _plain(function: Any) -> types.FunctionType:
    return getattr(function, "py_func", function)


class _Reader:
    """Walks through the code of a kernel and yields texts that describe all it is made of."""

    def __init__(self, kernel: types.FunctionType) -> None:
        self._kernel, self._seen = kernel, set[int]()
        self.size = 0
        """Bytes of bytecode so far."""

    def pieces(self, function: types.FunctionType) -> Iterator[str]:
        """Describe a function: its bytecode without line numbers, and the values that it looks up."""
        yield f"{function.__module__}.{function.__qualname__}"
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self.size += len(function.__code__.co_code)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        keywords = sorted((function.__kwdefaults__ or {}).items())
        for value in (function.__defaults__, keywords, *cells):
            yield from self._value(value, [])
        names: list[str] = []
        yield from self._code(function.__code__, names)
        for name in dict.fromkeys(names):
            if name in function.__globals__:
                yield name
                yield from self._value(function.__globals__[name], names)

    def _code(self, code: types.CodeType, names: list[str]) -> Iterator[str]:
        names += code.co_names
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_argcount}"
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._code(constant, names)
            else:
                yield from self._value(constant, names)

    def _value(self, value: Any, names: list[str]) -> Iterator[str]:
        """Describe a value; ``names`` are the attributes that code may look up in it."""
        known = str(getattr(value, "__module__", None) or getattr(value, "__name__", "")).partition(".")[0] in _KNOWN
        if isinstance(value, CPUDispatcher):
            yield repr(sorted(value.targetoptions.items()))
            yield from self.pieces(value.py_func)
        elif isinstance(value, _Intrinsic):
            yield from self.pieces(value._defn)
        elif value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
            yield f"{type(value).__qualname__} {value!r}"  # enum members, too
        elif isinstance(value, (np.ndarray, np.generic)):
            yield f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, (tuple, list, frozenset)):
            yield f"{type(value).__name__} {len(value)}"
            for each in sorted(value, key=repr) if isinstance(value, frozenset) else value:
                yield from self._value(each, names)
        elif known and (callable(value) or isinstance(value, types.ModuleType)):
            yield str(getattr(value, "__qualname__", value))
        elif isinstance(value, types.FunctionType):
            yield from self.pieces(value)
        elif isinstance(value, types.ModuleType):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                for name in names:
                    if hasattr(value, name):
                        yield from self._value(getattr(value, name), names)
        elif isinstance(value, type):
            members = [f"{each.name}={each.value!r}" for each in value] if issubclass(value, enum.Enum) else ""
            yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')} {members}"
        else:
            raise TypeError(
                f"the kernel {self._kernel.__module__}.{self._kernel.__qualname__} reads a global of type "
                f"{type(value).__name__}, which the kernel cache cannot hash; use a number, a tuple, an array, a class "
                "or a function"
            )


def _type_name(kind: Any) -> str:
    """The name of an argument's type, with the names of fields."""
    members = [_type_name(each) for each in kind.types] if isinstance(kind, BaseTuple) else ""
    return f"{kind} {getattr(kind, 'fields', '')} {members}"


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

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self._function, self._options = function, repr(sorted(options.items()))
        self._enabled = True
        self._source = str(Path(function.__code__.co_filename).parent)

    @property
    def cache_path(self) -> str | None:
        """The folder that files are written to, or None where no folder can be written."""
        folder = _writable_folder(self._source)
        return None if folder is None else str(folder)

    @property
    def _stem(self) -> str:
        module = self._function.__module__.rpartition(".")[2]
        return f"{module}.{self._function.__qualname__}-{sys.implementation.cache_tag}"

    def _name(self, signature: Any) -> str:
        # hashed at every compilation: a constant may have changed since the last one
        kinds = [_type_name(kind) for kind in signature]
        content = f"{fingerprint(self._function)} {self._options} {environment()} {kinds}"
        return f"{self._stem}-{hashlib.blake2b(content.encode(), digest_size=12).hexdigest()}.nbk"

    def files(self, signature: Any) -> list[Path]:
        """Return the files that hold machine code for these argument types: usually none or one."""
        if not self._enabled:
            return []
        name = self._name(signature)
        return [file for folder in _folders(self._source) if (file := folder / name).is_file()]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return Numba's compilation for a signature, or None."""
        for file in self.files(signature):
            try:
                content = file.read_bytes()
                if hashlib.blake2b(content[32:], digest_size=32).digest() == content[:32]:
                    target.refresh()
                    return CompileResult._rebuild(target, *pickle.loads(content[32:]))
            except Exception:  # damaged: it is compiled, and written anew
                continue
        on_miss(self._function.__name__)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write Numba's compilation for a signature."""
        folder = _writable_folder(self._source) if self._enabled else None
        if folder is None or result.lifted or result.library.has_dynamic_globals:
            return
        file = folder / self._name(signature)
        content = dumps(result._reduce())
        part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        with contextlib.suppress(OSError):  # a full disk: the kernel runs all the same
            try:
                part.write_bytes(hashlib.blake2b(content, digest_size=32).digest() + content)
                os.replace(part, file)  # a file that exists is complete
            finally:
                part.unlink(missing_ok=True)
        for old in [*folder.glob(f"{self._stem}-*.nbk"), *folder.glob(f"{self._stem}-*.tmp")]:
            with contextlib.suppress(OSError):  # another process deleted it, or another user owns it
                if old.stat().st_mtime < time.time() - _KEPT:
                    old.unlink()

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Neither read nor write."""
        self._enabled = False

    def flush(self) -> None:
        """Delete the files of this kernel."""
        for folder in _folders(self._source):
            for file in folder.glob(f"{self._stem}-*.nbk"):
                file.unlink(missing_ok=True)


@functools.cache
def _folders(source: str) -> tuple[Path, ...]:
    """The folders in which kernels of a source folder may be, in the order in which they are tried."""
    apart = f"{Path(source).name}-{hashlib.blake2b(source.encode(), digest_size=6).hexdigest()}"
    if numba.config.CACHE_DIR:
        return (Path(numba.config.CACHE_DIR) / apart,)
    folders = [Path(source) / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # there is no home folder
        user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        folders.append(user / "sensorium" / apart)
    return tuple(folders)


@functools.cache
def _writable_folder(source: str) -> Path | None:
    """The first of the folders that can be written."""
    for folder in _folders(source):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


on_miss: Callable[[str], None] = lambda name: None  # noqa: E731
"""Called with a kernel's name before it is compiled; :mod:`sensorium.compiling` tells the user."""
