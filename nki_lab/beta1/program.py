"""The launch grid: its programs run one after the other in one trace, on one core, in the order of their numbers.

A tensor in nl.hbm is private to a program. Those in nl.shared_hbm are shared: the nth that a program makes is the nth
of every other. The result of the first program is that of the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from nki_lab.beta1.promotion import integer
from nki_lab.beta1.tile import Tile
from nki_lab.errors import OutOfBounds, OutsideKernel
from nki_lab.errors.beta1 import older


@dataclass
class Program:
    """One program of a launch.

    Attributes:
        grid: shape of the launch grid; `()` without one.
        place: of the program in the grid.
        shared: the tensors in shared HBM, in the order in which a program makes them; of all programs.
        count: how many of them this program has made.
        texts: what the text of each loop says, by its place.
        open: the loops that are open, as far as their writes are looked at.
        scopes: the loops that have ended (scope.py).
        clock: how often a loop has begun or ended.
        declared: what the clock said when the tensor of a block was declared, by the number of the block.
        places: the tensor with block axes that a block belongs to, and its place, by the number of the block.
        forced: tensors are where the compiler puts them, whatever the kernel says.
        reduced: identities of the instructions that assign what nl.loop_reduce returns.
        turns: where the programs of the launch wait for each other.
    """

    grid: tuple[int, ...] = ()
    place: tuple[int, ...] = ()
    shared: list[Tile] = field(default_factory=list)
    count: int = 0
    texts: dict[Any, Any] = field(default_factory=dict)
    open: list[Any] = field(default_factory=list)
    scopes: list[Any] = field(default_factory=list)
    clock: int = 0
    declared: dict[int, int] = field(default_factory=dict)
    places: dict[int, tuple[Any, tuple[int, ...]]] = field(default_factory=dict)
    forced: bool = False
    reduced: set[int] = field(default_factory=set)
    turns: Any = None


class ProgramId(int):
    """The place of a program along an axis of the launch grid.

    Attributes:
        axis: the axis, for functions that take axes and are given the programs' places along them.
    """

    axis = 0


class _Running(threading.local):
    program: Program | None = None


_running = _Running()


@contextmanager
def taken(program: Program) -> Iterator[None]:
    """Let a program be the one that runs, for a block."""
    before = _running.program
    _running.program = program
    try:
        yield
    finally:
        _running.program = before


def running() -> Program:
    """Return the program that runs; an error outside a kernel."""
    if _running.program is None:
        raise OutsideKernel(
            "a function of neuronxcc.nki.language was called outside a kernel",
            notes=[older("err_nki_api_outside_of_nki_kernel")],
            help="call it in a function decorated with @nki.jit, and call that function with arrays",
        )
    return _running.program


def placed() -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the launch grid and the place of the program that runs; None where none of this dialect does."""
    program = _running.program
    return None if program is None else (program.grid, program.place)


def program_id(axis: int) -> int:
    """Return the place of this program along an axis of the launch grid; 0 without a grid."""
    program = running()
    if not program.grid:
        return 0
    number = axis_of(axis, program)
    place = ProgramId(program.place[number])
    place.axis = number
    return place


def program_ndim() -> int:
    """Return the number of axes of the launch grid."""
    return len(running().grid)


def num_programs(axes: Any = None) -> int:
    """Return the number of programs along axes of the launch grid; by default of all."""
    program = running()
    if axes is None or not program.grid:
        return prod(program.grid)
    return prod(
        program.grid[axis_of(a, program)]
        for a in (axes if isinstance(axes, (tuple, list)) else (axes,))
    )


def axis_of(axis: Any, program: Program) -> int:
    """Return an axis of the launch grid, given by its number or by `nl.program_id`; an error where it has none such."""
    if isinstance(axis, ProgramId):
        return axis.axis
    number = integer(axis, "an axis of the launch grid")
    if not 0 <= number < len(program.grid):
        raise OutOfBounds(
            f"axis {number} of a launch grid with {len(program.grid)} axes: {list(program.grid)}",
            help=f"axes are 0 to {len(program.grid) - 1}; launch with more: kernel[2, 4](...)",
        )
    return number
