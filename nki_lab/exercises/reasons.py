"""Explains why the result of a kernel is wrong, in words that lead to the mistake.

Each function looks for one kind of mistake and returns a Reason or None. They are asked in the order of the tables
below: first what makes values meaningless, then patterns in the values, at last the plain difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nki_lab.dtypes import DTYPES, dtype_of
from nki_lab.errors import CheckFailed
from nki_lab.exercises.attempt import Attempt, programs, reference_of
from nki_lab.runtime.check import compare_arrays

_UNWRITTEN = 4  # what the simulator leaves in integers that nothing has written
_FEW = 16  # elements below which a pattern may be chance


@dataclass(frozen=True)
class Reason:
    """Why an answer is wrong.

    Attributes:
        kind: a word for it, which tests compare.
        message: what was found, one sentence.
        help: what to look at.
    """

    kind: str
    message: str
    help: str = ""


def why_wrong(attempt: Attempt) -> Reason | None:
    """Return why the results of an attempt are not accepted; None where they are right."""
    for look in _BEFORE_VALUES:
        reason = look(attempt)
        if reason is not None:
            return reason
    for k in range(len(attempt.expected)):
        try:
            right = attempt.compare(k).ok
        except CheckFailed as error:
            return Reason("shape", error.message, error.help)
        if right and not _is_shifted(attempt, k):
            narrow = _narrowed(attempt, k)
            if narrow is not None:
                return narrow
            continue
        for pattern in _IN_VALUES:
            reason = pattern(attempt, k)
            if reason is not None:
                return reason
    return None


# -- before values are compared --------------------------------------------------------------------------------------


def _count(attempt: Attempt) -> Reason | None:
    found, wanted = len(attempt.found), len(attempt.expected)
    if found == wanted:
        return None
    return Reason(
        "count",
        f"the kernel returns {found} tensors, expected {wanted}",
        f"write {attempt.task.signature}",
    )


def _argument_returned(attempt: Attempt) -> Reason | None:
    for k, name in attempt.arrays:
        if k in attempt.task.writes:
            continue
        if any(found is attempt.given[k] for found in attempt.found):
            return Reason(
                "argument",
                f"the kernel returns its argument `{name}` instead of its own result",
                "make the result with nl.ndarray(..., buffer=nl.shared_hbm) and return that",
            )
    return None


def _mutated(attempt: Attempt) -> Reason | None:
    for k, name in attempt.arrays:
        now, before = attempt.given[k], attempt.before[k]
        if k not in attempt.task.writes and now.tobytes() != before.tobytes():
            return Reason(
                "mutated",
                f"the kernel has overwritten its argument `{name}`, which the caller still needs",
                "store into your own tensor: nl.ndarray(..., buffer=nl.shared_hbm)",
            )
    return None


def _unread(attempt: Attempt) -> Reason | None:
    names = [name for _, name in attempt.arrays]
    read = set()
    for kernel in programs(attempt.result):
        ids = set(kernel.touches.storage[kernel.touches.reads].tolist())
        read |= {n for s, n in zip(kernel.inputs, names, strict=False) if s.id in ids}
    unread = [name for name in names if name not in read]
    if not unread:
        return None
    return Reason(
        "unread",
        f"no instruction reads the argument `{unread[0]}`, so the result cannot depend on it",
        f"load it: nisa.dma_copy(dst=tile, src={unread[0]}[...]). What NumPy computes outside the program is a"
        " constant of it",
    )


def _shape(attempt: Attempt) -> Reason | None:
    for found, expected in zip(attempt.found, attempt.expected, strict=True):
        if not isinstance(found, np.ndarray):
            return Reason("count", f"the kernel returns {type(found).__name__}, expected a tensor")
        if found.shape == expected.shape:
            continue
        text = f"the result has shape {list(found.shape)}, expected {list(expected.shape)}"
        if found.shape == expected.shape[::-1]:
            return Reason(
                "transposed", f"{text}: it is transposed", "swap the two axes of the result"
            )
        return Reason("shape", text, "look at the shape given to nl.ndarray for the result")
    return None


def _dtype(attempt: Attempt) -> Reason | None:
    wanted = attempt.want_dtype()
    found = str(dtype_of(attempt.found[0].dtype))
    if found == wanted:
        return None
    return Reason(
        "dtype",
        f"the result is {found}, expected {wanted}",
        f"make it with dtype=nl.{wanted}, or with the dtype of an argument: dtype=x.dtype",
    )


# -- patterns in values ----------------------------------------------------------------------------------------------


def _unwritten(attempt: Attempt, k: int) -> Reason | None:
    """Name the part of the result that nothing wrote, which reads as NaN."""
    found, expected = attempt.found[k], attempt.expected[k]
    if found.dtype.kind in "iub":
        missing = _left_as_integers(found, _wrong(attempt, k))
    else:
        missing = np.isnan(found.astype(np.float64)) & ~np.isnan(expected)
    if not missing.any() or not any(k.poisoned for k in programs(attempt.result)):
        return None
    return Reason(
        "unwritten",
        f"{where(missing)} of the result {'is' if missing.sum() == 1 else 'are'} never written, or come from"
        " a tile that was not (such memory holds NaN here)",
        "does the last iteration of your loop, and the last column of your slice, still store?"
        " A `return` inside the loop ends it after one tile",
    )


def _left_as_integers(found: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return where nothing wrote integers: some of what is left there may be right by chance."""
    left = found == _UNWRITTEN
    if found.ndim == 2:
        lines = left & (left.all(axis=1, keepdims=True) | left.all(axis=0, keepdims=True))
        if wrong.any() and not (wrong & ~lines).any():
            return lines
    return left & wrong


