"""A list of kernel launches as one native call.

The code that is generated here calls the machine code of Numba's kernels, one after the other, with every address and
size as a constant; the kernels are the same either way, so readings are the same bits.

It relies on Numba's private calling convention: (result, error, the parts of every argument) -> status. So it is used
only with the versions of Numba in ``TESTED``, and only after a self-test: a chained call must do what the plain call of
the same kernel does. Otherwise the kernels are called one by one, with one warning. ``SENSORIUM_CHAIN=0`` in the
environment switches chains off.
"""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher

from sensorium import compiling
from sensorium.pipeline.launch import Launch, StepCounter, launch
from sensorium.pipeline.self_test_kernels import fill

TESTED = ("0.68",)
"""Versions of Numba (major.minor) whose calling convention was checked."""


def chain(launches: Sequence[Launch]) -> Callable[[], None]:
    """One function that makes these calls. It holds the arrays; views of them must not be swapped for others."""
    if not enabled() or not _trusted():
        return Calls(launches)
    calls = [_native(one) for one in launches]
    return Calls(launches) if None in calls else KernelChain(launches, [call for call in calls if call is not None])


def enabled() -> bool:
    """Whether ``SENSORIUM_CHAIN`` in the environment allows chains (it is not "0"), and kernels are compiled at all."""
    return os.environ.get("SENSORIUM_CHAIN", "1") != "0" and not numba.config.DISABLE_JIT


@functools.cache
def _trusted() -> bool:
    """Whether chains can be used with this Numba; one warning says why not."""
    version = ".".join(numba.__version__.split(".")[:2])
    if version not in TESTED:
        reason = f"Numba {numba.__version__} was not tested (tested: {', '.join(TESTED)})"
    elif not _passes_self_test():
        reason = f"a chained call differs from the plain one with Numba {numba.__version__} on this machine"
    else:
        return True
    warnings.warn(
        f"Kernels are called one by one, which slows steps of few envs down: {reason}. SENSORIUM_CHAIN=0 silences this",
        stacklevel=2,
    )
    return False


def _passes_self_test() -> bool:
    """Whether one chained call leaves the same bytes in its output as the plain call."""
    plain, chained = _self_test(), _self_test()
    launch(plain.kernel, *plain.arguments)
    try:
        native = _native(chained)
        if native is None:
            return False
        KernelChain([chained], [native])()
    except Exception:  # LLVM does not take the code, say: kernels are called one by one, and a warning says so
        return False
    expected, output = plain.arguments[0], chained.arguments[0]
    return bool(expected.any()) and expected.tobytes() == output.tobytes()


def _self_test() -> Launch:
    """A call with arguments of all kinds, the output first."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    step = StepCounter(np.array([41], np.int64))
    return Launch(fill, (np.zeros(8), values, np.array([3, -5], np.int32), None, True, 2.5, step))


class _Native(NamedTuple):
    """A launch as the machine makes it."""

    address: int
    """Of the kernel's machine code."""
    kinds: list[str]
    """The machine's types of its arguments, behind those for its result and its error."""
    values: list[Any]
    """The arguments themselves."""


class Calls:
    """The calls one by one, for kernels whose arguments :class:`KernelChain` does not know."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)

    def __call__(self) -> None:
        for kernel, arguments in self.launches:
            launch(kernel, *arguments)


class KernelChain:
    """The calls as one native function."""

    def __init__(self, launches: Sequence[Launch], calls: Sequence[_Native]) -> None:
        self.launches = tuple(launches)  # whose arrays the code points to
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
                # -2 says that None was returned
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
            launch(kernel, *arguments)  # which raises what the kernel raised
            raise RuntimeError(f"the kernel {kernel.__name__} failed, and did not when it was called again")


def prepare(launches: Sequence[Launch]) -> None:
    """Compile the kernels of these calls on all cores, where no cache holds them."""
    own = [_self_test()] if enabled() else []
    compiling.prepare((one.kernel, _signature(one.arguments)) for one in [*launches, *own])


def _signature(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of arguments, as Numba sees them."""
    return tuple(types.int64 if type(value) is StepCounter else numba.typeof(value) for value in arguments)


def _compiled(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    """Numba's compilation of a kernel for these arguments."""
    signature = _signature(arguments)
    if signature not in kernel.overloads:
        kernel.compile(signature)
    return kernel.overloads[signature]


def _native(one: Launch) -> _Native | None:
    """The launch by Numba's calling convention: every array's parts, one after the other; None where it is another."""
    if not isinstance(one.kernel, Dispatcher):  # a function of NumPy, or any while Numba's compiler is switched off
        return None
    try:
        values = list(_leaves(one.arguments))
        result = _compiled(*one)
    except (TypeError, RuntimeError):  # RuntimeError: its signatures are declared, and Numba converts to these
        return None
    described = result.fndesc
    function = result.target_context.call_conv.get_function_type(described.restype, described.argtypes)
    kinds = ["ptr" if str(kind).endswith("*") or str(kind) == "ptr" else str(kind) for kind in function.args[2:]]
    known = all(kind == "ptr" or kind.startswith("i") or kind in ("double", "float") for kind in kinds)
    if not known or len(kinds) != len(values) or described.restype != types.none:  # there is no room for a result
        return None
    return _Native(result.library.get_pointer_to_function(described.llvm_func_name), kinds, values)


def _leaves(arguments: Sequence[Any]) -> Iterator[Any]:
    """The arguments as the machine gets them: of an array owner, parent, size, bytes a number, address, shape, strides.

    Owner and parent are none: the chain itself keeps the arrays alive.
    """
    for value in arguments:
        if type(value) is StepCounter or isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            yield value
        elif isinstance(value, np.ndarray):
            yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, tuple):
            yield from _leaves(value)
        elif value is None:  # passed as a null pointer
            yield 0
        else:
            raise TypeError(f"a kernel's argument of type {type(value).__name__} cannot be fixed")


def _constant(kind: str, value: Any) -> str:
    if kind == "ptr":
        return f"ptr inttoptr (i64 {value} to ptr)"
    if kind.startswith("i"):
        return f"{kind} {int(value)}"
    bits = np.float64(value).view(np.uint64)  # LLVM writes floats as the double of the same value
    return f"{kind} 0x{int(bits):016X}"
