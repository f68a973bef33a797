"""Convolutions as sums of matrix products, one for each tap of the filters: no window is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.kernels.prebuilt import require
from nki_lab.kernels.rows import loaded

# Bytes of a partition for the filters of some output channels, and for the inputs of one block of the result; where one
# bank of PSUM takes more, up to the last.
_FILTER_BYTES, _INPUT_BYTES, _MOST_INPUT_BYTES = 80 * 1024, 44 * 1024, 104 * 1024
# Output channels whose filters are loaded together.
_COLUMNS = 512


class _Product(NamedTuple):
    """Rows of the filters that one matrix product takes, as [taps and channels, output channels].

    Attributes:
        first, size: the rows.
        source: the tile of inputs it multiplies.
        down, right: where in that tile its window begins.
    """

    first: int
    size: int
    source: int
    down: int
    right: int


class Convolution:
    """A convolution of images [channels, rows, columns], of which steps and padding are those of the columns.

    Attributes:
        filters: [filter rows, filter columns, channels, output channels], in HBM.
        bias: [output channels], or None.
        op: activation function of the sums.
        stride, dilation: from one result to the next, and from one tap to the next, in columns.
        padding: columns of zeros before and behind each row.
        pool: rows and columns of which the largest result is kept.
    """

    def __init__(
        self,
        filters: Any,
        bias: Any,
        op: Any = nl.copy,
        stride: int = 1,
        dilation: int = 1,
        padding: tuple[int, int] = (0, 0),
        pool: int = 1,
    ) -> None:
        self.filters, self.bias, self.op, self.pool = filters, bias, op, pool
        self.stride, self.dilation, self.padding = stride, dilation, padding
        self._itemsize = 4 if filters.dtype == nl.float32 else 2
        taps, channels = filters.shape[:2], filters.shape[2]
        # Per tile of inputs: its first channel, how many, and the (row, rows, column, columns) of taps that it stacks.
        self._sources: list[tuple[int, int, tuple[int, int, int, int] | None]] = []
        self._products: list[_Product] = []
        if channels * min(taps[1], 2) <= nl.tile_size.pmax:
            self._stack(taps, channels)
        else:
            self._shift(taps, channels)

    def _stack(self, taps: Sequence[int], channels: int) -> None:
        """Give each tile the inputs of several taps: few channels fill the partitions."""
        most = nl.tile_size.pmax // channels
        high, wide = max(1, most // taps[1]), min(most, taps[1])
        for down in range(0, taps[0], high):
            for right in range(0, taps[1], wide):
                rows, columns = min(high, taps[0] - down), min(wide, taps[1] - right)
                first = (down * taps[1] + right) * channels
                self._products.append(
                    _Product(first, rows * columns * channels, len(self._sources), 0, 0)
                )
                self._sources.append((0, channels, (down, rows, right, columns)))

    def _shift(self, taps: Sequence[int], channels: int) -> None:
        """Give each tile 128 channels: each tap multiplies another window of it."""
        pmax = nl.tile_size.pmax
        for start in range(0, channels, pmax):
            self._sources.append((start, min(pmax, channels - start), None))
        for down in range(taps[0]):
            for right in range(taps[1]):
                for n, (start, count, _) in enumerate(self._sources):
                    first = (down * taps[1] + right) * channels + start
                    self._products.append(_Product(first, count, n, down, right * self.dilation))

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the rows and columns of a result, before pooling."""
        high, wide = self.filters.shape[:2]
        reach = columns + sum(self.padding) - self.dilation * (wide - 1) - 1
        return rows - high + 1, reach // self.stride + 1

    def check(self, kernel: str) -> None:
        """Raise where the filters of 128 output channels, or what one result sees, do not fit in SBUF."""
        held = len(self._products) * nl.tile_size.pmax * self._itemsize
        require(
            held <= _FILTER_BYTES,
            f"{kernel}: the filters of 128 output channels take {held} bytes of a partition; {_FILTER_BYTES} are left",
            "split the channels, and add the results",
        )
        held = self._held(self.pool, self.pool)
        require(
            held <= _MOST_INPUT_BYTES,
            f"{kernel}: the inputs of one result take {held} bytes of a partition; {_MOST_INPUT_BYTES} are left",
            "split the channels, and add the results",
        )

    def run(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Convolve each image, and store what comes out: (image, result [output channels, rows, columns])."""
        outs, pmax = self.filters.shape[3], nl.tile_size.pmax
        most = _FILTER_BYTES // (len(self._products) * self._itemsize) // pmax * pmax
        # Two cores share the output channels.
        cores = nl.num_programs(0)
        held = min(most, -(-outs // (cores * pmax)) * pmax)
        for start in range(nl.program_id(0) * held, outs, cores * held):
            filters = self._filters(start, min(start + held, outs))
            for image, result in pairs:
                for block in self._blocks(image):
                    inputs = [self._input(image, source, *block) for source in self._sources]
                    for channel, weights, bias in filters:
                        self._channels(inputs, weights, bias, result, channel, block)

    def _filters(self, start: int, stop: int) -> list[tuple[int, list[Any], Any]]:
        """Return (first output channel, filters by product, bias) of up to 128 output channels each."""
        rows = self.filters.flatten_dims(0, 2)
        parts = []
        for first in range(start, stop, _COLUMNS):
            last = min(first + _COLUMNS, stop)
            tiles = [loaded(rows[p.first : p.first + p.size, first:last]) for p in self._products]
            for m in range(first, last, nl.tile_size.pmax):
                part = slice(m - first, min(m - first + nl.tile_size.pmax, last - first))
                bias = None
                if self.bias is not None:
                    size = part.stop - part.start
                    bias = loaded(self.bias[m : m + size].reshape((size, 1)))
                parts.append((m, [tile[:, part] for tile in tiles], bias))
        return parts

    def _piece(self, rows: int, columns: int) -> tuple[int, int]:
        """Return how many rows and columns of the result one bank of PSUM holds, in whole windows of the pooling."""
        most, pool = nl.tile_size.gemm_moving_fmax, self.pool
        wide = columns if columns * pool <= most else most // pool // pool * pool
        return min(rows, most // wide // pool * pool), wide

    def _held(self, rows: int, columns: int) -> int:
        """Return the bytes of a partition that the inputs of a block of the result take."""
        reach = (rows + self.filters.shape[0] - 1) * self._reach(columns)
        return len(self._sources) * self._itemsize * reach

    def _blocks(self, image: Any) -> list[tuple[slice, slice]]:
        """Return the rows and columns of the result whose inputs lie in SBUF at a time."""
        rows, columns = (n // self.pool * self.pool for n in self.size(*image.shape[1:]))
        high, wide = self._piece(rows, columns)
        across = columns
        while across > wide and self._held(high, across) > _INPUT_BYTES:
            across = (across - 1) // wide * wide
        down = rows
        while down > high and self._held(down, across) > _INPUT_BYTES:
            down = (down - 1) // high * high
        # A block of one bank of PSUM may see too much: it becomes a part of a bank.
        while down > self.pool and self._held(down, across) > _MOST_INPUT_BYTES:
            down = max(self.pool, down // 2 // self.pool * self.pool)
        while across > self.pool and self._held(down, across) > _MOST_INPUT_BYTES:
            across = max(self.pool, across // 2 // self.pool * self.pool)
        return [
            (slice(top, min(top + down, rows)), slice(start, min(start + across, columns)))
            for top in range(0, rows, down)
            for start in range(0, columns, across)
        ]

    def _reach(self, columns: int, taps: int | None = None) -> int:
        """Return how many columns of an image so many columns of the result see."""
        taps = self.filters.shape[1] if taps is None else taps
        return (columns - 1) * self.stride + (taps - 1) * self.dilation + 1

    def _input(self, image: Any, source: Any, rows: slice, columns: slice) -> Any:
        """Return a tile with what a block of the result sees of some channels; zeros beyond the edges."""
        start, channels, taps = source
        first = columns.start * self.stride - self.padding[0]
        high, wide = rows.stop - rows.start, columns.stop - columns.start
        if taps is None:
            high += self.filters.shape[0] - 1
            tile = nl.ndarray(
                (channels, high, self._reach(wide)), dtype=image.dtype, buffer=nl.sbuf
            )
            part = image[start : start + channels, rows.start : rows.start + high]
            load_columns(tile, part, first)
            return tile
        down, tall, right, broad = taps
        reach = self._reach(wide, 1)
        tile = nl.ndarray((tall * broad * channels, high, reach), dtype=image.dtype, buffer=nl.sbuf)
        first += right * self.dilation
        last = first + (broad - 1) * self.dilation + reach
        top = rows.start + down
        if first >= 0 and last <= image.shape[2]:
            of_channel, of_row, of_column = image.strides
            pattern = [
                [of_row, tall], [self.dilation * of_column, broad], [of_channel, channels], [of_row, high],
                [of_column, reach],
            ]  # fmt: skip
            offset = top * of_row + first * of_column
            nisa.dma_copy(dst=tile, src=image.ap(pattern, offset=offset))
            return tile
        nisa.memset(dst=tile, value=0.0)
        for n in range(tall * broad):
            i, j = divmod(n, broad)
            part = image[:, top + i : top + i + high]
            load_columns(
                tile[n * channels : (n + 1) * channels],
                part,
                first + j * self.dilation,
                zeros=False,
            )
        return tile

    def _channels(
        self, inputs: list[Any], weights: list[Any], bias: Any, out: Any, channel: int, block: Any
    ) -> None:
        """Compute a block of the result for up to 128 output channels, and store it."""
        rows, columns = block
        pool, size = self.pool, weights[0].shape[1]
        high, wide = rows.stop - rows.start, columns.stop - columns.start
        result = nl.ndarray((size, high // pool, wide // pool), dtype=out.dtype, buffer=nl.sbuf)
        tall, broad = self._piece(high, wide)
        for top in range(0, high, tall):
            for start in range(0, wide, broad):
                down, right = min(tall, high - top), min(broad, wide - start)
                sums = nl.ndarray((size, down, right), dtype=nl.float32, buffer=nl.psum)
                for product, weight in zip(self._products, weights, strict=True):
                    first = start * self.stride + product.right
                    last = first + (right - 1) * self.stride + 1
                    window = inputs[product.source][
                        :,
                        top + product.down : top + product.down + down,
                        first : last : self.stride,
                    ]
                    nisa.nc_matmul(dst=sums, stationary=weight, moving=window)
                target = result[
                    :, top // pool : (top + down) // pool, start // pool : (start + right) // pool
                ]
                nisa.activation(dst=target, op=self.op, data=self._pooled(sums), bias=bias)
        nisa.dma_copy(
            dst=out[
                channel : channel + size, rows.start // pool : rows.stop // pool,
                columns.start // pool : columns.stop // pool,
            ],
            src=result,
        )  # fmt: skip

    def _pooled(self, sums: Any) -> Any:
        """Return the largest sum of each window of the pooling."""
        if self.pool == 1:
            return sums
        size, high, wide = sums.shape
        down, right = high // self.pool, wide // self.pool
        windows = sums.reshape((size, down, self.pool, right, self.pool)).permute((0, 1, 3, 2, 4))
        largest = nl.ndarray((size, down, right), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=windows, axis=(3, 4))
        return largest


def load_columns(tile: Any, image: Any, first: int, zeros: bool = True) -> None:
    """Load columns of an image from `first` on into a tile [channels, rows, columns], with zeros beyond the edges.

    Without `zeros`, the tile holds them already.
    """
    wide = tile.shape[2]
    start, stop = max(first, 0), min(first + wide, image.shape[2])
    for edge in (slice(0, min(start - first, wide)), slice(max(0, stop - first), wide)):
        if zeros and edge.start < edge.stop:
            nisa.memset(dst=tile[:, :, edge], value=0.0)
    if start < stop:
        nisa.dma_copy(dst=tile[:, :, start - first : stop - first], src=image[:, :, start:stop])
