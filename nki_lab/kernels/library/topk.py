"""The largest elements of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, of_this_core

_EIGHT = 8  # what the Vector engine finds at once
_STEP = 16_384  # columns that are searched at once, which is what one instruction takes
_GROUP = 32  # columns of a group, of which the largest element is found first
# The lowest number of bfloat16; -inf stands for elements that were taken before.
_LOWEST = -3.3895313892515355e38


@nki.jit
def topk(inp, k):
    """Return the k largest elements of each row, the largest first, and their indices.

    Of equal elements the lower index comes first. -inf is allowed; below -3.3895e38 all is -inf where k is above 8.
    A row with NaN gives NaN, and indices of -1.

    Args:
        inp: [rows, width], float32 or bfloat16; width at most 2 ** 24.
        k: how many, at most the width. k, rounded up to 8, times width / 16384, rounded up, is at most 16384.

    Returns:
        values: [rows, k], of the dtype of `inp`.
        indices: [rows, k], int32.
    """
    steps = _check(inp, k)
    rows, width = inp.shape
    values = nl.ndarray((rows, k), dtype=inp.dtype, buffer=nl.shared_hbm)
    indices = nl.ndarray((rows, k), dtype=nl.int32, buffer=nl.shared_hbm)
    many = -(-k // _EIGHT) * _EIGHT
    for tile_of_rows, first in enumerate(range(0, rows, nl.tile_size.pmax)):
        if not of_this_core(tile_of_rows):
            continue
        part = slice(first, min(first + nl.tile_size.pmax, rows))
        size = part.stop - first
        best = nl.ndarray((size, len(steps) * many), dtype=nl.float32, buffer=nl.sbuf)
        places = nl.ndarray((size, len(steps) * many), dtype=nl.uint32, buffer=nl.sbuf)
        for n, start in enumerate(steps):
            tile = _padded(inp[part, start : min(start + _STEP, width)])
            mine = slice(n * many, (n + 1) * many)
            _search_groups(tile, best[:, mine], places[:, mine], k)
            if start:
                nisa.tensor_scalar(
                    dst=places[:, mine], data=places[:, mine], op0=nl.add, operand0=start
                )
        if len(steps) > 1:
            merged = [
                nl.ndarray((size, many), dtype=dtype, buffer=nl.sbuf)
                for dtype in (nl.float32, nl.uint32)
            ]
            _search(best, *merged)
            best, places = merged[0], _at(places, merged[1])
        _finish(best, places, k)
        result = nl.ndarray((size, k), dtype=inp.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=best[:, :k])
        nisa.dma_copy(dst=values[part], src=result)
        nisa.dma_copy(dst=indices[part], src=places.view(nl.int32)[:, :k])
    return values, indices


def _check(inp, k):
    """Return the columns at which searches begin."""
    check_floats("topk", inp=inp)
    require(
        len(inp.shape) == 2 and inp.shape[1] <= 2**24,
        f"topk: `inp` has shape {list(inp.shape)}; expected [rows, width], width at most {2**24}",
        "reshape it: inp.reshape((-1, inp.shape[-1]))",
    )
    width = inp.shape[1]
    steps = range(0, width, _STEP)
    require(
        0 < k <= width and len(steps) * -(-k // _EIGHT) * _EIGHT <= _STEP,
        f"topk: k={k} of {width} columns; expected 1 to {min(width, _STEP // len(steps))}",
        "take fewer; where all are wanted in order, use argsort",
    )
    return steps


def _padded(view):
    """Return a tile in SBUF, filled up with -inf to whole groups."""
    size, width = view.shape
    whole = -(-width // _GROUP) * _GROUP
    tile = nl.ndarray((size, whole), dtype=view.dtype, buffer=nl.sbuf)
    if width < whole:
        nisa.memset(dst=tile[:, width:], value=float("-inf"))
    nisa.dma_copy(dst=tile[:, :width], src=view)
    return tile


def _search_groups(tile, values, places, k):
    """Write the largest elements of each row and their places.

    They are in the groups that have the largest elements: as many groups as are wanted elements.
    """
    (size, width), many = tile.shape, values.shape[1]
    if width <= 2 * many * _GROUP:
        _lift(tile, k)
        _search(tile, values, places)
        return
    largest = tile.reshape_dim(1, (width // _GROUP, _GROUP))
    while (half := largest.shape[2] // 2) > 0:
        halves = nl.ndarray((size, width // _GROUP, half), dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=halves, data1=largest[:, :, :half], data2=largest[:, :, half:], op=nl.maximum
        )
        largest = halves
    largest = largest[:, :, 0]
    _lift(largest, k)
    groups = nl.ndarray((size, many), dtype=nl.uint32, buffer=nl.sbuf)
    _search(largest, values, groups)
    nan = _is_nan(values[:, 0:1])
    columns = _columns(groups, width)
    nearest = nl.ndarray(columns.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=nearest, data=tile, indices=columns)
    _lift(nearest, k)
    at = nl.ndarray((size, many), dtype=nl.uint32, buffer=nl.sbuf)
    _search(nearest, values, at)
    # A group with NaN is not found by its number.
    nisa.tensor_copy_predicated(dst=values[:, 0:1], src=float("nan"), predicate=nan)
    nisa.tensor_copy(dst=places, src=_at(columns, at))


def _lift(tile, k):
    """Make the lowest number of what is -inf, where -inf will stand for what was taken."""
    if k > _EIGHT:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=_LOWEST)


def _columns(groups, width):
    """Return the columns of some groups, in ascending order, so that of equal elements the first is found first."""
    size, many = groups.shape
    # The largest negative number belongs to the first group.
    negative, order = (nl.ndarray((size, many), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.tensor_scalar(dst=negative, data=groups, op0=nl.multiply, operand0=-float(_GROUP))
    # Beside NaN no group is found; what is gathered there is replaced at the end.
    nisa.tensor_scalar(dst=negative, data=negative, op0=nl.maximum, operand0=float(_GROUP - width))
    _search(negative, order)
    inside = nl.ndarray((size, _GROUP), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=inside, pattern=[[1, _GROUP]], offset=0, channel_multiplier=0)
    columns = nl.ndarray((size, many, _GROUP), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_tensor(
        dst=columns, data1=inside.expand_dim(1).broadcast(1, many),
        data2=order.expand_dim(2).broadcast(2, _GROUP), op=nl.subtract,
    )  # fmt: skip
    return columns.reshape((size, many * _GROUP))


def _search(tile, values, places=None):
    """Write the largest elements of each row and their places, eight at a time; `tile` is written to."""
    for start in range(0, values.shape[1], _EIGHT):
        eight = slice(start, start + _EIGHT)
        nisa.max8(dst=values[:, eight], src=tile)
        if places is not None:
            nisa.nc_find_index8(dst=places[:, eight], data=tile, vals=values[:, eight])
        if eight.stop < values.shape[1]:
            nisa.nc_match_replace8(dst=tile, data=tile, vals=values[:, eight], imm=float("-inf"))


def _at(values, at):
    """Return elements of each row; where NaN was not found, any."""
    nisa.tensor_scalar(dst=at, data=at, op0=nl.minimum, operand0=values.shape[1] - 1)
    result = nl.ndarray(at.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=result, data=values, indices=at)
    return result


def _finish(best, places, k):
    """Write -inf where the lowest number stands for it, and NaN and -1 into rows with NaN."""
    size, count = best.shape
    if k > _EIGHT:
        mask = nl.ndarray((size, count), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mask, data=best, op0=nl.less_equal, operand0=_LOWEST)
        nisa.tensor_copy_predicated(dst=best, src=float("-inf"), predicate=mask)
    # NaN is larger than everything, so it comes first.
    nan = _is_nan(best[:, 0:1]).broadcast(1, count)
    nisa.tensor_copy_predicated(dst=best, src=float("nan"), predicate=nan)
    nisa.tensor_copy_predicated(dst=places.view(nl.int32), src=-1, predicate=nan)


def _is_nan(tile):
    """Return where a tile is NaN, which alone differs from itself."""
    mask = nl.ndarray(tile.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=mask, data1=tile, data2=tile, op=nl.not_equal)
    return mask


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, width: int, k: int
) -> dict[str, Any]:
    # Multiples of 1 / 16: many are equal.
    inp = np.round(16 * rng.standard_normal((rows, width))) / 16
    return {"inp": inp.astype(dtype), "k": k}


def _edge(rng: np.random.Generator, width: int, k: int) -> dict[str, Any]:
    """Return rows with -inf, so that fewer than k are finite, with -inf alone, and with NaN."""
    arguments = _arguments(rng, np.float32, 4, width, k)
    inp = arguments["inp"]
    inp[0, 3:], inp[1], inp[2, width // 2] = -np.inf, -np.inf, np.nan
    inp[3, 1::3] = np.inf
    return arguments


def _reference(inp: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    x = inp.astype(np.float64)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    nan = np.isnan(x).any(axis=1, keepdims=True)
    values = np.where(nan, np.nan, np.take_along_axis(x, order, axis=1))
    return values, np.where(nan, -1, order)


KERNEL = Prebuilt(
    kernel=topk,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 128, "width": 96, "k": 8},
        {"rows": 130, "width": 700, "k": 5},
        {"rows": 5, "width": 8200, "k": 3},
        {"rows": 5, "width": 16390, "k": 21},
        {"rows": 1, "width": 1, "k": 1},
    ),
    ranges={"rows": range(1, 200), "width": range(1, 1500), "k": range(1, 40)},
    legal=lambda rows, width, k: k <= width,
    timed=(
        {"rows": 128, "width": 8192, "k": 8},
        {"rows": 1024, "width": 32768, "k": 8},
    ),
    cores=(1, 2),
    tolerance={"float32": 0.0, "bfloat16": 0.0},
    steps=(
        Step(
            "128 rows lie in the partitions, and 16384 columns at a time in the free axis.",
            "for n, start in enumerate(steps)",
        ),
        Step(
            "The Vector engine finds the largest element of each group of 32, by the larger of halves.",
            "while (half :=",
        ),
        Step(
            "The k largest elements are in the k groups with the largest, which are found, and put in order.",
            "_columns",
        ),
        Step(
            "GpSimd gathers their elements; the Vector engine finds the 8 largest, and then their places.",
            "nisa.nc_n_gather(dst=nearest",
        ),
        Step(
            "For more than 8 it replaces them by -inf, and begins anew; -inf was made the lowest number before.",
            "_lift",
        ),
        Step(
            "Of what it finds in all columns it finds the largest once more.", "if len(steps) > 1"
        ),
        Step("Rows that begin with NaN are filled with NaN and -1.", "_finish"),
    ),
    sources=("NKI Library, rotational_topk and gpsimd_topk",),
    edges={
        "few finite, up to 8": lambda rng: _edge(rng, 40, 5),
        "few finite, in groups": lambda rng: _edge(rng, 1000, 5),
        "few finite, more than 8": lambda rng: _edge(rng, 8300, 20),
    },
    refused=(
        Refused({"inp": (2, 3, 4), "k": 2}, "expected [rows, width]", "reshape"),
        Refused({"inp": (2, 3), "k": 4}, "k=4 of 3 columns; expected 1 to 3", "argsort"),
        Refused(
            {"inp": np.zeros((2, 3), np.int32), "k": 2},
            "`inp` is int32; expected float32 or bfloat16",
            "inp.astype(np.float32)",
        ),
    ),
)
