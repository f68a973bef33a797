"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded


@nki.jit
def rope(x, cos, sin):
    """Return x with the pairs (x[i], x[i + d / 2]) of each head turned by the angle of their position.

    Args:
        x: [tokens, heads, d], float32 or bfloat16; d even, heads * d at most 4096.
        cos, sin: [tokens, d / 2], of the angles.
    """
    _check(x, cos, sin)
    (tokens, heads, d), half = x.shape, x.shape[2] // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    narrow = x.dtype == nl.bfloat16
    for first, rows, each in _pieces(tokens, narrow):
        shape = (rows, each, heads, d)
        x_view, out_view = (v[first : first + rows * each].reshape(shape) for v in (x, out))
        tile, low_high = loaded(x_view), (*shape[:3], 2, half)
        cosines, sines = (
            loaded(v[first : first + rows * each].reshape((rows, each, 1, half)))
            for v in (cos, sin)
        )
        minus = nl.ndarray(sines.shape, dtype=sines.dtype, buffer=nl.sbuf)
        nisa.activation(dst=minus, op=nl.copy, data=sines, scale=-1.0)
        # Vector is fastest where all is bfloat16, but not while GpSimd runs; else they share the products.
        dtype, engine = (
            (x.dtype, nisa.engine.vector) if narrow else (nl.float32, nisa.engine.gpsimd)
        )
        near, far = (nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_tensor(
            dst=near.reshape(low_high), data1=tile.reshape(low_high), op=nl.multiply,
            data2=cosines.reshape((rows, each, 1, 1, half)).broadcast(2, heads).broadcast(3, 2),
        )  # fmt: skip
        for turned, other, factor in (
            (far[..., :half], tile[..., half:], minus),
            (far[..., half:], tile[..., :half], sines),
        ):
            nisa.tensor_tensor(
                dst=turned, data1=other, data2=factor.broadcast(2, heads), op=nl.multiply,
                engine=engine,
            )  # fmt: skip
        nisa.tensor_tensor(dst=tile, data1=near, data2=far, op=nl.add)
        nisa.dma_copy(dst=out_view, src=tile)
    return out


def _pieces(tokens, wide):
    """Return this core's parts: the first token, rows of the tile, and tokens of each row."""
    pmax = nl.tile_size.pmax
    pieces: list[tuple[int, int, int]] = []
    share = (tokens + nl.num_programs(0) - 1) // nl.num_programs(0)
    first, stop = share * nl.program_id(0), min(tokens, share * (nl.program_id(0) + 1))
    while first < stop:
        # The first and the last tiles are small: until the one is loaded and while the other is stored, engines wait.
        each = 2 if wide and len(pieces) > 1 and stop - first >= 3 * pmax else 1
        pieces.append((first, min(pmax, stop - first), each))
        first += pieces[-1][1] * each
    return pieces


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
    check_floats("rope", x=x, cos=cos, sin=sin)


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
        {"tokens": 650, "heads": 16, "d": 128},
    ),
    ranges={"tokens": range(1, 200), "heads": range(1, 4), "d": range(2, 66, 2)},
    timed=({"tokens": 512, "heads": 8, "d": 128}, {"tokens": 4096, "heads": 32, "d": 128}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    cores=(1, 2),
    operator={"backward": "auto"},
    steps=(
        Step(
            "128 tokens lie in the partitions, heads and d in the free axes.",
            "tile, low_high = loaded(",
        ),
        Step(
            "One tile of cosines and one of sines serve all heads: a view with step 0 along the heads.",
            "cosines, sines = (",
        ),
        Step(
            "The Vector engine multiplies by the cosines, and by the sines with their sign: in float32"
            " GpSimd does that.",
            "for turned, other, factor in",
        ),
        Step(
            "The Vector engine adds both products. In bfloat16 they are rounded, and pass it two in a cycle.",
            "nisa.tensor_tensor(dst=tile",
        ),
    ),
    sources=("J. Su et al., arXiv:2104.09864", "NKI Library, RoPE"),
    refused=(
        Refused(
            {"x": np.ones((4, 2, 8), np.int32), "cos": (4, 4), "sin": (4, 4)},
            "`x` is int32",
            "cast it",
        ),
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
