"""Finds the elements of a tensor in HBM that a run touched, and how they differ from those it should."""

from __future__ import annotations

import numpy as np

from nki_lab.errors import NotModelled
from nki_lab.exercises.attempt import Attempt, shown
from nki_lab.exercises.reasons import Reason
from nki_lab.ir.definition.instruction import READ, WRITE
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.runtime import Result
from nki_lab.runtime.view_operands import operand_views
from nki_lab.views.run import element_numbers

_ROWS, _COLUMNS = 16, 64  # of the largest tensor that is drawn


def touched(result: Result, storage: Storage, way: str) -> np.ndarray:
    """Return which elements of a tensor in HBM the instructions of a run read or write, as bools in its shape.

    Args:
        result: the run.
        storage: the tensor.
        way: "reads" or "writes".

    Raises NotModelled where an instruction chooses the elements by values.
    """
    mask = np.zeros(int(np.prod(storage.shape)), bool)
    other = WRITE if way == "reads" else READ
    for i in result.kernel.instructions:
        for _, role, _, view in operand_views(i):
            if role != other and view.storage is storage:
                mask[_elements(view)] = True
    return mask.reshape(storage.shape)


def _elements(view: NkiTensor) -> np.ndarray:
    if view.dynamic is not None:
        raise NotModelled(
            f"{view.describe()} is addressed by values, so the program does not say which elements it touches",
            help="use a slice whose bounds are numbers",
        )
    return element_numbers(view.shape, view.strides, view.offset).reshape(-1)


def unneeded_reads(attempt: Attempt) -> Reason | None:
    """Return what is wrong with the elements of the first argument that a kernel has read; None where nothing is."""
    if attempt.task.reads is None:
        return None
    storage = attempt.result.kernel.inputs[0]
    wanted: np.ndarray = np.zeros(storage.shape, bool)
    wanted[attempt.task.reads(**attempt.sizes)] = True
    reads = touched(attempt.result, storage, "reads")
    name = attempt.task.parameters[0]
    reason = difference(reads, wanted, f"with {shown(attempt.sizes)}")
    if reason is None:
        return None
    return Reason("reads", f"right, but of `{name}` {reason.message}", reason.help)


def difference(found: np.ndarray, wanted: np.ndarray, case: str) -> Reason | None:
    """Return what distinguishes the elements touched from those to touch, both as bools; None where nothing does."""
    missing, extra = wanted & ~found, found & ~wanted
    parts = []
    for mask, text in (
        (missing, "are not touched and should be"),
        (extra, "are touched and should not be"),
    ):
        if mask.any():
            first = [int(n) for n in np.argwhere(mask)[0]]
            parts.append(f"{int(mask.sum())} elements {text}, the first at {first}")
    if parts:
        kind = "missing" if not extra.any() else "extra" if not missing.any() else "other"
        return Reason(kind, f"{'; '.join(parts)} ({case})", _picture(found, wanted))
    return None


def _picture(found: np.ndarray, wanted: np.ndarray) -> str:
    """Draw small tensors: # right, o missing, x too many."""
    if found.ndim != 2 or found.shape[0] > _ROWS or found.shape[1] > _COLUMNS:
        return "count the elements from 0, and remember that a slice leaves out its stop"
    signs = np.array([[" .", " x"], [" o", " #"]])[wanted.astype(int), found.astype(int)]
    rows = ["".join(row).strip() for row in signs]
    return "\n".join(["# right, o missing, x too many:", *(f"    {row}" for row in rows)])
