"""What the migration page shows: forms that one version had, and the forms of the next."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api.nki import jit
from nki_lab.api.tensor import identity
from nki_lab.errors import (
    InstructionError,
    LanguageError,
    NkiError,
    TensorArgument,
    ViewError,
    WrongCall,
)
from nki_lab.runtime import run
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, on_later, wide
from tests.public.sdk.references import signed

PAGE = "migration/index.rst"
#: The last version that took the older forms, and versions that do not.
AROUND_0_3 = pytest.mark.parametrize("nki", ["0.2", "0.3", "0.6", "0.7"])


def out_of(tile):
    """Return a copy of a tile in shared HBM, with names that every version has."""
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def into(x):
    """Return a copy of a tensor in SBUF, with names that every version has."""
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


@shows(PAGE, "memset of integers takes an integer since 0.3")
@AROUND_0_3
def test_memset_of_integers_takes_an_integer(nki):
    def filled(value):
        def kernel(x):
            tile = nl.ndarray((5, 7), nl.int32, buffer=nl.sbuf)
            nisa.memset(dst=tile, value=value)
            return out_of(tile)

        return kernel

    x = np.zeros((1, 1), np.int32)
    check(filled(-2), (x,), np.full((5, 7), -2), nki=nki)
    if nki == "0.2":
        check(filled(-2.0), (x,), np.full((5, 7), -2), nki=nki)
    else:
        with pytest.raises(InstructionError, match="memset"):
            run(filled(-2.0), x, nki=nki)


@shows(PAGE, "members of enumerations in place of integers since 0.3")
@AROUND_0_3
def test_members_of_enumerations_in_place_of_integers(nki, rng):
    def copied(mode):
        def kernel(x):
            tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x, dge_mode=mode)
            return out_of(tile)

        return kernel

    x = signed(rng, (16, 32), "float32")
    check(copied(nisa.dge_mode.hwdge), (x,), x, target="trn2", nki=nki)
    if nki == "0.2":
        check(copied(2), (x,), x, target="trn2", nki=nki)
    else:
        with pytest.raises(NkiError, match="dge_mode"):
            run(copied(2), x, target="trn2", nki=nki)


@shows(PAGE, "members of memories in place of their names since 0.3")
@AROUND_0_3
def test_members_of_memories_in_place_of_names(nki, rng):
    def copied(buffer):
        def kernel(x):
            tile = nl.ndarray(x.shape, x.dtype, buffer=buffer)
            nisa.dma_copy(dst=tile, src=x)
            return out_of(tile)

        return kernel

    x = signed(rng, (16, 32), "float32")
    check(copied(nl.sbuf), (x,), x, nki=nki)
    if nki == "0.2":
        check(copied("sbuf"), (x,), x, nki=nki)
    else:
        with pytest.raises(TensorArgument, match="the name of a memory"):
            run(copied("sbuf"), x, nki=nki)


@shows(PAGE, "a transfer cannot read PSUM: a copy in SBUF comes before it")
@in_versions
@on_all
def test_a_transfer_cannot_read_psum(target, nki, rng):
    def moved(through):
        def kernel(x):
            total = nl.ndarray((64, 512), nl.float32, buffer=nl.psum)
            nisa.tensor_copy(dst=total[:, 0:40], src=into(x))
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)
            if through:
                tile = nl.ndarray((64, 512), nl.float32, buffer=nl.sbuf)
                nisa.tensor_copy(dst=tile[:, 0:40], src=total[:, 0:40])
                nisa.dma_copy(dst=out, src=tile[:, 0:40])
            else:
                nisa.dma_copy(dst=out, src=total[:, 0:40])
            return out

        return kernel

    x = signed(rng, (64, 40), "float32")
    check(moved(True), (x,), x, target=target, nki=nki)
    with pytest.raises(InstructionError, match="psum"):
        run(moved(False), x, target=target, nki=nki)


@shows(PAGE, "bits are moved through a view of the other type")
@in_versions
@on_later
def test_bits_are_moved_through_a_view(target, nki, rng):
    def moved(seen):
        def kernel(x):
            tile = nl.ndarray((16, 32), nl.float4_e2m1fn_x4, buffer=nl.sbuf)
            source = x.view(nl.float4_e2m1fn_x4) if seen else x
            nisa.dma_copy(dst=tile, src=source, dge_mode=nisa.dge_mode.hwdge)
            return out_of(tile.view(nl.uint16))

        return kernel

    x = signed(rng, (16, 32), "uint16")
    check(moved(True), (x,), x, target=target, nki=nki)
    with pytest.raises(InstructionError, match="dma_copy"):
        run(moved(False), x, target=target, nki=nki)


@shows(PAGE, "hardware moves bits between dtypes of one size, refused since 0.3")
@pytest.mark.parametrize("nki", ["0.1", "0.2", "0.3", "0.7"])
def test_hardware_moves_bits_until_0_3(nki, rng):
    def moved(dtype):
        def kernel(x):
            tile = nl.ndarray(x.shape, dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile[:, 1:], src=x[:, 1:], dge_mode=nisa.dge_mode.hwdge)
            nisa.dma_copy(dst=tile[:, 0:1], src=x[:, 0:1])  # casts
            return out_of(tile)

        return kernel

    x = signed(rng, (12, 40), "float32")
    cast = np.concatenate([np.rint(x[:, :1]).astype(np.int32), x.view(np.int32)[:, 1:]], axis=1)
    if nki in ("0.1", "0.2"):
        check(moved(nl.int32), (x,), cast, target="trn2", nki=nki)
    for dtype in (nl.bfloat16, *([nl.int32] if nki not in ("0.1", "0.2") else [])):
        with pytest.raises(InstructionError, match="hwdge cannot cast"):
            run(moved(dtype), x, target="trn2", nki=nki)


@shows(PAGE, "a reshape keeps the number of elements since 0.5")
@pytest.mark.parametrize("nki", ["0.1", "0.4", "0.5", "0.7"])
def test_a_reshape_to_fewer_elements_is_refused_since_0_5(nki, rng):
    def shaped(on_chip, shape):
        def kernel(x):
            part = (into(x) if on_chip else x).reshape(shape)
            out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=part)
            return out

        return kernel

    x = signed(rng, (24, 5, 6), "float32")
    tries = {(True, (24, 2, 7)): x.reshape(24, 30)[:, :14], (False, (3, 35)): x.ravel()[:105]}
    for (on_chip, shape), first in tries.items():
        if nki in ("0.1", "0.4"):
            check(shaped(on_chip, shape), (x,), first.reshape(shape), nki=nki)
        else:
            with pytest.raises(ViewError, match="elements, need 720"):
                run(shaped(on_chip, shape), x, nki=nki)
    for on_chip, shape in ((True, (12, 30)), (True, (24, 31)), (False, (24, 31)), (False, (0, 5))):
        with pytest.raises(ViewError, match="elements, need 720"):  # what it would be no page says
            run(shaped(on_chip, shape), x, nki=nki)


@shows(
    PAGE,
    "a sum by DMA is dma_compute since 0.3",
    "parts gathered one by one, the first copied, others added",
)
@in_versions
@on_later
def test_a_sum_by_dma(target, nki, rng):
    def summed(x):
        total = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        for part in range(x.shape[0]):
            if part == 0:
                nisa.dma_copy(dst=total, src=x[part])
            else:
                nisa.dma_compute(dst=total, srcs=[x[part], total], reduce_op=nl.add)
        return out_of(total)

    def added_by_copy(x):
        total = into(x[0])
        nisa.dma_copy(dst=total, src=x[1], dst_rmw_op=nl.add)
        return out_of(total)

    x = signed(rng, (4, 20, 30), "float32")
    check(summed, (x,), wide(x).sum(axis=0), target=target, nki=nki, close=1e-5)
    with pytest.raises(WrongCall, match="dst_rmw_op"):
        run(added_by_copy, x, target=target, nki=nki)


@shows(PAGE, "`offset` of affine_select is a keyword since 0.3")
@in_versions
@on_all
def test_a_part_above_a_diagonal(target, nki, rng):
    def selected(x):
        tile = into(x)
        nisa.affine_select(tile, [[1, 10]], -1, tile, -1.5, offset=-2, cmp_op=nl.greater)
        return out_of(tile)

    x = signed(rng, (8, 10), "float32")
    row, column = np.indices(x.shape)
    check(selected, (x,), np.where(column - row - 2 > 0, x, -1.5), target=target, nki=nki)


@shows(PAGE, "a register is moved to another one", "a register is stored and loaded")
@shows("api/nki/isa/__init__.py", "registers hold numbers that tiles give and take")
@in_versions
@on_all
def test_registers_are_moved_and_stored(target, nki):
    def moved(x):
        first, second, third = (
            nisa.register_alloc(-42),
            nisa.register_alloc(),
            nisa.register_alloc(),
        )
        nisa.register_move(second, first)
        nisa.register_load(third, into(x))
        tile = nl.ndarray((1, 2), nl.int32, buffer=nl.sbuf)
        nisa.register_store(tile[:, 0:1], second)
        nisa.register_store(tile[:, 1:2], third)
        return out_of(tile)

    check(moved, (np.array([[17]], np.int32),), np.array([[-42, 17]]), target=target, nki=nki)


@shows(PAGE, "a number is not moved into a register since 0.3")
@pytest.mark.parametrize("nki", ["0.3", "0.6", "0.7"])
def test_a_number_is_not_moved_into_a_register(nki):
    def moved(x):
        nisa.register_move(nisa.register_alloc(0), imm=42)
        return out_of(into(x))

    with pytest.raises(WrongCall, match="imm"):
        run(moved, np.zeros((1, 1), np.int32), nki=nki)


@shows(PAGE, "packed numbers come from HBM, or are zero")
@in_versions
@on_all
def test_packed_numbers_come_from_hbm(target, nki, rng):
    def loaded(x):
        zero = nl.ndarray((128, 6), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        nisa.memset(dst=zero, value=0)
        tile = nl.ndarray((128, 6), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.view(nl.float8_e4m3fn_x4))
        return out_of(tile.view(nl.uint32)), out_of(zero.view(nl.uint32))

    x = signed(rng, (128, 6), "uint32")
    check(loaded, (x,), x, np.zeros_like(x), target=target, nki=nki)


@shows(PAGE, "a loop of Python counts its passes", "the last pass decides a value")
@in_versions
def test_a_loop_of_python_counts_its_passes(nki, capsys):
    def counted(x):
        passes, last = 0, None
        for number in range(8):
            passes += 1
            last = 1 if number == 0 else number * 10
        print("passes", passes, "last", last)
        return out_of(into(x))

    check(counted, (x := np.ones((2, 2), np.float32),), x, nki=nki)
    assert "passes 8 last 70" in capsys.readouterr().out


@shows(PAGE, "slices in place of grids of positions, with a shorter last tile")
@in_versions
@on_all
def test_slices_with_a_shorter_last_tile(target, nki, rng):
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for row in range(0, x.shape[0], 128):
            rows = slice(row, min(x.shape[0], row + 128))
            for column in range(0, x.shape[1], 512):
                columns = slice(column, min(x.shape[1], column + 512))
                nisa.dma_copy(dst=out[rows, columns], src=into(x[rows, columns]))
        return out

    x = signed(rng, (129, 513), "float32")
    check(copied, (x,), x, target=target, nki=nki)


@shows(PAGE, "addresses in place of allocators", "a list of tiles, each at its address")
@in_versions
@on_all
def test_addresses_in_place_of_allocators(target, nki, rng):
    def placed(x):
        tiles = []
        for part in range(x.shape[0]):
            at = (0, 256 + (part % 2) * 4 * x.shape[2])
            tile = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf, address=at, name=f"part{part}")
            nisa.dma_copy(dst=tile, src=x[part])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(part + 1))
            tiles.append(out_of(tile))
        total = nl.ndarray((64, 100), nl.float32, buffer=nl.psum, address=(0, 3 * 2048))
        nisa.memset(dst=total, value=1.5)
        bank = nl.ndarray((64, 100), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=bank, src=total)
        return (*tiles, out_of(bank))

    x = signed(rng, (3, 64, 50), "float32")
    result = check(placed, (x,), wide(x)[0], 2 * wide(x)[1], 3 * wide(x)[2], np.full((64, 100), 1.5),
                   target=target, nki=nki)  # fmt: skip
    text = result.ir[list(result.ir)[-1]]
    assert "%part0: float32[64x50] in sbuf, requested (0, 256), at (0, 256)" in text
    assert "%part1: float32[64x50] in sbuf, requested (0, 456), at (0, 456)" in text
    assert "%part2: float32[64x50] in sbuf, requested (0, 256), at (0, 256)" in text
    assert "%total: float32[64x100] in psum, requested (0, 6144), at (0, 6144)" in text


@shows(PAGE, "a block dimension becomes a free one, or a tile of each pass")
@in_versions
@on_all
@pytest.mark.parametrize("form", ["free", "pass", "shared"])
def test_a_block_dimension_becomes_a_free_one(form, target, nki, rng):
    def copied(x):
        blocks, rows, columns = x.shape
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if form == "free":
            tile = nl.ndarray((rows, blocks, columns), x.dtype, buffer=nl.sbuf)
            for block in range(blocks):
                nisa.dma_copy(dst=tile[:, block], src=x[block])
            for block in range(blocks):
                nisa.dma_copy(dst=out[block], src=tile[:, block])
        else:
            shared = nl.ndarray((rows, columns), x.dtype, buffer=nl.sbuf)
            for block in range(blocks):
                own = nl.ndarray((rows, columns), x.dtype, buffer=nl.sbuf)
                tile = shared if form == "shared" else own
                nisa.dma_copy(dst=tile, src=x[block])
                nisa.dma_copy(dst=out[block], src=tile)
        return out

    x = signed(rng, (4, 128, 64), "float32")
    check(copied, (x,), x, target=target, nki=nki)


@shows(PAGE, "block dimensions are refused, with what to write")
@pytest.mark.parametrize("nki", ["0.1", "0.2", "0.3", "0.6", "0.7"])
def test_block_dimensions_are_refused(nki, rng):
    def blocks(x):
        tile = nl.ndarray((4, nl.par_dim(128), 64), x.dtype, buffer=nl.sbuf)
        return out_of(tile)

    with pytest.raises((LanguageError, TensorArgument), match="par_dim"):
        run(blocks, signed(rng, (4, 128, 64), "float32"), nki=nki)


@shows(
    PAGE,
    "a keyword with a default value",
    "a tuple as an argument",
    "jit as a call, without a decorator",
)
@in_versions
@on_all
def test_arguments_of_python(target, nki, rng):
    def strided(x, stride=(1, 1), negated: bool = False):
        part = into(x[:: stride[0], :: stride[1]])
        if negated:
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=-1.0)
        return out_of(part)

    x = signed(rng, (12, 20), "float32")
    check(jit(strided), (x, (3, 4), True), -x[::3, ::4], target=target, nki=nki)
    check(strided, (x,), x, target=target, nki=nki)


@shows(PAGE, "a transpose of four axes by DMA, to a result of as many")
@in_versions
@on_later
def test_a_transpose_of_four_axes(target, nki, rng):
    def turned(x):
        tile = nl.ndarray((64, 1, 1, 96), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile, src=x, axes=(3, 1, 2, 0))
        return out_of(tile)

    x = signed(rng, (96, 1, 1, 64), "bfloat16")
    check(turned, (x,), x.transpose(3, 1, 2, 0), target=target, nki=nki)


@shows(PAGE, "addresses, calls without an offset and nki.tensor.identity in 0.1 and 0.2")
@pytest.mark.parametrize("nki", ["0.1", "0.2"])
def test_what_kernels_of_0_1_and_0_2_write_that_the_stubs_do_not_have(nki, rng):
    """Addresses (nki/deep-dives/nki-migration-guide.rst of 2.28); calls without an offset, nki.tensor.identity."""

    def placed(x):
        eye = nl.shared_constant(identity(24, nl.float32))
        tile = nl.ndarray((nl.par_dim(24), 16), x.dtype, buffer=nl.sbuf, address=(0, 512))
        nisa.dma_copy(dst=tile, src=x)
        count = nl.ndarray((24, 16), nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=count, pattern=[[3, 16]])
        nisa.tensor_tensor(dst=count, data1=count, data2=tile, op=nl.add)
        part = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.affine_select(
            dst=part,
            pattern=[[-1, 16]],
            channel_multiplier=2,
            on_true_tile=tile,
            on_false_value=0.5,
            cmp_op=nl.greater,
        )
        return out_of(into(eye)), out_of(count), out_of(part)

    x = signed(rng, (24, 16), "float32")
    row, column = np.indices(x.shape)
    part = np.where(2 * row - column > 0, x, 0.5)
    result = check(placed, (x,), np.eye(24), x + 3.0 * np.arange(16), part, nki=nki)
    assert "requested (0, 512), at (0, 512)" in result.ir[list(result.ir)[-1]]
    words = (
        r"(?s)`nki\.tensor\.identity` ended with NKI 0\.2.*shared_identity_matrix.*has no `par_dim`"
    )
    with pytest.raises(NkiError, match=words):
        run(placed, x, nki="0.3")


@shows(PAGE, "axes of tensor_reduce are counted from the last one until 0.3")
@pytest.mark.parametrize("nki", ["0.1", "0.2", "0.3", "0.7"])
def test_axes_of_tensor_reduce_counted_from_the_last_one_until_0_3(nki, rng):
    def reduced(axis, count):
        def kernel(x):
            total = nl.ndarray(x.shape[: x.ndim - count], x.dtype, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, op=nl.add, data=into(x), axis=axis)
            return out_of(total)

        return kernel

    x = signed(rng, (12, 3, 4, 5), "float32")
    for axis, count in ((1, 1), ([1], 1), ([1, 2], 2), ([4], 1)):
        if nki in ("0.1", "0.2"):
            expected = wide(x).sum(axis=tuple(range(4 - count, 4)))
            check(reduced(axis, count), (x,), expected, nki=nki, close=1e-5)
        else:
            with pytest.raises(InstructionError, match="tensor_reduce"):
                run(reduced(axis, count), x, nki=nki)
