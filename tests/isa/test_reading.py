"""Tests that a program of real instructions written as text and read back is the same program."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.choices import Choices
from nki_lab.compiler.pipeline import PASSES
from nki_lab.dtypes import DTYPES
from nki_lab.errors import NkiError
from nki_lab.ir.program.nodes import OutputRef
from nki_lab.ir.program.verify import verify
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa import enums
from nki_lab.isa.operators import OPS
from nki_lab.isa.reading import dotted_names, read_kernel
from tests.ir.programs import facts
from tests.isa.case import Case, Traced
from tests.isa.cases import ALL


def compiled(case: Case):
    """Return the compiled kernel of a case and its inputs."""
    traced = Traced(case, case.targets[0])
    results = tuple(OutputRef(k) for k in range(len(traced.kernel.outputs)))
    kernel = traced.kernel.with_(result=results)
    if not case.breaks:
        for run_pass in PASSES:
            kernel = run_pass(kernel, Choices())
    return kernel, traced


def said(error: NkiError):
    """Return the words of an error without those on the author's variables, which text does not hold."""
    notes = [note for note in error.notes if not note.startswith("here ")]
    return error.message, notes, error.help


@pytest.mark.parametrize("case", ALL, ids=str)
def test_every_use_of_an_instruction_survives_as_text(case: Case):
    kernel, traced = compiled(case)
    text = print_kernel(kernel)
    again = read_kernel(text)
    if "=<" in text:  # a mistake with a value from elsewhere, of which only the class is kept
        assert [e.message for e in verify(again)] == [e.message for e in traced.errors] != []
        return
    if any(rule.since for i in kernel.instructions for rule in i.form.broken):
        assert not list(verify(again)), "text does not say for which version of NKI it was written"
        return
    assert facts(again) == facts(kernel)
    assert print_kernel(again, comments=False) == print_kernel(kernel, comments=False)
    assert list(map(said, verify(again))) == list(map(said, traced.errors))
    if case.breaks:
        return
    # A program needs neither the author's text nor the compiler to run.
    for a, b in zip(traced.run(again), traced.run(kernel), strict=True):
        assert np.array_equal(a.view(np.uint8), b.view(np.uint8))


def test_every_operator_and_choice_has_a_name_of_its_own():
    names = dotted_names()
    assert all(names[f"nl.{name}"] is op for name, op in OPS.items())
    assert names["nisa.reduce_cmd.idle"] is enums.reduce_cmd.idle
    assert names["nisa.matmul_perf_mode.double_row"] is enums.matmul_perf_mode.double_row
    assert not {repr(d) for d in DTYPES.values()} & names.keys()
