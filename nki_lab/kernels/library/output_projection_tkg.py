"""Output projection of attention for a few tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.library.output_projection_cte import KERNEL as CONTEXT
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import check_output_projection
from nki_lab.kernels.rows import loaded, of_this_core, per_column

# Columns that are loaded together, and bytes of a partition for them.
_COLUMNS, _WEIGHT_BYTES = 2048, 64 * 1024
# Bytes of a partition for the tokens of all heads.
_INPUT_BYTES = 64 * 1024


@nki.jit
def output_projection_tkg(attention, weight, bias=None):
    """Return attention @ weight + bias for at most 128 tokens, summed in float32.

    With two cores each takes some of the columns of the weights, in blocks of 2048.

    Args:
        attention: [d, batch, heads, tokens], float32, bfloat16 or float16; d and batch * tokens at most 128.
        weight: [heads * d, hidden], the rows of a head after each other.
        bias: [1, hidden], or None.

    Returns:
        [batch * tokens, hidden].
    """
    d, batch, heads, tokens = check_output_projection(
        "output_projection_tkg", attention, weight, bias, ("d", "batch", "heads", "tokens")
    )
    hidden, total = weight.shape[1], batch * tokens
    require(
        total <= nl.tile_size.pmax,
        f"output_projection_tkg: {batch} * {tokens} tokens; at most 128 lie in the partitions of the result",
        "use output_projection_cte for more",
    )
    held = heads * total * (4 if attention.dtype == nl.float32 else 2)
    require(
        held <= _INPUT_BYTES,
        f"output_projection_tkg: {heads} heads of {total} tokens take {held} bytes of a partition;"
        f" {_INPUT_BYTES} are for them",
        "split `attention` and the rows of `weight` by heads, and add the results",
    )
    out = nl.ndarray((total, hidden), dtype=attention.dtype, buffer=nl.shared_hbm)
    inputs = loaded(attention)
    # The rows of the weights of a head, [d, hidden], one head after the other.
    row_bytes = 4 if attention.dtype == nl.float32 else 2
    group = max(min(heads, _WEIGHT_BYTES // (row_bytes * min(_COLUMNS, hidden))), 1)
    banks = nl.tile_size.gemm_moving_fmax
    for number, start in enumerate(range(0, hidden, _COLUMNS)):
        if not of_this_core(number):
            continue
        wide = min(_COLUMNS, hidden - start)
        sums = nl.ndarray((total, wide), dtype=nl.float32, buffer=nl.psum)
        for first in range(0, heads, group):
            count = min(group, heads - first)
            pattern = [[hidden, d], [d * hidden, count], [1, wide]]
            moving = loaded(weight.ap(pattern, offset=first * d * hidden + start))
            for n in range(count):
                stationary = inputs[:, :, first + n]
                for column in range(0, wide, banks):
                    part = slice(column, min(column + banks, wide))
                    nisa.nc_matmul(
                        dst=sums[:, part], stationary=stationary, moving=moving[:, n, part]
                    )
        result = nl.ndarray((total, wide), dtype=out.dtype, buffer=nl.sbuf)
        if bias is None:
            nisa.tensor_copy(dst=result, src=sums)
        else:
            added = per_column(bias[0, start : start + wide])[:total]
            nisa.tensor_tensor(dst=result, data1=sums, data2=added, op=nl.add)
        nisa.dma_copy(dst=out[:, start : start + wide], src=result)
    return out


def _arguments(rng: np.random.Generator, dtype: Any, **size: int) -> dict[str, Any]:
    arguments = CONTEXT.arguments(rng, dtype, **size)
    return arguments | {
        "attention": np.ascontiguousarray(arguments["attention"].transpose((2, 0, 1, 3)))
    }


def _reference(attention: Any, weight: Any, bias: Any = None) -> np.ndarray:
    result: np.ndarray = CONTEXT.reference(attention.transpose((1, 2, 0, 3)), weight, bias)
    return result.reshape((-1, weight.shape[1]))


KERNEL = Prebuilt(
    kernel=output_projection_tkg,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 2, "heads": 3, "d": 64, "tokens": 3, "hidden": 192, "bias": 1},
        {"batch": 5, "heads": 2, "d": 80, "tokens": 1, "hidden": 2600, "bias": 0},
        {"batch": 1, "heads": 1, "d": 1, "tokens": 1, "hidden": 1, "bias": 1},
    ),
    ranges={
        "batch": range(1, 4),
        "heads": range(1, 5),
        "d": range(1, 129),
        "tokens": range(1, 40),
        "hidden": range(1, 700),
        "bias": range(2),
    },
    timed=(
        {"batch": 4, "heads": 8, "d": 128, "tokens": 1, "hidden": 4096, "bias": 0},
        {"batch": 32, "heads": 32, "d": 128, "tokens": 4, "hidden": 8192, "bias": 1},
    ),
    cores=(1, 2),
    refused=(
        Refused(
            {"attention": (16, 3, 2, 50), "weight": (32, 8)},
            "3 * 50 tokens; at most 128",
            "output_projection_cte",
        ),
        Refused(
            {"attention": (1, 8, 600, 16), "weight": (600, 8)},
            "600 heads of 128 tokens take 307200 bytes of a partition",
            "by heads",
        ),
        Refused(
            {"attention": (1, 3, 64, 20), "weight": (192, 8)},
            "`weight` has shape [192, 8]; expected [64, hidden], as `attention` is [1, 3, 64, 20]",
            "attention is [d, batch, heads, tokens]",
        ),
    ),
    multiplies=lambda batch, heads, d, tokens, hidden, bias: (
        2 * batch * heads * d * tokens * hidden
    ),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3},
    steps=(
        Step(
            "d lies in the partitions of attention, so that the tokens of a head are ready for the Tensor engine.",
            "inputs = loaded(",
        ),
        Step(
            "The weights pass through SBUF once, 2048 columns of several heads at a time: each is used for all tokens.",
            "moving = loaded(",
        ),
        Step(
            "The Tensor engine multiplies the tokens of a head by 512 columns, summed over the heads in PSUM.",
            "nisa.nc_matmul(",
        ),
        Step(
            "The Vector engine adds the bias, casts, and the result is stored.",
            "nisa.tensor_",
        ),
    ),
    sources=("NKI Library, Output Projection TKG",),
)
