"""The loops of a kernel: unrolled ones, and those that the device runs.

`affine_range`, `sequential_range` and `static_range` are unrolled: they are Python's `range` under other names.
`fori_loop`, `while_loop` and the older `dynamic_range` are loops that the device runs; their body is traced once.
(nki/api/nki/language/__init__.py, nki/deep-dives/nki-dynamic-loops.rst)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from typing import Any

from nki_lab.errors import LoopControl
from nki_lab.ir.building.builder import Builder, current
from nki_lab.ir.building.device_loops import check_body, find_loop, position_of
from nki_lab.ir.building.loop_state import LoopState, state_of_block, state_of_body
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.register import REGISTER_VALUES, Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.control import register_move
from nki_lab.source import Blame


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


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Iterator[Register]:
    """Yield, once, the induction register of a loop that the device runs.

    The body is traced once. Bounds are integers or registers. Deprecated since NKI 0.6 in favour of `fori_loop`.
    """
    lower, upper = (0, start) if stop is None else (start, stop)
    _check_bounds("dynamic_range", lower, upper, step)
    builder = current()
    frame = sys._getframe(1)
    loop = find_loop(frame.f_code, position_of(frame), ast.For)
    if loop is not None:
        check_body(loop, frame.f_code)
    builder.meet_form("dynamic_range", "nl.dynamic_range")
    state = None if loop is None else state_of_block(loop, frame)
    return _device_range(builder, (lower, upper, step), state)


def _device_range(
    builder: Builder, bounds: tuple[Any, Any, int], state: LoopState | None
) -> Iterator[Register]:
    register = builder.register("i", frozen=True)
    builder.open_loop("for", bounds, register)
    yield register
    builder.close_loop()
    if state is not None:
        state.tell(builder)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Register], Any], step: int = 1) -> None:
    """Run `body_fun(i)` on the device for i from `lower` to `upper` (exclusive).

    The body is traced once; `i` is a register, of use as the address of tensors. State goes from one pass to the
    next through SBUF and HBM only: a Python counter or list that the body changes is a finding. `i` is passed by
    value: writing it has no effect on the loop.

    Args:
        lower, upper: integers or registers.
        body_fun: called once, with the induction register; returns nothing.
        step: positive integer.
    """
    _check_bounds("fori_loop", lower, upper, step)
    builder = current()
    register = builder.register("i")
    register.by_value = True
    state = state_of_body(body_fun)
    builder.open_loop("for", (lower, upper, step), register)
    result = body_fun(register)
    if result is not None and not isinstance(result, Instruction):  # a lambda returns its call
        raise LoopControl(
            f"nl.fori_loop: the body returned {type(result).__name__}, it must return nothing",
            help="carry state through tensors made before the loop",
        )
    builder.close_loop()
    if state is not None:
        state.tell(builder)


def while_loop(init: Register, body_fun: Callable[[Register], Register]) -> None:
    """Run `body_fun(r)` on the device while the condition register is not zero.

    The condition is tested before each pass.

    Args:
        init: register with the first condition.
        body_fun: called once, with the condition register; returns the register with the next condition.
    """
    if not isinstance(init, Register):
        raise LoopControl(
            f"nl.while_loop: the condition must be a register, found {type(init).__name__}",
            help="load it with nisa.register_load into a register from nisa.register_alloc()",
        )
    builder = current()
    condition = builder.register(f"{init.name}_condition")
    register_move(condition, init)
    state = state_of_body(body_fun)
    builder.open_loop("while", (), condition)
    following = body_fun(condition)
    if not isinstance(following, Register):
        raise LoopControl(
            f"nl.while_loop: the body returned {type(following).__name__}, it must return the next condition register",
            help="end the body with `return register`",
        )
    if following is not condition:
        register_move(condition, following)
    builder.close_loop()
    if state is not None:
        state.tell(builder)


def _check_bounds(name: str, lower: Any, upper: Any, step: Any) -> None:
    for position, (what, bound) in enumerate((("lower", lower), ("upper", upper))):
        if not isinstance(bound, Register) and not (
            type(bound) is int and bound in REGISTER_VALUES
        ):
            given = bound.describe() if isinstance(bound, NkiTensor) else repr(bound)
            raise LoopControl(
                f"nl.{name}: the {what} bound must be an integer or a register, signed and of 32 bits; found {given}",
                help="load a value of a tensor with nisa.register_load",
                blame=Blame("fori_loop", ((what, position),)),
            )
    if type(step) is not int or step < 1:
        raise LoopControl(
            f"nl.{name}: the step must be a positive integer known while the kernel is traced; found {step!r}",
            blame=Blame(name, (("step", 3 if name == "fori_loop" else 2),)),
        )


def _unrolled(name: str, start: Any, stop: Any, step: Any) -> range:
    for bound in (start, stop, step):
        if isinstance(bound, (NkiTensor, Register)):
            raise LoopControl(
                f"nl.{name}: the bound {bound!r} is only known at run time",
                help="loop on the device with nl.fori_loop(lower, upper, body), or pass the number of iterations"
                " to the kernel as an int",
            )
    return range(start) if stop is None else range(start, stop, step)
