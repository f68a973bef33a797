"""Tests the rules for device loops: the text, and the values, with bounds and conditions that only a run knows."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
from nki_lab.migration.facts import Facts
from nki_lab.migration.rewriter import rewritten
from nki_lab.versions import NEWEST, version_named

KERNEL = """\
@nki.jit
def kernel(a, n):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    count = nl.load(n)
    r = nisa.register_alloc()
    nisa.register_load(r, count)
{loop}    nl.store(out, t)
    return out
"""
FOR = """\
    # every column
    for i in nl.dynamic_range({bounds}):
        # twice
        column = t.ap([[24, 40], [1, 1]], scalar_offset=i, indirect_dim=1)
        nisa.tensor_scalar(column, column, nl.multiply, 2.0)  # in place
"""
FORI = """\
    # every column
    def body(i):
        # twice
        column = t.ap([[24, 40], [1, 1]], scalar_offset=i, indirect_dim=1)
        nisa.tensor_scalar(column, column, nl.multiply, 2.0)  # in place
    nl.fori_loop({bounds})
"""
WHILE = """\
    while r:
        nisa.tensor_scalar(t, t, nl.subtract, 0.75)
        nisa.tensor_scalar(count, count, nl.subtract, 1)
        nisa.register_load(r, count)
"""
WHILE_LOOP = """\
    def body(r):
        nisa.tensor_scalar(t, t, nl.subtract, 0.75)
        nisa.tensor_scalar(count, count, nl.subtract, 1)
        nisa.register_load(r, count)
        return r
    nl.while_loop(r, body)
"""


@pytest.fixture
def inputs(rng):
    return rng.standard_normal((40, 24)).astype(np.float32), np.array([[7]], np.int32)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FOR.format(bounds="r"), FORI.format(bounds="0, r, body")),
        (FOR.format(bounds="3, r, 2"), FORI.format(bounds="3, r, body, 2")),
        (FOR.format(bounds="1, stop=5"), FORI.format(bounds="1, 5, body")),
        (WHILE, WHILE_LOOP),
    ],
    ids=["for", "for with a step", "for with names", "while"],
)
@pytest.mark.parametrize("since", ["0.3", "0.6"])
def test_a_device_loop_becomes_a_function(old, new, since, module, inputs):
    path = module(KERNEL.format(loop=old))
    moved = nki_lab.migrate(f"{path}::kernel", *inputs, nki=since)
    assert moved.text == path.read_text().replace(old, new), moved.diff()
    assert moved.is_equal and not moved.undecided, moved.report()
    assert moved.proof[0].after.kernel.has_loops
    changed = moved.proof[0].after.outputs[0] != inputs[0]
    assert changed.any(), "the loop did something"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("total = total + 1", "`total` is carried"),
        ("total += 1", "`total` is carried"),
        ("break", "its body is left"),
        ("u = nl.copy(t)", "`u` is bound in the body and read after it"),
    ],
)
def test_a_loop_that_cannot_be_a_function_is_left(body, why):
    text = f"""\
import nki.isa as nisa
import nki.language as nl


def kernel(t, r):
    total = 0
    # counts
    for i in nl.dynamic_range(r):
        {body}
    nl.store(out, u)
"""
    moved = rewritten(text, Facts(), version_named("0.6"), NEWEST)
    assert why in moved.undecided[0].text
    assert (
        "    # counts\n    # migrate: write nl.fori_loop(lower, upper, body, step); " in moved.text
    )
    assert "    for i in nl.dynamic_range(r):" in moved.text


def test_a_name_that_every_pass_binds_anew_does_not_matter():
    text = """\
import nki.language as nl


def kernel(t, r):
    for k in range(3):
        for i in nl.dynamic_range(r):
            u = nl.copy(t)
            nl.store(t, [u for u in (u, u)][0])
        u = nl.copy(t)
        nl.store(t, u)
"""
    moved = rewritten(text, Facts(), version_named("0.6"), NEWEST)
    assert not moved.undecided and "nl.fori_loop(0, r, body)" in moved.text
    head, tail = text.split("        u = nl.copy(t)\n        nl.store")
    carried = head.replace("        for i in", "        nl.store(t, u)\n        for i in")
    assert tail and rewritten(carried, Facts(), version_named("0.6"), NEWEST).undecided
