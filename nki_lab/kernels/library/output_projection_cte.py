"""Output projection of attention for a whole context."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step
from nki_lab.kernels.projections import check_output_projection, row_tiles
from nki_lab.kernels.rows import of_this_core, per_column

# Bytes of a partition for the tokens of one pass over the weights, and for a block of the weights.
_TOKEN_BYTES, _WEIGHT_BYTES = 64 * 1024, 32 * 1024
_MOST_TOKENS = 1024


@nki.jit
def output_projection_cte(attention, weight, bias=None):
    """Return attention @ weight + bias for many tokens, summed in float32.

    With two cores each takes some of the tokens, in blocks of up to 1024.

    Args:
        attention: [batch, heads, d, tokens], float32, bfloat16 or float16; d at most 128, heads * d at most 16384.
        weight: [heads * d, hidden], the rows of a head after each other.
        bias: [1, hidden], or None.

    Returns:
        [batch, tokens, hidden].
    """
    batch, heads, d, tokens = check_output_projection(
        "output_projection_cte", attention, weight, bias, ("batch", "heads", "d", "tokens")
    )
    hidden, pmax = weight.shape[1], nl.tile_size.pmax
    out = nl.ndarray((batch, tokens, hidden), dtype=attention.dtype, buffer=nl.shared_hbm)
    row_bytes = -(-heads * d // pmax) * (4 if attention.dtype == nl.float32 else 2)
    block = max(min(_TOKEN_BYTES // row_bytes // pmax * pmax, _MOST_TOKENS), pmax)
    widest = min(nl.tile_size.gemm_moving_fmax, _WEIGHT_BYTES // row_bytes)
    for number, parts in enumerate(_passes(batch, tokens, block)):
        if not of_this_core(number):
            continue
        inputs = [
            list(row_tiles(attention[b].reshape((heads * d, tokens)), first, count))
            for b, first, count in parts
        ]
        for start in range(0, hidden, widest):
            columns = slice(start, min(start + widest, hidden))
            weights = list(row_tiles(weight, start, columns.stop - start))
            added = None if bias is None else per_column(bias[0, columns])
            for (b, first, count), tiles in zip(parts, inputs, strict=True):
                for n in range(0, count, pmax):
                    part = slice(n, min(n + pmax, count))
                    rows = out[b, first + n : first + part.stop, columns]
                    _project(tiles, part, weights, added, rows)
    return out


def _passes(batch, tokens, block):
    """Yield lists of (batch, first token, count) with up to `block` tokens together, which share the weights."""
    parts: list[tuple[int, int, int]] = []
    total = 0
    for b in range(batch):
        for first in range(0, tokens, block):
            count = min(block, tokens - first)
            if total + count > block:
                yield parts
                parts, total = [], 0
            parts.append((b, first, count))
            total += count
    yield parts


def _project(tiles, part, weights, added, out):
    """Multiply up to 128 tokens by some columns of the weights, and store the sum with the bias."""
    product = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    for tile, weight in zip(tiles, weights, strict=True):
        nisa.nc_matmul(dst=product, stationary=tile[:, part], moving=weight)
    result = nl.ndarray(out.shape, dtype=out.dtype, buffer=nl.sbuf)
    if added is None:
        nisa.tensor_copy(dst=result, src=product)
    else:
        bias = added[: out.shape[0]]
        nisa.tensor_tensor(dst=result, data1=product, data2=bias, op=nl.add)
    nisa.dma_copy(dst=out, src=result)


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    batch: int,
    heads: int,
    d: int,
    tokens: int,
    hidden: int,
    bias: int,
) -> dict[str, Any]:
    arguments = {
        "attention": rng.standard_normal((batch, heads, d, tokens)).astype(dtype),
        "weight": (rng.standard_normal((heads * d, hidden)) / (heads * d) ** 0.5).astype(dtype),
    }
    return arguments | ({"bias": rng.standard_normal((1, hidden)).astype(dtype)} if bias else {})


def _reference(attention: Any, weight: Any, bias: Any = None) -> np.ndarray:
    attention, weight = attention.astype(np.float64), weight.astype(np.float64)
    per_head = weight.reshape((*attention.shape[1:3], -1))
    result: np.ndarray = np.einsum("bnds,ndh->bsh", attention, per_head, optimize=True)
    return result if bias is None else result + bias.astype(np.float64)


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 1, 3, 50, 6, 40, 1)
    arguments["attention"][0, 1, 3, 2] = np.nan
    arguments["attention"][0, 2, 7, 4] = -np.inf
    return arguments


KERNEL = Prebuilt(
    kernel=output_projection_cte,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 1, "heads": 3, "d": 64, "tokens": 200, "hidden": 192, "bias": 1},
        {"batch": 2, "heads": 2, "d": 80, "tokens": 65, "hidden": 600, "bias": 0},
        {"batch": 1, "heads": 1, "d": 1, "tokens": 1, "hidden": 1, "bias": 1},
    ),
    ranges={
        "batch": range(1, 4),
        "heads": range(1, 5),
        "d": range(1, 129),
        "tokens": range(1, 160),
        "hidden": range(1, 700),
        "bias": range(2),
    },
    timed=(
        {"batch": 1, "heads": 8, "d": 128, "tokens": 512, "hidden": 1024, "bias": 0},
        {"batch": 1, "heads": 32, "d": 128, "tokens": 2048, "hidden": 4096, "bias": 1},
    ),
    cores=(1, 2),
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {"attention": (3, 64, 20), "weight": (192, 8)},
            "`attention` has shape [3, 64, 20]; expected [batch, heads, d, tokens]",
            "a batch of one is an axis",
        ),
        Refused(
            {"attention": (1, 3, 200, 64), "weight": (192, 8)},
            "3 heads of 200; d is at most 128",
            "expected is [batch, heads, d, tokens]",
        ),
        Refused(
            {"attention": (1, 3, 64, 20), "weight": (8, 192)},
            "`weight` has shape [8, 192]; expected [192, hidden]",
            "weight [heads * d, hidden]",
        ),
        Refused(
            {"attention": (1, 3, 64, 20), "weight": (192, 8), "bias": (8,)},
            "`bias` has shape [8]; expected [1, 8]",
            "reshape",
        ),
        Refused(
            {"attention": (1, 3, 64, 20), "weight": np.zeros((192, 8), np.float16)},
            "`weight` is float16, and `attention` float32",
            "cast",
        ),
    ),
    multiplies=lambda batch, heads, d, tokens, hidden, bias: (
        2 * batch * heads * d * tokens * hidden
    ),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3},
    steps=(
        Step(
            "The heads of a token are one axis of heads * d, of which 128 lie in the partitions; narrow heads share.",
            "inputs = [",
        ),
        Step(
            "Up to 1024 tokens, of several batches, stay in SBUF; 512 columns of the weights at a time go by.",
            "weights = list(",
        ),
        Step(
            "The Tensor engine multiplies 128 tokens by 512 columns, summed over the heads in PSUM.",
            "nisa.nc_matmul(",
        ),
        Step(
            "The Vector engine adds the bias, casts, and the result is stored.",
            "nisa.tensor_",
        ),
    ),
    sources=("NKI Library, Output Projection CTE",),
)
