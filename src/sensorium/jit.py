"""Numba kernels: how they are compiled, and a cache on disk that follows the code.

``kernel`` compiles a function that Python calls. ``helper`` and ``inlined`` compile functions that only kernels call.
All use IEEE arithmetic as written, without fast math, so that every batch size gives the same bits.

Numba's own cache checks only the file that defines a function. After an edit of a helper or a constant in another file
it returns outdated machine code. Here a cached kernel is addressed by its content instead. The file name contains a
hash of the kernel's bytecode, of every function that it calls and every constant that it reads in any file, of its
argument types, of the versions of Python, Numba, llvmlite and NumPy, and of the CPU. So a cached kernel is never
outdated: other code has another name.

The cache lies in ``__pycache__`` beside the source. If that folder is read-only, it lies in ``sensorium`` below the
user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``). Both are read. ``NUMBA_CACHE_DIR`` overrides them. If no
folder can be written, every process compiles the kernels that it does not find. Like the files of Numba's own cache,
the files contain pickles and machine code, and need as much trust as the ``.pyc`` files beside them. A checksum finds
damaged files, which are compiled again.

The cache replaces Numba's ``Dispatcher._cache`` and uses ``CompileResult._reduce`` and ``_rebuild``. These are private
interfaces, checked with Numba 0.68.1. If they are missing, kernels are compiled without a cache, and a warning is
issued.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.extending import _Intrinsic
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.types.containers import BaseTuple

Signature = tuple[Any, ...]
"""Argument types of a kernel, as Numba's ``typeof`` returns them."""

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
_MAX_AGE = 30 * 86_400
"""Seconds after which files of a kernel are deleted when it is compiled again."""
_CONFIG = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "CPU_NAME", "CPU_FEATURES", "ENABLE_AVX", "DEBUGINFO_DEFAULT",
           "DISABLE_INTEL_SVML", "LLVM_PASS_TIMINGS", "BOUNDSCHECK")  # fmt: skip
"""Settings of Numba that change the machine code."""
_CAN_CACHE = all(hasattr(CompileResult, name) for name in ("_reduce", "_rebuild")) and hasattr(
    CPUDispatcher, "enable_caching"
)
if not _CAN_CACHE:
    warnings.warn(
        f"Numba {numba.__version__} is not supported: kernels are not cached on disk, but compiled in every process. "
        "Install a version that Sensorium's requirements allow",
        stacklevel=2,
    )


class Kernel(Protocol):
    """A compiled kernel: the part of Numba's dispatcher that Sensorium uses."""

    __name__: str
    __qualname__: str
    overloads: dict[Signature, Any]
    """Argument types -> Numba's compilation."""
    _cache: KernelCache

    def __call__(self, *arguments: Any) -> Any: ...
    def compile(self, signature: Signature) -> object:
        """Compile the kernel for these argument types, or load it from the cache."""


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call from Python, and cache the machine code on disk.

    Example::

        @kernel
        def double(x):
            for i in range(x.shape[0]):
                x[i] = 2 * x[i]
    """
    # without a C wrapper: kernels are called from Python or by chain.py, never through a C function pointer
    jitted: Any = numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    if _CAN_CACHE and isinstance(jitted, CPUDispatcher):  # with NUMBA_DISABLE_JIT it is a plain function
        jitted._cache = KernelCache(function, jitted.targetoptions)
    return jitted  # type: ignore[no-any-return]


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that kernels call. It becomes part of their machine code, and is not cached by itself."""
    return numba.njit(no_cfunc_wrapper=True, **_OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Insert a function into the kernels that call it, before types are inferred.

    A function that is called once compiles about twice as fast as with ``helper``.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)  # type: ignore[no-any-return]


# -- the content of a kernel -------------------------------------------------------------------------------------------


_VERSIONED = ("numpy", "math", "builtins", "numba")
"""Packages whose content is not hashed, since their versions are part of the key."""


def fingerprint(function: Callable[..., object]) -> str:
    """Return a hash of a kernel's code, of all functions that it calls, and of all constants that it reads.

    Raises:
        TypeError: if the kernel reads a global whose content cannot be hashed.
    """
    state = hashlib.blake2b(digest_size=16)
    for piece in _Reader(_plain(function)).pieces(_plain(function)):
        state.update(piece.encode() + b"\0")
    return state.hexdigest()


def code_size(function: Callable[..., object]) -> int:
    """Return the bytes of bytecode of a kernel and of all functions that it calls. Compilation time grows with it."""
    reader = _Reader(_plain(function))
    for _ in reader.pieces(_plain(function)):
        pass
    return reader.size


def _plain(function: Any) -> types.FunctionType:
    """Return the Python function of a kernel, or a Python function itself."""
    return getattr(function, "py_func", function)


