"""RMS normalisation of rows, and their quantisation to 8-bit floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import NormType, check_dtypes, choice_of
from nki_lab.kernels.rows import per_column, tiles_of_rows

# The largest float8_e4m3, and the smallest scale, whose reciprocal is still of use.
_LARGEST, _SMALLEST_SCALE = 240.0, 1e-6
# Up to where in a row the Scalar engine quantises, and then GpSimd, beside squares and gamma; the Vector engine, which
# finds the largest magnitude, has the rest.
_SHARES = 0.4, 0.75


@dataclass(frozen=True)
class RmsNormQuantKernelArgs:
    """How rows are normalised and quantised.

    Attributes:
        lower_bound: where above 0, normalised values are cut to this magnitude.
        norm_type: NormType.RMS_NORM or NO_NORM, or the name of one.
        eps: added to the mean of the squares.
    """

    lower_bound: float = 0.0
    norm_type: NormType | str = NormType.RMS_NORM
    eps: float = 1e-6


@nki.jit
def rmsnorm_quant(hidden, ln_w, kargs):
    """Return the rows of RMSNorm(hidden) as float8_e4m3, each with its scale behind it.

    A row is divided by its scale: its largest magnitude / 240, at least 1e-6.
    With two cores each takes some of the rows.

    Args:
        hidden: [..., width] of at least two axes, float32, bfloat16 or float16; width a multiple of 4, at most 8192.
        ln_w: [width] or [1, width], of the same dtype: normalised rows are multiplied by it. None for NO_NORM.
        kargs: RmsNormQuantKernelArgs.

    Returns:
        [..., width + 4] float8_e4m3: the bytes of the last four elements are the scale, a float32.
    """
    norm = _check(hidden, ln_w, kargs)
    width = hidden.shape[-1]
    rows = 1
    for extent in hidden.shape[:-1]:
        rows *= extent
    out = nl.ndarray((*hidden.shape[:-1], width + 4), dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
    flat = out.reshape((rows, width + 4))
    gamma = per_column(ln_w.reshape((width,))) if norm is NormType.RMS_NORM else None
    added = nl.ndarray((nl.tile_size.pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    if gamma is not None:
        nisa.memset(dst=added, value=kargs.eps)
    waiting: list[Any] = []
    for part, size, x in tiles_of_rows(hidden.reshape((rows, width)), split=True):
        tile, share = x, None
        if gamma is not None:
            tile, share = _weighted(x, gamma[:size], added[:size])
        if kargs.lower_bound > 0:
            tile, share = _cut(tile, share, kargs.lower_bound), None
        # The squares of the next rows come before the products of these: the engines do not wait for each other.
        if waiting:
            _stored(*waiting)
        waiting = [tile, share, flat[part]]
    if waiting:  # a second core may have no rows
        _stored(*waiting)
    return out


def _check(hidden, ln_w, kargs):
    norm = choice_of("rmsnorm_quant", "kargs.norm_type", kargs.norm_type, NormType)
    width = hidden.shape[-1]
    require(
        norm in (NormType.RMS_NORM, NormType.NO_NORM),
        f"rmsnorm_quant: `kargs.norm_type` is {norm.name}",
        "give RMS_NORM, with ones as `ln_w` where there is no gamma, or NO_NORM",
    )
    require(
        len(hidden.shape) >= 2 and width % 4 == 0 and width <= 8192,
        f"rmsnorm_quant: `hidden` has shape {list(hidden.shape)}; expected [..., width], a multiple of 4 up to 8192",
        "fill up the rows with zeros, and `eps` and gamma with what makes up for their mean",
    )
    require(
        norm is NormType.NO_NORM
        or (ln_w is not None and list(ln_w.shape) in ([width], [1, width])),
        f"rmsnorm_quant: `ln_w` has shape {None if ln_w is None else list(ln_w.shape)}; expected [{width}]"
        f" or [1, {width}]",
        f"give one value for each of the {width} columns",
    )
    require(
        kargs.lower_bound >= 0 and kargs.eps >= 0,
        f"rmsnorm_quant: `kargs` has lower_bound={kargs.lower_bound} and eps={kargs.eps}",
        "give numbers that are not negative; with lower_bound=0 nothing is cut",
    )
    check_dtypes("rmsnorm_quant", hidden=hidden, ln_w=ln_w)
    return norm


def _weighted(x, gamma, added):
    """Return x * gamma, and 1 / root mean square of each row of x; nothing is divided yet."""
    size, width = x.shape
    product = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=product, data1=x, data2=gamma, op=nl.multiply, engine=nisa.engine.gpsimd)
    # The squares themselves are not used.
    share = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    squares = nl.ndarray((size, width), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=x, reduce_op=nl.add, reduce_res=share)
    nisa.activation(dst=share, op=nl.rsqrt, data=share, scale=1.0 / width, bias=added)
    return product, share


def _cut(tile, share, bound):
    """Return a tile, divided by its root mean square where `share` is given, within -bound and bound."""
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=result, data=tile, op0=nl.multiply, operand0=1.0 if share is None else share,
        op1=nl.minimum, operand1=bound,
    )  # fmt: skip
    nisa.tensor_scalar(dst=result, data=result, op0=nl.maximum, operand0=-bound)
    return result


def _stored(tile, share, out):
    """Write a tile times `share` to `out` [rows, width + 4], divided by the scale of each row, and the scales."""
    (size, width), gpsimd = tile.shape, nisa.engine.gpsimd
    result = nl.ndarray((size, width + 4), dtype=out.dtype, buffer=nl.sbuf)
    largest, factor = (nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    # The magnitudes themselves are not used.
    magnitudes = nl.ndarray((size, width), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_scalar_reduce(
        dst=magnitudes,
        data=tile,
        op0=nl.abs,
        operand0=0.0,
        reduce_op=nl.maximum,
        reduce_res=largest,
    )
    divided = 1.0 if share is None else share
    nisa.tensor_scalar(
        dst=largest, data=largest, op0=nl.multiply, operand0=divided,
        op1=nl.maximum, operand1=_SMALLEST_SCALE * _LARGEST,
    )  # fmt: skip
    nisa.reciprocal(dst=factor, data=largest)
    nisa.tensor_scalar(
        dst=factor, data=factor, op0=nl.multiply, operand0=_LARGEST,
        op1=nl.multiply, operand1=divided,
    )  # fmt: skip
    scale = result[:, width:].view(nl.float32)
    nisa.tensor_scalar(dst=scale, data=largest, op0=nl.multiply, operand0=1 / _LARGEST)
    # Without squares the Scalar engine has time for all columns.
    first, second = (width, width) if share is None else (int(width * s) for s in _SHARES)
    if first:
        nisa.activation(dst=result[:, :first], op=nl.copy, data=tile[:, :first], scale=factor)
    if first < second:
        columns = slice(first, second)
        every = factor.broadcast(1, second - first)
        nisa.tensor_tensor(
            dst=result[:, columns], data1=tile[:, columns], data2=every,
            op=nl.multiply, engine=gpsimd,
        )  # fmt: skip
    if second < width:
        rest = result[:, second:width]
        nisa.tensor_scalar(dst=rest, data=tile[:, second:], op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=result)


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, width: int, norm: int, bound: int
) -> dict[str, Any]:
    kind = NormType.RMS_NORM if norm else NormType.NO_NORM
    return {
        "hidden": (rng.standard_normal((1, rows, width)) * 3).astype(dtype),
        "ln_w": rng.uniform(0.5, 1.5, width).astype(dtype) if norm else None,
        "kargs": RmsNormQuantKernelArgs(lower_bound=float(bound), norm_type=kind),
    }


def _reference(hidden: Any, ln_w: Any, kargs: Any) -> tuple[np.ndarray, np.ndarray]:
    x = hidden.astype(np.float64)
    if getattr(kargs.norm_type, "name", kargs.norm_type) == "RMS_NORM":
        x = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + kargs.eps)
        x = x * ln_w.astype(np.float64).reshape(-1)
    if kargs.lower_bound > 0:
        x = np.clip(x, -kargs.lower_bound, kargs.lower_bound)
    scale = np.maximum(np.abs(x).max(axis=-1, keepdims=True) / _LARGEST, _SMALLEST_SCALE)
    return (x / scale).astype(ml_dtypes.float8_e4m3).astype(np.float64), scale


def _decoded(packed: Any, arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantised elements of the rows, and their scales."""
    scales = np.ascontiguousarray(packed[..., -4:]).view(np.float32)
    return packed[..., :-4].astype(np.float64), scales


