"""Average pooling to a size of the result."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded
from nki_lab.kernels.turns import Turns
from nki_lab.kernels.windows import runs

# Bytes of a partition for the rows that one transfer loads, and for their sums over columns.
_ROWS_BYTES, _SUMS_BYTES = 32 * 1024, 64 * 1024


@nki.jit
def adaptive_avg_pool2d(in_tensor, output_size):
    """Return the averages of windows that cover each image, `output_size` of them.

    Window i of n along an axis of m elements reaches from floor(i * m / n) to ceil((i + 1) * m / n): neighbours may
    share an element. Sums are in float32.

    Args:
        in_tensor: [n, c, h, w], float32, float16 or bfloat16.
        output_size: rows and columns of the result, or one number for both: not more than h and w.

    Returns:
        [n, c, rows, columns].
    """
    size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    _check(in_tensor, size)
    n, c, height, width = in_tensor.shape
    out = nl.ndarray((n, c, *size), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    images, averages = in_tensor.reshape((n * c, height, width)), out.reshape((n * c, *size))
    down, across = _windows(height, size[0]), _windows(width, size[1])
    engines = _engines(images, across)
    for first in range(0, n * c, nl.tile_size.pmax):
        part = slice(first, min(first + nl.tile_size.pmax, n * c))
        for some in _groups(down, size[1]):
            result = _averages(images[part], down[some], across, engines)
            nisa.dma_copy(dst=averages[part, some], src=result)
    return out


def _check(images, size):
    check_floats("adaptive_avg_pool2d", half=True, in_tensor=images)
    require(
        len(images.shape) == 4 and len(size) == 2,
        f"adaptive_avg_pool2d: `in_tensor` has shape {list(images.shape)}, and output_size is {size}; "
        "expected [n, c, h, w] and (rows, columns)",
        "give output_size as one number or two, and reshape the images so that rows and columns are the last axes",
    )
    height, width = images.shape[2:]
    require(
        0 < size[0] <= height and 0 < size[1] <= width,
        f"adaptive_avg_pool2d: output_size is {size}; images of {height} x {width} have windows for 1 to that many",
        f"give at least (1, 1) and at most ({height}, {width})",
    )
    itemsize = 4 if images.dtype == nl.float32 else 2
    widest = _ROWS_BYTES // itemsize
    require(
        width <= widest,
        f"adaptive_avg_pool2d: rows of `in_tensor` have {width} elements; the kernel takes {widest} of {images.dtype}",
        "pool some of the columns at a time, at the edges of windows",
    )
    tallest = max(stop - start for start, stop in _windows(height, size[0]))
    require(
        tallest * size[1] * 4 <= _SUMS_BYTES,
        f"adaptive_avg_pool2d: {size[1]} sums of each of the {tallest} rows of a window take "
        f"{tallest * size[1] * 4} bytes of a partition; {_SUMS_BYTES} are left",
        "ask for fewer columns, or pool the columns in a second call",
    )


def _windows(extent, count):
    """Return where each of `count` windows along an axis begins and ends."""
    return [(n * extent // count, -(-(n + 1) * extent // count)) for n in range(count)]


def _groups(down, columns):
    """Yield which rows of the result are computed together: the sums of their elements' rows fit in SBUF."""
    first = 0
    for n, (_, stop) in enumerate(down):
        if n > first and (stop - down[first][0]) * columns * 4 > _SUMS_BYTES:
            yield slice(first, n)
            first = n
    yield slice(first, len(down))


def _engines(images, across):
    """Return the engines that add up columns: of two bytes, Vector alone would take longer than the transfers."""
    if images.dtype == nl.float32:
        return Turns({nisa.engine.vector: 1})
    # Time of a row. GpSimd starts an instruction for each column of a window; columns more than 16 bytes apart take it
    # twice as long. Vector adds up the rows of the windows, too.
    seen = sum(stop - start for start, stop in across)
    columns = sum(
        (span - 1) * (n * (2 if step > 8 else 1) + 150 / images.shape[1])
        for _, n, step, span in _runs(across)
    )
    return Turns({nisa.engine.vector: 1.46 * seen, nisa.engine.gpsimd: 0.83 * columns})


def _averages(images, down, across, engines):
    """Return some rows of the result, [images, rows, columns]."""
    count, width = images.shape[0], images.shape[2]
    top, bottom = down[0][0], down[-1][1]
    sums = nl.ndarray((count, bottom - top, len(across)), dtype=nl.float32, buffer=nl.sbuf)
    high = _ROWS_BYTES // (width * (4 if images.dtype == nl.float32 else 2))
    for row in range(top, bottom, high):
        elements = loaded(images[:, row : min(row + high, bottom)])
        rows = elements.shape[1]
        engine = engines.next(rows)
        for first, n, step, span in _runs(across):
            pattern = [[rows * width, count], [width, rows], [step, n], [1, span]]
            windows = elements.ap(pattern, offset=across[first][0])
            some = sums[:, row - top : row - top + rows, first : first + n]
            _add_columns(some, windows, engine)
    result = nl.ndarray((count, len(down), len(across)), dtype=images.dtype, buffer=nl.sbuf)
    columns, height = len(across), bottom - top
    for first, n, step, high in _runs(down):
        totals = nl.ndarray((count, n, columns), dtype=nl.float32, buffer=nl.sbuf)
        pattern = [[height * columns, count], [step * columns, n], [1, columns], [columns, high]]
        windows = sums.ap(pattern, offset=(down[first][0] - top) * columns)
        nisa.tensor_reduce(dst=totals, op=nl.add, data=windows, axis=3)
        for left, wide, _, span in _runs(across):
            part = slice(left, left + wide)
            nisa.activation(
                dst=result[:, first : first + n, part], op=nl.copy, data=totals[:, :, part],
                scale=1 / (high * span),
            )  # fmt: skip
    return result


