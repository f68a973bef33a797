"""Gradient of the cross entropy of rows of logits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, elements_at, loaded, of_this_core, places_in_rows

_STEP = 8192
_WIDEST = 2**17  # 128 rows of this width are as many elements as float32 counts


@nki.jit
def cross_entropy_backward(logits, targets, lse, reduction="mean"):
    """Return the gradient of the cross entropy by the logits: exp(logits - lse), less 1 at the target of each row.

    Args:
        logits: [rows, classes], float32 or bfloat16; classes at most 131072.
        targets: [rows] or [rows, 1], int32: the class of each row; any other number is an error when the kernel runs.
        lse: as many float32 values: log(sum(exp(logits))) of each row, the second result of cross_entropy.
        reduction: "mean" where the loss is the mean over the rows, "sum" where it is their sum.

    Returns:
        [rows, classes], of the dtype of `logits`.
    """
    targets, lse = _check(logits, targets, lse, reduction)
    rows, classes = logits.shape
    out = nl.ndarray((rows, classes), dtype=logits.dtype, buffer=nl.shared_hbm)
    count = rows if reduction == "mean" else 1
    for n, first in enumerate(range(0, rows, nl.tile_size.pmax)):
        if not of_this_core(n):
            continue
        part = slice(first, min(first + nl.tile_size.pmax, rows))
        size = part.stop - first
        # exp(x - lse) / count = exp(x + shift)
        shift = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=shift, data=loaded(lse[part]), op0=nl.multiply, operand0=-1.0,
            op1=nl.subtract, operand1=math.log(count),
        )  # fmt: skip
        for start in range(0, classes, _STEP):
            columns = slice(start, min(start + _STEP, classes))
            tile = loaded(logits[part, columns])
            nisa.activation(dst=tile, op=nl.exp, data=tile, bias=shift)
            nisa.dma_copy(dst=out[part, columns], src=tile)
        places = places_in_rows(targets[part], classes)
        chosen = loaded(elements_at(logits[part], places))
        share = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=share, op=nl.exp, data=chosen, bias=shift)
        less = nl.ndarray((size, 1), dtype=logits.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=less, data=share, op0=nl.subtract, operand0=1.0 / count)
        nisa.dma_copy(dst=elements_at(out[part], places), src=less)
    return out


def _check(logits, targets, lse, reduction):
    """Return the targets and lse as [rows, 1]."""
    check_floats("cross_entropy_backward", logits=logits)
    require(
        len(logits.shape) == 2 and logits.shape[1] <= _WIDEST,
        f"cross_entropy_backward: `logits` has shape {list(logits.shape)}; expected [rows, classes], "
        f"classes at most {_WIDEST}",
        "reshape it: logits.reshape((-1, logits.shape[-1]))",
    )
    rows = logits.shape[0]
    for name, value, dtype in (("targets", targets, nl.int32), ("lse", lse, nl.float32)):
        require(
            tuple(value.shape) in ((rows,), (rows, 1)) and value.dtype == dtype,
            f"cross_entropy_backward: `{name}` is {list(value.shape)} {value.dtype}; expected {[rows]} or "
            f"{[rows, 1]} {dtype}",
            f"give one {dtype} for each row of `logits`",
        )
    require(
        reduction in ("mean", "sum"),
        f"cross_entropy_backward: reduction={reduction!r}; expected 'mean' or 'sum'",
        "where each row has a weight, take 'sum' and multiply the rows of the result",
    )
    return targets.reshape((rows, 1)), lse.reshape((rows, 1))


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, classes: int) -> dict[str, Any]:
    logits = (3 * rng.standard_normal((rows, classes))).astype(dtype)
    lse = np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
    targets = rng.integers(0, classes, (rows, 1), np.int32)
    return {"logits": logits, "targets": targets, "lse": lse.astype(np.float32)}


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return rows with masked classes, a masked target, masked classes alone, and NaN."""
    arguments = _arguments(rng, np.float32, 5, 9)
    logits = arguments["logits"]
    logits[0, 2:6] = -np.inf
    logits[1, arguments["targets"][1, 0]] = -np.inf
    logits[2], logits[3, 4] = -np.inf, np.nan
    arguments["lse"][2], arguments["lse"][3] = -np.inf, np.nan
    return arguments


def _loss(logits: Any, targets: Any, lse: Any) -> float:
    every = np.log(np.exp(logits).sum(axis=1))  # not `lse`, which does not follow the logits
    return float((every - logits[np.arange(len(logits)), targets[:, 0]]).mean())


def _reference(logits: Any, targets: Any, lse: Any, reduction: str = "mean") -> np.ndarray:
    rows = np.arange(len(logits))
    with np.errstate(invalid="ignore"):
        gradient: np.ndarray = np.exp(logits.astype(np.float64) - lse.reshape((-1, 1)))
    gradient[rows, targets.reshape(-1)] -= 1
    return gradient / len(rows) if reduction == "mean" else gradient


KERNEL = Prebuilt(
    kernel=cross_entropy_backward,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 128, "classes": 96},
        {"rows": 130, "classes": 8200},
        {"rows": 1, "classes": 1},
    ),
    ranges={"rows": range(1, 200), "classes": range(1, 600)},
    timed=({"rows": 256, "classes": 8192}, {"rows": 1024, "classes": 65536}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    cores=(1, 2),
    chips=("trn2", "trn3"),  # where transfers gather and scatter
    steps=(
        Step(
            "128 rows lie in the partitions, and 8192 classes at a time in the free axis.",
            "for start in range(0, classes, _STEP)",
        ),
        Step(
            "The Scalar engine computes exp(logit - lse), with the mean's 1 / rows as a part of the exponent.",
            "nisa.activation(dst=tile",
        ),
        Step("The results are stored as they are.", "nisa.dma_copy(dst=out[part, columns]"),
        Step(
            "One transfer gathers the logit of each row's class, and its gradient is computed anew, less 1.",
            "chosen = loaded(",
        ),
        Step(
            "One transfer scatters these gradients over those that were stored.",
            "nisa.dma_copy(dst=elements_at(",
        ),
    ),
    sources=("NKI Library, cross entropy backward",),
    loss=_loss,
    gradients=("logits",),
    edges={"masked classes and NaN": _edge},
    refused=(
        Refused(
            {"logits": (4, 9), "targets": (4,), "lse": (4,)},
            "`targets` is [4] float32; expected [4] or [4, 1] int32",
            "one int32 for each row",
        ),
        Refused(
            {"logits": (4, 9), "targets": np.zeros(4, np.int32), "lse": (4, 9)},
            "`lse` is [4, 9] float32",
            "one float32 for each row",
        ),
        Refused(
            {
                "logits": (4, 9),
                "targets": np.zeros(4, np.int32),
                "lse": (4,),
                "reduction": "none",
            },
            "reduction='none'; expected 'mean' or 'sum'",
            "take 'sum'",
        ),
    ),
)
