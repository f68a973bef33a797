"""Which elements of a tensor does an answer touch, and which should it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.errors import NotModelled
from nki_lab.exercises.attempt import shown
from nki_lab.exercises.draw import Draw
from nki_lab.exercises.judge import Verdict
from nki_lab.exercises.problem import Places, Sizes
from nki_lab.exercises.reasons import Reason
from nki_lab.ir.instruction import READ, WRITE
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor
from nki_lab.runtime import KernelFunction, Result, run
from nki_lab.runtime.view_operands import operand_views

_ROWS, _COLUMNS = 16, 64


def judge_places(problem: Places, given: Any, seed: int | None = None) -> Verdict:
    """Compare what an answer touches with what it should, for every size; raises the error of a kernel."""
    verdict = Verdict()
    for sizes in problem.sizes:
        wanted = problem.mask(sizes)
        found = _touched(problem, given, sizes, seed)
        if isinstance(found, Reason):
            verdict.rows.append((shown(sizes), "wrong", ""))
            verdict.reason = found
            return verdict
        same = np.array_equal(found, wanted)
        verdict.rows.append((shown(sizes), f"{int(found.sum())} elements" if same else "wrong", ""))
        if not same:
            verdict.reason = _difference(problem, found, wanted, sizes)
            return verdict
    return verdict


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
    places = np.array(view.offset)
    for count, stride in zip(view.shape, view.strides, strict=True):
        places = places[..., None] + np.arange(count) * stride
    return places.reshape(-1)


def _touched(problem: Places, given: Any, sizes: Sizes, seed: int | None) -> np.ndarray | Reason:
    shape = problem.shape(**sizes)
    if isinstance(given, KernelFunction):
        result = run(given, Draw(seed)(*shape, dtype=problem.dtype))
        if problem.way == "reads":
            return touched(result, result.kernel.inputs[0], "reads")
        return touched(result, result.kernel.outputs[0].storage, "writes")
    answer = given(**sizes) if isinstance(given, Callable) else given  # type: ignore[arg-type]
    return _of_slice(answer, shape)


def _of_slice(answer: Any, shape: tuple[int, ...]) -> np.ndarray | Reason:
    parts = answer if isinstance(answer, tuple) else (answer,)
    if not all(isinstance(part, (slice, int, type(...))) for part in parts) or answer is ...:
        return Reason(
            "answer",
            f"the answer is {answer!r}, expected a slice",
            "write it as NumPy does: np.s_[0:64, ::2]",
        )
    if ... not in parts and len(parts) <= len(shape):
        for axis, (part, size) in enumerate(zip(parts, shape, strict=False)):
            stop = part.stop if isinstance(part, slice) else part + 1
            if stop is not None and stop > size:
                return Reason(
                    "bounds",
                    f"axis {axis} has {size} elements, and the answer goes to {stop}; NKI does not shorten slices",
                    f"end the slice at {size}, or at min(stop, {size})",
                )
    mask = np.zeros(shape, bool)
    try:
        mask[answer] = True
    except IndexError as error:
        return Reason("bounds", f"the answer does not fit shape {list(shape)}: {error}")
    return mask


def _difference(problem: Places, found: np.ndarray, wanted: np.ndarray, sizes: Sizes) -> Reason:
    case = f"with {shown(sizes)}"
    if found.shape != wanted.shape:
        return Reason(
            "shape",
            f"the tensor has shape {list(found.shape)}, expected {list(wanted.shape)} ({case})",
        )
    missing, extra = wanted & ~found, found & ~wanted
    parts = []
    for mask, text in (
        (missing, "are not touched and should be"),
        (extra, "are touched and should not be"),
    ):
        if mask.any():
            first = [int(n) for n in np.argwhere(mask)[0]]
            parts.append(f"{int(mask.sum())} elements {text}, the first at {first}")
    kind = "missing" if not extra.any() else "extra" if not missing.any() else "other"
    return Reason(kind, f"{'; '.join(parts)} ({case})", _picture(found, wanted))


def _picture(found: np.ndarray, wanted: np.ndarray) -> str:
    """Draw small tensors: # right, o missing, x too many."""
    if found.ndim != 2 or found.shape[0] > _ROWS or found.shape[1] > _COLUMNS:
        return "count the elements from 0, and remember that a slice leaves out its stop"
    signs = np.array([[" .", " x"], [" o", " #"]])[wanted.astype(int), found.astype(int)]
    rows = ["".join(row).strip() for row in signs]
    return "\n".join(["# right, o missing, x too many:", *(f"    {row}" for row in rows)])
