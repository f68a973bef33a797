"""Grids: views of a tensor that are navigated by tile or by block instead of by element.

Making, indexing, slicing and regrouping a grid allocates nothing, copies nothing and emits no instruction; `data` is
the selection as one tensor. The pages of nki.language (tiles, blocks, NkiTileGrid, NkiBlockGrid) say what is counted
and that edges are clamped. They were seen in part only: that an index drops its axis from `shape`, and an untiled one
from `element_shape`, too, rests on the package neurotile of nki-library, the source of these names.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any, NamedTuple, NoReturn

from nki_lab.dtypes import DType
from nki_lab.errors import (
    NotModelled,
    OutOfBounds,
    TensorArgument,
    TensorOperator,
    TileAssignment,
    UnknownName,
    ViewError,
)
from nki_lab.ir.tensor.arguments import is_runtime
from nki_lab.ir.tensor.view import DynamicSlice, NkiTensor
from nki_lab.targets.spaces import MemoryRegion


class GridAxis(NamedTuple):
    """One axis of the tensor behind a grid.

    Attributes:
        tile: elements of a tile; 1 for an untiled axis.
        extent: elements of the axis.
        tiles: numbers of the selected tiles, ascending.
        block: tiles that one coordinate counts.
        is_open: it is a coordinate of the grid: no index has chosen one of it.
        is_tiled: False for the leading axes of a tensor in HBM that `tile_shape` does not reach.
    """

    tile: int
    extent: int
    tiles: Sequence[int]
    block: int = 1
    is_open: bool = True
    is_tiled: bool = True

    @property
    def coordinates(self) -> int:
        """How many coordinates it has: tiles or blocks, the last one perhaps smaller."""
        return -(-len(self.tiles) // self.block)

    @property
    def elements(self) -> int:
        """Selected elements; the last tile of the tensor ends where the tensor ends."""
        return len(self.tiles) * self.tile - self.missing

    @property
    def missing(self) -> int:
        """Elements by which the last selected tile is smaller than a tile."""
        return max(0, (self.tiles[-1] + 1) * self.tile - self.extent)

    @property
    def step(self) -> int | None:
        """Elements from one coordinate to the next; None where they are not equally far apart."""
        steps = {b - a for a, b in pairwise(self.tiles[:: self.block])} or {self.block}
        return steps.pop() * self.tile if len(steps) == 1 else None

    def span(self) -> slice | None:
        """Return the selected elements as a slice of the axis, or None where they lie apart."""
        first, last = self.tiles[0], self.tiles[-1]
        if last - first == len(self.tiles) - 1:
            return slice(first * self.tile, min((last + 1) * self.tile, self.extent), 1)
        steps = {b - a for a, b in pairwise(self.tiles)}
        return slice(first, last + 1, steps.pop()) if self.tile == 1 and len(steps) == 1 else None

    def chosen(self, at: range) -> GridAxis:
        """Return the axis with some of its coordinates."""
        if at.step == 1:
            tiles = self.tiles[at.start * self.block : at.stop * self.block]
        else:
            parts = (self.tiles[k * self.block : (k + 1) * self.block] for k in at)
            tiles = tuple(chain.from_iterable(parts))
        return self._replace(tiles=tiles)


class NkiGrid:
    """A view of a tensor in tiles or blocks: what nl.tiles, nl.blocks, nl.alloc_tiles and nl.alloc_blocks return.

    Attributes:
        shape: tiles (or blocks) along each tiled axis that no index has chosen from. Leading axes of a tensor in HBM
            that `tile_shape` does not reach come first, one slab to a coordinate.
        tile_shape: elements of one tile; those at the edge may have fewer.
        element_shape: selected elements along each axis of the tensor, exact at the edges.
        data: the whole selection as one tensor.
        is_data_representable: whether one access pattern can give `data`.
        is_remainder: whether the selection has a tile with fewer elements than `tile_shape`.
        index_step_elements: elements from one coordinate to the next, for each entry of `shape`.
        buffer, dtype: those of the tensor.
    """

    __slots__ = ("_base", "_axes", "_folded")
    _base: NkiTensor
    _axes: tuple[GridAxis, ...]
    # The tensor has the tiles along axis 0 behind each other on its axis 1, as alloc_tiles lays them out on chip.
    _folded: bool

    def __init__(self, *_: Any, **kwargs: Any) -> None:
        raise ViewError(
            f"{type(self).__name__} is not made by calling it",
            help="write nl.tiles(tensor, tile_shape=...) or nl.blocks(tensor, tile_shape=..., block_shape=...)",
        )

    @classmethod
    def _make(cls, base: NkiTensor, axes: Iterable[GridAxis], folded: bool) -> Any:
        grid = object.__new__(cls)
        for slot, value in (("_base", base), ("_axes", tuple(axes)), ("_folded", folded)):
            object.__setattr__(grid, slot, value)
        return grid

    # -- what is selected ----------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Coordinates along each axis of the grid."""
        return tuple(a.coordinates for a in self._axes if a.is_open)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of one whole tile."""
        return tuple(a.tile for a in self._axes if a.is_tiled)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Selected elements along each axis of the tensor."""
        return tuple(a.elements for a in self._axes)

    @property
    def is_remainder(self) -> bool:
        """Whether a tile with fewer elements is in the selection."""
        return any(a.missing for a in self._axes)

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Elements of the tensor from one coordinate to the next, for each axis of the grid."""
        steps = tuple(a.step for a in self._axes if a.is_open)
        if None in steps:
            raise ViewError(
                f"index_step_elements of {self!r}: along axis {steps.index(None)} the coordinates are not equally far"
                " apart",
                help="take the steps before slicing and regrouping",
            )
        return steps  # type: ignore[return-value]

    @property
    def buffer(self) -> MemoryRegion:
        """The memory of the tensor."""
        return self._base.buffer

    @property
    def dtype(self) -> DType:
        """The element type of the tensor."""
        return self._base.dtype

    @property
    def is_data_representable(self) -> bool:
        """Whether one access pattern can give the selection."""
        return not self._obstacle()

    @property
    def data(self) -> NkiTensor:
        """The whole selection as one tensor with the shape `element_shape`.

        Raises:
            ViewError: no single access pattern gives it; the message names the axis.
            NotModelled: several rows of tiles of nl.alloc_tiles on chip. They lie behind each other in a partition,
                and no page that was seen says in which order one operand has them.
        """
        obstacle = self._obstacle()
        if obstacle:
            error = NotModelled if self._folded and len(self._axes[0].tiles) > 1 else ViewError
            raise error(
                f"data of {self!r}: {obstacle}",
                help="select less: one tile is grid[i, j].data, one row of tiles grid[i, :].data",
            )
        spans: list[Any] = [a.span() for a in self._axes]
        if self._folded:
            row = self._axes[0].tiles[0]
            spans[:1] = [slice(0, self._axes[0].elements), row]
        return self._base[tuple(spans)]

    def _obstacle(self) -> str:
        """Return why no single access pattern gives the selection; empty where one does."""
        rows = len(self._axes[0].tiles)
        if self._folded and rows > 1:
            return (
                f"axis 0 has {rows} rows of tiles, which lie behind each other in each partition; no page says in which"
                " order one operand has them"
            )
        for axis, a in enumerate(self._axes):
            if a.span() is None and not (self._folded and axis == 0):
                return f"along axis {axis} the selected tiles {_listed(a.tiles)} lie apart, which one step cannot walk"
        return ""

    # -- indexing ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        shape = self.shape
        return shape[0] if shape else self._refuse_index("len()")

    def __getitem__(self, key: Any) -> Any:
        """Select by coordinates: integers, which use up their axis, and slices with steps of 1 or more."""
        keys = key if type(key) is tuple else (key,)
        coordinates = [k for k, a in enumerate(self._axes) if a.is_open]
        if len(keys) > len(coordinates):
            self._refuse_index(f"{len(keys)} indices")
        base, axes = self._base, list(self._axes)
        dropped = 0
        for position, (entry, k) in enumerate(zip(keys, coordinates, strict=False)):
            axis = axes[k - dropped]
            if type(entry) is slice:
                axes[k - dropped] = axis.chosen(self._range(entry, position, axis.coordinates))
                continue
            at = self._coordinate(entry, position, axis.coordinates)
            if axis.is_tiled:
                axes[k - dropped] = axis.chosen(range(at, at + 1))._replace(is_open=False)
            else:
                base = base[(slice(None),) * (k - dropped) + (axis.tiles[at],)]
                del axes[k - dropped]
                dropped += 1
        return self._make(base, axes, self._folded)

    def _range(self, entry: slice, position: int, count: int) -> range:
        given = (entry.start, entry.stop, entry.step)
        start, stop, step = (
            default if n is None else self._integer(n, position)
            for n, default in zip(given, (0, count, 1), strict=True)
        )
        if step < 1:
            raise ViewError(
                f"slice step {step} on axis {position} of {self!r}",
                help="slices of grids step forward: use a step of 1 or more, and count down in the loop",
            )
        start, stop = (n + count if n < 0 else n for n in (start, stop))
        if not 0 <= start < stop <= count:
            raise OutOfBounds(
                f"slice {start}:{stop} on axis {position} of {self!r}: need 0 <= start < stop <= {count}",
                help="clip the slice to the grid, e.g. with min(stop, grid.shape[axis])",
            )
        return range(start, stop, step)

    def _coordinate(self, entry: Any, position: int, count: int) -> int:
        index = self._integer(entry, position)
        if not -count <= index < count:
            raise OutOfBounds(
                f"index {index} on axis {position} of {self!r}: valid are 0 to {count - 1}",
                help="loop over range(grid.shape[axis])",
            )
        return index + count if index < 0 else index

    def _integer(self, value: Any, position: int) -> int:
        if type(value) is int:
            return value
        if is_runtime(value) or isinstance(value, DynamicSlice):
            raise NotModelled(
                f"an index of the device on axis {position} of {self!r}: no page says that grids take one",
                help="address the tensor itself, with tensor.ap(pattern, scalar_offset=i); index_step_elements says how"
                " many elements one coordinate is",
            )
        if not isinstance(value, bool):
            with suppress(TypeError):  # arrays have __index__, too, of which most refuse
                return operator.index(value)
        raise ViewError(
            f"{value!r} on axis {position} of {self!r}: a grid is indexed by integers and slices",
            help="write grid[i, j], or grid[i, :] for a row",
        )

    def _refuse_index(self, what: str) -> NoReturn:
        raise OutOfBounds(
            f"{what} of {self!r}, which has {len(self.shape)} axes left to index",
            help="give at most one entry per axis of `shape`; `.data` is the tensor, which is indexed by elements",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refuse to copy into a part: instructions do, into `grid[...].data`."""
        raise TileAssignment(
            f"cannot assign to a part of {self!r}",
            help="copy into the tensor of that part: nisa.tensor_copy(dst=grid[...].data, src=tile)",
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TileAssignment(
            f"`{name}` of {self!r} cannot be assigned: the attributes of a grid are fixed",
            help="make another grid with nl.tiles or nl.blocks",
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnknownName(
            f"{self!r} has no `{name}`",
            help="`.data` is the selection as a tensor, for instructions and functions",
        )

    def _refuse_operator(self, *_: Any) -> NoReturn:
        raise TensorOperator(
            f"a Python operator on {self!r}: a grid is not a number",
            help="compute on the tensor of the selection: nl.add(grid[i, j].data, other)",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _refuse_operator
    __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __neg__ = _refuse_operator
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = _refuse_operator

    def __repr__(self) -> str:
        kind = "blocks" if isinstance(self, NkiBlockGrid) else "tiles"
        return f"<grid {list(self.shape)} of {kind} over {self._base.describe()}>"

    # -- other grids of the same selection -----------------------------------------------------------------------

    def _tiles(self) -> NkiTileGrid:
        """Return all tiles of the selection, also along axes that an index has chosen from."""
        axes = (a._replace(block=1, is_open=True) for a in self._axes)
        return NkiTileGrid._make(self._base, axes, self._folded)

    def _blocks(self, block_shape: tuple[int, ...]) -> NkiBlockGrid:
        """Return the tiles of the selection, grouped into blocks."""
        sizes = iter(block_shape)
        axes = (
            a._replace(block=next(sizes) if a.is_tiled else 1, is_open=True) for a in self._axes
        )
        return NkiBlockGrid._make(self._base, axes, self._folded)

    def _packed(self, base: NkiTensor, folded: bool, order: Sequence[int]) -> NkiGrid:
        """Return the grid of the same class and shape over a tensor that holds the selection only.

        Args:
            base: the tensor, as `folded` says.
            folded: how it lies.
            order: the axes of the selection in the order of the tensor's.
        """
        axes = (self._axes[k] for k in order)
        packed = (a._replace(extent=a.elements, tiles=range(len(a.tiles))) for a in axes)
        return self._make(base, packed, folded)


class NkiTileGrid(NkiGrid):
    """A grid whose coordinates count tiles."""

    __slots__ = ()


class NkiBlockGrid(NkiGrid):
    """A grid whose coordinates count blocks, rectangles of tiles; nl.tiles(grid[i, j]) gives those of one block.

    Attributes:
        block_shape: tiles of one whole block.
    """

    __slots__ = ()

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Tiles of one whole block along each tiled axis."""
        return tuple(a.block for a in self._axes if a.is_tiled)


def tile_grid(source: NkiTensor, tile_shape: tuple[int, ...]) -> NkiTileGrid:
    """Return the grid of tiles over a tensor; leading axes of a tensor in HBM may stay untiled.

    Raises TensorArgument where `tile_shape` has more axes than the tensor, or on chip fewer.
    """
    untiled = source.ndim - len(tile_shape)
    if untiled < 0 or (untiled and source.storage.on_chip):
        raise TensorArgument(
            f"tile_shape {tile_shape} of {source.describe()}: it has {len(tile_shape)} axes, the tensor {source.ndim}",
            help="give one size for each axis of the tensor; leading axes may stay untiled in HBM only",
        )
    sizes = (1,) * untiled + tile_shape
    axes = (
        GridAxis(tile, extent, range(-(-extent // tile)), is_tiled=k >= untiled)
        for k, (tile, extent) in enumerate(zip(sizes, source.shape, strict=True))
    )
    return NkiTileGrid._make(source, axes, False)


def folded_grid(tensor: NkiTensor, tiles: Sequence[GridAxis]) -> NkiTileGrid:
    """Return the grid over a tensor on chip that has the tiles of axis 0 on its axis 1."""
    return NkiTileGrid._make(tensor, tiles, True)


def _listed(tiles: Sequence[int]) -> str:
    shown = ", ".join(map(str, tiles[:4]))
    return shown if len(tiles) <= 4 else f"{shown}, ..."