def _zeros(attempt: Attempt, k: int) -> Reason | None:
    found, expected = attempt.found[k], attempt.expected[k]
    if found.size and not np.any(found) and np.any(expected):
        return Reason(
            "zeros",
            "the result is zero everywhere",
            "is what you computed also what you store, and is the tile filled before it is stored?",
        )
    return None


def _nan(attempt: Attempt, k: int) -> Reason | None:
    found, expected = attempt.found[k].astype(np.float64), attempt.expected[k]
    new = ~np.isfinite(found) & np.isfinite(expected)
    if not new.any():
        return None
    what = "NaN" if np.isnan(found[new]).all() else "infinite"
    return Reason(
        "nan",
        f"{where(new)} of the result {'is' if new.sum() == 1 else 'are'} {what} where finite numbers are expected",
        "0/0, inf - inf, log or sqrt of a negative number, or exp of a large one: which of them can happen?",
    )


def _known_mistake(attempt: Attempt, k: int) -> Reason | None:
    for mistake in attempt.task.mistakes:
        wrong = reference_of(mistake.computes, attempt.before)
        if (
            len(wrong) > k
            and wrong[k].shape == attempt.found[k].shape
            and attempt.compare(k, wrong[k]).ok
        ):
            return Reason("mistake", mistake.message, mistake.help)
    return None


def _argument_copied(attempt: Attempt, k: int) -> Reason | None:
    found = attempt.found[k]
    for n, name in attempt.arrays:
        if found.shape == attempt.before[n].shape and np.array_equal(found, attempt.before[n]):
            return Reason(
                "argument",
                f"the result is a copy of the argument `{name}`: nothing was computed",
                "store the tile that the computing instruction wrote (its dst)",
            )
    return None


def _transposed(attempt: Attempt, k: int) -> Reason | None:
    expected = attempt.expected[k]
    if expected.ndim != 2 or expected.shape[0] != expected.shape[1] or len(expected) < 2:
        return None
    if not attempt.compare(k, np.ascontiguousarray(expected.T)).ok:
        return None
    return Reason(
        "transposed",
        "the result is right but transposed: element [i, j] stands at [j, i]",
        "which operand's axis became the partition axis of your result?",
    )


