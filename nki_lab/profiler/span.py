"""Cuts profiles to spans of time, and refuses those with more events than can be looked at together.

Numbers of a span are about that time alone: its total is the span, and bytes are those that move in it. Tables, views
and questions hold every event in memory, some 1.5 kB each: a profile of more than MOST_EVENTS is read in parts, and
rows outside the requested span are skipped while a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nki_lab.errors import BadFile, UnknownOption
from nki_lab.profiler import intervals
from nki_lab.profiler.analyses.advice import CATEGORY as ADVICE
from nki_lab.profiler.analyses.cores import P
from nki_lab.profiler.analyses.source_lines import transfer_lines
from nki_lab.profiler.columns import Column, Strings, known, take
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.metrics import Kind, kind_of
from nki_lab.profiler.schema import FLOW_ENDS, SBUF_PLACE, TABLES, TRANSFERS
from nki_lab.targets import Target

#: Instructions and transfers of one profile in memory.
MOST_EVENTS = 2_000_000
#: Tables with a row for every event.
EVENTS = ("Instruction", TRANSFERS)
#: Columns that say when a row begins and ends.
BEGINS, ENDS = "start_ts", "end_ts"
_MOMENT = "timestamp"
_PACKETS = "DmaPacket"
_FOREVER = int(np.iinfo(np.int64).max)


class TimeSpan(NamedTuple):
    """A span of time in ns, its end left out."""

    start_ns: int
    end_ns: int

    def within(self, first_ns: int, last_ns: int) -> TimeSpan:
        """Return what of it lies in a run."""
        start = min(max(self.start_ns, first_ns), last_ns)
        return TimeSpan(start, max(start, min(self.end_ns, last_ns)))

    def reach(self, last_ns: int) -> TimeSpan:
        """Return the span that also holds what happens at the very end of a run, where it gets there."""
        return self._replace(end_ns=_FOREVER) if self.end_ns >= last_ns else self

    def rows(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Tell which rows have a part in the span; what takes no time has one where it begins."""
        return (starts < self.end_ns) & ((ends > self.start_ns) | (starts >= self.start_ns))

    def __str__(self) -> str:
        if self.end_ns == _FOREVER:
            return f"from {self.start_ns / 1000:,.3f} us on"
        return f"{self.start_ns / 1000:,.3f} to {self.end_ns / 1000:,.3f} us"


def span_of(start_ns: float | None, end_ns: float | None) -> TimeSpan | None:
    """Return a span, from the beginning or to the end where one is not given; None where neither is.

    Raises UnknownOption where it would be empty.
    """
    if start_ns is None and end_ns is None:
        return None
    span = TimeSpan(int(start_ns or 0), _FOREVER if end_ns is None else int(end_ns))
    if span.start_ns < 0 or span.end_ns <= span.start_ns:
        raise UnknownOption(
            f"there is no time between {span.start_ns:,} and {span.end_ns:,} ns",
            help="give the beginning and the end of a span in ns, the smaller one first",
        )
    return span


def chosen_rows(
    table: str,
    span: TimeSpan,
    number: Callable[[str], np.ndarray],
    event_ids: Mapping[str, np.ndarray],
) -> np.ndarray | None:
    """Return which rows of a table lie in a span, as a mask; None where that cannot be said of it.

    Of a curve the last value before the span is among them, of dependences those between events in the span.

    Args:
        table: its name.
        span: the span.
        number: gives a column of numbers; Flow asks for the tables of its ends as "in_table" and "out_table": positions
            in EVENTS, or -1.
        event_ids: ids of the events in the span, by table.
    """
    fields = TABLES[table]
    if {BEGINS, ENDS} <= set(fields):
        return span.rows(number(BEGINS), number(ENDS))
    if _MOMENT in fields:
        times = number(_MOMENT)
        chosen = (times >= span.start_ns) & (times < span.end_ns)
        if table not in CURVES:
            return chosen
        before = np.flatnonzero(times < span.start_ns)
        cores = number("pcore_idx")[before] if "pcore_idx" in fields else np.zeros(len(before))
        for core in np.unique(cores):
            chosen[before[cores == core][-1]] = True
        return chosen
    if table == "Flow":
        return _kept(number("in_table"), number("in_id"), event_ids) & _kept(
            number("out_table"), number("out_id"), event_ids
        )
    return None


