"""What does each view of a run say in plain text?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import ReportParts, badge
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.text_table import cut, text_table
from nki_lab.source import text_of
from nki_lab.views.array.products import matmul_text
from nki_lab.views.graph.flow import data_flow_text
from nki_lab.views.memory.occupancy import Occupancy, occupancy, usable_bytes
from nki_lab.views.run import VIEWS, ViewData
from nki_lab.views.source.text import findings_text, remark_lines, source_text
from nki_lab.views.stepper.text import stepper_text
from nki_lab.views.vary.text import NO_VARIANTS, variants_text

_EVENTS_SHOWN = 40
_LIMITS_SHOWN = 12  # of the model, where a report is cut
#: How many lines of the kernel, advice and limits of the model a report tells where it is cut, the first that fits.
_SHORTER = [
    *((lines, advice, _LIMITS_SHOWN) for advice in (3, 2, 1) for lines in (5, 3)),
    *((lines, 1, _LIMITS_SHOWN) for lines in (1, 0)),
    (0, 1, _LIMITS_SHOWN // 2),
    (0, 1, _LIMITS_SHOWN // 4),
]
_FINDINGS_LINES = 6  # of a report that is cut, at least so many
#: Why addresses go higher than the bytes in use at one time; compiler/passes/allocate.py does it.
PLACES_TAKEN = "a place is used again only when no fresh one is left, so that less has to wait"


def known_text(data: ViewData, view: str, lines: int | None = None) -> str:
    """Return the text of a view as far as it is known: no variant of the kernel is timed for it."""
    if view == "vary" and data.variants is not None:
        return variants_text(data.variants, lines, data.variants.visited)
    return view_text(data, view, lines)


def view_text(data: ViewData, view: str, lines: int | None = None) -> str:
    """Return one view of a run as plain text, the same on every run and machine.

    Args:
        data: the run.
        view: one of `VIEWS`.
        lines: at most so many lines, the last of which says how many more there are; None is no limit.
    """
    assert view in VIEWS
    return text_of(_TEXTS[view](data, lines))


def comparison_lines(first: ViewData, second: ViewData, limit: int | None = None) -> list[str]:
    """Return where two runs differ, line by line; lines of the author are matched by their text."""
    texts = [
        {place.label: place.text.strip() for place in run.lines[1]} if run.lines else {}
        for run in (first, second)
    ]
    found = compare_profiles(
        first.profile, second.profile, lambda run, place: texts[run].get(place, "")
    )
    return cut(str(found).split("\n"), limit)


def _report(data: ViewData, limit: int | None) -> list[str]:
    parts = ReportParts(data.profile)
    findings = ["", "findings"] if data.findings else []
    for finding in sorted(data.findings, key=lambda f: not f.is_serious):  # as this may be cut
        findings += [f"  {line}" for line in remark_lines(finding)]
    told = [*parts.figures, *parts.lines(), *parts.advice()]
    if limit is None:
        return [*told, *parts.limits(), *findings]
    limits = parts.limits(_LIMITS_SHOWN)
    if len(told) + len(limits) + len(findings) > limit:
        # Numbers are not read without what they lean on: lines and advice give way to that, but for the first advice.
        findings = cut(findings, max(limit - len(limits) - len(told), _FINDINGS_LINES))
        for lines, advice, assumed in _SHORTER:
            told = [*parts.figures, *parts.lines(lines), *parts.advice(advice)]
            limits = parts.limits(assumed)
            room = limit - len(limits) - len(findings)
            if len(told) <= room:
                break
        else:
            advised = parts.advice(1)
            told = [*cut(parts.figures, room - len(advised)), *advised]
    return [*told, *limits, *findings]


def _ir(data: ViewData, limit: int | None) -> list[str]:
    if not data.stages:
        return ["no program is known"]
    return cut(
        [
            f"{line.text}  // {line.place.label}" if line.place else line.text
            for line in data.stages[-1].lines
        ],
        limit,
    )


def _layout(data: ViewData, limit: int | None) -> list[str]:
    rows = []
    for tensor in data.tensors:
        partitions, span = "", f"{tensor.nbytes:,} in all"
        if tensor.on_chip and tensor.address is not None:
            first, start = tensor.address
            partitions = f"{first} to {first + tensor.rows - 1}"
            span = f"{start:,} to {start + tensor.row_bytes - 1:,}"
        shape = " x ".join(map(str, tensor.shape))
        rows.append((tensor.name, tensor.memory, shape, tensor.dtype, partitions, span))
    return text_table(("tensor", "memory", "shape", "dtype", "partitions", "bytes"), rows, limit)


def _memory(data: ViewData, limit: int | None) -> list[str]:
    rows = []
    for tensor in data.tensors:
        if not tensor.on_chip or tensor.lifetime is None:
            continue
        first, last = tensor.lifetime
        made = tensor.place.label if tensor.place else ""
        use = f"{first} to {last}"
        rows.append((tensor.memory, tensor.name, f"{tensor.row_bytes:,}", use, made))
    count = len(data.operations)
    heads = ("memory", "tile", "bytes/partition", f"in use (of {count} instructions)", "made at")
    reached = _reached(data)
    left = None if limit is None else limit - len(reached)
    return [*text_table(heads, sorted(rows, key=lambda row: row[0] != "sbuf"), left), *reached]


def _reached(data: ViewData) -> list[str]:
    """Return lines on the most bytes in use of each on-chip memory, on what is free then, and on overlaps."""
    target = data.profile.target
    lines = []
    for memory, size in usable_bytes(target).items():
        tiles = occupancy(data, memory)
        if not len(tiles.tensor):
            continue
        peak, moment = tiles.peak(target.partitions)
        free = tiles.free(moment, size)
        end = int((tiles.address + tiles.size).max())
        lines += [
            f"{memory}: at most {peak:,} of {size:,} bytes per partition in use ({peak / size:.1%}), at instruction"
            f" {moment:,}; the highest byte used is {end - 1:,}",
            f"{memory}: then {free.free:,} bytes are free in every partition, {free.largest:,} of them in one piece"
            f" (fragmentation {free.fragmentation:.1%}); {_overlaps(data, tiles)}",
        ]
    return [*lines, PLACES_TAKEN] if lines else []


def _overlaps(data: ViewData, tiles: Occupancy) -> str:
    found = tiles.overlaps()
    if found is None:
        return f"overlaps were not looked for among {len(tiles.tensor):,} tiles"
    if not found:
        return "no tiles overlap"
    first = found[0]
    one, other = (data.tensors[int(tiles.tensor[k])].name for k in (first.one, first.other))
    more = f", and {len(found) - 1:,} more pairs" if len(found) > 1 else ""
    return (
        f"{one} and {other} overlap in {first.size:,} bytes from {first.address:,} on, in use together from"
        f" instruction {first.first:,} to {first.last:,}{more}"
    )


def _vary(data: ViewData, limit: int | None) -> list[str]:
    if data.variants is None:
        return [NO_VARIANTS]
    return variants_text(data.variants, limit).split("\n")


def _timeline(data: ViewData, limit: int | None) -> list[str]:
    profile = data.profile
    issued = _first_rows(profile, "Instruction", "engine", "opcode", "nki_source_location")
    moved = _first_rows(profile, TRANSFERS, "queue_name", "transfer_bytes", "variable")
    moved = [(*event[:3], f"{event[3]:,} bytes", event[4]) for event in moved]
    events = sorted(issued + moved, key=lambda event: event[:3])
    rows = [
        (f"{start:,}", f"{end:,}", lane, what, where)
        for start, end, lane, what, where in events[:_EVENTS_SHOWN]
    ]
    heads = ("start ns", "end ns", "engine or queue", "what", "line or tensor")
    count = profile.count("Instruction") + profile.count(TRANSFERS)
    return [badge(profile), *text_table(heads, rows, None if limit is None else limit - 1, count)]


def _first_rows(profile: Profile, table: str, *columns: str) -> list[tuple]:
    """Return start, end and some columns of the rows of a table that start first."""
    start, end = (profile.numbers(table, name) for name in ("start_ts", "end_ts"))
    chosen = np.lexsort((end, start))[:_EVENTS_SHOWN]
    found = []
    for row in chosen.tolist():
        values = []
        for name in columns:
            column = profile.column(table, name)
            values.append("" if column is None or column[row] is None else column[row])
        found.append((int(start[row]), int(end[row]), *values))
    return found


_TEXTS: dict[str, Callable[[ViewData, int | None], list[str]]] = {
    "report": _report,
    "findings": findings_text,
    "source": source_text,
    "ir": _ir,
    "layout": _layout,
    "array": matmul_text,
    "memory": _memory,
    "stepper": stepper_text,
    "timeline": _timeline,
    "graph": data_flow_text,
    "vary": _vary,
}
