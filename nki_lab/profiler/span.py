"""What of a profile lies within a span of time, and how many events may a profile have?

Tables, views and questions hold every event in memory, some 1.5 kB each. A profile of more than MOST_EVENTS is read in
parts: what is outside the span that was asked for is passed over while a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from nki_lab.errors import BadFile, UnknownOption
from nki_lab.profiler.columns import take
from nki_lab.profiler.cores import FLOW_ENDS
from nki_lab.profiler.derived import DERIVED
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES, TRANSFERS

#: Instructions and transfers of one profile in memory.
MOST_EVENTS = 2_000_000
#: Tables with a row for every event.
EVENTS = ("Instruction", TRANSFERS)
#: Columns that say when a row begins and ends.
BEGINS, ENDS = "start_ts", "end_ts"
_MOMENT = "timestamp"
_FOREVER = int(np.iinfo(np.int64).max)


class Span(NamedTuple):
    """A span of time in ns, its end left out."""

    start_ns: int
    end_ns: int

    def rows(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Tell which rows have a part in the span; what takes no time has one where it begins."""
        return (starts < self.end_ns) & ((ends > self.start_ns) | (starts >= self.start_ns))

    def __str__(self) -> str:
        if self.end_ns == _FOREVER:
            return f"from {self.start_ns / 1000:,.3f} us on"
        return f"{self.start_ns / 1000:,.3f} to {self.end_ns / 1000:,.3f} us"


def span_of(start_ns: float | None, end_ns: float | None) -> Span | None:
    """Return a span, from the beginning or to the end where one is not given; None where neither is.

    Raises UnknownOption where it would be empty.
    """
    if start_ns is None and end_ns is None:
        return None
    span = Span(int(start_ns or 0), _FOREVER if end_ns is None else int(end_ns))
    if span.start_ns < 0 or span.end_ns <= span.start_ns:
        raise UnknownOption(
            f"there is no time between {span.start_ns:,} and {span.end_ns:,} ns",
            help="give the beginning and the end of a span in ns, the smaller one first",
        )
    return span


def chosen_rows(
    table: str, span: Span, number: Callable[[str], np.ndarray], own: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """Return which rows of a table lie in a span, as a mask; None where that cannot be said of it.

    Of a curve the last value before the span is among them, of dependences those between events in the span.

    Args:
        table: its name.
        span: the span.
        number: gives a column of numbers; Flow asks for the tables of its ends as "in_table" and "out_table": positions
            in EVENTS, or -1.
        own: ids of the events in the span, by table.
    """
    fields = TABLES[table]
    if {BEGINS, ENDS} <= set(fields):
        return span.rows(number(BEGINS), number(ENDS))
    if _MOMENT in fields:
        times = number(_MOMENT)
        chosen = (times >= span.start_ns) & (times < span.end_ns)
        before = np.flatnonzero(times < span.start_ns)
        cores = number("pcore_idx")[before] if "pcore_idx" in fields else np.zeros(len(before))
        for core in np.unique(cores):
            chosen[before[cores == core][-1]] = True
        return chosen
    if table == "Flow":
        return _kept(number("in_table"), number("in_id"), own) & _kept(
            number("out_table"), number("out_id"), own
        )
    return None


def _kept(tables: np.ndarray, ids: np.ndarray, own: Mapping[str, np.ndarray]) -> np.ndarray:
    found = np.zeros(len(ids), bool)
    for n, name in enumerate(EVENTS):
        found |= (tables == n) & np.isin(ids, own.get(name, ()))
    return found


def end_codes(texts: Any) -> np.ndarray:
    """Return for the ends of dependences, a column of strings, the tables they are in, as positions in EVENTS."""
    found = np.full(len(texts), -1)
    for text, table in FLOW_ENDS.items():
        found[texts.equal_to(text)] = EVENTS.index(table)
    return found


def refuse_more(count: int, name: str, span: Span | None = None) -> None:
    """Raise BadFile where a file has more events, in a span or in all, than may be in memory."""
    if count <= MOST_EVENTS:
        return
    where = "" if span is None else f" in the span {span}"
    raise BadFile(
        f"{name} has {count:,} events{where}, more than the {MOST_EVENTS:,} that can be looked at together",
        help=f"look at a {'shorter ' if span else ''}span of time, given in ns: --from 0 --to 1000000, or"
        " Profile.load(path, start_ns=0, end_ns=1_000_000)",
    )


def part_of(profile: Profile, span: Span) -> Profile:
    """Return what a profile has within a span, with the ids and times it has there.

    Curves of memory begin with their last value before the span. Summaries are those of the span.
    """
    own: dict[str, np.ndarray] = {}

    def rows_of(name: str) -> np.ndarray | None:
        def number(column: str) -> np.ndarray:
            if column.endswith("_table"):
                return end_codes(profile.strings(name, column))
            return profile.numbers(name, column)

        return chosen_rows(name, span, number, own)

    rows: dict[str, np.ndarray | None] = {}
    for name in (*EVENTS, *sorted(profile.supplied - {*EVENTS})):
        if name in profile.supplied:
            rows[name] = chosen = rows_of(name)
            if name in EVENTS and chosen is not None:
                own[name] = profile.numbers(name, "id")[chosen]
    refuse_more(sum(map(len, own.values())), profile.name or "the profile", span)
    deals = profile.deals
    kept = rows.get(TRANSFERS)
    part = Profile.from_tables(
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
        deals=None if deals is None or kept is None else Deals(deals.codes[kept], deals.forms),
    )
    return named_part(part, span)


def named_part(part: Profile, span: Span) -> Profile:
    """Return what lies in a span, which says so: its name, and when it begins and ends."""
    starts = [int(part.numbers(name, BEGINS).min(initial=span.start_ns)) for name in EVENTS]
    ends = [int(part.numbers(name, ENDS).max(initial=span.start_ns)) for name in EVENTS]
    times = {"first_hw_timestamp": min(starts), "last_hw_timestamp": max(ends)}
    # What follows from the rows is made anew from those of the span, also where a file tells it of the whole run.
    supplied: dict[str, Any] = {
        name: part.table(name) for name in part.supplied if name not in DERIVED
    }
    supplied["Metadata"] = {**part.table("Metadata"), **times}
    return Profile.from_tables(
        part.target,
        {name: table for name, table in supplied.items() if table},
        is_simulation=part.is_simulation,
        name=f"{part.name or 'kernel'}, {span}",
        metrics=part.metrics,
        deals=part.deals,
    )
