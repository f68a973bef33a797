"""Self-attention of Stable Diffusion with the sequence last in keys and output."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import Mask, check_products, joined
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.library.fused_self_attn_for_SD_small_head_size import (
    KERNEL as FUSED,
)
from nki_lab.kernels.library.fused_self_attn_for_SD_small_head_size import (
    STEPS,
    check_self_attention,
    self_attention,
)
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step


@nki.jit
def allocated_fused_self_attn_for_SD_small_head_size(
    q_ref, k_ref, v_ref, use_causal_mask=False, mixed_precision=True
):
    """Return the transpose of softmax(q.T @ k / 8) @ v of each head; a head is one of the batch.

    The compiler places its tiles; the official kernel, whose name it has, places its own.

    Args:
        q_ref, k_ref: [batch, d, sequence], float32 or bfloat16; d at most 128.
        v_ref: [batch, sequence, d], of the same dtype.
        use_causal_mask: query i sees the keys up to i.
        mixed_precision: multiply matrices in bfloat16; sums are float32 in any case.

    Returns:
        [batch, d, sequence].
    """
    name = "allocated_fused_self_attn_for_SD_small_head_size"
    check_self_attention(name, q_ref, k_ref, v_ref, "d, sequence")
    (batch, d, count), dtype = q_ref.shape, nl.bfloat16 if mixed_precision else q_ref.dtype
    check_products(name, dtype)
    out = result("out", (batch, d, count), q_ref.dtype)

    def write(b: int, waiting: list[Any], first: int, tile: Any) -> None:
        waiting.append(tile)
        last = first + tile.shape[0]
        if len(waiting) == 4 or last == count:  # rows of 512 queries, so that transfers are long
            turned = joined(waiting)
            nisa.dma_copy(dst=out[b, :, last - turned.shape[1] : last], src=turned)
            waiting.clear()

    heads = [(q_ref[b], k_ref[b], v_ref[b], partial(write, b, [])) for (b,) in places(name, batch)]
    self_attention(heads, dtype, Mask(count, use_causal_mask), "")
    return out


def _arguments(rng: np.random.Generator, dtype: Any, **size: int) -> dict[str, Any]:
    given = FUSED.arguments(rng, dtype, **size)
    return {**given, "k_ref": np.ascontiguousarray(given["k_ref"].swapaxes(1, 2))}


def _large(rng: np.random.Generator) -> dict[str, Any]:
    given = FUSED.edges["large"](rng)
    return {**given, "k_ref": np.ascontiguousarray(given["k_ref"].swapaxes(1, 2))}


def _reference(q_ref: Any, k_ref: Any, v_ref: Any, **options: Any) -> Any:
    return FUSED.reference(q_ref, k_ref.swapaxes(1, 2), v_ref, **options).swapaxes(1, 2)


KERNEL = Prebuilt(
    kernel=allocated_fused_self_attn_for_SD_small_head_size,
    arguments=_arguments,
    reference=_reference,
    tested=FUSED.tested,
    ranges=FUSED.ranges,
    timed=FUSED.timed,
    multiplies=FUSED.multiplies,
    tolerance=FUSED.tolerance,
    cores=(1, 2),
    refused=(
        Refused(
            {"q_ref": (2, 8, 20), "k_ref": (2, 20, 8), "v_ref": (2, 20, 8)},
            "`k_ref` is [2, 20, 8] float32; expected [batch, d, sequence] = [2, 8, 20] float32",
            "k_ref.swapaxes(1, 2)",
        ),
    ),
    edges={"large": _large},
    steps=(
        Step("The keys and values of a head stay in SBUF.", "attention.py:_loaded"),
        *STEPS,
        Step(
            "The output of 512 queries is transposed by the Tensor engine.", "attention.py:joined"
        ),
    ),
    sources=(
        "nki-samples, reference/allocated_attention.py, allocated_fused_self_attn_for_SD_small_head_size",
    ),
    official={
        f"neuronxcc.nki.kernels.{module}.allocated_fused_self_attn_for_SD_small_head_size": (
            allocated_fused_self_attn_for_SD_small_head_size
        )
        for module in ("allocated_attention", "attention")
    },
)
