"""Tests that every way to run a kernel reports races between two cores alike, with lines, cores and rows."""

from __future__ import annotations

import re
import warnings

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.choices import use_target
from nki_lab.errors import KernelErrors
from nki_lab.ir.program.logical_core import RACE, UNCHECKED
from nki_lab.runtime import jit, launch, run
from nki_lab.runtime.recording import NkiWarning
from tests.compiler.programs import line_of
from tests.fuzz.racing import Bytes

X = np.random.default_rng(8).standard_normal((64, 8)).astype(np.float32)


def shared_like(x, name=None):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name)


def races(result):
    return [f.message for f in result.findings if f.message.startswith(RACE)]


def on_two(kernel, *args, **options):
    return run(jit(kernel)[2], *args, target="trn2", **options)


def rows_of(message):
    """Return the rows that a message names."""
    text = re.search(r"both touch rows? ([\d, to]+) of", message).group(1)
    runs = [tuple(map(int, part.split(" to "))) for part in text.split(", ")]
    return {row for part in runs for row in range(part[0], part[-1] + 1)}


def lines_of(message):
    return tuple(map(int, re.findall(r"line (\d+)", message)))


def place(words):
    return line_of(__file__, words)


# -- parts at fixed places -------------------------------------------------------------------------------------------

PARTS = [
    ((4, 8, 4), lambda t, p, half: t[:, :, p * 2 : p * 2 + 2]),
    ((16, 8), lambda t, p, half: t[:, p::2]),
    ((4, 6, 8), lambda t, p, half: t[:, p::2, :]),
    ((4, 6, 8), lambda t, p, half: t.permute((2, 0, 1))[:, :, p::2]),
    ((16, 8), lambda t, p, half: t.reshape((8, 2, 8))[:, p]),
    ((16, 8), lambda t, p, half: t.view(half)[:, p * 8 : p * 8 + 8]),
    ((16, 8), lambda t, p, half: t.view(half)[:, p * 7 : p * 7 + 8]),
    ((16, 8), lambda t, p, half: t.ap([[-8, 8], [1, 8]], offset=p * 64 + 56)),
    ((16, 8), lambda t, p, half: t.ap([[-8, 8], [1, 8]], offset=p * 48 + 56)),
    ((4, 8, 4), lambda t, p, half: t[:, :, p : p + 3]),
    ((16, 8), lambda t, p, half: t[p::3, p::2]),
    ((16, 8), lambda t, p, half: t[p + 1 :: p + 2, 4:6]),
    ((128,), lambda t, p, half: t.reshape((2, 64))[p, p * 3 :: 2]),
    ((128,), lambda t, p, half: t[p : p + 127]),
]


