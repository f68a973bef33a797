"""Tests of the rules of device loops: state lives in memory, names are unique, both cores make as many passes."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import LoopName, LoopsDiffer, LoopState, RegisterValue
from nki_lab.runtime.run import run

X = np.random.default_rng(31).integers(-9, 9, (128, 4)).astype(np.float32)


def kernel_of(body):
    @nki.jit
    def kernel(x):
        t = nl.load(x)
        body(t)
        out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    return kernel


def counting(t):
    count = 0

    def body(k):
        nonlocal count
        count += 1
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(count))

    nl.fori_loop(0, 3, body)


def test_python_state_that_a_body_changes_is_an_error_since_0_7():
    with pytest.raises(LoopState, match="`count` changes in the body of a device loop") as caught:
        run(kernel_of(counting), X)
    assert caught.value.span.covered == "count += 1"
    result = run(kernel_of(counting), X, nki="0.6")
    assert [f.kind for f in result.findings if "count" in f.message] == ["hazard"]
    np.testing.assert_array_equal(result.value, X + 3)  # the body was traced once, with 1
    np.testing.assert_array_equal(run(kernel_of(counting), X, allow="NKI124").value, X + 3)


def test_a_default_of_the_body_is_state_as_other_names_are():
    def counting(t):
        def body(k, count=[0], step=1.0):  # noqa: B006
            count[0] += step
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=count[0])

        nl.fori_loop(0, 3, body)

    with pytest.raises(LoopState, match="`count` changes in the body"):
        run(kernel_of(counting), X)


def test_what_is_only_collected_is_no_state():
    made = []

    def collecting(t):
        def body(k):
            made.append(nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0))

        nl.fori_loop(0, 3, body)

    np.testing.assert_array_equal(run(kernel_of(collecting), X).value, X + 3)


def twice_named(t):
    def body(k):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0, name="plus")
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0, name="plus")

    nl.fori_loop(0, 2, body)


def test_names_in_a_body_differ():
    with pytest.raises(LoopName, match=r"two instructions .* have the name 'plus'") as caught:
        run(kernel_of(twice_named), X)
    assert "nl.multiply" in caught.value.span.covered

    def beside(t):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0, name="plus")
        nl.fori_loop(0, 2, lambda k: nisa.memset(dst=t, value=1.0, name="plus"))

    np.testing.assert_array_equal(run(kernel_of(beside), X).value, np.ones_like(X))


@nki.jit
def passes(x, counts):
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    t, core = nl.load(x), nl.program_id(0)
    mine = nl.load(counts[core : core + 1])
    count = nisa.register_alloc()
    nisa.register_load(count, mine)

    def body(k):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, count, body)
    nl.store(out[core], t)
    return out


def test_both_cores_make_as_many_passes_where_values_decide():
    counts = np.array([[3], [3]], np.int32)
    np.testing.assert_array_equal(run(passes[2], X, counts).value, np.stack([X + 3, X + 3]))
    with pytest.raises(LoopsDiffer, match=r"core 0 makes 3 passes .* core 1 makes 2") as caught:
        run(passes[2], X, np.array([[3], [2]], np.int32))
    assert caught.value.span.covered == "nl.fori_loop(0, count, body)"


@nki.jit
def one_core_loops(x):
    t = nl.load(x)
    if nl.program_id(0):
        nl.fori_loop(0, 2, lambda k: nisa.memset(dst=t, value=1.0))
    return x


def test_a_loop_of_one_core_is_counted():
    with pytest.raises(LoopsDiffer, match="core 0 has 0 device loops, core 1 has 1"):
        run(one_core_loops[2], X)


def a_condition(t, r):
    if r:
        nisa.memset(dst=t, value=1.0)


def a_number(t, r):
    nisa.memset(dst=t, value=float(int(r)))


def a_range(t, r):
    for _ in range(r):
        nisa.memset(dst=t, value=1.0)


@pytest.mark.parametrize("use", [a_condition, a_number, a_range])
@pytest.mark.parametrize("nki_version", ["0.6", "0.7"])
def test_a_register_has_no_value_in_python(use, nki_version):
    kernel = kernel_of(lambda t: use(t, nisa.register_alloc(1)))
    with pytest.raises(RegisterValue) as caught:
        run(kernel, X, nki=nki_version)
    assert isinstance(caught.value, TypeError)
