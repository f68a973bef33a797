"""Cross entropy of rows of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import elements_at, loaded, of_this_core, places_in_rows

_STEP = 8192
# The place of an element in a tile of 128 rows is computed in float32, which counts to 2 ** 24.
_WIDEST = 2**17


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
        # log(sum(exp(x))) = log(sum(exp(x - largest))) + largest
        log = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=log, op=nl.log, data=total)
        nisa.tensor_tensor(dst=log, data1=log, data2=lowest, op=nl.subtract)
        # One transfer gathers the logit of each row's class.
        places = places_in_rows(targets[first : first + size], classes)
        chosen = loaded(elements_at(part, places))
        difference = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=difference, data1=log, data2=chosen, op=nl.subtract)
        nisa.dma_copy(dst=loss[first : first + size], src=difference)
        nisa.dma_copy(dst=lse[first : first + size], src=log)
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


def _added(tile, lowest, total):
    """Return the largest logit (negative) and the sum of exp(logit - largest), with those of a tile."""
    size, before = tile.shape[0], lowest
    # Of the dtype of the logits, as it is one of them: Vector reduces bfloat16 to bfloat16 in half the time.
    lowest = nl.ndarray((size, 1), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=tile, axis=1, negate=True)
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
    largest = logits.max(axis=1, keepdims=True)
    lse = np.log(np.exp(logits - largest).sum(axis=1, keepdims=True)) + largest
    return lse - np.take_along_axis(logits, targets, axis=1), lse


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
        Step("The loss is log(sum) + largest - that logit.", "nisa.tensor_tensor(dst=difference"),
    ),
    sources=("NKI Library, cross entropy forward",),
    falls_short={
        "bfloat16": "the Scalar engine computes one exp per logit and takes 437 us for it at the large size, where the"
        " transfers take 370"
    },
    refused=(
        Refused(
            {"logits": (4, 9), "targets": np.zeros(4, np.int32)},
            "`targets` is [4] int32; expected [4, 1] int32",
            "reshape((-1, 1))",
        ),
    ),
)
