"""Sum of two tensors, of the tutorial."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded

# Elements of a partition: a block of 8 x 128 x 512 elements is one tile of 128 rows.
_WIDTH = 4096


@nki.jit
def add_kernel_nx8x128x512(a_ptr, b_ptr, n_elements):
    """Return a_ptr + b_ptr, of the first `n_elements` elements; the elements behind them are 0.

    Args:
        a_ptr, b_ptr: [n, 8, 128, 512], both float32, float16 or bfloat16.
        n_elements: how many elements are added, in row-major order.
    """
    _check(a_ptr, b_ptr, n_elements)
    out = result("out", a_ptr.shape, a_ptr.dtype)
    rows = nl.tile_size.pmax
    a, b, sums = (x.reshape((a_ptr.shape[0] * rows, _WIDTH)) for x in (a_ptr, b_ptr, out))
    whole, rest = divmod(n_elements, _WIDTH)
    for (block,) in places("add_kernel_nx8x128x512", a_ptr.shape[0]):
        first = block * rows
        part = slice(first, first + rows)
        full = slice(first, min(max(whole, first), part.stop))
        tile = nl.ndarray((rows, _WIDTH), dtype=out.dtype, buffer=nl.sbuf)
        if full != part:
            nisa.memset(dst=tile, value=0.0)
        if full.stop > full.start:
            _add(tile[: full.stop - first], a[full], b[full])
        nisa.dma_copy(dst=sums[part], src=tile)
        if rest and part.start <= whole < part.stop:
            ends = nl.ndarray((1, rest), dtype=out.dtype, buffer=nl.sbuf)
            _add(ends, a[whole : whole + 1, :rest], b[whole : whole + 1, :rest])
            nisa.dma_copy(dst=sums[whole : whole + 1, :rest], src=ends)
    return out


def _add(dst, a, b):
    nisa.tensor_tensor(dst=dst, data1=loaded(a), data2=loaded(b), op=nl.add)


def _check(a, b, n_elements):
    check_floats("add_kernel_nx8x128x512", half=True, a_ptr=a)
    require(
        len(a.shape) == 4 and tuple(a.shape[1:]) == (8, 128, 512),
        f"add_kernel_nx8x128x512: `a_ptr` has shape {list(a.shape)}; expected [n, 8, 128, 512]",
        "fill it up to whole blocks of 8 * 128 * 512 elements and reshape it; n_elements says how many count",
    )
    require(
        tuple(b.shape) == tuple(a.shape) and b.dtype == a.dtype,
        f"add_kernel_nx8x128x512: `b_ptr` is {list(b.shape)} {b.dtype}, and `a_ptr` {list(a.shape)} {a.dtype}",
        "give both the same shape and dtype",
    )
    size = a.shape[0] * 8 * 128 * 512
    require(
        0 <= n_elements <= size,
        f"add_kernel_nx8x128x512: n_elements is {n_elements}; `a_ptr` has {size} elements",
        f"give a number from 0 to {size}",
    )


def _arguments(rng: np.random.Generator, dtype: Any, n: int, n_elements: int) -> dict[str, Any]:
    a, b = (rng.standard_normal((n, 8, 128, 512)).astype(dtype) for _ in range(2))
    return {"a_ptr": a, "b_ptr": b, "n_elements": n_elements}


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 1, 1000)
    arguments["a_ptr"][0, 0, 0, :4] = np.nan, np.inf, -np.inf, np.inf
    arguments["b_ptr"][0, 0, 0, :4] = 1, 1, -np.inf, -np.inf
    return arguments


def _reference(a_ptr: Any, b_ptr: Any, n_elements: int) -> np.ndarray:
    sums = np.zeros(a_ptr.shape)
    a, b = (x.astype(np.float64).ravel()[:n_elements] for x in (a_ptr, b_ptr))
    with np.errstate(invalid="ignore"):
        sums.ravel()[:n_elements] = a + b
    return sums


_BLOCK = 8 * 128 * 512

KERNEL = Prebuilt(
    kernel=add_kernel_nx8x128x512,
    official={"neuronxcc.nki.kernels.tutorial.add_kernel_nx8x128x512": add_kernel_nx8x128x512},
    cores=(1, 2),
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"n": 1, "n_elements": _BLOCK},
        {"n": 2, "n_elements": _BLOCK + 5000},
        {"n": 1, "n_elements": 1},
    ),
    ranges={"n": range(1, 3), "n_elements": range(0, _BLOCK, 999)},
    timed=({"n": 4, "n_elements": 4 * _BLOCK}, {"n": 64, "n_elements": 64 * _BLOCK}),
    tolerance={"float32": 1e-6, "float16": 1e-3, "bfloat16": 1e-2},
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {
                "a_ptr": np.zeros((1, 8, 128, 512), np.int32),
                "b_ptr": (1, 8, 128, 512),
                "n_elements": 1,
            },
            "`a_ptr` is int32; expected float32, float16 or bfloat16",
            "astype(np.float32)",
        ),
        Refused(
            {"a_ptr": (8, 128, 512), "b_ptr": (8, 128, 512), "n_elements": 5},
            "`a_ptr` has shape [8, 128, 512]; expected [n, 8, 128, 512]",
            "fill it up to whole blocks",
        ),
        Refused(
            {
                "a_ptr": (1, 8, 128, 512),
                "b_ptr": np.zeros((1, 8, 128, 512), np.float16),
                "n_elements": 5,
            },
            "`b_ptr` is [1, 8, 128, 512] float16, and `a_ptr` [1, 8, 128, 512] float32",
            "the same shape and dtype",
        ),
        Refused(
            {"a_ptr": (1, 8, 128, 512), "b_ptr": (1, 8, 128, 512), "n_elements": _BLOCK + 1},
            "n_elements is 524289; `a_ptr` has 524288 elements",
            "a number from 0 to 524288",
        ),
    ),
    steps=(
        Step(
            "A block of 8 x 128 x 512 elements is seen as 128 rows of 4096: each partition loads whole kilobytes.",
            "rows = nl.tile_size.pmax",
        ),
        Step(
            "The Vector engine adds the rows below n_elements; the others are set to 0.",
            "if full.stop > full.start",
        ),
        Step(
            "The row in which n_elements lies is added by itself, up to there.",
            "if rest and part.start",
        ),
    ),
    sources=("NKI documentation, neuronxcc.nki.kernels.tutorial.add_kernel_nx8x128x512",),
)
