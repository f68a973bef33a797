"""Runs a kernel before the passes, after each of them, as text, and from a file: it must compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes.author_order import apply_schedule
from nki_lab.compiler.pipeline import PASSES
from nki_lab.compiler.program import CompiledKernel, from_json, to_json
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.errors import KernelArgument, NotModelled, OverCapacity
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.verify import verify
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.simulator import Program
from nki_lab.targets import ALL_TARGETS
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule as timeline
from tests.fuzz.kernels import Rejected, Written

_SOURCE = StoredSource("fuzz", (), {}, "<fuzz>", 1, "")


class Differs(AssertionError):
    """Two runs of one kernel gave different bytes."""


def run(kernel: Kernel, arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
    """Return the results of a kernel, and its arguments as they are after the run."""
    held = [a.copy() for a in arrays]
    outputs = Program(kernel, Choices(**options)).run(held)
    return [*outputs, *held]


def compare(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], where: str) -> None:
    """Raise Differs unless the arrays hold the same bytes.

    A sum of two NaNs has the bits of one of them, and which one NumPy leaves to the loop it takes; so NaNs are equal.
    """
    assert len(found) == len(expected)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.tobytes() == b.tobytes():
            continue
        x, y = (np.ascontiguousarray(v).reshape(-1) for v in (a, b))
        bits = [v.view(np.uint8).reshape(v.size, -1) for v in (x, y)]
        differ = (bits[0] != bits[1]).any(axis=1)
        if a.dtype.kind == "f" or (
            a.dtype.kind == "V" and a.dtype.names is None
        ):  # V: those of ml_dtypes
            differ &= ~(np.isnan(x) & np.isnan(y))
        at = np.flatnonzero(differ)
        if len(at):
            raise Differs(
                f"{where}: result {k}, {list(a.shape)} {a.dtype}: {len(at)} of {x.size} elements differ, the first at"
                f" {at[0]}: {x[at[0]]!r}, expected {y[at[0]]!r}"
            )


def check_text(kernel: Kernel, where: str) -> Kernel:
    """Check that a kernel's text is read as the kernel it came from, and return that."""
    text = print_kernel(kernel, comments=False)
    again = read_kernel(text)
    assert print_kernel(again, comments=False) == text, (
        f"{where}: printed, read and printed it differs"
    )
    return again


def check_stages(w: Written) -> Kernel:
    """Run a kernel after every pass and compare it with what it computed while it was written; return the last.

    Raises Rejected where its tiles do not fit.
    """
    stages = _stages(w)
    known = frozenset(s.id for s in w.kernel.storages)
    looked = False
    before: Kernel | None = None
    for name, kernel in stages:
        looked |= name == "find_uninitialized"
        wrong = verify(kernel)
        assert not wrong, f"after {name}: {wrong[0]}"
        same = (
            before is not None
            and before.body is kernel.body
            and before.addresses == kernel.addresses
        )
        if (
            not same
            or before is None
            or before.poisoned != kernel.poisoned
            or kernel is stages[-1][1]
        ):
            seen = kernel if looked else kernel.with_(poisoned=known)
            if (
                not w.choices.overlaps or kernel is stages[-1][1]
            ):  # before that, each tile is by itself
                compare(_ran(seen, w), w.outputs, f"after {name}")
        before = kernel
    last = stages[-1][1]
    untrue = [f for f in last.findings if f.kind == "uninitialized" and "written" in f.message]
    assert w.choices.raw or not untrue, (
        f"all is written that is read, but a finding says: {untrue[0].message}"
    )
    check_text(w.kernel, "as traced")
    compare(run(last, w.arrays, shared_bytes=True), w.outputs, "in shared bytes")
    if w.kernel.target in ALL_TARGETS:
        text = to_json(CompiledKernel(last, tuple(stages), _SOURCE))
        again, how = from_json(text).kernel, "loaded from a file"
        same = print_kernel(again, comments=False) == print_kernel(last, comments=False)
        assert same, f"{how}: the text differs"
    else:  # a file names its target, and there is none of this name
        again, how = check_text(last, "at the end"), "read from its text"
    compare(run(again, w.arrays), w.outputs, how)
    return last


def check_times(w: Written, last: Kernel) -> None:
    """Check that a kernel takes no more time by any of the passes that are there to gain time."""
    if w.choices.overlaps:
        return
    program = Program(last)
    program.run([a.copy() for a in w.arrays])
    for name in ("schedule", "balance_engines"):
        if name not in w.choices.skips:
            without = _stages(w, skips=(*w.choices.skips, name))[-1][1]
            took, before = (time_of(kernel, program.trips) for kernel in (last, without))
            assert took <= before, f"{name} takes {took - before} ps more than {before}"
            w.counts[f"{name}: faster"] += took < before
            w.counts["timed"] += 1


def time_of(kernel: Kernel, trips: Sequence[int]) -> int:
    """Return the modelled time of a kernel whose loops run so often, in picoseconds."""
    board = timeline(Execution.of(kernel, tuple(trips)), TimingOptions()).board
    return max(board.end, default=0)


def _ran(kernel: Kernel, w: Written) -> list[np.ndarray]:
    try:
        return run(kernel, w.arrays)
    except (
        NotModelled
    ) as error:  # PSUM written as another dtype while a product decides per element
        raise Rejected(f"NotModelled: {error.message}") from error


def _stages(w: Written, skips: Sequence[str] | None = None) -> list[tuple[str, Kernel]]:
    """Return the kernel after each pass, the traced one first."""
    skips = w.choices.skips if skips is None else skips
    capacity = "finding" if w.choices.overlaps else "error"
    options = Choices(schedule=w.schedule, capacity=capacity, skip_passes=tuple(skips))
    stages = [("trace", w.kernel)]
    if w.schedule:
        try:
            stages.append(("apply_schedule", apply_schedule(w.kernel, options)))
            w.counts["with_schedule"] += 1
        except (
            KernelArgument,
            NotModelled,
        ):  # edges against what the kernel reads and writes, or around loops
            w.counts["rejected: schedule"] += 1
    for run_pass in PASSES:
        if run_pass.name in skips:
            continue
        try:
            stages.append((run_pass.name, run_pass(stages[-1][1], options)))
        except OverCapacity as error:
            raise Rejected("OverCapacity") from error
    return stages
