"""One step of Adam or AdamW."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core

_STEP = 2048  # columns of a tile


@nki.jit
def adam(
    param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr, step_size_ptr, inv_bc2_sqrt_ptr, wd_factor_ptr,
    beta1=0.9, beta2=0.999, eps=1e-8, decoupled=False,
):  # fmt: skip
    """Return parameters and both moments after one step of Adam, or of AdamW where `decoupled` is true.

    What changes from step to step is given as tensors, so that one compiled kernel serves all steps.

    Args:
        param_ptr, grad_ptr: [N], float32 or bfloat16: the parameters, and their gradient.
        exp_avg_ptr, exp_avg_sq_ptr: [N], float32: the moving averages of the gradient and of its square.
        step_size_ptr: [128, 1], float32, all alike: lr / (1 - beta1 ** step).
        inv_bc2_sqrt_ptr: [128, 1], float32, all alike: 1 / sqrt(1 - beta2 ** step).
        wd_factor_ptr: [128, 1], float32, all alike: the weight decay; where `decoupled`, 1 - lr * decay.
        beta1, beta2: how much of the averages stays in a step.
        eps: added to the root of the second average.
        decoupled: multiply the parameters by `wd_factor_ptr`, and do not add them to the gradient.

    Returns:
        The parameters in their dtype, and both averages in float32, each [N].
    """
    inputs = (param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr)
    _check(inputs, (step_size_ptr, inv_bc2_sqrt_ptr, wd_factor_ptr))
    outs = tuple(
        nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for x in (param_ptr, exp_avg_ptr, exp_avg_sq_ptr)
    )
    step, root, decay = (loaded(x) for x in (step_size_ptr, inv_bc2_sqrt_ptr, wd_factor_ptr))
    for scalar, op, operand in ((step, nl.multiply, -1.0), (root, nl.multiply, root)):
        nisa.tensor_scalar(dst=scalar, data=scalar, op0=op, operand0=operand)  # -step, root ** 2
    for n, views in enumerate(_tiles((*inputs, *outs))):
        if not of_this_core(n):
            continue
        param, grad, average, square = (loaded(view) for view in views[:4])
        size = param.shape[0]
        if not decoupled:
            total = nl.ndarray(grad.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(
                dst=total, data=param, op0=nl.multiply, operand0=decay[:size],
                op1=nl.add, operand1=grad,
            )  # fmt: skip
            grad = total
        added = nl.ndarray(grad.shape, dtype=nl.float32, buffer=nl.sbuf)
        for moment, beta in ((average, beta1), (square, beta2)):
            if moment is average:
                nisa.activation(dst=added, op=nl.copy, data=grad, scale=1 - beta)
            else:
                nisa.activation(dst=added, op=nl.square, data=grad, scale=(1 - beta) ** 0.5)
            nisa.scalar_tensor_tensor(
                dst=moment, data=moment, op0=nl.multiply, operand0=beta, op1=nl.add, operand1=added
            )
        # The parameter loses step * average / (root + eps).
        nisa.activation(dst=added, op=nl.sqrt, data=square, scale=root[:size])
        nisa.tensor_scalar(dst=added, data=added, op0=nl.add, operand0=eps)
        nisa.activation(dst=added, op=nl.reciprocal, data=added)
        nisa.tensor_tensor(dst=added, data1=added, data2=average, op=nl.multiply)
        if decoupled:
            kept = nl.ndarray(param.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=kept, op=nl.copy, data=param, scale=decay[:size])
        else:
            kept = param
        nisa.scalar_tensor_tensor(
            dst=param, data=added, op0=nl.multiply, operand0=step[:size], op1=nl.add, operand1=kept
        )
        for view, tile in zip(views[4:], (param, average, square), strict=True):
            nisa.dma_copy(dst=view, src=tile)
    return outs


def _check(inputs, factors):
    check_floats("adam", param_ptr=inputs[0], grad_ptr=inputs[1])
    names = ("param_ptr", "grad_ptr", "exp_avg_ptr", "exp_avg_sq_ptr")
    count = inputs[0].shape
    for name, x in zip(names, inputs, strict=True):
        require(
            len(x.shape) == 1 and x.shape == count,
            f"adam: `{name}` has shape {list(x.shape)}; expected [N], as long as `param_ptr` {list(count)}",
            "give flat tensors: x.reshape(-1)",
        )
        require(
            "avg" not in name or x.dtype == nl.float32,
            f"adam: `{name}` is {x.dtype}; expected float32",
            "keep the moving averages in float32: what a step adds would be lost in fewer bits",
        )
    scalars = ("step_size_ptr", "inv_bc2_sqrt_ptr", "wd_factor_ptr")
    for name, x in zip(scalars, factors, strict=True):
        require(
            tuple(x.shape) == (nl.tile_size.pmax, 1) and x.dtype == nl.float32,
            f"adam: `{name}` is {list(x.shape)} {x.dtype}; expected [128, 1] float32",
            "write np.full((128, 1), value, np.float32)",
        )


def _tiles(tensors: Any) -> Iterator[list[Any]]:
    """Yield the same part of each tensor [N], as [128, columns], and at the end as [1, rest]."""
    count, pmax = tensors[0].shape[0], nl.tile_size.pmax
    columns = count // pmax
    if columns:
        full = [x[: columns * pmax].reshape((pmax, columns)) for x in tensors]
        for start in range(0, columns, _STEP):
            yield [x[:, start : min(start + _STEP, columns)] for x in full]
    if count % pmax:
        yield [x[columns * pmax :].reshape((1, count % pmax)) for x in tensors]


def _arguments(rng: np.random.Generator, dtype: Any, count: int, decoupled: int) -> dict[str, Any]:
    lr, decay, step = 0.01, 0.1, 7
    factors = {
        "step_size_ptr": lr / (1 - 0.9**step),
        "inv_bc2_sqrt_ptr": 1 / np.sqrt(1 - 0.999**step),
        "wd_factor_ptr": 1 - lr * decay if decoupled else decay,
    }
    return {
        "param_ptr": rng.standard_normal(count).astype(dtype),
        "grad_ptr": rng.standard_normal(count).astype(dtype),
        "exp_avg_ptr": rng.standard_normal(count).astype(np.float32),
        "exp_avg_sq_ptr": rng.uniform(0, 0.01, count).astype(np.float32),
        **{name: np.full((128, 1), value, np.float32) for name, value in factors.items()},
        "decoupled": bool(decoupled),
    }


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return a first step, where both averages are 0, with gradients of 0, NaN and -inf."""
    arguments = _arguments(rng, np.float32, 200, 1)
    arguments["grad_ptr"][:5] = 0, np.nan, -np.inf, 1e-12, -1e4
    for name in ("exp_avg_ptr", "exp_avg_sq_ptr"):
        arguments[name][:] = 0
    return arguments


