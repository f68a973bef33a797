"""Tests that queues, rings and what they share follow their rules in programs made for one rule each.

Programs here are made of costs without instructions; times are in picoseconds. The semaphore hop is 40,000.
"""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest

from nki_lab.errors import InstructionError
from nki_lab.ir.definition.cost import MicroOp, Port, Stage, Transfer
from nki_lab.ir.definition.form_times import Record, RingKey, record_of
from nki_lab.targets import TRN2
from nki_lab.targets.engines import DMA, GPSIMD, SCALAR, SYNC, TENSOR, VECTOR
from nki_lab.timing.program import QueuedProgram, queues_of
from nki_lab.timing.schedule import times_of

HOP = TRN2.semaphore_hop_ns * 1000
TABLE = TRN2.scalar_table_load_ns * 1000


class Stand(SimpleNamespace):
    """Stands for a form, which records know as long as a program holds it: here FORMS does."""


FORMS: list[Stand] = []


def form(**facts) -> Stand:
    FORMS.append(Stand(**facts))
    return FORMS[-1]


def step(engine, interval, latency=0, **facts) -> Record:
    record = Record(form(engine=engine), ())
    return put(record, interval=interval, latency=latency, **facts)


def move(way, work, issue=0, lead=0, tail=0, maker="none", issuer=SYNC) -> Record:
    record = Record(form(engine=DMA), ())
    queue = RingKey(issuer, maker, way)
    return put(record, queue=queue, work=work, issue=issue, lead=lead, tail=tail)


def put(record: Record, **facts) -> Record:
    for name, value in facts.items():
        setattr(record, name, value)
    return record


def run(*entries):
    """Time a program of costs, each alone or with the entries it waits for."""
    pairs = [e if isinstance(e, tuple) else (e, ()) for e in entries]
    records = [record for record, _ in pairs]
    waits = [waited for _, waited in pairs]
    return times_of(QueuedProgram(range(len(records)), records, waits, queues_of(records)), TRN2)


# -- engines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [VECTOR, TENSOR])
def test_results_come_in_order(engine) -> None:
    board = run(step(engine, 10, latency=500_000), step(engine, 10, latency=0))
    assert board.end[1] >= board.end[0] >= 500_000


def test_results_of_an_engine_that_shares_come_in_order() -> None:
    port = (Port.PSUM_SHARED,)
    board = run(
        step(VECTOR, 10, latency=500_000, ports=port),
        step(VECTOR, 10, ports=port),
        step(SCALAR, 10, ports=port),
    )
    assert board.end[1] >= board.end[0] >= 500_000


def test_a_shared_port_is_held_for_the_interval_and_not_for_the_latency() -> None:
    port = (Port.PSUM_SHARED,)
    board = run(
        step(VECTOR, 1000, latency=500_000, ports=port),
        step(SCALAR, 3000, ports=port),
        step(VECTOR, 1000, ports=port),
    )
    assert sorted(board.start) in ([0, 1000, 2000], [0, 1000, 4000])
    spans = sorted(zip(board.start, [1000, 3000, 1000], strict=True))
    assert all(a + length <= b for (a, length), (b, _) in itertools.pairwise(spans))


def test_an_engine_that_shares_keeps_its_activation_table() -> None:
    port = (Port.PSUM_SHARED,)
    board = run(
        step(SCALAR, 10, ports=port, table="exp"),
        step(SCALAR, 10, ports=port, table="exp"),
        step(VECTOR, 10, ports=port),
    )
    assert board.table_loads == [(0, 0)]
    assert board.start[0] == TABLE
    assert board.start[1] == TABLE + 10


def test_ports_of_one_engine_do_not_delay_it() -> None:
    port = (Port.SBUF_SHARED,)
    board = run(step(VECTOR, 100, ports=port), step(VECTOR, 100, ports=port), step(SCALAR, 5))
    assert board.start == [0, 100, 0]


# -- rings ---------------------------------------------------------------------------------------------------------


def test_two_rings_of_one_maker_issue_one_after_the_other() -> None:
    board = run(
        move("in", 100, issue=600, maker="hwdge"), move("out", 100, issue=600, maker="hwdge")
    )
    assert sorted(board.trigger) == [0, 600]
    apart = run(
        move("in", 100, issue=600, maker="hwdge"),
        move("out", 100, issue=600, maker="hwdge", issuer=SCALAR),
    )
    assert apart.trigger == [0, 0]


@pytest.mark.parametrize("computes", [False, True])
def test_two_rings_that_both_have_work_take_turns_with_their_issuer(computes: bool) -> None:
    """A store that stands in line is not overtaken by every load that has waited since the start."""
    loads = [move("in", 10, issue=600, maker="swdge", issuer=GPSIMD)] * 120
    late = step(VECTOR, 3000)
    store = move("out", 10, issue=600, maker="swdge", issuer=GPSIMD)
    board = run(*loads, late, (store, (120,)), *[step(GPSIMD, 500)] * computes)
    ready = board.done[120]
    assert ready <= board.trigger[121] <= ready + 2 * 600
    triggers = sorted(board.trigger[:120] + board.trigger[121:122])
    assert all(b - a >= 600 for a, b in itertools.pairwise(triggers))
    assert triggers[-1] == 120 * 600 + 500 * computes  # and no time is lost


