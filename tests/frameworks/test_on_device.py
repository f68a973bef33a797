"""Operators on Neuron devices call the kernel of the official package: here a stand-in, with arrays on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.api import isa
from nki_lab.errors import NotModelled, PackageMissing
from tests.frameworks.kernels import rmsnorm, rmsnorm_backward, several

torch = pytest.importorskip("torch")
X = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
GAMMA = np.linspace(-0.5, 1.5, 6).astype(np.float32)


class Kernel:
    """A kernel of the stand-in: it takes tensors and arrays of JAX, and returns such."""

    def __init__(self, function: Callable[..., Any], lnc: int = 1) -> None:
        self.ours, self.lnc, self.calls = nki_lab.jit(function), lnc, 0

    def __getitem__(self, lnc: int) -> Kernel:
        return Kernel(self.ours.func, lnc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.ours[self.lnc](*args, **kwargs)


@pytest.fixture
def official(monkeypatch) -> list[Kernel]:
    """Install the stand-in in this process, and return the kernels that it makes."""
    made: list[Kernel] = []
    package = ModuleType("nki")

    def jit(function: Callable[..., Any]) -> Kernel:
        made.append(Kernel(function))
        return made[-1]

    package.jit, package.language, package.isa = jit, nki_lab.language, isa
    monkeypatch.setitem(sys.modules, "nki", package)
    monkeypatch.setitem(sys.modules, "nki.language", nki_lab.language)
    monkeypatch.setitem(sys.modules, "nki.isa", isa)
    return made


def reference() -> np.ndarray:
    return X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5) * GAMMA


def test_tensors_on_a_device_go_to_the_official_kernel(official):
    op = nki_lab.torch.custom_op("device::rmsnorm", rmsnorm, backward=rmsnorm_backward)
    for _ in range(2):
        out, rstd = op._registered.on_device(torch.tensor(X), torch.tensor(GAMMA), 1e-5)
    assert rstd.shape == (4, 1) and [k.calls for k in official] == [2]
    assert official[0].ours.func is not rmsnorm.func  # it was made anew from the text
    np.testing.assert_allclose(out, reference(), rtol=1e-4, atol=1e-5)
    mixed = nki_lab.torch.custom_op("device::several", several)
    results = mixed._registered.on_device(torch.tensor(X))
    assert mixed._made(results)["more"][0] == 8
    assert "XLA" in torch._C._dispatch_dump("device::rmsnorm")
    assert "PrivateUse1" in torch._C._dispatch_dump("device::rmsnorm")


def test_jax_on_a_device_calls_the_official_kernel_while_it_traces(official, monkeypatch):
    pytest.importorskip("jax")
    from nki_lab.frameworks import jax_operator

    op = nki_lab.jax.custom_op("device::rmsnorm", rmsnorm)
    monkeypatch.setattr(jax_operator, "_platform", lambda: "neuron")
    np.testing.assert_allclose(op(X, GAMMA, 1e-5)[0], reference(), rtol=1e-4, atol=1e-5)
    assert [k.calls for k in official] == [1]
    with pytest.raises(
        Exception, match="tracer"
    ):  # the stand-in takes none: it was called while tracing
        sys.modules["jax"].jit(op)(X, GAMMA)
    assert [k.calls for k in official] == [2]


def test_without_the_official_package_an_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "nki", None)
    op = nki_lab.torch.custom_op("device::missing", rmsnorm, backward="auto", no_grad=("rstd",))
    with pytest.raises(PackageMissing, match="this Python has no official package nki"):
        op._registered.on_device(torch.tensor(X), torch.tensor(GAMMA))
    with nki_lab.aliases(), pytest.raises(PackageMissing):  # what `import nki` finds is ours
        op._registered.on_device(torch.tensor(X), torch.tensor(GAMMA))


def test_a_backward_that_is_made_has_no_text_for_a_device(official):
    from nki_lab.frameworks.on_device import run_official
    from nki_lab.frameworks.operator import ReverseOperator, kernel_operator

    forward = kernel_operator("device::forward", rmsnorm, None, (), None)
    made = ReverseOperator(forward, ("out", "rstd"), ("x",))
    with pytest.raises(NotModelled, match="is made from the instructions of the kernel"):
        run_official(made, (X, X, X, GAMMA, 1e-5), "xla:0", lambda number: None)
    assert not official
