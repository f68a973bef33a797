"""Tests findings that only the values of a run show: invalid inputs of functions, and loops that did not run."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import StrictFinding
from nki_lab.runtime import jit, run
from nki_lab.runtime.recording import NkiWarning
from nki_lab.source import Span
from tests.compiler.programs import line_of

X = np.random.default_rng(6).uniform(0.5, 2.0, (128, 6)).astype(np.float32)


def result_of(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def serious(result):
    return [f for f in result.findings if f.is_serious]


# -- ranges of activation functions ---------------------------------------------------------------------------------


def applied(x, op, scale=1.0, bias=None):
    t = nl.load(x)
    nisa.activation(t, op, t, scale=scale, bias=bias)  # the function
    return result_of(t)


def spoiled(value, count):
    x = X.copy()
    x.reshape(-1)[: 5 * count : 5] = value
    return x


@pytest.mark.parametrize(
    ("op", "value", "range_text"),
    [
        (nl.log, -1.0, "2**-64 to 2**64"),
        (nl.arctan, 4.0, "-pi/2 to pi/2"),
        (nl.sqrt, 0.0, "2**-116 to 2**118"),
        (nl.rsqrt, 1e30, "2**-87 to 2**97"),
        (nl.reciprocal, -1e-20, "2**-42 to 2**42 in magnitude"),
    ],
)
@pytest.mark.parametrize("count", [0, 3])
def test_inputs_outside_the_range_of_a_function_are_found(op, value, range_text, count):
    x = spoiled(value, count)
    if op is nl.arctan:
        x = np.where(x == value, x, x / 2).astype(np.float32)
    found = serious(run(jit(applied), x, op))
    if count == 0:
        assert found == []
        return
    (finding,) = found
    inputs = f"3 of 768 inputs of nl.{op.name} lie outside its valid range, {range_text}"
    assert finding.message == f"activation: {inputs}"
    assert Span.of(finding.stack[0]).line == line_of(__file__, "# the function")


def test_the_range_is_that_of_the_scaled_and_shifted_input():
    assert serious(run(jit(applied), X, nl.log, 1.0, -0.4)) == []
    (finding,) = serious(run(jit(applied), X, nl.log, 1.0, -1.0))
    expected = np.count_nonzero(X - np.float32(1) < 2.0**-64)
    assert f"{expected:,} of 768 inputs of nl.log" in finding.message


def test_a_sine_beyond_its_range_is_what_the_engine_gives_and_a_finding():
    result = run(jit(applied), np.full((128, 6), 9, np.float32), nl.sin)
    (finding,) = serious(result)
    assert "768 of 768 inputs of nl.sin lie outside its valid range, -pi to pi" in finding.message
    assert "call nl.sin(x)" in finding.help
    np.testing.assert_allclose(result.value, 27.65, atol=0.01)


def test_each_run_has_its_own_findings(capsys):
    compiled = jit(applied).compile(X, nl.log)
    assert [len(serious(compiled.launch(x, nl.log))) for x in (X, -X, X)] == [0, 1, 0]
    with pytest.warns(NkiWarning, match=r"768 of 768 inputs of nl\.log"):
        jit(applied)(-X, nl.log)


def test_inputs_are_counted_over_all_passes_of_a_loop():
    def looped(x):
        t, u = nl.load(x), nl.ndarray((128, 6), dtype=nl.float32, buffer=nl.sbuf)

        def body(i):
            nisa.activation(u, nl.log, t)

        nl.fori_loop(0, 3, body)
        return result_of(u)

    (finding,) = serious(run(jit(looped), spoiled(-1.0, 2)))
    assert "6 of 2,304 inputs of nl.log" in finding.message


def test_an_invalid_input_is_an_error_under_strict(monkeypatch):
    monkeypatch.setenv("NKI_LAB_STRICT", "1")
    run(jit(applied), X, nl.log)
    with pytest.raises(StrictFinding, match=r"inputs of nl\.log lie outside"):
        run(jit(applied), -X, nl.log)


def test_activate2_tells_of_its_inputs_too():
    def kernel(x):
        t = nl.load(x)
        nisa.activate2(t, nl.sqrt, t, -1.0, 0.0, nl.multiply, nl.bypass)
        return result_of(t)

    (finding,) = serious(run(jit(kernel), X, target="trn3"))
    assert "activate2: 768 of 768 inputs of nl.sqrt" in finding.message


# -- loops that did not run -----------------------------------------------------------------------------------------


def counted(x, count):
    """Write the result, and a tile that is read afterwards, only in a device loop."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    register = nisa.register_alloc()
    nisa.register_load(register, nl.load(count))

    def body(i):
        nisa.dma_copy(t, x)
        nisa.dma_copy(out, t)

    nl.fori_loop(0, register, body)
    nisa.tensor_scalar(t, t, nl.add, 1.0)  # reads the tile
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(other, t)
    return out, other


