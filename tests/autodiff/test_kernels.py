"""Backward kernels of the library's kernels, against closed forms in float64; and what a backward kernel is."""

from inspect import signature

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.autodiff import backward
from nki_lab.dtypes import dtype_of
from nki_lab.errors import KernelArgument, NoGradient
from nki_lab.kernels.library import (
    cross_entropy,
    flash_attention,
    layernorm,
    matmul,
    rmsnorm,
    rope,
    softmax,
    standard_attention,
    swiglu_mlp,
)
from nki_lab.source import Span
from tests.autodiff.test_rules import loaded, stored, values


def of_rmsnorm(g, x, gamma):
    scale = 1 / np.sqrt(np.mean(x * x, 1, keepdims=True) + 1e-6)
    h = g * gamma
    return scale * (h - x * scale**2 * np.mean(h * x, 1, keepdims=True)), np.sum(g * x * scale, 0)


def of_layernorm(g, x, gamma, beta):
    distance = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(distance**2, 1, keepdims=True) + 1e-5)
    normal, h = distance * scale, g * gamma
    inner = h - h.mean(1, keepdims=True) - normal * np.mean(h * normal, 1, keepdims=True)
    return scale * inner, np.sum(g * normal, 0), g.sum(0)


def of_softmax(g, x):
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p * (g - np.sum(g * p, 1, keepdims=True)),)


def of_matmul(g, lhs_t, rhs):
    return rhs @ g.T, lhs_t @ g


def of_swiglu(g, x_t, gate, up, down):
    a, b = x_t.T @ gate, x_t.T @ up
    s = 1 / (1 + np.exp(-a))
    h = g @ down.T
    of_a, of_b = h * b * s * (1 + a * (1 - s)), h * a * s
    return gate @ of_a.T + up @ of_b.T, x_t @ of_a, x_t @ of_b, (a * s * b).T @ g


