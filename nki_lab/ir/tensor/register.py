"""Integers of the device, and what Python may do with one while a kernel is traced.

A register holds an integer whose value only a run shows. It can bound a device loop and address tensors. There are two
kinds: a VirtualRegister is set again and again, and can be the condition of a loop; an NkiScalar is the result of a
load or of arithmetic, and never changes.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, NoReturn

from nki_lab.dtypes import DType, int32, int64
from nki_lab.errors import NotModelled, RegisterValue
from nki_lab.ir.tensor.trace import active, watch_of

#: What a register holds: it has 32 bits, and its value a sign.
REGISTER_VALUES = range(-(1 << 31), 1 << 31)
_VALUES = {int32: REGISTER_VALUES, int64: range(-(1 << 63), 1 << 63)}


class Register:
    """An integer of the device.

    Attributes:
        id: position among the kernel's registers.
        name: variable it was assigned to.
        dtype: int32 or int64.
        frozen: an induction variable, which only its loop changes.
        by_value: an induction variable that the body of its loop gets a copy of in each pass.
        owner: the builder of the trace it belongs to.
        loop: number of the device loop that ends it: of its counter, and of what its body computes; 0 where none does.
    """

    __slots__ = ("id", "name", "_dtype", "frozen", "by_value", "owner", "loop")
    _dtype: DType

    def __init__(self, id: int, name: str, owner: Any = None, frozen: bool = False) -> None:
        self.id = id
        self.name = name
        self._dtype = int32
        self.owner = owner
        self.frozen = frozen
        self.by_value = False
        self.loop = 0

    @property
    def dtype(self) -> DType:
        """The type of the integers it holds."""
        return self._dtype

    @dtype.setter
    def dtype(self, value: Any) -> NoReturn:
        raise RegisterValue(
            f"the dtype of `{self.name}` is {self.dtype} and cannot be assigned",
            help="load an integer of another width with nisa.scalar_load from a tile of that dtype",
        )

    @property
    def kept(self) -> range:
        """The values it can hold; of others it keeps the low bits."""
        return _VALUES[self.dtype]

    def __repr__(self) -> str:
        watch = watch_of(self.owner)
        if watch is None:
            return f"<register {self.name}>"
        value = watch.value(self)
        return f"<register {self.name} = {'not set' if value is None else value}>"


class VirtualRegister(Register):
    """A 32-bit register: `nki.isa.register_alloc()` makes one (nki/api/nki/isa/__init__.py)."""

    __slots__ = ()

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


class NkiScalar(Register):
    """An integer computed on the device, of 32 or 64 bits: `nki.isa.scalar_load` gives one (NKI 0.7).

    Arithmetic with Python integers and with scalars of the same dtype is recorded, and gives a new scalar that keeps
    the low bits. A comparison of 32-bit scalars is recorded, too, and cannot be used; one of 64-bit scalars is refused.
    Operators that the page does not list are not modelled. (nki/api/generated/nki.isa.NkiScalar.html)
    """

    __slots__ = ("is_comparison",)
    # Records an operation; nki_lab.isa.control gives it, as a static method.
    _compute: ClassVar[Any]
    is_comparison: bool

    def __init__(self, state: Any, dtype: Any = None, is_comparison: bool = False) -> None:
        raise RegisterValue(
            "NkiScalar is not made by calling it", help="load one: nisa.scalar_load(tile)"
        )

    @classmethod
    def _make(cls, id: int, name: str, owner: Any, dtype: DType) -> NkiScalar:
        scalar = cls.__new__(cls)
        Register.__init__(scalar, id, name, owner)
        scalar._dtype, scalar.is_comparison = dtype, False
        return scalar

    def __repr__(self) -> str:
        return super().__repr__().replace("<register", f"<{self.dtype} scalar", 1)

    def _operand(self) -> NkiScalar:
        """Return the scalar for use as a value; refuse the result of a comparison."""
        if self.is_comparison:
            raise RegisterValue(
                "the result of comparing scalars cannot be used: it has no value while the kernel is traced",
                help="mask with nl.where or nisa.tensor_copy_predicated; a loop that runs once or not at all is"
                " nl.fori_loop(0, flag, body)",
            )
        return self

    def __bool__(self) -> NoReturn:
        self._operand()
        raise RegisterValue(
            f"the value of scalar `{self.name}` is only known at run time, so Python cannot test it",
            help="write nl.fori_loop(0, flag, body) for what runs once or not at all, or mask with nl.where",
        )

    def _refuse(self, *_: Any) -> NoReturn:
        self._operand()
        raise RegisterValue(
            f"the value of scalar `{self.name}` is only known at run time",
            help="bound a loop by it with nl.fori_loop(lower, upper, body), or address a tensor with nl.ds(scalar, n)"
            " or t.ap(..., scalar_offset=scalar)",
        )

    __int__ = __index__ = __float__ = _refuse

    def _unlisted(self, *_: Any) -> NoReturn:
        self._operand()
        raise NotModelled(
            f"scalar `{self.name}`: an operator other than + - * and comparisons; no page says that scalars have it",
            help="compute it in a tile with nisa.tensor_scalar, and load the result",
        )

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = _unlisted
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __abs__ = _unlisted
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __pow__ = __rpow__ = _unlisted
    __divmod__ = __rdivmod__ = _unlisted

    def __add__(self, other: Any) -> NkiScalar:
        return self._compute("add", self, other)

    def __radd__(self, other: Any) -> NkiScalar:
        return self._compute("add", other, self)

    def __sub__(self, other: Any) -> NkiScalar:
        return self._compute("subtract", self, other)

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._compute("subtract", other, self)

    def __mul__(self, other: Any) -> NkiScalar:
        return self._compute("multiply", self, other)

    def __rmul__(self, other: Any) -> NkiScalar:
        return self._compute("multiply", other, self)

    def __neg__(self) -> NkiScalar:
        return self._compute("subtract", 0, self)

    def __pos__(self) -> NkiScalar:
        return self._compute("add", self, 0)

    def _compared(self, other: Any) -> NkiScalar:
        self._operand()
        if self.dtype is int64:
            raise RegisterValue(
                f"scalar `{self.name}` has 64 bits, and scalars of 64 bits are not compared",
                help="compare int32 tiles with nisa.tensor_scalar or nl.less, and mask by the result",
            )
        result = NkiScalar._make(-1, f"{self.name}_comparison", self.owner, int32)
        result.is_comparison = True
        return result

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def _matched(self, other: object) -> Any:
        comparable = isinstance(other, (int, float, Register))
        return self._compared(other) if comparable else NotImplemented

    __eq__ = __ne__ = _matched
    __hash__ = object.__hash__


def holds_32_bits(value: Any) -> bool:
    """Tell whether a value is a register, or a scalar as wide as one."""
    if type(value) is NkiScalar:
        return value._operand().dtype is int32
    return type(value) is VirtualRegister
