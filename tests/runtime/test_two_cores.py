"""Tests that two cores meet, exchange and share memory as documented, and that their mistakes are reported."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import use_target
from nki_lab.errors import (
    AddressOutOfRange,
    CoresDiffer,
    InstructionError,
    MissingPartner,
    NotOnTarget,
)
from nki_lab.runtime import jit, run

X = np.random.default_rng(2).standard_normal((128, 40)).astype(np.float32)


def on_two(kernel, *args, target="trn2"):
    return run(jit(kernel)[2], *args, target=target)


def result_like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def half(x):
    core = nl.program_id()
    return x[core * 64 : (core + 1) * 64]


def exchanged(x):
    out = result_like(x)
    mine = nl.load(half(x))
    other = nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
    rank = 1 - nl.program_id()
    nisa.sendrecv(mine, other, send_to_rank=rank, recv_from_rank=rank, pipe_id=3)
    nisa.tensor_tensor(mine, mine, other, nl.subtract)
    nisa.dma_copy(half(out), mine)
    return out


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_cores_exchange_tiles(target):
    result = on_two(exchanged, X, target=target)
    difference = X[:64] - X[64:]
    np.testing.assert_array_equal(result.value, np.concatenate([difference, -difference]))
    assert not [f for f in result.findings if f.kind == "hazard"]
    assert len(result.others) == 1
    assert result.profile.total_ns > 0


def test_a_compiled_pair_runs_again():
    with use_target("trn2"):
        compiled = jit(exchanged)[2].compile(X)
    for data in (X, 2 * X):
        difference = data[:64] - data[64:]
        np.testing.assert_array_equal(compiled(data), np.concatenate([difference, -difference]))


def through_shared_memory(x, with_barrier):
    """Each core writes one half of a shared tensor and reads the other half."""
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = result_like(x)
    core = nl.program_id()
    tile = nl.load(half(x))
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    nisa.dma_copy(half(shared), tile)
    if with_barrier:
        nisa.core_barrier(shared, (0, 1))
    got = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.dma_copy(got, shared[(1 - core) * 64 : (2 - core) * 64])
    nisa.dma_copy(half(out), got)
    return out


def test_a_barrier_orders_what_cores_write_to_shared_memory():
    result = on_two(through_shared_memory, X, True)
    np.testing.assert_array_equal(result.value, np.float32(3) * np.roll(X, 64, axis=0))
    assert not [f for f in result.findings if f.kind == "hazard"]


def test_without_a_barrier_it_is_a_race_with_both_lines():
    found = [f for f in on_two(through_shared_memory, X, False).findings if f.kind == "hazard"]
    assert len(found) == 2  # each core reads what the other one writes
    assert all("core_barrier" in f.help for f in found)
    lines = {line for f in found for line in re.findall(r"line (\d+)", f.message)}
    assert len(lines) == 2, "the line of the write and of the read"
    assert {f.message.rpartition("touch ")[2] for f in found} == {
        "rows 0 to 63 of `shared`",
        "rows 64 to 127 of `shared`",
    }


def handed_over(x, passes, barriers):
    """Core 0 writes what core 1 reads in every pass of a device loop."""
    shared, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    core = nl.program_id()
    tile = nl.load(x)

    def body(i):
        if core == 0:
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nisa.dma_copy(shared, tile)
        nisa.core_barrier(shared, (0, 1))
        if core == 1:
            nisa.dma_copy(tile, shared)
        if barriers == 2:
            nisa.core_barrier(shared, (0, 1))

    nl.fori_loop(0, passes, body)
    if core == 1:
        nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(("passes", "barriers", "races"), [(3, 1, 1), (3, 2, 0), (1, 1, 0)])
def test_the_next_pass_of_a_loop_races_with_what_this_one_still_reads(passes, barriers, races):
    result = on_two(handed_over, X, passes, barriers)
    found = [f for f in result.findings if f.kind == "hazard"]
    assert len(found) == races
    if not races:
        np.testing.assert_array_equal(result.value, X * np.float32(2**passes))


def divided(x):
    """Issue different instructions on each core."""
    out = result_like(x)
    if nl.program_id() == 0:
        spare = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm, name="spare")
        nisa.dma_copy(spare, nl.zeros((4, 4), dtype=nl.float32))
        nisa.dma_copy(out[0:64], nl.load(x[64:128]))
    else:
        tile = nl.load(x[0:64])
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out[64:128], tile)
    return out


def test_cores_may_issue_different_instructions():
    expected = np.concatenate([X[64:], X[:64] + 1])
    np.testing.assert_array_equal(on_two(divided, X).value, expected)


def test_private_memory_is_per_core():
    def kernel(x):
        out = result_like(x)
        private = nl.ndarray((64, 40), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(private, half(x))
        nisa.dma_copy(half(out), private)
        return out

    np.testing.assert_array_equal(on_two(kernel, X).value, X)


def test_pipes_do_not_wait_for_each_other():
    def kernel(x):
        out = result_like(x)
        core = nl.program_id()
        mine = nl.load(half(x))
        got = [nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf) for _ in range(2)]
        for pipe in (0, 1) if core == 0 else (1, 0):
            sent = mine if pipe == 0 else nl.multiply(mine, 2.0)
            nisa.sendrecv(sent, got[pipe], 1 - core, 1 - core, pipe_id=pipe)
        nisa.dma_copy(half(out), nl.add(got[0], got[1]))
        return out

    np.testing.assert_array_equal(on_two(kernel, X).value, np.float32(3) * np.roll(X, 64, axis=0))


def test_calls_of_one_pipe_meet_in_their_order():
    """Core 0 sends twice through pipe 0 before core 1 comes to it."""

    def kernel(x):
        out = nl.ndarray((3, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id()
        mine = nl.load(half(x))
        got = [nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf) for _ in range(3)]
        for n, pipe in enumerate((0, 0, 1) if core == 0 else (1, 0, 0)):
            nisa.sendrecv(nl.multiply(mine, float(n + 1)), got[n], 1 - core, 1 - core, pipe_id=pipe)
        for n in range(3):
            nisa.dma_copy(out[n, core * 64 : (core + 1) * 64], got[n])
        return out

    first, second = X[:64], X[64:]
    expected = [[2 * second, 3 * first], [3 * second, first], [second, 2 * first]]
    found = on_two(kernel, X).value
    np.testing.assert_array_equal(found, [np.concatenate(halves) for halves in expected])


def test_meetings_in_a_device_loop():
    def kernel(x):
        out = result_like(x)
        mine = nl.load(half(x))
        other = nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
        rank = 1 - nl.program_id()

        def swap(i):
            nisa.sendrecv(mine, other, rank, rank, pipe_id=0)
            nisa.tensor_copy(mine, other)

        nl.fori_loop(0, 3, swap)
        nisa.dma_copy(half(out), mine)
        return out

    result = on_two(kernel, X)
    np.testing.assert_array_equal(result.value, np.roll(X, 64, axis=0))
    assert result.execution.trips == result.others[0].trips == (3,)


@pytest.mark.parametrize("by", ["register", "tile"])
def test_tiles_addressed_while_running_are_exchanged(by):
    """In pass i core c sends columns 4 * i + c and keeps what comes at columns 8 * (1 - c) + i."""

    def kernel(x):
        out = result_like(x)
        core = nl.program_id()
        mine = nl.load(half(x))
        got = nl.zeros(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
        place = nl.zeros((1, 1), dtype=nl.int32, buffer=nl.sbuf)

        def swap(i):
            source = nisa.register_alloc()
            nisa.register_move(source, i)
            nisa.register_store(place, source)
            index = source if by == "register" else place
            sent = mine.ap([[40, 64], [1, 1]], offset=core, scalar_offset=index, indirect_dim=1)
            kept = got.ap(
                [[40, 64], [1, 1]], offset=8 * (1 - core), scalar_offset=index, indirect_dim=1
            )
            nisa.sendrecv(sent, kept, 1 - core, 1 - core, pipe_id=0)
            # Sent as it was when the core came: this must not reach the other core.
            nisa.memset(sent, -7.0)

        nl.fori_loop(1, 5, swap)
        nisa.dma_copy(half(out), got)
        return out

    expected = np.zeros_like(X)
    for core in (0, 1):
        sent = X[64 * (1 - core) : 64 * (2 - core)].copy()
        for i in range(1, 5):
            expected[64 * core : 64 * (core + 1), 8 * (1 - core) + i] = sent[:, i + 1 - core]
            sent[:, i + 1 - core] = -7.0
    np.testing.assert_array_equal(on_two(kernel, X).value, expected)


@pytest.mark.parametrize("meet", ["sendrecv", "core_barrier"])
def test_an_address_out_of_range_is_told_where_cores_meet(meet):
    def kernel(x):
        out = result_like(x)
        mine = nl.load(half(x))
        index = nisa.register_alloc(64)
        if meet == "sendrecv":
            nisa.sendrecv(mine[:, nl.ds(index, 4)], mine[:, 0:4], 0, 0, pipe_id=0)
        else:
            nisa.core_barrier(out[nl.ds(index, 65)], (0, 1))
        nisa.dma_copy(half(out), mine)
        return out

    with pytest.raises(AddressOutOfRange, match=f"{meet}: index 64 is out of range") as caught:
        on_two(kernel, X)
    assert caught.value.span.function == "kernel"


def test_print_says_which_core_prints(capsys):
    def kernel(x):
        print("hello", nl.num_programs())
        out = result_like(x)
        nisa.dma_copy(half(out), nl.load(half(x)))
        return out

    on_two(kernel, X)
    assert capsys.readouterr().out == "[core 0] hello 2\n[core 1] hello 2\n"


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_a_partner_that_never_comes_is_named():
    def kernel(x):
        out = result_like(x)
        if nl.program_id() == 0:
            nisa.core_barrier(out, (0, 1))
        return out

    with pytest.raises(MissingPartner, match="core 0 waits in core_barrier, core 1 has ended"):
        on_two(kernel, X)


def test_cores_that_wait_in_different_places_are_named():
    def kernel(x):
        out = result_like(x)
        tile = nl.load(half(x))
        if nl.program_id() == 0:
            nisa.core_barrier(out, (0, 1))
        else:
            nisa.sendrecv(tile, tile, 0, 0, pipe_id=1)
        return out

    with pytest.raises(
        MissingPartner, match=r"core 0 waits in core_barrier, core 1 waits in sendrecv"
    ):
        on_two(kernel, X)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda x: _shared_of(x, (64, 40), (32, 40)), CoresDiffer, "is .* on core 1"),
        (lambda x: _loops(x), CoresDiffer, "device loops"),
        (
            lambda x: _trips(x),
            CoresDiffer,
            "device loop 1 runs from 0 to .* on core 0, and from 0 to .* on core 1",
        ),
        (lambda x: _results(x), CoresDiffer, "different results"),
        (lambda x: _one_of(x, 0, 64), CoresDiffer, "another part of it"),
        (
            lambda x: [_one_of(x, 0, 0), result_like(x)][nl.program_id()],
            CoresDiffer,
            "core 0 returns `out`",
        ),
    ],
)
def test_programs_that_do_not_fit_together_are_refused(kernel, error, message):
    def named(x):
        return kernel(x)

    with pytest.raises(error, match=message):
        on_two(named, X)


def _shared_of(x, first, second):
    nl.ndarray(second if nl.program_id() else first, dtype=x.dtype, buffer=nl.shared_hbm, name="s")
    return result_like(x)


def _one_of(x, first, second):
    out = result_like(x)
    nisa.dma_copy(half(out), half(x))
    start = second if nl.program_id() else first
    return out[start : start + 64]


def _loops(x):
    out = result_like(x)
    for _ in range(nl.program_id()):
        nl.fori_loop(0, 2, lambda i: None)
    return out


def _trips(x):
    out = result_like(x)
    nl.fori_loop(0, 4 + nl.program_id(), lambda i: None)
    return out


def _results(x):
    out = result_like(x)
    return (out, out) if nl.program_id() else out


@pytest.mark.usefixtures("nki_0_6")
def test_meeting_on_one_core_is_refused_at_its_line():
    def kernel(x):
        out = result_like(x)
        nisa.core_barrier(out, (0, 1))
        return out

    with pytest.raises(InstructionError, match="needs both cores of a logical core") as caught:
        run(jit(kernel), X, target="trn2")
    assert caught.value.span.function == "kernel"


def test_a_chip_without_two_cores_refuses_the_launch():
    with pytest.raises(NotOnTarget, match="trn1 has 1 core"):
        on_two(exchanged, X, target="trn1")


def test_what_no_core_writes_is_not_a_number():
    def first_rows(x):
        out = result_like(x)
        start = nl.program_id() * 64
        nisa.dma_copy(out[start : start + 32], x[start : start + 32])
        return out

    expected = X.copy()
    expected[32:64] = expected[96:] = np.nan
    for _ in range(3):
        np.testing.assert_array_equal(on_two(first_rows, X).value, expected)


def test_a_pass_of_a_loop_races_with_the_next_one():
    """The barrier orders what a pass writes and reads, not what it reads and the next pass writes."""

    def kernel(x, barriers):
        shared, out = result_like(x), result_like(x)
        tile = nl.load(half(x))
        core = nl.program_id()

        def body(i):
            nisa.dma_copy(half(shared), tile)
            nisa.core_barrier(shared, (0, 1))
            nisa.dma_copy(tile, shared[(1 - core) * 64 : (2 - core) * 64])
            if barriers == 2:
                nisa.core_barrier(shared, (0, 1))

        nl.fori_loop(0, 3, body)
        nisa.dma_copy(half(out), tile)
        return out

    def races(barriers):
        return [f for f in on_two(kernel, X, barriers).findings if f.kind == "hazard"]

    assert len(races(1)) == 2 and not races(2)


@pytest.mark.parametrize(("rows", "left"), [(64, 0), (60, 4 * 40)])
def test_what_neither_core_writes_of_a_result_is_told(rows, left):
    def kernel(x):
        out = result_like(x)
        first = 0 if nl.program_id() == 0 else 64
        size = 64 if first == 0 else rows
        nisa.dma_copy(out[first : first + size], nl.load(x[first : first + size]))
        nisa.core_barrier(out, (0, 1))
        return out

    result = on_two(kernel, X)
    found = [f.message for f in result.findings if f.kind == "uninitialized"]
    assert [f"{left} of {X.size} elements" in message for message in found] == [True] * bool(left)
    assert np.isnan(result.value).sum() == left


def test_each_core_has_its_own_share_of_the_hbm_stack():
    """What the chip's HBM gives one of its cores is the same whether a logical core has one of them or two."""

    def kernel(x):
        out = result_like(x)
        nisa.dma_copy(out, nl.load(x))
        return out

    wide = np.zeros((128, 8192), np.float32)
    alone, both = (run(jit(kernel)[cores], wide, target="trn2") for cores in (1, 2))
    assert both.profile.total_ns == alone.profile.total_ns > 2 * wide.nbytes / 400


