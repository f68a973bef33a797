"""Tests that a tensor has exactly the bytes its address says, and nothing of a former tensor's."""

import tracemalloc
from itertools import product
from operator import mul
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.dtypes import bfloat16, float32, uint8
from nki_lab.errors import NotModelled
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Address
from nki_lab.simulator import Program
from nki_lab.simulator.bind import _shares_places
from nki_lab.simulator.memory import Memory, fill_unwritten
from nki_lab.targets import TRN2
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF
from tests.compiler.programs import compiled
from tests.ir.views import byte_numbers, views
from tests.thorough import examples

SHARED = Choices(shared_bytes=True)
X = np.arange(128 * 16, dtype=np.float32).reshape(128, 16)


# -- views --------------------------------------------------------------------------------------------------------


@st.composite
def placed(draw):
    """Draw a tensor, its address and some views of it."""
    b = Builder(TRN2)
    buffer = draw(st.sampled_from((SBUF, PSUM, PRIVATE_HBM)))
    shape = draw(st.lists(st.sampled_from((1, 2, 3, 4, 6)), min_size=2, max_size=3))
    whole = b.allocate(shape, draw(st.sampled_from((float32, bfloat16, uint8))), buffer, "t")
    address = Address(draw(st.integers(0, 100)), draw(st.integers(0, 40)))
    kernel = Kernel(
        "k", TRN2, storages=tuple(b.storages), addresses={0: address} if buffer.on_chip else {}
    )
    return kernel, whole, draw(st.lists(views(whole.storage), min_size=1, max_size=4))


@settings(max_examples=examples(300))
@given(placed(), st.sampled_from((Choices(), SHARED)))
def test_every_element_is_where_the_view_says(drawn, options):
    kernel, whole, some = drawn
    memory = Memory.of(kernel, options)
    contents = np.random.default_rng(0).integers(0, 256, whole.storage.nbytes, np.uint8)
    memory.array(whole)[...] = contents.view(whole.dtype.np).reshape(whole.shape)
    for view in some:
        expected = contents[byte_numbers(view)]
        found = memory.array(view)
        assert found.shape == view.shape and found.dtype == view.dtype.np
        np.testing.assert_array_equal(
            np.ascontiguousarray(found).reshape(-1).view(np.uint8), expected.reshape(-1)
        )


@pytest.mark.parametrize("options", [Choices(), SHARED])
def test_rows_that_hold_no_whole_number_of_wider_elements(options):
    b = Builder(TRN2)
    whole = b.allocate((4, 3), bfloat16, SBUF, "t")
    kernel = Kernel("k", TRN2, storages=tuple(b.storages), addresses={0: Address(7, 10)})
    memory = Memory.of(kernel, options)
    contents = np.arange(24, dtype=np.uint8)
    memory.array(whole)[...] = contents.view(bfloat16.np).reshape(4, 3)
    found = memory.array(whole[1:2, 1:3].view(float32))  # bytes 2 to 6 of row 1
    assert found.tobytes() == bytes(range(8, 12))


@pytest.mark.parametrize("buffer", [SBUF, PSUM])
def test_rows_past_the_end_of_a_memory_are_rows_of_one_partition(buffer):
    """Where capacity is only a finding, a tile may lie past the last byte: it must not reach the next partition."""
    b = Builder(TRN2)
    first = b.allocate((4, 16), uint8, buffer, "first")
    last = b.allocate((4, 16), uint8, buffer, "last")
    rows = {SBUF: TRN2.sbuf_bytes_per_partition, PSUM: TRN2.psum_bytes_per_partition}
    places = {0: Address(0, 0), 1: Address(0, rows[buffer] - 8)}
    memory = Memory.of(Kernel("k", TRN2, storages=tuple(b.storages), addresses=places), SHARED)
    memory.array(first)[...] = 1
    memory.array(last)[...] = 2
    assert (memory.array(first) == 1).all() and (memory.array(last) == 2).all()


# -- overlaps -----------------------------------------------------------------------------------------------------


