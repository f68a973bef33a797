"""Grids of tiles and blocks, over tensors and over new memory (NKI 0.7).

Sources: nki/api/generated/nki.language.tiles.html, blocks.html, alloc_tiles.html, alloc_blocks.html, empty_like.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, TensorArgument, TensorArgumentType
from nki_lab.ir.tensor.grid import (
    GridAxis,
    NkiBlockGrid,
    NkiGrid,
    NkiTileGrid,
    folded_grid,
    tile_grid,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.language.creation import allocate_named, like_tensor, ndarray
from nki_lab.source import Blame
from nki_lab.targets.spaces import SBUF, MemoryRegion

#: The orders of axes that nisa.dma_transpose takes, by their number (nki.language.empty_like.html).
_TRANSPOSES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def tiles(source: Any, *, tile_shape: tuple[int, ...] | None = None) -> NkiTileGrid:
    """Return a tensor as a grid of tiles: a view, without a copy.

    Args:
        source: a tensor, or a grid, of which all selected tiles become coordinates again: those inside a block.
        tile_shape: elements of a tile along the last axes, at least two; on chip along all. Tiles at the edge may be
            smaller. For a grid the tiles that it has by default; another shape divides `source.data` anew.

    Raises:
        TensorArgumentType: `tile_shape` is not a tuple of integers, or `source` neither tensor nor grid.
        TensorArgument: it does not fit the tensor.
        ViewError: other tiles are asked of a grid whose selection is not a single access pattern.
    """
    if isinstance(source, NkiGrid):
        if tile_shape is None or _sizes("tile_shape", tile_shape) == source.tile_shape:
            return source._tiles()
        source = source.data
    elif not isinstance(source, NkiTensor):
        raise TensorArgumentType(
            f"nl.tiles takes a tensor or a grid, found {type(source).__name__}",
            help="make a tensor with nl.ndarray",
        )
    if tile_shape is None:
        raise TensorArgumentType(
            f"nl.tiles of {source.describe()} needs a tile_shape",
            help="write nl.tiles(tensor, tile_shape=(128, 512))",
        )
    return tile_grid(source, _sizes("tile_shape", tile_shape))


def blocks(
    source: Any, *, tile_shape: tuple[int, ...] | None = None, block_shape: tuple[int, ...]
) -> NkiBlockGrid:
    """Return a view of a tensor as a grid of blocks, each a rectangle of tiles.

    Args:
        source: a tensor or a grid, as for nl.tiles; the tiles that a grid selects are grouped in their order.
        tile_shape: elements of a tile, as for nl.tiles.
        block_shape: tiles of a block along each axis of `tile_shape`. Blocks at the edge may have fewer, and so has the
            only one where a block is larger than the grid.
    """
    grid = tiles(source, tile_shape=tile_shape)
    counts = _sizes("block_shape", block_shape)
    if len(counts) != len(grid.tile_shape):
        raise TensorArgument(
            f"block_shape {counts} has {len(counts)} entries, tile_shape {grid.tile_shape} has {len(grid.tile_shape)}",
            help="give the number of tiles along each axis of tile_shape",
            blame=Blame.of("block_shape"),
        )
    return grid._blocks(counts)


def alloc_tiles(
    *,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: str,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiTileGrid:
    """Return a grid of tiles over one new allocation that nothing has written.

    In HBM the memory is a tensor of `element_shape`. On chip it is [partitions of a tile, places of all tiles], with a
    whole place also for a smaller tile: elements of one row of tiles lie as in a tensor of the sizes of whole tiles,
    and the rows behind each other. (The page says "dense rank-two capacity layout"; the order is that of neurotile's
    SBUFLayout in nki-library, an assumption.)

    Args:
        tile_shape: elements of a tile along the last axes, a tuple of at least two positive integers.
        element_shape: elements of the whole, exact.
        buffer: nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm.
        dtype: element type of nki.language.
        address: start partition and byte within the partition; on chip only.
        name: shown in errors and profiles.

    Raises:
        TensorArgumentType: a shape is not a tuple of integers, or `buffer` is not a memory.
        TensorArgument: a size below 1, too few or too many sizes, or more partitions than the memory has.
        NotModelled: axes without tiles on chip; no page says where those lie.
    """
    sizes, elements = _sizes("tile_shape", tile_shape), _sizes("element_shape", element_shape)
    if not isinstance(buffer, MemoryRegion):
        raise TensorArgumentType(
            f"buffer must be a memory of nki.language, found {buffer!r}",
            help="use nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm",
            blame=Blame.of("buffer"),
        )
    untiled = len(elements) - len(sizes)
    if untiled < 0:
        raise TensorArgument(
            f"tile_shape {sizes} has more axes than element_shape {elements}",
            help="give at most one size for each axis of element_shape",
            blame=Blame.of("tile_shape"),
        )
    if not buffer.on_chip:
        return tile_grid(allocate_named(elements, dtype, buffer, name, address), sizes)
    if untiled:
        raise NotModelled(
            f"element_shape {elements} with tile_shape {sizes} in {buffer.name}: no page says where the axes without"
            " tiles lie on chip",
            help="give tile_shape a size for each axis, 1 for those in front, or allocate one grid for each",
        )
    axes = [
        GridAxis(tile, extent, range(-(-extent // tile)))
        for tile, extent in zip(sizes, elements, strict=True)
    ]
    places = [a.coordinates * a.tile for a in axes[1:]]
    rows, partitions = axes[0].coordinates, min(sizes[0], elements[0])
    tensor = allocate_named((partitions, rows * prod(places)), dtype, buffer, name, address)
    return folded_grid(tensor.reshape((partitions, rows, *places)), axes)


def alloc_blocks(
    *,
    tile_shape: tuple[int, ...],
    block_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: str,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """Return a grid of blocks over one new allocation, which nl.alloc_tiles makes."""
    grid = alloc_tiles(
        tile_shape=tile_shape, element_shape=element_shape, buffer=buffer, dtype=dtype, address=address, name=name
    )  # fmt: skip
    return blocks(grid, block_shape=block_shape)


def empty_like(
    x: Any,
    dtype: DType | None = None,
    buffer: MemoryRegion | None = None,
    name: str = "",
    *,
    transpose_axes: tuple[int, ...] | None = None,
    address: tuple[int, int] | None = None,
) -> Any:
    """Return an unwritten tensor or grid with the shape, dtype and memory of `x`.

    A grid keeps class, shape, tiles and blocks; tiles that lie apart in `x` lie side by side in the new memory.

    Args:
        x: a tensor or a grid.
        dtype, buffer, name, address: as for nl.ndarray.
        transpose_axes: (1, 0), (2, 1, 0) or (3, 1, 2, 0), by the number of axes: the result is in SBUF and is what
            nisa.dma_transpose of `x` writes. The axis that comes first has at most 128 elements.
    """
    if not isinstance(x, NkiGrid):
        like_tensor("empty_like", x)
    memory = x.buffer if buffer is None else buffer
    if not isinstance(x, NkiGrid):
        order = _order(transpose_axes, x.shape, memory)
        return ndarray(tuple(x.shape[k] for k in order), dtype or x.dtype, memory, name, address)
    elements = x.element_shape
    order = _order(transpose_axes, elements, memory)
    untiled = len(elements) - len(x.tile_shape)
    if transpose_axes is not None and untiled:
        raise NotModelled(
            f"transpose_axes of {x!r}: no page says what becomes of axes without tiles",
            help="select one slab first: grid[k]",
        )
    new = alloc_tiles(
        tile_shape=tuple(x.tile_shape[k] for k in order) if not untiled else x.tile_shape,
        element_shape=tuple(elements[k] for k in order),
        buffer=memory, dtype=dtype or x.dtype, address=address, name=name,
    )  # fmt: skip
    return x._packed(new._base, new._folded, order)


def _order(axes: Any, shape: Sequence[int], memory: MemoryRegion) -> Sequence[int]:
    """Return the order of axes of a new tensor; refuse orders that nisa.dma_transpose does not take."""
    if axes is None:
        return range(len(shape))
    blame = Blame.of("transpose_axes")
    if axes != _TRANSPOSES.get(len(shape)):
        raise TensorArgument(
            f"transpose_axes {axes!r} for {len(shape)} axes: nisa.dma_transpose takes"
            f" {' or '.join(map(str, _TRANSPOSES.values()))}",
            help=f"write {_TRANSPOSES[len(shape)]}" if len(shape) in _TRANSPOSES else "",
            blame=blame,
        )
    if memory is not SBUF:
        raise TensorArgument(
            f"transpose_axes prepares a tensor in sbuf, found {memory.name}",
            help="write buffer=nl.sbuf",
            blame=blame,
        )
    if shape[axes[0]] > 128:
        raise TensorArgument(
            f"transpose_axes {axes}: axis {axes[0]} has {shape[axes[0]]} elements, which would become partitions; there"
            " are 128",
            help="transpose parts of the axis",
            blame=blame,
        )
    return axes


def _sizes(what: str, shape: Any) -> tuple[int, ...]:
    """Return a shape that is a tuple of positive Python integers, at least two of them for tiles and blocks."""
    blame = Blame.of(what)
    if type(shape) is not tuple or any(type(n) is not int for n in shape):
        raise TensorArgumentType(
            f"{what} must be a tuple of integers, found {shape!r}",
            help=f"write {what}=(128, 512)"
            if what != "block_shape"
            else "write block_shape=(2, 2)",
            blame=blame,
        )
    if any(n < 1 for n in shape):
        raise TensorArgument(
            f"{what} {shape} must be positive",
            help="give 1 or more along each axis; a tensor without elements cannot be made",
            blame=blame,
        )
    if len(shape) < 2 and what != "element_shape":
        raise TensorArgument(
            f"{what} {shape} has {len(shape)} axes, need at least two",
            help="write (1, n) for a row, or (n, 1) for a column",
            blame=blame,
        )
    return shape
