"""Tests that `assert nl.equal(a, b)` looks at the values of each run, and only that form of it."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import CheckFailed, TensorOperator
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime import run
from nki_lab.runtime.jit import jit
from nki_lab.timing import simulate_time

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 9


def _stored(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@jit
def doubled(x, y):
    tile = nl.load(x)
    twice = nl.add(tile, tile)
    assert nl.equal(twice, nl.load(y)), "not twice as much"
    return _stored(twice)


def test_it_holds_or_names_the_line_and_the_first_element():
    assert np.array_equal(doubled(X, 2 * X), 2 * X)
    wrong = 2 * X
    wrong[2, 3:5] += 1
    with pytest.raises(
        CheckFailed, match=r"2 of 24 elements are false, the first at \[2, 3\]"
    ) as caught:
        doubled(X, wrong)
    assert "nl.equal(" in caught.value.span.text
    assert isinstance(caught.value, AssertionError)


def test_each_run_of_a_compiled_kernel_looks_again():
    compiled = doubled.compile(X, 2 * X)
    for scale in (1, -3):
        assert np.array_equal(compiled(X * scale, 2 * X * scale), 2 * X * scale)
    with pytest.raises(CheckFailed):
        compiled(X, X)


def test_every_pass_of_a_device_loop_is_looked_at():
    def kernel(x, rows):
        out = _stored(nl.load(x))

        def body(i):
            row = nl.load(x[nl.ds(i, 1)])
            assert nl.less(row, 9.5)
            nisa.dma_copy(out[nl.ds(i, 1)], row)

        nl.fori_loop(0, rows, body)
        return out

    assert np.array_equal(run(kernel, X, 3).outputs[0], X)
    with pytest.raises(CheckFailed, match=r"5 of 6 elements are false, the first at \[0, 1\]"):
        run(kernel, X, 4)


def test_a_body_that_counts_for_itself_is_looked_at_too():
    seen = []

    def kernel(x, rows):
        out = _stored(nl.load(x))

        def body(i):
            row = nl.load(x[nl.ds(i, 1)])
            seen.append(
                row.shape
            )  # what a rehearsal of further passes is for: it changes no instruction
            assert nl.less(row, 9.5)
            nisa.dma_copy(out[nl.ds(i, 1)], row)

        nl.fori_loop(0, rows, body)
        return out

    assert np.array_equal(run(kernel, X, 3).outputs[0], X)
    with pytest.raises(CheckFailed, match=r"5 of 6 elements are false, the first at \[0, 1\]"):
        run(kernel, X, 4)


def test_a_named_comparison_in_psum_and_in_parentheses():
    def kernel(x):
        tile = nl.load(x)
        same = nl.ndarray(x.shape, nl.float32, buffer=nl.psum)
        nisa.tensor_tensor(same, tile, tile, op=nl.equal)
        assert same
        return _stored(tile)

    assert np.array_equal(run(kernel, X).outputs[0], X)


def test_it_takes_no_time_and_is_in_the_text():
    result = doubled.launch(X, 2 * X)
    text = print_kernel(result.compiled.kernel, comments=False)
    assert "assert_true" in text and print_kernel(read_kernel(text), comments=False) == text
    rows = simulate_time(result.execution).table("Instruction")
    assert "ASSERT" not in " ".join(rows["opcode"]).upper()


@pytest.mark.parametrize(
    "line",
    [
        "assert not nl.equal(t, t)",
        "assert x.shape and nl.equal(t, t)",
        "assert nl.equal(t, t) or True",
        "y = 1 if nl.equal(t, t) else 2",
        "while nl.equal(t, t): pass",
    ],
)
def test_other_conditions_stay_refused(line, tmp_path):
    import runpy

    file = tmp_path / "kernel.py"
    file.write_text(
        f"import nki_lab.language as nl\n\ndef kernel(x):\n    t = nl.load(x)\n    {line}\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n    return out\n"
    )
    with pytest.raises(TensorOperator, match="truth value"):
        run(runpy.run_path(str(file))["kernel"], X)