def of_attention(g, q, k, v, causal):
    scale = q.shape[2] ** -0.5
    of_q, of_k, of_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, head in np.ndindex(q.shape[:2]):
        at, other = (b, head), (b, head * k.shape[1] // q.shape[1])
        scores = q[at].T @ k[other] * scale
        if causal:
            scores[np.triu(np.ones(scores.shape, bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        of_p = g[at] @ v[other].T
        of_scores = p * (of_p - np.sum(of_p * p, 1, keepdims=True)) * scale
        of_q[at] = k[other] @ of_scores.T
        of_k[other] += q[at] @ of_scores
        of_v[other] += p.T @ g[at]
    return of_q, of_k, of_v


def of_cross_entropy(g, of_lse, logits, targets):
    p = np.exp(logits - logits.max(1, keepdims=True))
    chosen = targets == np.arange(logits.shape[1])
    return (p / p.sum(1, keepdims=True) * (g + of_lse) - chosen * g,)


def of_rope(g, x, cos, sin):
    (a, b), (of_a, of_b) = np.split(x, 2, axis=2), np.split(g, 2, axis=2)
    c, s = cos[:, None], sin[:, None]
    of_x = np.concatenate([of_a * c + of_b * s, of_b * c - of_a * s], axis=2)
    return of_x, np.sum(of_a * a + of_b * b, 1), np.sum(of_b * a - of_a * b, 1)


CLOSED_FORMS = {
    "rmsnorm": (rmsnorm, of_rmsnorm, {"rows": 200, "width": 130}),
    "layernorm": (layernorm, of_layernorm, {"rows": 20, "width": 520}),
    "softmax": (softmax, of_softmax, {"rows": 140, "width": 100}),
    "matmul": (matmul, of_matmul, {"depth": 130, "rows": 40, "columns": 520}),
    "swiglu_mlp": (swiglu_mlp, of_swiglu, {"tokens": 64, "hidden": 128, "inner": 256}),
    "cross_entropy": (cross_entropy, of_cross_entropy, {"rows": 130, "classes": 300}),
    "rope": (rope, of_rope, {"tokens": 140, "heads": 3, "d": 10}),
    "attention": (
        standard_attention,
        of_attention,
        {"heads": 2, "kv_heads": 1, "keys": 140, "d": 16, "causal": 1},
    ),
}


#: Of the largest gradient; in bfloat16 the kernels round what they keep on the way.
TOLERANCE = {"float32": 2e-5, "bfloat16": 3e-2}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((n, "float32") for n in CLOSED_FORMS), ("rmsnorm", "bfloat16"), ("attention", "bfloat16")],
)
def test_closed_form(name, dtype, rng):
    module, formula, size = CLOSED_FORMS[name]
    block, kind = module.KERNEL, dtype_of(dtype).np
    arguments = block.arguments(rng, kind, **size)
    derived = backward(block.kernel, **arguments)
    wide = {
        k: v.astype(np.float64) if isinstance(v, np.ndarray) else v for k, v in arguments.items()
    }
    tensors = [v for v in arguments.values() if isinstance(v, np.ndarray)]
    results = block.kernel(**arguments)
    results = results if isinstance(results, tuple) else (results,)
    gradients = [rng.standard_normal(r.shape).astype(r.dtype) for r in results]
    expected = formula(*(g.astype(np.float64) for g in gradients), **wide)
    found = derived(*tensors, *gradients)
    for name, wanted, got in zip(derived.gradients_of, expected, found, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, kind), name
        error = np.abs(got.astype(np.float64) - wanted).max() / np.abs(wanted).max()
        assert error < TOLERANCE[dtype], (name, error)


def test_a_loop_of_the_device_is_refused_with_its_line(rng):
    block = flash_attention.KERNEL
    arguments = block.arguments(rng, np.float32, **block.tested[0])
    with pytest.raises(NoGradient, match="loop that the device runs") as error:
        backward(block.kernel, **arguments)
    assert "flash_attention.py, line" in str(error.value)


# -- what a backward kernel is ---------------------------------------------------------------------------------------


@nki.jit
def weighed(x, steps, y, weight=2.0):
    """Return tanh(weight * x) + 1 and an integer; `y` is not used."""
    t, n = loaded(x), loaded(steps)
    nisa.activation(dst=t, op=nl.tanh, data=t, scale=weight)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    return stored(t), stored(n)


INPUTS = {
    "x": values(1, (200, 5))[:128],
    "steps": np.ones((3, 2), np.int32),
    "y": values(2, (4, 7)),
}


def test_arguments_and_results():
    derived = backward(weighed, **INPUTS, weight=-0.5)
    assert derived.inputs == ("x", "steps", "y") and derived.results == (0,)
    assert list(signature(derived).parameters) == ["x", "steps", "y", "gradient"]
    gradient = values(3, (128, 5))
    of_x, of_y = derived(*INPUTS.values(), gradient)
    np.testing.assert_allclose(
        of_x, gradient * -0.5 / np.cosh(-0.5 * INPUTS["x"]) ** 2, rtol=1e-5, atol=1e-6
    )
    assert of_y.shape == (4, 7) and not of_y.any()


def test_names_of_arguments_stay_apart():
    @nki.jit
    def kernel(gradient, parts):
        t = loaded(gradient)
        for part in parts:
            nisa.tensor_tensor(dst=t, data1=t, data2=loaded(part), op=nl.multiply)
        return stored(t)

    x = INPUTS["x"]
    derived = backward(kernel, x, [x, x])
    assert derived.inputs == ("gradient", "parts.0", "parts.1")
    assert list(signature(derived).parameters) == ["gradient_", "parts_0", "parts_1", "gradient"]
    np.testing.assert_allclose(derived(x, x, x + 1, x)[1], x * x * (x + 1), rtol=1e-5)


def test_only_the_gradients_that_are_wanted():
    derived = backward(weighed, **INPUTS, wrt=["y"])
    assert derived.gradients_of == ("y",)
    assert all(i.definition.name != "activation" for i in derived.compile(
        *INPUTS.values(), INPUTS["x"]).compiled.kernel.instructions)  # fmt: skip
    with pytest.raises(KernelArgument, match="no input of floats named `steps`"):
        backward(weighed, **INPUTS, wrt=["steps"])


def test_it_is_timed_and_its_lines_are_those_of_the_kernel():
    result = backward(weighed, **INPUTS).launch(*INPUTS.values(), INPUTS["x"])
    assert result.profile.total_ns > 2000
    activations = [
        i for i in result.compiled.kernel.instructions if i.definition.name == "activation"
    ]
    assert {Span.of(i.stack[0]).text.strip() for i in activations} == {
        "nisa.activation(dst=t, op=nl.tanh, data=t, scale=weight)"
    }


def test_other_shapes_need_another_backward_kernel():
    derived = backward(weighed, **INPUTS)
    with pytest.raises(KernelArgument, match=r"`x` is \[9, 5\] float32; .* made for \[128, 5\]"):
        derived(INPUTS["x"][:9], *list(INPUTS.values())[1:], INPUTS["x"])


def test_a_kernel_that_returns_no_floats_has_no_gradient():
    @nki.jit
    def kernel(x):
        t, n = loaded(x), nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=n, src=t)
        return stored(n)

    with pytest.raises(NoGradient, match="`kernel` returns no floats"):
        backward(kernel, INPUTS["x"])


def test_two_cores_are_refused():
    with pytest.raises(NoGradient, match="runs on two cores"):
        backward(weighed[2], **INPUTS)
