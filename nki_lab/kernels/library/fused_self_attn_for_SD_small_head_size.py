"""Self-attention of Stable Diffusion, whose scale is 1 / 8, as neuronxcc.nki.kernels.attention has it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import (
    STEP,
    Head,
    Mask,
    added,
    anywhere,
    check_products,
    divided,
    products,
    softmax_of,
    steps,
    tiles_of_queries,
    times,
    weighed,
)  # fmt: skip
from nki_lab.kernels.direct import Exact, attended
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require

#: What the scores are multiplied by, whatever the width of a head is.
SCALE = 0.125


@nki.jit
def fused_self_attn_for_SD_small_head_size(
    q_ref, k_ref, v_ref, use_causal_mask=False, mixed_precision=True
):
    """Return softmax(q.T @ k.T / 8) @ v of each head; a head is one of the batch.

    Args:
        q_ref: [batch, d, sequence], float32 or bfloat16; d at most 128.
        k_ref, v_ref: [batch, sequence, d], of the dtype of `q_ref`.
        use_causal_mask: query i sees the keys up to i.
        mixed_precision: multiply matrices in bfloat16; sums are float32 in any case.

    Returns:
        [batch, sequence, d].
    """
    name = "fused_self_attn_for_SD_small_head_size"
    check_self_attention(name, q_ref, k_ref, v_ref, "sequence, d")
    (batch, d, count), dtype = q_ref.shape, nl.bfloat16 if mixed_precision else q_ref.dtype
    check_products(name, dtype)
    out = result("out", (batch, count, d), q_ref.dtype)

    def write(b: int, first: int, tile: Any) -> None:
        nisa.dma_copy(dst=out[b, first : first + tile.shape[0]], src=tile)

    heads = [(q_ref[b], k_ref[b], v_ref[b], partial(write, b)) for (b,) in places(name, batch)]
    self_attention(heads, dtype, Mask(count, use_causal_mask), "k")
    return out


def self_attention(heads, dtype, mask, turn, make=anywhere):
    """Compute attention of heads.

    Args:
        heads: q [d, sequence], k and v of each, in HBM, and what takes the first of up to 128 queries and their output.
        dtype: of the operands of products.
        mask: which keys queries see.
        turn: "k" where the keys are [sequence, d].
        make: makes tiles as `anywhere` does, but for those of sums that are not exact.
    """
    exact = Exact()
    for q, k, v, write in heads:
        held = Head(k, v, dtype, STEP, turn, ones=1, make=make)
        for first, _, out in attended(q, held, mask, SCALE, exact, make):
            write(first, out)

    def stepwise(q: Any, k: Any, v: Any, write: Any) -> None:
        held = Head(k, v, dtype, STEP, turn)
        for first, part in tiles_of_queries(q, dtype):
            state = None
            for start, stop in steps(mask.seen(first, part.shape[1]), STEP):
                keys, values = held.part(start, stop)
                scores = products(part, keys)
                mask.hide(scores, first, start)
                weights, lowest, total = weighed(scores, SCALE, state, dtype)
                state = added(state, lowest, total, times(weights, values))
            write(first, divided(state, q.dtype))

    exact.otherwise(stepwise, heads)


def check_self_attention(kernel, q, k, v, of_keys):
    """Raise KernelArgument unless q is [batch, d, sequence], k of the layout `of_keys` and v [batch, sequence, d]."""
    require(
        len(q.shape) == 3 and q.shape[1] <= 128,
        f"{kernel}: `q_ref` has shape {list(q.shape)}; expected [batch, d, sequence], d at most 128",
        "make the heads a part of the batch, and transpose: d comes before the sequence",
    )
    batch, d, count = q.shape
    for name, ref, layout in (("k_ref", k, of_keys), ("v_ref", v, "sequence, d")):
        expected = [batch, d, count] if layout == "d, sequence" else [batch, count, d]
        require(
            list(ref.shape) == expected and ref.dtype == q.dtype,
            f"{kernel}: `{name}` is {list(ref.shape)} {ref.dtype}; expected [batch, {layout}] = {expected} {q.dtype}",
            f"transpose it: np.ascontiguousarray({name}.swapaxes(1, 2)), or cast it to the dtype of `q_ref`",
        )


def _arguments(
    rng: np.random.Generator, dtype: Any, batch: int, sequence: int, d: int, causal: int
) -> dict[str, Any]:
    q = rng.standard_normal((batch, d, sequence)).astype(dtype)
    k, v = (rng.standard_normal((batch, sequence, d)).astype(dtype) for _ in range(2))
    return {
        "q_ref": q, "k_ref": k, "v_ref": v, "use_causal_mask": bool(causal), "mixed_precision": False,
    }  # fmt: skip


def _reference(
    q_ref: Any, k_ref: Any, v_ref: Any, use_causal_mask: bool = False, mixed_precision: bool = True
) -> Any:
    q, k, v = (a.astype(np.float64) for a in (q_ref, k_ref, v_ref))
    scores = (q.swapaxes(1, 2) @ k.swapaxes(1, 2) * SCALE)[None]
    return softmax_of(scores, None, use_causal_mask, 0)[0][0] @ v


def multiplies(batch: int, sequence: int, d: int, causal: int) -> int:
    """Return the work of both products."""
    return 4 * batch * d * (sequence * (sequence + 1) // 2 if causal else sequence * sequence)


#: What both layouts have in common.
STEPS = (
    Step(
        "The Tensor engine multiplies 128 keys by 512 queries; the Scalar engine takes exp(score / 8)"
        " of 256 keys at once.",
        "direct.py:for n in range(1 if alike",
    ),
    Step(
        "The weights lie as the next product needs them: by the values, and by a column of ones for their sums.",
        "direct.py:for query in range(begin, end, 128)",
    ),
    Step(
        "After all keys the output is divided by the sum of weights.",
        "direct.py:for n in range(0, count, 128)",
    ),
    Step(
        "Where a sum leaves 1e-18 to 1e18, a loop computes all heads again with the largest score subtracted.",
        "library/fused_self_attn_for_SD_small_head_size.py:stepwise",
    ),
)


def _large(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments with scores of up to 80."""
    given = _arguments(rng, np.float32, 2, 300, 24, 0)
    given["q_ref"][1] *= 40
    return given