@pytest.mark.parametrize(("shape", "part"), PARTS)
def test_parts_race_where_they_share_a_byte(shape, part):
    def kernel(x):
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = part(out, nl.program_id(), nl.bfloat16)
        given = x.view(mine.dtype).flatten_dims(0, 1)[: mine.size]
        nisa.dma_copy(mine, given)  # store
        return out

    size = int(np.prod(shape)) * 4
    numbers = Bytes(np.arange(size).reshape(*shape, 4))
    touched = [set(part(numbers, p, ml_dtypes.bfloat16).array.flat) for p in (0, 1)]
    rows = {int(byte) // (size // shape[0]) for byte in touched[0] & touched[1]}
    found = races(on_two(kernel, X))
    assert len(found) == bool(rows)
    for message in found:
        assert lines_of(message) == (place("# store"),) * 2
        assert "core 0 writes `out`" in message and "core 1 writes `out`" in message
        assert rows_of(message) == rows


# -- what orders -----------------------------------------------------------------------------------------------------


def handed_over(x, way):
    """Core 0 writes what core 1 reads."""
    note, other, out = shared_like(x, name="note"), shared_like(x, name="other"), shared_like(x)
    core = nl.program_id()
    tile = nl.load(x)
    if core == 0:
        nisa.dma_copy(note, tile)  # the note is written
        nisa.dma_copy(other, tile)
    if way == "view":
        nisa.core_barrier(note.reshape((8, 64))[3:5, 7:9], (0, 1))
    elif way == "other":
        nisa.core_barrier(other, (0, 1))
    elif way == "crossed":
        nisa.core_barrier((note, other)[core], (0, 1))
    elif way == "crossed back":
        nisa.core_barrier((other, note)[core], (0, 1))
    elif way == "sendrecv":
        got = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.sendrecv(tile, got, 1 - core, 1 - core, pipe_id=0)
        nisa.dma_copy(other if core == 0 else out[0:64], got)
    elif way != "nothing":
        nisa.core_barrier(data=note, cores=(0, 1))
    if core == 1:
        nisa.dma_copy(tile, note)  # the note is read
        nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(
    ("way", "is_ordered"),
    [("own", True), ("view", True)]
    + [(way, False) for way in ("nothing", "other", "sendrecv", "crossed", "crossed back")],
)  # fmt: skip
def test_only_a_barrier_on_the_tensor_itself_orders_it(way, is_ordered):
    found = races(on_two(handed_over, X, way))
    if is_ordered:
        assert found == []
        return
    (message,) = found
    assert lines_of(message) == (place("# the note is written"), place("# the note is read"))
    assert rows_of(message) == set(range(64))


# -- places that values of the device decide -------------------------------------------------------------------------


def gathered(x, written, read, swapped=False):
    """One core scatters rows that the other one gathers."""
    note, out = (
        shared_like(x, name="note"),
        nl.ndarray((16, 8), dtype=x.dtype, buffer=nl.shared_hbm),
    )
    core = 1 - nl.program_id() if swapped else nl.program_id()
    rows = nl.load(written if core == 0 else read)
    tile = nl.ndarray((16, 8), dtype=x.dtype, buffer=nl.sbuf)
    if core == 0:
        nisa.dma_copy(tile, x[0:16])
        nisa.dma_copy(note.vector_select(0, rows), tile)  # the scatter
    else:
        nisa.dma_copy(tile, note.vector_select(0, rows))  # the gather
        nisa.dma_copy(out, tile)
    return out


def column(rows):
    return np.array(rows, np.uint32).reshape(-1, 1)


EVEN, ODD, MIXED = (column(r) for r in (range(0, 32, 2), range(1, 32, 2), [*range(24, 40)]))


def is_told(messages):
    (message,) = [m for m in messages if m.startswith(RACE)]
    assert lines_of(message) == (place("# the scatter"), place("# the gather"))
    assert rows_of(message) == set(EVEN.flat) & set(MIXED.flat)
    return True


def test_gathers_and_scatters_race_where_their_rows_meet():
    assert races(on_two(gathered, X, EVEN, ODD)) == []
    assert is_told(races(on_two(gathered, X, EVEN, MIXED)))


def test_it_does_not_matter_which_core_the_simulator_runs_first():
    (message,) = races(on_two(gathered, X, EVEN, MIXED))
    (other,) = races(on_two(gathered, X, EVEN, MIXED, True))
    assert lines_of(other) == lines_of(message)[::-1]
    assert rows_of(other) == rows_of(message)


def test_every_way_to_run_tells_the_same():
    kernel = jit(gathered)[2]
    for call in (lambda *a: kernel(*a), lambda *a: nki.simulate(kernel)(*a)):
        with use_target("trn2"), warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            call(X, EVEN, MIXED)
            assert is_told([str(w.message) for w in shown if w.category is NkiWarning])
    with use_target("trn2"):
        compiled = kernel.compile(X, EVEN, MIXED)
    for given, is_racy in ((MIXED, True), (ODD, False), (MIXED, True)):  # memories are used again
        found = races(compiled.launch(X, EVEN, given))
        assert is_told(found) if is_racy else found == []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        nki_lab.benchmark(kernel, X, EVEN, MIXED, target="trn2")
        assert is_told([str(w.message) for w in shown])
    with pytest.raises(KernelErrors, match=RACE) as raised:
        on_two(gathered, X, EVEN, MIXED, strict=True)
    assert is_told([e.message.removeprefix("hazard: ") for e in raised.value.errors])


def test_ranks_race_by_themselves():
    results = launch(jit(gathered)[2], 2, [(X, EVEN, ODD), (X, EVEN, MIXED)], target="trn2")
    assert races(results[0]) == []
    assert is_told(races(results[1]))


def test_what_is_not_run_is_said_to_be_unchecked():
    with use_target("trn2"):
        compiled = jit(gathered)[2].compile(X, EVEN, MIXED).compiled
    found = [f for f in compiled.findings_before_run if f.message.startswith(UNCHECKED)]
    assert [(f.kind, lines_of(f.message)[0]) for f in found] == [
        ("unchecked", place("# the scatter")),
        ("unchecked", place("# the gather")),
    ]
    assert all("address from a tile of indices" in f.message for f in found)
    result = on_two(gathered, X, EVEN, MIXED)
    assert not any(f.message.startswith(UNCHECKED) for f in result.findings)


@pytest.mark.parametrize("way", ["own", "other"])
def test_places_at_which_nothing_is_left_to_a_run_have_no_such_finding(way):
    with use_target("trn2"):
        compiled = jit(handed_over)[2].compile(X, way).compiled
    assert not any(f.kind == "unchecked" for f in compiled.findings_before_run)
    assert compiled.watched == ()


# -- device loops ----------------------------------------------------------------------------------------------------


def in_many_passes(x, written, read, with_barrier):
    """In pass i core 0 writes row written[i] and core 1 reads row read[i]."""
    note, out = shared_like(x, name="note"), shared_like(x)
    core = nl.program_id()
    rows = nl.load((written if core == 0 else read).reshape((1, written.shape[0])))
    tile = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 1.0)
    for i in nl.dynamic_range(0, written.shape[0]):
        row = nisa.register_alloc()
        nisa.register_load(row, rows[:, nl.ds(i, 1)])
        if core == 0:
            nisa.dma_copy(note[nl.ds(row, 1)], tile)  # a row is written
        else:
            nisa.dma_copy(tile, note[nl.ds(row, 1)])  # a row is read
        if with_barrier:
            nisa.core_barrier(note, (0, 1))
    if core == 1:
        nisa.dma_copy(out[0:1], tile)
    return out


