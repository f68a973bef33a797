"""How does a call of an instruction reach the builder of the kernel that is traced?"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from nki_lab.errors import OutsideKernel

if TYPE_CHECKING:
    from types import CodeType

    from nki_lab.ir.definition.instruction import Definition

_BINDER = "<nki_lab binder"  # how the file names of generated binders begin (source.is_internal)


class _Active(threading.local):
    builder: Any = None


active = _Active()


def _refuse(definition: Definition) -> NoReturn:
    raise OutsideKernel(
        f"{definition.module}.{definition.name} was called outside a kernel",
        help="call it in a function decorated with @nki.jit, and call that function with arrays",
    )


def is_binding(code: CodeType) -> bool:
    """Tell whether `code` lies between the author's call of an instruction and the builder."""
    return code.co_filename.startswith(_BINDER)


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
    scope = {"_active": active, "_refuse": _refuse}
    scope |= {f"_{p.name}": p.default for p in asked} | {f"_take_{n}": f for n, f in takes.items()}
    head = ", ".join(p.name if p.default is p.empty else f"{p.name}=_{p.name}" for p in asked)
    bound = {n: f"_take_{n}({n})" if n in takes else n for n in signature.parameters}
    if gives:
        bound[gives] = "_builder.register()"
    returned = f".args[{list(bound).index(gives)}]" if gives else ""
    values = ", ".join(bound.values())
    code = (
        f"def {name}(self, {head}):\n    _builder = _active.builder or _refuse(self)\n"
        f"    return _builder.emit(self, ({values},)){returned}\n"
    )
    exec(compile(code, f"{_BINDER} of {name}>", "exec"), scope)
    return scope[name]