def _kept(tables: np.ndarray, ids: np.ndarray, event_ids: Mapping[str, np.ndarray]) -> np.ndarray:
    kept = np.zeros(len(ids), bool)
    for n, name in enumerate(EVENTS):
        kept |= (tables == n) & np.isin(ids, event_ids.get(name, ()))
    return kept


def end_codes(texts: Any) -> np.ndarray:
    """Return for the ends of dependences, a column of strings, the tables they are in, as positions in EVENTS."""
    codes = np.full(len(texts), -1)
    for text, table in FLOW_ENDS.items():
        codes[texts.equal_to(text)] = EVENTS.index(table)
    return codes


def refuse_more(count: int, name: str, span: TimeSpan | None = None) -> None:
    """Raise BadFile where a file has more events, in a span or in all, than may be in memory."""
    if count <= MOST_EVENTS:
        return
    where = "" if span is None else f" in the span {span}"
    raise BadFile(
        f"{name} has {count:,} events{where}, more than the {MOST_EVENTS:,} that can be looked at together",
        help=f"look at a {'shorter ' if span else ''}span of time, given in ns: --from 0 --to 1000000, or"
        " Profile.load(path, start_ns=0, end_ns=1_000_000)",
    )


#: Amounts of a row that are spread evenly over its time, by table: of a row that reaches out of a span, only what lies
#: in it is kept. Other numbers of a row, such as addresses, are those of the whole.
AMOUNTS: dict[str, tuple[str, ...]] = {
    "Instruction": (
        "hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes", "spill_save_bytes",
        "spill_reload_bytes", "psum_read_bytes", "psum_write_bytes", "psum_read_sbuf_write_bytes",
        "input_queue_bytes", "output_queue_bytes", "weight_queue_bytes", "tensor_elements", "raw_flops",
        "adjusted_flops", "tensor_elements_transpose", "flops_transpose", "adjusted_flops_transpose",
    ),
    TRANSFERS: ("read_bytes", "write_bytes", "transfer_bytes"),
    "DmaPacket": ("read_bytes", "write_bytes", "transfer_bytes"),
}  # fmt: skip
#: Tables with one value from each moment to the next; other tables with a moment list events.
CURVES = ("DmaUsage", "HbmUsage", "PendingDma", "PsumUsage", "SbufUsage")
#: Tables and columns that sum up the whole run, so that a span has others, or none.
_SUMS = ("OpcodeSummary", "Summary", "ThrottleSummary")
_SUM_COLUMNS = {
    "TensorInfo": (
        "load_to_sbuf_avg_size_bytes", "load_to_sbuf_total_size_bytes", "load_to_sbuf_dma_count",
        "load_to_sbuf_repeat_factor",
    ),
}  # fmt: skip
#: What tells which instruction issued a transfer, and on which line.
_ISSUED = {
    "Instruction": ("id", "nki_source_location"),
    TRANSFERS: ("id",),
    "Flow": ("in_id", "out_id", "in_table", "out_table"),
}
#: What the maker of a profile says of the bytes that a run has to move: whether of those it reads, or of all.
_LEAST = {
    "inputs_and_weights_size_bytes": ("read",),
    "weight_size_bytes": ("read",),
    "inputs_outputs_weights_size_bytes": ("read", "write"),
}


