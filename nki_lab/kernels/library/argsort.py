"""The order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core

_MOST = 16_384


@nki.jit
def argsort(data, descending=False):
    """Return the indices that sort the elements, of equal ones the lower index first.

    NaN counts as infinity.

    Args:
        data: [1, count], float32 or bfloat16; count at most 16384.
        descending: put the largest first.

    Returns:
        [1, count], int32.
    """
    _check(data)
    count, pmax = data.shape[1], nl.tile_size.pmax
    out = nl.ndarray((1, count), dtype=nl.int32, buffer=nl.shared_hbm)
    places = out.reshape((count, 1))
    every = _without_nan(data.broadcast(0, min(count, pmax)))
    earlier = nl.ndarray((pmax, pmax), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=earlier, value=1.0)
    nisa.affine_select(
        dst=earlier, pattern=[[-1, pmax]], offset=0, channel_multiplier=1, on_true_tile=earlier,
        on_false_value=0.0, cmp_op=nl.greater,
    )  # fmt: skip
    for n, first in enumerate(range(0, count, pmax)):
        if not of_this_core(n):
            continue
        part = slice(first, min(first + pmax, count))
        size = part.stop - first
        mine = _without_nan(data[:, part].reshape((size, 1)))
        rank = _rank(every[:size], part, mine, earlier[:size, :size], descending)
        index = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=index, pattern=[[0, 1]], offset=first, channel_multiplier=1)
        nisa.dma_copy(dst=places.vector_select(0, rank), src=index)
    return out


def _check(data):
    check_floats("argsort", data=data)
    require(
        len(data.shape) == 2 and data.shape[0] == 1 and data.shape[1] <= _MOST,
        f"argsort: `data` has shape {list(data.shape)}; expected [1, count], count at most {_MOST}",
        "sort one row at a time: argsort(data[n : n + 1])",
    )


def _without_nan(view):
    """Return a tile in float32, with infinity for NaN."""
    tile = loaded(view)
    result = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.copy, data=tile)
    mask = nl.ndarray(tile.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=mask, data1=tile, data2=tile, op=nl.not_equal)
    nisa.tensor_copy_predicated(dst=result, src=float("inf"), predicate=mask)
    return result


def _rank(every, part, mine, earlier, descending):
    """Return how many elements come before each of `mine`, which are columns `part` of `every`."""
    size, count = every.shape
    before, or_equal = (nl.greater, nl.greater_equal) if descending else (nl.less, nl.less_equal)
    total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    # Among the same elements an equal one comes before if it stands earlier.
    block = every[:, part]
    counts = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    for op0, op1, other in ((nl.equal, nl.multiply, earlier), (before, nl.add, counts)):
        nisa.scalar_tensor_tensor(
            dst=counts, data=block, op0=op0, operand0=mine, op1=op1, operand1=other
        )
    nisa.tensor_reduce(dst=total, op=nl.add, data=counts, axis=1)
    # All that stands earlier comes before if it is equal, and nothing that stands later does.
    for op, columns in ((or_equal, slice(0, part.start)), (before, slice(part.stop, count))):
        if columns.start < columns.stop:
            marks = nl.ndarray(
                (size, columns.stop - columns.start), dtype=nl.bfloat16, buffer=nl.sbuf
            )
            added = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar_reduce(
                dst=marks, data=every[:, columns], op0=op, operand0=mine,
                reduce_op=nl.add, reduce_res=added,
            )  # fmt: skip
            nisa.tensor_tensor(dst=total, data1=total, data2=added, op=nl.add)
    rank = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rank, src=total)
    return rank


def _arguments(rng: np.random.Generator, dtype: Any, count: int, descending: int) -> dict[str, Any]:
    # Multiples of 1 / 16: many are equal.
    data = np.round(16 * rng.standard_normal((1, count))) / 16
    return {"data": data.astype(dtype), "descending": bool(descending)}


def _edge(rng: np.random.Generator, descending: int) -> dict[str, Any]:
    """Return elements with NaN and infinities, many of each."""
    arguments = _arguments(rng, np.float32, 300, descending)
    data = arguments["data"]
    data[0, ::7], data[0, 1::9], data[0, 2::11] = np.nan, np.inf, -np.inf
    return arguments


def _reference(data: Any, descending: bool = False) -> np.ndarray:
    x = data.astype(np.float64)
    x = np.where(np.isnan(x), np.inf, x)
    return np.argsort(-x if descending else x, axis=1, kind="stable")


KERNEL = Prebuilt(
    kernel=argsort,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"count": 128, "descending": 0},
        {"count": 1000, "descending": 1},
        {"count": 1, "descending": 0},
    ),
    ranges={"count": range(1, 600), "descending": range(2)},
    timed=({"count": 1024, "descending": 0}, {"count": 16384, "descending": 0}),
    cores=(1, 2),
    tolerance={"float32": 0.0, "bfloat16": 0.0},
    chips=("trn2", "trn3"),  # where transfers scatter
    steps=(
        Step(
            "All partitions get all elements; each of them stands for one of 128 elements at a time.",
            "every = _without_nan(",
        ),
        Step(
            "The Vector engine counts how many elements are smaller: that is where the element belongs.",
            "nisa.tensor_scalar_reduce(",
        ),
        Step(
            "Of elements that are equal those that stand earlier count, too.",
            "for op0, op1, other in",
        ),
        Step(
            "One transfer scatters the 128 indices to where their elements belong.",
            "nisa.dma_copy(dst=places",
        ),
    ),
    sources=("NKI Library, argsort_unstable",),
    falls_short=dict.fromkeys(
        ("float32", "bfloat16"),
        "the Vector engine compares each element with every other, 128 pairs in a cycle",
    ),
    edges={
        "NaN and infinities": lambda rng: _edge(rng, 0),
        "NaN and infinities, descending": lambda rng: _edge(rng, 1),
    },
    refused=(
        Refused({"data": (2, 9)}, "`data` has shape [2, 9]; expected [1, count]", "one row"),
        Refused(
            {"data": np.zeros((1, 3), np.int32)},
            "`data` is int32; expected float32 or bfloat16",
            "data.astype(np.float32)",
        ),
    ),
)