_LAYOUT = {
    "exp_avg_ptr": (9,),
    "exp_avg_sq_ptr": (9,),
    "step_size_ptr": (128, 1),
    "inv_bc2_sqrt_ptr": (128, 1),
    "wd_factor_ptr": (128, 1),
}


def _reference(
    param_ptr: Any, grad_ptr: Any, exp_avg_ptr: Any, exp_avg_sq_ptr: Any,
    step_size_ptr: Any, inv_bc2_sqrt_ptr: Any, wd_factor_ptr: Any,
    beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, decoupled: bool = False,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    param, grad, average, square = (
        x.astype(np.float64) for x in (param_ptr, grad_ptr, exp_avg_ptr, exp_avg_sq_ptr)
    )
    step, root, decay = (float(x[0, 0]) for x in (step_size_ptr, inv_bc2_sqrt_ptr, wd_factor_ptr))
    if not decoupled:
        grad = grad + decay * param
    average = beta1 * average + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    kept = param * decay if decoupled else param
    with np.errstate(invalid="ignore"):
        quotient = average / (np.sqrt(square) * root + eps)
    return kept - step * quotient, average, square


KERNEL = Prebuilt(
    kernel=adam,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"count": 128 * 96, "decoupled": 0},
        {"count": 128 * 2100 + 77, "decoupled": 1},
        {"count": 1, "decoupled": 0},
    ),
    ranges={"count": range(1, 3000), "decoupled": range(2)},
    timed=(
        {"count": 1024 * 1024, "decoupled": 1},
        {"count": 16 * 1024 * 1024, "decoupled": 1},
    ),
    cores=(1, 2),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    steps=(
        Step(
            "The parameters lie over 128 partitions, 2048 of each at a time; up to 127 at the end lie in one.",
            "for n, views in enumerate(_tiles(",
        ),
        Step("Adam adds decay * parameter to the gradient.", "if not decoupled"),
        Step(
            "The Scalar engine computes (1 - beta1) * gradient and (1 - beta2) * gradient ** 2.",
            "for moment, beta in",
        ),
        Step(
            "The Vector engine adds them to the averages, times beta1 and beta2.",
            "nisa.scalar_tensor_tensor(",
        ),
        Step(
            "The Scalar engine takes the root of the second average; the bias correction is its scale.",
            "nisa.activation(dst=added, op=nl.sqrt",
        ),
        Step(
            "Vector adds eps, Scalar takes the reciprocal, and Vector subtracts step * average * reciprocal.",
            "nisa.tensor_scalar(dst=added",
        ),
        Step("AdamW first multiplies the parameter by its factor.", "if decoupled:"),
    ),
    sources=(
        "NKI Library, fused Adam",
        "D. Kingma and J. Ba, arXiv:1412.6980",
        "I. Loshchilov and F. Hutter, arXiv:1711.05101",
    ),
    edges={"a first step with NaN": _edge},
    refused=(
        Refused(
            {"param_ptr": (3, 3), "grad_ptr": (3, 3), **_LAYOUT},
            "`param_ptr` has shape [3, 3]; expected [N]",
            "x.reshape(-1)",
        ),
        Refused(
            {"param_ptr": (9,), "grad_ptr": np.zeros(9, np.int32), **_LAYOUT},
            "`grad_ptr` is int32; expected float32 or bfloat16",
            "grad_ptr.astype(np.float32)",
        ),
        Refused(
            {"param_ptr": (9,), "grad_ptr": (8,), **_LAYOUT},
            "`grad_ptr` has shape [8]; expected [N], as long as `param_ptr` [9]",
            "flat",
        ),
        Refused(
            {
                "param_ptr": (9,),
                "grad_ptr": (9,),
                **_LAYOUT,
                "exp_avg_ptr": np.zeros(9, np.float16),
            },
            "`exp_avg_ptr` is float16; expected float32",
            "in float32",
        ),
        Refused(
            {"param_ptr": (9,), "grad_ptr": (9,), **_LAYOUT, "step_size_ptr": (1, 1)},
            "`step_size_ptr` is [1, 1] float32; expected [128, 1] float32",
            "np.full((128, 1)",
        ),
    ),
)