class Whole(NamedTuple):
    """What a span has to know of the run that it is a part of.

    Attributes:
        first_ns, last_ns: when the run begins and ends.
        cores: how many it uses.
        moved: bytes of device memory that are read ("read") and written ("write"): of the whole run, before the span,
            and up to its end.
        lines: of each transfer, that of the instruction that issued it.
    """

    first_ns: int
    last_ns: int
    cores: int
    moved: Mapping[str, tuple[int, int, int]]
    lines: Strings

    @classmethod
    def of(
        cls,
        span: TimeSpan,
        target: Target,
        column: Callable[[str, str], Column | None],
        about: Mapping[str, Any],
        lines: Strings | None = None,
    ) -> Whole:
        """Read it from the tables of the whole run.

        Args:
            span: the span.
            target: the chip.
            column: gives a column of a table, or None where the run has no such one.
            about: the row of Metadata, where it has one.
            lines: of transfers, where the run is itself a span of one.
        """

        def number(table: str, name: str) -> np.ndarray:
            values = column(table, name)
            if values is None:  # zeros, one for each row
                ends = column(table, ENDS)
                return np.zeros(0 if ends is None else len(ends), dtype=np.int64)
            assert isinstance(values, np.ndarray)
            return known(values)

        times = about.get("first_hw_timestamp"), about.get("last_hw_timestamp")
        if None in times:
            times = 0, max(int(number(table, ENDS).max(initial=0)) for table in EVENTS)
        first, last = map(int, times)  # type: ignore[arg-type]
        cores = {*np.concatenate([number(table, "pcore_idx") for table in EVENTS]).tolist()}
        if about.get("vnc_enabled"):
            cores |= set(range(about.get("num_physical_cores") or 1))
        begins, finishes = number(TRANSFERS, BEGINS), number(TRANSFERS, ENDS)
        inside = span.within(first, last)
        moved = {}
        for way, end in (("read", "source"), ("write", "dest")):
            place, size = column(TRANSFERS, end), number(TRANSFERS, f"{way}_bytes")
            if isinstance(place, Strings):
                size = np.where(place.equal_to(SBUF_PLACE), 0, size)
            before, upto = (
                int(intervals.amount_within(size, begins, finishes, -1, moment).sum())
                for moment in (inside.start_ns, inside.end_ns + (inside.end_ns == last))
            )
            moved[way] = int(size.sum()), before, upto
        tables = {
            table: {name: c for name in names if (c := column(table, name)) is not None and len(c)}
            for table, names in _ISSUED.items()
        }
        named = ProfileData.from_tables(
            target,
            {table: columns for table, columns in tables.items() if columns},
            is_simulation=True,
            transfer_lines=lines,
        )
        return cls(first, last, max(len(cores), 1), moved, transfer_lines(named))

    def share(self, amount: int, ways: Sequence[str], span: TimeSpan) -> int:
        """Return the part of an amount of the run that falls to a span: as the bytes moved do, else as the time."""
        whole, before, upto = (sum(self.moved[way][n] for way in ways) for n in range(3))
        if not whole:
            inside = span.within(self.first_ns, self.last_ns)
            whole = self.last_ns - self.first_ns
            before, upto = inside.start_ns - self.first_ns, inside.end_ns - self.first_ns
        return amount * upto // whole - amount * before // whole if whole else 0


def part_of(profile: P, span: TimeSpan) -> P:
    """Return what a profile has within a span, with the ids it has there; see `cut`."""
    event_ids: dict[str, np.ndarray] = {}
    about = next(profile.records("Metadata"), {})
    whole = Whole.of(span, profile.target, profile.column, about, profile.transfer_lines)
    reach = span.reach(whole.last_ns)

    def rows_of(name: str) -> np.ndarray | None:
        def number(column: str) -> np.ndarray:
            if column.endswith("_table"):
                return end_codes(profile.strings(name, column))
            return profile.numbers(name, column)

        return chosen_rows(name, reach, number, event_ids)

    rows: dict[str, np.ndarray | None] = {}
    for name in (*EVENTS, *sorted(profile.supplied - {*EVENTS})):
        if name in profile.supplied:
            rows[name] = chosen = rows_of(name)
            if name in EVENTS and chosen is not None:
                event_ids[name] = profile.numbers(name, "id")[chosen]
    refuse_more(sum(map(len, event_ids.values())), profile.name or "the profile", span)
    deals = profile.deals
    kept = rows.get(TRANSFERS)
    part = type(profile).from_tables(
        profile.target,
        {
            name: profile.table(name)
            if chosen is None
            else {field: take(column, chosen) for field, column in profile.table(name).items()}
            for name, chosen in rows.items()
            if profile.table(name)
        },
        is_simulation=profile.is_simulation,
        name=profile.name,
        metrics=profile.metrics,
        deals=deals if deals is None or kept is None else deals.take(kept),
    )
    return cut(part, span, whole, kept)


