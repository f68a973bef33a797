"""Cross entropy of rows of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, elements_at, loaded, of_this_core, places_in_rows

_STEP = 8192
# The place of an element in a tile of 128 rows is computed in float32, which counts to 2 ** 24.
_WIDEST = 2**17
_LARGEST = 3e38


@nki.jit
def cross_entropy(logits, targets):
    """Return log(sum(exp(logits))) - logits[target] of each row, and the first term, which a backward pass needs.

    Args:
        logits: [rows, classes], float32 or bfloat16; classes at most 131072.
        targets: [rows, 1], int32: the class of each row; any other number is an error when the kernel runs.

    Returns:
        loss: [rows, 1], float32.
        lse: [rows, 1], float32: log(sum(exp(logits))).
    """
    _check(logits, targets)
    rows, classes = logits.shape
    loss, lse = (nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2))
    for n, first in enumerate(range(0, rows, nl.tile_size.pmax)):
        if not of_this_core(n):
            continue
        size = min(nl.tile_size.pmax, rows - first)
        part = logits[first : first + size]
        lowest, total = None, None
        for start in range(0, classes, _STEP):
            tile = loaded(part[:, start : min(start + _STEP, classes)])
            lowest, total = _added(tile, lowest, total)
        log, result, below = (
            nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)
        )
        nisa.activation(dst=log, op=nl.log, data=total)
        # log(sum(exp(x))) = log(sum(exp(x - largest))) + largest
        nisa.tensor_tensor(dst=result, data1=log, data2=lowest, op=nl.subtract)
        nisa.dma_copy(dst=lse[first : first + size], src=result)
        # One transfer gathers the logit of each row's class.
        places = places_in_rows(targets[first : first + size], classes)
        chosen = loaded(elements_at(part, places))
        # How far it is below the largest is exact where both are large; of the first term little would be left.
        nisa.tensor_tensor(dst=below, data1=lowest, data2=chosen, op=nl.add)
        nisa.tensor_tensor(dst=log, data1=log, data2=below, op=nl.subtract)
        nisa.dma_copy(dst=loss[first : first + size], src=log)
    return loss, lse


def _check(logits, targets):
    require(
        len(logits.shape) == 2 and logits.shape[1] <= _WIDEST,
        f"cross_entropy: `logits` has shape {list(logits.shape)}; expected [rows, classes], classes at most {_WIDEST}",
        "reshape it: logits.reshape((-1, logits.shape[-1]))",
    )
    require(
        tuple(targets.shape) == (logits.shape[0], 1) and targets.dtype == nl.int32,
        f"cross_entropy: `targets` is {list(targets.shape)} {targets.dtype}; expected {[logits.shape[0], 1]} int32",
        "write targets.astype(np.int32).reshape((-1, 1))",
    )
    check_floats("cross_entropy", logits=logits)


def _added(tile, lowest, total):
    """Return the largest logit (negative) and the sum of exp(logit - largest), with those of a tile."""
    size, before = tile.shape[0], lowest
    # Of the dtype of the logits, as it is one of them: Vector reduces bfloat16 to bfloat16 in half the time.
    lowest = nl.ndarray((size, 1), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=tile, axis=1, negate=True)
    # Of masked logits alone the largest is -inf, and exp(-inf - -inf) would be NaN.
    nisa.tensor_scalar(dst=lowest, data=lowest, op0=nl.minimum, operand0=_LARGEST)
    if before is not None:
        nisa.tensor_tensor(dst=lowest, data1=lowest, data2=before, op=nl.minimum)
    powers = nl.ndarray(tile.shape, dtype=nl.bfloat16, buffer=nl.sbuf)  # not used: only their sum
    added = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=powers, op=nl.exp, data=tile, bias=lowest, reduce_op=nl.add, reduce_res=added
    )
    if before is None:
        return lowest, added
    fade = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=fade, op=nl.exp, data=before, scale=-1.0, bias=lowest)
    nisa.scalar_tensor_tensor(
        dst=added, data=total, op0=nl.multiply, operand0=fade, op1=nl.add, operand1=added
    )
    return lowest, added


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, classes: int) -> dict[str, Any]:
    return {
        "logits": (3 * rng.standard_normal((rows, classes))).astype(dtype),
        "targets": rng.integers(0, classes, (rows, 1), np.int32),
    }


def _reference(logits: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    logits = logits.astype(np.float64)
    largest = np.maximum(logits.max(axis=1, keepdims=True), -_LARGEST)
    lse = np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)) + largest
    return lse - np.take_along_axis(logits, targets, axis=1), lse


def _large(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 5, 40)
    arguments["logits"] += 1e6
    return arguments


def _masked(rng: np.random.Generator) -> dict[str, Any]:
    """Return a row whose first classes are masked, one with a masked target, one that is masked, and one with NaN."""
    arguments = _arguments(rng, np.float32, 5, _STEP + 100)
    logits, targets = arguments["logits"], arguments["targets"]
    logits[0, :_STEP], targets[0] = -np.inf, _STEP + 7
    logits[1, targets[1]] = -np.inf
    logits[2], logits[3, 5] = -np.inf, np.nan
    return arguments


KERNEL = Prebuilt(
    kernel=cross_entropy,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 128, "classes": 96},
        {"rows": 130, "classes": 8200},
        {"rows": 1, "classes": 1},
    ),
    ranges={"rows": range(1, 200), "classes": range(1, 600)},
    timed=({"rows": 256, "classes": 8192}, {"rows": 1024, "classes": 65536}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-5},
    chips=("trn2", "trn3"),  # where transfers gather
    cores=(1, 2),
    operator={"backward": "auto", "wrt": ("logits",)},
    steps=(
        Step(
            "128 rows lie in the partitions, and 8192 classes at a time in the free axis.",
            "tile = loaded(",
        ),
        Step("The Vector engine finds the largest logit so far.", "nisa.tensor_reduce("),
        Step(
            "The Scalar engine computes exp(logit - largest) and adds up each row in one instruction.",
            "nisa.activation_reduce(",
        ),
        Step(
            "What was summed before is multiplied by exp(largest before - largest).",
            "nisa.activation(dst=fade",
        ),
        Step(
            "One transfer gathers the logit of each row's class: its place is row * classes + class.",
            "chosen = loaded(",
        ),
        Step(
            "The loss is log(sum) + (largest - that logit).",
            "nisa.tensor_tensor(dst=log, data1=log, data2=below",
        ),
    ),
    sources=("NKI Library, cross entropy forward",),
    falls_short={
        "bfloat16": "the Scalar engine computes one exp per logit and takes 437 us for it at the large size, where the"
        " transfers take 370"
    },
    edges={"large": _large, "masked": _masked},
    refused=(
        Refused(
            {"logits": np.ones((4, 9), np.uint8), "targets": np.zeros((4, 1), np.int32)},
            "`logits` is uint8; expected float32 or bfloat16",
            "cast it",
        ),
        Refused(
            {"logits": (4, 9), "targets": np.zeros(4, np.int32)},
            "`targets` is [4] int32; expected [4, 1] int32",
            "reshape((-1, 1))",
        ),
    ),
)