@pytest.mark.usefixtures("nki_0_6")
def test_passes_are_divided_by_a_barrier_in_the_body_only():
    """Of 700 passes, more than one byte counts, two use the same row at once."""
    rng = np.random.default_rng(3)
    written = rng.integers(0, 64, (700, 1)).astype(np.int32)
    read = (written + rng.integers(1, 64, (700, 1)).astype(np.int32)) % 64
    assert races(on_two(in_many_passes, X, written, read, True)) == []
    (message,) = races(on_two(in_many_passes, X, written, read, False))
    assert rows_of_many(message) == len(set(written.flat) & set(read.flat))
    read[[255, 510]] = written[[255, 510]]
    (message,) = races(on_two(in_many_passes, X, written, read, True))
    assert lines_of(message) == (place("# a row is written"), place("# a row is read"))
    assert rows_of(message) == set(written[[255, 510]].flat)


def rows_of_many(message):
    more = re.search(r" and (\d+) more", message)
    shown = rows_of(message.replace(more.group(0), "") if more else message)
    return len(shown) + (int(more.group(1)) if more else 0)


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("passes", [0, 1, 3])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_loop_without_passes_touches_nothing(passes, is_known):
    def kernel(x, count):
        note, out = shared_like(x, name="note"), shared_like(x)
        tile = nl.load(x)
        bound = passes
        if not is_known:
            bound = nisa.register_alloc()
            nisa.register_load(bound, nl.load(count))
        if nl.program_id() == 1:
            nisa.dma_copy(note[3:5], tile[3:5])
        for _ in nl.dynamic_range(0, bound):
            if nl.program_id() == 0:
                nisa.dma_copy(note, tile)
        nisa.core_barrier(note, (0, 1))
        if nl.program_id() == 0:
            nisa.dma_copy(out, note)
        return out

    found = races(on_two(kernel, X, np.array([[passes]], np.int32)))
    assert [rows_of(message) for message in found] == [{3, 4}] * bool(passes)


