"""Tests that tiles in use at one time never share bytes, and the error when they do not fit."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import AddressConflict, OverCapacity, TensorArgument
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.tensor.storage import Address
from nki_lab.targets import TRN1, TRN2, TRN3
from nki_lab.targets.spaces import PSUM
from nki_lab.timing import schedule as timeline
from nki_lab.timing.options import TimingOptions
from tests.compiler.programs import (
    SMALL,
    check_placement,
    compiled,
    integers,
    interpret,
    line_of,
    passed,
    random_program,
    run,
    shared_bytes,
    simulated,
)
from tests.thorough import examples

FINDING = Choices(capacity="finding")


def addresses(kernel):
    """Return the address of every tile by name."""
    return {kernel.storages[k].name: a for k, a in kernel.addresses.items()}


MACHINES = {
    "trn2": TRN2,
    "small": SMALL,
    "smaller": replace(SMALL, sbuf_bytes_per_partition=640, psum_banks=2),
}


@settings(max_examples=examples(200))
@given(st.integers(0, 10**6), st.sampled_from(sorted(MACHINES)))
def test_random_programs_keep_their_values_in_their_places(seed, machine):
    pick = random.Random(seed)
    traced = random_program(pick, length=40, tiles=6, target=MACHINES[machine])
    try:
        kernel = passed(traced)
    except OverCapacity:
        return
    check_placement(kernel)
    rng = np.random.default_rng(seed)
    arrays = [integers(rng), integers(rng)]
    (expected,) = interpret(traced, arrays)
    for options in ({}, {"shared_bytes": True}):
        (found,) = simulated(kernel, arrays, **options)
        np.testing.assert_array_equal(found, expected)


# -- capacity ------------------------------------------------------------------------------------


def three_tiles(x, sizes=(888, 98_568, 98_568)):
    """Need all three tiles at one time, in whatever order."""
    out = nl.ndarray(
        (128, (sizes[0] + sizes[1] + sizes[2]) // 4), dtype=nl.float32, buffer=nl.shared_hbm
    )
    a = nl.ndarray((128, sizes[0] // 4), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, sizes[1] // 4), dtype=nl.float32, buffer=nl.sbuf)
    c = nl.ndarray((128, sizes[2] // 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=a, value=1.0)
    nisa.memset(dst=b, value=2.0)
    nisa.memset(dst=c, value=3.0)
    nisa.tensor_tensor(dst=c[:, 0:4], data1=b[:, 0:4], data2=a[:, 0:4], op=nl.add)
    nisa.tensor_tensor(dst=b[:, 0:4], data1=c[:, 0:4], data2=a[:, 0:4], op=nl.add)
    at = 0
    for tile in (a, b, c):
        nisa.dma_copy(dst=out[:, at : at + tile.shape[1]], src=tile)
        at += tile.shape[1]
    return out


def three_values(sizes):
    a, b, c = (np.full(s // 4, v) for s, v in zip(sizes, (1.0, 2.0, 3.0), strict=True))
    c[0:4] = 2 + 1
    b[0:4] = 3 + 1
    return np.concatenate([a, b, c])[None].repeat(128, 0)


X = np.zeros((1, 1), np.float32)


def test_what_does_not_fit_is_listed_with_bytes_and_lines():
    with pytest.raises(OverCapacity) as caught:
        compiled(three_tiles, X, target=TRN1)
    error = caught.value
    assert error.message == (
        "sbuf of trn1 holds 196,608 bytes per partition; the 3 tiles in use at the same time need 198,024: "
        "1,416 too many"
    )
    stored = line_of(__file__, "src=tile)")
    assert error.notes == tuple(
        f"`{k}` [128, {columns}] float32: {row} bytes per partition, test_allocate.py,"
        f" line {line_of(__file__, f'    {k} = nl.ndarray((128, sizes')},"
        f" in use from line {line_of(__file__, f'nisa.memset(dst={k},')} to line {stored}"
        for k, columns, row in (("b", 24642, "98,568"), ("c", 24642, "98,568"), ("a", 222, "888"))
    )
    assert error.help == (
        "it fits with one of these: make `b` bfloat16; make `c` bfloat16; give `b` at most 24,288 elements per"
        " partition instead of 24,642"
    )
    assert error.span.line == line_of(__file__, "nisa.memset(dst=c, value=3.0)")


@pytest.mark.parametrize(
    ("target", "sizes"),
    [
        (TRN1, (888, 98_568, 49_284)),
        (TRN1, (888, 4 * 24_288, 98_568)),
        (TRN2, (888, 98_568, 98_568)),
        (TRN3, (888, 98_568, 98_568)),
    ],
)
def test_what_fits_runs(target, sizes):
    (out,) = run(three_tiles, X, target=target, sizes=sizes)
    np.testing.assert_array_equal(out, three_values(sizes))


def idle(x, early, again):
    """Fill a large tile early, or just before it is read, beside two others; read it before as well, or not."""
    out = nl.ndarray((128, 20_000), dtype=nl.float32, buffer=nl.shared_hbm)
    w = nl.ndarray((128, 20_000), dtype=nl.float32, buffer=nl.sbuf)
    if early:
        nisa.dma_copy(dst=w, src=x)
    if again:
        nisa.tensor_scalar(dst=w, data=w, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=w)
    t = nl.ndarray((128, 30_000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=1.0)
    nisa.dma_copy(dst=out, src=t[:, 0:20_000])
    if not early:
        nisa.dma_copy(dst=w, src=x)
    nisa.tensor_scalar(dst=w, data=w, op0=nl.add, operand0=2.0)
    nisa.dma_copy(dst=out, src=w)
    return out


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (False, "fill `w` just before line {}, the first to read it"),
        (True, "fill `w` anew before line {}: it is not used between line {} and there"),
    ],
)
def test_a_tile_that_waits_for_its_use_is_named(again, words):
    """The order of the program is kept here (a block of its own), so that the lifetimes are those of its lines."""

    def kernel(x, early=True, again=again):
        with nl.no_reorder():
            return idle(x, early, again)

    with pytest.raises(OverCapacity) as caught:
        compiled(kernel, np.zeros((128, 20_000), np.float32), target=TRN1)
    read = line_of(__file__, "data=w, op0=nl.add, operand0=2.0)")
    assert (
        words.format(read, line_of(__file__, "nisa.dma_copy(dst=out, src=w)")) in caught.value.help
    )
    if not again:  # the advice, followed
        assert compiled(kernel, np.zeros((128, 20_000), np.float32), early=False, target=TRN1)


def test_capacity_as_a_finding_runs_past_the_end():
    kernel = compiled(three_tiles, X, target=TRN1, options=FINDING).kernel
    (finding,) = kernel.findings
    assert finding.kind == "capacity" and finding.code == "NKI301"
    assert "1,416 too many" in finding.message
    assert shared_bytes(kernel) == []
    assert addresses(kernel) == {"a": (0, 0), "b": (0, 888), "c": (0, 99_456)}
    for options in ({}, {"shared_bytes": True}):
        (out,) = simulated(kernel, [X], **options)
        np.testing.assert_array_equal(out, three_values((888, 98_568, 98_568)))


def test_places_past_the_end_are_used_again():
    def many(x):
        out = nl.ndarray((128, 20_000), dtype=nl.float32, buffer=nl.shared_hbm)
        kept = nl.ndarray((128, 40_000), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=kept, value=1.0)
        for k in range(50):
            t = nl.ndarray((128, 20_000), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=t, value=float(k))
            nisa.dma_copy(dst=out, src=t)
        nisa.dma_copy(dst=out, src=kept[:, 0:20_000])
        return out

    kernel = compiled(many, X, target=TRN1, options=FINDING).kernel
    ends = [a.byte + kernel.storages[k].row_bytes for k, a in kernel.addresses.items()]
    assert max(ends) == 240_000, "what is in use at one time, not all tiles"


def test_psum_over_capacity_counts_banks():
    def nine_banks(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(9)]
        for t in tiles:
            nisa.memset(dst=t, value=1.0)
        sums = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=sums, value=0.0)
        for t in tiles:
            nisa.tensor_tensor(dst=tiles[0], data1=sums, data2=t, op=nl.add)
        for t in tiles:
            nisa.tensor_copy(dst=sums, src=t)
            nisa.dma_copy(dst=out, src=sums)
        return out

    with pytest.raises(
        OverCapacity,
        match=r"psum of trn2 holds 16,384 .* the 9 tiles .* need 18,432: 2,048 too many",
    ):
        compiled(nine_banks, X)


# -- PSUM banks ----------------------------------------------------------------------------------


def psum_tiles(x, count, columns, dtype=nl.float32):
    out = nl.ndarray((128, count * columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, columns), dtype=dtype, buffer=nl.psum) for _ in range(count)]
    for n, t in enumerate(tiles):
        nisa.memset(dst=t, value=n)
    whole = nl.ndarray((128, count * columns), dtype=nl.float32, buffer=nl.sbuf)
    for n, t in enumerate(tiles):
        nisa.tensor_copy(dst=whole[:, n * columns : (n + 1) * columns], src=t)
    nisa.dma_copy(dst=out, src=whole)
    return out


@pytest.mark.parametrize(
    ("count", "columns", "dtype", "expected"),
    [
        (8, 100, nl.float32, [2048 * n for n in range(8)]),  # a bank each while they last
        (32, 100, nl.float32, [512 * n for n in range(32)]),  # then parts of a bank
        (4, 1024, nl.float32, [4096 * n for n in range(4)]),  # two banks each
        (32, 256, nl.uint8, [256 * n for n in range(32)]),
        (32, 257, nl.uint8, [512 * n for n in range(32)]),  # a byte more than a part
        (16, 513, nl.uint8, [1024 * n for n in range(16)]),
    ],
)
def test_psum_tiles_and_banks(count, columns, dtype, expected):
    kernel = compiled(psum_tiles, X, count=count, columns=columns, dtype=dtype).kernel
    check_placement(kernel)
    assert [
        a.byte for k, a in kernel.addresses.items() if kernel.storages[k].buffer is PSUM
    ] == expected
    (out,) = simulated(kernel, [X], shared_bytes=True)
    np.testing.assert_array_equal(out, np.arange(count).repeat(columns)[None].repeat(128, 0))


def test_three_hundred_columns_share_no_bank_by_crossing_it():
    kernel = compiled(psum_tiles, X, count=8, columns=300).kernel
    assert {
        a.byte % 2048 for k, a in kernel.addresses.items() if kernel.storages[k].buffer is PSUM
    } == {0}


# -- explicit addresses --------------------------------------------------------------------------


def two_tiles(x, first, second, between=False):
    """Write two tiles at explicit addresses; with `between` the first is stored before the second is written."""
    out = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf, address=first)
    b = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf, address=second)
    nisa.memset(dst=a, value=1.0)
    if between:
        nisa.dma_copy(dst=out[:, 0:8], src=a)
    nisa.memset(dst=b, value=2.0)
    if not between:
        nisa.dma_copy(dst=out[:, 0:8], src=a)
    nisa.dma_copy(dst=out[0:32, 8:16], src=b)
    nisa.dma_copy(dst=out[32:64, 8:16], src=b)
    return out


ONE_AND_TWO = np.repeat([1.0, 2.0], 8)[None].repeat(64, 0)


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 100), (0, 132)), ((64, 100), (32, 100)), ((0, 132), (32, 100))],
    ids=["behind", "in other partitions", "before"],
)
def test_explicit_addresses_are_kept(first, second):
    kernel = compiled(two_tiles, X, first, second).kernel
    assert addresses(kernel) == {"a": first, "b": second}
    for options in ({}, {"shared_bytes": True}):
        (out,) = simulated(kernel, [X], **options)
        np.testing.assert_array_equal(out, ONE_AND_TWO)


def test_tiles_that_follow_each_other_at_one_address_do_not_conflict():
    kernel = compiled(two_tiles, X, (0, 64), (32, 80), between=True).kernel
    assert kernel.overlaps == () and kernel.findings == ()
    for options in ({}, {"shared_bytes": True}):
        (out,) = simulated(kernel, [X], **options)
        np.testing.assert_array_equal(out, ONE_AND_TWO)


def test_tiles_in_use_at_one_address_conflict():
    with pytest.raises(AddressConflict) as caught:
        compiled(two_tiles, X, (0, 64), (32, 80))
    error = caught.value
    line = line_of(
        __file__, "a = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf, address=first)"
    )
    assert error.message == (
        "`b` [32, 8] float32 in sbuf overlaps `a` [64, 8] float32 in sbuf while both are in use"
    )
    assert error.notes == (
        f"`a`: bytes 64 to 96 of partitions 0 to 64, made at test_allocate.py, line {line}",
        f"`b`: bytes 80 to 112 of partitions 32 to 64, made at test_allocate.py, line {line + 1}",
    )
    assert error.span.line == line + 1


def test_an_overlap_that_is_a_finding_corrupts_what_it_would_on_the_chip():
    kernel = compiled(two_tiles, X, (0, 64), (32, 80), options=FINDING).kernel
    assert [f.code for f in kernel.findings] == ["NKI302"]
    expected = ONE_AND_TWO.copy()
    expected[32:, 4:8] = 2.0  # bytes 80 to 96 of partitions 32 to 64
    (out,) = simulated(kernel, [X])
    np.testing.assert_array_equal(out, expected)


def test_other_tiles_stay_clear_of_explicit_ones():
    def around(x):
        out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        fixed = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 40))
        nisa.memset(dst=fixed, value=1.0)
        for k in range(3):
            t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=t, value=float(k))
            nisa.dma_copy(dst=out[:, 0:8], src=t)
        nisa.dma_copy(dst=out[:, 8:16], src=fixed)
        return out

    kernel = compiled(around, X).kernel
    assert addresses(kernel) == {"fixed": (0, 40), "t": (0, 0), "t.1": (0, 72), "t.2": (0, 104)}
    (out,) = simulated(kernel, [X], shared_bytes=True)
    assert out[0].tolist() == [2.0] * 8 + [1.0] * 8


@pytest.mark.parametrize(
    ("address", "space", "complaint"),
    [
        ((0, 229_376 - 16), nl.sbuf, r"ends at byte 229392; sbuf of trn2 has 212984"),
        ((100, 0), nl.sbuf, r"\(100, 0\) with 64 partitions does not fit 128"),
        ((-1, 0), nl.sbuf, r"\(-1, 0\) with 64 partitions"),
        ((0, -4), nl.sbuf, r"the byte must not be negative"),
        ((0, 2040), nl.psum, r"crosses a bank of 2048 bytes"),
        ((0, 66), nl.psum, r"must be a multiple of 4, nl.tile_size.psum_min_align"),
        ((0, 16_384), nl.psum, r"psum of trn2 has 16384"),
        (7, nl.sbuf, r"address must be \(start partition, byte within the partition\), found 7"),
        ((0, 0), nl.shared_hbm, r"only SBUF and PSUM have addresses"),
    ],
)  # fmt: skip
def test_addresses_that_are_none(address, space, complaint):
    def one(x):
        out = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((64, 8), dtype=nl.float32, buffer=space, address=address)
        nisa.memset(dst=t, value=1.0)
        copy = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=t)
        nisa.dma_copy(dst=out, src=copy)
        return out

    with pytest.raises((AddressConflict, TensorArgument), match=complaint) as caught:
        compiled(one, X)
    assert caught.value.span.line == line_of(
        __file__, "t = nl.ndarray((64, 8), dtype=nl.float32, buffer=space, address=address)"
    )


def test_an_address_outside_its_memory_is_told_though_nothing_uses_the_tile():
    def unused(x):
        nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 999_998))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(AddressConflict, match="999998 ends at byte 1000030"):
        compiled(unused, X)


# -- which place ---------------------------------------------------------------------------------


def test_temporaries_take_turns():
    """Successive tiles get different places as long as there are some, so that a load need not wait for its turn."""

    def loop(x):
        out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        for _ in range(12):
            t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t[:, 0:16], src=x)
            nisa.dma_copy(dst=out, src=t[:, 0:16])
        return out

    target = replace(TRN2, sbuf_bytes_per_partition=1024, sbuf_reserved_bytes_per_partition=0)
    kernel = compiled(loop, np.zeros((128, 16), np.float32), target=target).kernel
    assert [a.byte for a in kernel.addresses.values()] == [0, 256, 512, 768] * 3
    assert all(a == Address(0, a.byte) for a in kernel.addresses.values())


def test_temporaries_take_turns_where_explicit_tiles_are_done():
    def loop(x):
        out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        for k in range(8):
            fixed = {"address": (0, 256 * k)} if k < 4 else {}
            t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf, **fixed)
            nisa.dma_copy(dst=t[:, 0:16], src=x)
            nisa.dma_copy(dst=out, src=t[:, 0:16])
        return out

    target = replace(TRN2, sbuf_bytes_per_partition=1024, sbuf_reserved_bytes_per_partition=0)
    kernel = compiled(loop, np.zeros((128, 16), np.float32), target=target).kernel
    assert [a.byte for a in kernel.addresses.values()] == [0, 256, 512, 768] * 2


# -- buffers of loops ----------------------------------------------------------------------------


def slabs(x, inside, rows=8, columns=64):
    """Copy slabs of x through a tile that each pass makes anew, or one for all, in pieces."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf, name="once")
    for k in range(rows):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf) if inside else t
        nisa.dma_copy(dst=tile, src=x[k * 128 : k * 128 + 128])
        for piece in range(2):
            half = slice(piece * columns // 2, (piece + 1) * columns // 2)
            nisa.dma_copy(dst=out[k * 128 : k * 128 + 128, half], src=tile[:, half])
    return out


def loads_and_stores(kernel):
    """Return per slab (first byte of its tile, start of its load, end of its last store)."""
    run = timeline(Execution.in_program_order(kernel), TimingOptions())
    found = {}
    for n, i in enumerate(kernel.instructions):
        load = i.dst.storage.on_chip
        row = (i.src if load else i.dst).offset // (i.src if load else i.dst).strides[0] // 128
        slab = found.setdefault(row, {})
        tile = (i.dst if load else i.src).storage.id
        slab["byte"] = kernel.addresses[tile].byte
        if load:
            slab["start"] = run.board.start[n]
        else:
            slab["end"] = max(slab.get("end", 0), run.board.end[n])
    return [found[k] for k in sorted(found)]


SLABS = np.arange(8 * 128 * 64, dtype=np.float32).reshape(8 * 128, 64)


def test_a_tile_made_in_every_pass_has_a_buffer_for_each_and_loads_run_ahead():
    kernel = compiled(slabs, SLABS, inside=True).kernel
    found = loads_and_stores(kernel)
    assert len({slab["byte"] for slab in found}) == 8
    assert found[1]["start"] < found[0]["end"]


def test_buffers_take_turns_where_memory_holds_only_some():
    """Three tiles fit, so the load of slab k waits for the stores of slab k - 3 and of no later one."""
    target = replace(TRN2, sbuf_bytes_per_partition=3 * 256, sbuf_reserved_bytes_per_partition=0)
    found = loads_and_stores(compiled(slabs, SLABS, inside=True, target=target).kernel)
    assert [slab["byte"] for slab in found] == [0, 256, 512, 0, 256, 512, 0, 256]
    for k in range(3, 8):
        assert found[k]["start"] >= found[k - 3]["end"]
        assert found[k]["start"] < found[k - 1]["end"]


def test_a_tile_made_before_the_loop_is_one_buffer():
    """Each load of slab k + 1 starts after the last copy of slab k has ended, and the results are right."""
    kernel = compiled(slabs, SLABS, inside=False).kernel
    found = loads_and_stores(kernel)
    assert {slab["byte"] for slab in found} == {0}
    for before, after in itertools.pairwise(found):
        assert after["start"] >= before["end"]
    np.testing.assert_array_equal(run(slabs, SLABS, inside=False)[0], SLABS)


def test_a_tile_made_in_a_device_loop_is_one_allocation():
    """The device runs one body again and again (nki/deep-dives/nki-dynamic-loops.rst: allocated once and reused)."""

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        parts, results = x.reshape((8, 128, 64)), out.reshape((8, 128, 64))

        def body(k):
            tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=parts.select(0, k))
            nisa.dma_copy(dst=results.select(0, k), src=tile)

        nl.fori_loop(0, 8, body)
        return out

    assert len(compiled(kernel, SLABS).kernel.addresses) == 1
    np.testing.assert_array_equal(run(kernel, SLABS)[0], SLABS)