def cut(part: P, span: TimeSpan, whole: Whole, transfers: np.ndarray | None) -> P:
    """Return rows that have a part in a span without what lies outside of it.

    Times end at the span's, and amounts are those that fall into it, so that the parts of spans that divide a run add
    up to the run. Curves begin with their last value before the span. Sums are those of the span, and advice, which
    is about the whole run, is left out.

    Args:
        part: the rows, whole.
        span: the span.
        whole: what it has to know of the run.
        transfers: a mask of those of the run that have a part in the span.
    """
    inside = span.within(whole.first_ns, whole.last_ns)
    tables: dict[str, Any] = {
        name: _cut_table(name, part.table(name), inside)
        for name in part.supplied - {*_SUMS, _PACKETS}
        if part.table(name)
    }
    if _PACKETS in part.supplied:  # hundreds for each transfer: only when somebody asks
        reach = span.reach(whole.last_ns)
        tables[_PACKETS] = lambda: _cut_table(_PACKETS, _packets_in(part, reach), inside)
    tables["Metadata"] = {
        **part.table("Metadata"),
        "first_hw_timestamp": inside.start_ns,
        "last_hw_timestamp": inside.end_ns,
        "num_physical_cores": whole.cores,
        "vnc_enabled": whole.cores > 1,
    }
    deals = part.deals
    if deals is not None:
        start, end = (part.numbers(TRANSFERS, name) for name in (BEGINS, ENDS))
        deals = deals.within(start, end, inside.start_ns, inside.end_ns)
    metrics = {
        name: whole.share(int(value), _LEAST[name], span) if name in _LEAST else value
        for name, value in part.metrics.items()
        if name in _LEAST or kind_of(name) is Kind.CONSTANT
    }
    return type(part).from_tables(
        part.target,
        {name: table for name, table in tables.items() if table},
        is_simulation=part.is_simulation,
        name=f"{part.name or 'kernel'}, {span}",
        metrics=metrics,
        deals=deals,
        transfer_lines=whole.lines if transfers is None else whole.lines.take(transfers),
    )


def _packets_in(part: ProfileData, span: TimeSpan) -> Mapping[str, Any]:
    times = (part.numbers(_PACKETS, name) for name in (BEGINS, ENDS))
    rows = span.rows(*times)
    return {field: take(column, rows) for field, column in part.table(_PACKETS).items()}


def _cut_table(name: str, table: Mapping[str, Any], span: TimeSpan) -> dict[str, Any]:
    columns = {field: c for field, c in table.items() if field not in _SUM_COLUMNS.get(name, ())}
    if name == "Warning" and "category" in columns:
        lasting = ~columns["category"].equal_to(ADVICE)
        return {field: take(c, lasting) for field, c in columns.items()} if lasting.any() else {}
    if name in CURVES and _MOMENT in columns:
        columns[_MOMENT] = np.maximum(columns[_MOMENT], span.start_ns)
    if not {BEGINS, ENDS} <= set(columns):
        return columns
    start, end = known(columns[BEGINS]), known(columns[ENDS])
    first, last = (np.clip(times, span.start_ns, span.end_ns) for times in (start, end))
    rows = (start < first) | (end > last)
    for field in (*AMOUNTS.get(name, ()), "duration_ns", "evt_wait_time_ns"):
        if field not in columns:
            continue
        amounts = known(columns[field]).copy()
        if field == "duration_ns":
            amounts[rows] = (last - first)[rows]
        elif field == "evt_wait_time_ns":  # it ends where the row begins
            amounts = np.minimum(amounts, first - span.start_ns)
        else:
            amounts[rows] = intervals.amount_within(
                amounts[rows], start[rows], end[rows], span.start_ns, span.end_ns
            )
        unknown = np.ma.getmaskarray(columns[field])
        columns[field] = np.ma.MaskedArray(amounts, unknown) if unknown.any() else amounts
    columns[BEGINS], columns[ENDS] = first, last
    return columns
