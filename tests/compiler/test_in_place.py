"""Tests that a result takes the place of an operand that dies in its instruction, where that is safe and needed."""

import random
from dataclasses import replace
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab import run as run_kernel
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import AddressConflict, OverCapacity
from nki_lab.ir.building.builder import Builder
from nki_lab.targets import TRN2, TRN3
from nki_lab.targets.spaces import SBUF, SHARED_HBM
from nki_lab.views.memory.occupancy import occupancy
from tests.compiler.programs import (
    SMALL,
    check_placement,
    compiled,
    passed,
    shared_bytes,
    simulated,
    traced,
)

TIGHT = replace(SMALL, sbuf_bytes_per_partition=596)


def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-2.0)
    nisa.dma_copy(dst=out, src=b)
    return out


# The largest chunk that the documentation of NKI Library recommends.
CHUNK = np.random.default_rng(3).standard_normal((64, 65535)).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("target", [TRN2, TRN3])
def test_a_large_chunk_and_its_result_fit(target):
    kernel = compiled(doubled, CHUNK, target=target).kernel
    assert shared_bytes(kernel) == [("b", "a")]
    (out,) = simulated(kernel, [CHUNK], shared_bytes=True)
    np.testing.assert_array_equal(out, CHUNK * ml_dtypes.bfloat16(-2))


def test_the_fullness_of_memory_counts_a_place_once():
    result = run_kernel(nki.jit(doubled), CHUNK, target="trn2")
    row = 65535 * 2  # half of the partitions have it
    full = row / TRN2.sbuf_bytes_per_partition
    usage = result.profile.table("SbufUsage")
    assert usage["partition_0_util_percent"].max() == pytest.approx(full)
    assert usage["avg_util_percent"].max() == pytest.approx(full / 2)
    tiles = occupancy(result.view_data, "sbuf")
    assert tiles.overlaps() == []
    assert tiles.peak(128)[0] == pytest.approx(row, abs=2)


def tile(columns, dtype=nl.float32):
    return nl.ndarray((128, columns), dtype=dtype, buffer=nl.sbuf)


def negated(x, dtype):
    a, b = tile(100), tile(100, dtype)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)
    return b


def narrower(x):
    return negated(x, nl.bfloat16)


def as_wide(x):
    return negated(x, nl.float32)


def reduced(x):
    a, b = tile(140), tile(1)
    nisa.memset(dst=a, value=1.0)
    nisa.dma_copy(dst=a[:, 0:100], src=x)
    nisa.tensor_reduce(dst=b, op=nl.maximum, data=a, axis=1)
    wide = tile(100)
    nisa.tensor_scalar(dst=wide, data=a[:, 0:100], op0=nl.multiply, operand0=b)
    return wide


def both_operands(x):
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.add)
    return b


def in_each_pass(x):
    total = tile(20)
    nisa.memset(dst=total, value=0.0)

    def body(i):
        a, b = tile(70), tile(70)
        nisa.dma_copy(dst=a, src=x[:, 0:70])
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)
        nisa.tensor_tensor(dst=total, data1=total, data2=b[:, 0:20], op=nl.add)

    nl.fori_loop(0, 3, body)
    return total


def wider(x):
    a, b = tile(140, nl.bfloat16), tile(100)
    nisa.memset(dst=a, value=0.0)
    nisa.dma_copy(dst=a[:, 0:100], src=x)
    nisa.tensor_scalar(dst=b, data=a[:, 0:100], op0=nl.multiply, operand0=-1.0)
    return b


def backwards(x):
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=b, src=a.ap([[100, 128], [-1, 100]], offset=99))
    return b


def other_columns(x):
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.memset(dst=b, value=0.0)
    nisa.tensor_copy(dst=b[:, 1:100], src=a[:, 0:99])
    return b


def shifted(x):
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=b[:, 1:100], src=a[:, 0:99])
    nisa.memset(dst=b[:, 0:1], value=0.0)
    return b


def partly_written(x):
    """Read an element that nothing has written: it is filled before the tile is used."""
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_copy(dst=b[:, 1:100], src=a[:, 1:100])
    return b


def gathered(x):
    """Read elements in an order that the device's values decide."""
    a, b = tile(100), tile(40)
    places = tile(40, nl.uint32)
    nisa.dma_copy(dst=a, src=x)
    nisa.memset(dst=places, value=0)
    nisa.nc_n_gather(dst=b, data=a, indices=places)
    return b


