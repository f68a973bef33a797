"""Projection of hidden states to queries, keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import (
    NormType,
    QKVOutputLayout,
    check_dtypes,
    choice_of,
    normalised,
    row_tiles,
    turn,
)
from nki_lab.kernels.rows import loaded, of_this_core, per_column

# Bytes of a partition for the tokens of one pass over the weights, and for a block of the weights.
_TOKEN_BYTES, _WEIGHT_BYTES = 64 * 1024, 32 * 1024
_MOST_TOKENS = 1024


@nki.jit
def qkv(
    input,
    fused_qkv_weights,
    output_layout=QKVOutputLayout.BSD,
    bias=None,
    fused_norm_type=NormType.NO_NORM,
    gamma_norm_weights=None,
    norm_eps=1e-6,
    d_head=None,
):
    """Return norm(input) @ fused_qkv_weights + bias, summed in float32.

    With two cores each takes some of the tokens, in blocks of up to 1024.

    Args:
        input: [batch, tokens, hidden], float32, bfloat16 or float16; hidden a multiple of 128, at most 8192.
        fused_qkv_weights: [hidden, columns], the columns of queries, keys and values beside each other.
        output_layout: QKVOutputLayout.BSD or NBSd (nki_lab.kernels.projections), or the name of one.
        bias: [1, columns], or None.
        fused_norm_type: NormType.NO_NORM, RMS_NORM, or RMS_NORM_SKIP_GAMMA where the weights hold gamma; or a name.
        gamma_norm_weights: [1, hidden], for RMS_NORM.
        norm_eps: added to the mean of the squares.
        d_head: width of a head, at most 512, for NBSd.

    Returns:
        [batch, tokens, columns], or for NBSd [columns / d_head, batch, tokens, d_head].
    """
    layout, norm = _check(
        input, fused_qkv_weights, output_layout, bias, fused_norm_type, gamma_norm_weights, d_head
    )
    (batch, tokens, hidden), columns = input.shape, fused_qkv_weights.shape[1]
    total, pmax = batch * tokens, nl.tile_size.pmax
    x = input.reshape((total, hidden))
    if layout is QKVOutputLayout.BSD:
        head = columns
        out = nl.ndarray((batch, tokens, columns), dtype=input.dtype, buffer=nl.shared_hbm)
        flat = out.reshape((1, total, columns))
    else:
        head = d_head
        heads = columns // d_head
        out = nl.ndarray((heads, batch, tokens, d_head), dtype=input.dtype, buffer=nl.shared_hbm)
        flat = out.reshape((heads, total, d_head))
    gamma = per_column(gamma_norm_weights.reshape((hidden,))) if norm is NormType.RMS_NORM else None

    steps, itemsize = hidden // pmax, 4 if input.dtype == nl.float32 else 2
    block = max(min(_TOKEN_BYTES // (steps * itemsize) // pmax * pmax, _MOST_TOKENS), pmax)
    widest = min(nl.tile_size.gemm_moving_fmax, _WEIGHT_BYTES // (steps * itemsize))
    if layout is QKVOutputLayout.NBSd:
        widest = max(widest // d_head, 1) * d_head
    for number, first in enumerate(range(0, total, block)):
        if not of_this_core(number):
            continue
        count = min(block, total - first)
        turned = nl.ndarray((pmax, steps, count), dtype=input.dtype, buffer=nl.sbuf)
        for n in range(0, count, pmax):
            part = slice(n, min(n + pmax, count))
            tile = loaded(x[first + n : first + part.stop])
            if norm is not NormType.NO_NORM:
                tile = normalised(tile, norm_eps, gamma)
            turn(tile, turned[:, :, part])
        for start in range(0, columns, widest):
            wide = min(widest, columns - start)
            weights = list(row_tiles(fused_qkv_weights, start, wide))
            added = None if bias is None else per_column(bias[0, start : start + wide])
            for n in range(0, count, pmax):
                size = min(pmax, count - n)
                product = nl.ndarray((size, wide), dtype=nl.float32, buffer=nl.psum)
                for k, weight in enumerate(weights):
                    nisa.nc_matmul(
                        dst=product, stationary=turned[:, k, n : n + size], moving=weight
                    )
                result = nl.ndarray((size, wide), dtype=out.dtype, buffer=nl.sbuf)
                if added is None:
                    nisa.tensor_copy(dst=result, src=product)
                else:
                    nisa.tensor_tensor(
                        dst=result,
                        data1=product,
                        data2=added[:size],
                        op=nl.add,
                    )
                rows = slice(first + n, first + n + size)
                if layout is QKVOutputLayout.BSD:
                    nisa.dma_copy(dst=flat[0, rows, start : start + wide], src=result)
                else:
                    nisa.dma_copy(
                        dst=flat[start // head : (start + wide) // head, rows].permute((1, 0, 2)),
                        src=result.reshape((size, wide // head, head)),
                    )
    return out


def _check(x, weights, output_layout, bias, fused_norm_type, gamma, d_head):
    layout = choice_of("qkv", "output_layout", output_layout, QKVOutputLayout)
    norm = choice_of("qkv", "fused_norm_type", fused_norm_type, NormType)
    require(
        len(x.shape) == 3,
        f"qkv: `input` has shape {list(x.shape)}; expected [batch, tokens, hidden]",
        "give it all three axes; a batch of one is an axis, too",
    )
    hidden = x.shape[2]
    require(
        hidden % nl.tile_size.pmax == 0 and hidden <= 8192,
        f"qkv: `input` is {hidden} wide; expected a multiple of 128, at most 8192",
        "fill up `input` and the rows of the weights with zeros",
    )
    require(
        len(weights.shape) == 2 and weights.shape[0] == hidden,
        f"qkv: `fused_qkv_weights` has shape {list(weights.shape)}; expected [{hidden}, columns], as `input` is wide",
        "transpose it: np.ascontiguousarray(weights.T)",
    )
    columns = weights.shape[1]
    for name, value, wide in (("bias", bias, columns), ("gamma_norm_weights", gamma, hidden)):
        require(
            value is None or list(value.shape) == [1, wide],
            f"qkv: `{name}` has shape {None if value is None else list(value.shape)}; expected [1, {wide}]",
            "reshape it: value.reshape((1, -1))",
        )
    check_dtypes("qkv", input=x, fused_qkv_weights=weights, bias=bias, gamma_norm_weights=gamma)
    require(
        (gamma is not None) == (norm is NormType.RMS_NORM),
        f"qkv: `fused_norm_type` is {norm.name}, and `gamma_norm_weights` is {'None' if gamma is None else 'given'}",
        "give gamma for RMS_NORM only; RMS_NORM_SKIP_GAMMA normalises without it",
    )
    require(
        layout is QKVOutputLayout.BSD
        or (
            d_head is not None
            and 0 < d_head <= nl.tile_size.gemm_moving_fmax
            and columns % d_head == 0
        ),
        f"qkv: `d_head` is {d_head}, and `fused_qkv_weights` has {columns} columns",
        "for NBSd give the width of a head: at most 512, and a divisor of the columns",
    )
    return layout, norm


def _arguments(
    rng: np.random.Generator, dtype: Any, tokens: int, hidden: int, columns: int, d_head: int
) -> dict[str, Any]:
    arguments = {
        "input": rng.standard_normal((1 + tokens % 2, tokens, hidden)).astype(dtype),
        "fused_qkv_weights": (rng.standard_normal((hidden, columns)) / hidden**0.5).astype(dtype),
        "fused_norm_type": NormType.RMS_NORM,
        "gamma_norm_weights": rng.uniform(0.5, 1.5, (1, hidden)).astype(dtype),
    }
    if d_head:
        arguments |= {
            "output_layout": QKVOutputLayout.NBSd,
            "d_head": d_head,
            "bias": rng.standard_normal((1, columns)).astype(dtype),
        }
    return arguments


def _reference(
    input: Any,
    fused_qkv_weights: Any,
    output_layout: Any = QKVOutputLayout.BSD,
    bias: Any = None,
    fused_norm_type: Any = NormType.NO_NORM,
    gamma_norm_weights: Any = None,
    norm_eps: float = 1e-6,
    d_head: int | None = None,
) -> np.ndarray:
    x = input.astype(np.float64)
    if fused_norm_type.name != "NO_NORM":
        x = x / np.sqrt(np.mean(x**2, axis=2, keepdims=True) + norm_eps)
    if gamma_norm_weights is not None:
        x = x * gamma_norm_weights.astype(np.float64)
    result: np.ndarray = x @ fused_qkv_weights.astype(np.float64)
    if bias is not None:
        result = result + bias.astype(np.float64)
    if output_layout.name == "NBSd":
        result = result.reshape((*result.shape[:2], -1, d_head)).transpose((2, 0, 1, 3))
    return result


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 5, 256, 60, 20)
    arguments["input"][0, 1, 3] = np.nan
    arguments["input"][0, 2, 200] = -np.inf
    return arguments


KERNEL = Prebuilt(
    kernel=qkv,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"tokens": 200, "hidden": 256, "columns": 192, "d_head": 0},
        {"tokens": 65, "hidden": 384, "columns": 640, "d_head": 80},
        {"tokens": 1, "hidden": 128, "columns": 1, "d_head": 1},
    ),
    ranges={
        "tokens": range(1, 200),
        "hidden": range(128, 513, 128),
        "columns": range(1, 700),
        "d_head": range(100),
    },
    legal=lambda tokens, hidden, columns, d_head: not d_head or columns % d_head == 0,
    timed=(
        {"tokens": 256, "hidden": 1024, "columns": 1536, "d_head": 0},
        {"tokens": 2048, "hidden": 4096, "columns": 3072, "d_head": 128},
    ),
    cores=(1, 2),
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {"input": (4, 128), "fused_qkv_weights": (128, 6)},
            "expected [batch, tokens, hidden]",
            "batch of one",
        ),
        Refused(
            {"input": (1, 4, 100), "fused_qkv_weights": (100, 6)},
            "100 wide; expected a multiple of 128",
            "zeros",
        ),
        Refused(
            {"input": (1, 4, 128), "fused_qkv_weights": (6, 128)},
            "expected [128, columns]",
            "transpose it",
        ),
        Refused(
            {"input": (1, 4, 128), "fused_qkv_weights": (128, 6), "bias": (6,)},
            "`bias` has shape [6]; expected [1, 6]",
            "reshape",
        ),
        Refused(
            {"input": (1, 4, 128), "fused_qkv_weights": (128, 6), "fused_norm_type": "RMS_NORM"},
            "`fused_norm_type` is RMS_NORM, and `gamma_norm_weights` is None",
            "RMS_NORM_SKIP_GAMMA",
        ),
        Refused(
            {"input": (1, 4, 128), "fused_qkv_weights": (128, 6), "fused_norm_type": "LAYER_NORM"},
            "`fused_norm_type` is LAYER_NORM",
            "RMS_NORM_SKIP_GAMMA",
        ),
        Refused(
            {
                "input": (1, 4, 128),
                "fused_qkv_weights": (128, 6),
                "output_layout": "NBSd",
                "d_head": 4,
            },
            "`d_head` is 4, and `fused_qkv_weights` has 6 columns",
            "a divisor",
        ),
        Refused(
            {"input": np.zeros((1, 4, 128), np.int32), "fused_qkv_weights": (128, 6)},
            "`input` is int32; expected float32, bfloat16 or float16",
            "astype",
        ),
        Refused(
            {"input": (1, 4, 128), "fused_qkv_weights": np.zeros((128, 6), np.float16)},
            "`fused_qkv_weights` is float16, and `input` float32",
            "cast",
        ),
    ),
    multiplies=lambda tokens, hidden, columns, d_head: (
        2 * (1 + tokens % 2) * tokens * hidden * columns
    ),
    tolerance={"float32": 1e-5, "bfloat16": 2e-2, "float16": 4e-3},
    steps=(
        Step(
            "128 tokens lie in the partitions; the Scalar engine squares them and adds up each row.",
            "tile = normalised(",
        ),
        Step(
            "The Vector engine multiplies them by gamma and by 1 / sqrt of the mean, in one instruction.",
            "tile = normalised(",
        ),
        Step(
            "The Tensor engine transposes them, so that hidden lies in the partitions: up to 1024 tokens stay in SBUF.",
            "turn(tile",
        ),
        Step(
            "512 columns of the weights at a time are loaded and multiplied by all these tokens, summed in PSUM.",
            "nisa.nc_matmul(",
        ),
        Step(
            "The Vector engine adds the bias and casts; NBSd is made by the transfer that stores.",
            "nisa.tensor_",
        ),
    ),
    sources=("NKI Library, QKV", "B. Zhang and R. Sennrich, arXiv:1910.07467"),
)
