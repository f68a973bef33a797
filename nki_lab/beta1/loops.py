"""The loops of a kernel, which are unrolled.

The old compiler traced the body of an affine_range or sequential_range once: what plain Python did in one trip did not
reach the next. A number that the body carries from trip to trip therefore counts once: each later trip begins with the
numbers that stood before the loop, and the loop ends with what one trip has made of them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from nki_lab.beta1.tile import Tile
from nki_lab.errors import LoopControl


class Trip(int):
    """The value of a loop variable.

    Attributes:
        first: it is that of the first trip.
    """

    first = False


class _Range:
    """A loop whose body is run once for each value."""

    #: The body was traced once.
    traced_once = True

    def __init__(self, *bounds: Any, **keywords: Any) -> None:
        for bound in bounds:
            if isinstance(bound, Tile):
                raise LoopControl(
                    f"nl.{type(self).__name__}: the bound {bound!r} is only known at run time",
                    help="pass the number of trips to the kernel as an int",
                )
        self._values = range(*map(int, bounds))

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Trip]:
        frame = sys._getframe(1)
        before: dict[str, Any] = {}
        for n, value in enumerate(self._values):
            if self.traced_once and len(self._values) > 1:
                if n == 0:
                    before = _numbers(frame)
                else:
                    _put_back(frame, before)
            trip = Trip(value)
            trip.first = n == 0
            yield trip


class affine_range(_Range):  # the names that kernels write
    """Loop over trips that do not depend on each other."""


class sequential_range(_Range):
    """Loop over trips of which each may need what the one before has computed."""


class static_range(_Range):
    """Loop over trips that are unrolled in the text of the kernel."""

    traced_once = False


def _numbers(frame: FrameType) -> dict[str, Any]:
    return {k: v for k, v in frame.f_locals.items() if type(v) in (int, float, bool)}


def _put_back(frame: FrameType, before: dict[str, Any]) -> None:
    """Give the numbers of a frame the values that they had before the loop."""
    now = frame.f_locals
    changed = {
        k: v for k, v in before.items() if type(now.get(k)) in (int, float, bool) and now[k] != v
    }
    if not changed:
        return
    now.update(changed)
    if sys.version_info < (3, 13):  # later, f_locals writes through
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
