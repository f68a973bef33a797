"""Kernels as operators of JAX, against its own functions, by value."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from benchmarks.operator_speed import ALONE, jax_calls, python_calls
from nki_lab import kernels
from nki_lab.api import nki
from nki_lab.errors import AddressOutOfRange, KernelArgument, NotModelled, RuleBroken
from tests.frameworks.kernels import (
    halves,
    halves_backward,
    interrupted_once,
    picked,
    rmsnorm,
    rmsnorm_backward,
    several,
    several_backward,
)

ROOT = Path(__file__).parents[2]
jax = pytest.importorskip("jax")
jnp = jax.numpy

normed = nki_lab.jax.custom_op("lab::rmsnorm", rmsnorm, backward=rmsnorm_backward)
RNG = np.random.default_rng(3)
X = jnp.asarray(RNG.standard_normal((5, 6)), jnp.float32)
GAMMA = jnp.linspace(-0.5, 1.5, 6, dtype=jnp.float32)
BATCH = jnp.stack([X, 2 * X + 1, -X], axis=2)


def op(x: Any, gamma: Any) -> Any:
    return normed(x, gamma, 1e-5)[0]


def reference(x: Any, gamma: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gamma


def both(function: Any) -> Any:
    """Return the gradients of a loss that no scale of the rows hides."""
    weights = jnp.arange(1.0, 7)
    return jax.grad(lambda x, gamma: (function(x, gamma) ** 3 * weights).sum(), (0, 1))


@pytest.mark.parametrize(
    ("transform", "x"),
    [
        (lambda f: f, X),
        (lambda f: jax.jit(both(f)), X),
        (lambda f: jax.vmap(f, (2, None), 1), BATCH),
    ],
    ids=["eager", "jit(grad)", "vmap"],
)
def test_transforms(transform, x):
    found, wanted = transform(op)(x, GAMMA), transform(reference)(x, GAMMA)
    for pair in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-4)


def test_arrays_of_jax_come_back():
    assert isinstance(op(X, GAMMA), jax.Array)
    assert isinstance(rmsnorm(X, GAMMA)[0], jax.Array)
    out, rstd = jax.eval_shape(normed, X, GAMMA)
    assert (out.shape, rstd.shape, rstd.dtype) == ((5, 6), (5, 1), jnp.float32)


def test_a_call_costs_little_above_the_compiled_kernel():
    counts = {name: python_calls(call) for name, call in jax_calls().items()}
    assert counts["jax"] < 1.5 * counts[ALONE]


def test_derivatives_that_there_are_not_are_errors():
    with pytest.raises(NotModelled, match="lab::rmsnorm_backward has no second derivative"):
        jax.grad(lambda x: both(op)(x, GAMMA)[0].sum())(X)
    with pytest.raises(NotModelled, match="lab::rmsnorm has no forward-mode derivative"):
        jax.jvp(lambda x: op(x, GAMMA), (X,), (X,))


@nki.jit
def scaled(x, factor=2.0, bias=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.multiply(nl.load(x), factor)
    nl.store(out, tile if bias is None else nl.add(tile, nl.load(bias)))
    return out


def test_constants_and_a_backward_that_is_a_function():
    double = nki_lab.jax.custom_op(
        "lab::scaled", scaled, backward=lambda dout, factor: factor * dout
    )
    np.testing.assert_allclose(jax.jit(lambda x: double(x, factor=-3.0))(X), -3 * X)
    np.testing.assert_allclose(jax.grad(lambda x: (double(x) ** 3).sum())(X), 24 * X**2, rtol=1e-5)
    np.testing.assert_allclose(double(X, bias=X), 3 * X)
    with pytest.raises(KernelArgument, match="the gradient of argument `bias` is asked for"):
        jax.grad(lambda b: double(X, bias=b).sum())(X)
    with pytest.raises(KernelArgument, match="argument `factor` is a tensor without axes"):
        jax.jit(double)(X, 3.0)
    plain = nki_lab.jax.custom_op("lab::plain", scaled)
    with pytest.raises(NotModelled, match="lab::plain has no backward"):
        jax.grad(lambda x: plain(x).sum())(X)


def test_results_that_are_no_arrays_and_lists_of_arrays():
    options = {"backward": several_backward, "no_grad": ("rows",)}
    op = nki_lab.jax.custom_op("lab::several", several, **options)
    np.testing.assert_allclose(op(X, times=3)["scaled"], 3 * X)
    assert op(X, times=3)["more"][0] == 15 and op(X)["flag"] is True

    def loss(a: Any) -> Any:
        found = op(a)
        assert type(found["more"][0]) is int and found["none"] is None
        return (found["scaled"] ** 3 * found["more"][0] + found["more"][1]).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(X), 240 * X**2 + 2 * X, rtol=1e-5)
    wrong = nki_lab.jax.custom_op(
        "lab::several", several, backward=lambda da, dn, db, x: da, no_grad=()
    )
    with pytest.raises(KernelArgument, match="result `rows` is 10, which has no gradient"):
        jax.grad(lambda a: wrong(a)["scaled"].sum())(X)
    split = nki_lab.jax.custom_op("lab::halves", halves, backward=halves_backward, wrt=("parts",))
    grads = jax.grad(lambda parts: (split(parts, 2).low ** 2 + 3 * split(parts, 2).high).sum())
    for found, wanted in zip(grads([X, 2 * X, X]), (6 * X, 6 * X, 3 + 0 * X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_backward_that_is_made_from_the_instructions():
    made = nki_lab.jax.custom_op("lab::made", rmsnorm, backward="auto")
    found = jax.jit(both(lambda *a: made(*a, 1e-5)[0]))(X, GAMMA)
    for pair in zip(found, jax.jit(both(reference))(X, GAMMA), strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-4)


@nki.jit
def accumulate(total, x):
    nl.store(total, nl.add(nl.load(total), nl.load(x)))


def test_an_error_of_a_run_shows_the_line_of_the_kernel():
    pick = nki_lab.jax.custom_op("lab::picked", picked)
    right, wrong = (jnp.asarray([[1], [n]], jnp.int32) for n in (3, 9))
    for call in (pick, lambda x, rows: jax.vmap(pick, (0, None))(x[None], rows)):
        with pytest.raises(AddressOutOfRange, match="index 9 for partition 1"):
            call(X, wrong)
    jitted = jax.jit(pick)
    with pytest.raises(jax.errors.JaxRuntimeError, match="index 9") as raised:
        jitted(X, wrong).block_until_ready()
    np.testing.assert_array_equal(jitted(X, right), X[jnp.asarray([1, 3])])
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=r"x\.ap\(pattern"):
        jitted(X, wrong).block_until_ready()
    shown = "\n".join(raised.value._render_traceback_())  # which is what IPython shows
    assert "nisa.dma_copy(dst=tile, src=x.ap" in shown and len(shown.splitlines()) < 8
    assert not hasattr(jax.errors.JaxRuntimeError("another"), "_render_traceback_")


def test_an_interrupt_ends_a_compiled_step():
    step = jax.jit(nki_lab.jax.custom_op("lab::twice", scaled))
    np.testing.assert_allclose(step(X), 2 * X)
    with interrupted_once(), pytest.raises(Exception, match=r"lab::twice was interrupted"):
        step(X).block_until_ready()
    np.testing.assert_allclose(step(X), 2 * X)


def test_mistakes():
    for call in (normed, jax.jit(normed)):
        with pytest.raises(RuleBroken, match=r"cannot be repeated to \[5, 6\]"):
            call(X, GAMMA[:5])
    with pytest.raises(KernelArgument, match="`x` has dtype complex64"):
        normed(X.astype(jnp.complex64), GAMMA)
    with pytest.raises(KernelArgument, match="writes its argument `total`"):
        nki_lab.jax.custom_op("lab::accumulate", accumulate)(X, X)
    assert pickle.loads(pickle.dumps(normed)).name == "lab::rmsnorm"


@pytest.mark.thorough
def test_a_kernel_of_the_library_brings_its_backward():
    attention = nki_lab.jax.custom_op("lab::attention", kernels.get("flash_fwd"))
    q, k, v = (
        jnp.asarray(RNG.standard_normal((1, heads, *shape)), jnp.float32)
        for heads, shape in ((2, (8, 128)), (1, (8, 128)), (1, (128, 8)))
    )

    def ours(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, None, use_causal_mask=False, mixed_precision=False)[0]

    def formula(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(jnp.einsum("bhdq,bgdk->bhqk", q, k) / 8**0.5) @ v

    found, wanted = (
        jax.grad(lambda *a, f=f: (f(*a) ** 3).sum(), (0, 1, 2))(q, k, v) for f in (ours, formula)
    )
    for pair in zip(found, wanted, strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-3, atol=1e-5)


_ON_DEVICES = """
import jax, nki_lab, pytest
from nki_lab.errors import KernelArgument
from tests.frameworks.kernels import rmsnorm, rmsnorm_backward
jnp = jax.numpy
X, GAMMA = jnp.sin(jnp.arange(48.0) * 1.7).reshape(8, 6), jnp.linspace(-0.5, 1.5, 6)
op = nki_lab.jax.custom_op("lab::devices", rmsnorm, backward=rmsnorm_backward, no_grad=("rstd",))
reference = lambda x, gamma, eps: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps) * gamma
names = ["forward", "shard_map", "pmap", "jit, sharded arrays", "jit(grad), sharded arrays", "grad(shard_map)"]
check = nki_lab.check_op(op, X, GAMMA, 1e-5, reference=reference, only=names)
print(len(jax.devices()), [o.verdict for o in check.outcomes])
one, two = jax.devices()[1:3]
x, gamma = jax.device_put(X, one), jax.device_put(GAMMA, two)
assert op(x, jax.device_put(GAMMA, one))[0].devices() == {one} and op(x, GAMMA)[0].devices() == {one}
with pytest.raises(KernelArgument, match="different devices: `x` on cpu:1, `gamma` on cpu:2"):
    op(x, gamma)
"""


@pytest.mark.thorough
def test_several_devices():
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    outcome = subprocess.run(
        [sys.executable, "-c", _ON_DEVICES], env=flags, capture_output=True, text=True, cwd=ROOT
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == f"4 {['matches'] * 5 + ['loud error']}\n"