def _add_columns(sums, windows, engine):
    """Add up the last axis of windows."""
    span = windows.shape[3]
    if engine == nisa.engine.vector or span == 1:
        nisa.tensor_reduce(dst=sums, op=nl.add, data=windows, axis=3)
        return
    before = windows[:, :, :, 0]
    for n in range(1, span):
        nisa.tensor_tensor(
            dst=sums, data1=before, data2=windows[:, :, :, n], op=nl.add, engine=engine
        )
        before = sums


def _runs(windows):
    """Yield the first window of each run, how many there are, the step between them, and their size."""
    sizes = [stop - start for start, stop in windows]
    for first, count, step in runs([start for start, _ in windows], sizes):
        yield first, count, step, sizes[first]


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    n: int,
    c: int,
    h: int,
    w: int,
    rows: int,
    columns: int,
) -> dict[str, Any]:
    images = rng.standard_normal((n, c, h, w)) + 0.5
    return {"in_tensor": images.astype(dtype), "output_size": (rows, columns)}


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    images = rng.standard_normal((1, 5, 9, 8)).astype(np.float32)
    images[0, :3, 4, 3] = np.nan, np.inf, -np.inf
    return {"in_tensor": images, "output_size": 3}


def _reference(in_tensor: Any, output_size: Any) -> np.ndarray:
    rows, columns = (output_size,) * 2 if isinstance(output_size, int) else output_size
    images = in_tensor.astype(np.float64)
    height, width = images.shape[2:]
    result = np.zeros((*images.shape[:2], rows, columns))
    for i, j in np.ndindex(rows, columns):
        down = slice(int(np.floor(i * height / rows)), int(np.ceil((i + 1) * height / rows)))
        right = slice(int(np.floor(j * width / columns)), int(np.ceil((j + 1) * width / columns)))
        result[:, :, i, j] = images[:, :, down, right].mean(axis=(2, 3))
    return result


def _size(*numbers: int) -> dict[str, int]:
    return dict(zip(("n", "c", "h", "w", "rows", "columns"), numbers, strict=True))


KERNEL = Prebuilt(
    kernel=adaptive_avg_pool2d,
    official={"neuronxcc.nki.kernels.vision.adaptive_avg_pool2d_kernel": adaptive_avg_pool2d},
    arguments=_arguments,
    reference=_reference,
    tested=(
        _size(2, 64, 14, 14, 7, 7),
        _size(3, 50, 13, 22, 6, 5),
        _size(1, 2, 200, 130, 1, 1),
        _size(1, 1, 1, 1, 1, 1),
    ),
    ranges={
        "n": range(1, 3),
        "c": range(1, 90),
        "h": range(1, 40),
        "w": range(1, 40),
        "rows": range(1, 12),
        "columns": range(1, 12),
    },
    legal=lambda h, w, rows, columns, **_: rows <= h and columns <= w,
    timed=(_size(4, 64, 56, 56, 7, 7), _size(4, 2048, 60, 60, 6, 6)),
    tolerance={"float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2},
    edges={"not finite": _not_finite},
    falls_short=dict.fromkeys(
        ("float16", "bfloat16"),
        "an element of two bytes takes the Vector engine as long as one of four: even with GpSimd beside it, sums take "
        "as long as the transfers",
    ),
    refused=(
        Refused(
            {"in_tensor": np.zeros((1, 2, 2, 2), np.int32), "output_size": 1},
            "`in_tensor` is int32; expected float32",
            "astype(np.float32)",
        ),
        Refused(
            {"in_tensor": (64, 8, 8), "output_size": 2},
            "`in_tensor` has shape [64, 8, 8]",
            "the last axes",
        ),
        Refused(
            {"in_tensor": (1, 2, 8, 9), "output_size": [9, 9]},
            "output_size is (9, 9); images of 8 x 9",
            "at most (8, 9)",
        ),
        Refused(
            {"in_tensor": (1, 1, 2, 8193), "output_size": 1},
            "rows of `in_tensor` have 8193 elements; the kernel takes 8192 of float32",
            "some of the columns",
        ),
        Refused(
            {"in_tensor": (1, 1, 64, 512), "output_size": [1, 512]},
            "512 sums of each of the 64 rows of a window take 131072 bytes of a partition; 65536 are left",
            "fewer columns",
        ),
    ),
    steps=(
        Step(
            "128 images of one channel lie in the partitions; rows and columns in the free axis.",
            "elements = loaded(",
        ),
        Step(
            "The Vector engine adds up the columns of each window, for every row.", "_add_columns"
        ),
        Step(
            "Where elements have two bytes, GpSimd does so for some of the images, at the same time.",
            "def _engines",
        ),
        Step(
            "Windows of one size at equal steps are one access pattern, and one instruction.",
            "for first, n, step, span in _runs(across)",
        ),
        Step(
            "The Vector engine adds up the rows of each window, of these sums.",
            "nisa.tensor_reduce(dst=totals",
        ),
        Step("The Scalar engine divides by the size of the window and casts.", "nisa.activation("),
    ),
    sources=(
        "nki-samples, adaptive_avg_pool2d_kernel",
        "PyTorch documentation, torch.nn.AdaptiveAvgPool2d",
    ),
)