RANKS = [*itertools.product(itertools.product((0, 1), repeat=2), repeat=2)]


@pytest.mark.parametrize("ranks", RANKS)
def test_sendrecv_compute_takes_ranks_that_name_each_other_and_refuses_others(ranks):
    def kernel(x):
        here = nl.program_id(0)
        mine, got = nl.load(half(x)), nl.ndarray((64, x.shape[1]), dtype=x.dtype)
        to, source = ranks[here]
        nisa.sendrecv_compute(mine, got, to, source, nl.maximum)
        out = result_like(x)
        nisa.dma_copy(half(out), got)
        return out

    if ranks not in (((1, 1), (0, 0)), ((0, 0), (1, 1))):
        with pytest.raises(MissingPartner):
            on_two(kernel, X)
        return
    sources = [X[64 * source : 64 * source + 64] for _, source in ranks]
    expected = np.maximum(X, np.concatenate(sources))
    np.testing.assert_array_equal(on_two(kernel, X).value, expected)


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("to_itself", [True, False])
def test_cores_that_send_and_receive_other_things_are_told(core, to_itself):
    def kernel(x):
        out = result_like(x)
        here = nl.program_id()
        mine = nl.load(half(x))
        odd = here == core
        columns = mine.shape[1] - (2 if odd and not to_itself else 0)
        got = nl.ndarray((64, columns), dtype=mine.dtype, buffer=nl.sbuf)
        sent = mine[:, 0:columns]
        source = here if odd and to_itself else 1 - here
        nisa.sendrecv(sent, got, send_to_rank=1 - here, recv_from_rank=source, pipe_id=0)
        nisa.dma_copy(half(out)[:, 0:columns], got)
        return out

    nowhere = (
        f"core {core} sends to rank {1 - core} and receives from rank {core}, so .* goes nowhere"
    )
    words = nowhere if to_itself else r"core \d sends .* expects"
    with pytest.raises(MissingPartner, match=words):
        on_two(kernel, X)
