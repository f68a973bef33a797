"""Matrix product of rows that are spread over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import check_dtypes, row_tiles, turn
from nki_lab.kernels.rows import loaded

# Rows of each rank that one collective gathers: the products of these hide the gathering of the next.
_ROWS = 128
# Bytes of a partition for the columns that stay in SBUF.
_BYTES = 128 * 1024


@nki.jit
def allgather_matmul(lhs, rhs, tp_degree, num_groups=1):
    """Return the rows of all ranks of a group, one rank after the other, times the columns of this rank.

    Rank r belongs to the group of ranks r // tp_degree * tp_degree and up; run it with nki_lab.launch.

    Args:
        lhs: [rows, depth], float32 or bfloat16: the rows of this rank; depth a multiple of 128.
        rhs: [depth, columns], of the same dtype: the columns of this rank.
        tp_degree: ranks of a group.
        num_groups: groups; there are tp_degree * num_groups ranks.

    Returns:
        [tp_degree * rows, columns], of the dtype of `lhs`.
    """
    _check(lhs, rhs, tp_degree, num_groups)
    (rows, depth), columns, pmax = lhs.shape, rhs.shape[1], nl.tile_size.pmax
    group = ncc.ReplicaGroup(
        [list(range(n * tp_degree, (n + 1) * tp_degree)) for n in range(num_groups)]
    )
    out = nl.ndarray((tp_degree * rows, columns), dtype=lhs.dtype, buffer=nl.shared_hbm)
    parts = [slice(first, min(first + _ROWS, rows)) for first in range(0, rows, _ROWS)]
    gathered = [_gathered(lhs[parts[0]], tp_degree, group)]
    width = _BYTES // (depth // pmax * (4 if lhs.dtype == nl.float32 else 2))
    for left in range(0, columns, width):
        part_of_rhs = slice(left, min(left + width, columns))
        weights: dict[int, list[Any]] = {}
        for n, part in enumerate(parts):
            # The next rows are gathered meanwhile.
            gathered += [_gathered(lhs[p], tp_degree, group) for p in parts[len(gathered) : n + 2]]
            size = part.stop - part.start
            for rank in range(tp_degree):
                tile = gathered[n][rank * size : (rank + 1) * size]
                first = rank * rows + part.start
                result = _product(tile, rhs, part_of_rhs, weights)
                nisa.dma_copy(dst=out[first : first + size, part_of_rhs], src=result)
    return out


def _check(lhs, rhs, tp_degree, num_groups):
    check_dtypes("allgather_matmul", lhs=lhs, rhs=rhs)
    require(
        len(lhs.shape) == 2 and lhs.shape[1] % nl.tile_size.pmax == 0,
        f"allgather_matmul: `lhs` has shape {list(lhs.shape)}; expected [rows, depth], depth a multiple of "
        f"{nl.tile_size.pmax}",
        "fill the depth up with zeros, in `rhs`, too",
    )
    depth = lhs.shape[1]
    require(
        len(rhs.shape) == 2 and rhs.shape[0] == depth,
        f"allgather_matmul: `rhs` has shape {list(rhs.shape)}; expected [{depth}, columns]",
        "lhs is [rows, depth], and rhs [depth, columns]",
    )
    require(
        tp_degree > 0 and num_groups > 0,
        f"allgather_matmul: tp_degree={tp_degree} and num_groups={num_groups}; both are at least 1",
        "write how many ranks a group has, and how many groups there are",
    )


def _gathered(rows, tp_degree, group):
    """Return some rows of every rank of the group, in HBM."""
    size, depth = rows.shape
    mine = nl.ndarray((size, depth), dtype=rows.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=mine, src=rows)
    every = nl.ndarray((tp_degree * size, depth), dtype=rows.dtype, buffer=nl.private_hbm)
    ncc.all_gather(srcs=[mine], dsts=[every], replica_group=group, collective_dim=0)
    return every


def _product(rows, rhs, columns, weights):
    """Return the product of up to 128 rows with some columns, of which 512 at a time are loaded at first use."""
    (size, depth), pmax, most = rows.shape, nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    turned = nl.ndarray((pmax, depth // pmax, size), dtype=rows.dtype, buffer=nl.sbuf)
    turn(loaded(rows), turned)
    result = nl.ndarray((size, columns.stop - columns.start), dtype=rows.dtype, buffer=nl.sbuf)
    for left in range(columns.start, columns.stop, most):
        wide = min(most, columns.stop - left)
        if left not in weights:
            weights[left] = list(row_tiles(rhs, left, wide))
        product = nl.ndarray((size, wide), dtype=nl.float32, buffer=nl.psum)
        for k, weight in enumerate(weights[left]):
            nisa.nc_matmul(dst=product, stationary=turned[:, k], moving=weight)
        first = left - columns.start
        nisa.tensor_copy(dst=result[:, first : first + wide], src=product)
    return result


def _arguments(
    rng: np.random.Generator, dtype: Any, ranks: int, rows: int, depth: int, columns: int, groups: int
) -> dict[str, Any]:  # fmt: skip
    every = ranks * groups
    return {
        "lhs": rng.standard_normal((every, rows, depth)).astype(dtype),
        "rhs": rng.standard_normal((every, depth, columns)).astype(dtype),
        "tp_degree": ranks,
        "num_groups": groups,
    }


def _of_ranks(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    pairs = zip(arguments["lhs"], arguments["rhs"], strict=True)
    return [{**arguments, "lhs": lhs, "rhs": rhs} for lhs, rhs in pairs]


def _reference(lhs: Any, rhs: Any, tp_degree: int, num_groups: int = 1) -> np.ndarray:
    rows, depth = lhs.shape[1:]
    groups = lhs.astype(np.float64).reshape((num_groups, tp_degree * rows, depth))
    result: np.ndarray = groups.repeat(tp_degree, axis=0) @ rhs.astype(np.float64)
    return result


KERNEL = Prebuilt(
    kernel=allgather_matmul,
    arguments=_arguments,
    ranks=_of_ranks,
    reference=_reference,
    tested=(
        {"ranks": 2, "rows": 64, "depth": 128, "columns": 96, "groups": 1},
        {"ranks": 2, "rows": 150, "depth": 256, "columns": 600, "groups": 2},
        {"ranks": 3, "rows": 1, "depth": 128, "columns": 1, "groups": 1},
    ),
    ranges={
        "ranks": range(1, 5),
        "rows": range(1, 150),
        "depth": range(128, 257, 128),
        "columns": range(1, 200),
        "groups": range(1, 3),
    },
    timed=(
        {"ranks": 2, "rows": 256, "depth": 1024, "columns": 1024, "groups": 1},
        {"ranks": 2, "rows": 1024, "depth": 2048, "columns": 4096, "groups": 1},
    ),
    multiplies=lambda ranks, rows, depth, columns, groups: 2 * ranks * rows * depth * columns,
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    steps=(
        Step(
            "128 rows of each rank at a time are gathered into the memory of all, one part after the other.",
            "_gathered",
        ),
        Step(
            "The columns of this rank are loaded 512 at a time, and stay in SBUF, as many as fit.",
            "if left not in weights",
        ),
        Step(
            "The Tensor engine transposes 128 rows of a rank that are there, and multiplies them by 512 columns.",
            "_product",
        ),
        Step("Meanwhile the next rows are gathered.", "gathered += "),
    ),
    sources=("NKI Library, allgather_compute_matmul",),
    refused=(
        Refused(
            {"lhs": (4, 100), "rhs": (100, 8), "tp_degree": 1},
            "`lhs` has shape [4, 100]; expected [rows, depth], depth a multiple of 128",
            "fill the depth up",
        ),
        Refused(
            {"lhs": (4, 128), "rhs": (8, 128), "tp_degree": 1},
            "`rhs` has shape [8, 128]; expected [128, columns]",
            "rhs [depth, columns]",
        ),
        Refused(
            {"lhs": (4, 128), "rhs": (128, 8), "tp_degree": 0},
            "tp_degree=0 and num_groups=1",
            "how many ranks",
        ),
    ),
)