def times(n):
    return np.full((1, 1), n, np.int32)


def test_what_a_loop_left_unwritten_is_found_only_when_it_did_not_run():
    compiled = jit(counted).compile(X, times(1))
    result = compiled.launch(X, times(2))
    assert serious(result) == []
    np.testing.assert_array_equal(result.value[1], X + 1)

    result = compiled.launch(X, times(0))
    assert np.isnan(result.value[0]).all()
    found = {f.kind: f for f in serious(result)}
    messages = [f.message for f in serious(result)]
    assert set(found) == {"uninitialized"}
    assert any("elements of data = `t` [128, 6] float32 in sbuf are read" in m for m in messages)
    assert any("of the result `out`" in m for m in messages)
    assert all("; the device loop at test_noticed.py, line" in m for m in messages)
    assert all(m.endswith("ran no time") for m in messages)

    assert serious(compiled.launch(X, times(1))) == []


def test_a_loop_that_did_not_run_after_its_results_were_written_is_fine():
    def kernel(x, count):
        t = nl.load(x)
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(count))
        nl.fori_loop(0, register, lambda i: nisa.memset(t, 0.0) and None)
        return result_of(t)

    assert serious(run(jit(kernel), X, times(0))) == []


def test_an_inner_loop_that_did_not_run_is_named():
    def kernel(x, count):
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(count))

        def outer(i):
            nl.fori_loop(0, register, lambda j: nisa.memset(t, 0.0) and None)  # the inner loop

        nl.fori_loop(0, 2, outer)
        return result_of(t)

    (finding,) = serious(run(jit(kernel), X, times(0)))
    inner = line_of(__file__, "# the inner loop")
    assert f"line {inner} ran no time" in finding.message
    assert serious(run(jit(kernel), X, times(1))) == []


def test_a_run_while_tracing_tells_the_same(monkeypatch):
    monkeypatch.setenv("NKI_LAB_DEBUG", "1")
    (finding,) = serious(run(jit(applied), -X, nl.log))
    assert "768 of 768 inputs of nl.log" in finding.message
    messages = [f.message for f in serious(run(jit(counted), X, times(0)))]
    assert any(m.endswith("ran no time") for m in messages)


# -- rows written twice ---------------------------------------------------------------------------------------------


def scattered(rows, index, out):
    nisa.dma_copy(out.vector_select(0, nl.load(index)), nl.load(rows))  # the scatter
    return out


@pytest.mark.parametrize("repeats", [0, 1, 5])
def test_rows_that_one_scatter_writes_again_are_counted(repeats):
    index = np.arange(16, dtype=np.int32)[:, None]
    index[:repeats] = 15
    result = run(jit(scattered), X[:16], index, np.zeros((20, 6), np.float32))
    found = serious(result)
    if not repeats:
        assert found == []
        return
    (finding,) = found
    assert f"dma_copy: {repeats} of 16 rows of `out` [20, 6] float32" in finding.message
    assert Span.of(finding.stack[0]).line == line_of(__file__, "# the scatter")
    np.testing.assert_array_equal(result.value[15], X[15])  # the later one


# -- each once --------------------------------------------------------------------------------------------------------


def repeated(x, column):
    return nl.subtract(x, column)


def test_what_a_helper_does_in_several_calls_is_told_once_for_its_place():
    def kernel(x):
        t = nl.load(x)
        first = repeated(t, t[:, 0:1])
        return result_of(repeated(first, t[:, 1:2]))

    for options in ({}, {"lnc": 2}, {"debug": True}):
        found = [
            f for f in run(jit(kernel), X, **options).findings if "repeats elements" in f.message
        ]
        assert [Span.of(f.stack[0]).function for f in found] == ["repeated"], options
    assert len(found) == 1