class _Reader:
    """Walks through the code of a kernel and yields texts that describe its whole content."""

    def __init__(self, kernel: types.FunctionType) -> None:
        self._kernel, self._seen = kernel, set[int]()
        self.size = 0
        """Bytes of bytecode so far."""

    def pieces(self, function: types.FunctionType) -> Iterator[str]:
        """Describe a function: its bytecode without line numbers, and the values that it reads."""
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
        """Describe a value; ``names`` are the attributes that the code may read from it."""
        known = (
            str(getattr(value, "__module__", None) or getattr(value, "__name__", "")).partition(".")[0] in _VERSIONED
        )
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
    """Return the name of an argument type, with the names of its fields."""
    members = [_type_name(each) for each in kind.types] if isinstance(kind, BaseTuple) else ""
    return f"{kind} {getattr(kind, 'fields', '')} {members}"


@functools.cache
def environment() -> str:
    """Return what machine code depends on in addition to the kernel: versions, settings of Numba, and the CPU."""
    import llvmlite
    import llvmlite.binding as llvm

    settings = [f"{name}={getattr(numba.config, name, None)}" for name in _CONFIG]
    cpu = (platform.machine(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    return " ".join(map(str, (*versions, *cpu, *settings)))


# -- the cache on disk -------------------------------------------------------------------------------------------------


class KernelCache:
    """Machine code of one kernel on disk, one file per tuple of argument types. Numba calls these methods.

    Args:
        function: the Python function of the kernel.
        options: options that it is compiled with.
    """

    def __init__(self, function: Callable[..., object], options: Mapping[str, object]) -> None:
        self._function, self._options = function, repr(sorted(options.items()))
        self._enabled = True
        self._source = str(Path(_plain(function).__code__.co_filename).parent)

    @property
    def cache_path(self) -> str | None:
        """The folder that files are written to, or None if no folder can be written."""
        folder = _writable_folder(self._source)
        return None if folder is None else str(folder)

    @property
    def _stem(self) -> str:
        module = self._function.__module__.rpartition(".")[2]
        return f"{module}.{self._function.__qualname__}-{sys.implementation.cache_tag}"

    def _name(self, signature: Sequence[Any]) -> str:
        # hashed at every compilation, since a constant may have changed since the last one
        kinds = [_type_name(kind) for kind in signature]
        content = f"{fingerprint(self._function)} {self._options} {environment()} {kinds}"
        return f"{self._stem}-{hashlib.blake2b(content.encode(), digest_size=12).hexdigest()}.nbk"

    def files(self, signature: Sequence[Any]) -> list[Path]:
        """Return the files with machine code for these argument types: usually none or one."""
        if not self._enabled:
            return []
        name = self._name(signature)
        return [file for folder in _folders(self._source) if (file := folder / name).is_file()]

    def load_overload(self, signature: Sequence[Any], target: Any) -> Any:
        """Return Numba's compilation for a signature, or None if no file holds it."""
        for file in self.files(signature):
            try:
                content = file.read_bytes()
                if hashlib.blake2b(content[32:], digest_size=32).digest() == content[:32]:
                    target.refresh()
                    return CompileResult._rebuild(target, *pickle.loads(content[32:]))
            except Exception:  # a damaged file is compiled and written again
                continue
        on_miss(self._function.__name__)
        return None

    def save_overload(self, signature: Sequence[Any], result: Any) -> None:
        """Write Numba's compilation for a signature to the cache."""
        folder = _writable_folder(self._source) if self._enabled else None
        if folder is None or result.lifted or result.library.has_dynamic_globals:
            return
        file = folder / self._name(signature)
        content = dumps(result._reduce())
        part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        with contextlib.suppress(OSError):  # a full disk; the kernel runs nevertheless
            try:
                part.write_bytes(hashlib.blake2b(content, digest_size=32).digest() + content)
                os.replace(part, file)  # a file that exists is complete
            finally:
                part.unlink(missing_ok=True)
        for old in [*folder.glob(f"{self._stem}-*.nbk"), *folder.glob(f"{self._stem}-*.tmp")]:
            with contextlib.suppress(OSError):  # another process deleted it, or another user owns it
                if old.stat().st_mtime < time.time() - _MAX_AGE:
                    old.unlink()

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Stop reading and writing the cache."""
        self._enabled = False

    def flush(self) -> None:
        """Delete the files of this kernel."""
        for folder in _folders(self._source):
            for file in folder.glob(f"{self._stem}-*.nbk"):
                file.unlink(missing_ok=True)


@functools.cache
def _folders(source: str) -> tuple[Path, ...]:
    """Return the folders that may hold the kernels of a source folder, in the order in which they are tried."""
    subfolder = f"{Path(source).name}-{hashlib.blake2b(source.encode(), digest_size=6).hexdigest()}"
    if numba.config.CACHE_DIR:
        return (Path(numba.config.CACHE_DIR) / subfolder,)
    folders = [Path(source) / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # there is no home folder
        user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        folders.append(user / "sensorium" / subfolder)
    return tuple(folders)


@functools.cache
def _writable_folder(source: str) -> Path | None:
    """Return the first of the folders that can be written, or None."""
    for folder in _folders(source):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


on_miss: Callable[[str], None] = lambda name: None  # noqa: E731
"""Called with the name of a kernel before it is compiled. :mod:`sensorium.compiling` sets it, to show a message."""