def test_an_instruction_of_the_writer_of_descriptors_is_not_overtaken_either() -> None:
    loads = [move("in", 10, issue=600, maker="swdge", issuer=GPSIMD)] * 120
    board = run(*loads, step(VECTOR, 3000), (step(GPSIMD, 500), (120,)))
    ready = board.done[120]
    assert ready <= board.start[121] <= ready + 2 * 600
    assert max(board.trigger) == 119 * 600 + 500


def test_issuing_goes_on_while_the_ring_is_served() -> None:
    """What is looked at late was still issued early: the store takes only its own time of the issuer."""
    loads = [move("in", 10_000, issue=600, lead=700)] * 3
    store = move("out", 10_000, issue=600, lead=700)
    board = run(*loads, step(VECTOR, 5000), (store, (3,)))
    assert board.trigger[4] == board.done[3]
    assert board.trigger[1] < board.trigger[4]
    assert board.start[1] == board.end[0]  # the second load was there when the first ended


def test_transfers_of_a_ring_are_served_in_order_and_rings_at_once() -> None:
    long, short = move("in", 9000), move("out", 1000)
    board = run(long, move("in", 10), short)
    assert board.start[0] == board.start[2] == 0
    assert board.end[2] == 2000  # half the rate
    assert board.end[0] == 10_000
    assert board.start[1] == 10_000


def test_a_third_ring_takes_a_third() -> None:
    rings = [move("in", 3000), move("out", 3000), move("in", 3000, issuer=SCALAR)]
    assert run(*rings).end == [9000, 9000, 9000]


@pytest.mark.parametrize("other", [0, 1])
def test_who_waits_for_a_transfer_waits_for_its_completion(other: int) -> None:
    entries = [move("in", 1000, tail=310), (step(VECTOR, 10), (0,))]
    entries += [move("out", 1000)] * other  # served beside it, or not
    board = run(*entries)
    assert board.start[1] == board.end[0] + 310


def test_work_is_conserved_whatever_arrives_when() -> None:
    """The engines are never idle while a transfer is there, and never do more than one transfer's work at a time."""
    rng = random.Random(7)
    for _ in range(60):
        entries: list = []
        for _ in range(rng.randint(2, 12)):
            if rng.random() < 0.4:
                entries.append(step(VECTOR, rng.randint(1, 4000)))
            way, issuer = rng.choice(("in", "out")), rng.choice((SYNC, SCALAR))
            waits = (len(entries) - 1,) if entries and rng.random() < 0.5 else ()
            entries.append(
                (move(way, rng.randint(1, 9000), issue=rng.randint(0, 300), issuer=issuer), waits)
            )
        board = run(*entries)
        records = [e[0] if isinstance(e, tuple) else e for e in entries]
        moved = [n for n, r in enumerate(records) if r.form.engine is DMA]
        for n in moved:
            assert board.end[n] - board.start[n] >= records[n].work
            assert board.start[n] >= board.trigger[n] + records[n].issue
        # Over every span in which some transfer is under way, exactly that much work is done.
        spans = sorted((board.start[n], board.end[n], records[n].work) for n in moved)
        begin, reach, work = spans[0]
        for start, end, more in spans[1:]:
            if start > reach:
                assert reach - begin == pytest.approx(work, abs=10)
                begin, reach, work = start, end, 0
            reach = max(reach, end)
            work += more
        assert reach - begin == pytest.approx(work, abs=10)


# -- costs ---------------------------------------------------------------------------------------------------------


def costed(engine, *costs):
    definition = SimpleNamespace(name="made_up", cost_of=lambda example, target: costs)
    made = form(engine=engine, definition=definition, example=None, cache={})
    return record_of(made, TRN2, 1.0)  # type: ignore[arg-type]


def test_a_latency_of_its_own_replaces_the_engines() -> None:
    plain = costed(VECTOR, MicroOp("A", 96))
    assert (plain.interval, plain.latency) == (100_000, 148_000)
    own = costed(VECTOR, MicroOp("A", 96, latency_cycles=48))
    assert (own.interval, own.latency) == (100_000, 50_000)


def test_steps_follow_each_other_and_loads_stand_apart() -> None:
    two = costed(VECTOR, MicroOp("A", 96), MicroOp("B", 48))
    assert two.interval == 150_000
    product = costed(
        TENSOR,
        MicroOp("L", 24, stage=Stage.LOAD_STATIONARY),
        MicroOp("M", 240, stage=Stage.MULTIPLY_MOVING),
    )
    assert (product.load, product.interval) == (10_000, 100_000)


A_TRANSFER = Transfer("T", 512, 1, 1, 512, 512, "hbm", "sbuf", "none", SYNC)


@pytest.mark.parametrize(
    ("engine", "costs"),
    [
        (VECTOR, ()),
        (VECTOR, (MicroOp("A", 1, engine=GPSIMD),)),
        (VECTOR, (MicroOp("A", 1), A_TRANSFER)),
        (DMA, (A_TRANSFER, MicroOp("A", 1))),
        (TENSOR, (MicroOp("L", 1, stage=Stage.LOAD_STATIONARY),) * 2),
        (TENSOR, (MicroOp("M", 1), MicroOp("L", 1, stage=Stage.LOAD_STATIONARY))),
    ],
)
def test_costs_the_model_does_not_know_are_refused(engine, costs) -> None:
    with pytest.raises(InstructionError, match="made_up"):
        costed(engine, *costs)
