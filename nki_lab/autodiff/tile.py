"""Arithmetic on tiles while a backward kernel is traced: an expression emits the instructions that compute it.

Everything is computed in float32 and lies in SBUF as [partitions, elements]. A tile that no expression uses is never
made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from nki_lab.dtypes import DType, float32
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.copies import memset, tensor_copy
from nki_lab.isa.elementwise import reciprocal, tensor_scalar, tensor_tensor
from nki_lab.isa.matmul import nc_matmul
from nki_lab.isa.operators import OPS, Op
from nki_lab.isa.reduction import tensor_reduce
from nki_lab.isa.transpose import nc_transpose
from nki_lab.targets.spaces import PSUM, SBUF

#: Rows and columns of one product on the Tensor engine.
_SQUARE = 128
#: GpSimd has it, for two tiles.
_POWER = OPS["power"]


class Tile:
    """A tile of values, made when its `view` is first asked for.

    Attributes:
        fresh: nothing else reads or writes its memory.
    """

    def __init__(self, builder: Builder, make: Callable[[], NkiTensor], fresh: bool = True) -> None:
        self._builder, self._make = builder, make
        self._view: NkiTensor | None = None
        self.fresh = fresh

    @property
    def view(self) -> NkiTensor:
        """Where its values lie."""
        if self._view is None:
            self._view = self._make()
        return self._view

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return self.view.shape[0]

    @property
    def elements(self) -> int:
        """Number of elements in each partition."""
        return prod(self.view.shape[1:])

    @property
    def is_column(self) -> bool:
        """Whether it has one element in each partition."""
        return self.elements == 1

    # -- element by element ------------------------------------------------------------------------------------------

    def _empty(self, elements: int | None = None) -> NkiTensor:
        return empty(self._builder, (self.partitions, elements or self.elements))

    def _new(self, make: Callable[[], NkiTensor]) -> Tile:
        tile = Tile(self._builder, make)
        tile.view  # noqa: B018  # instructions stand in the order of the expression
        return tile

    def combine(self, op: Op, other: Tile | float, reverse: bool = False) -> Tile:
        """Return `self op other`, with `reverse` `other op self`; a column meets all elements of its partition."""

        def make() -> NkiTensor:
            if isinstance(other, Tile) and self.is_column and not other.is_column:
                return other.combine(op, self, not reverse).view
            if op is _POWER and not isinstance(other, Tile):
                full = filled(self._builder, (self.partitions, self.elements), other)
                return self.combine(op, full, reverse).view
            dst = self._empty()
            if isinstance(other, Tile) and other.is_column is self.is_column:
                left, right = (other, self) if reverse else (self, other)
                tensor_tensor(dst=dst, data1=left.view, data2=right.view, op=op)
                return dst
            operand = other.in_float32().view if isinstance(other, Tile) else other
            tensor_scalar(dst=dst, data=self.view, op0=op, operand0=operand, reverse0=reverse)
            return dst

        return self._new(make)

    def __add__(self, other: Tile | float) -> Tile:
        return self.combine(OPS["add"], other)

    def __sub__(self, other: Tile | float) -> Tile:
        return self.combine(OPS["subtract"], other)

    def __mul__(self, other: Tile | float) -> Tile:
        return self.combine(OPS["multiply"], other)

    def __rsub__(self, other: float) -> Tile:
        return self.combine(OPS["subtract"], other, reverse=True)

    def __neg__(self) -> Tile:
        return self * -1.0

    __radd__, __rmul__ = __add__, __mul__

    def compare(self, name: str, other: Tile | float) -> Tile:
        """Return 1.0 where the comparison `name` holds, and 0.0 elsewhere."""
        return self.combine(OPS[name], other)

    def apply(self, name: str) -> Tile:
        """Return an activation function of it."""

        def make() -> NkiTensor:
            dst = self._empty()
            activation(dst=dst, op=OPS[name], data=self.view)
            return dst

        return self._new(make)

    def reciprocal(self) -> Tile:
        """Return 1 / self."""

        def make() -> NkiTensor:
            dst = self._empty()
            reciprocal(dst=dst, data=self.view)
            return dst

        return self._new(make)

    # -- other shapes ------------------------------------------------------------------------------------------------

    def in_float32(self) -> Tile:
        """Return it in float32 in SBUF."""
        if self.view.dtype is float32 and self.view.storage.buffer is SBUF:
            return self
        return self.copied()

    def copied(self) -> Tile:
        """Return a copy in float32."""

        def make() -> NkiTensor:
            dst = self._empty()
            tensor_copy(dst=dst, src=self.view)
            return dst

        return self._new(make)

    def shaped(self, shape: Sequence[int]) -> Tile:
        """Return the same elements as a tile of this shape, without a copy where they lie side by side."""
        flat = self if self.view.storage.shape == self.view.shape else self.copied()
        return Tile(self._builder, lambda: flat.view.reshape(tuple(shape)), flat.fresh)

    def repeated(self, times: int) -> Tile:
        """Return each element `times` times in a row."""
        shape = (self.partitions, self.elements, 1)
        return Tile(self._builder, lambda: self.shaped(shape).view.broadcast(2, times), False)

    def sums(self, kept: int = 1) -> Tile:
        """Return the sums of each partition: of all elements, or of those behind each of `kept` elements."""
        return self.reduced(OPS["add"], kept)

    def reduced(self, op: Op, kept: int = 1) -> Tile:
        """Return what `op` gives of each partition, as `sums` does."""

        def make() -> NkiTensor:
            dst = self._empty(kept)
            rows = self.shaped((self.partitions, kept, self.elements // kept)).view
            tensor_reduce(dst=dst, op=op, data=rows, axis=2)
            return dst

        return self._new(make)

    def transposed(self) -> Tile:
        """Return its transpose; it has at most 128 elements in a partition."""

        def make() -> NkiTensor:
            shape = self.elements, self.partitions
            turned = empty(self._builder, shape, buffer=PSUM)
            nc_transpose(dst=turned, data=self.in_float32().view)
            dst = empty(self._builder, shape)
            tensor_copy(dst=dst, src=turned)
            return dst

        return self._new(make)

    def every(self, step: int, first: int) -> Tile:
        """Return every `step`-th element of each partition, from `first` on."""
        flat = self.shaped((self.partitions, self.elements))
        return Tile(self._builder, lambda: flat.view[:, first::step], False)

    def columns(self, start: int, stop: int) -> Tile:
        """Return elements `start` to `stop` of each partition."""
        return Tile(
            self._builder,
            lambda: self.shaped((self.partitions, self.elements)).view[:, start:stop],
            False,
        )

    def times(self, other: Tile) -> Tile:
        """Return self.T @ other, in rows of 512 columns; both have the contracted axis in their partitions."""
        return product(self._builder, [(self, other)])

    def times_transposed(self, other: Tile) -> Tile:
        """Return self @ other.T: the contracted axis is the free one of both."""
        spans = [(k, min(k + _SQUARE, self.elements)) for k in range(0, self.elements, _SQUARE)]
        return product(
            self._builder,
            [
                (self.columns(*span).transposed(), other.columns(*span).transposed())
                for span in spans
            ],
        )


def product(builder: Builder, pairs: Sequence[tuple[Tile, Tile]]) -> Tile:
    """Return the sum of the products a.T @ b of pairs of tiles."""
    rows, width = pairs[0][0].elements, pairs[0][1].elements
    dst = empty(builder, (rows, width))
    for start in range(0, width, builder.target.psum_bank_bytes // 4):
        stop = min(width, start + builder.target.psum_bank_bytes // 4)
        total = empty(builder, (rows, stop - start), buffer=PSUM)
        for n, (a, b) in enumerate(pairs):
            moving = b.in_float32().columns(start, stop).view
            nc_matmul(dst=total, stationary=a.in_float32().view, moving=moving, accumulate=n > 0)
        tensor_copy(dst=dst[:, start:stop], src=total)
    return Tile(builder, lambda: dst)


def filled(builder: Builder, shape: Sequence[int], value: float) -> Tile:
    """Return a tile of one number."""
    dst = empty(builder, tuple(shape))
    memset(dst=dst, value=value)
    return Tile(builder, lambda: dst)


def empty(
    builder: Builder,
    shape: Sequence[int],
    dtype: DType = float32,
    buffer: Any = SBUF,
    name: str = "",
) -> NkiTensor:
    """Return a new tensor; on the chip it has two axes at least."""
    return builder.allocate(tuple(shape), dtype, buffer, name)
