"""Tests that random kernels would show a fault: a missing wait, a place that two tiles have, a value that differs."""

from __future__ import annotations

import random

import pytest

from nki_lab.errors import NkiError
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.storage import Address
from nki_lab.isa import registry
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.spaces import SBUF
from tests.fuzz.arguments import DEFINITIONS, emit
from tests.fuzz.kernels import KINDS, TARGETS, Recipe, Rejected, written
from tests.fuzz.reordered import check_random_orders, unordered
from tests.fuzz.stages import Differs, check_stages, compare, run
from tests.fuzz.world import Choices, World


def recipe(seed: int, length: int = 24) -> Recipe:
    pick = random.Random(seed)
    kinds = pick.choices(list(KINDS), list(KINDS.values()), k=length)
    return Recipe(pick.choice(list(TARGETS)), seed, tuple((k, pick.getrandbits(24)) for k in kinds))


def compiled(count: int, wanted=lambda made: True):
    """Yield kernels with their last stage."""
    for seed in range(500):
        try:
            made = written(recipe(seed))
            if wanted(made):
                yield made, check_stages(made)
                count -= 1
        except Rejected:
            continue
        if not count:
            return


def test_a_recipe_makes_one_kernel():
    once, again = written(recipe(3)), written(recipe(3))
    assert [str(i) for i in once.kernel.instructions] == [str(i) for i in again.kernel.instructions]
    compare(again.outputs, once.outputs, "again")


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
def test_every_instruction_takes_part(target):
    missing = {d.name for d in DEFINITIONS if all(target.supports(f) for f in d.requires)}
    for seed in range(60):
        pick = random.Random(seed)
        builder = Builder(target)
        with builder.active():
            world = World(builder, Choices(), pick)
            emit(world, registry["register_move"], pick)  # some take a register that is set
            for definition in DEFINITIONS:
                if definition.name in missing and emit(world, definition, pick) is not None:
                    missing.discard(definition.name)
        if not missing:
            break
    assert missing == set()


def test_a_wait_that_is_missing_is_found_pair_by_pair():
    found = 0
    for _, kernel in compiled(6):
        for n, waits in enumerate(kernel.waits):
            for w in waits:
                if kernel.instructions[w] in kernel.instructions[n].after:
                    continue
                fewer = tuple(x for x in waits if x != w)
                broken = kernel.with_(waits=(*kernel.waits[:n], fewer, *kernel.waits[n + 1 :]))
                found += bool(unordered(broken))
    assert found > 40


def test_waits_that_are_missing_are_found_by_other_orders():
    found = 0
    for made, kernel in compiled(12, lambda made: not made.choices.raw):
        broken = kernel.with_(waits=tuple(() for _ in kernel.instructions))
        try:
            check_random_orders(made, broken, random.Random(0))
        except (Differs, NkiError):
            found += 1
    assert found > 4


def test_two_tiles_in_one_place_are_found():
    found = 0
    for made, kernel in compiled(
        8, lambda made: not made.kernel.has_loops and not made.choices.overlaps
    ):
        tiles = [k for k in kernel.addresses if kernel.storages[k].buffer is SBUF]
        moved = {**kernel.addresses, **{k: Address(0, 0) for k in tiles}}
        try:
            compare(
                run(kernel.with_(addresses=moved), made.arrays, shared_bytes=True),
                made.outputs,
                "moved",
            )
        except (Differs, NkiError):
            found += 1
    assert found > 4
