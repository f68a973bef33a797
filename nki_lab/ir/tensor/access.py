"""Runs: the contiguous pieces into which a copy between two views falls.

A DMA engine moves runs: stretches of the element stream that are contiguous on both sides. On chip a run ends with
its partition; where a tile of indices chooses the rows, with its row. Everything here is arithmetic on shapes and
strides; no element is enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from nki_lab.errors import InstructionError
from nki_lab.ir.tensor.view import NkiTensor

Level = tuple[
    int, bool
]  # after how many elements the walk carries into this axis, and the step there in elements


@dataclass(frozen=True, slots=True)
class Runs:
    """How the stream of a copy falls into runs.

    Attributes:
        count: number of runs.
        elements: elements in all of them together.
    """

    count: int
    elements: int

    def mean_bytes(self, itemsize: int) -> int:
        """Return the bytes of one run, rounded up to whole bytes where their lengths differ."""
        return -(-self.elements * itemsize // self.count)


def runs(dst: NkiTensor, src: NkiTensor) -> Runs:
    """Return the maximal runs in which `src` is copied to `dst`.

    Both views are streams of the same number of elements, in row-major order; their shapes may differ.

    Raises:
        InstructionError: the views have different numbers of elements.
    """
    size = dst.size
    if size != src.size:
        raise InstructionError(
            f"a copy pairs elements, but {src.describe()} has {src.size} and {dst.describe()} has {size}",
            help="give both sides the same number of elements",
        )
    if size == 0:
        return Runs(0, 0)
    to, frm = _levels(dst), _levels(src)
    # The stream breaks before element k when one side, carrying into the outermost axis it reaches there, does not
    # step by one element. Multiples of an outer level are multiples of every inner one, so the elements at which
    # both sides carry exactly into levels (a, b) are counted by inclusion and exclusion.
    breaks = 0
    for a, (period_a, near_a) in enumerate(to):
        for b, (period_b, near_b) in enumerate(frm):
            if near_a and near_b:
                continue
            outer_a = to[a - 1][0] if a else 0
            outer_b = frm[b - 1][0] if b else 0
            breaks += (
                _multiples(size, period_a, period_b)
                - _multiples(size, outer_a, period_b)
                - _multiples(size, period_a, outer_b)
                + _multiples(size, outer_a, outer_b)
            )
    return Runs(breaks + 1, size)


def _multiples(size: int, a: int, b: int) -> int:
    """Count the multiples of both below `size`, 0 excluded; a period of 0 never comes."""
    return (size - 1) // lcm(a, b) if a and b else 0


def _levels(view: NkiTensor) -> list[Level]:
    """Return the levels of a walk through `view`, outermost first; neighbours that walk alike are one."""
    levels: list[Level] = []
    period = 1  # elements inside the axis
    back = 0  # how far the axes inside have come when the walk carries
    for axis in reversed(range(len(view.shape))):
        size, stride = view.shape[axis], view.strides[axis]
        if size == 1:
            continue
        near = stride - back == 1 and not (axis == 0 and view.first_axis_stays)
        if not levels or levels[-1][1] != near:  # else carrying into either has the same effect
            levels.append((period, near))
        back += (size - 1) * stride
        period *= size
    levels.reverse()
    return levels or [(1, True)]
