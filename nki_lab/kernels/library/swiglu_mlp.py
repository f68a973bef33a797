"""The feed-forward block of a transformer, with SwiGLU."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import activated, row_tiles
from nki_lab.kernels.rows import check_floats, of_this_core

# Tokens of one pass over the weights: each weight is then used for 512 columns of the Tensor engine.
_TOKENS = 512
# Columns of `gate` and `up` that are loaded together: rows of 512 bytes keep the DMA engines at their full rate.
_COLUMNS = 256
# Bytes of a partition for the inner activations of one pass.
_INNER_BYTES = 96 * 1024


@nki.jit
def swiglu_mlp(x_t, gate, up, down):
    """Return (silu(x @ gate) * (x @ up)) @ down, summed in float32.

    Args:
        x_t: [hidden, tokens], float32 or bfloat16: the input, transposed.
        gate, up: [hidden, inner].
        down: [inner, hidden].

    Returns:
        [tokens, hidden].
    """
    _check(x_t, gate, up, down)
    (hidden, tokens), inner = x_t.shape, gate.shape[1]
    out = nl.ndarray((tokens, hidden), dtype=x_t.dtype, buffer=nl.shared_hbm)
    for group, first in enumerate(range(0, tokens, _TOKENS)):
        if not of_this_core(group):
            continue
        count = min(_TOKENS, tokens - first)
        inputs = list(row_tiles(x_t, first, count))
        activations = []
        for start in range(0, inner, _COLUMNS):
            wide = min(_COLUMNS, inner - start)
            weights = [list(row_tiles(matrix, start, wide)) for matrix in (gate, up)]
            for n in range(0, wide, nl.tile_size.pmax):
                part = slice(n, min(n + nl.tile_size.pmax, wide))
                activations.append(activated(weights, inputs, part, count))
        for left in range(0, hidden, nl.tile_size.gemm_moving_fmax):
            wide = min(nl.tile_size.gemm_moving_fmax, hidden - left)
            _project(activations, list(row_tiles(down, left, wide)), out, first, count, left)
    return out


def _check(x_t, gate, up, down):
    require(
        len(x_t.shape) == 2 and len(gate.shape) == 2,
        f"swiglu_mlp: `x_t` is {list(x_t.shape)} and `gate` {list(gate.shape)}; both have two axes",
        "give x_t as [hidden, tokens] and gate as [hidden, inner]",
    )
    hidden, inner = x_t.shape[0], gate.shape[1]
    expected = {"gate": [hidden, inner], "up": [hidden, inner], "down": [inner, hidden]}
    for (name, shape), matrix in zip(expected.items(), (gate, up, down), strict=True):
        require(
            list(matrix.shape) == shape,
            f"swiglu_mlp: `{name}` has shape {list(matrix.shape)}; expected {shape}, as `x_t` is {list(x_t.shape)}",
            "transpose what lies the other way; x_t is [hidden, tokens]",
        )
        require(
            matrix.dtype == x_t.dtype,
            f"swiglu_mlp: `{name}` is {matrix.dtype}, and `x_t` {x_t.dtype}",
            "cast them to one dtype",
        )
    check_floats("swiglu_mlp", x_t=x_t)
    held = inner * _TOKENS // nl.tile_size.pmax * (4 if x_t.dtype == nl.float32 else 2)
    require(
        held <= _INNER_BYTES,
        f"swiglu_mlp: {inner} inner columns of {x_t.dtype} take {held} bytes of a partition; {_INNER_BYTES} are left",
        "split `gate`, `up` and `down` along the inner axis, and add the results",
    )


def _project(activations, weights, out, first, count, left):
    """Multiply the activations by some columns of `down`, and store the result."""
    wide = weights[0].shape[1]
    for n in range(0, count, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, count - n)
        product = nl.ndarray((size, wide), dtype=nl.float32, buffer=nl.psum)
        for activation, weight in zip(activations, weights, strict=True):
            nisa.nc_matmul(dst=product, stationary=activation[:, n : n + size], moving=weight)
        result = nl.ndarray((size, wide), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(dst=out[first + n : first + n + size, left : left + wide], src=result)


def _arguments(
    rng: np.random.Generator, dtype: Any, tokens: int, hidden: int, inner: int
) -> dict[str, Any]:
    def matrix(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / rows**0.5).astype(dtype)

    return {
        "x_t": rng.standard_normal((hidden, tokens)).astype(dtype),
        "gate": matrix(hidden, inner),
        "up": matrix(hidden, inner),
        "down": matrix(inner, hidden),
    }


def _reference(x_t: Any, gate: Any, up: Any, down: Any) -> np.ndarray:
    x, gate, up, down = (a.astype(np.float64) for a in (x_t.T, gate, up, down))
    gated = x @ gate
    result: np.ndarray = (gated / (1 + np.exp(-gated)) * (x @ up)) @ down
    return result


KERNEL = Prebuilt(
    kernel=swiglu_mlp,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"tokens": 64, "hidden": 128, "inner": 256},
        {"tokens": 600, "hidden": 200, "inner": 300},
        {"tokens": 1, "hidden": 1, "inner": 1},
    ),
    ranges={name: range(1, 400) for name in ("tokens", "hidden", "inner")},
    timed=(
        {"tokens": 512, "hidden": 512, "inner": 1024},
        {"tokens": 1024, "hidden": 2048, "inner": 5632},
    ),
    multiplies=lambda tokens, hidden, inner: 6 * tokens * hidden * inner,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    cores=(1, 2),
    operator={"backward": "auto"},
    steps=(
        Step(
            "512 tokens go through all weights before the next 512: they lie in the free axis.",
            "inputs = list(",
        ),
        Step(
            "The Tensor engine multiplies 128 inner columns of gate and up by the tokens, summed over hidden in PSUM.",
            "activations.append(activated(",
        ),
        Step(
            "The Scalar engine applies silu, the Vector engine multiplies both: [128 inner, 512 tokens] in SBUF.",
            "projections.py:nisa.activation(dst=smooth",
        ),
        "The inner axis lies in the partitions now, as the next product needs it: nothing is transposed.",
        Step(
            "128 tokens are multiplied by 512 columns of down, summed over inner in PSUM, cast and stored.",
            "_project",
        ),
    ),
    sources=("N. Shazeer, arXiv:2002.05202", "NKI Library, MLP"),
    refused=(
        Refused(
            {name: np.ones((8, 8), np.int8) for name in ("x_t", "gate", "up", "down")},
            "`x_t` is int8",
            "cast it",
        ),
        Refused(
            {"x_t": (4, 9), "gate": (5, 8), "up": (5, 8), "down": (8, 5)},
            "`gate` has shape [5, 8]; expected [4, 8]",
            "x_t is [hidden, tokens]",
        ),
        Refused(
            {"x_t": (4, 9), "gate": (4, 8192), "up": (4, 8192), "down": (8192, 4)},
            "8192 inner columns of float32 take 131072 bytes",
            "split `gate`",
        ),
    ),
)
