"""Rows of a matrix by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step
from nki_lab.kernels.rows import check_index, indices_of_rows, loaded, of_this_core

_STEP = 8192  # columns that are moved at once


@nki.jit
def gather(input, dim, index):
    """Return input[index]: the rows of a matrix that indices name, in their order.

    An index below 0 or beyond the rows is an error when the kernel runs.

    Args:
        input: [rows, width], of any dtype.
        dim: the axis that the indices count along; it must be 0.
        index: [count], int32.

    Returns:
        [count, width], of the dtype of `input`.
    """
    check_index("gather", input, dim, index)
    count, width = index.shape[0], input.shape[1]
    out = nl.ndarray((count, width), dtype=input.dtype, buffer=nl.shared_hbm)
    for n, (indices, rows) in enumerate(indices_of_rows(index, out)):
        if not of_this_core(n):
            continue
        for start in range(0, width, _STEP):
            columns = slice(start, min(start + _STEP, width))
            tile = loaded(input[:, columns].vector_select(0, indices))
            nisa.dma_copy(dst=rows[:, columns], src=tile)
    return out


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, width: int, count: int
) -> dict[str, Any]:
    return {
        "input": rng.standard_normal((rows, width)).astype(dtype),
        "dim": 0,
        "index": rng.integers(0, rows, count, np.int32),
    }


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return rows with NaN and -inf, each named twice."""
    arguments = _arguments(rng, np.float32, 4, 9, 6)
    arguments["input"][1, 2], arguments["input"][3] = np.nan, -np.inf
    arguments["index"][:] = 3, 1, 0, 1, 3, 2
    return arguments


def _reference(input: Any, dim: int, index: Any) -> np.ndarray:
    result: np.ndarray = input.astype(np.float64)[index]
    return result


KERNEL = Prebuilt(
    kernel=gather,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 300, "width": 96, "count": 128},
        {"rows": 5, "width": 130, "count": 400},
        {"rows": 7, "width": 8200, "count": 3},
        {"rows": 1, "width": 1, "count": 1},
    ),
    ranges={"rows": range(1, 300), "width": range(1, 200), "count": range(1, 300)},
    timed=(
        {"rows": 1024, "width": 1024, "count": 1024},
        {"rows": 8192, "width": 4096, "count": 8192},
    ),
    cores=(1, 2),
    tolerance={"float32": 0.0, "bfloat16": 0.0},
    chips=("trn2", "trn3"),  # where transfers gather
    steps=(
        Step(
            "Partition p holds the indices of rows that follow each other, so that one transfer loads them all.",
            "for n, (indices, rows) in",
        ),
        Step(
            "One transfer gathers the rows that 128 indices name, of each partition one; GpSimd makes its descriptors.",
            "tile = loaded(",
        ),
        Step("One transfer stores them where they belong.", "nisa.dma_copy("),
    ),
    sources=("NKI Library, gather",),
    edges={"NaN and rows named twice": _edge},
    refused=(
        Refused(
            {"input": (4, 5), "dim": 1, "index": np.zeros(2, np.int32)},
            "gather: dim=1; expected 0",
            "np.ascontiguousarray(input.T)",
        ),
        Refused(
            {"input": (4, 5), "dim": 0, "index": (2,)},
            "`index` is [2] float32; expected [count] int32",
            "index.astype(np.int32).reshape(-1)",
        ),
        Refused(
            {"input": (4,), "dim": 0, "index": np.zeros(2, np.int32)},
            "`input` has shape [4]; expected [rows, width]",
            "reshape",
        ),
    ),
)
