"""How does a call of an instruction reach the builder of the kernel that is traced?"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nki_lab.errors import OutsideKernel

if TYPE_CHECKING:
    from types import CodeType

    from nki_lab.ir.instruction import Definition, Instruction
    from nki_lab.ir.register import Register

_BINDER = "<nki_lab binder"  # how the file names of generated binders begin (source.is_internal)


class _Active(threading.local):
    builder: Any = None


active = _Active()


def _emit(definition: Definition, args: tuple[Any, ...]) -> Instruction:
    builder = active.builder
    if builder is None:
        raise OutsideKernel(
            f"{definition.module}.{definition.name} was called outside a kernel",
            help="call it in a function decorated with @nki.jit, and call that function with arrays",
        )
    return builder.emit(definition, args)


def _new_register() -> Register | None:
    return None if active.builder is None else active.builder.register()  # None: `_emit` refuses


def is_binding(code: CodeType) -> bool:
    """Tell whether `code` lies between the author's call of an instruction and the builder."""
    return code is _emit.__code__ or code.co_filename.startswith(_BINDER)


def binder(
    name: str, signature: inspect.Signature, takes: Mapping[str, Callable[[Any], Any]], gives: str
) -> Any:
    """Make the function that binds the arguments of a call and emits the instruction.

    Args:
        name: the instruction.
        signature: its parameters.
        takes: functions from what authors give to what a program holds, by parameter.
        gives: the parameter whose register the call makes and returns, or "".
    """
    asked = [p for p in signature.parameters.values() if p.name != gives]
    scope = {"_emit": _emit, "_new_register": _new_register}
    scope |= {f"_{p.name}": p.default for p in asked} | {f"_take_{n}": f for n, f in takes.items()}
    head = ", ".join(p.name if p.default is p.empty else f"{p.name}=_{p.name}" for p in asked)
    bound = {n: f"_take_{n}({n})" if n in takes else n for n in signature.parameters}
    if gives:
        bound[gives] = "_new_register()"
    returned = f".args[{list(bound).index(gives)}]" if gives else ""
    values = ", ".join(bound.values())
    code = f"def {name}(self, {head}):\n    return _emit(self, ({values},)){returned}\n"
    exec(compile(code, f"{_BINDER} of {name}>", "exec"), scope)
    return scope[name]
