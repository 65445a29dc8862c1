"""A list of kernel launches as one native call.

The generated code calls the machine code of Numba's kernels one after the other, with every address and size as a
constant. The kernels are the same with and without a chain, so readings are bit-identical.

Chains rely on Numba's private calling convention: (result, error, the parts of every argument) -> status. So they are
used only with the Numba versions in ``TESTED``, and only after a self-test, in which a chained call must have the same
effect as the plain call of the same kernel. Otherwise a warning is issued once, and the kernels are called one by one.
``SENSORIUM_CHAIN=0`` in the environment switches chains off.
"""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher

from sensorium import compiling
from sensorium.jit import Kernel, Signature
from sensorium.pipeline.launch import Launch, StepCounter, launch
from sensorium.pipeline.self_test_kernels import fill

TESTED = ("0.68",)
"""Versions of Numba (major.minor) whose calling convention was checked."""


def chain(launches: Sequence[Launch]) -> Callable[[], None]:
    """Return one function that makes these calls.

    It holds references to the arrays, and keeps using their memory: the arrays must not be replaced by others.
    """
    if not enabled() or not _trusted():
        return Calls(launches)
    calls = [_native(one) for one in launches]
    return Calls(launches) if None in calls else KernelChain(launches, [call for call in calls if call is not None])


def enabled() -> bool:
    """Return whether chains can be used: kernels are compiled, and ``SENSORIUM_CHAIN`` is not "0"."""
    return os.environ.get("SENSORIUM_CHAIN", "1") != "0" and not numba.config.DISABLE_JIT


@functools.cache
def _trusted() -> bool:
    """Return whether chains work with this Numba; if not, issue a warning with the reason."""
    version = ".".join(numba.__version__.split(".")[:2])
    if version not in TESTED:
        reason = f"Numba {numba.__version__} was not tested (tested: {', '.join(TESTED)})"
    elif not _passes_self_test():
        reason = f"a chained call differs from the plain call with Numba {numba.__version__} on this machine"
    else:
        return True
    warnings.warn(
        f"Kernels are called one by one, which makes steps with few envs slower: {reason}. Set SENSORIUM_CHAIN=0 to "
        "silence this warning",
        stacklevel=2,
    )
    return False


def _passes_self_test() -> bool:
    """Return whether a chained call writes the same bytes to its output as the plain call."""
    plain, chained = _self_test(), _self_test()
    launch(plain.kernel, *plain.arguments)
    try:
        native = _native(chained)
        if native is None:
            return False
        KernelChain([chained], [native])()
    except Exception:  # for example, LLVM refuses the code; the caller issues a warning
        return False
    expected, output = plain.arguments[0], chained.arguments[0]
    return bool(expected.any()) and expected.tobytes() == output.tobytes()


def _self_test() -> Launch:
    """Return a call with arguments of all kinds, the output first."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    step = StepCounter(np.array([41], np.int64))
    return Launch(fill, (np.zeros(8), values, np.array([3, -5], np.int32), None, True, 2.5, step))


class _Native(NamedTuple):
    """A launch in terms of machine code."""

    address: int
    """Address of the kernel's machine code."""
    kinds: list[str]
    """LLVM types of the arguments that follow those for result and error."""
    values: list[Any]
    """The values of these arguments."""


