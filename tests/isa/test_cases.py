"""Tests that every instruction computes what its cases expect, and refuses what they say it must."""

from __future__ import annotations

import pytest

from nki_lab.choices import Choices
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.targets import ALL_TARGETS, Target
from tests.isa.case import Case, Traced, check
from tests.isa.cases import ALL

RUNS = [(c, t) for c in ALL if not c.breaks for t in ALL_TARGETS if t.name in c.targets]
BREAKS = [(c, t) for c in ALL if c.breaks for t in ALL_TARGETS if t.name in c.targets]


def label(value):
    return value.name if isinstance(value, Target) else str(value)


def test_names_are_unique():
    assert len({str(c) for c in ALL}) == len(ALL)


@pytest.mark.parametrize(("case", "target"), RUNS, ids=label)
def test_results(case: Case, target: Target):
    traced = Traced(case, target)
    assert [str(e) for e in traced.errors] == []
    assert traced.subject.form.engine in traced.subject.definition.engines
    check(case, traced.simulate())


@pytest.mark.parametrize("case", [c for c in ALL if not c.breaks], ids=str)
def test_results_in_shared_bytes(case: Case):
    traced = Traced(case, case.targets[-1])
    for allocate in (allocate_sbuf, allocate_psum):
        traced.kernel = allocate(traced.kernel, Choices())
    check(case, traced.simulate(shared_bytes=True))


@pytest.mark.parametrize(("case", "target"), BREAKS, ids=label)
def test_refusals(case: Case, target: Target):
    traced = Traced(case, target)
    broken = [r.text for r in traced.subject.form.broken]
    assert len(broken) == 1, broken
    assert case.breaks in broken[0]
    error = traced.errors[0]
    assert error.message.startswith(f"{case.instruction}: ")
    assert error.help or "must be" in error.message
    described = dict.fromkeys(
        note.split(" = ")[0]
        for note in error.notes
        if not note.startswith(("here ", "NKI "))  # a version that took it
    )
    assert tuple(described) == traced.subject.form.broken[0].about
