"""The gradients of memory: a second tensor for each tensor of the kernel, of the same shape.

The reverse pass walks the program backwards. At each point the shadow of a tensor holds the gradient of what the tensor
holds at that point of the program: an instruction that wrote elements takes their gradient away, since what they held
before had no effect any more, and an instruction that read elements adds to it. Elements to which nothing was added yet
are not stored at all; `Elements` knows which those are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from nki_lab.autodiff.tile import Tile, empty, filled, product
from nki_lab.dtypes import float32
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.operands import start_is_legal
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset, tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.elementwise import tensor_tensor
from nki_lab.isa.operators import OPS
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF

#: Partitions and elements of what moves through SBUF at a time between two tensors of HBM.
_ROWS, _ELEMENTS = 128, 2048


def moved(view: NkiTensor, tensor: NkiTensor) -> NkiTensor:
    """Return the same part of another tensor of the same shape."""
    return NkiTensor._make(tensor.storage, view.shape, view.strides, view.offset, tensor.dtype)


def part(view: NkiTensor, axis: int, start: int, count: int) -> NkiTensor:
    """Return elements `start` to `start + count` of an axis, which stays."""
    shape = (*view.shape[:axis], count, *view.shape[axis + 1 :])
    offset = view.offset + start * view.strides[axis]
    return NkiTensor._make(view.storage, shape, view.strides, offset, view.dtype)


def covers(view: NkiTensor) -> bool:
    """Tell whether a view is the whole of its storage, in its order."""
    storage = view.storage
    return view.size == prod(storage.shape) and view.offset == 0 and _is_dense(view)


def _is_dense(view: NkiTensor) -> bool:
    kept = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n > 1]
    shape = tuple(n for n, _ in kept)
    return tuple(s for _, s in kept) == tuple(contiguous_strides(shape))


def crowded(view: NkiTensor) -> int | None:
    """Return an axis along which elements of a view are the same ones again, or None."""
    axes = sorted(
        (abs(s), n, axis)
        for axis, (n, s) in enumerate(zip(view.shape, view.strides, strict=True))
        if n > 1
    )
    reach = 0
    for step, count, axis in axes:
        if step <= reach:
            return axis
        reach += step * (count - 1)
    return None


class Shadow:
    """The gradient of one tensor.

    Attributes:
        tensor: where it is; None before anything is added to it.
        stored: which of its elements are stored; the others are 0.
    """

    def __init__(self, storage: Storage) -> None:
        self.tensor: NkiTensor | None = None
        self.stored = np.zeros(prod(storage.shape), bool)

    def hold(self, tensor: NkiTensor, shape: tuple[int, ...]) -> None:
        """Take all of the memory of a tensor for the gradient of one of this shape."""
        strides = contiguous_strides(shape)
        self.tensor = NkiTensor._make(tensor.storage, shape, strides, 0, tensor.dtype)
        self.stored[:] = True

    def elements(self, view: NkiTensor) -> np.ndarray:
        """Return `stored` of a view."""
        return np.lib.stride_tricks.as_strided(self.stored[view.offset :], view.shape, view.strides)


class Shadows:
    """The gradients of the tensors of a program, while the reverse pass is emitted.

    Attributes:
        whole: ids of the tensors whose shadows are filled with zeros first, since parts of them are read of which only
            some elements were added to. A pass that finds one adds it, and has to be done again.
    """

    def __init__(self, builder: Builder, whole: set[int]) -> None:
        self._builder, self.whole = builder, whole
        self._shadows: dict[int, Shadow] = {}
        self._places: dict[int, NkiTensor] = {}

    def of(self, storage: Storage) -> Shadow:
        """Return the shadow of a tensor."""
        if storage.id not in self._shadows:
            self._shadows[storage.id] = Shadow(storage)
        return self._shadows[storage.id]

    def given(self, view: NkiTensor, tensor: NkiTensor, alone: bool) -> None:
        """Take what a tensor holds for the gradient of a view of its shape; `alone`: nothing is added to it."""
        shadow = self.of(view.storage)
        if alone and covers(view) and view.storage.id not in self.whole:
            shadow.hold(tensor, view.storage.shape)
            return
        for target, source in pieces(view, tensor):
            self.add(target, self.load(source))

    def place(self, storage: Storage, tensor: NkiTensor) -> None:
        """Keep the shadow of a tensor in this one, which nothing else writes."""
        self._places[storage.id] = tensor

    # -- reading -----------------------------------------------------------------------------------------------------

    def touched(self, view: NkiTensor) -> bool:
        """Tell whether a view has a gradient other than 0."""
        shadow = self._shadows.get(view.storage.id)
        if shadow is None or not shadow.stored.any():
            return False
        plain = view.dynamic is None and view.dtype.itemsize == view.storage.dtype.itemsize
        return not plain or bool(shadow.elements(view).any())

    def take(self, view: NkiTensor) -> NkiTensor:
        """Return where the gradient of a view is; all its elements are stored then."""
        shadow = self.of(view.storage)
        if not shadow.elements(view).all():
            self.whole.add(view.storage.id)
        assert shadow.tensor is not None
        return moved(view, shadow.tensor)

    def clear(self, view: NkiTensor) -> None:
        """Make the gradient of a view 0."""
        shadow = self.of(view.storage)
        if covers(view):
            shadow.tensor = None
            shadow.stored[:] = False
        elif view.storage.id not in self.whole:
            shadow.elements(view)[...] = False
        elif shadow.tensor is not None:
            self._fill(moved(view, shadow.tensor))

    # -- adding ------------------------------------------------------------------------------------------------------

    def add(self, view: NkiTensor, tile: Tile) -> None:
        """Add a tile, with as many elements as a view, to the gradient of the view."""
        if len(view.shape) == 1:
            view = NkiTensor._make(
                view.storage, (1, *view.shape), (0, *view.strides), view.offset, view.dtype
            )
        axis = crowded(view)
        if axis is not None:
            self._add_crowded(view, tile, axis)
            return
        shadow = self.of(view.storage)
        elements = shadow.elements(view)
        if shadow.tensor is None:
            self._begin(view, tile, shadow)
            if view.storage.id not in self.whole and covers(view):
                return
        assert shadow.tensor is not None
        target = moved(view, shadow.tensor)
        if not elements.any():
            self._write(target, tile)
        else:
            if not elements.all():
                self.whole.add(view.storage.id)
            self._accumulate(target, tile)
        elements[...] = True

    def add_rows(self, view: NkiTensor, index: Tile, tile: Tile) -> None:
        """Add the rows of a tile to the gradients of the rows of HBM that `index` chose for `view`.

        Rows that are chosen several times are added up first, and then each of them writes the same sum.
        """
        dynamic, storage, shadow = view.dynamic, view.storage, self.of(view.storage)
        assert dynamic is not None
        self.whole.add(storage.id)
        if shadow.tensor is None:
            self._begin(view, tile, shadow)
        shadow.stored[:] = True
        assert shadow.tensor is not None
        numbers = index.copied()
        row = product(
            self._builder,
            [(filled(self._builder, (1, index.partitions), 1.0), numbers.transposed())],
        )
        same = row.compare("equal", numbers)
        total = product(self._builder, [(same, tile)]).shaped(view.shape)
        dynamic = replace(dynamic, index=index.view)
        held = shadow.tensor
        target = NkiTensor._make(
            held.storage, view.shape, view.strides, view.offset, held.dtype, dynamic
        )
        self._accumulate(target, total)

    def _begin(self, view: NkiTensor, tile: Tile, shadow: Shadow) -> None:
        """Make the shadow of a tensor; where the tile is the gradient of all of it, that is the shadow."""
        storage = view.storage
        fill = storage.id in self.whole
        if not fill and covers(view) and storage.on_chip:
            alone = tile.fresh and tile.view.dtype is float32 and covers(tile.view)
            shadow.hold((tile if alone else tile.copied()).view, storage.shape)
            return
        buffer = SBUF if storage.on_chip else PRIVATE_HBM
        shadow.tensor = self._places.get(storage.id)
        if shadow.tensor is None:
            name = f"{storage.name}_gradient"
            shadow.tensor = empty(self._builder, storage.shape, buffer=buffer, name=name)
        if fill:
            self._fill(shadow.tensor)
            shadow.stored[:] = True
        elif covers(view):
            self._write(moved(view, shadow.tensor), tile)
            shadow.stored[:] = True

    def reached(self, view: NkiTensor) -> bool:
        """Tell whether engines reach a view; DMA reaches also HBM, and any partitions."""
        storage = view.storage
        rows = view.shape[0] == 1 or view.strides[0] * view.dtype.itemsize == storage.row_bytes
        return storage.on_chip and rows and start_is_legal(view, self._builder.target)

    def _write(self, target: NkiTensor, tile: Tile) -> None:
        if self.reached(target):
            tensor_copy(dst=target, src=tile.view)
        else:
            dma_copy(dst=target, src=tile.view)

    def _accumulate(self, target: NkiTensor, tile: Tile) -> None:
        if self.reached(target):
            tensor_tensor(dst=target, data1=target, data2=tile.view, op=OPS["add"])
            return
        before = empty(self._builder, tile.view.shape)
        dma_copy(dst=before, src=target)
        tensor_tensor(dst=before, data1=before, data2=tile.view, op=OPS["add"])
        dma_copy(dst=target, src=before)

    def _add_crowded(self, view: NkiTensor, tile: Tile, axis: int) -> None:
        if view.strides[axis] == 0:
            self.add(part(view, axis, 0, 1), self._summed(view, tile, axis))
            return
        data = tile.shaped(view.shape).view
        for n in range(view.shape[axis]):
            piece = part(data, axis, n, 1)
            tile = Tile(self._builder, partial(part, data, axis, n, 1), False)
            self.add(part(view, axis, n, 1), tile if self.reached(piece) else self.load(piece))

    def _summed(self, view: NkiTensor, tile: Tile, axis: int) -> Tile:
        """Return a tile added up along an axis of the view it belongs to."""
        shape = view.shape
        if axis == 0:
            ones = filled(self._builder, (shape[0], 1), 1.0)
            return product(self._builder, [(ones, tile)]).shaped((1, *shape[1:]))
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        data = tile.shaped(shape).view.permute(order)
        rest = tuple(shape[a] for a in order[:-1])
        turned = Tile(self._builder, lambda: data, False).copied()
        return turned.sums(prod(rest[1:])).shaped((*shape[:axis], 1, *shape[axis + 1 :]))

    # -- HBM ---------------------------------------------------------------------------------------------------------

    def load(self, view: NkiTensor) -> Tile:
        """Return a tile of what a view holds that DMA alone reaches."""

        def make() -> NkiTensor:
            dst = empty(self._builder, view.shape if len(view.shape) > 1 else (1, *view.shape))
            dma_copy(dst=dst, src=view)
            return dst

        return Tile(self._builder, make)

    def finished(self, storage: Storage, result: NkiTensor) -> None:
        """Write the gradient of a tensor of HBM to the result of the kernel."""
        shadow = self.of(storage)
        if shadow.tensor is None:
            self._fill(result)
            return
        if not shadow.stored.all():
            self.whole.add(storage.id)
        if shadow.tensor.storage is not result.storage:
            dma_copy(dst=result, src=shadow.tensor)

    def _fill(self, view: NkiTensor) -> None:
        """Write zeros to a view."""
        if self.reached(view):
            memset(dst=view, value=0.0)
            return
        for target in _rows_of(view):
            shape = target.shape if len(target.shape) > 1 else (1, *target.shape)
            dma_copy(dst=target, src=filled(self._builder, shape, 0.0).view)


def pieces(dst: NkiTensor, src: NkiTensor) -> Iterator[tuple[NkiTensor, NkiTensor]]:
    """Yield the same parts of two views of HBM of one shape, each as large as a tile."""
    yield from zip(_rows_of(dst), _rows_of(src), strict=True)


def _rows_of(view: NkiTensor, axis: int = 0) -> Iterator[NkiTensor]:
    """Yield parts of a view of HBM that fit into tiles: 128 rows of it, and parts of these where they are long."""
    inner, is_last = prod(view.shape[axis + 1 :]), axis == len(view.shape) - 1
    step = _ROWS if axis == 0 and not is_last else max(1, _ELEMENTS // inner)
    for start in range(0, view.shape[axis], step):
        rows = part(view, axis, start, min(step, view.shape[axis] - start))
        if is_last or inner <= _ELEMENTS:
            yield rows
        else:
            yield from _rows_of(rows, axis + 1)
