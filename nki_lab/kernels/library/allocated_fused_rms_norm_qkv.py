"""RMS normalisation and projection to queries, keys and values, with tiles at addresses that the kernel chooses."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require

# Tiles of 128 columns of `hidden` whose squares lie in SBUF together.
_CHUNK = 32
_BANK_BYTES = 2048


@nki.jit
def allocated_fused_rms_norm_qkv(hidden, weights, norm_dtype=nl.float32, eps=1e-6):
    """Return RMSNorm(hidden) @ weights, summed in float32; the weights hold gamma already.

    No tile is left to the allocator: each has its address, and what the next tokens need has another.

    Args:
        hidden: [batch, tokens, dim], bfloat16 or float16; dim a multiple of 128, at most 8192.
        weights: [dim, columns], of the same dtype; at most 512 columns.
        norm_dtype: float32, bfloat16 or float16, in which squares are added up.
        eps: added to the mean of the squares.

    Returns:
        [batch, tokens, columns].
    """
    _check(hidden, weights, norm_dtype)
    (batch, tokens, dim), columns = hidden.shape, weights.shape[1]
    pmax, dtype = nl.tile_size.pmax, hidden.dtype
    steps, total = dim // pmax, batch * tokens
    out = nl.ndarray((batch, tokens, columns), dtype=dtype, buffer=nl.shared_hbm)
    rows, flat = hidden.reshape((total, steps, pmax)), out.reshape((total, columns))

    chunks = [slice(k, min(k + _CHUNK, steps)) for k in range(0, steps, _CHUNK)]
    (held,), end = _placed(1, (pmax, steps, columns), dtype, 0)
    turned, end = _placed(3, (pmax, steps, pmax), dtype, end)
    squares, end = _placed(2 * len(chunks), (pmax, min(steps, _CHUNK), pmax), norm_dtype, end)
    shares, end = _placed(2, (pmax, 1), nl.float32, end)
    results, end = _placed(2, (pmax, columns), dtype, end)
    # An activation without `bias` would read zeros that the compiler places.
    (added, zeros), end = _placed(2, (pmax, 1), nl.float32, end)
    (ones,), end = _placed(1, (pmax, 1), norm_dtype, end)
    products, means = (
        [
            nl.ndarray(
                (pmax, wide), dtype=nl.float32, buffer=nl.psum, address=(0, bank * _BANK_BYTES)
            )
            for bank in (first, first + 1)
        ]
        for first, wide in ((0, columns), (2, 1))
    )
    nisa.memset(dst=added, value=eps)
    nisa.memset(dst=zeros, value=0.0)
    nisa.memset(dst=ones, value=1.0)

    waiting: tuple[Any, ...] = ()
    for number, first in enumerate(range(0, total, pmax)):
        part = slice(first, min(first + pmax, total))
        size = part.stop - first
        tile = turned[number % 3][:, :, :size]
        nisa.dma_transpose(dst=tile, src=rows[part], axes=(2, 1, 0))
        if number == 0:
            for chunk in chunks:
                source = weights[chunk.start * pmax : chunk.stop * pmax]
                source = source.reshape((chunk.stop - chunk.start, pmax, columns))
                nisa.dma_copy(dst=held[:, chunk], src=source.permute((1, 0, 2)))
        summed = []
        for k, chunk in enumerate(chunks):
            place = squares[number % 2 * len(chunks) + k][:, : chunk.stop - chunk.start, :size]
            summed += _squared(tile[:, chunk], place, zeros)
        # The squares of the next tokens come before the products of these: the engines do not wait for each other.
        if waiting:
            _projected(held, ones, added, zeros, dim, *waiting)
        pair = (each[number % 2][:size] for each in (means, products, shares, results))
        waiting = (tile, summed, *pair, flat[part])
    _projected(held, ones, added, zeros, dim, *waiting)
    return out


def _check(hidden, weights, norm_dtype):
    name = "allocated_fused_rms_norm_qkv"
    require(
        len(hidden.shape) == 3 and hidden.shape[2] % 128 == 0 and hidden.shape[2] <= 8192,
        f"{name}: `hidden` has shape {list(hidden.shape)}; expected [batch, tokens, dim], dim a multiple of 128"
        " up to 8192",
        "fill up `hidden` and the rows of the weights with zeros, and the weights with what makes up for the mean",
    )
    dim = hidden.shape[2]
    require(
        len(weights.shape) == 2 and weights.shape[0] == dim and weights.shape[1] <= 512,
        f"{name}: `weights` has shape {list(weights.shape)}; expected [{dim}, columns], at most 512",
        "give up to 512 columns in one call, or use qkv",
    )
    require(
        hidden.dtype in (nl.bfloat16, nl.float16) and weights.dtype == hidden.dtype,
        f"{name}: `hidden` is {hidden.dtype}, and `weights` {weights.dtype}; expected bfloat16 or float16",
        "cast both to one of the two, or use qkv",
    )
    require(
        norm_dtype in (nl.float32, nl.bfloat16, nl.float16),
        f"{name}: `norm_dtype` is {norm_dtype}",
        "give nl.float32, nl.bfloat16 or nl.float16",
    )


def _placed(count, shape, dtype, start):
    """Return tiles that lie one behind the other from a byte of each partition on, and the byte behind them."""
    size = 4 if dtype == nl.float32 else 2
    for extent in shape[1:]:
        size *= extent
    size = -(-size // 64) * 64
    tiles = [
        nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=(0, start + n * size))
        for n in range(count)
    ]
    return tiles, start + count * size


def _squared(tile, squares, zeros):
    """Square a tile [128, steps, tokens] and add up its steps as far as they pair; return what is left of them."""
    nisa.activation(dst=squares, op=nl.square, data=tile, bias=zeros)
    count = squares.shape[1]
    while count % 2 == 0:
        count //= 2
        upper = squares[:, count : 2 * count]
        nisa.tensor_tensor(dst=squares[:, :count], data1=squares[:, :count], data2=upper, op=nl.add)
    return [squares[:, n] for n in range(count)]


def _projected(held, ones, added, zeros, dim, tile, summed, mean, product, share, result, out):
    """Multiply tokens by the weights, divide each by its root mean square, and store them."""
    for k in range(tile.shape[1]):
        nisa.nc_matmul(dst=product, stationary=tile[:, k], moving=held[:, k], accumulate=k > 0)
    for k, part in enumerate(summed):
        nisa.nc_matmul(dst=mean, stationary=part, moving=ones, accumulate=k > 0)
    size = mean.shape[0]
    nisa.activation(dst=share, op=nl.rsqrt, data=mean, scale=1.0 / dim, bias=added[:size])
    nisa.activation(dst=result, op=nl.copy, data=product, scale=share, bias=zeros[:size])
    nisa.dma_copy(dst=out, src=result)


def _arguments(
    rng: np.random.Generator, dtype: Any, batch: int, tokens: int, dim: int, columns: int
) -> dict[str, Any]:
    return {
        "hidden": rng.standard_normal((batch, tokens, dim)).astype(dtype),
        "weights": (rng.standard_normal((dim, columns)) / dim**0.5).astype(dtype),
    }


def _reference(
    hidden: Any, weights: Any, norm_dtype: Any = nl.float32, eps: float = 1e-6
) -> np.ndarray:
    x = hidden.astype(np.float64)
    x = x / np.sqrt(np.mean(x**2, axis=2, keepdims=True) + eps)
    result: np.ndarray = x @ weights.astype(np.float64)
    return result


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float16, 1, 5, 256, 60)
    arguments["hidden"][0, 1, 3] = np.nan
    arguments["hidden"][0, 2, 200] = -np.inf
    return arguments


KERNEL = Prebuilt(
    kernel=allocated_fused_rms_norm_qkv,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 1, "tokens": 200, "dim": 512, "columns": 96},
        {"batch": 2, "tokens": 65, "dim": 384, "columns": 512},
        {"batch": 1, "tokens": 1, "dim": 128, "columns": 1},
    ),
    ranges={
        "batch": range(1, 4),
        "tokens": range(1, 160),
        "dim": range(128, 1025, 128),
        "columns": range(1, 513),
    },
    timed=(
        {"batch": 1, "tokens": 512, "dim": 1024, "columns": 384},
        {"batch": 1, "tokens": 4096, "dim": 8192, "columns": 512},
    ),
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {
                "hidden": np.zeros((1, 4, 100), np.float16),
                "weights": np.zeros((100, 6), np.float16),
            },
            "`hidden` has shape [1, 4, 100]",
            "zeros",
        ),
        Refused(
            {
                "hidden": np.zeros((1, 4, 128), np.float16),
                "weights": np.zeros((128, 600), np.float16),
            },
            "`weights` has shape [128, 600]; expected [128, columns], at most 512",
            "use qkv",
        ),
        Refused(
            {"hidden": (1, 4, 128), "weights": (128, 6)},
            "`hidden` is float32, and `weights` float32; expected bfloat16 or float16",
            "use qkv",
        ),
        Refused(
            {
                "hidden": np.zeros((1, 4, 128), np.float16),
                "weights": np.zeros((128, 6), np.float16),
                "norm_dtype": nl.int32,
            },
            "`norm_dtype` is int32",
            "nl.float32",
        ),
    ),
    multiplies=lambda batch, tokens, dim, columns: 2 * batch * tokens * dim * columns,
    tolerance={"bfloat16": 1e-2, "float16": 2e-3},
    official={
        "neuronxcc.nki.kernels.allocated_fused_linear.allocated_fused_rms_norm_qkv": allocated_fused_rms_norm_qkv
    },
    steps=(
        Step(
            "Every tile gets an address: the weights stay, tokens have three places, everything else two.",
            "_placed",
        ),
        Step(
            "128 tokens are transposed while they are loaded, so that dim lies in the partitions.",
            "nisa.dma_transpose(",
        ),
        Step(
            "The Scalar engine squares them; the Vector engine adds the upper half of them to the lower, and again.",
            "_squared",
        ),
        Step(
            "The Tensor engine multiplies the tokens by the weights, and what is left of the squares by ones.",
            "nisa.nc_matmul(",
        ),
        Step(
            "The Scalar engine takes 1 / sqrt of the mean, and multiplies the product of each token by it.",
            "nisa.activation(dst=share",
        ),
    ),
    sources=("nki-samples, allocated fused linear", "B. Zhang and R. Sennrich, arXiv:1910.07467"),
)
