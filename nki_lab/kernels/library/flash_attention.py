"""Attention without its matrix of scores in device memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.library.flash_attn_bwd import flash_fwd_backward
from nki_lab.kernels.library.flash_fwd import flash_fwd
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core, register_of

# Queries of a group, the widest moving operand, and keys that one transfer brings.
_QUERIES, _STEP = 512, 1024
# Keys and values of a head stay in SBUF up to so many bytes of each partition; longer ones are read for every group.
_RESIDENT_BYTES = 96 * 1024
# Stands for -inf, with which exp(-inf - -inf) would be NaN.
MASKED = -1e30
# From this sum of exp(score) on, terms that float32 cannot hold are too small to matter.
_SMALLEST = 1e-18


@nki.jit
def flash_attention(q, k, v, scale=None, causal=False):
    """Return softmax(scale * q.T @ k) @ v of each head, for 512 queries and 128 keys at a time.

    exp is taken of the scores as they are. Where it was too large or too small for float32, the heads that share keys
    are computed again with the largest score subtracted, which takes about three times as long.

    Args:
        q: [batch, heads, d, queries], float32 or bfloat16; d at most 128.
        k: [batch, kv_heads, d, keys]; heads is a multiple of kv_heads, as in grouped-query attention.
        v: [batch, kv_heads, keys, d].
        scale: of the scores, above 0; 1 / sqrt(d) where it is None.
        causal: each query sees the keys up to its own, and the last query sees all. Where there are more keys than
            queries, as with a cache, all queries see the earlier ones.

    Returns:
        [batch, heads, queries, d].
    """
    check_heads("flash_attention", q, k, v, scale, causal, earlier=True)
    (batch, heads, d, queries), kv_heads = q.shape, k.shape[1]
    scale = d**-0.5 if scale is None else scale
    out = nl.ndarray((batch, heads, queries, d), dtype=q.dtype, buffer=nl.shared_hbm)
    shared = heads // kv_heads
    groups = [(head, first) for head in range(shared) for first in range(0, queries, _QUERIES)]
    spoiled = []
    for n in range(batch * kv_heads):
        b, kv_head = n // kv_heads, n % kv_heads
        heads_of = slice(kv_head * shared, (kv_head + 1) * shared)
        operands = (q[b, heads_of], k[b, kv_head], v[b, kv_head], out[b, heads_of])
        mine = [group for m, group in enumerate(groups) if of_this_core(n * len(groups) + m)]
        spoiled.append((operands, mine, _direct(*operands, mine, scale, causal)))
    for operands, mine, flags in spoiled:
        nl.fori_loop(0, register_of(flags), _again(operands, mine, scale, causal))
    return out


@nki.jit
def flash_attention_backward(by_out, q, k, v, scale=None, causal=False):
    """Return the gradients of flash_attention by `q`, `k` and `v`, for as many causal queries as keys.

    It computes the output and the sums of the weights once more, as flash_fwd does in training.
    """
    queries, keys = q.shape[3], k.shape[3]
    require(
        queries % 128 == 0 and (not causal or queries == keys),
        f"flash_attention: there is no gradient for {queries} queries and {keys} keys; expected a multiple of 128"
        " queries, and as many keys where they are causal",
        "pad `q`, `k` and `v` with zeros at their end, where no causal query sees them",
    )
    common = {"softmax_scale": scale, "use_causal_mask": causal, "mixed_precision": False}
    o, lse = flash_fwd(q, k, v, None, **common)
    return flash_fwd_backward(by_out, q, k, v, o, lse, None, **common)


def check_heads(kernel, q, k, v, scale, causal, earlier=False):
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
    for name, tensor in (("k", k), ("v", v)):
        require(
            tensor.dtype == q.dtype,
            f"{kernel}: `{name}` is {tensor.dtype}, and `q` {q.dtype}",
            "cast them to one dtype",
        )
    check_floats(kernel, q=q)
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
        not causal or queries == keys or (earlier and queries < keys),
        f"{kernel}: causal attention of {queries} queries to {keys} keys",
        "give as many queries as keys" + ", or fewer" * earlier,
    )


def _direct(q, k, v, out, groups, scale, causal):
    """Compute groups of queries without their largest scores; return a tile that is not 0 where a sum is not exact."""
    pmax = nl.tile_size.pmax
    flags = nl.ndarray((pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=flags, value=0.0)
    (keys, d), resident, held = v.shape, _fits(k), {}
    earlier = keys - q.shape[2]
    for head, first in groups:
        count = min(_QUERIES, q.shape[2] - first)
        queries = loaded(q[head, :, first : first + count])
        # Two banks of PSUM hold the output of 512 queries and, in the column after it, the sums of their weights.
        sums = [nl.ndarray((pmax, 2, 256), dtype=nl.float32, buffer=nl.psum) for _ in range(2)]
        seen = earlier + first + count if causal else keys
        for start in range(0, seen, _STEP):
            if not resident or start not in held:
                held[start] = _loaded(k, v, start, with_ones=True)
            for block in range(start, min(start + _STEP, seen), 2 * pmax):
                stop, own = min(block + 2 * pmax, seen), earlier + first if causal else None
                _add_block(queries, held[start], block, stop, own, scale, sums)
        for n in range(0, count, pmax):
            rows = min(pmax, count - n)
            tile = sums[n // pmax // 2][:rows, n // pmax % 2]
            share = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.reciprocal(dst=share, data=tile[:, d : d + 1])
            result = nl.ndarray((rows, d), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=result, data=tile[:, :d], op0=nl.multiply, operand0=share)
            nothing = nl.ndarray((rows, d), dtype=out.dtype, buffer=nl.sbuf)
            spoiled = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar_reduce(
                dst=nothing,
                data=result,
                op0=nl.multiply,
                operand0=0.0,
                reduce_op=nl.add,
                reduce_res=spoiled,
            )  # NaN where an element is not finite, as where exp or a sum was too large
            for value, op, limit in (
                (spoiled, nl.not_equal, 0.0),
                (share, nl.greater_equal, 1 / _SMALLEST),
            ):
                nisa.scalar_tensor_tensor(
                    dst=flags[:rows],
                    data=value,
                    op0=op,
                    operand0=limit,
                    op1=nl.maximum,
                    operand1=flags[:rows],
                )
            nisa.dma_copy(dst=out[head, first + n : first + n + rows], src=result)
    return flags


def _add_block(queries, held, start, stop, own, scale, sums):
    """Add to the sums what up to 256 keys give to a group of queries; `own` is the key of the first, if causal."""
    (keys, values), count, pmax = held, queries.shape[1], nl.tile_size.pmax
    parts = [(n, min(pmax, stop - n)) for n in range(start, stop, pmax)]
    scores = nl.ndarray((pmax, 2, _QUERIES), dtype=nl.float32, buffer=nl.psum)
    weights = nl.ndarray((pmax, 2, _QUERIES), dtype=queries.dtype, buffer=nl.sbuf)
    # Tiles of queries before the first key of a block see none of it.
    begins = [0 if own is None else max(0, (n - own) // pmax * pmax) for n, _ in parts]
    for n, (key, size) in enumerate(parts):
        nisa.nc_matmul(
            dst=scores[:size, n, begins[n] : count], stationary=keys[:, key % _STEP : key % _STEP + size],
            moving=queries[:, begins[n] :],
        )  # fmt: skip
    each = [(slice(n, n + 1), size, begins[n]) for n, (_, size) in enumerate(parts)]
    if len(parts) == 2 and parts[1][1] == pmax and begins[0] == begins[1]:
        each = [(slice(0, 2), pmax, begins[0])]
    for numbers, size, begin in each:
        nisa.activation(
            dst=weights[:size, numbers, begin:count], op=nl.exp,
            data=scores[:size, numbers, begin:count], scale=scale,
        )  # fmt: skip
    for n, (key, size) in enumerate(parts):
        for query in range(begins[n], count, pmax):
            rows = min(pmax, count - query)
            stationary = weights[:size, n, query : query + rows]
            if own is not None and key + size > own + query + 1:
                nisa.affine_select(
                    dst=stationary, pattern=[[1, rows]], offset=own + query - key, channel_multiplier=-1,
                    on_true_tile=stationary, on_false_value=0.0, cmp_op=nl.greater_equal,
                )  # fmt: skip
            nisa.nc_matmul(
                dst=sums[query // pmax // 2][:rows, query // pmax % 2, : values[0].shape[1]],
                stationary=stationary, moving=values[key % _STEP // pmax][:size],
            )  # fmt: skip


def _again(operands, groups, scale, causal):
    """Return the body of a loop that computes groups of queries with their largest scores subtracted."""
    q, k, v, out = operands

    def body(_):
        keys, resident, held = k.shape[1], _fits(k), {}
        for head, group in groups:
            for first in range(group, min(group + _QUERIES, q.shape[2]), nl.tile_size.pmax):
                rows = min(nl.tile_size.pmax, q.shape[2] - first)
                tile = loaded(q[head, :, first : first + rows])
                state = None
                own = keys - q.shape[2] + first if causal else keys
                for start in range(0, min(keys, own + rows), _STEP):
                    if not resident or start not in held:
                        held[start] = _loaded(k, v, start)
                    seen = min(keys, start + _STEP, own + rows) - start
                    state = _step(tile, held[start], seen, own - start, scale, state)
                nisa.dma_copy(dst=out[head, first : first + rows], src=_divided(state, q.dtype))

    return body


def _fits(k):
    """Tell whether all keys and values of a head stay in SBUF."""
    return k.shape[1] * 2 * (4 if k.dtype == nl.float32 else 2) <= _RESIDENT_BYTES


def _loaded(k, v, start, with_ones=False):
    """Return the keys [d, step] and, for each 128 of them, the values [128, d] of one step, and a column of ones."""
    stop, pmax, d = min(start + _STEP, k.shape[1]), nl.tile_size.pmax, v.shape[1]
    count = (stop - start + pmax - 1) // pmax
    tile = nl.ndarray((pmax, count, d + with_ones), dtype=v.dtype, buffer=nl.sbuf)
    whole = (stop - start) // pmax
    if with_ones:
        nisa.memset(dst=tile[:, :, d:], value=1.0)
    if whole:
        rows = v[start : start + whole * pmax].reshape((whole, pmax, d)).permute((1, 0, 2))
        nisa.dma_copy(dst=tile[:, :whole, :d], src=rows)
    if whole < count:
        rest = stop - start - whole * pmax
        nisa.dma_copy(dst=tile[:rest, whole, :d], src=v[stop - rest : stop])
    return loaded(k[:, start:stop]), [tile[:, n] for n in range(count)]


def _step(queries, held, seen, own, scale, state):
    """Return maximum (negative), sum and output of a tile of queries after these keys.

    Args:
        queries: [d, rows].
        held: keys and values of this step.
        seen: how many of the keys to look at.
        own: the key of the first query, which is the last that it sees.
        state: the same three after the keys before; None at the first step.
    """
    keys, values = held
    rows = queries.shape[1]
    scores = nl.ndarray((rows, seen), dtype=nl.float32, buffer=nl.psum)
    for n in range(0, seen, nl.tile_size.gemm_moving_fmax):
        part = slice(n, min(n + nl.tile_size.gemm_moving_fmax, seen))
        nisa.nc_matmul(dst=scores[:, part], stationary=queries, moving=keys[:, part])
    if own < seen:
        # Not by adding to them, as a key that is not seen may be NaN.
        diagonal = scores[:, max(0, own) :]
        masked = nl.ndarray(diagonal.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=masked, src=diagonal)
        nisa.affine_select(
            dst=masked, pattern=[[-1, masked.shape[1]]], offset=min(0, own), channel_multiplier=1,
            on_true_tile=masked, on_false_value=MASKED, cmp_op=nl.greater_equal,
        )  # fmt: skip
        nisa.tensor_copy(dst=diagonal, src=masked)

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
        queries, keys = scores.shape[2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def _edge(
    change: Callable[[Any, Any, Any], None], first: int = 0
) -> Callable[[np.random.Generator], dict[str, Any]]:
    def arguments(rng: np.random.Generator) -> dict[str, Any]:
        made = _arguments(rng, np.float32, heads=2, kv_heads=1, keys=150, d=64, causal=1)
        change(made["q"], made["k"], made["v"])
        made["q"] = made["q"][..., first:].copy()
        return made

    return arguments


def _large_scores(q: Any, k: Any, v: Any) -> None:
    q[:, 1] *= 60


def _large_values(q: Any, k: Any, v: Any) -> None:
    q *= 6
    v *= 1e30


def _small_scores(q: Any, k: Any, v: Any) -> None:
    q[...], k[...] = 18 * np.abs(q), -np.abs(k)


def _nan(q: Any, k: Any, v: Any) -> None:
    q[0, 1, 3, 140] = np.nan
    k[0, 0, 5, 130] = np.nan
    k[0, 0, 7, 120] = np.inf


KERNEL = Prebuilt(
    kernel=flash_attention,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"heads": 2, "kv_heads": 1, "keys": 160, "d": 64, "causal": 1},
        {"heads": 1, "kv_heads": 1, "keys": 1100, "d": 40, "causal": 0},
        {"heads": 1, "kv_heads": 1, "keys": 600, "d": 128, "causal": 1},
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
    cores=(1, 2),
    edges={
        "large scores": _edge(_large_scores),
        "large values": _edge(_large_values),
        "small scores": _edge(_small_scores),
        "NaN": _edge(_nan),
        "earlier keys": _edge(lambda q, k, v: None, 15),
        "earlier keys, large scores": _edge(_large_scores, 15),
    },
    operator={"backward": flash_attention_backward, "types": {"scale": "float?"}},
    steps=(
        Step(
            "d lies in the partitions of queries and keys, the keys in those of the values.",
            "_loaded",
        ),
        Step(
            "The Tensor engine multiplies 128 keys by 512 queries: scores [128 keys, 512 queries] in PSUM.",
            "for n, (key, size) in enumerate(parts)",
        ),
        Step(
            "The Scalar engine computes exp(score); the weights already lie as the next product needs them.",
            "for numbers, size, begin in each",
        ),
        Step(
            "The Tensor engine multiplies weights by values and by a column of ones: output and sum of 128 queries.",
            "for query in range(begins[n]",
        ),
        Step(
            "The Vector engine divides the output by the sum, and notes where it is not finite, or the sum"
            " below 1e-18.",
            "for n in range(0, count, pmax)",
        ),
        Step(
            "A loop of the device computes such heads again, with the largest score of each query subtracted.",
            "_again",
        ),
    ),
    sources=("T. Dao, arXiv:2307.08691", "nki-samples, flash attention"),
    refused=(
        Refused(
            {name: np.ones((1, 1, 8, 8), np.int8) for name in "qkv"},
            "`q` is int8",
            "cast it",
        ),
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
            {"q": (1, 2, 32, 8), "k": (1, 2, 32, 8), "v": np.zeros((1, 2, 8, 32), np.int32)},
            "`v` is int32, and `q` float32",
            "one dtype",
        ),
        Refused(
            {"q": (1, 2, 32, 8), "k": (1, 2, 32, 3), "v": (1, 2, 3, 32), "causal": True},
            "causal attention of 8 queries to 3 keys",
            "as many queries as keys, or fewer",
        ),
    ),
)
