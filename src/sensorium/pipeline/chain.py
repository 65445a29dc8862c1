"""A list of kernel launches as one native call.

The code that is made here calls the machine code of Numba's kernels, one after the other, with every address and size
as a constant; the kernels are the same either way, so readings are the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import types

from sensorium.pipeline.launch import Launch, Live, launch


def chain(launches: Sequence[Launch]) -> Callable[[], None]:
    """One function that makes these calls. It holds the arrays; views of them must not be swapped for others."""
    return Chain(launches) if all(map(_is_plain, launches)) else _Calls(launches)


class _Calls:
    """The calls one by one, for kernels whose arguments :class:`Chain` does not know."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)

    def __call__(self) -> None:
        for kernel, arguments in self.launches:
            launch(kernel, *arguments)


class Chain:
    """The calls as one native function."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)  # whose arrays the code points to
        lines = ["define i32 @chain() {", "%result = alloca ptr", "%error = alloca ptr"]
        for number, (kernel, arguments) in enumerate(launches):
            result = _compiled(kernel, arguments)
            address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
            values = []
            for place, (kind, value) in enumerate(zip(_leaf_types(result), _leaves(arguments), strict=True)):
                if type(value) is Live:
                    name = f"%live{number}_{place}"
                    lines.append(f"{name} = load i64, ptr inttoptr (i64 {value.cell.ctypes.data} to ptr)")
                    values.append(f"i64 {name}")
                else:
                    values.append(_constant(kind, value))
            rest = "".join(f", {value}" for value in values)
            lines += [
                f"%status{number} = call i32 inttoptr (i64 {address} to ptr)(ptr %result, ptr %error{rest})",
                f"%failed{number} = icmp sgt i32 %status{number}, 0",  # a negative one says that None was returned
                f"br i1 %failed{number}, label %fail{number}, label %next{number}",
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


def _compiled(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    """Numba's compilation of a kernel for these arguments."""
    signature = tuple(types.int64 if type(value) is Live else numba.typeof(value) for value in arguments)
    if signature not in kernel.overloads:
        kernel.compile(signature)
    return kernel.overloads[signature]


def _is_plain(one: Launch) -> bool:
    """Whether Numba's calling convention is the one that is known here: every array's parts, one after the other."""
    try:
        leaves = list(_leaves(one.arguments))
        kinds = _leaf_types(_compiled(*one))
    except TypeError:
        return False
    return len(leaves) == len(kinds) and all(
        kind == "ptr" or kind.startswith("i") or kind in ("double", "float") for kind in kinds
    )


def _leaf_types(result: Any) -> list[str]:
    """The machine's types of a kernel's arguments, behind those for its result and its error."""
    described = result.fndesc
    function = result.target_context.call_conv.get_function_type(described.restype, described.argtypes)
    return ["ptr" if str(kind).endswith("*") or str(kind) == "ptr" else str(kind) for kind in function.args[2:]]


def _leaves(arguments: Sequence[Any]) -> Iterator[Any]:
    """The arguments as the machine gets them: of an array owner, parent, size, bytes a number, address, shape, strides.

    Owner and parent are none: the chain itself keeps the arrays alive.
    """
    for value in arguments:
        if type(value) is Live or isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            yield value
        elif isinstance(value, np.ndarray):
            yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, tuple):
            yield from _leaves(value)
        else:
            raise TypeError(f"a kernel's argument of type {type(value).__name__} cannot be fixed")


def _constant(kind: str, value: Any) -> str:
    if kind == "ptr":
        return f"ptr inttoptr (i64 {value} to ptr)"
    if kind.startswith("i"):
        return f"{kind} {int(value)}"
    bits = np.float64(value).view(np.uint64)  # LLVM writes floats as the double of the same value
    return f"{kind} 0x{int(bits):016X}"
