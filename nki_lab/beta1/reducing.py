"""Reductions over the trips of loops, and over the programs of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from nki_lab.beta1.loops import Trip
from nki_lab.beta1.memory import copy
from nki_lab.beta1.operators import operator_of
from nki_lab.beta1.program import axis_of, running
from nki_lab.beta1.tile import Tile
from nki_lab.errors import NotModelled, WrongOperand


class OverTrips(NamedTuple):
    """What `nl.loop_reduce` returns: a tile that is combined with those of the trips before where it is assigned."""

    tile: Tile
    operator: str
    first: bool


def loop_reduce(
    x: Tile, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> OverTrips:
    """Return a tile to be assigned to one of outside the loops: `t[...] = nl.loop_reduce(x, np.add, [i])`.

    In the first trip of these loops it is copied; in later ones it is combined with what the trips before have left.
    """
    indices = loop_indices if isinstance(loop_indices, Sequence) else (loop_indices,)
    for index in indices:
        if not isinstance(index, Trip):
            raise WrongOperand(
                f"nl.loop_reduce: loop_indices holds {index!r}, which is no variable of a loop",
                help="give the variables of nl.affine_range as they are: loop_indices=[i]",
            )
    operator = operator_of(op, "nl.loop_reduce").name
    tile = x if dtype is None and mask is None else copy(x, dtype=dtype, mask=mask)
    return OverTrips(tile, operator, all(index.first for index in indices))


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
    """Return a tile combined over the programs along axes of the launch grid; of one program it is a copy."""
    program = running()
    axes = program_axes if isinstance(program_axes, Sequence) else (program_axes,)
    count = prod(program.grid[axis_of(axis, program)] for axis in axes) if program.grid else 1
    operator_of(op, "nl.all_reduce")
    if count > 1:
        raise NotModelled(
            f"nl.all_reduce over {count} programs: programs run one after the other here, and the first would need what"
            " the last computes; its page says neither when they wait for each other nor which of them get the result"
            " (nki.language.all_reduce of 2.26)",
            help="store what each program has, and combine it in another kernel",
        )
    return copy(x, dtype=dtype, mask=mask)
