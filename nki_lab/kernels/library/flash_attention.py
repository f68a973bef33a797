"""Attention without its matrix of scores in device memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, require
from nki_lab.kernels.rows import loaded

# Keys of one step: two banks of PSUM hold their scores, so that the next step's have room beside them.
_STEP = 1024
# Keys and values of a head stay in SBUF up to so many bytes of each partition; longer ones are read for every tile.
_RESIDENT_BYTES = 96 * 1024
# Stands for -inf, with which exp(-inf - -inf) would be NaN.
MASKED = -1e30


@nki.jit
def flash_attention(q, k, v, scale=None, causal=False):
    """Return softmax(scale * q.T @ k) @ v of each head, for 128 queries and 1024 keys at a time.

    Args:
        q: [batch, heads, d, queries], float32 or bfloat16; d at most 128.
        k: [batch, kv_heads, d, keys]; heads is a multiple of kv_heads, as in grouped-query attention.
        v: [batch, kv_heads, keys, d].
        scale: of the scores, above 0; 1 / sqrt(d) where it is None.
        causal: query i sees the keys up to i; there are as many queries as keys.

    Returns:
        [batch, heads, queries, d].
    """
    check_heads("flash_attention", q, k, v, scale, causal)
    (batch, heads, d, queries), (kv_heads, keys) = q.shape, (k.shape[1], k.shape[3])
    scale = d**-0.5 if scale is None else scale
    out = nl.ndarray((batch, heads, queries, d), dtype=q.dtype, buffer=nl.shared_hbm)
    triangle = _triangle() if causal else None
    resident = keys * 2 * (4 if q.dtype == nl.float32 else 2) <= _RESIDENT_BYTES
    for b in range(batch):
        for kv_head in range(kv_heads):
            held: dict[int, Any] = {}
            for head in range(kv_head * heads // kv_heads, (kv_head + 1) * heads // kv_heads):
                for first in range(0, queries, nl.tile_size.pmax):
                    rows = min(nl.tile_size.pmax, queries - first)
                    tile = loaded(q[b, head, :, first : first + rows])
                    state = None
                    for start in range(0, first + rows if causal else keys, _STEP):
                        if not resident or start not in held:
                            held[start] = _loaded(k[b, kv_head], v[b, kv_head], start)
                        seen = min(keys, start + _STEP, first + rows if causal else keys) - start
                        masked = start + seen - first if causal else 0
                        state = _step(tile, held[start], seen, masked, scale, state, triangle)
                    result = _divided(state, q.dtype)
                    nisa.dma_copy(dst=out[b, head, first : first + rows], src=result)
    return out


def check_heads(kernel, q, k, v, scale, causal):
    """Raise KernelArgument for a kernel unless its arguments are queries, keys and values of heads."""
    shapes = {"q": list(q.shape), "k": list(k.shape), "v": list(v.shape)}
    for name, shape in shapes.items():
        layout = "keys, d" if name == "v" else "d, queries" if name == "q" else "d, keys"
        require(
            len(shape) == 4,
            f"{kernel}: `{name}` has shape {shape}; expected [batch, heads, {layout}]",
            "give it all four axes; a batch of one is an axis, too",
        )
    batch, heads, d, queries = shapes["q"]
    _, kv_heads, _, keys = shapes["k"]
    require(
        shapes["k"] == [batch, kv_heads, d, keys],
        f"{kernel}: `k` has shape {shapes['k']}; expected [{batch}, kv_heads, {d}, keys], with the keys last",
        "transpose it: np.ascontiguousarray(k.swapaxes(2, 3))",
    )
    require(
        shapes["v"] == [batch, kv_heads, keys, d],
        f"{kernel}: `v` has shape {shapes['v']}; expected {[batch, kv_heads, keys, d]}, with the keys before d",
        "transpose it: np.ascontiguousarray(v.swapaxes(2, 3))",
    )
    require(
        heads % kv_heads == 0,
        f"{kernel}: {heads} heads of `q` do not share {kv_heads} heads of `k` evenly",
        "give `q` a multiple of the heads of `k`",
    )
    require(
        d <= nl.tile_size.pmax,
        f"{kernel}: heads are {d} wide; the partitions hold {nl.tile_size.pmax}",
        "split the heads, or project them to a smaller width",
    )
    require(
        scale is None or scale > 0,
        f"{kernel}: `scale` is {scale}",
        "give a number above 0; a negative sign belongs into `q`",
    )
    require(
        not causal or queries == keys,
        f"{kernel}: causal attention of {queries} queries to {keys} keys",
        "give as many queries as keys",
    )


def _triangle():
    """Return a tile [128, 128] of zeros, and above its diagonal of numbers that take a score away."""
    tile = nl.ndarray((nl.tile_size.pmax, nl.tile_size.pmax), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    nisa.affine_select(
        dst=tile, pattern=[[-1, nl.tile_size.pmax]], channel_multiplier=1, on_true_tile=tile,
        on_false_value=MASKED, cmp_op=nl.greater_equal,
    )  # fmt: skip
    return tile


def _loaded(k, v, start):
    """Return the keys [d, step] and, for each 128 of them, the values [128, d] of one step."""
    stop = min(start + _STEP, k.shape[1])
    tile = loaded(k[:, start:stop])
    pmax = nl.tile_size.pmax
    return tile, [loaded(v[n : min(n + pmax, stop)]) for n in range(start, stop, pmax)]


def _step(queries, held, seen, masked, scale, state, triangle):
    """Return maximum (negative), sum and output of a tile of queries after these keys.

    Args:
        queries: [d, rows].
        held: keys and values of this step.
        seen: how many of the keys to look at.
        masked: where above 0, so many of the last keys are seen by later queries only, from the first on.
        state: the same three after the keys before; None at the first step.
        triangle: what is added to the scores of masked keys.
    """
    keys, values = held
    rows = queries.shape[1]
    scores = nl.ndarray((rows, seen), dtype=nl.float32, buffer=nl.psum)
    for n in range(0, seen, nl.tile_size.gemm_moving_fmax):
        part = slice(n, min(n + nl.tile_size.gemm_moving_fmax, seen))
        nisa.nc_matmul(dst=scores[:, part], stationary=queries, moving=keys[:, part])
    if masked > 0:
        diagonal = scores[:, seen - masked : seen]
        nisa.tensor_tensor(dst=diagonal, data1=diagonal, data2=triangle[:rows, :masked], op=nl.add)

    lowest = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
    if state is None:
        nisa.tensor_scalar(dst=lowest, data=lowest, op0=nl.multiply, operand0=scale)
    else:
        before, total_before, output_before = state
        nisa.scalar_tensor_tensor(
            dst=lowest, data=lowest, op0=nl.multiply, operand0=scale,
            op1=nl.minimum, operand1=before,
        )  # fmt: skip
    weights = nl.ndarray((rows, seen), dtype=queries.dtype, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=scores, scale=scale, bias=lowest,
        reduce_op=nl.add, reduce_res=total,
    )  # fmt: skip

    product = nl.ndarray((rows, values[0].shape[1]), dtype=nl.float32, buffer=nl.psum)
    for number, stationary in enumerate(transposed(weights)):
        size = stationary.shape[0]
        nisa.nc_matmul(dst=product, stationary=stationary, moving=values[number][:size])
    output = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    if state is None:
        nisa.tensor_copy(dst=output, src=product)
        return lowest, total, output
    fade = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=fade, op=nl.exp, data=before, scale=-1.0, bias=lowest)
    nisa.scalar_tensor_tensor(
        dst=total, data=total_before, op0=nl.multiply, operand0=fade, op1=nl.add, operand1=total
    )
    nisa.scalar_tensor_tensor(
        dst=output, data=output_before, op0=nl.multiply, operand0=fade,
        op1=nl.add, operand1=product,
    )  # fmt: skip
    return lowest, total, output


def transposed(weights):
    """Return weights [rows, keys] as tiles [keys, rows] of up to 128 keys, copied from PSUM four at a time."""
    rows, seen = weights.shape
    pmax, tiles = nl.tile_size.pmax, []
    for start in range(0, seen, 4 * pmax):
        stop = min(start + 4 * pmax, seen)
        count = max((stop - start) // pmax, 1)  # the last tile may be smaller, and is copied alone
        for first, last, group in (
            (start, start + count * pmax, count),
            (start + count * pmax, stop, 1),
        ):
            size = min(pmax, min(last, stop) - first)
            if size <= 0:
                continue
            turned = nl.ndarray((size, group, rows), dtype=weights.dtype, buffer=nl.psum)
            for n in range(group):
                part = weights[:, first + n * pmax : first + n * pmax + size]
                nisa.nc_transpose(dst=turned[:, n], data=part, engine=nisa.engine.tensor)
            copied = nl.ndarray((size, group, rows), dtype=weights.dtype, buffer=nl.sbuf)
            # By the Scalar engine: the Vector engine, which finds the maxima, has less time left.
            nisa.activation(dst=copied, op=nl.copy, data=turned)
            tiles += [copied[:, n] for n in range(group)]
    return tiles


def _divided(state, dtype):
    """Return the output of a tile of queries, divided by the sum of its weights."""
    _, total, output = state
    share = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=share, data=total)
    result = nl.ndarray(output.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=output, op0=nl.multiply, operand0=share)
    return result


def _arguments(
    rng: np.random.Generator, dtype: Any, heads: int, kv_heads: int, keys: int, d: int, causal: int
) -> dict[str, Any]:
    q, k = (rng.standard_normal((1, h, d, keys)).astype(dtype) for h in (heads, kv_heads))
    v = rng.standard_normal((1, kv_heads, keys, d)).astype(dtype)
    return {"q": q, "k": k, "v": v, "causal": bool(causal)}


def _reference(q: Any, k: Any, v: Any, scale: float | None = None, causal: bool = False) -> Any:
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    repeats = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, repeats, axis=1) for a in (k, v))
    scores = q.swapaxes(2, 3) @ k * (q.shape[2] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(scores.shape[2], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


KERNEL = Prebuilt(
    kernel=flash_attention,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"heads": 2, "kv_heads": 1, "keys": 160, "d": 64, "causal": 1},
        {"heads": 1, "kv_heads": 1, "keys": 1300, "d": 40, "causal": 0},
        {"heads": 1, "kv_heads": 1, "keys": 1100, "d": 128, "causal": 1},
        {"heads": 1, "kv_heads": 1, "keys": 1, "d": 1, "causal": 0},
    ),
    ranges={
        "heads": range(1, 5),
        "kv_heads": range(1, 3),
        "keys": range(1, 300),
        "d": range(1, 129),
        "causal": range(2),
    },
    legal=lambda heads, kv_heads, **_: heads % kv_heads == 0,
    timed=(
        {"heads": 1, "kv_heads": 1, "keys": 1024, "d": 128, "causal": 0},
        {"heads": 2, "kv_heads": 1, "keys": 4096, "d": 128, "causal": 0},
    ),
    multiplies=lambda heads, kv_heads, keys, d, causal: (
        4 * heads * d * (keys * (keys + 1) // 2 if causal else keys * keys)
    ),
    tolerance={"float32": 1e-5, "bfloat16": 3e-2},
    steps=(
        "d lies in the partitions of queries and keys, the keys in those of the values.",
        "The Tensor engine multiplies 128 queries by 1024 keys: scores [128, 1024] in PSUM.",
        "The Vector engine finds the largest score of each query, and keeps the largest so far.",
        "The Scalar engine computes exp(score - largest) and adds up each row in one instruction.",
        "The Tensor engine transposes the weights, 128 keys at a time, and multiplies them by the values.",
        "What was summed before is multiplied by exp(largest before - largest), and the products are added.",
        "After all keys the output is divided by the sum of the weights.",
    ),
    sources=("T. Dao, arXiv:2307.08691", "nki-samples, flash attention"),
    falls_short={
        "float32": "the Tensor engine also transposes the weights",
        "bfloat16": "maxima, exponentials and copies of transposed weights take the Vector and Scalar engines longer"
        " than the products take the Tensor engine",
    },
    refused=(
        Refused(
            {"q": (1, 2, 32, 8), "k": (1, 2, 32, 8), "v": (1, 2, 32, 8)},
            "`v` has shape [1, 2, 32, 8]; expected [1, 2, 8, 32], with the keys before d",
            "transpose it: np.ascontiguousarray(v.swapaxes(2, 3))",
        ),
        Refused(
            {"q": (1, 3, 32, 8), "k": (1, 2, 32, 8), "v": (1, 2, 8, 32)},
            "3 heads of `q` do not share 2 heads",
            "a multiple",
        ),
        Refused(
            {"q": (1, 1, 130, 2), "k": (1, 1, 130, 2), "v": (1, 1, 2, 130)},
            "130 wide",
            "split the heads",
        ),
        Refused(
            {"q": (1, 2, 32, 3), "k": (1, 2, 32, 8), "v": (1, 2, 8, 32), "causal": True},
            "causal attention of 3 queries to 8 keys",
            "as many queries",
        ),
    ),
)
