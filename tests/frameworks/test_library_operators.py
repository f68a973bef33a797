"""Operators of the library's kernels: their gradients are those of the operators of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab import kernels
from nki_lab.errors import KernelArgument, NotModelled
from tests.kernels.test_torch import OPERATORS
from tests.thorough import first

torch = pytest.importorskip("torch")
F = torch.nn.functional

#: Kernels whose operators have a backward; the first two have one that was written by hand.
DIFFERENTIABLE = ["flash_attention", "flash_fwd", "cross_entropy"]
DIFFERENTIABLE += sorted(
    n for n in kernels.names() if kernels.get(n).operator and n not in DIFFERENTIABLE
)

SIZES = {
    "flash_attention": {"heads": 4, "kv_heads": 2, "keys": 128, "d": 24, "causal": 1},
    "flash_fwd": {
        "heads": 2, "kv_heads": 1, "queries": 256, "keys": 256, "d": 24, "causal": 1, "window": 50, "training": 1,
    },
}  # fmt: skip


def _flash_fwd(q: Any, k: Any, v: Any, softmax_scale: float, sliding_window: int, **_: Any) -> Any:
    query, key = np.ogrid[: q.shape[3], : k.shape[3]]
    seen = torch.from_numpy((key <= query) & (key > query - sliding_window))
    q, k = q.swapaxes(2, 3), k.swapaxes(2, 3)
    return F.scaled_dot_product_attention(q, k, v, seen, scale=softmax_scale, enable_gqa=True)


def _leaves(arguments: dict[str, Any], dtype: Any = None) -> dict[str, Any]:
    made = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
            if value.dtype.is_floating_point:
                value = value.to(dtype).requires_grad_()
            elif dtype is not None:
                value = value.long()
        made[name] = value
    return made


@pytest.mark.parametrize("name", first(DIFFERENTIABLE, 3))
def test_gradients_are_those_of_torch(name):
    kernel = kernels.get(name)
    operator = nki_lab.torch.custom_op(f"library::{name}", kernel)
    arguments = kernel.example(SIZES.get(name, kernel.tested[0]), seed=4)
    if name == "flash_fwd":
        arguments.pop("config")
        arguments["softmax_scale"] = 0.3
    ours, theirs = _leaves(arguments), _leaves(arguments, torch.float64)
    reference = {**OPERATORS, "flash_fwd": _flash_fwd}.get(name, OPERATORS["flash_attention"])
    found, wanted = operator(**ours), reference(**theirs)
    found, wanted = (r[0] if isinstance(r, tuple) else r for r in (found, wanted))
    weights = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(6))
    (found * weights).sum().backward()
    (wanted * weights).sum().backward()
    assert operator.wrt == tuple(
        n for n, t in theirs.items() if getattr(t, "grad", None) is not None
    )
    for argument in operator.wrt:
        expected = theirs[argument].grad
        error = (ours[argument].grad - expected).abs().max() / expected.abs().max()
        assert error < 1e-5, (argument, error)


def test_dropout_drops_the_same_weights_in_the_backward():
    operator = nki_lab.torch.custom_op("library::dropout", kernels.get("flash_fwd"))
    q, k, v = (torch.randn(1, 1, *shape) for shape in ((8, 128), (8, 128), (128, 8)))
    seed = torch.tensor([11], dtype=torch.int32)
    given = (q, k, v, seed, None, 0.3, True, -1, False, 0.4)
    assert (operator(*given)[0] - operator(*given[:-1], 0.0)[0]).abs().max() > 0.1
    nki_lab.check_op(operator, *given, only="gradcheck")


def test_what_a_library_kernel_brings_can_be_replaced():
    x, gamma = torch.randn(3, 4, requires_grad=True), torch.ones(4)
    zero = nki_lab.torch.custom_op(
        "library::zero", kernels.rmsnorm, backward=lambda dout, x: 0 * x, wrt=("x",)
    )
    zero(x, gamma).sum().backward()
    assert not x.grad.any()
    attention = nki_lab.torch.custom_op("library::ragged", kernels.flash_attention)
    q, k, v = (torch.randn(1, 1, *s, requires_grad=True) for s in ((8, 100), (8, 100), (100, 8)))
    with pytest.raises(KernelArgument, match="no gradient for 100 queries and 100 keys") as raised:
        attention(q, k, v).sum().backward()
    assert "pad `q`" in raised.value.help
    with pytest.raises(NotModelled, match="library::cumsum has no backward"):
        nki_lab.torch.custom_op("library::cumsum", kernels.get("cumsum"))(x).sum().backward()
