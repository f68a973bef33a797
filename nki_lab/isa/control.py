"""Instructions that move values between registers and memory, and the arithmetic of scalars.

Each engine's sequencer has 64 registers of 32 bits (nki/api/nki/isa/__init__.py, register_alloc); the compiler chooses
which engine holds one. Here Sync does, which computes nothing else. No page says where scalars are computed (NKI 0.7);
they are taken to be registers, two for one of 64 bits, and an operation to take as long as a move.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from nki_lab.dtypes import int32, int64
from nki_lab.errors import KernelArgument, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule, writes
from nki_lab.ir.tensor.register import NkiScalar, VirtualRegister, holds_32_bits
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import stored
from nki_lab.isa.operators import OPS
from nki_lab.isa.rules import one_of_operators
from nki_lab.targets.engines import SYNC
from nki_lab.targets.facts import GENERATED, ISA
from nki_lab.targets.spaces import HBM, SBUF

_INT32 = (-(1 << 31), (1 << 32) - 1)  # signed and unsigned values of 32 bits


def _fits_register(x: Any) -> bool:
    return holds_32_bits(x) or (type(x) is int and _INT32[0] <= x <= _INT32[1])


def register_alloc(x: Any = None) -> VirtualRegister:
    """Return a new 32-bit register, holding `x` or nothing yet.

    A published kernel passes a tensor of one integer; its value is loaded, and a finding says what is documented.

    Source: nki/api/nki/isa/__init__.py, register_alloc.
    """
    if type(x) is NkiTensor:
        current().find(
            "portability",
            f"register_alloc({x.describe()}): only integers are documented as first values",
            help="write register = nisa.register_alloc(), then nisa.register_load(register, tensor)",
        )
        register = current().register()
        register_load(register, x)
        return register
    if x is not None and not _fits_register(x):
        raise KernelArgument(
            f"register_alloc takes an integer of 32 bits or None; found {x!r}",
            help="allocate it empty, then nisa.register_load(register, tensor) or nisa.register_move",
        )
    register = current().register()
    if x is not None:
        register_move(register, x)
    return register


def _is_register(*names: str, help: str = "allocate it with nisa.register_alloc()") -> Any:
    shown = " and ".join(f"`{n}`" for n in names)
    return rule(f"{shown} must be a register", *names, help=help, error=WrongOperand, source=ISA)(
        lambda i, hw: all(type(getattr(i, n)) is VirtualRegister for n in names)
    )


@rule(
    "`src` must be a register, a scalar or an integer, of 32 bits",
    "src",
    help="load a value of a tensor with nisa.register_load",
    error=WrongOperand,
    source=ISA,
)
def _register_or_integer(i, hw):
    return _fits_register(i.src)


def _one_integer(name: str) -> Any:
    return rule(
        f"`{name}` must have exactly one element, of an integer dtype",
        name,
        help="slice one element: t[0:1, 0:1]",
        source=ISA,
    )(lambda i, hw: getattr(i, name).size == 1 and getattr(i, name).dtype.is_integer)


@instruction(
    engine=(SYNC,),
    sets=("dst",),
    opaque=("src",),
    rules=(_is_register("dst"), _register_or_integer),
)
def register_move(dst, src) -> None:
    """Set a register to an integer, or to the value of a register or scalar.

    A scalar of 32 bits stands where the page says integer (nki.isa.NkiScalar, NKI 0.7).

    Source: nki/api/nki/isa/__init__.py, register_move.
    """


@register_move.semantics
def _(out_dst, src):
    out_dst[0] = src


@register_move.cost
def _(i, hw):
    yield MicroOp("REGISTER_MOVE", hw.min_interval_cycles)


@instruction(
    engine=(SYNC,),
    sets=("dst",),
    src=reads(*HBM, SBUF, shape=Shape.OWN),
    numerics=stored("src"),
    any_start=("src",),
    rules=(_is_register("dst"), _one_integer("src")),
)
def register_load(dst, src) -> None:
    """Set a register to the one integer of a tensor in HBM or SBUF.

    Source: nki/api/nki/isa/__init__.py, register_load.
    """


@register_load.semantics
def _(out_dst, src):
    out_dst[0] = int(src.reshape(-1)[0])


@register_load.cost
def _(i, hw):
    yield MicroOp("REGISTER_LOAD", hw.min_interval_cycles, bytes_read=i.src.dtype.itemsize)


@instruction(
    engine=(SYNC,),
    dst=writes(*HBM, SBUF, shape=Shape.OWN),
    numerics=stored("dst"),
    any_start=("dst",),
    rules=(
        _is_register(
            "src", help="allocate it with nisa.register_alloc(); nisa.scalar_store writes a scalar"
        ),
        _one_integer("dst"),
    ),
)
def register_store(dst, src) -> None:
    """Write the value of a register to the one element of a tensor in HBM or SBUF.

    Source: nki/api/nki/isa/__init__.py, register_store.
    """


@register_store.semantics
def _(out, src):
    # The low bits of the register, as memory keeps them, whatever the sign.
    out[...] = np.array(src & 0xFFFFFFFF, np.uint32).astype(out.dtype)


@register_store.cost
def _(i, hw):
    yield MicroOp("REGISTER_STORE", hw.min_interval_cycles, bytes_written=i.dst.dtype.itemsize)


# -- scalars ---------------------------------------------------------------------------------------------------------

_OPERATIONS = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul}
_SCALARS = frozenset((int32, int64))


def _one_by_one(name: str) -> Any:
    return rule(
        f"`{name}` must have shape [1, 1]",
        name,
        help="slice one element: t[0:1, 0:1]",
        source=f"{GENERATED}/nki.isa.scalar_load.html",
    )(lambda i, hw: getattr(i, name).shape == (1, 1))


@instruction(
    engine=(SYNC,),
    sets=("dst",),
    gives="dst",
    like=("src",),
    src=reads(*HBM, SBUF, shape=Shape.OWN, dtypes=_SCALARS),
    numerics=stored("src"),
    any_start=("src",),
    rules=(_one_by_one("src"),),
)
def scalar_load(dst, src) -> None:
    """Return the one integer of a [1, 1] tensor in HBM or SBUF as a scalar.

    The scalar has the dtype of `src`, int32 or int64, and so has what is computed from it.

    Source: nki/api/generated/nki.isa.scalar_load.html.
    """


@scalar_load.semantics
def _(out_dst, src):
    out_dst[0] = int(src.reshape(-1)[0])


@scalar_load.cost
def _(i, hw):
    yield MicroOp("SCALAR_LOAD", hw.min_interval_cycles, bytes_read=i.src.dtype.itemsize)


@rule(
    "`value` must be an NkiScalar",
    "value",
    help="load one with nisa.scalar_load; nisa.memset writes a number that is known while the kernel is traced",
    error=WrongOperand,
    source=f"{GENERATED}/nki.isa.scalar_store.html",
)
def _is_scalar(i, hw):
    return type(i.value) is NkiScalar


@rule(
    "`dst` must have the dtype of `value`",
    "dst",
    "value",
    help="store it in a tile of the dtype of the scalar, and cast that with nisa.tensor_copy",
    source=f"{GENERATED}/nki.isa.scalar_store.html",
)
def _same_width(i, hw):
    return i.dst.dtype is i.value.dtype


@instruction(
    engine=(SYNC,),
    dst=writes(*HBM, SBUF, shape=Shape.OWN, dtypes=_SCALARS),
    numerics=stored("dst"),
    any_start=("dst",),
    rules=(_is_scalar, _one_by_one("dst"), _same_width),
)
def scalar_store(dst, value) -> None:
    """Write a scalar to a [1, 1] tensor of its dtype in HBM or SBUF.

    Source: nki/api/generated/nki.isa.scalar_store.html.
    """


@scalar_store.semantics
def _(out, value):
    out[...] = value


@scalar_store.cost
def _(i, hw):
    yield MicroOp("SCALAR_STORE", hw.min_interval_cycles, bytes_written=i.dst.dtype.itemsize)


@rule(
    "`a` and `b` must be NkiScalars of one dtype, or one of them an integer that fits the dtype of the other",
    "a",
    "b",
    help="load both from tiles of one dtype",
    error=WrongOperand,
    source=f"{GENERATED}/nki.isa.NkiScalar.html",
)
def _one_dtype(i, hw):
    scalars = [v for v in (i.a, i.b) if type(v) is NkiScalar]
    numbers = [v for v in (i.a, i.b) if type(v) is int]
    return (
        len(scalars) + len(numbers) == 2
        and len({v.dtype for v in scalars}) == 1
        and all(v in scalars[0].kept for v in numbers)
    )


@instruction(
    module="nki.isa.NkiScalar",
    engine=(SYNC,),
    sets=("dst",),
    gives="dst",
    like=("a", "b"),
    rules=(
        replace(one_of_operators("op", *_OPERATIONS), source=f"{GENERATED}/nki.isa.NkiScalar.html"),
        _one_dtype,
    ),
)
def scalar_arithmetic(dst, op, a, b) -> None:
    """Return a new scalar: what `+`, `-` and `*` of scalars record.

    Of a result that does not fit the dtype the low bits are kept.

    Source: nki/api/generated/nki.isa.NkiScalar.html.
    """


@scalar_arithmetic.semantics
def _(out_dst, op, a, b):
    out_dst[0] = np.uint64(_OPERATIONS[op.name](a, b) % (1 << 64)).astype(np.int64)


@scalar_arithmetic.cost
def _(i, hw):
    yield MicroOp("SCALAR_ARITHMETIC", hw.min_interval_cycles)


def _compute(name: str, a: Any, b: Any) -> NkiScalar:
    """Record an operation of an NkiScalar."""
    return scalar_arithmetic(op=OPS[name], a=a, b=b)


NkiScalar._compute = staticmethod(_compute)
