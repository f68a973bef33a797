"""The trace of a model: one row for each operator that ran, with the kernels among them, as plain data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from nki_lab.percent import percent
from nki_lab.profiler.text_table import cut, text_table
from nki_lab.source import text_of
from nki_lab.views.entries import remark_lines
from nki_lab.views.run import Place, Remark, ViewData

FORWARD, BACKWARD = "forward", "backward"


class Run(Protocol):
    """A run of a kernel."""

    @property
    def view_data(self) -> ViewData:
        """The run as its views show it."""


@dataclass(frozen=True)
class OperatorRow:
    """An operator of a model, as it ran.

    Attributes:
        number: place in the order of execution.
        name: such as "lab::rmsnorm", "aten::addmm" or "dot_general".
        path: the module it ran in, such as "layers.0.norm"; "" in the model itself.
        inputs, outputs: dtype and shape of each tensor, such as "float32[128, 512]".
        total_ns: its time, of all calls.
        bytes: moved from and to device memory.
        flops: operations of the Tensor engine.
        binds: the limit of the chip, or the engine, that its time comes from.
        is_kernel: an NKI kernel, whose time is that of its program; times of others are estimates.
        part: "forward" or "backward".
        calls: how often it ran there; more than once only in a loop.
        sources: what it gets values from: numbers of rows, and names of the model's inputs.
        runs: of the kernel, one for each call.
        custom_call: how the official tools would embed the kernel in the model's graph; "" for others.
        place: the line of the model that called it, where it is known.
    """

    number: int
    name: str
    path: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    total_ns: float
    bytes: int
    flops: int
    binds: str
    is_kernel: bool = False
    part: str = FORWARD
    calls: int = 1
    sources: tuple[int | str, ...] = ()
    runs: tuple[Run, ...] = field(default=(), repr=False)
    custom_call: str = field(default="", repr=False)
    place: Place | None = field(default=None, repr=False)

    @property
    def us(self) -> float:
        """Its time in microseconds."""
        return self.total_ns / 1000

    @property
    def run(self) -> Any:
        """The Result of the kernel's last run: `trace.kernels[0].run.show()`; None for other operators."""
        return self.runs[-1] if self.runs else None


@dataclass(frozen=True, eq=False)
class ModelTrace:
    """What a model did: its operators in the order of execution, and where the time goes.

    Attributes:
        name: of the model.
        target: the chip.
        rows: the operators; views of tensors, which move no byte, are left out.
        inputs: dtype and shape of the model's inputs, by name.
        value: what the model returned.
        findings: what keeps the model from running on a device, or changes its values there.
        gradients: of the parameters and inputs, by name, where a backward was asked for.
    """

    name: str
    target: str
    rows: tuple[OperatorRow, ...]
    inputs: Mapping[str, str]
    value: Any = field(repr=False)
    findings: tuple[Remark, ...] = ()
    gradients: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def total_ns(self) -> float:
        """Time of all operators, one after the other."""
        return sum(row.total_ns for row in self.rows)

    @property
    def kernels(self) -> tuple[OperatorRow, ...]:
        """The rows of NKI kernels."""
        return tuple(row for row in self.rows if row.is_kernel)

    def of(self, part: str) -> tuple[OperatorRow, ...]:
        """Return the rows of a part, "forward" or "backward"."""
        return tuple(row for row in self.rows if row.part == part)

    def share(self, row: OperatorRow) -> float:
        """Return the fraction of the model's time that a row takes."""
        return row.total_ns / self.total_ns if self.total_ns else 0.0

    def by_module(self) -> dict[str, float]:
        """Return the time in ns of each module with what is inside it, the longest first; "" is the model."""
        times: dict[str, float] = {}
        for row in self.rows:
            parts = row.path.split(".") if row.path else []
            for k in range(len(parts) + 1):
                path = ".".join(parts[:k])
                times[path] = times.get(path, 0.0) + row.total_ns
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    @cached_property
    def graph(self) -> str:
        """The graph as text: each operator with what it gets values from; kernels are marked with *."""
        return text_of(graph_lines(self, None))

    @cached_property
    def custom_calls(self) -> str:
        """How the official tools would embed each kernel in the model's graph, each text once."""
        return text_of(custom_call_lines(self, None))

    def show(self, *tabs: str) -> Any:
        """Return the trace as an object that a notebook shows.

        Args:
            tabs: names of its views: "operators", "graph", "kernels", "calls"; by default all of them.

        What is returned also has `save_html(path)`, one page that needs no kernel, and `to_image("svg")`.
        """
        from nki_lab.views.models.display import TraceDisplay

        return TraceDisplay(self, tabs)

    def __repr__(self) -> str:
        return text_of(operator_lines(self, None))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.show()._repr_mimebundle_(include, exclude)


