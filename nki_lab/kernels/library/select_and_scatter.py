"""The gradient of maximum pooling: select and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded
from nki_lab.kernels.turns import Turns

# Bytes of a partition for the tiles of some rows of windows; three such groups are in flight.
_GROUP_BYTES = 40 * 1024
_WIDEST = 1024


@nki.jit
def select_and_scatter(operand_tensor, source_tensor):
    """Add each source value to the place of the largest operand in its window.

    Windows are 3 x 3, 2 apart, and reach 1 beyond the edges, where nothing is selected. Of equal operands the first
    in row-major order is selected.

    Args:
        operand_tensor: [n, c, h, w], float32 or bfloat16, without NaN; w at most 1024.
        source_tensor: [n, c, (h + 1) // 2, (w + 1) // 2], of the same dtype, one finite value for each window.

    Returns:
        [n, c, h, w]: sums of source values, and 0 where no window selects.
    """
    _check(operand_tensor, source_tensor)
    (n, c, height, width), windows = operand_tensor.shape, source_tensor.shape[2:]
    out = nl.ndarray(operand_tensor.shape, dtype=operand_tensor.dtype, buffer=nl.shared_hbm)
    operand, result = (t.reshape((n * c, height, width)) for t in (operand_tensor, out))
    source = source_tensor.reshape((n * c, *windows))
    itemsize = 4 if operand.dtype == nl.float32 else 2
    group = max(1, _GROUP_BYTES * 2 // (17 * width * itemsize))
    engines = _engines(itemsize)
    for first in range(0, n * c, nl.tile_size.pmax):
        part = slice(first, min(first + nl.tile_size.pmax, n * c))
        carried = None
        for a in range(0, windows[0], group):
            b = min(a + group, windows[0])
            engine = engines.next(b - a)
            carried = _scatter(operand[part], source[part], result[part], a, b, carried, engine)
    return out


def _check(operand, source):
    check_floats("select_and_scatter", operand_tensor=operand)
    require(
        len(operand.shape) == 4,
        f"select_and_scatter: `operand_tensor` has shape {list(operand.shape)}; expected [n, c, h, w]",
        "reshape it, so that rows and columns are the last axes",
    )
    n, c, height, width = operand.shape
    expected = [n, c, (height + 1) // 2, (width + 1) // 2]
    require(
        list(source.shape) == expected,
        f"select_and_scatter: `source_tensor` is {list(source.shape)}; expected {expected}, one for each window",
        "windows are 3 x 3, 2 apart, with a padding of 1",
    )
    require(
        operand.dtype == source.dtype,
        f"select_and_scatter: `source_tensor` is {source.dtype}, and `operand_tensor` {operand.dtype}",
        "cast them to one dtype",
    )
    require(
        width <= _WIDEST,
        f"select_and_scatter: rows of `operand_tensor` have {width} elements; the kernel takes {_WIDEST}",
        "call it for some of the columns at a time; neighbouring parts share the columns of a window",
    )


def _engines(itemsize):
    """Return the engines that share the work: with two bytes Vector is twice as fast, and keeps GpSimd from SBUF."""
    return Turns(
        {nisa.engine.vector: 1.04, nisa.engine.gpsimd: 0.83}
        if itemsize == 4
        else {nisa.engine.vector: 1}
    )


def _scatter(operand, source, out, a, b, carried, engine):
    """Scatter the windows of rows a to b; return the part of the next row that they have in common with row b."""
    height = operand.shape[1]
    top, bottom = max(2 * a - 1, 0), min(2 * b, height)
    elements, values = loaded(operand[:, top:bottom]), loaded(source[:, a:b])
    across = _Taps(2, 0, values.shape[2], elements.shape[2])
    of_rows = across.largest(elements, engine)
    down = _Taps(1, 2 * a - top, b - a, bottom - top)
    sums = down.scattered(values, of_rows, down.largest(of_rows, engine), engine, carried)
    whole = bottom - top - (bottom < height)
    if whole:
        some = (slice(None), slice(0, whole))
        result = across.scattered(sums[some], elements[some], of_rows[some], engine)
        nisa.dma_copy(dst=out[:, top : top + whole], src=result)
    return sums[:, whole:] if bottom < height else None


class _Taps:
    """Windows of three neighbours along an axis, two apart: what each selects, and the sums of what it gives back."""

    def __init__(self, axis: int, center: int, count: int, size: int) -> None:
        # The first window may lack its left neighbour, and the last its right one.
        self._axis, self._size = axis, size
        self._centers = slice(center, center + 2 * count - 1, 2)
        self._rights = slice(center + 1, min(center + 2 * count, size), 2)
        lacks = 1 if center == 0 else 0
        self._lefts = slice(center + 2 * lacks - 1, center + 2 * count - 2, 2)
        self._with_left = slice(lacks, count)
        self._with_right = slice(0, len(range(self._rights.start, self._rights.stop, 2)))
        self._count = count

    def _of(self, tensor, part):
        return tensor[(*[slice(None)] * self._axis, part)]

    def _tile(self, like, size):
        shape = [*like.shape]
        shape[self._axis] = size
        return nl.ndarray(tuple(shape), dtype=like.dtype, buffer=nl.sbuf)

    def largest(self, elements, engine):
        """Return the largest element of each window."""
        result, centers = self._tile(elements, self._count), self._of(elements, self._centers)
        both = self._with_right
        if both.stop:
            _combine(
                self._of(result, both), self._of(centers, both), self._of(elements, self._rights),
                nl.maximum, engine,
            )  # fmt: skip
        if both.stop < self._count:
            rest = slice(both.stop, self._count)
            nisa.tensor_copy(dst=self._of(result, rest), src=self._of(centers, rest), engine=engine)
        if self._with_left.start < self._count:
            some = self._of(result, self._with_left)
            _combine(some, some, self._of(elements, self._lefts), nl.maximum, engine)
        return result

    def scattered(self, values, elements, largest, engine, carried=None):
        """Return the sums of the values, each at the first of the largest elements of its window.

        `carried` is what another window has already given to the first element. What is left of `values` changes.
        """
        result = self._tile(values, self._size)
        centers, given = self._of(result, self._centers), None
        if self._with_left.start < self._count:
            some = self._of(values, self._with_left)
            given = self._tile(values, self._count - self._with_left.start)
            lefts = self._of(elements, self._lefts)
            _combine(given, lefts, self._of(largest, self._with_left), nl.equal, engine)
            _combine(given, given, some, nl.multiply, engine)
            _combine(some, some, given, nl.subtract, engine)
        _combine(centers, self._of(elements, self._centers), largest, nl.equal, engine)
        _combine(centers, centers, values, nl.multiply, engine)
        both = self._with_right
        if both.stop:
            _combine(
                self._of(result, self._rights), self._of(values, both), self._of(centers, both),
                nl.subtract, engine,
            )  # fmt: skip
        if carried is not None:
            nisa.tensor_copy(dst=self._of(result, slice(0, 1)), src=carried, engine=engine)
        if given is not None:
            lefts = self._of(result, self._lefts)
            _combine(lefts, lefts, given, nl.add, engine)
        return result


def _combine(dst, one, other, op, engine):
    nisa.tensor_tensor(dst=dst, data1=one, data2=other, op=op, engine=engine)


def _arguments(
    rng: np.random.Generator, dtype: Any, n: int, c: int, h: int, w: int
) -> dict[str, Any]:
    windows = (n, c, (h + 1) // 2, (w + 1) // 2)
    return {
        # Few different values: many windows hold their largest element several times.
        "operand_tensor": rng.integers(-9, 9, (n, c, h, w)).astype(dtype),
        "source_tensor": rng.standard_normal(windows).astype(dtype),
    }


def _infinite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 1, 2, 9, 8)
    arguments["operand_tensor"][0, 0, :4] = -np.inf
    arguments["operand_tensor"][0, 1, 3] = np.inf
    return arguments


def _reference(operand_tensor: Any, source_tensor: Any) -> np.ndarray:
    operand, source = operand_tensor.astype(np.float64), source_tensor.astype(np.float64)
    n, c = operand.shape[:2]
    result = np.zeros(operand.shape)
    images, channels = np.indices((n, c))
    for i, j in np.ndindex(*source.shape[2:]):
        top, left = max(2 * i - 1, 0), max(2 * j - 1, 0)
        window = operand[:, :, top : 2 * i + 2, left : 2 * j + 2]
        place = window.reshape(n, c, -1).argmax(axis=2)
        row, column = np.divmod(place, window.shape[3])
        result[images, channels, top + row, left + column] += source[:, :, i, j]
    return result


def _size(n: int, c: int, h: int, w: int) -> dict[str, int]:
    return {"n": n, "c": c, "h": h, "w": w}


KERNEL = Prebuilt(
    kernel=select_and_scatter,
    official={"neuronxcc.nki.kernels.vision.select_and_scatter_kernel": select_and_scatter},
    arguments=_arguments,
    reference=_reference,
    tested=(_size(2, 64, 12, 12), _size(3, 50, 61, 37), _size(1, 1, 1, 1), _size(1, 2, 300, 2)),
    ranges={"n": range(1, 3), "c": range(1, 70), "h": range(1, 30), "w": range(1, 30)},
    timed=(_size(2, 64, 56, 56), _size(8, 64, 112, 112)),
    tolerance={"float32": 1e-6, "bfloat16": 1e-2},
    edges={"infinite": _infinite},
    falls_short={
        "float32": "seven operations for each element take the Vector engine and GpSimd as long as the transfers",
        "bfloat16": "seven operations for each element take the Vector engine 2.5 times as long as the transfers; "
        "its fast mode for two bytes keeps GpSimd from SBUF",
    },
    refused=(
        Refused(
            {"operand_tensor": np.zeros((1, 2, 2, 2), np.int32), "source_tensor": (1, 2, 1, 1)},
            "`operand_tensor` is int32; expected float32",
            "astype(np.float32)",
        ),
        Refused(
            {"operand_tensor": (64, 8, 8), "source_tensor": (64, 4, 4)},
            "`operand_tensor` has shape [64, 8, 8]; expected [n, c, h, w]",
            "the last axes",
        ),
        Refused(
            {"operand_tensor": (1, 64, 9, 8), "source_tensor": (1, 64, 4, 4)},
            "`source_tensor` is [1, 64, 4, 4]; expected [1, 64, 5, 4]",
            "a padding of 1",
        ),
        Refused(
            {"operand_tensor": (1, 1, 2, 2), "source_tensor": np.zeros((1, 1, 1, 1), np.float16)},
            "`source_tensor` is float16, and `operand_tensor` float32",
            "one dtype",
        ),
        Refused(
            {"operand_tensor": (1, 1, 2, 1026), "source_tensor": (1, 1, 1, 513)},
            "rows of `operand_tensor` have 1026 elements; the kernel takes 1024",
            "some of the columns",
        ),
    ),
    steps=(
        Step(
            "128 images of one channel lie in the partitions; rows and columns in the free axis.",
            "elements, values = loaded(",
        ),
        Step(
            "The largest of three neighbours in each row, then of three rows: the largest of each window.",
            "of_rows = across.largest(",
        ),
        Step(
            "A value goes to the first of the three rows whose largest element equals that of the window.",
            "sums = down.scattered(",
        ),
        Step(
            "In that row it goes to the first of the three elements that equals the largest of the row.",
            "result = across.scattered(",
        ),
        Step(
            "Rows that two windows share carry the sums from one group of rows to the next.",
            "carried = _scatter(",
        ),
        Step(
            "In float32 groups of rows alternate between the Vector engine and GpSimd, which work at the same time.",
            "_engines",
        ),
    ),
    sources=(
        "NKI documentation, neuronxcc.nki.kernels.vision.select_and_scatter_kernel",
        "OpenXLA documentation, SelectAndScatter",
    ),
)
