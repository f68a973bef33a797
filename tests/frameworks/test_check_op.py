"""`check_op` says what is right, finds what is wrong, and writes the table of transforms in the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import nki
from nki_lab.errors import CheckFailed, KernelArgument, UnknownOption
from tests.frameworks.kernels import rmsnorm, rmsnorm_backward

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
GAMMA = np.linspace(-0.5, 1.5, 4).astype(np.float32)
EPS = 1e-5


def torch_reference(x: Any, gamma: Any, eps: float) -> Any:
    torch = pytest.importorskip("torch")
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * gamma


def jax_reference(x: Any, gamma: Any, eps: float) -> Any:
    jax = pytest.importorskip("jax")
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


FRAMEWORKS = {
    "torch": (nki_lab.torch.custom_op, torch_reference),
    "jax": (nki_lab.jax.custom_op, jax_reference),
}
#: What a run that is not thorough tries.
SOME = {
    "torch": ("forward", "backward", "vmap(grad)", "jvp", "gradcheck"),
    "jax": ("forward", "jvp"),
}


def checked(framework: str, backward: Any = rmsnorm_backward, **options: Any) -> Any:
    library = pytest.importorskip(framework)
    make, reference = FRAMEWORKS[framework]
    operator = make("lab::checked", rmsnorm, backward=backward, no_grad=("rstd",))
    array = library.tensor if framework == "torch" else library.numpy.asarray
    arguments = array(X), array(GAMMA), EPS
    return nki_lab.check_op(operator, *arguments, **{"reference": reference, **options})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_right_operator_passes(framework):
    check = checked(framework, only=SOME[framework])
    assert [o.verdict for o in check.outcomes].count("matches") == len(SOME[framework]) - 1
    assert check["jvp"].verdict == "loud error"
    assert "lab::checked" in repr(check) and " has no forward-mode derivative" in repr(check)


@nki.jit
def with_a_narrow_result(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    narrow = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.multiply(tile, tile))
    nl.store(narrow, nl.exp(tile))
    return out, narrow


def test_differences_of_a_narrow_result_tell_nothing_of_its_gradient():
    torch = pytest.importorskip("torch")
    operator = nki_lab.torch.custom_op("lab::narrow", with_a_narrow_result, backward="auto")
    check = nki_lab.check_op(
        operator,
        torch.tensor(X),
        reference=lambda x: (x * x, x.exp().bfloat16()),
        only=("backward", "gradcheck"),
    )
    assert [o.verdict for o in check.outcomes] == ["matches", "matches"]


@nki.jit
def five_percent_off(dy, x, gamma, rstd):
    dx, dgamma = rmsnorm_backward(dy, x, gamma, rstd)
    more = nl.ndarray(dgamma.shape, dtype=dgamma.dtype, buffer=nl.shared_hbm)
    row = (1, gamma.shape[0])
    nl.store(more.reshape(row), nl.multiply(nl.load(dgamma.reshape(row)), 1.05))
    return dx, more


@pytest.mark.parametrize(
    ("only", "reference"), [("gradcheck", None), ("backward", torch_reference)]
)
def test_an_error_of_five_percent_in_a_gradient_is_found(only, reference):
    with pytest.raises(CheckFailed, match=f"is wrong under {only}") as raised:
        checked("torch", five_percent_off, only=only, reference=reference)
    if only == "backward":
        assert "gradient of `gamma`, by 5.0e-02 of the largest element" in raised.value.message


@pytest.mark.thorough
def test_an_error_of_five_percent_is_found_in_jax():
    with pytest.raises(CheckFailed, match="is wrong under grad"):
        checked("jax", five_percent_off, only="grad")


def test_what_is_silently_zero_is_found():
    torch = pytest.importorskip("torch")

    class Cube(torch.autograd.Function):
        """Its backward leaves PyTorch, and with it goes a part of the second derivative."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * torch.from_numpy(3 * x.detach().numpy() ** 2)

    def check(function: Any, only: str) -> Any:
        return nki_lab.check_op(function, torch.tensor(X), reference=lambda x: x**3, only=only)

    for twice in ("backward, twice", "grad(grad)", "jvp"):
        assert check(lambda x: x * x * x, twice)[twice].verdict == "matches"
    assert check(Cube.apply, "backward")["backward"].verdict == "matches"
    with pytest.raises(CheckFailed, match="DIFFERS  gradient of `argument 0`, by"):
        check(Cube.apply, "backward, twice")


def test_mistakes():
    torch = pytest.importorskip("torch")
    with pytest.raises(KernelArgument, match="neither PyTorch nor JAX"):
        nki_lab.check_op(abs, X)
    with pytest.raises(UnknownOption, match="no transform `backwards`") as raised:
        nki_lab.check_op(torch.sin, torch.tensor(X), only="backwards")
    assert "backward" in raised.value.help
    large = torch.zeros(128, 512, requires_grad=True)
    with pytest.raises(KernelArgument, match="65,536 elements") as raised:
        nki_lab.check_op(torch.sin, large)
    assert "give smaller arguments" in raised.value.help
    assert nki_lab.check_op(torch.sin, large, only="forward")["forward"].verdict == "matches"


@pytest.mark.thorough
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_table_of_all_transforms(framework):
    rows = [f"| `{o.name}` | {o.verdict} |" for o in checked(framework).outcomes]
    table = "\n".join(["| transform | outcome |", "|---|---|", *rows])
    assert table in (ROOT / "docs/operators.md").read_text(), table
