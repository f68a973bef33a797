"""Does each rule speak up on a kernel that makes the mistake, and is it silent on the mended one?"""

from __future__ import annotations

import pytest

from nki_lab.timing.advice import LEAST_GAIN, RULES, advise
from tests.timing.timed import timed

from .cases import CASES, Case

RUNS = [(case, target) for case in CASES for target in case.targets]


def name(value: object) -> str:
    return f"{value.rule} {value.words[0]}" if isinstance(value, Case) else str(value)


@pytest.mark.parametrize(("case", "target"), RUNS, ids=name)
def test_a_mistake_is_told_and_its_remedy_is_not(case: Case, target: str) -> None:
    bad = timed(case.bad, *case.specs, target=target)
    good = timed(case.good, *(case.good_specs or case.specs), target=target)
    told = advise(bad.timeline)
    found = told.of(case.rule)
    assert found, told
    text = "\n".join(map(str, found))
    for words in case.words:
        assert words in text
    assert not advise(good.timeline).of(case.rule)
    best = found[0]
    assert LEAST_GAIN * bad.total < best.gain_ns <= bad.total == best.total_ns
    assert best.places and all(":" in place for place in best.places)
    assert best.bound or "timed again" in best.gain
    if case.exact:  # lines that the remedy changes together are told one by one
        gain = sum(advice.gain_ns for advice in found)
        assert gain == pytest.approx(bad.total - good.total, rel=0.3)


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in RULES}
    # On every chip, unless the chip lacks what the rule is about.
    everywhere = {case.rule for case in CASES if len(case.targets) == 3}
    assert (
        {rule.name for rule in RULES} - everywhere
        == {
            "engine imbalance",  # trn1: Vector and GpSimd take turns, and Scalar has no instruction of theirs
            "PSUM conflict",  # two cases: a conflict of banks, and trn1's port
            "ramp-up",  # trn1 has no current limit
        }
    )
