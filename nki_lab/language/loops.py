"""The loops of a kernel: unrolled ones, and those that the device runs.

`affine_range`, `sequential_range` and `static_range` are unrolled: they are Python's `range` under other names.
`fori_loop`, `while_loop` and the older `dynamic_range` are loops that the device runs; their body is traced once.
(nki/api/nki/language/__init__.py, nki/deep-dives/nki-dynamic-loops.rst)
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from nki_lab.dtypes import int64
from nki_lab.errors import LoopControl
from nki_lab.ir.building.builder import Builder, current
from nki_lab.ir.building.device_loops import check_body, find_loop, position_of
from nki_lab.ir.building.loop_state import LoopState, state_of_block, state_of_body
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.register import REGISTER_VALUES, NkiScalar, Register, VirtualRegister
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.control import register_move
from nki_lab.source import Blame
from nki_lab.versions import added_in


def affine_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`.

    The older dialect promised the compiler independent iterations by this name; today all unrolled loops are
    equal and the official API advises `range`.
    """
    return _unrolled("affine_range", start, stop, step)


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`."""
    return _unrolled("sequential_range", start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Return the values of an unrolled loop; the same as `range`."""
    return _unrolled("static_range", start, stop, step)


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[VirtualRegister]:
    """Yield, once, the induction register of a loop that the device runs.

    The body is traced once. Bounds are integers or registers. Deprecated in NKI 0.6 in favour of `fori_loop`, refused
    since NKI 0.7.
    """
    lower, upper = (0, start) if stop is None else (start, stop)
    _check_bounds("dynamic_range", lower, upper, step)
    builder = current()
    builder.check_named("nki.language.dynamic_range")
    frame = sys._getframe(1)
    loop = find_loop(frame.f_code, position_of(frame.f_code, frame.f_lasti), ast.For)
    if loop is not None:
        check_body(loop, frame.f_code)
    builder.meet_form("dynamic_range", "nl.dynamic_range")
    return _device_range(builder, (lower, upper, step), state_of_block(loop, frame))


def _device_range(
    builder: Builder, bounds: tuple[Any, Any, int], state: LoopState
) -> Iterator[VirtualRegister]:
    register = builder.register("i", frozen=True)
    builder.open_loop("for", bounds, register)
    register.loop = builder.loop
    for _ in builder.passes(bounds):
        yield register
    builder.close_loop()
    state.tell(builder)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], Any], step: int = 1) -> None:
    """Run `body_fun(i)` on the device for i from `lower` to `upper` (exclusive).

    The body is traced once; `i` addresses tensors. It is an NkiScalar, which has arithmetic, or where a bound is a
    VirtualRegister, and before NKI 0.7, a VirtualRegister. State goes from one pass to the
    next through SBUF and HBM only: a Python counter or list that the body changes is a finding. `i` is passed by
    value: writing it has no effect on the loop.

    Args:
        lower, upper: integers, registers or scalars of 32 bits.
        body_fun: called once, with `i`; returns nothing.
        step: positive integer.
    """
    _check_bounds("fori_loop", lower, upper, step)
    _check_takes_one("fori_loop", body_fun, "i")
    builder = current()
    # Scalars came with 0.7 (nki/api/generated/nki.language.fori_loop.html).
    registers = added_in("nki.isa.NkiScalar").number > builder.version.number
    registers |= any(type(bound) is VirtualRegister for bound in (lower, upper))
    register = builder.register("i") if registers else builder.scalar(name="i")
    register.by_value = True
    state = state_of_body(body_fun)
    builder.open_loop("for", (lower, upper, step), register)
    register.loop = builder.loop
    for _ in builder.passes((lower, upper, step)):
        result = body_fun(register)
        if result is not None and not isinstance(result, Instruction):  # a lambda returns its call
            raise LoopControl(
                f"nl.fori_loop: the body returned {type(result).__name__}, it must return nothing",
                help="carry state through tensors made before the loop",
            )
    builder.close_loop()
    state.tell(builder)


def while_loop(
    init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]
) -> None:
    """Run `body_fun(r)` on the device while the condition register is not zero.

    The condition is tested before each pass.

    Args:
        init: register with the first condition.
        body_fun: called once, with the condition register; returns the register with the next condition.
    """
    if type(init) is not VirtualRegister:
        raise LoopControl(
            f"nl.while_loop: the condition must be a register, found {type(init).__name__}",
            help="load it with nisa.register_load into a register from nisa.register_alloc()",
        )
    _check_takes_one("while_loop", body_fun, "register")
    builder = current()
    condition = builder.register(f"{init.name}_condition")
    register_move(condition, init)
    state = state_of_body(body_fun)
    builder.open_loop("while", (), condition)
    for _ in builder.passes():
        following = body_fun(condition)
    if type(following) is not VirtualRegister:
        raise LoopControl(
            f"nl.while_loop: the body returned {type(following).__name__}, it must return the next condition register",
            help="end the body with `return register`",
        )
    if following is not condition:
        register_move(condition, following)
    builder.close_loop()
    state.tell(builder)


def _check_bounds(name: str, lower: Any, upper: Any, step: Any) -> None:
    for position, (what, bound) in enumerate((("lower", lower), ("upper", upper))):
        scalar = isinstance(bound, NkiScalar) and name == "fori_loop"
        if scalar and bound._operand().dtype is int64:
            raise LoopControl(
                f"nl.{name}: the {what} bound `{bound.name}` has 64 bits, and a loop counts in 32",
                help="load the bound from an int32 tile; in the body 64 bits may be computed",
                blame=Blame("fori_loop", ((what, position),)),
            )
        if not (scalar or type(bound) is VirtualRegister) and not (
            type(bound) is int and bound in REGISTER_VALUES
        ):
            given = bound.describe() if isinstance(bound, NkiTensor) else repr(bound)
            raise LoopControl(
                f"nl.{name}: the {what} bound must be an integer, a register or a scalar, signed and of 32 bits; found"
                f" {given}",
                help="load a value of a tensor with nisa.scalar_load",
                blame=Blame("fori_loop", ((what, position),)),
            )
    if type(step) is not int or step < 1:
        raise LoopControl(
            f"nl.{name}: the step must be a positive integer known while the kernel is traced; found {step!r}",
            help="leave it out for 1; to count down, compute upper - 1 - i in the body",
            blame=Blame(name, (("step", 3 if name == "fori_loop" else 2),)),
        )


def _check_takes_one(name: str, body_fun: Any, parameter: str) -> None:
    """Refuse a body that cannot be called with the counter or the condition of its loop."""
    if callable(body_fun):
        try:
            signature = inspect.signature(body_fun)
            signature.bind(None)
        except ValueError:  # one of Python's own, without a signature
            return
        except TypeError:
            given = f"{getattr(body_fun, '__name__', 'a function')}{signature}"
        else:
            return
    else:
        given = f"{type(body_fun).__name__} {body_fun!r}"
    raise LoopControl(
        f"nl.{name}: the body must be a function that takes one argument, found {given}",
        help=f"write def body({parameter}): ... above the loop, and give `body`",
        blame=Blame(name, (("body_fun", 2 if name == "fori_loop" else 1),)),
    )


def _unrolled(name: str, start: Any, stop: Any, step: Any) -> range:
    for bound in (start, stop, step):
        if isinstance(bound, (NkiTensor, Register)):
            raise LoopControl(
                f"nl.{name}: the bound {bound!r} is only known at run time",
                help="loop on the device with nl.fori_loop(lower, upper, body), or pass the number of iterations"
                " to the kernel as an int",
            )
        if not (hasattr(bound, "__index__") or (bound is stop and stop is None)):
            whole = " (// divides whole numbers)" if isinstance(bound, float) else ""
            raise LoopControl(
                f"nl.{name}: the bounds and the step must be integers, found {type(bound).__name__} {bound!r}",
                help=f"give integers{whole}, such as nl.{name}(n)",
            )
    if type(step) is int and step == 0:
        raise LoopControl(
            f"nl.{name}: the step must not be 0",
            help="leave it out for 1; a negative step counts down",
        )
    return range(start) if stop is None else range(start, stop, step)