KERNEL = Prebuilt(
    kernel=fused_self_attn_for_SD_small_head_size,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 2, "sequence": 160, "d": 64, "causal": 1},
        {"batch": 1, "sequence": 1100, "d": 40, "causal": 0},
        {"batch": 1, "sequence": 1, "d": 1, "causal": 0},
    ),
    ranges={
        "batch": range(1, 3),
        "sequence": range(1, 400, 7),
        "d": range(1, 129, 9),
        "causal": range(2),
    },
    timed=(
        {"batch": 1, "sequence": 1024, "d": 64, "causal": 0},
        {"batch": 1, "sequence": 4096, "d": 128, "causal": 0},
    ),
    multiplies=multiplies,
    tolerance={"float32": 1e-5, "bfloat16": 3e-2},
    cores=(1, 2),
    refused=(
        Refused(
            {"q_ref": (1, 200, 8), "k_ref": (1, 8, 200), "v_ref": (1, 8, 200)},
            "`q_ref` has shape [1, 200, 8]; expected [batch, d, sequence]",
            "d comes before the sequence",
        ),
        Refused(
            {"q_ref": (2, 8, 20), "k_ref": (2, 8, 20), "v_ref": (2, 20, 8)},
            "`k_ref` is [2, 8, 20] float32; expected [batch, sequence, d] = [2, 20, 8] float32",
            "k_ref.swapaxes(1, 2)",
        ),
        Refused(
            {
                **dict.fromkeys(("k_ref", "v_ref"), np.zeros((2, 20, 8), np.float16)),
                "q_ref": np.zeros((2, 8, 20), np.float16),
                "mixed_precision": False,
            },
            "products of float16",
            "mixed_precision=True",
        ),
        Refused(
            {"q_ref": (2, 8, 20), "k_ref": (2, 20, 8), "v_ref": np.zeros((2, 20, 8), np.float16)},
            "`v_ref` is [2, 20, 8] float16",
            "cast it",
        ),
    ),
    edges={"large": _large},
    falls_short={
        "bfloat16": "the Tensor engine also transposes the keys, which the products wait for"
    },
    steps=(
        Step(
            "The keys of a head are transposed once, and stay in SBUF with its values.",
            "attention.py:_loaded",
        ),
        *STEPS,
    ),
    sources=(
        "aws-neuron-sdk 2.21, neuronxcc.nki.kernels.attention.fused_self_attn_for_SD_small_head_size",
    ),
    official={
        "neuronxcc.nki.kernels.attention.fused_self_attn_for_SD_small_head_size": (
            fused_self_attn_for_SD_small_head_size
        ),
    },
)
