"""Reductions over the trips of loops, and over the programs of a launch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from types import FrameType
from typing import Any, NamedTuple

from nki_lab.beta1.elementwise import binary
from nki_lab.beta1.loops import Trip
from nki_lab.beta1.memory import copy
from nki_lab.beta1.operators import operator_of
from nki_lab.beta1.overlap import Place, overlaps
from nki_lab.beta1.program import axis_of, running
from nki_lab.beta1.promotion import dtype_named
from nki_lab.beta1.results import on_chip
from nki_lab.beta1.tile import Tile
from nki_lab.beta1.turns import Meeting
from nki_lab.dtypes import float32
from nki_lab.errors import NotModelled, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.author_text import variable_of
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.source import Stack


class OverTrips(NamedTuple):
    """What `nl.loop_reduce` returns where its value is not assigned to a name: `assign` combines it with its target."""

    tile: Tile
    operator: str
    first: bool

    def onto(self, target: Tile) -> Tile:
        """Return what is to be assigned to a target now."""
        if self.first and not _is_set(target):
            return self.tile
        return binary(self.operator, target, self.tile, dtype=target.dtype)


def loop_reduce(
    x: Tile, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tile | OverTrips:
    """Combine a tile with the tensor that the call is assigned to: `t = nl.loop_reduce(x, np.add, [i])`.

    As its page says, `t[...] = nl.loop_reduce(x, np.add, [i])` is `t[...] = nisa.tensor_tensor(t, x, np.add)`. A tensor
    that holds nothing yet, or what the same loops have left in it when they ran before, is overwritten in their first
    trip.
    """
    for index in loop_indices if isinstance(loop_indices, Sequence) else (loop_indices,):
        if not isinstance(index, Trip):
            raise WrongOperand(
                f"nl.loop_reduce: loop_indices holds {index!r}, which is no variable of a loop",
                notes=["its page allows numbers, too, but does not say which loop a number means"],
                help="give the variables of nl.affine_range as they are: loop_indices=[i]",
            )
    indices = loop_indices if isinstance(loop_indices, Sequence) else (loop_indices,)
    operator = operator_of(op, "nl.loop_reduce").name
    stack = current().stack()
    name = variable_of(stack[:1])
    if name:
        held = _value_of(name, stack)
        if isinstance(held, Tile) and held is not x:
            kind = held.dtype if dtype is None else dtype_named(dtype)
            held[...] = binary(operator, held, x, kind, mask)
            return held
        return copy(x, dtype=dtype, mask=mask)
    tile = x if dtype is None and mask is None else copy(x, dtype=dtype, mask=mask)
    return OverTrips(tile, operator, all(index.first for index in indices))


def _value_of(name: str, stack: Stack) -> Any:
    """Return what a name of the function that makes the innermost call holds; None where it holds nothing yet."""
    code = stack[0][0]  # type: ignore[index]
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


def _is_set(target: Tile) -> bool:
    """Tell whether a tensor holds something that does not come from nl.loop_reduce."""
    if target.zeros is not None and target.zeros.filled:
        return True
    place = Place.of(target.target())
    for i in reversed(current().body):
        for view in i.written() if type(i) is Instruction else ():
            other = Place.of(view)
            if other == place or any(overlaps([(place, 0), (other, 1)])):
                return id(i) not in running().reduced
    return False


def all_reduce(
    x: Tile,
    op: Any,
    program_axes: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    parallel_reduce: bool = True,
    asynchronous: bool = False,
    **kwargs: Any,
) -> Tile:
    """Return a tile combined over the programs along axes of the launch grid: each of them waits for all, and gets it.

    Floats are combined as float32, in the order of the programs, and rounded once. `parallel_reduce` says how much
    memory the old compiler took for it, and changes nothing here.
    """
    name = "nl.all_reduce"
    if not isinstance(x, Tile):
        raise WrongOperand(
            f"{name}: `x` must be a tile, found {type(x).__name__}",
            help="load it into a tile first: nl.load(tensor)",
        )
    if asynchronous:
        raise NotModelled(
            "nl.all_reduce(asynchronous=True): its page says to call nki.sync_thread before the result is read, and no"
            " page describes that function",
            help="leave `asynchronous` out: the call returns when the result is there",
        )
    program = running()
    axes = program_axes if isinstance(program_axes, (tuple, list)) else (program_axes,)
    numbers = tuple(sorted({axis_of(a, program) for a in axes})) if program.grid else ()
    operator = operator_of(op, name).name
    if prod(program.grid[a] for a in numbers) == 1:
        return copy(x, dtype=dtype, mask=mask)
    x = on_chip(x, name, "x")
    terms = {"op": operator, "shape": list(x.shape), "dtype": x.dtype}
    group = program.turns.meet(Meeting(name, numbers, terms, x, current().stack()))
    if group[0].value is not group[-1].value:
        total = group[0].value
        for other in group[1:]:
            total = binary(
                operator, total, other.value, float32 if x.dtype.is_float else x.dtype, mask
            )
        for meeting in group:
            meeting.value = total
    return copy(group[0].value, dtype=x.dtype if dtype is None else dtype, mask=mask)
