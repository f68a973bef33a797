# nki: 0.7  # noqa: ERA001
"""Tests grids of tiles and blocks against lists of element numbers that NumPy keeps for every axis.

GRID_CASES=100000 GRID_SEED=7 choose how many random grids and which; a failure tells the number of its case.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import (
    NotModelled,
    OutOfBounds,
    TensorArgument,
    TensorArgumentType,
    TileAssignment,
    UnknownName,
    ViewError,
    WrongOperand,
)
from nki_lab.ir.building.builder import Builder
from nki_lab.targets import get_target
from tests.thorough import THOROUGH

CASES = int(os.environ.get("GRID_CASES", "10000" if THOROUGH else "3000"))
SEED = int(os.environ.get("GRID_SEED", "17"))


# -- the model: for every axis of the tensor, the elements of each tile, and which tiles make a coordinate ------------


@dataclass(frozen=True)
class Axis:
    cells: list[list[np.ndarray]]  # coordinate -> tiles -> elements
    tile: int
    block: int
    is_open: bool = True
    is_tiled: bool = True

    @property
    def tiles(self):
        return [t for cell in self.cells for t in cell]

    @property
    def elements(self):
        return np.concatenate(self.tiles)


def tiled(extent, tile, is_tiled=True):
    numbers = np.arange(extent)
    tiles = np.split(numbers, range(tile, extent, tile))
    return Axis([[t] for t in tiles], tile, 1, is_tiled=is_tiled)


def grouped(axis, block):
    tiles = axis.tiles
    cells = [tiles[k : k + block] for k in range(0, len(tiles), block)]
    return replace(axis, cells=cells, block=block, is_open=True)


def is_progression(numbers):
    return len(set(np.diff(numbers).tolist())) <= 1


def places(view):
    """Return the place in the storage of each element of a view."""
    every = np.arange(view.storage.nbytes // view.dtype.itemsize)
    steps = [n * every.itemsize for n in view.strides]
    return np.lib.stride_tricks.as_strided(every[view.offset :], view.shape, steps, writeable=False)


class Model:
    """What a grid selects: the places of all elements of the tensor, and the axes."""

    def __init__(self, elements, axes, lead=()):
        self.elements, self.axes, self.lead = elements, axes, lead

    def with_axes(self, axes):
        return Model(self.elements, axes, self.lead)

    def check(self, grid, one_row=True):
        axes, opened = self.axes, [a for a in self.axes if a.is_open]
        assert grid.shape == tuple(len(a.cells) for a in opened)
        assert grid.tile_shape == tuple(a.tile for a in axes if a.is_tiled)
        assert grid.element_shape == tuple(len(a.elements) for a in axes)
        assert grid.is_remainder == any(len(t) < a.tile for a in axes for t in a.tiles)
        if isinstance(grid, nl.NkiBlockGrid):
            assert grid.block_shape == tuple(a.block for a in axes if a.is_tiled)
        steps = [
            {int(d) for d in np.diff([c[0][0] for c in a.cells])} or {a.tile * a.block}
            for a in opened
        ]
        if all(len(s) == 1 for s in steps):
            assert grid.index_step_elements == tuple(s.pop() for s in steps)
        else:
            with pytest.raises(ViewError, match="not equally far"):
                grid.index_step_elements  # noqa: B018
        apart = [k for k, a in enumerate(axes) if not is_progression(a.elements)]
        folded = not one_row and len(axes[0].tiles) > 1
        if folded:
            apart = [0]
        elif not one_row:
            apart = [k for k in apart if k]
        assert grid.is_data_representable == (not apart)
        if apart:
            with pytest.raises(NotModelled if folded else ViewError, match=f"axis {apart[0]}"):
                grid.data  # noqa: B018
            return
        want = self.elements[np.ix_(*(a.elements for a in axes))]
        data = grid.data
        assert data.shape == grid.element_shape == want.shape
        assert (places(data) == want).all()


# -- random grids -----------------------------------------------------------------------------------------------------


def random_entry(r, count):
    """Return an index of an axis, and the coordinates that it chooses as a list or a number."""
    if r.random() < 0.5:
        at = r.randrange(-count, count)
        return at, at % count
    start = r.randrange(count)
    stop = r.randint(start + 1, count)
    step = r.choice([1, 1, 2, 3])
    entry = slice(start or None, None if stop == count else stop - count * r.choice([0, 1]), step)
    return entry, list(range(start, stop, step))


def random_index(r, grid, model):
    opened = [k for k, a in enumerate(model.axes) if a.is_open]
    if not opened:
        return grid, model
    key, axes, elements = [], list(model.axes), model.elements
    dropped = []
    for k in opened[: r.randint(1, len(opened))]:
        entry, chosen = random_entry(r, len(axes[k].cells))
        key.append(entry)
        if type(chosen) is list:
            axes[k] = replace(axes[k], cells=[axes[k].cells[c] for c in chosen])
        elif axes[k].is_tiled:
            axes[k] = replace(axes[k], cells=[axes[k].cells[chosen]], is_open=False)
        else:
            dropped.append((k, axes[k].elements[chosen]))
    for k, at in reversed(dropped):
        elements = np.take(elements, at, axis=k)
        del axes[k]
    return grid[tuple(key) if len(key) > 1 or r.random() < 0.5 else key[0]], Model(elements, axes)


def random_step(r, grid, model):
    what = r.random()
    if what < 0.6:
        return random_index(r, grid, model)
    if what < 0.8:
        axes = [replace(grouped(a, 1)) for a in model.axes]
        return nl.tiles(grid), model.with_axes(axes)
    counts = tuple(r.randint(1, 4) for a in model.axes if a.is_tiled)
    sizes = iter(counts)
    axes = [grouped(a, next(sizes) if a.is_tiled else 1) for a in model.axes]
    return nl.blocks(grid, block_shape=counts), model.with_axes(axes)


def random_source(r, builder):
    """Return a grid over a new tensor, its model, and whether any selection along axis 0 may be one operand."""
    rank = r.choice([2, 2, 3])
    memory = r.choice([nl.shared_hbm, nl.sbuf, nl.psum])
    elements = tuple(r.randint(1, 12) for _ in range(rank))
    tile = tuple(r.randint(1, n + 1) for n in elements)
    if r.random() < 0.4:
        grid = nl.alloc_tiles(
            tile_shape=tile, element_shape=elements, buffer=memory, dtype=nl.uint8
        )
        axes = [tiled(n, t) for n, t in zip(elements, tile, strict=True)]
        found = np.empty(elements, int)
        for cell in np.ndindex(grid.shape):
            at = np.ix_(*(a.cells[c][0] for a, c in zip(axes, cell, strict=True)))
            found[at] = places(grid[cell].data)
        assert len(np.unique(found)) == found.size
        return grid, Model(found, axes), not memory.on_chip
    untiled = 0 if memory.on_chip else r.choice([0, 0, 1, 2])
    slabs = tuple(r.randint(1, 4) for _ in range(untiled))
    tensor = builder.allocate((*slabs, *elements), nl.uint8, memory)
    if r.random() < 0.3:  # a view with steps
        tensor = tensor[..., :: r.randint(1, 2)]
    axes = [tiled(n, 1, False) for n in slabs]
    axes += [tiled(n, t) for n, t in zip(tensor.shape[untiled:], tile, strict=True)]
    return nl.tiles(tensor, tile_shape=tile), Model(places(tensor), axes), True


def test_random_grids():
    for case in range(CASES):
        r = random.Random(SEED * 1_000_003 + case)
        builder = Builder(get_target("trn2"))
        try:
            with builder.active():
                grid, model, one_row = random_source(r, builder)
                storages = len(builder.storages)
                model.check(grid, one_row)
                for _ in range(r.randint(1, 4)):
                    grid, model = random_step(r, grid, model)
                    model.check(grid, one_row)
                assert len(builder.storages) == storages and not builder.body
                check_like(r, grid)
        except Exception as error:
            raise AssertionError(f"case {case} of seed {SEED}") from error


def check_like(r, grid):
    """Check that nl.empty_like packs what a grid selects: same geometry, and no element shared."""
    memory = r.choice([nl.shared_hbm, nl.sbuf])
    if memory.on_chip and len(grid.element_shape) > len(grid.tile_shape):
        with pytest.raises(NotModelled, match="without tiles"):
            nl.empty_like(grid, buffer=memory)
        return
    like = nl.empty_like(grid, dtype=nl.int16, buffer=memory)
    assert type(like) is type(grid) and (like.dtype, like.buffer) == (nl.int16, memory)
    same = ["shape", "tile_shape", "element_shape", "is_remainder", "block_shape"]
    for name in same if isinstance(grid, nl.NkiBlockGrid) else same[:-1]:
        assert getattr(like, name) == getattr(grid, name), name
    seen = []
    every = nl.tiles(like)
    for cell in np.ndindex(every.shape):
        seen.append(places(every[cell].data).ravel())
        tile = nl.tiles(grid)[cell]
        assert every[cell].element_shape == tile.element_shape
    assert len(np.unique(np.concatenate(seen))) == np.prod(like.element_shape)


# -- the examples of the pages, run ------------------------------------------------------------------------------------


def test_copy_by_tiles(rng):
    @nki.jit
    def copy(src):
        dst = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.shared_hbm)
        ours, theirs = (nl.tiles(t, tile_shape=(128, 256)) for t in (src, dst))
        for i in range(ours.shape[0]):
            for j in range(ours.shape[1]):
                tile = nl.ndarray(ours[i, j].element_shape, dtype=src.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile.data, src=ours[i, j].data)
                nisa.dma_copy(dst=theirs[i, j].data, src=tile.data)
        return dst

    x = rng.standard_normal((300, 700)).astype(np.float32)
    assert np.array_equal(copy(x), x)


def test_blocks_are_moved_and_their_tiles_computed(rng):
    @nki.jit
    def negated(src):
        dst = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.shared_hbm)
        blocks = nl.blocks(src, tile_shape=(128, 100), block_shape=(1, 3))
        results = nl.blocks(dst, tile_shape=(128, 100), block_shape=(1, 3))
        for i in range(blocks.shape[0]):
            for j in range(blocks.shape[1]):
                block = nl.empty_like(blocks[i, j], buffer=nl.sbuf)
                nisa.dma_copy(dst=block.data, src=blocks[i, j].data)
                tiles = nl.tiles(block)
                assert tiles.shape == ((1, 3), (1, 2))[j > 0]
                for k in range(tiles.shape[1]):
                    part = tiles[0, k].data
                    nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=-1.0)
                nisa.dma_copy(dst=results[i, j].data, src=block.data)
        return dst

    x = rng.standard_normal((200, 450)).astype(np.float32)
    assert np.array_equal(negated(x), -x)


def test_a_slab_of_a_tensor_is_indexed_first(rng):
    @nki.jit
    def first(src):
        grid = nl.tiles(src, tile_shape=(64, 32))
        assert grid.shape == (3, 2, 3) and grid.index_step_elements == (1, 64, 32)
        part = grid[2, 1, 0]
        assert part.shape == () and part.element_shape == (36, 32) and part.is_remainder
        dst = nl.ndarray(part.element_shape, dtype=src.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=dst, src=part.data)
        return dst

    x = rng.standard_normal((3, 100, 96)).astype(np.float32)
    assert np.array_equal(first(x), x[2, 64:, :32])


@pytest.mark.parametrize(("shape", "axes"), [((96, 64), (1, 0)), ((64, 48), (1, 0))])
def test_empty_like_prepares_a_transpose(rng, shape, axes):
    @nki.jit
    def transposed(src):
        grid = nl.tiles(src, tile_shape=(32, 64))
        tile = nl.empty_like(grid, buffer=nl.sbuf, transpose_axes=axes)
        assert tile.element_shape == shape[::-1] and tile.tile_shape == (64, 32)
        nisa.dma_transpose(dst=tile.data, src=grid.data)
        dst = nl.ndarray(shape[::-1], dtype=src.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=dst, src=tile.data)
        return dst

    x = rng.standard_normal(shape).astype(np.float32)
    assert np.array_equal(transposed(x), x.T)


def test_empty_like_of_a_tensor():
    with Builder(get_target("trn2")).active() as builder:
        x = builder.allocate((100, 3, 5, 7), nl.float32, nl.shared_hbm)
        like = nl.empty_like(x, buffer=nl.sbuf, transpose_axes=(3, 1, 2, 0), address=(32, 64))
        assert like.shape == (7, 3, 5, 100) and like.address == (32, 64)
        assert nl.empty_like(x).shape == x.shape and nl.empty_like(x).buffer is nl.shared_hbm
        assert x.data is x
        handle = nl.NkiTensor(like.shape, like.dtype, like.storage, nl.sbuf, "t", (32, 64))
        assert handle.address == (32, 64)
        with pytest.raises(NotModelled, match="at the address it has"):
            nl.NkiTensor(like.shape, like.dtype, like.storage, address=(0, 0))


def test_storage_on_chip_is_one_allocation_with_whole_places():
    with Builder(get_target("trn2")).active() as builder:
        grid = nl.alloc_blocks(
            tile_shape=(128, 256), block_shape=(2, 2), element_shape=(300, 700), buffer=nl.sbuf,
            dtype=nl.bfloat16, address=(0, 2048), name="pool",
        )  # fmt: skip
        (storage,) = builder.storages
        assert storage.name == "pool" and storage.address == (0, 2048)
        assert storage.shape == (128, 3 * 3 * 256)
        assert (grid.shape, grid.block_shape, grid.element_shape) == ((2, 2), (2, 2), (300, 700))
        assert nl.tiles(grid)[2, 1].data.shape == (44, 256)
        assert nl.tiles(grid)[1, :].data.get_pattern() == [[2304, 128], [1, 700]]


# -- what is refused ---------------------------------------------------------------------------------------------------


def source(builder, shape=(300, 700), memory=nl.shared_hbm):
    return builder.allocate(shape, nl.float32, memory, "src")


WRONG = [
    (lambda s, g: nl.tiles(s), TensorArgumentType, "needs a tile_shape"),
    (lambda s, g: nl.tiles(np.zeros((4, 4)), tile_shape=(2, 2)), TensorArgumentType, "or a grid, found ndarray"),
    (lambda s, g: nl.tiles(s, tile_shape=[128, 256]), TensorArgumentType, "tuple of integers"),
    (lambda s, g: nl.tiles(s, tile_shape=(np.int64(128), 256)), TensorArgumentType, "tuple of integers"),
    (lambda s, g: nl.tiles(s, tile_shape=(128, 0)), TensorArgument, "must be positive"),
    (lambda s, g: nl.tiles(s, tile_shape=(128,)), TensorArgument, "at least two"),
    (lambda s, g: nl.tiles(s, tile_shape=(1, 128, 256)), TensorArgument, "has 3 axes, the tensor 2"),
    (lambda s, g: nl.blocks(s, tile_shape=(128, 256), block_shape=(2, 2, 2)), TensorArgument, "has 3 entries"),
    (lambda s, g: nl.blocks(g, block_shape=(2, -1)), TensorArgument, "must be positive"),
    (lambda s, g: g[0, 0, 0], OutOfBounds, "3 indices"),
    (lambda s, g: g[3], OutOfBounds, "index 3 on axis 0 .*valid are 0 to 2"),
    (lambda s, g: g[:, -4], OutOfBounds, "index -4 on axis 1"),
    (lambda s, g: g[0:5], OutOfBounds, "slice 0:5 on axis 0"),
    (lambda s, g: g[1:1], OutOfBounds, "slice 1:1"),
    (lambda s, g: g[::-1], ViewError, "slice step -1 on axis 0"),
    (lambda s, g: g[True], ViewError, "True on axis 0"),
    (lambda s, g: g[[0, 1]], ViewError, "integers and slices"),
    (lambda s, g: g[...], ViewError, "integers and slices"),
    (lambda s, g: g[None], ViewError, "integers and slices"),
    (lambda s, g: g[nl.ds(0, 1)], NotModelled, "no page says"),
    (lambda s, g: g[nisa.register_alloc(0)], NotModelled, "no page says.*index_step_elements"),
    (lambda s, g: g[::2].data, ViewError, "along axis 0 the selected tiles 0, 2 lie apart"),
    (lambda s, g: nl.tiles(g[:, ::2], tile_shape=(64, 64)), ViewError, "along axis 1"),
    (lambda s, g: g.block_shape, UnknownName, "no `block_shape`"),
    (lambda s, g: g.reshape((4, 4)), UnknownName, "`.data` is the selection as a tensor"),
    (lambda s, g: g.__setitem__(0, s), TileAssignment, "copy into the tensor"),
    (lambda s, g: setattr(g, "shape", 3), TileAssignment, "fixed"),
    (lambda s, g: len(g[0, 0]), OutOfBounds, "0 axes left"),
    (lambda s, g: nl.NkiTileGrid(), ViewError, "write nl.tiles"),
    (lambda s, g: nl.empty_like(g, transpose_axes=(1, 0), buffer=nl.sbuf), TensorArgument, "axis 1 has 700 elements"),
    (lambda s, g: nl.empty_like(g[:, 0], transpose_axes=(0, 1)), TensorArgument, r"takes \(1, 0\)"),
    (lambda s, g: nl.empty_like(g[0, 2], transpose_axes=(1, 0)), TensorArgument, "in sbuf, found"),
    (lambda s, g: nl.empty_like(g, buffer=nl.sbuf).data, NotModelled, "axis 0 has 3 rows of tiles"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_refused(call, error, message):
    with Builder(get_target("trn2")).active() as builder:
        tensor = source(builder)
        with pytest.raises(error, match=f"(?s){message}"):
            call(tensor, nl.tiles(tensor, tile_shape=(128, 256)))


WRONG_MEMORY = [
    ({"tile_shape": [4, 4]}, TensorArgumentType, "tile_shape must be a tuple"),
    ({"element_shape": (8, 8.0)}, TensorArgumentType, "element_shape must be a tuple"),
    ({"buffer": "sbuf"}, TensorArgumentType, "must be a memory"),
    ({"tile_shape": (4, 4, 4)}, TensorArgument, "more axes than element_shape"),
    ({"tile_shape": (4,)}, TensorArgument, "at least two"),
    ({"element_shape": (0, 8)}, TensorArgument, "must be positive"),
    ({"element_shape": (2, 8, 8)}, NotModelled, "without tiles lie on chip"),
    ({"tile_shape": (200, 4), "element_shape": (400, 4)}, TensorArgument, "200 partitions"),
    ({"dtype": "float64"}, TensorArgument, "float64"),
]


@pytest.mark.parametrize(("changed", "error", "message"), WRONG_MEMORY)
def test_memory_refused(changed, error, message):
    given = {"tile_shape": (4, 4), "element_shape": (8, 8), "buffer": nl.sbuf, "dtype": nl.float32}
    with Builder(get_target("trn2")).active(), pytest.raises(error, match=message):
        nl.alloc_tiles(**{**given, **changed})


def test_types_are_those_of_the_page():
    assert issubclass(TensorArgumentType, TypeError) and issubclass(TensorArgument, ValueError)


def test_on_chip_every_axis_has_tiles():
    with Builder(get_target("trn2")).active() as builder:
        tile = source(builder, (64, 4, 32), nl.sbuf)
        with pytest.raises(TensorArgument, match="has 2 axes, the tensor 3"):
            nl.tiles(tile, tile_shape=(4, 32))
        assert nl.tiles(tile, tile_shape=(32, 2, 32))[1, 0].data.shape == (32, 2, 32)


def test_a_grid_as_an_operand_is_answered():
    @nki.jit
    def kernel(x):
        nisa.memset(nl.tiles(x, tile_shape=(2, 2))[0, 0], 1.0)
        return x

    with pytest.raises(WrongOperand, match=r"(?s)must be a tensor.*`\.data`"):
        kernel(np.zeros((4, 4), np.float32))


@pytest.mark.parametrize("kind", [nl.NkiTileGrid, nl.NkiBlockGrid])
def test_classes_of_grids_are_not_called(kind):
    with pytest.raises(ViewError, match=rf"{kind.__name__} is not made by calling it"):
        kind(np.zeros((4, 4), np.float32), (2, 2))


def test_blocks_larger_than_the_grid_are_one_clamped_block():
    with Builder(get_target("trn2")).active() as builder:
        grid = nl.blocks(source(builder), tile_shape=(128, 256), block_shape=(9, 9))
        assert grid.shape == (1, 1) and grid.element_shape == (300, 700)
        assert nl.tiles(grid[0, 0]).shape == (3, 3)


def test_grids_are_iterated_along_their_first_axis():
    with Builder(get_target("trn2")).active() as builder:
        grid = nl.tiles(source(builder), tile_shape=(128, 256))
        rows = list(grid)
        assert len(grid) == len(rows) == 3 and rows[2].element_shape == (44, 700)


def test_the_same_through_every_door(rng, tmp_path):
    x = rng.standard_normal((6, 10)).astype(np.float32)

    @nki.jit
    def column(src):
        part = nl.tiles(src, tile_shape=(4, 4))[:, 2]
        dst = nl.ndarray(part.element_shape, dtype=src.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=dst, src=part.data)
        return dst

    for result in (column(x), nki.simulate(column)(x), nki_lab.run(column, x).outputs[0]):
        assert np.array_equal(result, x[:, 8:])
