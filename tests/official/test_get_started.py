"""What the pages below get-started show: views, tiles, loops, objects, launches on two cores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import KernelRaised, KernelResult, LanguageError, RuleBroken
from nki_lab.runtime import run
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, on_later, wide
from tests.public.sdk.references import signed

ABOUT = "get-started/about/index.rst"
LANGUAGE = "get-started/nki-language-guide.rst"
QUICK = "get-started/quickstart-implement-run-kernel.rst"
TILING = "get-started/about/tiling-overview.rst"
LNC = "get-started/about/lnc.rst"


def stored(tile):
    """Return a copy of a tile in shared HBM."""
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def sum_of_two(left, right):
    assert left.shape == right.shape and left.dtype == right.dtype
    assert left.shape[0] <= nl.tile_size.pmax
    print("one tile of", left.dtype, left.shape)
    tiles = []
    for tensor in (left, right):
        tile = nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=tensor)
        tiles.append(tile)
    total = nl.ndarray(left.shape, left.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=tiles[0], data2=tiles[1], op=nl.add)
    out = nl.ndarray(left.shape, left.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


@shows(QUICK, "a sum of two tensors, from HBM to HBM", "a kernel without a result is refused")
@shows(LANGUAGE, "asserts and prints run while the kernel is specialized")
@shows("examples/getting_started_baremetal.py", "a sum of two tensors")
@shows("examples/getting_started_torch.py", "a sum of two tensors")
@shows("examples/getting_started_jax.py", "a sum of two tensors")
@in_versions
@on_all
def test_a_sum_of_two_tensors(target, nki, rng, capsys):
    for shape in ((4, 3), (96, 70)):
        a, b = signed(rng, shape, "float16"), signed(rng, shape, "float16")
        check(sum_of_two, (a, b), wide(a) + wide(b), target=target, nki=nki)
        assert f"one tile of float16 {shape}" in capsys.readouterr().out
    with pytest.raises(KernelRaised, match="assert"):
        run(sum_of_two, a, b[:, :9].copy(), target=target, nki=nki)


@nki.jit
def nothing_returned(x):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)


@shows(QUICK, "the first step of a kernel computes, and returns nothing yet")
def test_a_kernel_that_returns_nothing_is_refused(rng):
    with pytest.raises(KernelResult, match="returns nothing"):
        run(nothing_returned, signed(rng, (8, 5), "float32"))


@shows(ABOUT, "a Python loop is unrolled, a tile of 512 columns at a time")
@in_versions
@on_all
def test_a_loop_over_blocks_of_columns(target, nki, rng):
    def cubes(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for block in range(x.shape[1] // 512):
            columns = slice(512 * block, 512 * (block + 1))
            tile = nl.load(x[:, columns])
            nl.store(out[:, columns], nl.multiply(nl.multiply(tile, tile), tile))
        return out

    x = signed(rng, (100, 1536), "float32")
    check(cubes, (x,), wide(x) ** 3, target=target, nki=nki)


@shows(ABOUT, "products and sums name their destination first")
@shows("api/nki/isa/__init__.py", "nc_matmul overwrites PSUM at first, then accumulates")
@in_versions
@on_all
def test_products_are_accumulated_in_psum(target, nki, rng):
    def product(left, right):
        total = nl.ndarray((left.shape[1], right.shape[1]), nl.float32, buffer=nl.psum)
        for step in range(left.shape[0] // 128):
            rows = nl.ds(128 * step, 128)
            parts = nl.load(left[rows]), nl.load(right[rows])
            nisa.nc_matmul(total, parts[0], parts[1], accumulate=step > 0)
        moved = nl.ndarray(total.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=moved, src=total)
        nisa.tensor_tensor(dst=moved, data1=moved, data2=total, op=nl.subtract)
        nisa.tensor_tensor(dst=moved, data1=total, data2=moved, op=nl.subtract)
        return stored(moved)

    left, right = signed(rng, (384, 72), "bfloat16"), signed(rng, (384, 200), "bfloat16")
    check(product, (left, right), wide(left).T @ wide(right), target=target, nki=nki)


@shows(ABOUT, "two cores exchange tiles and meet")
@shows(
    "api/nki/isa/__init__.py",
    "sendrecv between two ranks",
    "core_barrier after each core wrote a half",
)
@in_versions
@on_later
def test_two_cores_exchange_tiles_and_meet(target, nki, rng):
    def exchanged(x):
        me = nl.program_id(0)
        mine = nl.load(x[me])
        theirs = nl.ndarray(mine.shape, mine.dtype, buffer=nl.sbuf)
        nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out[me], theirs)
        nisa.core_barrier(out, (0, 1))
        back = nl.load(out[1 - me])  # what the other core wrote
        last = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(last[me], back)
        return out, last

    x = signed(rng, (2, 9, 30), "float32")
    check(exchanged, (x,), x[::-1], x, cores=2, target=target, nki=nki)


@shows(LNC, "a kernel asks for its cores, and each takes its part")
@in_versions
@on_later
@pytest.mark.parametrize("cores", [1, 2])
def test_each_core_takes_its_part(cores, target, nki, rng, capsys):
    def inverted(x):
        print("cores:", nl.num_programs())
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        first = nl.program_id(0)
        for part in range(first, x.shape[0], nl.num_programs()):
            tile = nl.load(x[part])
            nisa.reciprocal(tile, tile)
            nl.store(out[part], tile)
        return out

    x = (np.abs(signed(rng, (2, 64, 33), "float32")) + 0.5).astype("float32")
    check(inverted, (x,), 1 / wide(x), cores=cores, target=target, nki=nki)
    assert f"cores: {cores}" in capsys.readouterr().out


# -- tensors and views -------------------------------------------------------------------------------------------------


@shows(
    LANGUAGE,
    "attributes of a tensor",
    "indices that keep two dimensions on chip",
    "a chain of views",
)
@shows(ABOUT, "a reshaped view")
@shows("get-started/about/indexing-overview.rst", "the shape of what an index picks")
@shows("get-started/about/data-representation-overview.rst", "a tile of three dimensions")
@in_versions
@on_all
def test_shapes_of_views(target, nki, rng):
    def shapes(x):
        tile = nl.ndarray((128, 12, 10), nl.float16, buffer=nl.sbuf, name="named")
        assert (tile.shape, tile.strides, tile.offset) == ((128, 12, 10), (120, 10, 1), 0)
        assert (tile.dtype, tile.buffer, tile.ndim, tile.size) == (nl.float16, nl.sbuf, 3, 15360)
        assert tile.reshape((128, 4, 30)).shape == (128, 4, 30)
        assert tile[5].shape == (1, 12, 10)  # partitions stay
        assert tile[:, 3].shape == (128, 10)
        assert tile[:, 3, 7].shape == (128, 1)
        assert tile[1, 3, 7].shape == (1, 1)
        assert tile[32:64].permute((0, 2, 1))[:, 4].shape == (32, 12)
        assert tile.ap(pattern=[(120, 128), (3, 40)]).shape == (128, 40)
        far = nl.ndarray((3, 64, 20), nl.float32, buffer=nl.private_hbm)
        assert far[1].shape == (64, 20)  # in HBM the axis goes
        assert far[1, :, :].shape == far[1].shape
        assert far[:, 2, 4:9].shape == (3, 5)
        assert far[2, :, 0:20:4].shape == (64, 5)
        return stored(nl.load(x))

    x = signed(rng, (3, 2), "float32")
    check(shapes, (x,), x, target=target, nki=nki)


@shows(LANGUAGE, "a view shares the storage of its tensor")
@in_versions
@on_all
def test_a_view_writes_the_same_storage(target, nki, rng):
    def changed(x):
        tile = nl.load(x)
        nisa.memset(dst=tile.reshape((6, 5, 8))[:, 2:4], value=-3.5)
        nisa.tensor_copy(dst=tile[:, 0:4], src=tile[:, 36:40])
        return stored(tile)

    x = signed(rng, (6, 40), "float32")
    expected = x.copy()
    expected[:, 16:32] = -3.5
    expected[:, 0:4] = x[:, 36:40]
    check(changed, (x,), expected, target=target, nki=nki)


# -- Python at build time ----------------------------------------------------------------------------------------------


class Way(Enum):
    TURN = 1
    HALVE = 2


@dataclass
class Switch(nl.NKIObject):
    times: int
    is_on: bool = False

    def press(self):
        self.is_on = not self.is_on
        self.times += 1


@shows(
    LANGUAGE,
    "lists, tuples and dictionaries",
    "loops and conditions that are decided while specializing",
)
@shows(
    LANGUAGE,
    "objects with methods",
    "members of an enumeration",
    "functions chosen by name and passed on",
)
@shows(
    ABOUT,
    "lists and dictionaries",
    "a condition on the number of a tile",
    "an object with a method",
)
@in_versions
@on_all
def test_python_decides_while_the_kernel_is_built(target, nki, rng, capsys):
    def turned(dst, src):
        nisa.nc_transpose(dst=dst, data=src)

    def halved(dst, src):
        nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=0.5)

    def chosen(way):
        if way == Way.TURN:
            return turned
        return halved

    def kernel(a, b, c):
        switch = Switch(1)
        switch.press()
        assert switch.is_on and switch.times == 2
        names = {"a": a, "b": b}
        names["c"] = c
        order = list(names.keys())
        order.reverse()
        print(order, names.pop("a") is a, names.setdefault("d", 4))
        outs = []
        for number, tensor in enumerate((a, b, c)):
            tile = nl.load(tensor)
            result = nl.ndarray((32, 32), nl.float32, buffer=nl.sbuf)
            way = Way.TURN if number % 2 == 0 else Way.HALVE
            chosen(way)(dst=result, src=tile)
            outs.append(stored(result))
        count = 0
        while count < len(outs):
            count += 1
        assert count == 3, "three results"
        return tuple(outs)

    tiles = [signed(rng, (32, 32), "float32") for _ in range(3)]
    a, b, c = tiles
    check(kernel, (a, b, c), a.T, wide(b) / 2, c.T, target=target, nki=nki)
    assert "['c', 'b', 'a'] True 4" in capsys.readouterr().out


@shows(LANGUAGE, "an object as an argument of a kernel")
@in_versions
def test_an_object_is_an_argument(nki, rng):
    def scaled(x, switch):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(switch.times))
        return stored(tile)

    x = signed(rng, (7, 9), "float32")
    check(scaled, (x, Switch(3)), 3 * wide(x), nki=nki)


# -- loops on the device -----------------------------------------------------------------------------------------------


@shows(LANGUAGE, "a loop on the device with bounds from registers")
@shows(ABOUT, "a loop on the device, with fixed bounds and with one that a tensor gives")
@on_all
@pytest.mark.parametrize("nki", ["0.3", "0.6"])
def test_a_loop_on_the_device_before_0_7(nki, target, rng):
    def summed(x, count):
        total = nl.zeros((1, x.shape[1]), nl.float32, buffer=nl.sbuf)
        row = nl.ndarray((1, x.shape[1]), nl.float32, buffer=nl.sbuf)
        end = nisa.register_alloc()
        nisa.register_load(end, nl.load(count))
        for i in nl.dynamic_range(2, end):
            nisa.dma_copy(
                dst=row,
                src=x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i, indirect_dim=0),
            )
            nisa.tensor_tensor(total, total, row, op=nl.add)
        return stored(total)

    x = signed(rng, (12, 20), "float32")
    count = np.array([[9]], np.int32)
    check(summed, (x, count), wide(x)[2:9].sum(axis=0, keepdims=True), target=target, nki=nki)
    with pytest.raises(LanguageError, match=r"(?s)dynamic_range.*fori_loop"):
        run(summed, x, count, target=target, nki="0.7")


# -- tiles -------------------------------------------------------------------------------------------------------------


@shows(
    TILING, "two tiles by hand", "a loop over tiles", "any number of rows, with a shorter last tile"
)
@in_versions
@on_all
@pytest.mark.parametrize("rows", [256, 200, 7])
def test_tiles_of_any_number_of_rows(rows, target, nki, rng):
    def inverted(x):
        most = nl.tile_size.pmax
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for number in nl.affine_range(math.ceil(x.shape[0] / most)):
            part = nl.ds(number * most, min(most, x.shape[0] - number * most))
            tile = nl.ndarray((part.size, x.shape[1]), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[part])
            nisa.reciprocal(dst=tile, data=tile)
            nisa.dma_copy(dst=out[part], src=tile)
        return out

    x = (np.abs(signed(rng, (rows, 33), "float32")) + 0.5).astype("float32")
    check(inverted, (x,), 1 / wide(x), target=target, nki=nki)


@shows(TILING, "a copy between parts of different sizes is refused")
@on_all
def test_a_copy_between_different_sizes_is_refused(target, rng):
    def longer(x):
        tile = nl.ndarray((128, x.shape[1]), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        return stored(tile)

    with pytest.raises(RuleBroken, match="same number of elements"):
        run(longer, signed(rng, (72, 33), "float32"), target=target)


@shows("get-started/about/nki-dma-overview.rst", "few long rows and many short ones")
@in_versions
@on_all
def test_rows_of_either_length(target, nki, rng):
    def exponential(x):
        tile = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        return stored(tile)

    for shape in ((4, 1024), (128, 32)):
        x = signed(rng, shape, "bfloat16")
        check(exponential, (x,), np.exp(wide(x)), target=target, nki=nki)