@pytest.mark.usefixtures("nki_0_6")
def test_loops_that_meet_as_often_as_a_register_says():
    """Every pass ends with a barrier, and core 1 reads what core 0 wrote in the pass before, or in the same."""

    def kernel(x, count, same):
        note, out = nl.ndarray((2, 64, 8), dtype=x.dtype, buffer=nl.shared_hbm), shared_like(x)
        tile = nl.load(x)
        stop = nisa.register_alloc()
        nisa.register_load(stop, nl.load(count))
        for _ in nl.dynamic_range(0, stop):
            if nl.program_id() == 0:
                nisa.dma_copy(note[0], tile)  # this pass
            else:
                nisa.dma_copy(tile, note[0 if same else 1])  # beside it
            nisa.core_barrier(note, (0, 1))
        if nl.program_id() == 1:
            nisa.dma_copy(out, tile)
        return out

    count = np.array([[3]], np.int32)
    assert races(on_two(kernel, X, count, False)) == []
    (message,) = races(on_two(kernel, X, count, True))
    assert lines_of(message) == (place("# this pass"), place("# beside it"))
    assert races(on_two(kernel, X, 0 * count, True)) == []


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("passes", [0, 2])
def test_a_loop_that_may_not_run_orders_only_where_it_runs(passes):
    def kernel(x, count):
        note, out = shared_like(x, name="note"), shared_like(x)
        tile = nl.load(x)
        stop = nisa.register_alloc()
        nisa.register_load(stop, nl.load(count))
        if nl.program_id() == 0:
            nisa.dma_copy(note[5:7], tile[5:7])  # before the loop
        for _ in nl.dynamic_range(0, stop):
            nisa.core_barrier(note, (0, 1))
        if nl.program_id() == 1:
            nisa.dma_copy(out, note)  # behind the loop
        return out

    messages = races(on_two(kernel, X, np.array([[passes]], np.int32)))
    assert [rows_of(message) for message in messages] == [{5, 6}] * (passes == 0)


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("ago", [255, 0])
def test_what_was_touched_many_passes_ago_does_not_race(ago):
    """Core 1 reads rows that core 0 wrote 255 passes before: marks of one byte are the same again."""

    def kernel(x, written, read):
        note, out = (
            shared_like(x, name="note"),
            nl.ndarray((2, 8), dtype=x.dtype, buffer=nl.shared_hbm),
        )
        core = nl.program_id()
        rows = nl.load(written if core == 0 else read)
        tile = nl.load(x[0:2])
        now = nl.ndarray((2, 1), dtype=nl.uint32, buffer=nl.sbuf)
        for i in nl.dynamic_range(0, 400):
            nisa.tensor_copy(now, rows[:, nl.ds(i, 1)])
            if core == 0:
                nisa.dma_copy(note.vector_select(0, now), tile)
            else:
                nisa.dma_copy(tile, note.vector_select(0, now))
            nisa.core_barrier(note, (0, 1))
        if core == 1:
            nisa.dma_copy(out, tile)
        return out

    passes = np.arange(400, dtype=np.uint32)
    written = np.stack([passes, passes + 400])
    read = (written - ago) % 400 + [[0], [400]] if ago else written
    messages = races(
        on_two(kernel, np.zeros((800, 8), np.float32), written, read.astype(np.uint32))
    )
    assert len(messages) == (ago == 0)


@pytest.mark.parametrize(("first", "is_racy"), [(0, False), (6, False), (7, True)])
def test_views_of_other_element_sizes(first, is_racy):
    """Core 0 writes a float32 of a row that a register selects, core 1 reads halves of it."""

    def kernel(x, index):
        note, out = (
            shared_like(x, name="note"),
            nl.ndarray((1, 2), dtype=nl.bfloat16, buffer=nl.shared_hbm),
        )
        row = nisa.register_alloc()
        nisa.register_load(row, nl.load(index))
        if nl.program_id() == 0:
            nisa.dma_copy(note[nl.ds(row, 1), 4:5], nl.load(x[0:1, 0:1]))
        else:
            nisa.dma_copy(out, note.view(nl.bfloat16)[nl.ds(row, 1), first : first + 2])
        return out

    assert bool(races(on_two(kernel, X, np.array([[9]], np.int32)))) is is_racy
