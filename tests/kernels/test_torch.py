"""Prebuilt kernels, and their references, against the operators of PyTorch, which others wrote."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from nki_lab import kernels


def _attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    q, k = q.swapaxes(2, 3), k.swapaxes(2, 3)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(cos, sin)[:, None]
    return torch.cat((pairs.real, pairs.imag), dim=-1)


#: What PyTorch makes of the arguments of a kernel, tensors of float64 and int64.
OPERATORS = {
    "cross_entropy": lambda logits, targets: (
        F.cross_entropy(logits, targets[:, 0], reduction="none")[:, None],
        torch.logsumexp(logits, dim=1, keepdim=True),
    ),
    "cumsum": lambda x: torch.cumsum(x, dim=1),
    "flash_attention": _attention,
    "layernorm": lambda x, gamma, beta: F.layer_norm(x, x.shape[1:], gamma, beta, eps=1e-5),
    "matmul": lambda lhs_t, rhs: torch.matmul(lhs_t.T, rhs),
    "rmsnorm": lambda x, gamma: F.rms_norm(x, x.shape[1:], gamma, eps=1e-6),
    "rope": _rope,
    "softmax": lambda x: F.softmax(x, dim=1),
    "swiglu_mlp": lambda x_t, gate, up, down: (F.silu(x_t.T @ gate) * (x_t.T @ up)) @ down,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_kernel_computes_what_the_operator_computes(name):
    kernel = kernels.get(name)
    size = kernel.tested[1]
    arguments = kernel.example(size, seed=7)
    tensors = {
        key: torch.from_numpy(value).to(torch.float64 if value.dtype.kind == "f" else torch.int64)
        if isinstance(value, np.ndarray)
        else value
        for key, value in arguments.items()
    }
    results = OPERATORS[name](**tensors)
    expected = tuple(map(np.asarray, results)) if isinstance(results, tuple) else results.numpy()
    assert kernel.error(expected, arguments) < 1e-12  # so the reference agrees with it
    assert kernel.error(kernel(**arguments), arguments) <= kernel.tolerance["float32"]
