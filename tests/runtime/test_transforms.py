"""Calls of kernels inside transforms of torch and JAX end in one error that says what to use.

Neither library is needed: classes that look like theirs stand for them. Where they are installed, they are asked too.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.errors import KernelArgument, KernelErrors
from nki_lab.runtime import jit
from nki_lab.runtime.arrays import to_numpy


@jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


X = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
DOORS = {
    "call": add,
    "run": lambda *args: nki_lab.run(add, *args),
    "compile": lambda *args: add.compile(*args),
    "compiled": lambda *args: add.compile(X, X)(*args),
    "vary": lambda *args: nki_lab.vary(add, *args, target=["trn1", "trn2"]),
}


def refused(call, *args) -> KernelArgument:
    with pytest.raises(KernelArgument) as raised:
        call(*args)
    return raised.value


# -- stand-ins -------------------------------------------------------------------------------------------------------


class Tensor:
    """Looks like a tensor of torch, as far as it is looked at."""

    __module__ = "torch"
    device = SimpleNamespace(type="cpu")
    dtype = "torch.float32"

    def __init__(self, array: np.ndarray, requires_grad: bool = False) -> None:
        self.array = array
        self.requires_grad = requires_grad

    def detach(self) -> Tensor:
        return Tensor(self.array)

    def numpy(self) -> np.ndarray:
        assert not self.requires_grad
        return self.array


class FakeTensor(Tensor):
    __module__ = "torch._subclasses.fake_tensor"


class Proxy(Tensor):
    __module__ = "torch.fx.proxy"

    def __bool__(self) -> bool:
        raise AssertionError("a proxy has no truth value")


class Wrapped(Tensor):
    """A tensor of torch.func."""

    __module__ = "torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return what stands for torch; its attributes say which transform is under way."""
    made: Any = SimpleNamespace(compiling=False, tracing=False, grad=True, callback=None)
    made.compiler = SimpleNamespace(is_compiling=lambda: made.compiling)
    made.jit = SimpleNamespace(is_tracing=lambda: made.tracing)
    made.is_grad_enabled = lambda: made.grad
    functorch = SimpleNamespace(is_functorch_wrapped_tensor=lambda t: isinstance(t, Wrapped))
    made._C = SimpleNamespace(_functorch=functorch)
    made.from_numpy = Tensor
    frames = ModuleType("torch._C._dynamo.eval_frame")
    frames.get_eval_frame_callback = lambda: made.callback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "torch._C._dynamo.eval_frame", frames)
    return made


def test_tensors_outside_of_transforms_are_taken(torch):
    np.testing.assert_array_equal(add(Tensor(X), Tensor(2 * X)).array, 3 * X)
    torch.callback = False  # torch runs what it has compiled, and looks at nothing else
    np.testing.assert_array_equal(add(Tensor(X), Tensor(2 * X)).array, 3 * X)


@pytest.mark.parametrize("door", DOORS)
def test_what_torch_compiles_is_refused(torch, door):
    for torch.compiling, torch.callback in ((True, None), (False, object())):
        error = refused(DOORS[door], Tensor(X), Tensor(X))
        assert "torch.compile" in error.message
        assert "kernel = torch.compiler.disable(kernel)" in error.help


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("kind", "word"), [(FakeTensor, "fake tensor"), (Proxy, "torch.fx"), (Wrapped, "torch.func")]
)
def test_tensors_without_values_are_refused(torch, door, kind, word):
    error = refused(DOORS[door], Tensor(X), kind(X))
    assert error.message.startswith("argument `b` has no values")
    assert word in error.message
    assert "call the kernel outside of the transformed function" in error.help
    assert error.span is not None


def test_traces_and_gradients_are_not_lost_silently(torch):
    torch.tracing = True
    assert "torch.jit.trace" in refused(add, Tensor(X), Tensor(X)).message
    torch.tracing = False
    error = refused(add, Tensor(X), Tensor(X, requires_grad=True))
    assert error.message == (
        "argument `b` requires gradients, which a kernel called directly does not compute: they would be lost"
    )
    assert "nki_lab.torch.custom_op(name, backward=...)(kernel)" in error.help
    assert "tensor.detach()" in error.help and "torch.no_grad()" in error.help
    # What a result is compared with may be wide, and may have gradients.
    assert (
        to_numpy("reference", Tensor(X.astype(np.float64), requires_grad=True)).dtype == "float64"
    )
    torch.grad = False
    np.testing.assert_array_equal(add(Tensor(X), Tensor(X, requires_grad=True)).array, 2 * X)


