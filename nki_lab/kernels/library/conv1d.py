"""Convolution of sequences."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import nki
from nki_lab.kernels.convolution import Convolution
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats

#: Activation functions the kernel applies, and what they compute.
_ACTIVATIONS = {
    nl.silu: lambda x: x / (1 + np.exp(-x)),
    nl.gelu: lambda x: x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2,
    nl.gelu_apprx_tanh: lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
    nl.relu: lambda x: np.maximum(x, 0),
}


@nki.jit
def conv1d(x_in, filters, bias=None, stride=1, padding=(0, 0), dilation=1, activation_fn=None):
    """Return activation_fn(sum over taps and channels of x_in * filters + bias), summed in float32.

    Args:
        x_in: [batch, channels, length], float32 or bfloat16.
        filters: [taps, channels, out_channels], of the same dtype.
        bias: [out_channels], of the same dtype, or None.
        stride: positions from one result to the next.
        padding: how many zeros stand before and behind each sequence.
        dilation: positions from one tap to the next.
        activation_fn: nl.silu, nl.gelu, nl.gelu_apprx_tanh, nl.relu or None.

    Returns:
        [batch, out_channels, (length + padding - dilation * (taps - 1) - 1) // stride + 1].
    """
    _check(x_in, filters, bias, stride, padding, dilation, activation_fn)
    op = nl.copy if activation_fn is None else activation_fn
    taps = filters.reshape((1, *filters.shape))
    convolution = Convolution(taps, bias, op, stride, dilation, tuple(padding))
    batch, _, length = x_in.shape
    positions = convolution.size(batch, length)[1]
    require(
        positions > 0,
        f"conv1d: {filters.shape[0]} taps, {dilation} apart, reach beyond the {length} positions of `x_in` and "
        f"padding {tuple(padding)}",
        "give a longer padding, or fewer taps",
    )
    convolution.check("conv1d")
    out = nl.ndarray((batch, filters.shape[2], positions), dtype=x_in.dtype, buffer=nl.shared_hbm)
    # The sequences of a batch are the rows of one image, and a tap has one row.
    convolution.run([(x_in.permute((1, 0, 2)), out.permute((1, 0, 2)))])
    return out


def _check(x_in, filters, bias, stride, padding, dilation, activation_fn):
    check_floats("conv1d", x_in=x_in)
    require(
        len(x_in.shape) == 3 and len(filters.shape) == 3 and x_in.shape[1] == filters.shape[1],
        f"conv1d: `x_in` is {list(x_in.shape)} and `filters` {list(filters.shape)}; "
        "expected [batch, channels, length] and [taps, channels, out_channels]",
        "transpose filters of PyTorch: weight.transpose(2, 1, 0)",
    )
    outs = filters.shape[2]
    require(
        bias is None or tuple(bias.shape) == (outs,),
        f"conv1d: `bias` has shape {list(bias.shape) if bias is not None else None}; expected [{outs}]",
        "give one value for each output channel",
    )
    for name, tensor in (("filters", filters), ("bias", bias)):
        require(
            tensor is None or tensor.dtype == x_in.dtype,
            f"conv1d: `{name}` is {getattr(tensor, 'dtype', None)}, and `x_in` {x_in.dtype}",
            "cast them to one dtype",
        )
    require(
        stride > 0 and dilation > 0 and len(padding) == 2 and min(padding) >= 0,
        f"conv1d: stride is {stride}, dilation {dilation} and padding {tuple(padding)}",
        "give a stride and a dilation of at least 1, and two numbers of zeros: padding=(1, 1)",
    )
    require(
        activation_fn is None or activation_fn in _ACTIVATIONS,
        f"conv1d: activation_fn is {activation_fn}; the kernel applies {', '.join(map(repr, _ACTIVATIONS))}",
        "give one of these, or None",
    )


_FUNCTIONS = (None, *_ACTIVATIONS)
_NAMES = (
    "batch", "channels", "length", "taps", "out_channels", "stride", "left", "right", "dilation", "activation",
)  # fmt: skip


def _arguments(rng: np.random.Generator, dtype: Any, **size: int) -> dict[str, Any]:
    batch, channels, length, taps, outs, stride, left, right, dilation, which = (
        size[name] for name in _NAMES
    )
    filters = rng.standard_normal((taps, channels, outs)) / (taps * channels) ** 0.5
    return {
        "x_in": rng.standard_normal((batch, channels, length)).astype(dtype),
        "filters": filters.astype(dtype),
        "bias": rng.standard_normal(outs).astype(dtype) if which else None,
        "stride": stride,
        "padding": (left, right),
        "dilation": dilation,
        "activation_fn": _FUNCTIONS[which],
    }


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal((2, 3, 40)).astype(np.float32)
    x[0, 1, 7], x[1, 2, 30], x[1, 0, 3] = np.nan, np.inf, -np.inf
    return {"x_in": x, "filters": rng.standard_normal((3, 3, 5)).astype(np.float32)}


def _far_apart(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments of which one bank of PSUM sees more than SBUF holds."""
    x = np.resize(rng.standard_normal(9973).astype(np.float32), (1, 2000, 4100))
    filters = rng.standard_normal((2, 2000, 3)).astype(np.float32)
    return {"x_in": x, "filters": filters, "stride": 8}


def _reference(
    x_in: Any,
    filters: Any,
    bias: Any = None,
    stride: int = 1,
    padding: Any = (0, 0),
    dilation: int = 1,
    activation_fn: Any = None,
) -> np.ndarray:
    x = np.pad(x_in.astype(np.float64), ((0, 0), (0, 0), tuple(padding)))
    filters = filters.astype(np.float64)
    reach = dilation * (filters.shape[0] - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=2)
    sums = np.einsum("bclk,kco->bol", windows[:, :, ::stride, ::dilation], filters, optimize=True)
    if bias is not None:
        sums = sums + bias.astype(np.float64)[:, None]
    result: np.ndarray = sums if activation_fn is None else _ACTIVATIONS[activation_fn](sums)
    return result


def _size(*numbers: int) -> dict[str, int]:
    return dict(zip(_NAMES, numbers, strict=True))


def _products(
    batch: int, channels: int, length: int, taps: int, out_channels: int, **more: int
) -> int:
    reach = length + more["left"] + more["right"] - more["dilation"] * (taps - 1) - 1
    return 2 * batch * channels * taps * out_channels * (reach // more["stride"] + 1)


KERNEL = Prebuilt(
    kernel=conv1d,
    cores=(1, 2),
    arguments=_arguments,
    reference=_reference,
    tested=(
        _size(2, 16, 40, 3, 20, 1, 1, 1, 1, 1),
        _size(3, 80, 530, 3, 130, 1, 1, 2, 1, 2),
        _size(2, 150, 61, 5, 33, 2, 4, 0, 3, 0),
        _size(1, 1, 1, 1, 1, 1, 0, 0, 1, 4),
        _size(1, 3, 1200, 10, 24, 5, 0, 7, 2, 3),
    ),
    ranges={
        "batch": range(1, 4),
        "channels": range(1, 200),
        "length": range(20, 300),
        "taps": range(1, 8),
        "out_channels": range(1, 200),
        "stride": range(1, 4),
        "left": range(4),
        "right": range(4),
        "dilation": range(1, 4),
        "activation": range(5),
    },
    timed=(
        _size(2, 80, 1500, 3, 384, 1, 1, 1, 1, 2),
        _size(2, 1280, 3000, 3, 1280, 2, 1, 1, 1, 2),
    ),
    multiplies=_products,
    tolerance={"float32": 1e-4, "bfloat16": 2e-2},
    edges={"not finite": _not_finite, "far apart": _far_apart},
    refused=(
        Refused(
            {"x_in": np.zeros((1, 2, 9), np.int32), "filters": (1, 2, 1)},
            "`x_in` is int32; expected float32 or bfloat16",
            "astype(np.float32)",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": (8, 4, 3), "stride": 0},
            "stride is 0",
            "at least 1",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": (4, 8, 3)},
            "`x_in` is [1, 4, 9] and `filters` [4, 8, 3]",
            "transpose filters of PyTorch",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": (3, 4, 8), "bias": (3,)},
            "`bias` has shape [3]; expected [8]",
            "each output channel",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": np.zeros((3, 4, 8), np.float16)},
            "`filters` is float16, and `x_in` float32",
            "one dtype",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": (3, 4, 8), "activation_fn": nl.tanh},
            "activation_fn is nl.tanh; the kernel applies nl.silu, nl.gelu",
            "or None",
        ),
        Refused(
            {"x_in": (1, 4, 9), "filters": (5, 4, 8), "dilation": 3, "padding": [1, 2]},
            "5 taps, 3 apart, reach beyond the 9 positions of `x_in` and padding (1, 2)",
            "a longer padding",
        ),
        Refused(
            {"x_in": (1, 128, 300), "filters": (200, 128, 8)},
            "the filters of 128 output channels take 102400 bytes of a partition",
            "split the channels",
        ),
        Refused(
            {"x_in": (1, 256, 14000), "filters": (2, 256, 8), "dilation": 13400},
            "the inputs of one result take 107208 bytes of a partition; 106496 are left",
            "split the channels",
        ),
    ),
    steps=(
        Step(
            "128 channels lie in the partitions, and the positions in the free axis; zeros stand at the edges.",
            "convolution.py:_input",
        ),
        Step(
            "Each tap is a matrix product: its filter [channels, out_channels] by up to 512 positions.",
            "convolution.py:nisa.nc_matmul(",
        ),
        Step(
            "The products of all taps and channels add up in PSUM; short sequences of a batch go through together.",
            "convolution.py:nisa.nc_matmul(",
        ),
        Step(
            "Of few channels, several taps lie behind each other in the partitions, each with its own shift.",
            "convolution.py:_shift",
        ),
        Step(
            "The Scalar engine adds the bias, applies the function and casts.",
            "convolution.py:nisa.activation(dst=target",
        ),
    ),
    sources=("NKI Library, conv1d", "PyTorch documentation, torch.nn.functional.conv1d"),
)