class Calls:
    """Launches made one by one, for kernels whose arguments :class:`KernelChain` does not support."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)

    def __call__(self) -> None:
        for kernel, arguments in self.launches:
            launch(kernel, *arguments)


class KernelChain:
    """Launches made by one native function."""

    def __init__(self, launches: Sequence[Launch], calls: Sequence[_Native]) -> None:
        self.launches = tuple(launches)  # keeps the arrays alive that the code points to
        lines = ["define i32 @chain() {", "%result = alloca ptr", "%error = alloca ptr"]
        for number, call in enumerate(calls):
            values = []
            for place, (kind, value) in enumerate(zip(call.kinds, call.values, strict=True)):
                if type(value) is StepCounter:
                    name = f"%live{number}_{place}"
                    lines.append(f"{name} = load i64, ptr inttoptr (i64 {value.cell.ctypes.data} to ptr)")
                    values.append(f"i64 {name}")
                else:
                    values.append(_constant(kind, value))
            rest = "".join(f", {value}" for value in values)
            lines += [
                f"%status{number} = call i32 inttoptr (i64 {call.address} to ptr)(ptr %result, ptr %error{rest})",
                # status 0 is success; -2 is success with the result None
                f"switch i32 %status{number}, label %fail{number} [i32 0, label %next{number} "
                f"i32 -2, label %next{number}]",
                f"fail{number}:",
                f"ret i32 {number + 1}",
                f"next{number}:",
            ]
        lines += ["ret i32 0", "}"]
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(lines)), machine)
        self._engine.finalize_object()
        self._run = ctypes.CFUNCTYPE(ctypes.c_int)(self._engine.get_function_address("chain"))

    def __call__(self) -> None:
        failed = self._run()
        if failed:
            kernel, arguments = self.launches[failed - 1]
            launch(kernel, *arguments)  # raises the kernel's exception
            raise RuntimeError(f"the kernel {kernel.__name__} failed in a chained call, but not in a plain call")


def prepare(launches: Sequence[Launch]) -> None:
    """Load the kernels of these calls from the cache, or compile them on all cores."""
    own = [_self_test()] if enabled() else []
    compiling.prepare((cast(Kernel, one.kernel), _signature(one.arguments)) for one in [*launches, *own])


def _signature(arguments: tuple[Any, ...]) -> Signature:
    """Return the Numba types of arguments."""
    return tuple(types.int64 if type(value) is StepCounter else numba.typeof(value) for value in arguments)


def _compiled(kernel: Kernel, arguments: tuple[Any, ...]) -> Any:
    """Return Numba's compilation of a kernel for these arguments."""
    signature = _signature(arguments)
    if signature not in kernel.overloads:
        kernel.compile(signature)
    return kernel.overloads[signature]


def _native(one: Launch) -> _Native | None:
    """Return the launch in Numba's calling convention; None if the kernel or its arguments do not follow it."""
    if not isinstance(one.kernel, Dispatcher):  # a function of NumPy, or any function with NUMBA_DISABLE_JIT
        return None
    try:
        values = list(_flatten(one.arguments))
        result = _compiled(cast(Kernel, one.kernel), one.arguments)
    except (TypeError, RuntimeError):  # RuntimeError: the kernel declares signatures, to which Numba converts
        return None
    described = result.fndesc
    function = result.target_context.call_conv.get_function_type(described.restype, described.argtypes)
    kinds = ["ptr" if str(kind).endswith("*") or str(kind) == "ptr" else str(kind) for kind in function.args[2:]]
    known = all(kind == "ptr" or kind.startswith("i") or kind in ("double", "float") for kind in kinds)
    if not known or len(kinds) != len(values) or described.restype != types.none:  # a chain has no room for results
        return None
    return _Native(result.library.get_pointer_to_function(described.llvm_func_name), kinds, values)


def _flatten(arguments: Sequence[Any]) -> Iterator[Any]:
    """Yield the arguments as machine code takes them.

    An array is passed as owner, parent, size, bytes per element, address, shape and strides. Owner and parent are null,
    since the chain itself keeps the arrays alive.

    Raises:
        TypeError: an argument is of another type.
    """
    for value in arguments:
        if type(value) is StepCounter or isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            yield value
        elif isinstance(value, np.ndarray):
            yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, tuple):
            yield from _flatten(value)
        elif value is None:  # a null pointer
            yield 0
        else:
            raise TypeError(f"arguments of type {type(value).__name__} cannot be passed by a chain")


def _constant(kind: str, value: Any) -> str:
    """Return a value as an LLVM constant of type ``kind``."""
    if kind == "ptr":
        return f"ptr inttoptr (i64 {value} to ptr)"
    if kind.startswith("i"):
        return f"{kind} {int(value)}"
    bits = np.float64(value).view(np.uint64)  # LLVM writes a float as the double of the same value
    return f"{kind} 0x{int(bits):016X}"
