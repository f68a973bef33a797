"""Names of other official packages: calls as their documentation shows them, against formulas, by value."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import nki
from nki_lab.api.beta1 import language as nl1
from nki_lab.errors import KernelArgument, NotModelled

torch = pytest.importorskip("torch")
X, Y = np.random.default_rng(3).standard_normal((2, 4, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def installed():
    nki_lab.compat.install()
    yield
    nki_lab.compat.uninstall()
    nki_lab.uninstall()


def scaled_sum(a, b, out, scale=1.0):
    """Write (a + b) * scale, in the dialect and form of SDK 2.20."""
    nl1.store(out, nl1.multiply(nl1.add(nl1.load(a), nl1.load(b)), scale))


def two_rows(a, out):
    """Write twice two rows for each program of a grid."""
    rows = nl1.program_id(0) * 2 + nl1.arange(2)[:, None]
    columns = nl1.arange(6)[None, :]
    nl1.store(out[rows, columns], nl1.load(a[rows, columns]) * 2.0)


@nki.jit
def scaled(x, scale=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), scale))
    return out


@nki.jit
def write_scaled(x, out):
    nl.store(out, nl.multiply(nl.load(x), 3.0))


def test_nki_jit():
    from torch_neuronx import nki_jit

    out = torch.zeros(4, 6)
    nki_jit(scaled_sum)(torch.tensor(X), torch.tensor(Y), out, -2.0)
    np.testing.assert_allclose(out, (X + Y) * -2, rtol=1e-6)
    nki_jit(two_rows)[2](torch.tensor(X), out)
    np.testing.assert_allclose(out, 2 * X, rtol=1e-6)
    wide = torch.zeros(4, 6, dtype=torch.bfloat16)
    nki_jit(two_rows)[(2,)](torch.tensor(X).bfloat16(), wide)
    torch.testing.assert_close(wide, 2 * torch.tensor(X).bfloat16())


def test_nki_op():
    from torch_neuronx import nki, nki_op

    assert nki is sys.modules["nki_lab.api.nki"]

    @nki_op("compat::tripled", mutates_args={})
    def tripled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        write_scaled(x, out)
        return out

    tripled.register_autograd(lambda ctx, grad: tripled(grad))
    x = torch.tensor(X, requires_grad=True)
    step = torch.compile(lambda x: tripled(x).pow(3).sum(), backend="aot_eager", fullgraph=True)
    for function in (lambda x: tripled(x).pow(3).sum(), step):
        (grad,) = torch.autograd.grad(function(x), x)
        np.testing.assert_allclose(grad, 81 * X**2, rtol=1e-5)


def test_wrap_nki():
    call = nki_lab.compat.wrap_nki(scaled)
    x = torch.tensor(X)
    np.testing.assert_allclose(call[1](x=x, scale=-3.0), -3 * X, rtol=1e-6)
    compiled = torch.compile(lambda x: call(x=x) + 1, backend="aot_eager", fullgraph=True)
    np.testing.assert_allclose(compiled(x), 2 * X + 1, rtol=1e-6)
    with pytest.raises(KernelArgument, match="by position"):
        call(x)
    with pytest.raises(NotModelled, match="has no backward"):
        call(x=x.requires_grad_()).sum().backward()


def test_nki_call():
    jax = pytest.importorskip("jax")
    from jax_neuronx import nki_call

    shape = jax.ShapeDtypeStruct((4, 6), np.float32)
    for wrap in (lambda f: f, jax.jit):
        call = wrap(lambda a, b: nki_call(partial(scaled_sum, scale=3.0), a, b, out_shape=shape))
        np.testing.assert_allclose(call(X, Y), (X + Y) * 3, rtol=1e-6)
    (rows,) = nki_call(two_rows, X, grid=(2,), out_shape=[shape])
    np.testing.assert_allclose(rows, 2 * X, rtol=1e-6)
    (half,) = nki_call(two_rows, X, grid=1, out_shape=(shape,))
    np.testing.assert_allclose(half[:2], 2 * X[:2], rtol=1e-6)
    assert np.isnan(half[2:]).all()  # nobody wrote it
    batch = jax.vmap(lambda a: nki_call(two_rows, a, grid=2, out_shape=shape))(np.stack([X, Y]))
    np.testing.assert_allclose(batch, 2 * np.stack([X, Y]), rtol=1e-6)
    with pytest.raises(KernelArgument, match="by position"):
        nki_call(partial(two_rows, X), out_shape=shape)


def test_what_is_installed_is_never_hidden(tmp_path):
    (tmp_path / "torch_neuronx.py").write_text("official = True\n")
    script = (
        "import nki_lab; nki_lab.compat.install(); import torch_neuronx, sys\n"
        "print(torch_neuronx.official, 'torch' in sys.modules)\n"
        "nki_lab.compat.uninstall(); print('torch_neuronx' in sys.modules)\n"
        "try: import jax_neuronx\nexcept ModuleNotFoundError as error: print(error)\n"
    )
    paths = [str(tmp_path), *sys.path]
    script = f"import sys; sys.path[:] = {paths!r}\n{script}"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert outcome.stdout.splitlines() == ["True False", "True", "No module named 'jax_neuronx'"]