def overlapping(x, first, second):
    """Write one tile over a part of another, in other types and partitions, and store both."""
    (dtype_a, shape_a, address_a), (dtype_b, shape_b, address_b) = first, second
    out_a = nl.ndarray(shape_a, dtype=dtype_a, buffer=nl.shared_hbm)
    out_b = nl.ndarray(shape_b, dtype=dtype_b, buffer=nl.shared_hbm)
    a = nl.ndarray(shape_a, dtype=dtype_a, buffer=nl.sbuf, address=address_a)
    b = nl.ndarray(shape_b, dtype=dtype_b, buffer=nl.sbuf, address=address_b)
    nisa.iota(dst=a, pattern=[[1, shape_a[1]]], offset=1, channel_multiplier=shape_a[1])
    nisa.memset(dst=b, value=7)
    nisa.dma_copy(dst=out_b, src=b)
    nisa.dma_copy(dst=out_a, src=a)
    return out_a, out_b


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((nl.int32, (128, 8), (0, 64)), (nl.int32, (128, 8), (0, 80))),
        ((nl.int32, (128, 8), (0, 64)), (nl.uint8, (32, 6), (96, 93))),
        ((nl.int32, (64, 8), (64, 4)), (nl.int16, (128, 20), (0, 0))),
        ((nl.int32, (32, 3), (32, 1000)), (nl.int32, (64, 3), (0, 1000))),
    ],
    ids=["shifted", "narrow corner", "around", "more partitions"],
)  # fmt: skip
def test_an_overlap_corrupts_byte_by_byte(first, second):
    kernel = compiled(overlapping, X, first, second, options=Choices(capacity="finding")).kernel
    assert [f.code for f in kernel.findings if f.kind == "capacity"] == ["NKI302"]
    chip = np.zeros((128, 2048), np.uint8)

    def window(dtype, shape, address):
        (partition, byte), width = address, shape[1] * dtype.itemsize
        return chip[partition : partition + shape[0], byte : byte + width]

    values = 1 + np.arange(first[1][0] * first[1][1], dtype=np.int32).reshape(first[1])
    window(*first)[...] = values.view(np.uint8)
    window(*second)[...] = np.full(second[1], 7, second[0].np).view(np.uint8)
    found_a, found_b = Program(kernel).run([X])
    np.testing.assert_array_equal(found_b, 7)
    np.testing.assert_array_equal(found_a.view(np.uint8), window(*first))
    assert (found_a != values).any(), "else the tiles do not overlap"


def test_overlaps_need_the_bytes_as_they_are():
    first, second = (nl.int32, (128, 8), (0, 64)), (nl.int32, (128, 8), (0, 80))
    kernel = compiled(overlapping, X, first, second, options=Choices(capacity="finding")).kernel
    with pytest.raises(NotModelled, match="NKI_PRECISE_FP=0"):
        Program(kernel, Choices(precise_fp=False))


def reinterprets(x):
    out = nl.ndarray((128, 32), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.dma_copy(dst=out, src=t.view(nl.bfloat16))
    return out


def test_bits_of_tiles_that_are_kept_wider_cannot_be_shown():
    kernel = compiled(reinterprets, X).kernel
    (found,) = Program(kernel).run([X])
    np.testing.assert_array_equal(found.view(np.float32), X)
    with pytest.raises(NotModelled, match="NKI_PRECISE_FP=0 cannot show `t`"):
        Program(kernel, Choices(precise_fp=False))


# -- former bytes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(nl.float32, np.nan), (nl.bfloat16, np.nan), (nl.float8_e4m3, np.nan), (nl.int8, 4), (nl.uint32, 4),
     (nl.bool_, True)],
)  # fmt: skip
def test_what_unwritten_memory_reads_as(dtype, expected):
    array = np.zeros((3, 4), dtype.np)
    fill_unwritten(array, dtype)
    np.testing.assert_array_equal(array.astype(float), np.full((3, 4), float(expected)))


def never_written(x, through):
    """Read tiles that were never written after others had every place."""
    out = nl.ndarray((8, 128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    for k in range(8):
        full = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=full, src=x)
        nisa.dma_copy(dst=out[k], src=full)
        empty = nl.ndarray((128, 16), dtype=nl.float32, buffer=through)
        copy = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        if through is nl.private_hbm:
            nisa.dma_copy(dst=copy, src=empty)
        else:
            nisa.tensor_copy(dst=copy, src=empty)
        nisa.dma_copy(dst=out[k], src=copy)
    return out


@pytest.mark.parametrize("through", [nl.sbuf, nl.psum, nl.private_hbm])
@pytest.mark.parametrize("options", [Choices(), SHARED, Choices(precise_fp=False)])
def test_unwritten_tiles_are_nan_in_every_run(through, options):
    program = Program(compiled(never_written, X, through=through).kernel, options)
    for _ in range(2):
        (found,) = program.run([X])
        assert np.isnan(found).all()


# -- how much -----------------------------------------------------------------------------------------------------


def many_tiles(x, count):
    out = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    for _ in range(count):
        t = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=t, value=1.0)
        nisa.dma_copy(dst=out, src=t)
    return out


def test_tiles_that_follow_each_other_share_arrays():
    kernel = compiled(many_tiles, X, count=60).kernel
    tracemalloc.start()
    program = Program(kernel)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 128 * 2048 * 4, "one tile of 1 MiB at a time, not sixty"
    (found,) = program.run([X])
    assert (found == 1.0).all()


def test_elements_that_lie_on_each_other_are_never_overlooked():
    """Every view of up to 3 x 4 elements and steps up to 7, its places counted one by one."""
    for sizes in product(range(1, 4), range(1, 5)):
        for steps in product(range(8), repeat=2):
            places = [sum(map(mul, steps, at)) for at in np.ndindex(*sizes)]
            told = _shares_places(SimpleNamespace(shape=sizes, strides=steps))
            assert told or len(set(places)) == len(places), (sizes, steps)
            if sorted(places) == list(range(len(places))):  # one after the other, without a gap
                assert not told, (sizes, steps)
