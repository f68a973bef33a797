"""Tests that the checker of schedules refuses what changes a result, and accepts what does not.

The simulator computes in the order of the program on the bytes of the addresses: an order or a place that changes what
it computes must be an error. For waits, the judge is the enumeration of tests/compiler/test_insert_waits.py.
"""

import random

import numpy as np
import pytest

from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.compiler.passes.remove_dead import remove_dead
from nki_lab.errors import OverCapacity
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.storage import Address
from nki_lab.isa.operators import OPS
from nki_lab.language.program import no_reorder
from nki_lab.targets import TRN2
from nki_lab.targets.engines import GPSIMD
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF
from tests.compiler.accesses import by_memory
from tests.compiler.check_schedule import check_schedule
from tests.compiler.programs import SMALL, integers, passed, random_program, simulated, traced
from tests.compiler.test_insert_waits import conflicts, unguarded

OPTIONS = Choices()


def programs(count, target=SMALL):
    """Return (traced, compiled) random programs that fit."""
    found = []
    for seed in range(4 * count):
        before = random_program(random.Random(seed), length=24, tiles=6, target=target)
        try:
            found.append((before, passed(before)))
        except OverCapacity:
            continue
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("target", [TRN2, SMALL], ids=["trn2", "small"])
def test_what_the_compiler_makes_passes(target):
    made = programs(12, target)
    assert len(made) == 12
    for before, after in made:
        assert check_schedule(before, after) == []
        assert check_schedule(after, after) == []


def test_a_missing_wait_is_found_exactly_where_enumeration_finds_it():
    agreed = 0
    for before, after in programs(4):
        needed = conflicts(after)
        for n, waits in enumerate(after.waits):
            for k in waits:
                fewer = [*after.waits]
                fewer[n] = tuple(w for w in waits if w != k)
                broken = after.with_(waits=tuple(fewer))
                assert bool(check_schedule(before, broken)) == bool(unguarded(broken, needed))
                agreed += bool(unguarded(broken, needed))
    assert agreed > 30


def test_an_order_that_computes_something_else_is_refused():
    rng = np.random.default_rng(5)
    arrays = [integers(rng) for _ in range(2)]
    wrong = right = 0
    for before, after in programs(30):
        wanted = simulated(after, arrays)
        pick = random.Random(len(after.instructions))
        for _ in range(6):
            order = [*range(len(after.instructions))]
            a = pick.randrange(len(order))
            order.insert(max(0, min(len(order), a + pick.randint(-4, 4))), order.pop(a))
            moved = insert_waits(
                after.with_(body=tuple(after.instructions[n] for n in order)), OPTIONS
            )
            errors = check_schedule(before, moved)
            same = all(
                np.array_equal(x, y, equal_nan=True)
                for x, y in zip(wanted, simulated(moved, arrays), strict=True)
            )
            assert errors or same, order
            wrong += not same
            right += not errors
    assert wrong > 10 and right > 50, (wrong, right)


def test_tiles_in_use_on_the_same_bytes_are_refused():
    refused = 0
    for before, after in programs(20):
        tiles = [k for k in after.addresses if after.storages[k].buffer is SBUF]
        pick = random.Random(len(tiles))
        for _ in range(4):
            tile, other = pick.sample(tiles, 2)
            lower = min(after.addresses[tile].byte, after.addresses[other].byte)
            moved = insert_waits(
                after.with_(
                    addresses={**after.addresses, tile: Address(0, lower), other: Address(0, lower)}
                ),
                OPTIONS,
            )
            errors = check_schedule(before, moved)
            a, b = after.lifetimes[tile], after.lifetimes[other]
            together = a.first <= b.last and b.first <= a.last
            assert bool(errors) >= together
            refused += together
    assert refused > 10


def small(build, target=TRN2, passes=()):
    """Return what `build(allocate)` writes, before and after some passes, allocation and waits."""
    b = Builder(target)
    with b.active():
        build(lambda *shape, space=SBUF, **facts: b.allocate(shape, "float32", space, **facts))
    assert not b.errors, b.errors[0]
    before = kernel = traced(b)
    for run_pass in (*passes, allocate_sbuf, allocate_psum, insert_waits):
        kernel = run_pass(kernel, OPTIONS)
    return before, kernel


def without_waits(kernel):
    return kernel.with_(waits=((),) * len(kernel.instructions))


def swapped(kernel, a, b):
    order = [*range(len(kernel.instructions))]
    order[a], order[b] = order[b], order[a]
    return insert_waits(kernel.with_(body=tuple(kernel.instructions[n] for n in order)), OPTIONS)


