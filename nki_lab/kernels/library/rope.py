"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, require
from nki_lab.kernels.rows import loaded, tiles_of_rows


@nki.jit
def rope(x, cos, sin):
    """Return x with the pairs (x[i], x[i + d / 2]) of each head turned by the angle of their position.

    Args:
        x: [tokens, heads, d], float32 or bfloat16; d even, heads * d at most 4096.
        cos, sin: [tokens, d / 2], of the angles.
    """
    _check(x, cos, sin)
    _, heads, d = x.shape
    half = d // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part, size, tile in tiles_of_rows(x):
        cosines, sines = (_of_every_head(angles[part], heads) for angles in (cos, sin))
        low, high = tile[:, :, :half], tile[:, :, half:]
        result = nl.ndarray((size, heads, d), dtype=x.dtype, buffer=nl.sbuf)
        for turned, one, other, sign in (
            (result[:, :, :half], low, high, nl.subtract),
            (result[:, :, half:], high, low, nl.add),
        ):
            # Products are exact enough only in float32: they may cancel.
            near = nl.ndarray((size, heads, half), dtype=nl.float32, buffer=nl.sbuf)
            far = nl.ndarray((size, heads, half), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=near, data1=one, data2=cosines, op=nl.multiply)
            nisa.tensor_tensor(
                dst=far, data1=other, data2=sines, op=nl.multiply, engine=nisa.engine.gpsimd
            )
            nisa.tensor_tensor(dst=turned, data1=near, data2=far, op=sign)
        nisa.dma_copy(dst=out[part], src=result)
    return out


def _check(x, cos, sin):
    require(
        len(x.shape) == 3 and x.shape[2] % 2 == 0,
        f"rope: `x` has shape {list(x.shape)}; expected [tokens, heads, d] with an even d",
        "reshape it, so that each head has its axis",
    )
    tokens, heads, d = x.shape
    require(
        heads * d <= 4096,
        f"rope: a token has {heads} heads of {d} elements; a tile holds 4096",
        "call it for some of the heads at a time",
    )
    for name, angles in (("cos", cos), ("sin", sin)):
        require(
            tuple(angles.shape) == (tokens, d // 2),
            f"rope: `{name}` has shape {list(angles.shape)}; expected {[tokens, d // 2]}",
            "give one value for each token and pair; both halves of a head share them",
        )


def _of_every_head(angles, heads):
    """Return values [tokens, half] of HBM as a view [tokens, heads, half] of an SBUF tile."""
    size, half = angles.shape
    return loaded(angles.reshape((size, 1, half))).broadcast(1, heads)


def _arguments(
    rng: np.random.Generator, dtype: Any, tokens: int, heads: int, d: int
) -> dict[str, Any]:
    angles = np.arange(tokens)[:, None] / 10000 ** (np.arange(d // 2) / (d // 2))
    return {
        "x": rng.standard_normal((tokens, heads, d)).astype(dtype),
        "cos": np.cos(angles).astype(dtype),
        "sin": np.sin(angles).astype(dtype),
    }


def _reference(x: Any, cos: Any, sin: Any) -> np.ndarray:
    x, cos, sin = (a.astype(np.float64) for a in (x, cos[:, None], sin[:, None]))
    low, high = np.split(x, 2, axis=2)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=2)


KERNEL = Prebuilt(
    kernel=rope,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"tokens": 128, "heads": 2, "d": 64},
        {"tokens": 200, "heads": 3, "d": 10},
        {"tokens": 1, "heads": 1, "d": 2},
    ),
    ranges={"tokens": range(1, 200), "heads": range(1, 4), "d": range(2, 66, 2)},
    timed=({"tokens": 512, "heads": 8, "d": 128}, {"tokens": 4096, "heads": 32, "d": 128}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    steps=(
        "128 tokens lie in the partitions, heads and d in the free axes.",
        "One tile of cosines and one of sines serve all heads: a view with step 0 along the heads.",
        "The Vector engine multiplies by the cosines, GpSimd by the sines.",
        "The Vector engine subtracts the products for the first half of d, and adds them for the second.",
    ),
    falls_short={
        "bfloat16": "products are kept in float32, as they may cancel; so the Vector engine binds"
    },
    sources=("J. Su et al., arXiv:2104.09864", "NKI Library, RoPE"),
    refused=(
        Refused(
            {"x": (4, 2, 7), "cos": (4, 3), "sin": (4, 3)},
            "7",
            "reshape",
        ),
        Refused(
            {"x": (4, 2, 8), "cos": (4, 8), "sin": (4, 8)},
            "`cos` has shape [4, 8]; expected [4, 4]",
            "both halves of a head share them",
        ),
    ),
)
