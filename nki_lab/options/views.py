"""What does each view of a run say in plain text?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from nki_lab.options.table import VIEWS
from nki_lab.profiler.report import badge, report
from nki_lab.source import Span

if TYPE_CHECKING:
    from nki_lab.runtime import Result

_WIDTH = 110
_EVENTS_SHOWN = 40


def view_text(result: Result, view: str) -> str:
    """Return one view of a run as plain text, the same on every run and machine.

    Args:
        result: the run.
        view: one of `nki_lab.options.table.VIEWS`.
    """
    assert view in VIEWS
    return _TEXTS[view](result)


def summary(result: Result) -> str:
    """Return one line on a run: which kernel ran, where, and for how long."""
    microseconds = result.profile.total_ns / 1000
    how = "modelled" if result.profile.is_simulation else "measured"
    return f"{result.name} on {result.compiled.target.name}: {microseconds:,.3f} us {how}"


def _report(result: Result) -> str:
    lines = [report(result.profile)]
    if result.findings:
        lines += ["", "findings"]
    for finding in result.findings:
        place = f"{Span.of(finding.stack[0])}: " if finding.stack else ""
        lines.append(f"  {place}{finding.kind}: {finding.message}")
        if finding.help:
            lines.append(f"    help: {finding.help}")
    return "\n".join(lines)


def _ir(result: Result) -> str:
    return list(result.ir.values())[-1].rstrip()


def _layout(result: Result) -> str:
    rows = []
    for storage in result.kernel.storages:
        address = (result.kernel.addresses or {}).get(storage.id)
        if storage.on_chip and address is not None:
            first, start = address.partition, address.byte
            partitions = f"{first} to {first + storage.partitions - 1}"
            span = f"{start:,} to {start + storage.row_bytes - 1:,}"
        else:
            partitions, span = "", f"{storage.nbytes:,} in all"
        shape = " x ".join(map(str, storage.shape))
        rows.append(
            (storage.name, storage.buffer.name, shape, str(storage.dtype), partitions, span)
        )
    return _table(("tensor", "memory", "shape", "dtype", "partitions", "bytes"), rows)


def _memory(result: Result) -> str:
    kernel = result.kernel
    count = len(kernel.instructions)
    rows = []
    for storage in kernel.storages:
        life = kernel.lifetimes.get(storage.id)
        if not storage.on_chip or life is None:
            continue
        rows.append(
            (
                storage.buffer.name,
                storage.name,
                f"{storage.row_bytes:,}",
                f"{life.first} to {life.last}",
                str(Span.of(storage.stack[0])) if storage.stack else "",
            )
        )
    heads = ("memory", "tile", "bytes/partition", f"in use (of {count} instructions)", "made at")
    return _table(heads, sorted(rows, key=lambda row: row[0] != "sbuf"))


def _timeline(result: Result) -> str:
    profile = result.profile
    events = []
    for row in profile.records("Instruction"):
        events.append((row["start_ts"], row["end_ts"], row["engine"], row["opcode"],
                       row["nki_source_location"] or ""))  # fmt: skip
    for row in profile.records("DmaPacketAggregated"):
        size = f"{row['transfer_bytes']:,} bytes"
        events.append((row["start_ts"], row["end_ts"], row["queue_name"], size, row["variable"] or ""))  # fmt: skip
    events.sort(key=lambda e: (e[0], e[1], e[2]))
    rows = [(f"{e[0]:,}", f"{e[1]:,}", *e[2:]) for e in events[:_EVENTS_SHOWN]]
    text = _table(("start ns", "end ns", "engine or queue", "what", "line or tensor"), rows)
    if len(events) > _EVENTS_SHOWN:
        text += f"\n... {len(events) - _EVENTS_SHOWN} more"
    return f"{badge(profile)}\n{text}"


_TEXTS: dict[str, Callable[[Result], str]] = {
    "report": _report,
    "ir": _ir,
    "layout": _layout,
    "memory": _memory,
    "timeline": _timeline,
}


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for head in heads:
        right = head.endswith((" ns", "partition"))
        table.add_column(head, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(
        file=StringIO(), width=_WIDTH, no_color=True, markup=False, emoji=False, highlight=False
    )
    console.print(table)
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