def _positive_only(attempt: Attempt, k: int) -> Reason | None:
    """Right where the numbers are positive, wrong where they are not."""
    wrong = _wrong(attempt, k)
    if wrong.all() or wrong.size < _FEW:
        return None
    signs = [attempt.before[n] for n, _ in attempt.arrays if attempt.before[n].shape == wrong.shape]
    for values in (*signs, attempt.expected[k]):
        negative = values.astype(np.float64) < 0
        if negative.any() and not (wrong & ~negative).any() and wrong.sum() > 0.5 * negative.sum():
            return Reason(
                "negative",
                "the result is right for positive numbers and wrong for negative ones",
                "try x = -1 by hand: what does each instruction make of it?",
            )
    return None


def _offset(attempt: Attempt, k: int) -> Reason | None:
    difference = attempt.found[k].astype(np.float64) - attempt.expected[k]
    if difference.size < 2:
        return None
    shift = float(np.median(difference))
    rest = np.abs(difference - shift)
    scale = attempt.rtol(k) * np.abs(attempt.expected[k]).mean()
    if shift and (rest.max() <= 4 * scale + 1e-6 * abs(shift) or _is_shifted(attempt, k)):
        return Reason(
            "offset",
            f"every element is off by about {shift:.3g}",
            "is a number added where nothing, or a product, belongs (a bias, an operand0)?",
        )
    return None


def _factor(attempt: Attempt, k: int) -> Reason | None:
    found, expected = attempt.found[k].astype(np.float64), attempt.expected[k].astype(np.float64)
    large = np.abs(expected) > 0.1 * np.abs(expected).mean()
    if large.sum() < 2:
        return None
    factor = float(np.median(found[large] / expected[large]))
    if not np.isfinite(factor) or factor == 0 or abs(factor - 1) < 1e-2:
        return None
    if compare_arrays(attempt.found[k], expected * factor, rtol=max(attempt.rtol(k), 1e-4)).ok:
        return Reason(
            "factor",
            f"every element is {factor:.4g} times what it should be",
            "is a factor missing, or applied twice?",
        )
    return None


def _constant(attempt: Attempt, k: int) -> Reason | None:
    """Name the one number that stands wherever the result is wrong: a start value, a limit."""
    wrong = _wrong(attempt, k)
    if wrong.sum() < 2:
        return None
    values, expected = np.unique(attempt.found[k][wrong]), attempt.expected[k][wrong]
    if len(values) > 1 or not values[0] or len(np.unique(expected)) == 1:
        return None
    return Reason(
        "constant",
        f"{where(wrong)} of the result {'is' if wrong.sum() == 1 else 'are'} {float(values[0]):.4g}, expected"
        f" numbers from {expected.min():.4g} to {expected.max():.4g}",
        "does the kernel start from that number, or limit its numbers by it? Start from the first piece of the data",
    )


def _part(attempt: Attempt, k: int) -> Reason | None:
    wrong = _wrong(attempt, k)
    if wrong.size < _FEW or wrong.mean() > 0.5:
        return None
    message = f"{where(wrong)} of the result {'is' if wrong.sum() == 1 else 'are'} wrong, the rest is right"
    return Reason(
        "part",
        f"{message}: {_worst(attempt, k)}",
        "what is different about that part of the array?",
    )


def _coarse(attempt: Attempt, k: int) -> Reason | None:
    if attempt.found[k].dtype.kind in "iub" or attempt.rtol(k) >= 1e-2:
        return None
    if compare_arrays(attempt.found[k], attempt.expected[k], rtol=2e-2).ok:
        return Reason(
            "rounded",
            f"the result is right to two digits only: {_worst(attempt, k)}",
            "which tile on the way has a narrower dtype than the arguments?",
        )
    return None


def _narrowed(attempt: Attempt, k: int) -> Reason | None:
    """Name the narrower dtype that every number of a float32 result is of, which a loose tolerance lets pass."""
    found, expected = attempt.found[k], attempt.expected[k].astype(np.float32)
    if found.dtype != np.float32 or found.size < _FEW:
        return None
    for dtype in ("bfloat16", "float16"):
        with np.errstate(over="ignore"):
            same, due = (
                a == a.astype(DTYPES[dtype].np).astype(np.float32) for a in (found, expected)
            )
        if same.all() and due.mean() < 0.5:
            return Reason(
                "rounded",
                f"the result has only the digits of {dtype}: {_worst(attempt, k)}",
                f"which tile on the way is of {dtype}? The arguments are float32, and so should it be",
            )
    return None


