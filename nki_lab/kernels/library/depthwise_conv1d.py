"""Convolution of sequences in which each channel has its own filter."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import loaded_rows
from nki_lab.kernels.convolution import load_columns
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats
from nki_lab.kernels.turns import Turns

# Positions of the result of one block, and the most positions of the input that it sees.
_POSITIONS, _REACH = 2048, 12 * 1024
_PAIRS = ((0, 0), (0, 0))


@nki.jit
def depthwise_conv1d(
    img_ref,
    filter_ref,
    padding=_PAIRS,
    stride=(1, 1),
    rhs_dilation=(1, 1),
    lhs_dilation=(1, 1),
    feature_group_count=None,
    batch_group_count=1,
):
    """Return the convolution of each channel with its filter, summed in float32.

    Args:
        img_ref: [batch, channels, 1, width], float32 or bfloat16.
        filter_ref: [channels, 1, 1, taps], of the same dtype.
        padding: ((0, 0), (before, behind)): zeros around each sequence.
        stride: (1, positions from one result to the next).
        rhs_dilation: (1, positions from one tap to the next).
        lhs_dilation, batch_group_count: (1, 1) and 1.
        feature_group_count: the number of channels, or None.

    Returns:
        [batch, channels, 1, (width + padding - dilation * (taps - 1) - 1) // stride + 1].
    """
    _check(img_ref, filter_ref, padding, stride, rhs_dilation)
    _check_groups(img_ref.shape[1], lhs_dilation, feature_group_count, batch_group_count)
    batch, channels, _, width = img_ref.shape
    taps, step, apart = filter_ref.shape[3], stride[1], rhs_dilation[1]
    span = apart * (taps - 1) + 1
    positions = _positions(width + sum(padding[1]), span, step)
    out = nl.ndarray((batch, channels, 1, positions), dtype=img_ref.dtype, buffer=nl.shared_hbm)
    wide = min(positions, _POSITIONS, (_REACH - span) // step + 1)
    high = max(1, _POSITIONS // max(wide, span))
    # Scalar multiplies the first tap for Vector, and all but the first for GpSimd.
    engines = Turns({nisa.engine.vector: 1.04 * (taps - 1), nisa.engine.gpsimd: 0.83 * taps})
    for part, weights in _filters(filter_ref):
        images, results = (x[:, part, 0].permute((1, 0, 2)) for x in (img_ref, out))
        for top in range(0, batch, high):
            for start in range(0, positions, wide):
                rows = slice(top, min(top + high, batch))
                columns = slice(start, min(start + wide, positions))
                count, size = rows.stop - rows.start, columns.stop - columns.start
                reach = (size - 1) * step + span
                shape = (part.stop - part.start, count, reach)
                tile = nl.ndarray(shape, dtype=img_ref.dtype, buffer=nl.sbuf)
                load_columns(tile, images[:, rows], start * step - padding[1][0])
                result = nl.ndarray((*shape[:2], size), dtype=out.dtype, buffer=nl.sbuf)
                if taps <= size * count:
                    last = (size - 1) * step + 1
                    windows = [tile[:, :, k * apart : k * apart + last : step] for k in range(taps)]
                    _sum_taps(windows, weights, result, engines.next(size * count))
                else:
                    _sum_windows(tile, weights, result, step, apart)
                nisa.dma_copy(dst=results[:, rows, columns], src=result)
    return out


def _filters(filters):
    """Yield up to 128 channels of this core at a time, and their filters in float32; one transfer brings many."""
    (channels, _, _, taps), pmax, cores = filters.shape, nl.tile_size.pmax, nl.num_programs(0)
    share = -(-channels // (cores * pmax)) * pmax
    start = nl.program_id(0) * share
    for first in range(start, min(start + share, channels), pmax * max(1, _POSITIONS // taps)):
        last = min(first + pmax * max(1, _POSITIONS // taps), start + share, channels)
        for n, weights in enumerate(loaded_rows(filters[first:last, 0, 0], nl.float32)):
            top = first + n * pmax
            yield slice(top, min(top + pmax, last)), weights


def _positions(width, span, step):
    require(
        width >= span,
        f"depthwise_conv1d: taps that reach over {span} positions are longer than the {width} of `img_ref` and padding",
        "give a longer padding, or fewer taps",
    )
    return (width - span) // step + 1


def _check(images, filters, padding, stride, dilation):
    check_floats("depthwise_conv1d", img_ref=images)
    require(
        len(images.shape) == 4 and images.shape[2] == 1,
        f"depthwise_conv1d: `img_ref` has shape {list(images.shape)}; expected [batch, channels, 1, width]",
        "reshape it: the third axis has one row",
    )
    expected = [images.shape[1], 1, 1, "taps"]
    require(
        len(filters.shape) == 4 and list(filters.shape[:3]) == expected[:3],
        f"depthwise_conv1d: `filter_ref` has shape {list(filters.shape)}; expected {expected}",
        "give one filter for each channel",
    )
    require(
        filters.dtype == images.dtype,
        f"depthwise_conv1d: `filter_ref` is {filters.dtype}, and `img_ref` {images.dtype}",
        "cast them to one dtype",
    )
    pads, steps, apart = [tuple(map(tuple, padding)), tuple(stride), tuple(dilation)]
    require(
        pads[0] == (0, 0) and min(pads[1]) >= 0 and min(steps[1], apart[1]) > 0
        and steps[0] == apart[0] == 1,
        f"depthwise_conv1d: padding is {pads}, stride {steps} and rhs_dilation {apart}; the one row has padding "
        "(0, 0) and stride and dilation 1, and the columns at least 0, 1 and 1",
        "write padding=((0, 0), (before, behind)), stride=(1, s) and rhs_dilation=(1, d)",
    )  # fmt: skip
    span = apart[1] * (filters.shape[3] - 1) + 1
    require(
        span <= _REACH,
        f"depthwise_conv1d: taps reach over {span} positions; a tile holds {_REACH}",
        "split the taps, and add the results",
    )


def _check_groups(channels, lhs_dilation, feature_group_count, batch_group_count):
    require(
        tuple(lhs_dilation) == (1, 1)
        and batch_group_count == 1
        and feature_group_count in (None, channels),
        f"depthwise_conv1d: lhs_dilation is {tuple(lhs_dilation)}, batch_group_count {batch_group_count} and "
        f"feature_group_count {feature_group_count}; expected (1, 1), 1 and {channels}, the number of channels",
        "leave them out; nki_lab.kernels.conv1d sums over channels",
    )


def _sum_taps(windows, weights, result, engine):
    """Add up what each tap sees, times its weight."""
    sums = nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.sbuf)
    for k, window in enumerate(windows):
        weight = weights[:, k : k + 1]
        target = result if k == len(windows) - 1 else sums
        if engine == nisa.engine.vector and k:
            nisa.scalar_tensor_tensor(
                dst=target, data=window, op0=nl.multiply, operand0=weight, op1=nl.add, operand1=sums
            )
            continue
        product = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf) if k else target
        if engine == nisa.engine.gpsimd and not k:
            same = weight.expand_dim(1).broadcast(1, sums.shape[1]).broadcast(2, sums.shape[2])
            nisa.tensor_tensor(dst=product, data1=window, data2=same, op=nl.multiply, engine=engine)
            continue
        nisa.activation(dst=product, op=nl.copy, data=window, scale=weight)
        if k:
            nisa.tensor_tensor(dst=target, data1=sums, data2=product, op=nl.add, engine=engine)


def _sum_windows(tile, weights, result, step, apart):
    """Add up the products of each window and the weights: fewer instructions where windows are fewer than taps."""
    channels, taps = weights.shape
    for row in range(result.shape[1]):
        for n in range(result.shape[2]):
            window = tile[:, row, n * step : n * step + apart * (taps - 1) + 1 : apart]
            products = nl.ndarray((channels, taps), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(
                dst=products, data1=window, data2=weights, op=nl.multiply, engine=nisa.engine.gpsimd
            )
            nisa.tensor_reduce(dst=result[:, row, n : n + 1], op=nl.add, data=products, axis=1)


_NAMES = ("batch", "channels", "width", "taps", "stride", "before", "behind", "dilation")


def _arguments(rng: np.random.Generator, dtype: Any, **size: int) -> dict[str, Any]:
    batch, channels, width, taps, stride, before, behind, dilation = (size[n] for n in _NAMES)
    return {
        "img_ref": rng.standard_normal((batch, channels, 1, width)).astype(dtype),
        "filter_ref": rng.standard_normal((channels, 1, 1, taps)).astype(dtype),
        "padding": ((0, 0), (before, behind)),
        "stride": (1, stride),
        "rhs_dilation": (1, dilation),
    }


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal((2, 5, 1, 40)).astype(np.float32)
    x[0, 1, 0, 7], x[1, 2, 0, 30], x[1, 0, 0, 3] = np.nan, np.inf, -np.inf
    return {"img_ref": x, "filter_ref": rng.standard_normal((5, 1, 1, 4)).astype(np.float32)}


def _reference(
    img_ref: Any,
    filter_ref: Any,
    padding: Any = _PAIRS,
    stride: Any = (1, 1),
    rhs_dilation: Any = (1, 1),
) -> np.ndarray:
    x = np.pad(img_ref.astype(np.float64), ((0, 0), (0, 0), (0, 0), tuple(padding[1])))
    filters = filter_ref.astype(np.float64)
    reach = rhs_dilation[1] * (filters.shape[3] - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=3)
    seen = windows[:, :, :, :: stride[1], :: rhs_dilation[1]]
    result: np.ndarray = (seen * filters[None, :, :, :, :]).sum(axis=4)
    return result


def _size(*numbers: int) -> dict[str, int]:
    return dict(zip(_NAMES, numbers, strict=True))


KERNEL = Prebuilt(
    kernel=depthwise_conv1d,
    cores=(1, 2),
    arguments=_arguments,
    reference=_reference,
    tested=(
        _size(2, 130, 50, 4, 1, 3, 0, 1),
        _size(1, 16, 5000, 7, 1, 3, 3, 1),
        _size(3, 20, 61, 5, 2, 0, 4, 3),
        _size(1, 9, 70, 66, 1, 0, 0, 1),
        _size(1, 1, 1, 1, 1, 0, 0, 1),
    ),
    ranges={
        "batch": range(1, 4),
        "channels": range(1, 200),
        "width": range(30, 300),
        "taps": range(1, 10),
        "stride": range(1, 4),
        "before": range(4),
        "behind": range(4),
        "dilation": range(1, 4),
    },
    timed=(_size(1, 512, 5000, 8, 1, 0, 0, 1), _size(2, 5120, 2048, 4, 1, 3, 0, 1)),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    edges={"not finite": _not_finite},
    falls_short={
        "bfloat16": "four taps keep the Vector, Scalar and GpSimd engines busy for longer than the transfers; the "
        "Tensor engine could help, and would spread the NaN of one channel to others"
    },
    refused=(
        Refused(
            {"img_ref": np.zeros((1, 2, 1, 9), np.int32), "filter_ref": (2, 1, 1, 1)},
            "`img_ref` is int32; expected float32 or bfloat16",
            "astype(np.float32)",
        ),
        Refused(
            {"img_ref": (2, 8, 40), "filter_ref": (8, 1, 1, 4)},
            "`img_ref` has shape [2, 8, 40]; expected [batch, channels, 1, width]",
            "one row",
        ),
        Refused(
            {"img_ref": (2, 8, 1, 40), "filter_ref": (4, 1, 1, 8)},
            "`filter_ref` has shape [4, 1, 1, 8]; expected [8, 1, 1, 'taps']",
            "each channel",
        ),
        Refused(
            {"img_ref": (2, 8, 1, 40), "filter_ref": np.zeros((8, 1, 1, 4), np.float16)},
            "`filter_ref` is float16, and `img_ref` float32",
            "one dtype",
        ),
        Refused(
            {"img_ref": (2, 8, 1, 40), "filter_ref": (8, 1, 1, 4), "stride": [2, 1]},
            "stride (2, 1)",
            "stride=(1, s)",
        ),
        Refused(
            {"img_ref": (2, 8, 1, 40), "filter_ref": (8, 1, 1, 4), "feature_group_count": 4},
            "feature_group_count 4; expected (1, 1), 1 and 8",
            "leave them out",
        ),
        Refused(
            {"img_ref": (2, 8, 1, 3), "filter_ref": (8, 1, 1, 4)},
            "taps that reach over 4 positions are longer than the 3 of `img_ref`",
            "a longer padding",
        ),
        Refused(
            {"img_ref": (1, 1, 1, 3), "filter_ref": (1, 1, 1, 4), "rhs_dilation": [1, 4096]},
            "taps reach over 12289 positions; a tile holds 12288",
            "split the taps",
        ),
    ),
    steps=(
        Step(
            "128 channels lie in the partitions, and the positions in the free axis; zeros stand at the edges.",
            "load_columns(",
        ),
        Step(
            "The positions that a tap sees are multiplied by its weight, one number per partition, and"
            " added in float32.",
            "_sum_taps",
        ),
        Step(
            "Of half of the blocks of 2048 positions, the Vector engine multiplies and adds at once.",
            "if engine == nisa.engine.vector and k",
        ),
        Step(
            "Of the others, the Scalar engine multiplies and GpSimd adds, at the same time.",
            "nisa.activation(dst=product",
        ),
        Step(
            "With more taps than positions, the products of each window are added up instead.",
            "_sum_windows",
        ),
    ),
    sources=(
        "NKI Library, depthwise_conv1d_implicit_gemm",
        "PyTorch documentation, torch.nn.functional.conv1d with groups",
    ),
)
