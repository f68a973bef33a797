"""Routing of tokens to experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import row_tiles
from nki_lab.kernels.rows import check_floats, of_this_core, per_column

_EIGHT = 8  # what the Vector engine finds at once
_LARGEST = float(np.finfo(np.float32).max)
# Bytes of a partition that the weights may take, and that the tokens take which are loaded at once.
_BYTES = 65_536


@nki.jit
def router_topk(x, w, w_bias, act_fn, k, router_pre_norm=True, norm_topk_prob=False):
    """Return the logits of each token for each expert, its k best experts, and the affinities to experts.

    Of equal logits the lower expert comes first. -inf is allowed, for experts that are masked. A token of NaN has
    affinities of NaN and indices of -1; one for which all experts are masked has affinities of NaN with softmax.

    Args:
        x: [hidden, tokens], float32 or bfloat16.
        w: [hidden, experts], of the same dtype; experts at most 512.
        w_bias: [experts] or [1, experts], added to the logits, or None.
        act_fn: "softmax" or "sigmoid".
        k: how many experts a token has, at most 8.
        router_pre_norm: apply `act_fn` to all logits; otherwise to the k best, and the others have affinity 0.
        norm_topk_prob: with `router_pre_norm`, keep the k best affinities alone, divided by their sum.

    Returns:
        router_logits: [tokens, experts], float32.
        expert_index: [tokens, k], int32, the best first.
        expert_affinities: [tokens, experts], float32.
    """
    w_bias, act_fn = _check(x, w, w_bias, act_fn, k, router_pre_norm, norm_topk_prob)
    tokens, experts = x.shape[1], w.shape[1]
    pmax = nl.tile_size.pmax
    logits, affinities = (
        nl.ndarray((tokens, experts), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)
    )
    index = nl.ndarray((tokens, k), dtype=nl.int32, buffer=nl.shared_hbm)
    weights = list(row_tiles(w, 0, experts))
    bias = None if w_bias is None else per_column(w_bias)
    width = _BYTES // (len(weights) * (4 if x.dtype == nl.float32 else 2)) // pmax * pmax
    width = min(max(width, pmax), 1024)
    for block_number, (start, tiles, size) in enumerate(_blocks(tokens, width)):
        if not of_this_core(block_number):
            continue
        block = slice(start, start + tiles * size)
        inputs = list(row_tiles(x, start, tiles * size))
        # Partition p holds tokens p * tiles and up: a transfer then stores rows that follow each other.
        results = [
            nl.ndarray((size, tiles, out.shape[1]), dtype=out.dtype, buffer=nl.sbuf)
            for out in (logits, index, affinities)
        ]
        for n in range(tiles):
            product = nl.ndarray((size, experts), dtype=nl.float32, buffer=nl.psum)
            for tile, weight in zip(inputs, weights, strict=True):
                nisa.nc_matmul(dst=product, stationary=tile[:, n::tiles], moving=weight)
            scores = _scores(product, bias, results[0][:, n])
            top = _best(scores, results[1][:, n])
            _affinities(scores, top, results[2][:, n], act_fn, router_pre_norm, norm_topk_prob)
        for out, result in zip((logits, index, affinities), results, strict=True):
            nisa.dma_copy(dst=out[block].reshape(tuple(result.shape)), src=result)
    return logits, index, affinities


def _check(x, w, w_bias, act_fn, k, router_pre_norm, norm_topk_prob):
    """Return the bias as [experts], and the name of the function."""
    check_floats("router_topk", x=x, w=w)
    require(
        len(x.shape) == len(w.shape) == 2 and x.shape[0] == w.shape[0] and x.dtype == w.dtype,
        f"router_topk: `x` is {list(x.shape)} {x.dtype} and `w` {list(w.shape)} {w.dtype}; expected "
        "[hidden, tokens] and [hidden, experts] of one dtype",
        "transpose the tokens: np.ascontiguousarray(x.T)",
    )
    hidden, experts = w.shape
    taken = -(-hidden // nl.tile_size.pmax) * experts * (4 if w.dtype == nl.float32 else 2)
    require(
        experts <= nl.tile_size.gemm_moving_fmax and taken <= _BYTES,
        f"router_topk: `w` has {experts} experts and takes {taken} bytes of a partition; expected at most "
        f"{nl.tile_size.gemm_moving_fmax}, and {_BYTES} bytes",
        "give it some of the experts at a time, or bfloat16",
    )
    require(
        0 < k <= min(_EIGHT, experts),
        f"router_topk: k={k}; expected 1 to {min(_EIGHT, experts)}",
        "take no more than 8 experts, and no more than there are",
    )
    name = str(getattr(act_fn, "name", act_fn)).lower()
    require(
        name in ("softmax", "sigmoid"),
        f"router_topk: act_fn={act_fn!r}; expected 'softmax' or 'sigmoid'",
        "write act_fn='softmax'",
    )
    require(
        router_pre_norm or not norm_topk_prob,
        "router_topk: norm_topk_prob=True without router_pre_norm",
        "leave it out: softmax of the k best sums to 1 already",
    )
    if w_bias is None:
        return None, name
    require(
        tuple(w_bias.shape) in ((experts,), (1, experts)),
        f"router_topk: `w_bias` has shape {list(w_bias.shape)}; expected {[experts]} or {[1, experts]}",
        "give one value for each expert, or None",
    )
    return w_bias.reshape((experts,)), name


def _blocks(tokens: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield blocks of up to `width` tokens: the first token, how many tiles, and how many tokens in each."""
    pmax = nl.tile_size.pmax
    for start in range(0, tokens, width):
        whole, rest = divmod(min(width, tokens - start), pmax)
        if whole:
            yield start, whole, pmax
        if rest:
            yield start + whole * pmax, 1, rest


