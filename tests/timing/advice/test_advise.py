"""What comes out of the rules together: rows of the profile, bounds, and what is said where nothing is."""

from __future__ import annotations

import pytest

from nki_lab.errors import UsageError
from nki_lab.profiler.analyses.advice import CATEGORY, Advice, Advices
from nki_lab.profiler.analyses.report import report
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.profiler.profile import Profile
from nki_lab.timing import tables
from nki_lab.timing.advice import TIMED_AT_ONCE, advise
from nki_lab.timing.limits import LIMITS
from nki_lab.timing.model import ModelledTimeline
from tests.timing import kernels
from tests.timing.timed import timed

from .cases import CASES

MATMUL = ((512, 256), "float32"), ((512, 1024), "float32")


@pytest.fixture(scope="module")
def model():
    return ModelledTimeline(timed(kernels.tiled_matmul, *MATMUL, target="trn2").timeline)


def rows_of(profile) -> list[str]:
    return [row["message"] for row in profile.records("Warning") if row["category"] == CATEGORY]


def test_advice_stands_among_the_warnings_by_gain(model) -> None:
    told = model.advice(None)
    assert len(told) >= 3 and set(told) <= set(
        model.advice(True)
    )  # timed again without being asked
    gains = [advice.gain_ns for advice in told]
    assert gains == sorted(gains, reverse=True)
    assert rows_of(model.profile) == [str(advice) for advice in told]
    known = {limit.message for limit in LIMITS}
    others = [r for r in model.profile.records("Warning") if r["category"] != CATEGORY]
    assert others and all(row["message"] in known for row in others)


def test_the_report_shows_the_largest_gains(model) -> None:
    text = report(model.profile)
    words = text[text.index("advice, the largest gain first") :].split("\n\n")[0]
    assert max(map(len, words.splitlines())) <= 92
    joined = " ".join(line.strip() for line in words.splitlines())
    for number, advice in enumerate(model.advice(None)[:3], 1):
        assert f"{number}. {advice}" in joined
    more = len(model.advice(None)) - 3
    assert (f"... {more} more" in joined) == (more > 0)


def test_a_saved_profile_keeps_its_advice(model) -> None:
    again = Profile.of(from_json(to_json(model.profile)))
    assert rows_of(again) == rows_of(model.profile)
    assert report(again) == report(model.profile)
    with pytest.raises(UsageError, match="cannot be timed again"):
        again.advice()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.words[0]}")
def test_what_is_not_timed_is_an_upper_bound(case) -> None:
    timeline = timed(case.bad, *case.specs, target=case.targets[-1]).timeline
    timed_again = {(a.rule, a.message): a for a in advise(timeline, exact=True)}
    bounds = {(a.rule, a.message): a for a in advise(timeline, exact=False)}
    assert timed_again.keys() <= bounds.keys()
    for key, advice in timed_again.items():
        assert advice.gain_ns <= bounds[key].gain_ns + 1
        assert "not timed again" in bounds[key].bound


def test_large_programs_are_looked_at_when_somebody_asks(monkeypatch) -> None:
    monkeypatch.setattr(tables, "LOOKED_AT_ONCE", 3)
    large = ModelledTimeline(timed(kernels.tiled_matmul, *MATMUL, target="trn2").timeline)
    (row,) = rows_of(large.profile)
    assert "ask for it with result.advice()" in row
    assert large.profile.advice()
    assert TIMED_AT_ONCE < 200_000


def test_the_same_advice_every_time() -> None:
    one, other = (advise(timed(kernels.tiled_matmul, *MATMUL).timeline) for _ in range(2))
    assert one == other and str(one) == str(other)
    assert len(str(one).splitlines()) < 40


def test_nothing_is_said_of_nothing() -> None:
    run = timed(kernels.chain, ((128, 64), "bfloat16"))
    empty = run.timeline.execution.kernel.with_(body=(), waits=())
    from nki_lab.ir.program.execution import Execution
    from nki_lab.timing.options import TimingOptions
    from nki_lab.timing.schedule import schedule

    nothing = advise(schedule(Execution.in_program_order(empty), TimingOptions()))
    assert nothing == () and "no advice" in str(nothing)


def test_how_a_piece_of_advice_reads() -> None:
    told = Advice("small DMAs", "64 transfers", "move more", ("k.py:3", "k.py:9"), 2500, 10_000)
    assert told.gain_share == 0.25
    assert str(told) == (
        "small DMAs (saves 2.500 us, 25.0 %, timed again): k.py, line 3; k.py, line 9: 64 transfers. Help: move more."
    )
    bounded = Advice("transposes", "8", "swap", (), 100, 1000, "as if they took no time")
    assert str(bounded) == (
        "transposes (saves up to 0.100 us, 10.0 %; as if they took no time): 8. Help: swap."
    )
    assert Advices([told, bounded]).of("transposes") == (bounded,)
