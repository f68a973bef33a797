"""Tests that an instruction's result is the same wherever its tiles lie: with steps, on other partitions, in the other
memory.

Every case that runs is run again with its tiles embedded in larger ones. What lies around a tile must stay as it was. A
place that a rule forbids is left out; how many are left is checked, so that nothing is left out unseen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nki_lab.errors import NkiError
from nki_lab.ir.definition.instruction import registry
from nki_lab.ir.tensor.view import DynamicSlice
from nki_lab.isa.control import register_alloc
from nki_lab.targets.spaces import PSUM, SBUF
from tests.isa.case import Case, Tile, Traced, check
from tests.isa.cases import ALL
from tests.thorough import first

RUNS = [c for c in ALL if not c.breaks and c.cores == 1]
Place = tuple[slice, ...]


def every_second(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Place]:
    """Return a larger shape, and where in it the elements lie with a step of 2 along the last axis."""
    large = (*shape[:-1], 2 * shape[-1] + 1)
    return large, (..., slice(1, 2 * shape[-1] + 1, 2))  # type: ignore[return-value]


def other_rows(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Place]:
    """Return a larger shape, and where in it the elements lie on later partitions."""
    start = 0 if shape[0] > 64 else 64 if shape[0] > 32 else 32
    return (128, *shape[1:]), (slice(start, start + shape[0]),)


def by_register(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Place]:
    """Return a larger shape, and where in it the elements lie from a column on that a register holds."""
    return (*shape[:-1], shape[-1] + 5), (..., slice(2, 2 + shape[-1]))  # type: ignore[return-value]


def embedded(made: Tile, where: Callable[..., tuple[tuple[int, ...], Place]]) -> Tile:
    shape, place = where(made.data.shape)
    size = int(np.prod(shape)) * made.dtype.itemsize
    around = np.random.default_rng(size).integers(
        0, 2, size, np.uint8
    )  # bytes that are a bool_, too
    data = around.view(made.data.dtype).reshape(shape)
    data[place] = made.data
    inner = made.view

    def view(t):
        at = place
        if where is by_register:
            at = (*place[:-1], DynamicSlice(register_alloc(place[-1].start), made.data.shape[-1]))
        part = t[at]
        return part if inner is None else inner(part)

    return replace(made, data=data, view=view)


def moved(case: Case, where: Callable[..., tuple[tuple[int, ...], Place]]) -> Case:
    """Return a case with every on-chip tile embedded, and what lies around it expected unchanged."""
    tiles = {n: embedded(t, where) if t.space.on_chip else t for n, t in case.tiles.items()}
    expected = {}
    for name, wanted in case.expected.items():
        data = tiles[name].data
        if data.shape == case.tiles[name].data.shape:
            expected[name] = wanted
            continue
        whole = data.astype(np.float64)
        _, place = where(case.tiles[name].data.shape)
        whole[place] = np.asarray(wanted).astype(float)
        expected[name] = whole
    return replace(case, tiles=tiles, expected=expected)


def outcome(case: Case) -> str:
    """Run a case and check it; return what kept it from running."""
    try:
        traced = Traced(case, case.targets[-1])
    except NkiError as error:  # the case's own view does not fit the embedded tile
        return type(error).__name__
    if traced.errors:
        return "refused"
    with np.errstate(all="ignore"):
        check(case, traced.simulate())
    return "ran"


#: Lanes have random states of their own, which the expected values are about.
BY_LANE = {"rng", "rand2", "dropout", "rand_get_state", "rand_set_state", "set_rng_seed"}


#: No register may move their tiles: by a rule, or since the cases look at packed dtypes, which must come first. Nor may
#: one move a tile that a case itself addresses by a value of the device.
STATIC = {"dma_compute", "nc_matmul_mx", "quantize_mx"}


@pytest.mark.parametrize(
    ("where", "left_out", "least"),
    first([(every_second, set(), 0.9), (other_rows, BY_LANE, 0.9), (by_register, STATIC, 0.8)]),
)
def test_results_do_not_depend_on_where_tiles_lie(where, left_out, least):
    found: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    for case in RUNS:
        if case.instruction in left_out:
            continue
        how = outcome(moved(case, where))
        found[how] += 1
        idle[case.instruction] += how == "ran"
    assert found["ran"] >= least * found.total(), found
    assert [name for name, ran in idle.items() if not ran] == []


def into_psum(case: Case, name: str) -> Case:
    return replace(case, tiles=case.tiles | {name: replace(case.tiles[name], space=PSUM)})


def test_results_do_not_depend_on_the_memory_of_an_operand():
    found: Counter[str] = Counter()
    for case in RUNS:
        operands = registry[case.instruction].operands
        for name, made in case.tiles.items():
            spaces = operands[name].spaces if name in operands else ()
            # Integers are exact on GpSimd, which cannot reach PSUM; the other way is a case of its own.
            exact = "exact" in case.name or "power" in case.name
            if made.space is SBUF and PSUM in spaces and not exact:
                found[outcome(into_psum(case, name))] += 1
    assert found["ran"] >= 0.9 * found.total(), found