def _scores(product, bias, logits):
    """Write the logits, with the bias, and return them with -inf up to 8 columns."""
    size, experts = product.shape
    if bias is None:
        nisa.activation(dst=logits, op=nl.copy, data=product)
    else:
        nisa.tensor_tensor(dst=logits, data1=product, data2=bias[:size], op=nl.add)
    if experts >= _EIGHT:
        return logits
    scores = nl.ndarray((size, _EIGHT), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=scores, value=float("-inf"))
    nisa.tensor_copy(dst=scores[:, :experts], src=logits)
    return scores


def _best(scores, index):
    """Return the 8 largest scores of each row, with the largest float32 after the k best, and write their places."""
    size, k = index.shape
    top = nl.ndarray((size, _EIGHT), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=scores)
    places = nl.ndarray((size, _EIGHT), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=places, data=scores, vals=top)
    nisa.tensor_copy(dst=index, src=places.view(nl.int32)[:, :k])
    if k < _EIGHT:
        nisa.memset(dst=top[:, k:], value=_LARGEST)
    return top


def _affinities(scores, top, share, act_fn, all_of_them, divide):
    """Write the affinities for scores, of which `top` are the k best."""
    size, experts = share.shape
    chosen = scores
    if divide or not all_of_them:
        # The k best, each at its first place, are replaced; what differs then is chosen, and the rest is -inf.
        rest = nl.ndarray(scores.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_match_replace8(dst=rest, data=scores, vals=top, imm=-_LARGEST)
        mask = nl.ndarray(scores.shape, dtype=nl.uint8, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=mask, data1=rest, data2=scores, op=nl.not_equal)
        chosen = rest
        nisa.select_reduce(dst=chosen, predicate=mask, on_true=scores, on_false=float("-inf"))
    chosen = chosen[:, :experts]
    if act_fn == "sigmoid" and not divide:
        nisa.activation(dst=share, op=nl.sigmoid, data=chosen)
        return
    op, shift = nl.sigmoid, None
    if act_fn == "softmax":
        op, shift = nl.exp, nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=shift, data=top[:, 0:1], op0=nl.multiply, operand0=-1.0)
    total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=share, op=op, data=chosen, bias=shift, reduce_op=nl.add, reduce_res=total
    )
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=share, data=share, op0=nl.multiply, operand0=total)


