"""Proves by value that two versions of a kernel are the same: both run on the same inputs, every bit is compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.beta1.operators import divided_by_products
from nki_lab.choices import Choices, Standard, allowable, inside
from nki_lab.compiler.trace import TensorSpec, map_arguments
from nki_lab.migration.modules import Scope, kernel_in
from nki_lab.migration.rewriter import DIVISION
from nki_lab.runtime import KernelFunction, Result
from nki_lab.versions import Version

SECONDS = 20.0  # after which no other shapes and dtypes are tried
_SIZES = 3  # sizes of axes that are tried in other lengths
_OTHER = {
    np.dtype(np.float32): np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.float32),
    np.dtype(np.float16): np.dtype(np.float32),
}


@dataclass(frozen=True)
class Call:
    """A call of a kernel that can be made again, in another version and on other arrays.

    Attributes:
        kernel: its name.
        args: arguments, with a TensorSpec in place of each array.
        kwargs: the same by name.
        arrays: the arrays, in order.
        grid: on which it was launched.
        target: name of the chip.
    """

    kernel: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: tuple[np.ndarray, ...]
    grid: tuple[int, ...]
    target: str

    @classmethod
    def of(cls, result: Result) -> Call | None:
        """Return the call that a run was; None where it cannot be made again."""
        retrace = result.retrace
        if retrace is None or result.ranks > 1:
            return None
        before = result.before or {}
        arrays = tuple(np.array(before.get(n, a)) for n, a in enumerate(result.inputs))
        name = retrace.source.function.__qualname__.replace("<locals>.", "")
        return cls(
            name,
            retrace.args,
            retrace.kwargs,
            arrays,
            tuple(result.options.grid),
            result.kernel.target.name,
        )

    def run(self, scope: Scope, arrays: Sequence[np.ndarray], filename: str) -> Result:
        """Run the kernel of this name in a module, on other arrays of the same number."""
        kernel, args, kwargs = self._filled(scope, arrays, filename)
        return kernel.launch(*args, target=self.target, **kwargs)

    def trace(self, scope: Scope, arrays: Sequence[np.ndarray], filename: str) -> None:
        """Compile the kernel of this name in a module for other arrays of the same number."""
        kernel, args, kwargs = self._filled(scope, arrays, filename)
        kernel.compile_with(Choices.current().replace(target=self.target), tuple(args), kwargs)

    def _filled(
        self, scope: Scope, arrays: Sequence[np.ndarray], filename: str
    ) -> tuple[KernelFunction, list[Any], dict[str, Any]]:
        """Return the kernel of this name in a module, and its arguments."""
        waiting = iter([np.array(a) for a in arrays])

        def filled(value: Any) -> Any:
            return map_arguments("", value, lambda _, spec: next(waiting), _is_spec)

        args = [filled(value) for value in self.args]
        kwargs = {name: filled(value) for name, value in self.kwargs.items()}
        kernel = kernel_in(scope, self.kernel, filename)
        kernel = kernel[self.grid] if self.grid and not kernel.launched_on else kernel
        return kernel, args, kwargs

    def sets(self, rng: np.random.Generator) -> Iterator[tuple[str, Sequence[np.ndarray]]]:
        """Yield sets of inputs: those given, the same shapes with other values, other shapes, other dtypes.

        Values are drawn from those given, so that indices stay indices; those that are all equal are drawn anew.
        """
        yield "the inputs given", self.arrays
        drawn = [_drawn(a, rng) for a in self.arrays]
        if any(
            not np.array_equal(_bits(a), _bits(b)) for a, b in zip(drawn, self.arrays, strict=True)
        ):
            yield "other values", drawn
        sizes = Counter(n for a in self.arrays for n in a.shape if n > 2)
        for size in sorted(sizes, reverse=True)[:_SIZES]:
            shorter = size - max(1, size // 4 - size // 16)
            cut = [a[tuple(slice(shorter if n == size else n) for n in a.shape)] for a in drawn]
            yield f"{shorter} in place of {size} elements", cut
        if any(a.dtype in _OTHER for a in self.arrays):
            yield "another dtype", [a.astype(_OTHER.get(a.dtype, a.dtype)) for a in drawn]


def _is_spec(value: Any) -> bool:
    return isinstance(value, TensorSpec)


def _drawn(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    flat = array.reshape(-1)
    if array.dtype in _OTHER and flat.size and (_bits(flat) == _bits(flat[:1])).all():
        return rng.standard_normal(array.shape).astype(array.dtype)
    return rng.permutation(flat).reshape(array.shape)


def _bits(array: np.ndarray) -> np.ndarray:
    width = array.dtype.itemsize
    return np.ascontiguousarray(array).view(
        np.dtype((np.void, width)) if width > 8 else f"u{width}"
    )


@dataclass
class Compared:
    """One call on one set of inputs, under both versions.

    Attributes:
        kernel, inputs: what ran, and on what.
        difference: where the values differ; "" where every bit is equal.
        ulps: by how many units in the last place at most; 0 where that cannot be counted.
        cause: why they differ, where that is proved.
        before, after: the two runs.
    """

    kernel: str
    inputs: str
    difference: str
    before: Result = field(repr=False)
    after: Result = field(repr=False)
    ulps: int = 0
    cause: str = ""

    @property
    def said(self) -> str:
        """Whether values are equal, in a few words."""
        if not self.difference:
            return "equal"
        units = f"differ by {self.ulps:,} ulp{'s' * (self.ulps != 1)}" if self.ulps else "differ"
        return f"{units} ({self.cause})" if self.cause else units


def units_apart(before: Result, after: Result) -> int:
    """Return by how many units in the last place floats of two runs differ at most; 0 where they do otherwise."""
    most = 0
    pairs = [
        *zip(before.outputs, after.outputs, strict=False),
        *zip(before.inputs, after.inputs, strict=False),
    ]
    for a, b in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            return 0
        if np.array_equal(_bits(a), _bits(b)):
            continue
        with np.errstate(all="ignore"):
            finite = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64))
        if a.dtype not in _OTHER or not finite.all():
            return 0
        ranks = []
        for bits in (_bits(a), _bits(b)):
            whole = bits.astype(np.int64)
            sign = np.int64(1) << (8 * a.dtype.itemsize - 1)
            ranks.append(np.where(whole & sign, sign - whole, whole))
        most = max(most, int(np.abs(ranks[0] - ranks[1]).max()))
    return most


def compared(before: Result, after: Result) -> str:
    """Return where two runs differ in what they return or write; "" where every bit is equal."""
    pairs = [
        (f"result {n}", a, b)
        for n, (a, b) in enumerate(zip(before.outputs, after.outputs, strict=False))
    ]
    if len(before.outputs) != len(after.outputs):
        return f"{len(before.outputs)} results became {len(after.outputs)}"
    pairs += [
        (f"argument {n}", a, b)
        for n, (a, b) in enumerate(zip(before.inputs, after.inputs, strict=True))
    ]
    for name, a, b in pairs:
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)} became {b.dtype}{list(b.shape)}"
        unequal = _bits(a) != _bits(b)
        if a.dtype.kind not in "iub":
            with np.errstate(all="ignore"):
                unequal &= ~(np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))
        if unequal.any():
            first = tuple(int(k) for k in np.argwhere(unequal)[0])
            return (
                f"{name}: {int(unequal.sum()):,} of {a.size:,} elements differ, first {list(first)}:"
                f" {a[first]} became {b[first]}"
            )
    return ""


def prove(
    calls: Sequence[Call],
    define: Callable[[bool], tuple[Scope, str]],
    since: Version,
    to: Version,
    seed: int = 0,
    is_older: bool = False,
) -> Iterator[Compared]:
    """Yield every call on every set of inputs that the kernel takes, run under both versions.

    Args:
        calls: to make.
        define: runs the module, the moved one where its argument is True; returns its names and filename.
        since, to: the two versions.
        seed: of the inputs that are drawn.
        is_older: the module is of the older dialect, whose grids became loops.
    """
    with as_before(since, is_older):
        old, old_name = define(False)
    with inside(nki=Standard(to.name), allow=()):
        new, new_name = define(True)
    started = time.monotonic()
    for call in calls:
        kinds: set[str] = set()
        for number, (name, arrays) in enumerate(call.sets(np.random.default_rng(seed))):
            if number > 1 and time.monotonic() - started > SECONDS:
                break
            try:
                with as_before(since, is_older):
                    before = call.run(old, arrays, old_name)
            except Exception:
                if number == 0:
                    raise
                continue  # the kernel is not for such inputs
            if not kinds <= _kinds(before):
                continue  # nor for those on which it leaves out a part, as the products of too few rows
            kinds = kinds or _kinds(before)
            with inside(nki=Standard(to.name), allow=()):
                again = replace(call, grid=()) if is_older else call
                after = again.run(new, arrays, new_name)
            row = Compared(call.kernel, name, compared(before, after), before, after)
            if row.difference:
                row.ulps = units_apart(before, after)
                if is_older:
                    with as_before(since, is_older), divided_by_products():
                        other = call.run(old, arrays, old_name)
                    row.cause = "" if compared(other, after) else DIVISION
            yield row


def _kinds(run: Result) -> set[str]:
    return {i.definition.name for i in run.compiled.stages[0][1].instructions}


def as_before(version: Version, is_older: bool) -> Any:
    """Return a block in which kernels are of a version, or of the older dialect, and may have every older form."""
    return inside(nki=None if is_older else version.name, allow=",".join(allowable()))


def side_by_side(rows: Sequence[Compared], before: str, to: Version) -> list[str]:
    """Return times and instructions of both versions, a line for each."""
    version = before if before.startswith("NKI") else "before"
    table: list[tuple[str, ...]] = [
        ("kernel", "inputs", version, f"NKI {to.name}", "instructions", "values")
    ]
    for row in rows:
        times = [f"{r.profile.total_ns / 1000:,.3f} us" for r in (row.before, row.after)]
        counts = [
            Counter(i.definition.name for i in r.compiled.stages[0][1].instructions)
            for r in (row.before, row.after)
        ]
        changed = {n: counts[1][n] - counts[0][n] for n in sorted({*counts[0], *counts[1]})}
        shown = ", ".join(f"{d:+d} {n}" for n, d in changed.items() if d) or "the same"
        count = (
            f"{counts[0].total()}, {shown}"
            if shown == "the same"
            else f"{counts[0].total()} -> {counts[1].total()} ({shown})"
        )
        table.append((row.kernel, row.inputs, *times, count, row.said))
    widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