def read_again(x):
    a, b = tile(100), tile(100)
    nisa.dma_copy(dst=a, src=x)
    nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)
    nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
    return b


def carried(x):
    """Read a tile in every pass of a loop: what the last instruction of the body writes must not replace it."""
    a = tile(100)
    nisa.dma_copy(dst=a, src=x)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)

    def body(i):
        b = tile(100)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)

    nl.fori_loop(0, 3, body)
    nisa.memset(dst=a[:, 0:1], value=0.0)
    nisa.dma_copy(dst=out, src=a)
    return out


def stored(kernel):
    def kernel_with_result(x):
        result = kernel(x)
        if result.buffer is nl.shared_hbm:
            return result
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel_with_result


X = np.random.default_rng(4).standard_normal((128, 100)).astype(np.float32)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (narrower, (-X).astype(ml_dtypes.bfloat16)),
        (as_wide, -X),
        (both_operands, X + X),
        (reduced, X * np.maximum(X.max(axis=1, keepdims=True), 1)),
        (in_each_pass, -3 * X[:, 0:20]),
    ],
)
def test_what_the_order_of_an_instruction_allows(kernel, expected):
    made = compiled(stored(kernel), X, target=TIGHT).kernel
    assert len(shared_bytes(made)) == 1
    check_placement(made)
    for options in ({}, {"shared_bytes": True}):
        (out,) = simulated(made, [X], **options)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "kernel",
    [wider, backwards, shifted, other_columns, partly_written, read_again, carried, gathered],
)
def test_what_would_be_read_too_late(kernel):
    with pytest.raises(OverCapacity):
        compiled(stored(kernel), X, target=TIGHT)


@pytest.mark.parametrize("to", [nl.float32, nl.bfloat16, nl.int32])
def test_an_author_may_hand_a_place_over(to):
    def kernel(x, dtype=to, at=0):
        a = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 100), dtype=dtype, buffer=nl.sbuf, address=(0, at))
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)
        return b

    made = compiled(stored(kernel), X).kernel
    assert made.overlaps == ()
    (out,) = simulated(made, [X], shared_bytes=True)
    (apart,) = simulated(compiled(stored(partial(kernel, at=512)), X).kernel, [X])
    np.testing.assert_array_equal(out, apart)
    with pytest.raises(AddressConflict, match="overlaps"):
        compiled(stored(partial(kernel, at=4)), X)


def test_an_author_may_not_hand_over_what_is_read_too_late():
    def kernel(x):
        a = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_copy(dst=b, src=a.ap([[100, 128], [-1, 100]], offset=99))
        return b

    with pytest.raises(AddressConflict, match="overlaps"):
        compiled(stored(kernel), X)


def test_what_fits_side_by_side_stays_there():
    assert shared_bytes(compiled(stored(as_wide), X, target=SMALL).kernel) == []


def test_an_error_counts_a_place_once_while_it_is_handed_over():
    def three(x):
        b = as_wide(x)
        c = tile(100)
        nisa.dma_copy(dst=c, src=x)
        nisa.tensor_tensor(dst=b, data1=b, data2=c, op=nl.add)
        return b

    with pytest.raises(
        OverCapacity, match=r"2 tiles in use at the same time need 800: 204 too many"
    ):
        compiled(stored(three), X, target=TIGHT)


def several_values(x):
    """Fill two tiles again and again, the second from the first, as code with tiles made before a loop does."""
    out = nl.ndarray((128, 300), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b, total = tile(100), tile(100), tile(1)
    nisa.memset(dst=total, value=1.0)
    for k in range(3):
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=float(k - 1))
        nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=total)
        nisa.tensor_reduce(dst=total, op=nl.maximum, data=b, axis=1)
        nisa.dma_copy(dst=out[:, k * 100 : k * 100 + 100], src=b)
    return out


def test_each_value_of_a_tile_may_have_a_place_for_itself():
    total, parts = np.ones((128, 1), np.float32), []
    for k in range(3):
        parts.append(X * np.float32(k - 1) + total)
        total = parts[-1].max(axis=1, keepdims=True)
    kernel = compiled(several_values, X, target=TIGHT).kernel
    names = {kernel.storages[k].name for k in kernel.addresses}
    assert len(names) == len(kernel.addresses) > 7, "values of one tile have names of their own"
    check_placement(kernel)
    for options in ({}, {"shared_bytes": True}):
        (out,) = simulated(kernel, [X], **options)
        np.testing.assert_array_equal(out, np.hstack(parts))
    apart = compiled(several_values, X, target=SMALL).kernel
    assert len(apart.addresses) == 3


