"""Tests that arrays change their sign wherever their elements lie."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nki_lab
from nki_lab.isa.arrays import change_sign
from tests.isa.case import Case, Traced, check, empty, isa, nl, tile

STEPS = (1, 2, 3, 4, 8, 16)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "uint16", "int8"])
@pytest.mark.parametrize("step", STEPS)
def test_elements_may_lie_apart(dtype, step):
    values = np.resize(np.array([0, 1, 2, 7, 100], dtype), 33)
    expected = np.array([-int(v) % 2**64 for v in values], np.uint64).astype(dtype)
    if np.dtype(dtype).kind == "f":
        expected = np.array([-float(v) for v in values], dtype)
    for other in STEPS:
        source, out = np.zeros(33 * step, dtype), np.zeros(33 * other, dtype)
        source[::step] = values
        change_sign(source[::step], out[::other])
        assert out[::other].tobytes() == expected.tobytes()
        change_sign(source[::step], source[::step])
        assert source[::step].tobytes() == expected.tobytes()


@pytest.mark.parametrize("step", STEPS)
def test_a_column_of_a_tile_may_hold_what_is_negated(step):
    """Statistics of several kinds are often columns of one tile, which lie as far apart as it is wide."""
    x = np.random.default_rng(step).standard_normal((32, 5)).astype(np.float32)
    case = Case(
        "tensor_reduce", "negated column",
        {"dst": empty((32, step), view=lambda t: t[:, 0:1]), "data": tile(x)},
        lambda t: isa.tensor_reduce(t.dst, nl.max, t.data, 1, negate=True),
    )  # fmt: skip
    kept = np.tile(case.tiles["dst"].data[:1], (32, 1)).astype(float)
    kept[:, 0] = -x.max(axis=1)
    traced = Traced(Case(case.instruction, case.name, case.tiles, case.run, {"dst": kept}), "trn2")
    check(traced.case, traced.simulate())


@pytest.mark.parametrize("step", STEPS)
def test_every_other_element_may_go_through_an_activation(step):
    x = np.random.default_rng(step).standard_normal((16, 3 * step)).astype(np.float32)
    expected = 1 / (1 + np.exp(-x[:, ::step].astype(float)))
    for op, wanted in ((nl.sigmoid, expected), (nl.softplus, -np.log(1 - expected))):
        whole = empty(x.shape).data.astype(float)
        whole[:, ::step] = wanted
        case = Case(
            "activation", "step",
            {"dst": empty(x.shape, view=lambda t: t[:, ::step]), "data": tile(x, view=lambda t: t[:, ::step])},
            lambda t, op=op: isa.activation(t.dst, op, t.data),
            {"dst": whole}, rtol=1e-5,
        )  # fmt: skip
        check(case, Traced(case, "trn2").simulate())


def test_nothing_else_negates():
    using = [
        file.name
        for file in Path(nki_lab.__file__).parent.rglob("*.py")
        if re.search(r"np\.negative\b(?! of)", file.read_text(encoding="utf-8"))
    ]
    assert using == []
