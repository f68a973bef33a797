"""Tests that random programs with loops of the device compute what the unrolled ones do."""

import random

import numpy as np
import pytest

from nki_lab.errors import OverCapacity
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.verify import verify
from nki_lab.language.loops import fori_loop
from nki_lab.targets import TRN2
from tests.compiler.programs import (
    SMALL,
    RandomProgram,
    integers,
    interpret,
    passed,
    simulated,
    traced,
)

TILES = 5


class Looped(RandomProgram):
    """Writes a random program with loops, nested at times, either for the device or unrolled."""

    def __init__(self, pick: random.Random, builder: Builder, unrolled: bool) -> None:
        super().__init__(pick, builder, TILES)
        self.unrolled = unrolled

    def loop(self, depth: int = 0) -> None:
        trips, length, fresh = (self.pick.randint(*limits) for limits in ((0, 3), (1, 5), (0, 2)))
        nested = depth == 0 and self.pick.random() < 0.3

        def body(_) -> None:
            outer = list(self.chip)
            for _ in range(fresh):  # a tile made in the body is a new one in every trip
                self.chip[self.pick.randrange(TILES)] = self.tile()
            self.steps(length)
            if nested:
                self.loop(depth + 1)
            self.steps(1)
            self.chip[:] = outer

        if not self.unrolled:
            fori_loop(0, trips, body)
            return
        state, before = self.pick.getstate(), len(self.builder.body)
        body(0)  # once in any case, so that the program goes on with the same random numbers
        if trips == 0:
            del self.builder.body[before:]
        for _ in range(1, trips):
            self.pick.setstate(state)
            body(0)


def program(seed, target, unrolled, watch=None):
    b = Builder(target, watch=watch)
    with b.active():
        made = Looped(random.Random(seed), b, unrolled)
        made.steps(6)
        made.loop()
        made.steps(4)
        made.loop()
        made.steps(3)
        made.store_some()
    return traced(b, [made.out])


@pytest.mark.parametrize("target", [TRN2, SMALL], ids=["trn2", "small"])
@pytest.mark.parametrize("seeds", [range(n, n + 10) for n in range(0, 40, 10)], ids=str)
def test_loops_of_the_device_compute_what_unrolled_ones_do(seeds, target):
    fitted = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        arrays = [integers(rng), integers(rng)]
        (expected,) = interpret(program(seed, target, unrolled=True), arrays)
        looped = program(seed, target, unrolled=False)
        assert looped.has_loops
        try:
            kernel = passed(looped)
        except OverCapacity:
            continue
        fitted += 1
        assert verify(kernel) == []
        for options in ({}, {"shared_bytes": True}):
            (found,) = simulated(kernel, arrays, **options)
            np.testing.assert_array_equal(found, expected)
    assert fitted > 5
