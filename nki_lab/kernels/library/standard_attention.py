"""Attention one stage after the other, with its matrix of scores in device memory."""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.library.flash_attention import KERNEL as FLASH
from nki_lab.kernels.library.flash_attention import MASKED, check_heads, transposed
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import loaded, tiles_of_rows

# Keys whose scores are in PSUM at a time: half of it, so that the next ones have room beside them.
_GROUP = 2048
# Scores of a row: it is in SBUF as it was read and as it is written, twice each, beside keys or values.
_LONGEST = 8192


@nki.jit
def standard_attention(q, k, v, scale=None, causal=False):
    """Return softmax(scale * q.T @ k) @ v of each head: scores and weights are written to HBM and read back.

    flash_attention takes the same arguments and does without both matrices; this one is there to compare it with.

    Args:
        q: [batch, heads, d, queries], float32 or bfloat16; d at most 128.
        k: [batch, kv_heads, d, keys]; heads is a multiple of kv_heads. At most 8192 keys.
        v: [batch, kv_heads, keys, d].
        scale: of the scores, above 0; 1 / sqrt(d) where it is None.
        causal: query i sees the keys up to i; there are as many queries as keys.

    Returns:
        [batch, heads, queries, d].
    """
    check_heads("standard_attention", q, k, v, scale, causal)
    (batch, heads, d, queries), (kv_heads, keys) = q.shape, (k.shape[1], k.shape[3])
    require(
        keys <= _LONGEST,
        f"standard_attention: a row of scores has {keys} keys; {_LONGEST} of them fit beside the others",
        "use flash_attention, which keeps no row of scores",
    )
    scale = d**-0.5 if scale is None else scale
    out = nl.ndarray((batch, heads, queries, d), dtype=q.dtype, buffer=nl.shared_hbm)
    for b in range(batch):
        for head in range(heads):
            kv_head = head * kv_heads // heads
            scores = nl.ndarray((queries, keys), dtype=q.dtype, buffer=nl.private_hbm)
            weights = nl.ndarray((queries, keys), dtype=q.dtype, buffer=nl.private_hbm)
            _write_scores(scores, q[b, head], k[b, kv_head], scale)
            _write_weights(weights, scores, causal)
            _write_output(out[b, head], weights, v[b, kv_head])
    return out


def _write_scores(scores, q, k, scale):
    keys = loaded(k)
    width, step = keys.shape[1], nl.tile_size.gemm_moving_fmax
    for first in range(0, q.shape[1], nl.tile_size.pmax):
        rows = min(nl.tile_size.pmax, q.shape[1] - first)
        queries = loaded(q[:, first : first + rows])
        row = nl.ndarray((rows, width), dtype=scores.dtype, buffer=nl.sbuf)
        for start in range(0, width, _GROUP):
            stop = min(start + _GROUP, width)
            product = nl.ndarray((rows, stop - start), dtype=nl.float32, buffer=nl.psum)
            for n in range(start, stop, step):
                end = min(n + step, stop)
                nisa.nc_matmul(
                    dst=product[:, n - start : end - start],
                    stationary=queries,
                    moving=keys[:, n:end],
                )
            nisa.activation(dst=row[:, start:stop], op=nl.copy, data=product, scale=scale)
        nisa.dma_copy(dst=scores[first : first + rows], src=row)


def _write_weights(weights, scores, causal):
    for part, size, row in tiles_of_rows(scores):
        if causal:
            nisa.affine_select(
                dst=row, pattern=[[-1, row.shape[1]]], offset=part.start, channel_multiplier=1,
                on_true_tile=row, on_false_value=MASKED, cmp_op=nl.greater_equal,
            )  # fmt: skip
        lowest = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=row, axis=1, negate=True)
        powers = nl.ndarray(row.shape, dtype=weights.dtype, buffer=nl.sbuf)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=row, bias=lowest, reduce_op=nl.add, reduce_res=total
        )
        share = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=total)
        nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=share)
        nisa.dma_copy(dst=weights[part], src=powers)


def _write_output(out, weights, v):
    pmax = nl.tile_size.pmax
    values = [loaded(v[n : min(n + pmax, v.shape[0])]) for n in range(0, v.shape[0], pmax)]
    for part, size, row in tiles_of_rows(weights):
        product = nl.ndarray((size, v.shape[1]), dtype=nl.float32, buffer=nl.psum)
        for stationary, moving in zip(transposed(row), values, strict=True):
            nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
        result = nl.ndarray(product.shape, dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(dst=out[part], src=result)


KERNEL = Prebuilt(
    kernel=standard_attention,
    arguments=FLASH.arguments,
    reference=FLASH.reference,
    tested=FLASH.tested,
    ranges=FLASH.ranges,
    legal=FLASH.legal,
    timed=(FLASH.timed[0], {**FLASH.timed[0], "heads": 2, "keys": 4096}),
    multiplies=FLASH.multiplies,
    tolerance=FLASH.tolerance,
    operator={"backward": "auto", "types": {"scale": "float?"}},
    steps=(
        Step(
            "The Tensor engine multiplies 128 queries by all keys, and the scores [128, keys] go to HBM.",
            "_write_scores",
        ),
        Step(
            "128 rows of scores are read back: maximum, exponentials and their sum give the weights, which go to HBM.",
            "_write_weights",
        ),
        Step(
            "The weights are read back, transposed by the Tensor engine, and multiplied by the values.",
            "_write_output",
        ),
    ),
    sources=("A. Vaswani and others, arXiv:1706.03762",),
    falls_short=dict.fromkeys(
        FLASH.tolerance,
        "its stages take turns: none keeps an engine or the transfers busy throughout",
    ),
    refused=(
        Refused(
            {"q": (1, 1, 1, 1), "k": (1, 1, 1, 8193), "v": (1, 1, 8193, 1)},
            "a row of scores has 8193 keys; 8192 of them fit",
            "use flash_attention",
        ),
    ),
)
