"""Instructions that move values between registers and memory.

Each engine's sequencer has 64 registers of 32 bits (nki/api/nki/isa/__init__.py, register_alloc); the compiler chooses
which engine holds one. Here Sync does, which computes nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.errors import KernelArgument, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule, writes
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import stored
from nki_lab.targets.engines import SYNC
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import HBM, SBUF

_INT32 = (-(1 << 31), (1 << 32) - 1)  # signed and unsigned values of 32 bits


def register_alloc(x: Any = None) -> Register:
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
    if x is not None and (type(x) is not int or not _INT32[0] <= x <= _INT32[1]):
        raise KernelArgument(
            f"register_alloc takes an integer of 32 bits or None; found {x!r}",
            help="allocate it empty, then nisa.register_load(register, tensor) or nisa.register_move",
        )
    register = current().register()
    if x is not None:
        register_move(register, x)
    return register


def _is_register(*names: str) -> Any:
    shown = " and ".join(f"`{n}`" for n in names)
    return rule(
        f"{shown} must be a register",
        *names,
        help="allocate it with nisa.register_alloc()",
        error=WrongOperand,
        source=ISA,
    )(lambda i, hw: all(type(getattr(i, n)) is Register for n in names))


@rule(
    "`src` must be a register or an integer of 32 bits",
    "src",
    help="load a value of a tensor with nisa.register_load",
    error=WrongOperand,
    source=ISA,
)
def _register_or_integer(i, hw):
    value = i.src
    return type(value) is Register or (type(value) is int and _INT32[0] <= value <= _INT32[1])


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
    """Set a register to an integer or to the value of another register.

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
    rules=(_is_register("src"), _one_integer("dst")),
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
