"""Convolution of images, bias and maximum pooling in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import nki
from nki_lab.kernels.convolution import Convolution
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats

_LARGEST_POOL = 16


@nki.jit
def conv2d_maxpool(images, filters, bias, pool_size=1):
    """Return the largest of pool_size x pool_size neighbours of the convolution of images, plus the bias.

    Windows of the convolution lie inside the image, 1 apart; those of the pooling lie side by side, and rows and
    columns that fill none are left out. Sums are in float32.

    Args:
        images: [batch, channels, height, width], float32 or bfloat16.
        filters: [filter_height, filter_width, channels, out_channels], of the same dtype.
        bias: [out_channels], of the same dtype.
        pool_size: rows and columns of a window of the pooling, 1 to 16; 1 pools nothing.

    Returns:
        [batch, out_channels, (height - filter_height + 1) // pool_size, (width - filter_width + 1) // pool_size].
    """
    _check(images, filters, bias, pool_size)
    convolution = Convolution(filters, bias, pool=pool_size)
    rows, columns = (size // pool_size for size in convolution.size(*images.shape[2:]))
    require(
        rows > 0 and columns > 0,
        f"conv2d_maxpool: images of {images.shape[2]} x {images.shape[3]} hold no window of filters of "
        f"{filters.shape[0]} x {filters.shape[1]} and a pooling of {pool_size}",
        "give larger images, or pad them with zeros",
    )
    convolution.check("conv2d_maxpool")
    batch, outs = images.shape[0], filters.shape[3]
    out = nl.ndarray((batch, outs, rows, columns), dtype=images.dtype, buffer=nl.shared_hbm)
    convolution.run([(images[n], out[n]) for n in range(batch)])
    return out


def _check(images, filters, bias, pool_size):
    check_floats("conv2d_maxpool", images=images)
    require(
        len(images.shape) == 4 and len(filters.shape) == 4 and images.shape[1] == filters.shape[2],
        f"conv2d_maxpool: `images` is {list(images.shape)} and `filters` {list(filters.shape)}; expected "
        "[batch, channels, height, width] and [filter_height, filter_width, channels, out_channels]",
        "transpose filters of PyTorch: weight.transpose(2, 3, 1, 0)",
    )
    require(
        tuple(bias.shape) == (filters.shape[3],),
        f"conv2d_maxpool: `bias` has shape {list(bias.shape)}; expected [{filters.shape[3]}]",
        "give one value for each output channel, zeros where there is none",
    )
    for name, tensor in (("filters", filters), ("bias", bias)):
        require(
            tensor.dtype == images.dtype,
            f"conv2d_maxpool: `{name}` is {tensor.dtype}, and `images` {images.dtype}",
            "cast them to one dtype",
        )
    require(
        1 <= pool_size <= _LARGEST_POOL,
        f"conv2d_maxpool: pool_size is {pool_size}",
        f"give a number from 1 to {_LARGEST_POOL}",
    )


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    batch: int,
    channels: int,
    height: int,
    width: int,
    out_channels: int,
    filter_height: int,
    filter_width: int,
    pool_size: int,
) -> dict[str, Any]:
    shape = (filter_height, filter_width, channels, out_channels)
    filters = rng.standard_normal(shape) / np.prod(shape[:3]) ** 0.5
    return {
        "images": rng.standard_normal((batch, channels, height, width)).astype(dtype),
        "filters": filters.astype(dtype),
        "bias": rng.standard_normal(out_channels).astype(dtype),
        "pool_size": pool_size,
    }


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 2, 3, 9, 8, 5, 2, 3, 1)
    arguments["images"][0, 1, 3, 2] = np.nan
    arguments["images"][1, 0, 7, 7] = -np.inf
    return arguments


def _reference(images: Any, filters: Any, bias: Any, pool_size: int = 1) -> np.ndarray:
    images, filters, bias = (a.astype(np.float64) for a in (images, filters, bias))
    windows = np.lib.stride_tricks.sliding_window_view(images, filters.shape[:2], axis=(2, 3))
    sums = np.einsum("bcyxij,ijco->boyx", windows, filters, optimize=True)
    rows, columns = (n // pool_size for n in sums.shape[2:])
    whole = sums[:, :, : rows * pool_size, : columns * pool_size]
    pools = whole.reshape(*sums.shape[:2], rows, pool_size, columns, pool_size)
    result: np.ndarray = pools.max(axis=(3, 5)) + bias[:, None, None]
    return result


def _products(
    batch: int, channels: int, height: int, width: int, out_channels: int, filter_height: int,
    filter_width: int, pool_size: int,
) -> int:  # fmt: skip
    rows, columns = (
        n // pool_size * pool_size for n in (height - filter_height + 1, width - filter_width + 1)
    )
    return 2 * batch * channels * filter_height * filter_width * out_channels * rows * columns


def _size(*numbers: int) -> dict[str, int]:
    names = (
        "batch", "channels", "height", "width", "out_channels", "filter_height", "filter_width", "pool_size",
    )  # fmt: skip
    return dict(zip(names, numbers, strict=True))


KERNEL = Prebuilt(
    kernel=conv2d_maxpool,
    cores=(1, 2),
    arguments=_arguments,
    reference=_reference,
    tested=(
        _size(2, 128, 16, 18, 128, 3, 3, 2),
        _size(1, 3, 29, 27, 20, 7, 5, 3),
        _size(2, 150, 11, 14, 140, 2, 3, 1),
        _size(1, 40, 5, 1100, 10, 1, 3, 2),
        _size(1, 1, 1, 1, 1, 1, 1, 1),
    ),
    ranges={
        "batch": range(1, 3),
        "channels": range(1, 160),
        "height": range(1, 30),
        "width": range(1, 30),
        "out_channels": range(1, 160),
        "filter_height": range(1, 5),
        "filter_width": range(1, 5),
        "pool_size": range(1, 4),
    },
    legal=lambda height, width, filter_height, filter_width, pool_size, **_: (
        height - filter_height + 1 >= pool_size and width - filter_width + 1 >= pool_size
    ),
    timed=(_size(4, 128, 34, 18, 128, 3, 3, 2), _size(4, 256, 66, 66, 256, 3, 3, 2)),
    multiplies=_products,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {"images": np.zeros((1, 2, 9, 9), np.int32), "filters": (1, 1, 2, 1), "bias": (1,)},
            "`images` is int32; expected float32 or bfloat16",
            "astype(np.float32)",
        ),
        Refused(
            {"images": (1, 4, 9, 9), "filters": (8, 4, 3, 3), "bias": (8,)},
            "`images` is [1, 4, 9, 9] and `filters` [8, 4, 3, 3]",
            "weight.transpose(2, 3, 1, 0)",
        ),
        Refused(
            {"images": (1, 4, 9, 9), "filters": (3, 3, 4, 8), "bias": (4,)},
            "`bias` has shape [4]; expected [8]",
            "each output channel",
        ),
        Refused(
            {"images": (1, 4, 9, 9), "filters": (3, 3, 4, 8), "bias": np.zeros(8, np.float16)},
            "`bias` is float16, and `images` float32",
            "one dtype",
        ),
        Refused(
            {"images": (1, 4, 9, 9), "filters": (3, 3, 4, 8), "bias": (8,), "pool_size": 0},
            "pool_size is 0",
            "from 1 to 16",
        ),
        Refused(
            {"images": (1, 4, 9, 3), "filters": (3, 3, 4, 8), "bias": (8,), "pool_size": 2},
            "images of 9 x 3 hold no window of filters of 3 x 3 and a pooling of 2",
            "larger images",
        ),
        Refused(
            {"images": (1, 2048, 9, 9), "filters": (4, 4, 2048, 8), "bias": (8,)},
            "the filters of 128 output channels take 131072 bytes of a partition",
            "split the channels",
        ),
    ),
    steps=(
        Step(
            "128 channels lie in the partitions; rows and columns of the images in the free axis.",
            "convolution.py:_input",
        ),
        Step(
            "Each tap is a matrix product: its filter [channels, out_channels] by the part of the image it sees.",
            "convolution.py:nisa.nc_matmul(",
        ),
        Step(
            "The products of all taps and channels add up in one bank of PSUM: whole windows of the pooling.",
            "convolution.py:nisa.nc_matmul(",
        ),
        Step(
            "Of few channels, several taps lie behind each other in the partitions, each with its own shift.",
            "convolution.py:_shift",
        ),
        Step(
            "The Vector engine keeps the largest of each window; the bias comes after it, as it changes no order.",
            "convolution.py:_pooled",
        ),
        Step(
            "The Scalar engine adds the bias and casts.",
            "convolution.py:nisa.activation(dst=target",
        ),
    ),
    sources=("PyTorch documentation, torch.nn.functional.conv2d and max_pool2d",),
)
