"""Tests that a kernel is reported that reads an accumulator that holds nothing defined."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.isa.enums import reduce_cmd
from tests.language.evaluate import run_kernel, stored

activation, exponential = registry["activation"], registry["exponential"]
tensor_scalar_reduce = registry["tensor_scalar_reduce"]
IDLE, REDUCE, RESET_REDUCE = reduce_cmd.idle, reduce_cmd.reduce, reduce_cmd.reset_reduce
X = np.random.default_rng(0).standard_normal((16, 40)).astype(np.float32)


def scalar(t, total, command):
    activation(t, nl.copy, t, reduce_op=nl.add, reduce_cmd=command, reduce_res=total)


def vector(t, total, command):
    if command is IDLE:
        exponential(t, t)
    else:
        tensor_scalar_reduce(t, t, nl.multiply, 1.0, nl.add, total, reduce_cmd=command)


def run(*steps):
    """Run (instruction, command) pairs; return the last total, and the findings about accumulators."""

    def kernel(x):
        t = nl.load(x)
        total = nl.ndarray((16, 1), nl.float32)
        for step, command in steps:
            step(t, total, command)
        return stored(total)

    (result,), compiled = run_kernel(kernel, X)
    found = [f for f in compiled.findings if "accumulator" in f.message]
    assert all((f.kind, f.code) == ("uninitialized", "NKI401") and f.stack for f in found)
    return result, [f.message for f in found]


@pytest.mark.parametrize(
    "steps",
    [
        [(scalar, RESET_REDUCE)],
        [(scalar, RESET_REDUCE), (scalar, REDUCE), (scalar, IDLE)],
        [(vector, RESET_REDUCE), (vector, REDUCE)],
        [(vector, IDLE), (vector, RESET_REDUCE)],
        [(vector, RESET_REDUCE), (vector, IDLE), (scalar, RESET_REDUCE)],
    ],
)
def test_defined_accumulators(steps):
    result, found = run(*steps)
    assert np.isfinite(result).all()
    assert found == []


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([(scalar, REDUCE)], "activation: the accumulator of Scalar"),
        ([(scalar, IDLE)], "activation: the accumulator of Scalar"),
        ([(vector, REDUCE)], "tensor_scalar_reduce: the accumulator of Vector"),
        # What idle leaves is undefined on Vector, and another engine's reset is not this one's.
        ([(vector, RESET_REDUCE), (vector, IDLE), (vector, REDUCE)], "the accumulator of Vector"),
        ([(vector, RESET_REDUCE), (scalar, REDUCE)], "the accumulator of Scalar"),
    ],
)
def test_undefined_accumulators(steps, what):
    result, found = run(*steps)
    assert np.isnan(result).all()
    assert len(found) == 1 and what in found[0]
    assert found[0].endswith("is read before any instruction has set it")