def heading(trace: ModelTrace) -> str:
    """Return one line on a trace: the model, the chip, its time, and how much of it are kernels."""
    kernels = sum(row.total_ns for row in trace.kernels)
    share = percent(kernels / trace.total_ns) if trace.total_ns else percent(0.0)
    parts = [(part, trace.of(part)) for part in (FORWARD, BACKWARD)]
    each = ", ".join(f"{part} {_us(sum(r.total_ns for r in rows))}" for part, rows in parts if rows)
    both = f" ({each})" if trace.of(BACKWARD) else ""
    calls = sum(row.calls for row in trace.kernels)
    return (
        f"{trace.name} on {trace.target}: {_us(trace.total_ns)} us{both}, {share} of it in {calls}"
        f" call{'s' * (calls != 1)} of NKI kernels"
    )


#: What the numbers are, said with every table.
BASIS = "kernels: modelled time of their programs; others (~): estimated, the least time under a roofline, none fused"


def row_cells(trace: ModelTrace, row: OperatorRow) -> dict[str, str]:
    """Return what a row shows, by the heading of its column."""
    times = f" x {row.calls}" if row.calls > 1 else ""
    return {
        "#": str(row.number),
        "operator": f"{'* ' if row.is_kernel else ''}{row.name}{times}",
        "module": row.path,
        "time us": f"{'' if row.is_kernel else '~'}{_us(row.total_ns)}",
        "share": percent(trace.share(row)),
        "bytes moved": f"{row.bytes:,}",
        "FLOP": f"{row.flops:,}" if row.flops else "",
        "bound by": row.binds,
        "tensors": f"{', '.join(row.inputs)} -> {', '.join(row.outputs)}",
    }


def operator_lines(trace: ModelTrace, limit: int | None) -> list[str]:
    """Return the table of a trace and its findings as at most `limit` lines; of many rows the longest."""
    lines = [heading(trace), BASIS]
    room = None if limit is None else max(1, limit - 5 - 2 * len(trace.findings))
    if room is not None and len(trace.rows) > room:
        longest = sorted(trace.rows, key=lambda row: (-row.total_ns, row.number))[:room]
        lines += ["", f"the {room} operators of {len(trace.rows):,} that take the most time"]
        lines += _table(trace, longest)
    else:
        for part in (FORWARD, BACKWARD):
            if rows := trace.of(part):
                lines += ["", *([part] if trace.of(BACKWARD) else []), *_table(trace, rows)]
    if trace.findings:
        lines += ["", "on a device"]
        lines += [line for finding in trace.findings for line in remark_lines(finding)]
    return cut(lines, limit)


def _table(trace: ModelTrace, rows: Sequence[OperatorRow]) -> list[str]:
    cells = [row_cells(trace, row) for row in rows]
    heads = [head for head in cells[0] if head != "tensors"]
    return text_table(heads, [[c[head] for head in heads] for c in cells], None)


def graph_lines(trace: ModelTrace, limit: int | None) -> list[str]:
    """Return the graph of a trace as at most `limit` lines."""
    lines = [heading(trace), *(f"{name}: {what}" for name, what in trace.inputs.items())]
    for row in trace.rows:
        sources = ", ".join(s if isinstance(s, str) else f"%{s}" for s in row.sources)
        where = f"  # {row.path}" if row.path else ""
        mark = "* " if row.is_kernel else "  "
        lines.append(
            f"{mark}%{row.number} = {row.name}({sources}): {', '.join(row.outputs)}{where}"
        )
    return cut(lines, limit)


def distinct_calls(rows: Iterable[OperatorRow]) -> dict[str, list[OperatorRow]]:
    """Return the rows of each text of a custom call, in order."""
    calls: dict[str, list[OperatorRow]] = {}
    for row in rows:
        if row.custom_call:
            calls.setdefault(row.custom_call, []).append(row)
    return calls


def custom_call_lines(trace: ModelTrace, limit: int | None) -> list[str]:
    """Return the custom calls of a trace as at most `limit` lines."""
    lines = [] if trace.kernels else ["the model calls no NKI kernel"]
    for text, rows in distinct_calls(trace.rows).items():
        numbers = ", ".join(f"%{row.number}" for row in rows)
        lines += ["", f"{rows[0].name}: {numbers}", *text.splitlines()]
    return cut(lines, limit)


def _us(ns: float) -> str:
    return f"{ns / 1000:,.3f}"
