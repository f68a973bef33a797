"""Images in another size, each pixel that of the nearest place."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats
from nki_lab.kernels.windows import runs

# Bytes of a partition for the pixels of one tile.
_TILE_BYTES = 48 * 1024
# Pixels of fewer bytes are repeated in SBUF, not by the transfer: short descriptors slow the DMA engines down.
_SHORT_BYTES = 512
# Bytes that an engine moves in the time that a descriptor costs.
_DESCRIPTOR_BYTES = 138
_OFFICIAL = "resize_nearest_fixed_dma_kernel"


@nki.jit
def resize_nearest(data_tensor, out_shape):
    """Return images [batch, height, width, channels] resized to `out_shape`.

    Row i of the result is row floor(i * height / out_height), computed in float32; so are the columns.

    Args:
        data_tensor: [batch, height, width, channels], float32, float16 or bfloat16.
        out_shape: (batch, out_height, out_width, channels): larger or smaller.
    """
    _check(data_tensor, out_shape)
    batch, height, width, channels = data_tensor.shape
    out = result("out", tuple(out_shape), data_tensor.dtype)
    which = [n for (n,) in places(_OFFICIAL, batch, alone=True)]
    if not which:
        return out
    mine = _steps(which[0], len(which), which[1] - which[0] if len(which) > 1 else 1)
    sources, results = data_tensor[mine], out[mine]
    pixel = channels * (4 if data_tensor.dtype == nl.float32 else 2)
    rows, columns = _uses(out_shape[1], height), _uses(out_shape[2], width)
    # A column that is shown this often needs room in SBUF where pixels are short.
    shown = max(count for _, _, count in columns)
    short = pixel < _SHORT_BYTES and pixel * (1 + shown) <= _TILE_BYTES
    most = max(1, _TILE_BYTES // (pixel * (1 + shown) if short else pixel))
    for some in _parts(rows, nl.tile_size.pmax):
        images, splits = _blocks(len(which), len(some), channels, pixel)
        for first in range(0, len(which), images):
            part = slice(first, min(first + images, len(which)))
            source, target = (_split(tensor[part], splits) for tensor in (sources, results))
            for others in _parts(columns, most):
                _resize(source, target, some, others, short)
    return out


def _check(data, out_shape):
    check_floats("resize_nearest", half=True, data_tensor=data)
    require(
        isinstance(out_shape, (tuple, list)),
        f"resize_nearest: out_shape is a {type(out_shape).__name__}; expected four numbers",
        "give the shape of the result, which the kernel returns",
    )
    require(
        len(data.shape) == 4 and len(out_shape) == 4,
        f"resize_nearest: `data_tensor` has shape {list(data.shape)}, and out_shape is {list(out_shape)}; "
        "both have the axes [batch, height, width, channels]",
        "move the channels to the end: np.moveaxis(images, 1, 3)",
    )
    require(
        data.shape[0] == out_shape[0] and data.shape[3] == out_shape[3],
        f"resize_nearest: out_shape is {list(out_shape)}, and `data_tensor` {list(data.shape)}; "
        "batch and channels differ",
        f"give ({data.shape[0]}, out_height, out_width, {data.shape[3]})",
    )
    require(
        min(*data.shape[1:3], *out_shape[1:3]) > 0,
        f"resize_nearest: `data_tensor` is {list(data.shape)}, and out_shape {list(out_shape)}; "
        "height and width are at least 1",
        "give images and a result with at least one pixel",
    )
    itemsize = 4 if data.dtype == nl.float32 else 2
    require(
        data.shape[3] * itemsize <= _TILE_BYTES,
        f"resize_nearest: a pixel has {data.shape[3]} channels of {data.dtype}; a tile holds {_TILE_BYTES // itemsize}",
        "call it for some of the channels at a time",
    )


def _sources(size, extent):
    """Return which of `extent` positions each of `size` positions shows."""
    scale = np.float32(extent / size)
    places = np.floor(np.arange(size, dtype=np.float32) * scale).astype(int)
    return np.minimum(places, extent - 1)


def _uses(size, extent):
    """Return (position, first place that shows it, how many places do) for the positions that are shown."""
    parts = np.unique(_sources(size, extent), return_index=True, return_counts=True)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def _parts(values, most):
    return (values[n : n + most] for n in range(0, len(values), most))


def _blocks(batch, rows, channels, pixel):
    """Return of how many images, and of how many parts of their channels, one tile takes `rows` rows.

    The partitions are to be full, and the descriptors long.
    """
    most = nl.tile_size.pmax // rows

    def rate(images, splits):
        used = batch * splits / (-(-batch // images) * most)
        return used * pixel / (pixel + splits * _DESCRIPTOR_BYTES)

    choices = [
        (images, splits)
        for images in range(1, min(batch, most) + 1)
        for splits in range(1, most // images + 1)
        if channels % splits == 0 and (splits == 1 or pixel // splits >= _SHORT_BYTES)
    ]
    return max(choices, key=lambda choice: rate(*choice))


def _split(images, splits):
    """Return images as a view [rows, images, splits, columns, channels of a split]."""
    return images.reshape_dim(3, (splits, images.shape[3] // splits)).permute((1, 0, 3, 2, 4))


def _resize(source, target, rows, columns, short):
    """Load the pixels of some rows and columns, and store each as often as it is shown."""
    (_, images, splits, _, channels), dtype = source.shape, source.dtype
    blocks = images * splits
    tile = nl.ndarray((len(rows) * blocks, len(columns), channels), dtype=dtype, buffer=nl.sbuf)
    for k, top in _loads(rows):
        for m, left in _loads(columns):
            nisa.dma_copy(dst=tile[_rows(k, blocks), m], src=source[top, :, :, left])
    left, last = columns[0][1], columns[-1]
    shown = slice(left, last[1] + last[2])
    if short:
        wide = (tile.shape[0], shown.stop - left, channels)
        wider = nl.ndarray(wide, dtype=dtype, buffer=nl.sbuf)
        for m, place in _stores(columns, left):
            nisa.tensor_copy(dst=wider[:, place], src=tile[:, m])
    for k, top in _stores(rows):
        if short:
            nisa.dma_copy(dst=target[top, :, :, shown], src=wider[_rows(k, blocks)])
            continue
        for m, place in _stores(columns):
            nisa.dma_copy(dst=target[top, :, :, place], src=tile[_rows(k, blocks), m])


def _rows(k, blocks):
    """Return the partitions of some rows; a row lies in one partition for each block."""
    return slice(k.start * blocks, k.stop * blocks)


def _loads(uses):
    """Yield which of the uses a pattern loads, and from where."""
    yield from _patterns(list(range(len(uses))), [position for position, _, _ in uses])


def _stores(uses, start=0):
    """Yield which of the uses a pattern stores, and where to; a position that is shown n times is in n patterns."""
    for again in range(max(count for _, _, count in uses)):
        which = [k for k, (_, _, count) in enumerate(uses) if count > again]
        yield from _patterns(which, [uses[k][1] + again - start for k in which])


def _patterns(which, targets):
    """Yield slices that pair neighbours in `which` with equal steps in `targets`."""
    gaps = [k - n for n, k in enumerate(which)]
    for n, count, step in runs(targets, gaps):
        yield slice(which[n], which[n] + count), _steps(targets[n], count, step)


def _steps(first, count, step):
    return slice(first, first + (count - 1) * step + 1, step)


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    batch: int,
    height: int,
    width: int,
    channels: int,
    out_height: int,
    out_width: int,
) -> dict[str, Any]:
    return {
        "data_tensor": rng.standard_normal((batch, height, width, channels)).astype(dtype),
        "out_shape": (batch, out_height, out_width, channels),
    }


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 1, 3, 4, 5, 7, 6)
    arguments["data_tensor"][0, 1, 2, :3] = np.nan, np.inf, -np.inf
    return arguments


def _reference(data_tensor: Any, out_shape: Any) -> np.ndarray:
    rows, columns = (
        [
            min(int(np.float32(i) * np.float32(extent / size)), extent - 1)
            for i in range(size)
        ]
        for size, extent in zip(out_shape[1:3], data_tensor.shape[1:3], strict=True)
    )  # fmt: skip
    images: np.ndarray = data_tensor[:, rows][:, :, columns].astype(np.float64)
    return images


def _size(*numbers: int) -> dict[str, int]:
    names = ("batch", "height", "width", "channels", "out_height", "out_width")
    return dict(zip(names, numbers, strict=True))


KERNEL = Prebuilt(
    kernel=resize_nearest,
    official={f"neuronxcc.nki.kernels.vision.{_OFFICIAL}": resize_nearest},
    cores=(1, 2),
    arguments=_arguments,
    reference=_reference,
    tested=(
        _size(1, 30, 20, 160, 59, 38),
        _size(2, 130, 9, 3, 50, 15),
        _size(1, 1, 2, 70, 1, 400),
        _size(1, 1, 1, 1, 1, 1),
    ),
    ranges={
        "batch": range(1, 3),
        "height": range(1, 40),
        "width": range(1, 40),
        "channels": range(1, 200),
        "out_height": range(1, 60),
        "out_width": range(1, 60),
    },
    timed=(_size(1, 30, 20, 1280, 59, 38), _size(10, 30, 20, 1280, 59, 38)),
    tolerance={"float32": 0, "float16": 0, "bfloat16": 0},
    edges={"not finite": _not_finite},
    falls_short=dict.fromkeys(
        ("float16", "bfloat16"),
        "30 rows fill 120 of the 128 partitions, and a descriptor moves 1280 bytes, of which its fixed cost is a tenth",
    ),
    refused=(
        Refused(
            {"data_tensor": np.zeros((1, 2, 2, 1), np.int32), "out_shape": [1, 4, 4, 1]},
            "`data_tensor` is int32; expected float32",
            "astype(np.float32)",
        ),
        Refused(
            {"data_tensor": (1, 3, 4, 5), "out_shape": (1, 6, 8, 5)},
            "out_shape is a NkiTensor; expected four numbers",
            "the shape of the result",
        ),
        Refused(
            {"data_tensor": (3, 4, 5), "out_shape": [8, 9, 5]},
            "both have the axes [batch, height, width, channels]",
            "np.moveaxis",
        ),
        Refused(
            {"data_tensor": (1, 4, 5, 2), "out_shape": [1, 8, 9, 3]},
            "out_shape is [1, 8, 9, 3], and `data_tensor` [1, 4, 5, 2]",
            "give (1, out_height, out_width, 2)",
        ),
        Refused(
            {"data_tensor": (1, 4, 5, 2), "out_shape": [1, 0, 9, 2]},
            "height and width are at least 1",
            "at least one pixel",
        ),
        Refused(
            {"data_tensor": (1, 1, 1, 12289), "out_shape": [1, 2, 2, 12289]},
            "12289 channels of float32; a tile holds 12288",
            "some of the channels",
        ),
    ),
    steps=(
        Step(
            "Rows of an image lie in the partitions; columns and channels in the free axis.",
            "tile = nl.ndarray(",
        ),
        Step(
            "Several images, or several parts of the channels, fill the partitions: each DMA engine serves 8 of them.",
            "_blocks",
        ),
        Step(
            "Rows and columns that the result shows are loaded, each once.",
            "for m, left in _loads(columns)",
        ),
        Step(
            "Neighbours that go to places at equal steps form a run, which one access pattern describes.",
            "_patterns",
        ),
        Step(
            "A row or column that is shown several times is stored several times: it is loaded once.",
            "for k, top in _stores(rows)",
        ),
        Step(
            "Pixels below 512 bytes are repeated in SBUF first, so that whole rows are stored.",
            "if short:",
        ),
    ),
    sources=(
        "NKI documentation, neuronxcc.nki.kernels.vision.resize_nearest_fixed_dma_kernel",
        "PyTorch documentation, torch.nn.functional.interpolate, mode nearest",
    ),
)