def _differs(attempt: Attempt, k: int) -> Reason:
    few = int(_wrong(attempt, k).sum())
    size = attempt.found[k].size
    return Reason(
        "values",
        f"{few} of {size} elements are wrong: {_worst(attempt, k)}",
        "compute one wrong element by hand, and compare it with what each tile holds: run(...).steps",
    )


_BEFORE_VALUES: tuple[Callable[[Attempt], Reason | None], ...] = (
    _count, _argument_returned, _mutated, _unread, _shape, _dtype,
)  # fmt: skip
_IN_VALUES: tuple[Callable[[Attempt, int], Reason | None], ...] = (
    _unwritten, _zeros, _nan, _known_mistake, _argument_copied, _transposed, _positive_only, _offset, _factor,
    _constant, _part, _coarse, _differs,
)  # fmt: skip


def _wrong(attempt: Attempt, k: int) -> np.ndarray:
    found, expected = attempt.found[k].astype(np.float64), attempt.expected[k].astype(np.float64)
    rtol = attempt.rtol(k)
    finite = np.abs(expected[np.isfinite(expected)])
    atol = rtol * float(finite.mean()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return ~same & ~(np.abs(found - expected) <= atol + rtol * np.abs(expected))


def _is_shifted(attempt: Attempt, k: int) -> bool:
    """Tell whether a narrow result is off on average, which the tolerance of single elements would not show."""
    found, expected = attempt.found[k].astype(np.float64), attempt.expected[k].astype(np.float64)
    if found.size < 256 or not np.isfinite(found).all() or attempt.rtol(k) < 1e-3:
        return False
    return bool(abs((found - expected).mean()) > 5e-3 * np.abs(expected).mean())


def _worst(attempt: Attempt, k: int) -> str:
    comparison = attempt.compare(k)
    return f"worst at {list(comparison.worst)}, found {comparison.found:.6g}, expected {comparison.expected:.6g}"


# -- which part of an array is wrong, in words: its last column, the rows from 128 on ----------------------------------

_PARTITIONS = 128


def where(mask: np.ndarray) -> str:
    """Return which elements of an array a mask marks, as the subject of a sentence."""
    count = int(mask.sum())
    first = [int(n) for n in np.argwhere(mask)[0]]
    if count == 1:
        return f"element {first}"
    if mask.all():
        return "all elements"
    if mask.ndim == 2:
        rows: np.ndarray = np.all(mask, axis=1)
        columns: np.ndarray = np.all(mask, axis=0)
        if columns.any() and np.array_equal(mask, np.broadcast_to(columns, mask.shape)):
            return _axis("column", columns)
        if rows.any() and np.array_equal(mask, np.broadcast_to(rows[:, None], mask.shape)):
            return _axis("row", rows)
    return f"{count} of {mask.size} elements (the first at {first})"


def _axis(name: str, marked: np.ndarray) -> str:
    at = np.flatnonzero(marked)
    size = len(marked)
    first, last, count = int(at[0]), int(at[-1]), len(at)
    if count == 1:
        which = "last" if first == size - 1 else "first" if first == 0 else ""
        return f"all elements of the {which} {name}" if which else f"all elements of {name} {first}"
    if last == size - 1 and count == size - first:
        tile = (
            f" (all but the first tile of {first})"
            if first == _PARTITIONS and name == "row"
            else ""
        )
        return f"the {name}s from {first} on{tile}"
    if count == last - first + 1:
        return f"the {name}s {first} to {last}"
    steps = set(np.diff(at).tolist())
    if len(steps) == 1:
        return f"every {_ordinal(steps.pop())} {name}, from {first} on,"
    return f"{count} of {size} {name}s (the first is {first})"


def _ordinal(n: int) -> str:
    return {2: "second", 3: "third", 4: "fourth"}.get(n, f"{n}th")
