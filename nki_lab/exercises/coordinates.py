"""Finds the elements of a tensor that a slice, a pattern or a kernel touches, and compares them with those it
should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nki_lab.exercises.attempt import shown
from nki_lab.exercises.draw import Draw
from nki_lab.exercises.judge import Verdict
from nki_lab.exercises.problem import Places, Sizes
from nki_lab.exercises.reasons import Reason
from nki_lab.exercises.touches import difference, touched
from nki_lab.runtime import KernelFunction, run

_KEYS = {"pattern", "offset"}
_PATTERN = (
    'write the arguments of .ap: {"pattern": [[stride, count], [stride, count]], "offset": 0}'
)


def judge_places(problem: Places, given: Any, seed: int | None = None) -> Verdict:
    """Compare what an answer touches with what it should, for every size; raises the error of a kernel."""
    verdict = Verdict()
    for sizes in problem.sizes:
        wanted = problem.numbers(sizes)
        touched = _touched(problem, given, sizes, seed)
        reason: Reason | None
        if isinstance(touched, Reason):
            reason = replace(touched, message=f"{touched.message} (with {shown(sizes)})")
        else:
            reason = _difference(problem, touched, wanted, sizes)
        text = "wrong" if reason is not None else f"{len(wanted)} elements"
        verdict.rows.append((shown(sizes), text, ""))
        if reason is not None:
            verdict.reason = reason
            return verdict
    return verdict


def _touched(problem: Places, given: Any, sizes: Sizes, seed: int | None) -> np.ndarray | Reason:
    """Return the numbers of the elements that an answer touches, in order."""
    shape = problem.shape(**sizes)
    if isinstance(given, KernelFunction):
        if problem.has_order:
            return Reason("answer", "the answer is a kernel, expected a pattern", _PATTERN)
        result = run(given, Draw(seed)(*shape, dtype=problem.dtype))
        if problem.way == "reads":
            return _in_shape(touched(result, result.kernel.inputs[0], "reads"), shape)
        return _in_shape(touched(result, result.kernel.outputs[0].storage, "writes"), shape)
    answer = given(**sizes) if callable(given) else given
    if isinstance(answer, dict) or (problem.has_order and isinstance(answer, list)):
        return _of_pattern(answer, shape)
    return _of_slice(answer, shape)


def _in_shape(found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | Reason:
    if found.shape == shape:
        return np.flatnonzero(found)
    return Reason("shape", f"the tensor has shape {list(found.shape)}, expected {list(shape)}")


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
    try:
        return np.arange(np.prod(shape)).reshape(shape)[answer].reshape(-1)
    except IndexError as error:
        return Reason("bounds", f"the answer does not fit shape {list(shape)}: {error}")


def _of_pattern(answer: dict[str, Any] | list[Any], shape: tuple[int, ...]) -> np.ndarray | Reason:
    named = answer if isinstance(answer, dict) else {}
    offset, pairs = named.get("offset", 0), named.get("pattern", ())
    if set(named) - _KEYS or not isinstance(offset, int) or not _is_pairs(pairs):
        return Reason("answer", f"the answer is {answer!r}, expected a pattern", _PATTERN)
    places = np.array(offset)
    for stride, count in pairs:
        places = places[..., None] + np.arange(count) * stride
    places = places.reshape(-1)
    size = int(np.prod(shape))
    outside = places[(places < 0) | (places >= size)]
    if outside.size:
        return Reason(
            "bounds",
            f"the pattern comes to element {outside[0]}, and shape {list(shape)} has elements 0 to {size - 1}",
            "the last element is offset + stride * (count - 1), summed over the pairs",
        )
    return places


def _is_pairs(pairs: Any) -> bool:
    return (
        isinstance(pairs, (list, tuple))
        and len(pairs) > 0
        and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs)
        and all(isinstance(number, int) for pair in pairs for number in pair)
    )


def _difference(
    problem: Places, found: np.ndarray, wanted: np.ndarray, sizes: Sizes
) -> Reason | None:
    """Return what is wrong with elements touched in an order; None where nothing is."""
    case = f"with {shown(sizes)}"
    shape = problem.shape(**sizes)
    reason = difference(_mask(found, shape), _mask(wanted, shape), case)
    if reason is None and problem.has_order and not np.array_equal(found, wanted):
        return _other_order(found, wanted, shape, case)
    return reason


def _other_order(
    found: np.ndarray, wanted: np.ndarray, shape: tuple[int, ...], case: str
) -> Reason:
    if len(found) != len(wanted):
        message = f"these elements are right, and are {len(found)} in all, expected {len(wanted)}"
        return Reason(
            "count", f"{message} ({case})", "some elements come more than once: how often?"
        )
    k = int(np.flatnonzero(found != wanted)[0])
    at, expected = ([int(n) for n in np.unravel_index(e[k], shape)] for e in (found, wanted))
    return Reason(
        "order",
        f"the elements are right, and come in another order: number {k} is {at}, expected {expected} ({case})",
        "the last pair of a pattern runs fastest",
    )


def _mask(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(int(np.prod(shape)), bool)
    mask[numbers] = True
    return mask.reshape(shape)
