"""Tests that the first advice on a kernel with one planted fault names it and promises what mending it gains."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from benchmarks.advice import Outcome, outcome_of, page
from nki_lab.timing.advice import RULES

from .faults import FAULTS, Fault

#: Part of the twin's time by which a promise may be wrong.
PROMISE = 0.03
#: Part of the run that advice on a well-tuned kernel may promise.
TUNED = 0.05

outcome = cache(outcome_of)
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@every_fault
def test_the_first_advice_names_the_fault_and_its_line(fault: Fault) -> None:
    first = outcome(fault).first
    assert first is not None
    assert first.rule == fault.rule
    assert first.places[0] in fault.lines


@every_fault
def test_the_promise_is_what_the_twin_gains(fault: Fault) -> None:
    told: Outcome = outcome(fault)
    assert told.first is not None and told.gain_ns > 0
    if told.first.bound:
        assert told.first.gain_ns >= told.gain_ns
    else:
        assert told.bad_ns - told.first.gain_ns == pytest.approx(told.good_ns, rel=PROMISE)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.tuned], ids=lambda fault: fault.name)
def test_a_mended_kernel_gets_no_large_advice(fault: Fault) -> None:
    assert [str(a) for a in outcome(fault).rest if a.gain_share > TUNED] == []


def test_rules_of_faults_exist() -> None:
    assert {fault.rule for fault in FAULTS} <= {rule.name for rule in RULES}


def _data(fault: Fault, good: bool, rng: np.random.Generator) -> list[np.ndarray]:
    shapes = fault.good_shapes if good and fault.good_shapes else fault.shapes
    dtypes = {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    return [rng.uniform(0.5, 1.0, shape).astype(dtypes[dtype]) for shape, dtype in shapes]


@every_fault
def test_the_twin_computes_the_same_values(fault: Fault, rng: np.random.Generator) -> None:
    bad = _data(fault, False, rng)
    good = bad
    if fault.good_shapes:
        good = [
            (a if a.shape == shape else a.transpose(2, 0, 1)).astype(
                ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32
            )
            for a, (shape, dtype) in zip(bad, fault.good_shapes, strict=True)
        ]
    one, other = (
        np.asarray(nki_lab.run(k, *arrays, lnc=fault.cores, target="trn2").value, np.float32)
        for k, arrays in ((fault.bad, bad), (fault.good, good))
    )
    np.testing.assert_allclose(
        one, other, rtol=0.5 if "float32 on" in fault.name else 1e-2, atol=0.02
    )


def test_the_page_on_advice_is_current(golden) -> None:
    golden(page(), "../../docs/advice.md")
