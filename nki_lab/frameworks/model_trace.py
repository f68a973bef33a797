"""The rows of a traced model: kernels with the times of their programs, other operators estimated by a roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.errors import NkiError
from nki_lab.frameworks.custom_call import custom_call
from nki_lab.frameworks.device_limits import beyond_cores, beyond_dtypes, beyond_int32
from nki_lab.frameworks.operator import Operator
from nki_lab.profiler.analyses.report import bound_words
from nki_lab.profiler.analyses.roofline import bf16_equivalent, roofs
from nki_lab.runtime import Result
from nki_lab.source import Span
from nki_lab.targets import Target, get_target
from nki_lab.views.models.trace import BACKWARD, FORWARD, ModelTrace, OperatorRow
from nki_lab.views.run import Place, Remark


@dataclass(frozen=True)
class Tensor:
    """A tensor that an operator takes or gives.

    Attributes:
        dtype: name of its dtype.
        shape: its sizes.
        nbytes: bytes that hold its elements; each once, where a broadcast repeats them.
        source: who made it: number of a row, or name of an input; None where nobody asks.
        integers: its values, where they are int64.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    source: int | str | None = None
    integers: np.ndarray | None = None

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Work:
    """What an operator asks of the chip.

    Attributes:
        flops: operations of the Tensor engine.
        nbytes: bytes that it moves from and to device memory.
        itemsize: bytes of an element of its widest operand.
    """

    flops: int
    nbytes: int
    itemsize: int


def work_of(inputs: Sequence[Tensor], outputs: Sequence[Tensor], flops: int, kind: str) -> Work:
    """Return what an operator asks of the chip, from its tensors.

    Args:
        inputs, outputs: its tensors.
        flops: operations of the Tensor engine.
        kind: "gather" reads of its first tensor what it gives, "scatter" writes of its first tensor what it takes
            besides; anything else reads and writes whole tensors.
    """
    read, written = sum(t.nbytes for t in inputs), sum(t.nbytes for t in outputs)
    if kind == "gather" and inputs:
        read += min(inputs[0].nbytes, written) - inputs[0].nbytes
    elif kind == "scatter" and inputs:
        read -= inputs[0].nbytes
        written = min(written, read)
    widest = max((t.nbytes // max(1, _count(t.shape)) for t in inputs), default=0)
    return Work(flops, read + written, widest)


def _count(shape: Iterable[int]) -> int:
    return int(np.prod(tuple(shape), dtype=np.int64))


class Rows:
    """Collects the rows of a model as it runs.

    Attributes:
        target: the chip.
        rows: those so far.
        findings: what is beyond the limits of devices, so far.
    """

    def __init__(self, target: str | Target | None) -> None:
        self.target = get_target(target or Choices.current().target)
        self.rows: list[OperatorRow] = []
        self.findings: list[Remark] = []
        self._seen: dict[Any, int] = {}

    def add(
        self,
        name: str,
        path: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        runs: Sequence[Result] = (),
        work: Work | None = None,
        part: str = FORWARD,
        place: Place | None = None,
        key: Any = None,
    ) -> OperatorRow:
        """Add an operator that has run, and return its row.

        Args:
            name: of the operator.
            path: of the module.
            inputs, outputs: its tensors.
            runs: of the kernel, where it is one.
            work: what it asks of the chip, where it is none.
            part: forward or backward.
            place: the line that called it.
            key: what is the same for all calls of an operator in a loop; they share a row.
        """
        if runs:
            rooflines = [run.roofline() for run in runs]
            total_ns: float = sum(r.total_ns for r in rooflines)
            moved, flops = sum(r.hbm_bytes for r in rooflines), sum(r.flops for r in rooflines)
            binds = bound_words(runs[-1].profile)
        else:
            assert work is not None
            adjusted = work.flops * bf16_equivalent(self.target, work.itemsize)
            roof, *_ = roofs(self.target, adjusted, work.nbytes, work.nbytes)
            total_ns, moved, flops = roof.least_ns, work.nbytes, work.flops
            binds = roof.name.partition(",")[0] if total_ns else "nothing"
        sources = dict.fromkeys(t.source for t in inputs if t.source is not None)
        number = self._seen.get(key, len(self.rows)) if key is not None else len(self.rows)
        if number < len(self.rows):
            row = self.rows[number]
            known = dict.fromkeys((*row.sources, *sources))
            self.rows[number] = replace(
                row, total_ns=row.total_ns + total_ns, bytes=row.bytes + moved, flops=row.flops + flops,
                calls=row.calls + 1, sources=tuple(known), runs=(*row.runs, *runs),
            )  # fmt: skip
        else:
            row = OperatorRow(
                number, name, path, tuple(map(str, inputs)), tuple(map(str, outputs)), total_ns, moved, flops, binds,
                bool(runs), part, 1, tuple(sources), tuple(runs), custom_call(runs[-1]) if runs else "", place,
            )  # fmt: skip
            self.rows.append(row)
            if key is not None:
                self._seen[key] = number
            tensors = (*inputs, *outputs)
            self.findings += beyond_dtypes(row, (t.dtype for t in tensors), self.target)
        integers = (t.integers for t in (*inputs, *outputs) if t.integers is not None)
        if not any(f.kind == "int64" for f in self.findings):
            self.findings += beyond_int32(self.rows[number], integers)
        return self.rows[number]

    def all_findings(self) -> tuple[Remark, ...]:
        """Return what is beyond the limits of devices."""
        return (*self.findings, *beyond_cores(self.rows))


def place_at(filename: str, line: int) -> Place:
    """Return a line of the model's author."""
    span = Span(filename, line)
    return Place(str(span), span.heading(), span.text.strip(), line)


def with_backward(make: Callable[[bool], ModelTrace], asks: bool) -> ModelTrace:
    """Return what `make` gives with the backward where that is asked for; where there is none, a finding says why."""
    if not asks:
        return make(False)
    try:
        return make(True)
    except NkiError as error:
        trace = make(False)
        finding = Remark("backward", error.message, error.help)
        return replace(trace, findings=(*trace.findings, finding))


def trace_of_runs(operator: Operator, runs: Sequence[Result]) -> ModelTrace:
    """Return runs of an operator's kernels as a trace."""
    rows = Rows(runs[-1].compiled.target)
    for run in runs:
        inputs = [Tensor(str(s.dtype), tuple(s.shape), s.nbytes) for s in run.kernel.inputs]
        outputs = [Tensor(str(t.dtype), tuple(t.shape), 0) for t in run.kernel.outputs]
        is_own = run.name == operator.kernel.__name__
        part = BACKWARD if run.name.endswith("_backward") and not is_own else FORWARD
        rows.add(run.name, "", inputs, outputs, [run], part=part, key=id(run.compiled))
    value = runs[-1].value
    return ModelTrace(operator.name, rows.target.name, tuple(rows.rows), {}, value)
