"""Loops of the older dialect: what a trip carries, what it may write, and what is told about both."""

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors.beta1 import OutputDependency

X = np.random.default_rng(3).integers(-9, 9, (128, 24)).astype(np.float32)


@nki.jit
def counted(x, ranges):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    v, fresh = 5, 0
    for _ in ranges(4):
        fresh = 2
        v += fresh
        for _ in ranges(3):
            v = v + 10
    nl.store(out, nl.add(t, float(100 * v + fresh)))
    return out


def test_a_carried_number_counts_once_and_is_told_at_its_place():
    result = nki_lab.run(counted, X, nl.affine_range)
    # Each trip begins with 5 and adds 2; the trips of the inner loop each begin with 7, and add 10.
    np.testing.assert_array_equal(result.value, X + 1702)
    (outer, inner) = (f for f in result.findings if f.kind == "hazard")
    assert "`v` is carried from trip to trip by nl.affine_range" in outer.message
    assert {outer.stack[0].line, inner.stack[0].line} == {
        counted.func.__code__.co_firstlineno + n for n in (7, 9)
    }
    unrolled = nki_lab.run(counted, X, nl.static_range)
    np.testing.assert_array_equal(unrolled.value, X + 100 * (5 + 4 * 32) + 2)
    assert not unrolled.findings


@nki.jit
def decided(x, ranges):
    out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in ranges(4):
        last = i == 3
        t = nl.load(x)
        if last:
            t = t * -1.0
        nl.store(out[i], t)
    return out


def test_a_decision_on_the_variable_works_in_each_trip_and_is_told():
    for ranges in (nl.affine_range, nl.sequential_range):
        result = nki_lab.run(decided, X, ranges)
        np.testing.assert_array_equal(result.value, np.stack([X, X, X, -X]))
        (finding,) = (f for f in result.findings if f.kind == "portability")
        assert f"decides on the variable of nl.{ranges.__name__}" in finding.message
    kinds = {f.kind for f in nki_lab.run(decided, X, nl.static_range).findings}
    assert "portability" not in kinds


@nki.jit
def written(x, ranges, place):
    out = nl.ndarray((8, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i in ranges(2):
        for k in ranges(2):
            t = nl.load(x)
            nl.store(out[place(i, k)], t * float(1 + i + k))
    return out


@pytest.mark.parametrize(
    "place", [lambda i, k: 0, lambda i, k: i, lambda i, k: k], ids=["neither", "outer", "inner"]
)
def test_trips_of_a_parallel_loop_write_apart(place):
    with pytest.raises(
        OutputDependency, match=r"nl\.affine_range write the same elements of `out`"
    ):
        written(X, nl.affine_range, place)
    expected = np.zeros((8, *X.shape), np.float32)
    for i in range(2):
        for k in range(2):
            expected[place(i, k)] = X * (1 + i + k)
    got = nki_lab.run(written, X, nl.sequential_range, place).value
    used = sorted({place(i, k) for i in range(2) for k in range(2)})
    np.testing.assert_array_equal(got[used], expected[used])


def test_a_place_that_some_trips_write_has_the_value_of_program_order_and_a_finding():
    @nki.jit
    def kernel(x, ranges):
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        pair = nl.ndarray((x.shape[0], 1, x.shape[1]), x.dtype)
        t = nl.load(x)
        for i in ranges(4):
            if i % 2 == 0:
                pair[:, i % 2, :] = t * float(1 + i)
            else:
                nl.store(out[i // 2], nl.subtract(pair[:, 0, :], float(i)))
        return out

    result = nki_lab.run(kernel, X, nl.affine_range)
    np.testing.assert_array_equal(result.value, np.stack([X - 1, 3 * X - 3]))
    (finding,) = [f for f in result.findings if f.kind == "hazard"]
    assert finding.message.startswith(
        "2 of the 4 trips of nl.affine_range write the same elements of `pair`"
    )
    in_order = nki_lab.run(kernel, X, nl.sequential_range)
    assert not [f for f in in_order.findings if f.kind == "hazard"]


def test_places_that_differ_sums_and_tensors_of_a_trip_are_no_dependency():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros(x.shape, nl.float32, buffer=nl.psum)
        held = nl.zeros(x.shape, nl.float32)
        for i in nl.affine_range(4):
            t = nl.load(x)
            scratch = nl.ndarray(x.shape, x.dtype)
            scratch[...] = t + float(i)
            held += scratch
            total += nl.matmul(t, t[0:128, 0:24], transpose_x=True) if x.shape[1] == 128 else 0.0
            nl.store(out[i], scratch)
            if i == 2:
                break
        nl.store(out[3], held)
        return out

    np.testing.assert_array_equal(kernel(X), np.stack([X, X + 1, X + 2, 3 * X + 3]))