def test_reuse_of_an_address_is_a_dependence():
    def build(tile):
        out = tile(128, 8, space=PRIVATE_HBM)
        a = tile(128, 8, address=(0, 64))
        nisa.memset(dst=a, value=1.0)
        nisa.dma_copy(dst=out, src=a)
        b = tile(64, 8, address=(64, 80))
        nisa.memset(dst=b, value=2.0, engine=GPSIMD)

    before, after = small(build)
    assert check_schedule(before, after) == []
    (error,) = check_schedule(before, swapped(after, 1, 2))
    assert "dma_copy #1" in error.message or "memset #2" in error.message
    assert len(check_schedule(before, without_waits(after))) == 2


def test_hidden_registers_and_depends_on_are_dependences():
    def build(tile):
        a, b, c = (tile(128, 8) for _ in range(3))
        nisa.memset(dst=a, value=1.0)
        facts = {"op": OPS["exp"], "data": a, "reduce_op": OPS["add"]}
        nisa.activation(dst=b, reduce_cmd=nisa.reduce_cmd.reset_reduce, **facts)
        second = nisa.activation(dst=c, reduce_cmd=nisa.reduce_cmd.reduce, **facts)
        nisa.memset(dst=tile(128, 8), value=1.0, engine=GPSIMD).depends_on(second)

    before, after = small(build)
    assert check_schedule(before, after) == []
    assert "activation #2" in check_schedule(before, swapped(after, 1, 2))[0].message
    assert check_schedule(before, swapped(after, 2, 3))
    fewer = after.with_(waits=(*after.waits[:3], ()))
    assert "memset #3 may start before" in check_schedule(before, fewer)[0].message


def test_a_removed_producer_and_a_second_copy_are_found():
    def build(tile):
        out = tile(128, 8, space=PRIVATE_HBM)
        a = tile(128, 8)
        nisa.memset(dst=a, value=1.0)
        nisa.memset(dst=a[:, 0:4], value=2.0)
        nisa.memset(dst=a[:, 0:4], value=3.0)
        nisa.dma_copy(dst=out, src=a)

    before, after = small(build)

    def kept(*at):
        return insert_waits(after.with_(body=tuple(after.instructions[n] for n in at)), OPTIONS)

    assert check_schedule(before, kept(0, 2, 3)) == [], "nobody read what #1 wrote"
    assert "needs the removed memset #2" in check_schedule(before, kept(0, 1, 3))[0].message
    assert "was removed" in check_schedule(before, kept(0, 1, 2))[0].message
    assert "made two" in check_schedule(before, kept(0, 1, 2, 3, 3))[0].message
    first = [e.message for e in check_schedule(before, kept(3, 0, 1, 2))]
    assert any(m.startswith("dma_copy") and "now comes before memset" in m for m in first), first


def test_order_that_the_author_keeps():
    def build(tile):
        nisa.memset(dst=tile(128, 8), value=1.0)
        nisa.memset(dst=tile(128, 8), value=2.0, engine=GPSIMD)

    before, after = small(build)
    assert check_schedule(before, swapped(after, 0, 1)) == []

    def ordered(tile):
        with no_reorder():
            build(tile)

    before, after = small(ordered)
    assert check_schedule(before, after) == []
    assert "it depends on" in check_schedule(before, swapped(after, 0, 1))[0].message


def test_an_order_outlives_what_stood_between():
    """Who follows a removed instruction follows those that it followed."""

    def build(tile):
        with no_reorder():
            kept = tile(128, 8)
            nisa.memset(dst=kept, value=1.0)
            nisa.memset(dst=tile(128, 8), value=2.0, engine=GPSIMD)
            other = tile(128, 8)
            nisa.memset(dst=other, value=3.0, engine=GPSIMD)
        nisa.tensor_tensor(dst=kept, data1=kept, data2=other, op=OPS["add"])
        out = tile(128, 8, space=PRIVATE_HBM)
        nisa.dma_copy(dst=out, src=kept)

    before, after = small(build, passes=(remove_dead,))
    assert len(after.instructions) == len(before.instructions) - 1
    assert after.waits[1] == (0,)
    assert check_schedule(before, after) == []
    unguarded = after.with_(waits=(*after.waits[:1], (), *after.waits[2:]))
    assert "may start before" in check_schedule(before, unguarded)[0].message


def test_rectangles_hold_every_byte():
    for before, after in programs(6):
        for kernel in (before, after):
            for accesses in by_memory(kernel, kernel.addresses or {}):
                for access in accesses:
                    row, end_row, byte, end_byte = access.rectangle
                    storage = access.view.storage
                    pitch = (
                        1 << 32
                        if access.address
                        else storage.row_bytes
                        if storage.on_chip
                        else storage.shape[-1] * storage.dtype.itemsize
                    )
                    rows, columns = np.divmod(access.bytes(), pitch)
                    assert row <= rows.min() and rows.max() < end_row
                    assert byte <= columns.min() and columns.max() < end_byte
