"""Rows that are added to those of a matrix, by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, check_index, loaded

_STEP = 4096  # columns that are added at once


@nki.jit
def scatter_add(input, dim, index, src):
    """Return a copy of `input` to which row i of `src` is added at row index[i], for every i.

    An index may occur any number of times; sums are computed in float32, and rounded once for each 128 indices.
    NaN or infinity in `src` makes its column NaN in all rows that are named by the same 128 indices. An index out of
    range is an error when the kernel runs.

    Args:
        input: [rows, width], float32 or bfloat16; rows below 2 ** 24.
        dim: the axis that the indices count along; it must be 0.
        index: [count], int32.
        src: [count, width], of the dtype of `input`.
    """
    _check(input, dim, index, src)
    (rows, width), count, pmax = input.shape, index.shape[0], nl.tile_size.pmax
    out = nl.ndarray((rows, width), dtype=input.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=input)
    for first in range(0, count, pmax):
        part = slice(first, min(first + pmax, count))
        same, indices, firsts = _equal(index[part], rows, src.dtype)
        for start in range(0, width, _STEP):
            columns = slice(start, min(start + _STEP, width))
            before = out[:, columns]
            total = loaded(before.vector_select(0, indices))
            _add(total, same, loaded(src[part, columns]))
            nisa.dma_copy(
                dst=before.vector_select(0, firsts), src=total, oob_mode=nisa.oob_mode.skip
            )
    return out


def _check(input, dim, index, src):
    check_floats("scatter_add", input=input)
    check_index("scatter_add", input, dim, index)
    shape = [index.shape[0], input.shape[1]]
    require(
        list(src.shape) == shape and src.dtype == input.dtype,
        f"scatter_add: `src` is {list(src.shape)} {src.dtype}; expected {shape} {input.dtype}",
        "give one row for each index, as wide as `input` and of its dtype",
    )
    require(
        input.shape[0] < 2**24,
        f"scatter_add: `input` has {input.shape[0]} rows; indices are compared in float32, which counts to {2**24}",
        "split `input`, and subtract the first row of each part from the indices",
    )


def _equal(index, rows, dtype):
    """Return which of up to 128 indices are equal, [size, size], the indices, and these with `rows` where repeated."""
    size = index.shape[0]
    row = loaded(index.reshape((1, size)).broadcast(0, size))
    indices = loaded(index.reshape((size, 1)))
    number = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=number, src=indices)
    same = nl.ndarray((size, size), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=same, data=row, op0=nl.equal, operand0=number)
    # Below the diagonal stand the earlier ones: where there is one, the index is repeated.
    earlier = nl.ndarray((size, size), dtype=dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=earlier, pattern=[[-1, size]], offset=0, channel_multiplier=1, on_true_tile=same,
        on_false_value=0.0, cmp_op=nl.greater,
    )  # fmt: skip
    repeated = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=repeated, op=nl.maximum, data=earlier, axis=1)
    mask = nl.ndarray((size, 1), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=mask, src=repeated)
    firsts = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=firsts, src=indices)
    nisa.tensor_copy_predicated(dst=firsts, src=rows, predicate=mask)
    return same, indices, firsts


def _add(total, same, tile):
    """Add to each row the sum of the rows of a tile that have its index."""
    size, width = tile.shape
    for start in range(0, width, nl.tile_size.gemm_moving_fmax):
        part = slice(start, min(start + nl.tile_size.gemm_moving_fmax, width))
        product = nl.ndarray((size, part.stop - start), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=same, moving=tile[:, part])
        nisa.tensor_tensor(dst=total[:, part], data1=total[:, part], data2=product, op=nl.add)


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, width: int, count: int
) -> dict[str, Any]:
    return {
        "input": rng.standard_normal((rows, width)).astype(dtype),
        "dim": 0,
        "index": rng.integers(0, rows, count, np.int32),
        "src": rng.standard_normal((count, width)).astype(dtype),
    }


def _reference(input: Any, dim: int, index: Any, src: Any) -> np.ndarray:
    result: np.ndarray = input.astype(np.float64)
    np.add.at(result, index, src.astype(np.float64))
    return result


KERNEL = Prebuilt(
    kernel=scatter_add,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 300, "width": 96, "count": 128},
        {"rows": 5, "width": 130, "count": 300},
        {"rows": 7, "width": 4100, "count": 3},
        {"rows": 1, "width": 1, "count": 1},
    ),
    ranges={"rows": range(1, 300), "width": range(1, 200), "count": range(1, 300)},
    timed=(
        {"rows": 4096, "width": 1024, "count": 512},
        {"rows": 16384, "width": 4096, "count": 2048},
    ),
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    chips=("trn2", "trn3"),  # where transfers gather and scatter
    multiplies=lambda rows, width, count: 2 * 128 * width * count,
    steps=(
        Step("One transfer copies the matrix.", "nisa.dma_copy(dst=out, src=input)"),
        Step(
            "128 indices are compared with each other: a matrix of 0 and 1, and which of them stood before.",
            "_equal",
        ),
        Step(
            "The Tensor engine multiplies it by 128 rows: each becomes the sum of the rows with its index.",
            "nisa.nc_matmul(",
        ),
        Step(
            "One transfer gathers the rows of the result, and the Vector engine adds the sums to them.",
            "total = loaded(",
        ),
        Step(
            "One transfer scatters them, of equal indices the first, and skips the others.",
            "nisa.dma_copy(",
        ),
        "The next 128 indices wait for that transfer, as they may name the same rows.",
    ),
    sources=("NKI Library, scatter-add",),
    refused=(
        Refused(
            {"input": (4, 5), "dim": 0, "index": np.zeros(2, np.int32), "src": (3, 5)},
            "`src` is [3, 5] float32; expected [2, 5] float32",
            "one row for each index",
        ),
        Refused(
            {"input": (4, 5), "dim": 1, "index": np.zeros(2, np.int32), "src": (2, 5)},
            "scatter_add: dim=1; expected 0",
            "transpose",
        ),
    ),
)
