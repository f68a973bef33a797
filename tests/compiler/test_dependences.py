"""Tests that the fast search for dependences finds what comparing every use with every other finds."""

import random

import numpy as np
import pytest

from nki_lab.choices import Choices
from nki_lab.compiler.passes import dependences as ways
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.compiler.passes.dependences import dependences, dependences_of
from nki_lab.compiler.passes.estimate import Piece
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.compiler.passes.schedule import edges_within, records_of, schedule
from nki_lab.compiler.passes.settle_accumulate import settle_accumulate
from nki_lab.compiler.passes.whole_places import whole_places
from nki_lab.ir.program.nodes import Kernel
from nki_lab.targets import TRN2
from tests.compiler.programs import SMALL, random_program

OPTIONS = Choices(capacity="finding")
SEEDS = range(30)


def placed(seed: int) -> Kernel:
    """Return a random program, on a machine so small that tiles take turns or on a usual one, with addresses."""
    pick = random.Random(seed)
    target = SMALL if seed % 2 else TRN2
    kernel = random_program(pick, length=pick.choice((24, 60)), tiles=6, target=target)
    for run in (settle_accumulate, allocate_sbuf, allocate_psum):
        kernel = run(kernel, OPTIONS)
    return kernel


def nowhere(kernel: Kernel) -> np.ndarray:
    """Return that no place is used as a whole, so that all are looked at use by use."""
    return np.full(len(kernel.storages), -1)


@pytest.mark.parametrize("seed", SEEDS)
def test_places_used_as_a_whole_need_no_comparison(seed, monkeypatch):
    kernel = placed(seed)
    quick = dependences(kernel)
    monkeypatch.setattr(ways, "whole_places", nowhere)
    assert quick == dependences(kernel)


def test_random_programs_have_places_of_both_kinds():
    found = [whole_places(placed(seed)) >= 0 for seed in SEEDS]
    assert sum(some.sum() for some in found) > 50
    assert sum((~some).sum() for some in found) > 50


@pytest.mark.parametrize("seed", SEEDS)
def test_waits_are_those_of_the_new_order(seed):
    """The dependences that schedule hands on are those that the program has in its new order."""
    kernel = schedule(placed(seed), OPTIONS)
    anew = kernel.with_(dependences=None)
    assert kernel.dependences is not None
    assert insert_waits(kernel, OPTIONS).waits == insert_waits(anew, OPTIONS).waits


def test_dependences_are_not_kept_where_they_may_have_changed():
    kernel = schedule(placed(0), OPTIONS)
    assert kernel.with_(findings=()).dependences is kernel.dependences
    assert kernel.with_instructions(kernel.instructions).dependences is None
    assert kernel.with_(addresses={}).dependences is None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_is_faster_than_the_busiest_queue(seed):
    kernel = placed(seed)
    (edges,) = edges_within(kernel, [range(len(kernel.instructions))], dependences_of(kernel))
    piece = Piece(records_of(kernel), edges, kernel.target)
    assert 0 < piece.least_time() <= min(piece.time_in_order(), piece.order_by_readiness()[1])
