"""Prebuilt kernels, and their references, against the operators of PyTorch, which others wrote."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import nki_lab.language as nl
from nki_lab import kernels
from nki_lab.errors import KernelArgument


def _attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    q, k = q.swapaxes(2, 3), k.swapaxes(2, 3)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def _decode(
    q: Any, k_active: Any, v_active: Any, k_prior: Any, v_prior: Any, prior_used_len: Any, **_: Any
) -> Any:
    used, new = int(prior_used_len[0]), q.shape[3]  # of a batch of one
    k = torch.cat((k_prior[..., :used], k_active), dim=3).swapaxes(2, 3)
    v = torch.cat((v_prior[:, :, :used], v_active), dim=2)
    seen = torch.ones(new, used + new, dtype=torch.bool).tril(used)
    q = q.permute(0, 2, 3, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    pairs = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(cos, sin)[:, None]
    return torch.cat((pairs.real, pairs.imag), dim=-1)


def _conv1d(
    x_in: Any, filters: Any, bias: Any, stride: int, padding: Any, dilation: int, activation_fn: Any
) -> Any:
    sums = F.conv1d(
        F.pad(x_in, padding), filters.permute(2, 1, 0), bias, stride=stride, dilation=dilation
    )
    return {None: lambda x: x, nl.silu: F.silu, nl.gelu: F.gelu}[activation_fn](sums)


def _depthwise(img_ref: Any, filter_ref: Any, padding: Any, stride: Any, rhs_dilation: Any) -> Any:
    x = F.pad(img_ref, (*padding[1], *padding[0]))
    groups = img_ref.shape[1]
    return F.conv2d(x, filter_ref, stride=stride, dilation=rhs_dilation, groups=groups)


def _pooled(images: Any, filters: Any, bias: Any, pool_size: int) -> Any:
    return F.max_pool2d(F.conv2d(images, filters.permute(3, 2, 0, 1), bias), pool_size)


def _resized(data_tensor: Any, out_shape: Any) -> Any:
    images = data_tensor.permute(0, 3, 1, 2)
    return F.interpolate(images, size=out_shape[1:3], mode="nearest").permute(0, 2, 3, 1)


def _scattered(operand_tensor: Any, source_tensor: Any) -> Any:
    operand = operand_tensor.requires_grad_()
    pooled = F.max_pool2d(operand, 3, stride=2, padding=1)
    return torch.autograd.grad(pooled, operand, source_tensor)[0]


def _slope(logits: Any, targets: Any, lse: Any) -> Any:
    logits.requires_grad_()
    F.cross_entropy(logits, targets[:, 0]).backward()
    return logits.grad


def _adamw(**given: Any) -> Any:
    """Return what torch.optim makes of a parameter in the seventh step, as the arguments are made."""
    param = torch.nn.Parameter(given["param_ptr"])
    param.grad = given["grad_ptr"]
    adam = torch.optim.AdamW([param], lr=0.01, weight_decay=0.1)
    adam.state[param] = {
        "step": torch.tensor(6.0),
        "exp_avg": given["exp_avg_ptr"],
        "exp_avg_sq": given["exp_avg_sq_ptr"],
    }
    adam.step()
    return param.detach(), adam.state[param]["exp_avg"], adam.state[param]["exp_avg_sq"]


#: What PyTorch makes of the arguments of a kernel, tensors of float64 and int64.
OPERATORS = {
    "attention_decode": _decode,
    "adaptive_avg_pool2d": lambda in_tensor, output_size: F.adaptive_avg_pool2d(
        in_tensor, output_size
    ),
    "adam": _adamw,
    "argsort": lambda data, descending: torch.argsort(data, descending=descending, stable=True),
    "conv1d": _conv1d,
    "conv2d_maxpool": _pooled,
    "cross_entropy": lambda logits, targets: (
        F.cross_entropy(logits, targets[:, 0], reduction="none")[:, None],
        torch.logsumexp(logits, dim=1, keepdim=True),
    ),
    "cross_entropy_backward": _slope,
    "cumsum": lambda x: torch.cumsum(x, dim=1),
    "depthwise_conv1d": _depthwise,
    "flash_attention": _attention,
    "gather": lambda input, dim, index: input.index_select(dim, index),
    "layernorm": lambda x, gamma, beta: F.layer_norm(x, x.shape[1:], gamma, beta, eps=1e-5),
    "matmul": lambda lhs_t, rhs: torch.matmul(lhs_t.T, rhs),
    "resize_nearest": _resized,
    "rmsnorm": lambda x, gamma: F.rms_norm(x, x.shape[1:], gamma, eps=1e-6),
    "rope": _rope,
    "scatter_add": lambda input, dim, index, src: input.index_add(dim, index, src),
    "select_and_scatter": _scattered,
    "softmax": lambda x: F.softmax(x, dim=1),
    "topk": lambda inp, k: tuple(
        part[:, :k] for part in torch.sort(inp, dim=1, descending=True, stable=True)
    ),
    "swiglu_mlp": lambda x_t, gate, up, down: (F.silu(x_t.T @ gate) * (x_t.T @ up)) @ down,
}


#: Kernels whose arguments hold what the operator computes by itself, rounded to float32.
ROUNDED = {"adam", "cross_entropy_backward"}


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
    exact = 1e-6 if name in ROUNDED else 1e-12
    assert kernel.error(expected, arguments) < exact  # so the reference agrees with it
    assert kernel.error(kernel(**arguments), arguments) <= kernel.tolerance["float32"]


def test_a_result_of_a_dtype_that_torch_lacks_is_named():
    arguments = kernels.get("rmsnorm_quant").example()
    arguments["hidden"] = torch.from_numpy(arguments["hidden"])
    message = "a result is float8_e4m3, which cannot become a tensor of PyTorch"
    with pytest.raises(KernelArgument, match=message) as caught:
        kernels.rmsnorm_quant(**arguments)
    assert "pass NumPy arrays" in caught.value.help
