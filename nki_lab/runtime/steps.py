"""Turns a run into steps that can be gone through, forward and back, with the values around each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.program import CompiledKernel
from nki_lab.errors import KernelArgument, NkiError, NotModelled
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Finding, Kernel, told_once
from nki_lab.ir.text.literals import view_text
from nki_lab.profiler.profile import Profile
from nki_lab.progress import doing
from nki_lab.runtime.view_data import make_view_data, place_finder
from nki_lab.simulator.stepping import SNAPSHOT_BYTES, OperandValues, Stepper
from nki_lab.timing import simulate_time
from nki_lab.views.run import NoSteps, Step, StepOperand, StepPass, Steps, ViewData

#: Bytes of arguments which the kernel writes, and of which a run keeps copies from before it.
KEPT_BYTES = 64 << 20
_WAYS = {"read": "reads", "write": "writes", "update": "updates"}


def kept_inputs(kernel: Kernel, arrays: Sequence[np.ndarray]) -> dict[int, np.ndarray] | None:
    """Return copies of the inputs that a kernel writes, by number; None where they are larger than KEPT_BYTES."""
    written = [k for k, s in enumerate(kernel.inputs) if s.id in kernel.written_inputs]
    if sum(arrays[k].nbytes for k in written) > KEPT_BYTES:
        return None
    return {k: arrays[k].copy() for k in written}


@doing("running again, step by step")
def steps_of_run(
    compiled: CompiledKernel,
    inputs: Sequence[np.ndarray],
    before: Mapping[int, np.ndarray] | None,
    outputs: Sequence[np.ndarray],
    options: Choices,
    ranks: int,
) -> Steps:
    """Return the steps of a run that has ended, or why there are none.

    Args:
        compiled: the program.
        inputs: its inputs as they are now.
        before: copies of those that it wrote, from before the run; None where they were too large to be kept.
        outputs: what it returned; it is compared with what comes out now, so that arrays which were changed since are
            noticed.
        options: of the simulation.
        ranks: how many ran together.
    """
    kernel = compiled.kernel
    try:
        if ranks > 1:
            raise NotModelled(
                f"{kernel.name} ran as {ranks} ranks, which exchange data while they run: a stepper follows one",
                help="run one rank alone to step through it; collectives of one rank can be stepped through",
            )
        if before is None:
            raise NotModelled(
                f"{kernel.name} writes arguments of more than {KEPT_BYTES:,} bytes; a run keeps no copy of them",
                help="step through it from the beginning: nki_lab.step(kernel, *args) runs it on copies",
            )
        arrays = [before.get(k, array) for k, array in enumerate(inputs)]
        stepper = Stepper(kernel, arrays, options)
        pairs = zip(stepper.outputs, outputs, strict=False)
        if stepper.error is not None or not all(_is_same(*pair) for pair in pairs):
            raise KernelArgument(
                f"{kernel.name} now computes other values than in the run: its arrays have changed since",
                help="run it again, and look at the steps before you change its arguments or results",
            )
    except NkiError as error:
        return NoSteps(f"{error.message} ({error.help})")
    return RunSteps(stepper, compiled)


class RunSteps:
    """The executed instructions of one core (a `nki_lab.views.run.Steps`).

    Attributes:
        order: per executed instruction its position in the compiled program; where one fails, it is the last.
        outputs: what the kernel returns; empty where it fails.
        error: what ends the run, or None.

    Args:
        stepper: the run.
        compiled: the program with its state after each pass, for views.
    """

    problem = ""
    note = (
        "The kernel is run again on copies of its arguments, one instruction at a time; going back starts from a"
        f" snapshot (at most {SNAPSHOT_BYTES >> 20} MiB of them), so every value is the run's own."
    )

    def __init__(self, stepper: Stepper, compiled: CompiledKernel) -> None:
        self._stepper = stepper
        self._compiled = compiled
        self.kernel = stepper.kernel
        self.order = stepper.order
        self.outputs = stepper.outputs
        self.error = stepper.error
        self._place = place_finder(stepper.kernel)

    def at(self, number: int) -> Step:
        """Return an executed instruction with the values around it."""
        around = self._stepper.around(number)
        passes = tuple(
            StepPass(self._place(p.loop.stack), p.number, p.total, p.loop.register.name, p.value)
            for p in around.passes
        )
        return Step(
            number=number,
            position=around.position,
            operands=tuple(map(_operand, around.operands)),
            passes=passes,
            registers=around.registers,
            registers_set=around.registers_set,
            printed=around.printed,
            error="" if around.error is None else str(around.error),
        )

    def values(self, number: int, tensor: int) -> np.ndarray | None:
        """Return what a tensor holds after `number` instructions; None where nothing has written it, or no longer."""
        return self._stepper.values(number, self.kernel.storages[tensor])

    def next_not_finite(self, start: int, stop: int | None = None) -> int | None:
        """Return the first executed instruction from `start` on, before `stop`, that writes a NaN or an infinity."""
        return self._stepper.next_not_finite(start, stop)

    def touching(self, tensor: int, writes: bool = True, reads: bool = False) -> np.ndarray:
        """Return the executed instructions that write or read a tensor, in order; `tensor` is its number."""
        return self._stepper.touching(self.kernel.storages[tensor], writes, reads)

    @property
    def view_data(self) -> ViewData:
        """The run as the views show it, up to its end or to the instruction that ends it; it holds these steps."""
        return make_view_data(self._compiled, self._profile, self.findings, lambda: self)

    @cached_property
    def _profile(self) -> Profile:
        return simulate_time(Execution(self.kernel, self.order.tolist(), self._stepper.trips))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the author should know, from the compiler and from the values of the run."""
        return told_once((*self._compiled.findings, *self._stepper.noticed))

    def show(self, *views: str) -> Any:
        """Return the steps as an object that a notebook shows, also those of a run that fails.

        Args:
            views: names of views, the first in front; by default the stepper and the memory.
        """
        from nki_lab.views.display import display

        return display(self, views or ("stepper", "memory"))

    def __repr__(self) -> str:
        ended = "" if self.error is None else f", and the last one fails: {self.error.message}"
        return f"<{len(self.order):,} steps of {self.kernel.name}{ended}>"


def _operand(operand: OperandValues) -> StepOperand:
    view = operand.view
    skipped = 0
    held = operand.after if operand.before is None else operand.before
    if view.dynamic is not None and held is not None and held.shape != view.shape:
        skipped = view.shape[0] - len(held)
    return StepOperand(
        name=operand.name,
        text=view_text(view),
        tensor=view.storage.id,
        way=_WAYS[operand.role],
        shape=view.shape,
        dtype=str(view.dtype),
        memory=view.storage.buffer.name,
        before=operand.before,
        after=operand.after,
        unwritten=operand.unwritten,
        skipped=skipped,
    )


def _is_same(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Tell whether two results are equal; two NaNs are, whatever their bits."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.tobytes() == theirs.tobytes():
        return True
    if mine.dtype.kind in "biu" or mine.dtype.names:
        return False
    return bool(np.array_equal(mine.astype(np.float64), theirs.astype(np.float64), equal_nan=True))
