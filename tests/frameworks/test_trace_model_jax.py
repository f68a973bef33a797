"""Traces of functions of JAX: each row against a formula, with loops and compiled functions from inside."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
from nki_lab.errors import NotModelled
from tests.frameworks.kernels import rmsnorm, rmsnorm_backward

jax = pytest.importorskip("jax")
norm = nki_lab.jax.custom_op("traced::rmsnorm", rmsnorm, backward=rmsnorm_backward)


def layers(x, gamma, weight):
    def layer(c, _):
        with jax.named_scope("layer"):
            return norm(c, gamma, 1e-5)[0] @ weight, None

    c, _ = jax.lax.scan(layer, x, None, length=3)
    return jax.jit(lambda c: jax.nn.silu(c))(c)


X = jax.numpy.asarray(np.random.default_rng(5).standard_normal((5, 6)), dtype="float32")
GAMMA = jax.numpy.linspace(-0.5, 1.5, 6)
WEIGHT = jax.numpy.asarray(np.random.default_rng(6).standard_normal((6, 6)), dtype="float32")


@pytest.fixture(scope="module")
def traced():
    return nki_lab.jax.trace_model(
        layers, X, GAMMA, WEIGHT, target="trn2", backward=lambda y: (y**3).sum()
    )


def test_rows_are_those_of_the_jaxpr_with_loops_from_inside(traced):
    forward = [(r.name, r.path, r.calls, r.is_kernel) for r in traced.of("forward")][:3]
    assert forward == [
        ("traced::rmsnorm", "layer", 3, True), ("dot_general", "layer", 3, False), ("logistic", "", 1, False),
    ]  # fmt: skip
    kernel, product, _ = traced.rows[:3]
    assert (product.flops, product.bytes) == (3 * 2 * 5 * 6 * 6, 3 * 4 * (5 * 6 + 6 * 6 + 5 * 6))
    arguments = np.asarray(X), np.asarray(GAMMA)
    alone = nki_lab.run(rmsnorm, *arguments, 1e-5, target="trn2").profile.total_ns
    assert kernel.total_ns == 3 * alone
    assert kernel.sources == ("x", "gamma", 1)  # its own results, too, by way of the product
    (back,) = [row for row in traced.of("backward") if row.is_kernel]
    assert (back.name, back.path, back.calls) == ("traced::rmsnorm_backward", "layer", 3)
    assert "AwsNeuronCustomNativeKernel" in back.custom_call


def plain(x, gamma, weight):
    for _ in range(3):
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma @ weight
    return x / (1 + np.exp(-x))


def test_values_and_gradients_are_those_of_formulas(traced):
    given = [np.asarray(a, dtype=np.float64) for a in (X, GAMMA, WEIGHT)]
    np.testing.assert_allclose(traced.value, plain(*given), rtol=1e-4, atol=1e-5)
    rng = np.random.default_rng(7)
    for n, name in enumerate(("x", "gamma", "weight")):
        way = rng.standard_normal(given[n].shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = [a + step * way if k == n else a for k, a in enumerate(given)]
            ends.append((plain(*moved) ** 3).sum())
        slope = (ends[0] - ends[1]) / 2e-5
        assert (np.asarray(traced.gradients[name]) * way).sum() == pytest.approx(slope, rel=1e-3)


def test_an_operator_is_traced_with_its_backward():
    trace = norm.trace(np.asarray(X), GAMMA, 1e-5, target="trn2")
    assert [(row.name, row.part) for row in trace.kernels] == [
        ("traced::rmsnorm", "forward"), ("traced::rmsnorm_backward", "backward"),
    ]  # fmt: skip
    assert list(trace.inputs) == ["x", "gamma"] and set(trace.gradients) == {"x", "gamma"}


def test_vmap_runs_a_kernel_once_for_each_element():
    batch = jax.numpy.stack([X, 2 * X + 1])
    trace = nki_lab.jax.trace_model(jax.vmap(lambda x: norm(x, GAMMA)[0]), batch, target="trn2")
    assert [(r.name, r.calls) for r in trace.kernels] == [("traced::rmsnorm", 2)]
    rows = np.asarray(batch, dtype=np.float64)
    wanted = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-6) * np.linspace(-0.5, 1.5, 6)
    np.testing.assert_allclose(trace.value, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_control_flow_that_depends_on_values_runs_and_is_a_finding():
    def halved(x):
        x = jax.lax.while_loop(lambda x: x.max() > 1, lambda x: x / 2, x)
        return jax.lax.cond(x.sum() > 0, lambda x: x, lambda x: -x * 3, x)

    trace = nki_lab.jax.trace_model(halved, X, target="trn2")
    wanted = np.asarray(X)
    while wanted.max() > 1:
        wanted = wanted / 2
    np.testing.assert_allclose(trace.value, wanted * (1 if wanted.sum() > 0 else -3), rtol=1e-6)
    assert {f.kind for f in trace.findings} == {"control flow"}


def test_a_callback_that_is_no_operator_is_refused_by_a_device():
    def sorted_here(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(np.sort, shape, x)

    trace = nki_lab.jax.trace_model(sorted_here, X, target="trn2")
    (finding,) = trace.findings
    assert finding.kind == "host callback" and "jax-neuronx-known-issues" in finding.message
    assert finding.place.label.startswith("test_trace_model_jax.py, line ")
    np.testing.assert_array_equal(trace.value, np.sort(X))
    with pytest.raises(NotModelled, match="host callback"):
        nki_lab.jax.trace_model(sorted_here, X, target="trn2", device_check=True)