@pytest.mark.parametrize("kept", ["part", "device loop", "address"])
def test_a_tile_that_is_not_filled_as_a_whole_keeps_its_value(kept):
    place = {"address": (0, 0)} if kept == "address" else {}

    def kernel(x):
        out = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.sbuf, **place)
        b = tile(100)
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=-1.0)
        nisa.dma_copy(dst=out, src=b)
        if kept == "device loop":
            nl.fori_loop(0, 2, lambda i: nisa.dma_copy(dst=a, src=x))
        else:
            whole = slice(0, 99) if kept == "part" else slice(0, 100)
            nisa.dma_copy(dst=a[:, whole], src=x[:, whole])
        nisa.dma_copy(dst=out, src=a)
        return out

    with pytest.raises(OverCapacity):
        compiled(kernel, X, target=TIGHT)


@pytest.mark.parametrize("uses", [3, 40])
def test_a_place_of_many_uses_is_handed_over(uses):
    def kernel(x):
        out = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b, total, part = tile(100), tile(100), tile(1), tile(1)
        nisa.dma_copy(dst=a, src=x)
        nisa.memset(dst=total, value=0.0)
        for source in (a, b):
            if source is b:
                nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
            for _ in range(uses):
                nisa.tensor_reduce(dst=part, op=nl.maximum, data=source, axis=1)
                nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
        nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=total)
        nisa.dma_copy(dst=out, src=b)
        return out

    made = compiled(kernel, X, target=TIGHT).kernel
    assert shared_bytes(made) == [("tile.1", "tile")]
    (out,) = simulated(made, [X], shared_bytes=True)
    total = np.float32(0)
    for times in (1, 2):
        for _ in range(uses):
            total = total + times * X.max(axis=1, keepdims=True)
    np.testing.assert_array_equal(out, 2 * X + total)


def random_chain(pick, target):
    """Return a program whose tiles follow from each other, its input and what NumPy gives for it."""
    values = (
        np.random.default_rng(pick.randrange(1000)).integers(-9, 10, (128, 64)).astype(np.float32)
    )
    b = Builder(target)
    with b.active():
        x = b.allocate(values.shape, "float32", SHARED_HBM, "x", origin="input")
        out = b.allocate(values.shape, "float32", SHARED_HBM, "out")
        live = []
        for _ in range(3):
            live.append((b.allocate(values.shape, "float32", SBUF), values))
            nisa.dma_copy(dst=live[-1][0], src=x)
        for _ in range(25):
            at, other = pick.sample(range(3), 2)
            (a, one), (c, two) = live[at], live[other]
            new = b.allocate(values.shape, pick.choice(("float32", "bfloat16")), SBUF)
            kind = pick.randrange(4)
            if kind == 0:
                nisa.tensor_scalar(dst=new, data=a, op0=nl.minimum, operand0=3.0)
                result = np.minimum(one, 3)
            elif kind == 1:
                nisa.tensor_tensor(dst=new, data1=a, data2=c, op=nl.maximum)
                result = np.maximum(one, two)
            elif kind == 2:
                nisa.tensor_copy(dst=new, src=a.ap([[64, 128], [-1, 64]], offset=63))
                result = one[:, ::-1]
            else:
                nisa.tensor_scalar(dst=new, data=c, op0=nl.multiply, operand0=-1.0)
                result = -two
            live[at] = new, result
        nisa.dma_copy(dst=out, src=live[0][0])
    assert not b.errors, b.errors[0]
    return traced(b, [out]), values, live[0][1]


def test_random_chains_keep_their_values_in_places_that_are_handed_over():
    handed_over = 0
    for seed in range(40):
        for size in range(512, 1281, 64):
            target = replace(SMALL, sbuf_bytes_per_partition=size)
            program, x, expected = random_chain(random.Random(seed), target)
            try:
                kernel = passed(program)
            except OverCapacity:
                continue
            handed_over += len(shared_bytes(kernel))
            check_placement(kernel)
            (out,) = simulated(kernel, [x], shared_bytes=True)
            np.testing.assert_array_equal(out, expected)
            break  # the tightest memory that it fits
    assert handed_over > 40
