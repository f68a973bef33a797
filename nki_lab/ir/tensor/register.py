"""Registers of the device, and what Python may do with one while a kernel is traced.

A register holds a 32-bit integer whose value only a run shows (nki.isa.VirtualRegister). It can bound a device loop, be
its condition, and address tensors; Python control flow on it can only be the `while` of a device loop.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from nki_lab.errors import RegisterValue
from nki_lab.ir.tensor.trace import active, watch_of

#: What a register holds: it has 32 bits, and its value a sign.
REGISTER_VALUES = range(-(1 << 31), 1 << 31)


class Register:
    """A 32-bit integer of the device: `nki.isa.register_alloc()` makes one.

    Attributes:
        id: position among the kernel's registers.
        name: variable it was assigned to.
        frozen: an induction variable, which only its loop changes.
        by_value: an induction variable that the body of its loop gets a copy of in each pass.
        owner: the builder of the trace it belongs to.
    """

    __slots__ = ("id", "name", "frozen", "by_value", "owner")

    def __init__(self, id: int, name: str, owner: Any = None, frozen: bool = False) -> None:
        self.id = id
        self.name = name
        self.owner = owner
        self.frozen = frozen
        self.by_value = False

    def __repr__(self) -> str:
        watch = watch_of(self.owner)
        if watch is None:
            return f"<register {self.name}>"
        value = watch.value(self)
        return f"<register {self.name} = {'not set' if value is None else value}>"

    def __bool__(self) -> bool:
        """Open or close the device loop of a `while register:`; an error anywhere else."""
        builder = active.builder
        answer = None if builder is None else builder.while_test(self, sys._getframe(1))
        if answer is None:
            raise RegisterValue(
                f"the value of register `{self.name}` is only known at run time, so `if` cannot test it",
                help="mask with nl.where or nisa.tensor_copy_predicated, or run the branch in nl.while_loop",
            )
        return answer

    def _refuse(self, *_: Any) -> NoReturn:
        if self.frozen or self.by_value:  # the counter of a loop
            help = "slice with nl.ds(i, n); to count in steps of n, write nl.fori_loop(lower, upper, body, n)"
        else:
            help = (
                "bound a loop by it with nl.fori_loop(lower, upper, body), or address a tensor with nl.ds(register, n),"
                " t.select(dim, register) or t.ap(..., scalar_offset=register)"
            )
        raise RegisterValue(
            f"the value of register `{self.name}` is only known at run time", help=help
        )

    __int__ = __index__ = __float__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            self._refuse()
        return self is other

    __hash__ = object.__hash__