def _zeros(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 5, 64, 1, 0)
    arguments["hidden"][0, 1] = 0
    arguments["hidden"][0, 2] *= 1e-9
    return arguments


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 5, 64, 1, 0)
    arguments["hidden"][0, 1, 3] = np.nan
    arguments["hidden"][0, 2, 7] = -np.inf
    return arguments


KERNEL = Prebuilt(
    kernel=rmsnorm_quant,
    arguments=_arguments,
    reference=_reference,
    decoded=_decoded,
    tested=(
        {"rows": 130, "width": 96, "norm": 1, "bound": 0},
        {"rows": 3, "width": 516, "norm": 1, "bound": 1},
        {"rows": 1, "width": 4, "norm": 0, "bound": 0},
    ),
    ranges={
        "rows": range(1, 200),
        "width": range(4, 400, 4),
        "norm": range(2),
        "bound": range(3),
    },
    timed=(
        {"rows": 512, "width": 2048, "norm": 1, "bound": 0},
        {"rows": 4096, "width": 8192, "norm": 1, "bound": 0},
    ),
    # A number between two 8-bit ones may be rounded to the other one: 240 / 16.
    tolerance={"float32": 0.067, "bfloat16": 0.067, "float16": 0.067},
    chips=("trn2", "trn3"),
    cores=(1, 2),
    edges={"zeros": _zeros, "not finite": _not_finite},
    refused=(
        Refused(
            {"hidden": (4, 6), "ln_w": (6,), "kargs": RmsNormQuantKernelArgs()},
            "`hidden` has shape [4, 6]; expected [..., width], a multiple of 4",
            "zeros",
        ),
        Refused(
            {
                "hidden": (4, 8),
                "ln_w": (8,),
                "kargs": RmsNormQuantKernelArgs(norm_type="LAYER_NORM"),
            },
            "`kargs.norm_type` is LAYER_NORM",
            "NO_NORM",
        ),
        Refused(
            {"hidden": (4, 8), "ln_w": (9,), "kargs": RmsNormQuantKernelArgs()},
            "`ln_w` has shape [9]; expected [8] or [1, 8]",
            "8 columns",
        ),
        Refused(
            {"hidden": (4, 8), "ln_w": None, "kargs": RmsNormQuantKernelArgs()},
            "`ln_w` has shape None; expected [8]",
            "8 columns",
        ),
        Refused(
            {"hidden": (4, 8), "ln_w": (8,), "kargs": RmsNormQuantKernelArgs(lower_bound=-1.0)},
            "lower_bound=-1.0",
            "not negative",
        ),
    ),
    steps=(
        Step(
            "128 rows lie in the partitions; GpSimd multiplies them by gamma, the Scalar engine adds up their squares.",
            "_weighted",
        ),
        Step(
            "The Vector engine finds the largest magnitude of a row: times 1 / root mean square / 240 it is the scale.",
            "nisa.tensor_scalar_reduce(",
        ),
        Step(
            "Scalar engine, GpSimd and Vector engine share the columns: one product by a number per row does the rest.",
            "_stored",
        ),
        Step(
            "The scale, 4 bytes, is written behind the elements of its row, so that one transfer stores both.",
            "nisa.dma_copy(dst=out",
        ),
    ),
    sources=("NKI Library, RMSNorm-Quant and its design specification",),
    official={
        f"neuronxcc.nki.kernels.rmsnorm_quant.rmsnorm_quant.{name}": value
        for name, value in (
            ("rmsnorm_quant_kernel", rmsnorm_quant),
            ("RmsNormQuantKernelArgs", RmsNormQuantKernelArgs),
        )
    },
    falls_short=dict.fromkeys(
        ("bfloat16", "float16"),
        "squares, largest magnitudes and two products take the engines longer than three bytes of each element move",
    ),
)