def _arguments(
    rng: np.random.Generator, dtype: Any, hidden: int, tokens: int, experts: int, k: int, mode: int
) -> dict[str, Any]:
    # Multiples of 1 / 8, of which the products add up exactly: experts tie, and every order of adding gives the same.
    x, w = (np.round(8 * rng.standard_normal((hidden, n))) / 8 for n in (tokens, experts))
    return {
        "x": x.astype(dtype),
        "w": (w / 8).astype(dtype),
        "w_bias": (np.arange(experts) % 3 / 8).astype(np.float32) if mode % 2 else None,
        "act_fn": ("softmax", "sigmoid")[mode // 2 % 2],
        "k": k,
        "router_pre_norm": mode % 3 > 0,
        "norm_topk_prob": mode % 3 > 1,
    }


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bias that masks all experts but two, of which a token wants four; another token is NaN."""
    arguments = _arguments(rng, np.float32, 20, 5, 9, 4, 3)
    arguments["w_bias"][[0, 1, 3, 4, 5, 7, 8]] = -np.inf
    arguments["x"][3, 2] = np.nan
    return arguments


def _reference(
    x: Any, w: Any, w_bias: Any, act_fn: str, k: int, router_pre_norm: bool = True, norm_topk_prob: bool = False
) -> tuple[np.ndarray, ...]:  # fmt: skip
    logits = x.astype(np.float64).T @ w.astype(np.float64)
    if w_bias is not None:
        logits = logits + w_bias.reshape(-1)
    nan = np.isnan(logits)
    order = np.argsort(-np.where(nan, np.inf, logits), axis=1, kind="stable")[:, :k]
    index = np.where(np.take_along_axis(nan, order, axis=1), -1, order)
    chosen = logits
    if norm_topk_prob or not router_pre_norm:
        chosen = np.full_like(logits, -np.inf)
        np.put_along_axis(chosen, order, np.take_along_axis(logits, order, axis=1), axis=1)
    with np.errstate(invalid="ignore"):
        if act_fn == "softmax":
            share = np.exp(chosen - logits.max(axis=1, keepdims=True))
        else:
            share = 1 / (1 + np.exp(-chosen))
    share = np.where(nan, np.nan, share)
    if act_fn == "softmax" or norm_topk_prob:
        share = share / share.sum(axis=1, keepdims=True)
    return logits, index, share


KERNEL = Prebuilt(
    kernel=router_topk,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"hidden": 256, "tokens": 128, "experts": 64, "k": 8, "mode": 0},
        {"hidden": 200, "tokens": 150, "experts": 70, "k": 3, "mode": 5},
        {"hidden": 1, "tokens": 1, "experts": 1, "k": 1, "mode": 1},
        {"hidden": 130, "tokens": 20, "experts": 6, "k": 2, "mode": 2},
    ),
    ranges={
        "hidden": range(1, 300),
        "tokens": range(1, 200),
        "experts": range(1, 100),
        "k": range(1, 9),
        "mode": range(6),
    },
    legal=lambda experts, k, **size: k <= experts,
    timed=(
        {"hidden": 2048, "tokens": 512, "experts": 128, "k": 8, "mode": 2},
        {"hidden": 4096, "tokens": 8192, "experts": 128, "k": 8, "mode": 2},
    ),
    multiplies=lambda hidden, tokens, experts, k, mode: 2 * hidden * tokens * experts,
    cores=(1, 2),
    tolerance={"float32": 1e-5, "bfloat16": 1e-5},
    steps=(
        Step(
            "All weights stay in SBUF; of the tokens as many are loaded as fit.",
            "weights = list(row_tiles(",
        ),
        Step(
            "The Tensor engine multiplies 128 tokens by all experts, over the hidden size in the partitions.",
            "nisa.nc_matmul(",
        ),
        Step(
            "The Vector engine adds the bias, and finds the 8 largest logits of a token and their experts.",
            "_best",
        ),
        Step(
            "The k best are replaced by another number, each at its first place; what differs is chosen.",
            "nisa.nc_match_replace8(",
        ),
        Step(
            "What is not chosen becomes -inf, which softmax and sigmoid make 0.",
            "nisa.select_reduce(",
        ),
        Step(
            "The Scalar engine computes exp(logit - largest), or sigmoid, and adds up each row in one instruction.",
            "nisa.activation_reduce(",
        ),
        Step("The Vector engine multiplies by 1 / sum.", "nisa.tensor_scalar(dst=share"),
    ),
    sources=("NKI Library, router top-k",),
    edges={"masked experts and NaN": _edge},
    refused=(
        Refused(
            {"x": (8, 16), "w": (16, 4), "w_bias": None, "act_fn": "softmax", "k": 2},
            "`x` is [8, 16] float32 and `w` [16, 4] float32",
            "np.ascontiguousarray(x.T)",
        ),
        Refused(
            {"x": (16, 8), "w": (16, 513), "w_bias": None, "act_fn": "softmax", "k": 2},
            "513 experts",
            "some of the experts",
        ),
        Refused(
            {"x": (16, 8), "w": (16, 12), "w_bias": None, "act_fn": "softmax", "k": 9},
            "k=9; expected 1 to 8",
            "no more than 8",
        ),
        Refused(
            {"x": (16, 8), "w": (16, 12), "w_bias": (3,), "act_fn": "softmax", "k": 2},
            "`w_bias` has shape [3]; expected [12] or [1, 12]",
            "one value for each expert",
        ),
        Refused(
            {"x": (16, 8), "w": (16, 12), "w_bias": None, "act_fn": "relu", "k": 2},
            "act_fn='relu'",
            "act_fn='softmax'",
        ),
        Refused(
            {
                "x": (16, 8),
                "w": (16, 12),
                "w_bias": None,
                "act_fn": "sigmoid",
                "k": 2,
                "router_pre_norm": False,
                "norm_topk_prob": True,
            },
            "norm_topk_prob=True without router_pre_norm",
            "leave it out",
        ),
    ),
)
