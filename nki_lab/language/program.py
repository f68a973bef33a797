"""The place of a program in the launch grid, and the order of its instructions.

The grid of `kernel[cores](...)` has one axis of one or two cores (nki/api/nki/language/__init__.py: program_id).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from nki_lab.errors import OutOfBounds
from nki_lab.ir.building.builder import current


def program_id(axis: int = 0) -> int:
    """Return the index of the core this program runs on, from 0."""
    _check_axis("program_id", axis)
    return current().program[0]


def num_programs(axes: Any = 0) -> int:
    """Return the number of cores the kernel was launched on."""
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        if axis is not None:  # None means all axes, of which there is one
            _check_axis("num_programs", axis)
    return current().program[1]


def program_ndim() -> int:
    """Return the number of axes of the launch grid.

    It is 1 under `kernel[1]` and `kernel[2]`, and 0 where the kernel is called without a grid.
    """
    return len(current().grid)


def no_reorder() -> AbstractContextManager[None]:
    """Run the instructions of a `with` block one after the other.

    Each waits until the one before it has finished, also in functions that the block calls, and on other engines: it
    is short for an edge from each instruction to the next (`with_schedule`). Instructions outside may still move past
    those inside. (nki/guides/how-to-scheduling-apis.rst)
    """
    builder = current()
    return builder.kept_order.block(builder.stack())


def _check_axis(name: str, axis: Any) -> None:
    if axis not in (0, -1) or isinstance(axis, bool):
        raise OutOfBounds(
            f"nl.{name}: axis {axis!r} of the launch grid, which has only axis 0",
            help=f"write nl.{name}(0): kernels are launched on 1 or 2 cores, as kernel[2](...)",
        )
