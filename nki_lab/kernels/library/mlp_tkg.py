"""The feed-forward block of a transformer for a few tokens."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import (
    ActFnType,
    NormType,
    check_dtypes,
    choice_of,
    normalised,
    row_tiles,
    turn,
)
from nki_lab.kernels.rows import loaded, per_column

# Bytes of a row of a matrix that are loaded together: shorter ones keep the DMA engines from their full rate.
_ROW_BYTES = 2048
# Bytes of a partition for the inner activations.
_INNER_BYTES = 96 * 1024
_OPERATORS = {
    ActFnType.SiLU: nl.silu,
    ActFnType.GELU: nl.gelu,
    ActFnType.GELU_Tanh_Approx: nl.gelu_apprx_tanh,
}


@nki.jit
def mlp_tkg(
    hidden_tensor,
    gate_proj_weights_tensor,
    up_proj_weights_tensor,
    down_proj_weights_tensor,
    normalization_weights_tensor=None,
    activation_fn=ActFnType.SiLU,
    normalization_type=NormType.NO_NORM,
    eps=1e-6,
):
    """Return (act(x @ gate) * (x @ up)) @ down for at most 128 tokens, where x is norm(hidden_tensor).

    Products are summed in float32. The weights pass through SBUF once, at the bandwidth of device memory.

    Args:
        hidden_tensor: [batch, tokens, hidden], float32, bfloat16 or float16; batch * tokens at most 128, hidden a
            multiple of 128, at most 8192.
        gate_proj_weights_tensor, up_proj_weights_tensor: [hidden, inner].
        down_proj_weights_tensor: [inner, hidden].
        normalization_weights_tensor: [1, hidden], for RMS_NORM.
        activation_fn: ActFnType.SiLU, GELU or GELU_Tanh_Approx (nki_lab.kernels.projections), or the name of one.
        normalization_type: NormType.NO_NORM, RMS_NORM, or RMS_NORM_SKIP_GAMMA where gate and up hold gamma already.
        eps: added to the mean of the squares.

    Returns:
        [batch, tokens, hidden].
    """
    gate, up, down = gate_proj_weights_tensor, up_proj_weights_tensor, down_proj_weights_tensor
    gamma = normalization_weights_tensor
    _check(hidden_tensor, gate, up, down, gamma)
    function = choice_of("mlp_tkg", "activation_fn", activation_fn, ActFnType)
    norm = choice_of("mlp_tkg", "normalization_type", normalization_type, NormType)
    require(
        (gamma is not None) == (norm is NormType.RMS_NORM),
        f"mlp_tkg: `normalization_type` is {norm.name}, and `normalization_weights_tensor` is"
        f" {'None' if gamma is None else 'given'}",
        "give gamma for RMS_NORM only; RMS_NORM_SKIP_GAMMA normalises without it",
    )
    (batch, tokens, hidden), inner = hidden_tensor.shape, gate.shape[1]
    total, pmax, dtype = batch * tokens, nl.tile_size.pmax, hidden_tensor.dtype
    out = nl.ndarray((batch, tokens, hidden), dtype=dtype, buffer=nl.shared_hbm)
    tile = loaded(hidden_tensor.reshape((total, hidden)))
    if norm is not NormType.NO_NORM:
        gamma = None if gamma is None else per_column(gamma.reshape((hidden,)))
        tile = normalised(tile, eps, gamma)
    steps = hidden // pmax
    inputs = nl.ndarray((pmax, steps, total), dtype=dtype, buffer=nl.sbuf)
    turn(tile, inputs)

    wide = _ROW_BYTES // (4 if dtype == nl.float32 else 2)
    activations = []
    start = 0
    while start < inner:
        # The columns that do not fill 128 partitions are a block of their own.
        columns = min(wide, (inner - start) // pmax * pmax or inner - start)
        activations += _activated(gate, up, inputs, start, columns, _OPERATORS[function])
        start += columns
    for start in range(0, hidden, wide):
        columns = min(wide, hidden - start)
        product = nl.ndarray((total, columns), dtype=nl.float32, buffer=nl.psum)
        rows = row_tiles(down, start, columns)
        for activation, weight in zip(activations, rows, strict=True):
            for n in range(0, columns, nl.tile_size.gemm_moving_fmax):
                part = slice(n, min(n + nl.tile_size.gemm_moving_fmax, columns))
                nisa.nc_matmul(dst=product[:, part], stationary=activation, moving=weight[:, part])
        result = nl.ndarray(product.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(dst=out.reshape((total, hidden))[:, start : start + columns], src=result)
    return out


def _check(x, gate, up, down, gamma):
    require(
        len(x.shape) == 3 and len(gate.shape) == 2,
        f"mlp_tkg: `hidden_tensor` is {list(x.shape)} and `gate_proj_weights_tensor` {list(gate.shape)}",
        "give [batch, tokens, hidden] and [hidden, inner]",
    )
    (batch, tokens, hidden), inner = x.shape, gate.shape[1]
    require(
        batch * tokens <= nl.tile_size.pmax,
        f"mlp_tkg: {batch} * {tokens} tokens; at most 128 lie in the partitions of the result",
        "use swiglu_mlp for more",
    )
    require(
        hidden % nl.tile_size.pmax == 0 and hidden <= 8192,
        f"mlp_tkg: `hidden_tensor` is {hidden} wide; expected a multiple of 128, at most 8192",
        "fill up `hidden_tensor` and the weights with zeros",
    )
    held = -(-inner // nl.tile_size.pmax) * batch * tokens * (4 if x.dtype == nl.float32 else 2)
    require(
        held <= _INNER_BYTES,
        f"mlp_tkg: {inner} inner columns of {batch * tokens} tokens take {held} bytes of a partition;"
        f" {_INNER_BYTES} are for them",
        "split gate, up and down along the inner axis, and add the results",
    )
    expected = {
        "gate_proj_weights_tensor": (gate, [hidden, inner]),
        "up_proj_weights_tensor": (up, [hidden, inner]),
        "down_proj_weights_tensor": (down, [inner, hidden]),
    } | ({} if gamma is None else {"normalization_weights_tensor": (gamma, [1, hidden])})
    for name, (value, shape) in expected.items():
        require(
            list(value.shape) == shape,
            f"mlp_tkg: `{name}` has shape {list(value.shape)}; expected {shape},"
            f" as `hidden_tensor` is {list(x.shape)}",
            "transpose or reshape what lies the other way",
        )
    check_dtypes(
        "mlp_tkg",
        hidden_tensor=x,
        gate_proj_weights_tensor=gate,
        up_proj_weights_tensor=up,
        down_proj_weights_tensor=down,
        normalization_weights_tensor=gamma,
    )


def _activated(gate, up, inputs, start, columns, operator):
    """Return act(gate) * up of some inner columns as tiles [128, tokens]."""
    size = min(nl.tile_size.pmax, columns)
    shape = (size, columns // size, inputs.shape[2])
    gated, raised = (nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum) for _ in range(2))
    pairs = zip(row_tiles(gate, start, columns), row_tiles(up, start, columns), strict=True)
    for k, weights in enumerate(pairs):
        for product, weight in zip((gated, raised), weights, strict=True):
            for n in range(columns // size):
                part = weight[:, n * size : (n + 1) * size]
                nisa.nc_matmul(dst=product[:, n], stationary=part, moving=inputs[:, k])
    smooth = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=smooth, op=operator, data=gated)
    result = nl.ndarray(shape, dtype=inputs.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=smooth, data2=raised, op=nl.multiply)
    return [result[:, n] for n in range(columns // size)]


def _arguments(
    rng: np.random.Generator, dtype: Any, batch: int, tokens: int, hidden: int, inner: int, act: int
) -> dict[str, Any]:
    def matrix(rows: int, columns: int) -> Any:
        return (rng.standard_normal((rows, columns)) / rows**0.5).astype(dtype)

    return {
        "hidden_tensor": rng.standard_normal((batch, tokens, hidden)).astype(dtype),
        "gate_proj_weights_tensor": matrix(hidden, inner),
        "up_proj_weights_tensor": matrix(hidden, inner),
        "down_proj_weights_tensor": matrix(inner, hidden),
        "normalization_weights_tensor": rng.uniform(0.5, 1.5, (1, hidden)).astype(dtype),
        "activation_fn": ActFnType(act),
        "normalization_type": NormType.RMS_NORM,
    }


def _reference(
    hidden_tensor: Any,
    gate_proj_weights_tensor: Any,
    up_proj_weights_tensor: Any,
    down_proj_weights_tensor: Any,
    normalization_weights_tensor: Any = None,
    activation_fn: Any = ActFnType.SiLU,
    normalization_type: Any = NormType.NO_NORM,
    eps: float = 1e-6,
) -> np.ndarray:
    x = hidden_tensor.astype(np.float64)
    gate, up, down = (
        a.astype(np.float64)
        for a in (gate_proj_weights_tensor, up_proj_weights_tensor, down_proj_weights_tensor)
    )
    if normalization_type.name != "NO_NORM":
        x = x / np.sqrt(np.mean(x**2, axis=2, keepdims=True) + eps)
    if normalization_weights_tensor is not None:
        x = x * normalization_weights_tensor.astype(np.float64)
    gated = x @ gate
    if activation_fn.name == "SiLU":
        smooth = gated / (1 + np.exp(-gated))
    elif activation_fn.name == "GELU":
        smooth = gated * (1 + np.vectorize(erf, otypes=[np.float64])(gated / 2**0.5)) / 2
    else:
        smooth = gated * (1 + np.tanh((2 / np.pi) ** 0.5 * (gated + 0.044715 * gated**3))) / 2
    result: np.ndarray = (smooth * (x @ up)) @ down
    return result


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 1, 5, 128, 60, 0)
    arguments["hidden_tensor"][0, 1, 3] = np.nan
    arguments["hidden_tensor"][0, 2, 100] = -np.inf
    return arguments


def _refused(message: str, help: str, **changed: Any) -> Refused:
    """Return arguments that are refused for what is changed in right ones."""
    right = {
        "hidden_tensor": (3, 1, 128),
        "gate_proj_weights_tensor": (128, 8),
        "up_proj_weights_tensor": (128, 8),
        "down_proj_weights_tensor": (8, 128),
    }
    return Refused(right | changed, message, help)


KERNEL = Prebuilt(
    kernel=mlp_tkg,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 2, "tokens": 3, "hidden": 256, "inner": 200, "act": 0},
        {"batch": 1, "tokens": 100, "hidden": 128, "inner": 700, "act": 1},
        {"batch": 1, "tokens": 1, "hidden": 128, "inner": 1, "act": 2},
    ),
    ranges={
        "batch": range(1, 4),
        "tokens": range(1, 43),
        "hidden": range(128, 513, 128),
        "inner": range(1, 600),
        "act": range(3),
    },
    timed=(
        {"batch": 4, "tokens": 1, "hidden": 1024, "inner": 1536, "act": 0},
        {"batch": 16, "tokens": 1, "hidden": 4096, "inner": 3584, "act": 0},
    ),
    edges={"not finite": _not_finite},
    refused=(
        _refused("`hidden_tensor` is [4, 128]", "[batch, tokens, hidden]", hidden_tensor=(4, 128)),
        _refused("3 * 64 tokens; at most 128", "swiglu_mlp", hidden_tensor=(3, 64, 128)),
        _refused("100 wide; expected a multiple of 128", "zeros", hidden_tensor=(3, 1, 100)),
        _refused(
            "25000 inner columns of 128 tokens take 100352 bytes",
            "along the inner axis",
            hidden_tensor=(1, 128, 128),
            gate_proj_weights_tensor=(128, 25000),
        ),
        _refused(
            "`down_proj_weights_tensor` has shape [128, 8]; expected [8, 128]",
            "transpose",
            down_proj_weights_tensor=(128, 8),
        ),
        _refused(
            "`up_proj_weights_tensor` is float16, and `hidden_tensor` float32",
            "cast",
            up_proj_weights_tensor=np.zeros((128, 8), np.float16),
        ),
        _refused(
            "`activation_fn` is ReLU", "SiLU or GELU or GELU_Tanh_Approx", activation_fn="ReLU"
        ),
        _refused(
            "`normalization_type` is NO_NORM, and `normalization_weights_tensor` is given",
            "RMS_NORM",
            normalization_weights_tensor=(1, 128),
        ),
    ),
    multiplies=lambda batch, tokens, hidden, inner, act: 6 * batch * tokens * hidden * inner,
    tolerance={"float32": 1e-5, "bfloat16": 3e-2, "float16": 4e-3},
    steps=(
        Step(
            "The tokens lie in the partitions, are normalised, and the Tensor engine transposes them.",
            "turn(tile",
        ),
        Step(
            "2 KiB of each row of gate and up are loaded; the array holds 128 x 128 of them, the tokens stream past.",
            "for k, weights",
        ),
        Step(
            "The Scalar engine applies the activation function, the Vector engine multiplies: [128 inner, tokens].",
            "nisa.activation(",
        ),
        Step(
            "Now the array holds the tokens, and the columns of down stream past, summed over inner in PSUM.",
            "nisa.nc_matmul(dst=product[:, part]",
        ),
        "Each weight is read once, so the bandwidth of device memory is the limit.",
    ),
    sources=("NKI Library, MLP", "N. Shazeer, arXiv:2002.05202"),
)
