"""Times a program again with some of its costs taken away.

The same entries with the same waits run through the same model again; only the costs of some records are gone.

    free-loads, free-stores, free-dma      transfers into SBUF, out to device memory, all of them
    free-issue, free-latency               parts of every transfer: its descriptors; its start and completion
    free-tensor, free-vector, ...          the instructions of an engine: an engine that is infinitely fast
    free-tables, free-signals, full-rate   loads of activation tables; signals between engines; the current limit
    line=12, line=add.py:12                everything a line of the kernel asks for

To add a question, add a row to `CHANGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nki_lab.errors import UnknownOption, close_matches
from nki_lab.ir.definition.form_times import Record, RingKey
from nki_lab.profiler.analyses.what_if import WhatIf, WhatIfs
from nki_lab.progress import phase
from nki_lab.targets.engines import GPSIMD, SCALAR, TENSOR, VECTOR, Engine
from nki_lab.targets.spec import Target
from nki_lab.timing.origins import kernel_lines, label_of
from nki_lab.timing.program import LOOP_TRIP, QueuedProgram
from nki_lab.timing.schedule import times_of
from nki_lab.timing.tables import make_profile
from nki_lab.timing.timeline import Timeline

_LINE = "line="
_LINES_NAMED = 8

#: Gives the record to time instead of one; None leaves it as it is.
Replacement = Callable[[Record], Record | None]


@dataclass(frozen=True)
class Change:
    """A cost to remove.

    Attributes:
        meaning: ends the sentence "what if ...".
        record: replaces the costs of instructions.
        target: replaces the machine.
    """

    meaning: str
    record: Replacement | None = None
    target: Callable[[Target], Target] | None = None


def _loads(record: Record) -> Record | None:
    return record.free() if any(move.destination == "sbuf" for move in record.moves) else None


def _stores(record: Record) -> Record | None:
    return record.free() if any(move.destination == "hbm" for move in record.moves) else None


def _transfers(record: Record) -> Record | None:
    return record.free() if isinstance(record.queue, RingKey) else None


def _issue(record: Record) -> Record | None:
    return record.with_(issue=0) if record.issue else None


def _way(record: Record) -> Record | None:
    return record.with_(lead=0, tail=0) if isinstance(record.queue, RingKey) else None


def _tables(record: Record) -> Record | None:
    return record.with_(table=None) if record.table is not None else None


def _of_engine(engine: Engine) -> Replacement:
    return lambda record: record.free() if record.queue is engine else None


#: What may be asked, by name.
CHANGES: dict[str, Change] = {
    "free-loads": Change("loads took no time", _loads),
    "free-stores": Change("stores took no time", _stores),
    "free-dma": Change("no transfer took time", _transfers),
    "free-issue": Change("making descriptors took no time", _issue),
    "free-latency": Change("transfers started and completed at once", _way),
    **{
        f"free-{engine.name}": Change(f"{title} was infinitely fast", _of_engine(engine))
        for engine, title in (
            (TENSOR, "the Tensor engine"),
            (VECTOR, "the Vector engine"),
            (SCALAR, "the Scalar engine"),
            (GPSIMD, "the GpSimd engine"),
        )
    },
    "free-tables": Change("activation tables were always loaded", _tables),
    "free-signals": Change(
        "signals between engines took no time", target=lambda t: replace(t, semaphore_hop_ns=0)
    ),
    "full-rate": Change(
        "the Tensor engine had no current limit",
        target=lambda t: replace(t, pe_throttle_fraction=None, pe_throttle_window_ns=None),
    ),
}


def what_if(timeline: Timeline, changes: Sequence[str]) -> WhatIf:
    """Time a program again without some costs.

    Args:
        timeline: the run as it is.
        changes: keys of `CHANGES`, or "line=12" or "line=add.py:12" for everything a line asks for.

    Raises UnknownOption for another name, or a line that no instruction comes from.
    """
    check_changes(changes)
    records = timeline.program.records
    target = timeline.execution.kernel.target
    meanings = []
    for name in changes:
        if name.startswith(_LINE):
            records = _without_line(timeline, records, name.removeprefix(_LINE))
            meanings.append(f"line {name.removeprefix(_LINE)} cost nothing")
            continue
        change = _change(name)
        meanings.append(change.meaning)
        if change.record is not None:
            records = replaced(records, change.record)
        if change.target is not None:
            target = change.target(target)
    again = retimed(timeline, records, target)
    meaning = " and ".join(meanings)
    name = f"{timeline.execution.kernel.name}, if {meaning}"
    return WhatIf(
        tuple(changes), meaning, timeline.total_ns, again.total_ns, make_profile(again, name)
    )


def what_ifs(timeline: Timeline) -> WhatIfs:
    """Ask every question whose answer may differ from the run as it is; the largest gain first."""
    records = timeline.entries_by_record
    answers = []
    with phase("timing what-if questions", total=len(CHANGES)) as asked:
        for asked.at, (name, change) in enumerate(CHANGES.items()):
            touched = change.record is not None and any(map(change.record, records))
            if touched or (change.target is not None and records):
                answer = what_if(timeline, (name,))
                if touched or answer.gain_ns:
                    answers.append(answer)
    return WhatIfs(sorted(answers, key=lambda answer: answer.after_ns))


def retimed(timeline: Timeline, records: list[Record], target: Target | None = None) -> Timeline:
    """Return the timeline of the same program with other costs; each record stands in the queue of the one before."""
    program = timeline.program
    changed = QueuedProgram(program.positions, records, program.waits, program.queues)
    board = times_of(changed, target or timeline.execution.kernel.target)
    return Timeline(timeline.execution, timeline.options, board)


def replaced(records: list[Record], replacement: Replacement) -> list[Record]:
    """Return the records with others in place of some; one replacement for equal ones."""
    changed: dict[Record, Record] = {}
    for record in records:
        if record not in changed:
            changed[record] = replacement(record) or record
    return [changed[record] for record in records]


def freed(records: list[Record], entries: np.ndarray) -> list[Record]:
    """Return the records with the given entries taking no time."""
    changed: dict[Record, Record] = {}
    result = list(records)
    for n in entries.tolist():
        record = records[n]
        free = changed.get(record)
        result[n] = free if free is not None else changed.setdefault(record, record.free())
    return result


def entries_of_line(timeline: Timeline, place: str) -> np.ndarray:
    """Return the entries that come from a line, given as `add.py:12`, or `12` in any file.

    Raises UnknownOption when there is none.
    """
    codes, spans = kernel_lines(timeline.execution.kernel)
    labels = [label_of(span) or "" for span in spans]
    wanted = [place in (label, label.rpartition(":")[2]) for label in labels]
    positions = timeline.positions
    entries = np.flatnonzero(
        (positions != LOOP_TRIP) & np.array(wanted, dtype=bool)[codes[positions]]
        if len(codes)
        else positions < 0
    )
    if not len(entries):
        lines = [label for label in dict.fromkeys(labels) if label]
        number = place.rpartition(":")[2]
        if number.isdecimal():
            lines.sort(key=lambda label: abs(int(label.rpartition(":")[2]) - int(number)))
        raise UnknownOption(
            f"no instruction comes from line {place}",
            help=f"nearest lines with instructions: {', '.join(lines[:_LINES_NAMED])}",
        )
    return entries


def check_changes(names: Sequence[str]) -> None:
    """Raise UnknownOption for a name that is not a question; whether a line exists shows when a program is timed."""
    for name in names:
        if not isinstance(name, str):
            raise UnknownOption(
                f"a question is a string, not a {type(name).__name__}",
                help='give several one after another: what_if("free-loads", "free-stores")',
            )
        if not name.startswith(_LINE) or name == _LINE:
            _change(name)


def _without_line(timeline: Timeline, records: list[Record], place: str) -> list[Record]:
    return freed(records, entries_of_line(timeline, place))


def _change(name: str) -> Change:
    change = CHANGES.get(name)
    if change is None:
        raise UnknownOption(
            f"`{name}` is not a what-if question; expected one of {', '.join(CHANGES)}, line=NUMBER",
            help=close_matches(name, CHANGES),
        )
    return change
