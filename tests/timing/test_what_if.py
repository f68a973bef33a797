"""What-if: the same program timed again without some costs, against times that are known without the model."""

from __future__ import annotations

import re

import pytest

from nki_lab.errors import UnknownOption, UsageError
from nki_lab.ir.definition.form_times import Record
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.profiler.profile import Profile
from nki_lab.targets import ALL_TARGETS
from nki_lab.timing.model import ModelledTimeline
from nki_lab.timing.what_if import CHANGES, what_if
from tests.timing import kernels
from tests.timing.timed import timed

TARGETS = [t.name for t in ALL_TARGETS]
CHAIN = (kernels.chain, ((128, 512), "float32"))
STREAM = (kernels.streamed, ((1024, 512), "float32"))


def asked(run, *changes):
    return what_if(run.timeline, changes)


@pytest.mark.parametrize("target", TARGETS)
def test_a_part_of_a_chain_saves_its_own_time(target) -> None:
    run = timed(*CHAIN, target=target)
    (exp,), (add,), (load, store) = (
        run.of("activation"),
        run.of("tensor_scalar"),
        run.transfers,
    )
    # The table is loaded before the data arrives, so that it saves nothing.
    assert asked(run, "free-tables").gain_ns == 0
    assert asked(run, "free-scalar").gain_ns == pytest.approx(exp.duration, abs=1)
    assert asked(run, "free-vector").gain_ns == pytest.approx(add.duration, abs=1)
    both = asked(run, "free-scalar", "free-vector")
    assert both.gain_ns == pytest.approx(exp.duration + add.duration, abs=1)
    # From the trigger to where Scalar begins, which then still loads its table.
    table = run.kernel.target.scalar_table_load_ns
    waited = exp.start - load.trigger - table
    assert asked(run, "free-loads").gain_ns == pytest.approx(waited, abs=1)
    assert asked(run, "free-stores").gain_ns == pytest.approx(store.end - store.trigger, abs=1)
    # Scalar to Vector, Vector to the store.
    assert asked(run, "free-signals").gain_ns == pytest.approx(
        2 * run.kernel.target.semaphore_hop_ns, abs=1
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_line_costs_what_its_instructions_cost(target) -> None:
    run = timed(*CHAIN, target=target)
    line = kernels.chain.__code__.co_firstlineno + 8  # tensor_scalar
    for place in (str(line), f"kernels.py:{line}"):
        assert asked(run, f"line={place}").after_ns == asked(run, "free-vector").after_ns


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_left_when_everything_is_free(target) -> None:
    run = timed(*STREAM, target=target)
    hop = run.kernel.target.semaphore_hop_ns
    everything = asked(run, "free-dma", "free-scalar", "free-vector")
    assert 0 < everything.after_ns <= 4 * hop
    assert asked(run, *everything.changes, "free-signals").after_ns == 0


@pytest.mark.parametrize("target", TARGETS)
def test_parts_of_a_transfer_make_up_the_whole(target) -> None:
    run = timed(*CHAIN, target=target)
    t = run.kernel.target
    issue = t.dma_hardware_issue_ns or t.dma_static_issue_ns
    assert asked(run, "free-issue").gain_ns == pytest.approx(2 * issue, abs=1)
    ways = 2 * t.dma_start_ns + t.dma_completion_ns  # nobody waits for the completion of the store
    with_latency = asked(run, "free-tables").after_ns  # else Scalar loads a table meanwhile
    without = asked(run, "free-tables", "free-latency").after_ns
    assert with_latency - without == pytest.approx(ways, abs=1)


def test_full_rate_lifts_the_current_limit_only_where_there_is_one() -> None:
    specs = ((256, 256), "bfloat16"), ((256, 1024), "bfloat16")
    for target in ALL_TARGETS:
        run = timed(kernels.tiled_matmul, *specs, target=target.name)
        asked_for = {a.changes[0] for a in ModelledTimeline(run.timeline).what_ifs()}
        assert ("full-rate" in asked_for) == (target.pe_throttle_fraction is not None)
        assert "free-gpsimd" not in asked_for and "free-tensor" in asked_for


@pytest.mark.parametrize("target", TARGETS)
def test_all_questions_sorted_by_gain(target) -> None:
    profile = ModelledTimeline(timed(*STREAM, target=target).timeline).profile
    answers = profile.what_if()
    gains = [a.gain_ns for a in answers]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    assert {a.changes[0] for a in answers} <= CHANGES.keys()
    assert str(answers) == str(profile.what_if())
    assert len(str(answers).splitlines()) == 1 + len(answers)
    single = profile.what_if(*answers[0].changes)
    assert single == answers[0]
    assert single.profile.total_ns == single.after_ns
    assert single.meaning in single.profile.name
    assert single.profile.critical_path().total_ns == single.after_ns


def test_what_is_no_question_is_refused() -> None:
    run = timed(*CHAIN)
    with pytest.raises(UnknownOption, match="did you mean `free-loads`"):
        asked(run, "free-load")
    with pytest.raises(UnknownOption, match="no instruction comes from line 1\n") as caught:
        asked(run, "line=1")
    # The nearest come first, not those whose names are spelt alike.
    named = re.findall(r":(\d+)", caught.value.help)
    assert named and named == sorted(named, key=int)
    profile = ModelledTimeline(run.timeline).profile
    with pytest.raises(UnknownOption, match="a question is a string, not a list"):
        profile.what_if(["free-loads", "free-stores"])
    with pytest.raises(UsageError, match="cannot be timed again"):
        Profile.of(from_json(to_json(profile))).what_if("free-loads")


def test_a_free_record_has_no_time_left() -> None:
    """A time that is added to the model must be added to what a free instruction does not take."""
    run = timed(*STREAM)
    for record in run.timeline.entries_by_record:
        free = record.free()
        assert free.queue == record.queue and free.form is record.form
        for name in Record.__slots__:
            value = getattr(free, name)
            assert not isinstance(value, int | float) or value == 0, name