class Tracer:
    """Looks like a tracer of JAX."""

    __module__ = "jax._src.core"
    shape, dtype, ndim = X.shape, X.dtype, X.ndim

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("a tracer has no values")


def tracer(name: str) -> Tracer:
    return type(name, (Tracer,), {"__module__": "jax._src.interpreters"})()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("DynamicJaxprTracer", "jax.jit, jax.lax.scan"),
        ("BatchTracer", "jax.vmap"),
        ("JVPTracer", "jax.grad"),
        ("LinearizeTracer", "jax.grad"),
        ("AnotherTracer", "a transform of JAX"),
    ],
)
def test_tracers_are_refused(door, name, word):
    error = refused(DOORS[door], X, tracer(name))
    assert error.message.startswith("argument `b` has no values: it is a tracer of " + word)
    assert "outside of the transformed function" in error.help
    assert "nki_lab.jax.custom_op(name, backward=...)(kernel)" in error.help
    assert error.span is not None


class JaxArray:
    __module__ = "jaxlib._jax"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.array


@pytest.mark.parametrize(("dtype", "wanted"), [(np.int64, "int32"), (np.float64, "float32")])
def test_a_cast_is_written_as_its_library_does(torch, dtype, wanted):
    wide = X.astype(dtype)
    casts = [
        (Tensor(wide), f"tensor.to(torch.{wanted})"),
        (JaxArray(wide), f"array.astype(jnp.{wanted})"),
    ]
    if (
        dtype is not np.int64
    ):  # from NumPy it may be a scalar's; an instruction that takes it names the cast
        casts.append((wide, f"array.astype(np.{wanted})"))
    for given, cast in casts:
        error = refused(add, given, given)
        assert error.message == f"argument `a` has dtype {dtype.__name__}, which NKI does not have"
        assert error.help == f"cast it first, e.g. {cast}"
        assert error.span is not None


def test_64_bits_from_numpy_are_for_scalars_only():
    with pytest.raises(KernelErrors) as raised:
        add(X.astype(np.int64), X.astype(np.int64))
    assert all("array.astype(np.int32)" in e.help for e in raised.value.errors)


# -- the libraries themselves ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_itself(real_torch):
    torch = real_torch
    a = torch.from_numpy(X)
    for transformed in (
        lambda: torch.vmap(add)(a[None], a[None]),
        lambda: torch.func.grad(lambda x: add(x, a).sum())(a),
        lambda: torch.func.jvp(lambda x: add(x, a), (a,), (a,)),
    ):
        assert "torch.func" in refused(transformed).message
    assert "torch.jit.trace" in refused(lambda: torch.jit.trace(add, (a, a))).message
    needs = a.clone().requires_grad_()
    assert "requires gradients" in refused(add, needs, a).message
    with torch.no_grad():
        np.testing.assert_array_equal(add(needs, a).numpy(), 2 * X)
    assert "tensor.to(torch.int32)" in refused(add, a.to(torch.int64), a).help


def test_jax_itself():
    jax = pytest.importorskip("jax")
    a = jax.numpy.asarray(X)
    for transformed in (
        lambda: jax.jit(add)(a, a),
        lambda: jax.vmap(add)(a[None], a[None]),
        lambda: jax.grad(lambda x: add(x, a).sum())(a),
        lambda: jax.lax.scan(lambda c, x: (add(c, x), x), a, a[None]),
        lambda: jax.eval_shape(add, a, a),
    ):
        assert "has no values" in refused(transformed).message
    called = jax.jit(
        lambda x: jax.pure_callback(
            lambda y: add(np.asarray(y), X), jax.ShapeDtypeStruct(x.shape, x.dtype), x
        )
    )
    np.testing.assert_array_equal(called(a), 2 * X)
    np.testing.assert_array_equal(add(a, a), 2 * X)
