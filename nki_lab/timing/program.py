"""Puts the executed instructions into queues, with what each waits for.

A device loop is executed trip by trip. Dependences between trips are not known, so a trip begins when everything
before it is complete: an extra entry, `LOOP_TRIP`, stands between two trips and waits for all queues. One stands in
place of a loop that does not run, too: what follows may rely on waits inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nki_lab.errors import BrokenProgram
from nki_lab.ir.definition.form_times import Queue, Record, RingKey, record_of
from nki_lab.ir.definition.instruction import Form
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Kernel
from nki_lab.targets.spec import Target

#: Position of an entry that is not an instruction: branch and barrier between two trips of a loop.
LOOP_TRIP = -1


@dataclass(frozen=True)
class QueuedProgram:
    """The executed stream, one entry per executed instruction.

    Attributes:
        positions: position of the instruction in the kernel, per entry, or LOOP_TRIP.
        records: its costs.
        waits: the entries it waits for, all earlier.
        queues: entries of each queue, in order.
    """

    positions: Sequence[int]
    records: list[Record]
    waits: Sequence[tuple[int, ...]]
    queues: dict[Queue, list[int]]


def program_of(execution: Execution, hbm_share: float) -> QueuedProgram:
    """Lay out an execution in queues.

    Raises BrokenProgram when the kernel has not been given its waits.
    """
    kernel = execution.kernel
    if kernel.waits is None:
        raise BrokenProgram("the kernel has no waits: run every compiler pass before timing it")
    forms = [i.form for i in kernel.instructions]
    costs: dict[Form, Record | None] = {
        form: None if form.definition.observes else record_of(form, kernel.target, hbm_share)
        for form in set(forms)
    }
    order = execution.order
    records = [costs[form] for form in forms]
    if any(r is not None and _is_static(r) for r in costs.values()):
        _part_static_rings(kernel, records)
    plain = isinstance(order, range) and order == range(len(forms))
    if plain and None not in costs.values():
        return QueuedProgram(order, records, kernel.waits, queues_of(records))  # type: ignore[arg-type]
    return _entry_by_entry(order, records, kernel.waits, kernel.target)


def _is_static(record: Record) -> bool:
    return isinstance(record.queue, RingKey) and record.queue.maker == "none"


def _part_static_rings(kernel: Kernel, records: list[Record | None]) -> None:
    """Give the transfers of each tensor in HBM their own ring, where descriptors lie ready.

    Traces of trn1 and trn2 show two loads of two tensors at once (asst4-trainium handout/profiler_GUI.gif). There are
    `dma_rings_per_engine`; further tensors share them.
    """
    rings: dict[int, int] = {}
    parted: dict[tuple[Record, int], Record] = {}
    for n, record in enumerate(records):
        if record is None or not _is_static(record):
            continue
        i = kernel.instructions[n]
        ends = [t.storage for t in (*i.written(), *i.read())]
        tensor = next((s.id for s in ends if not s.on_chip), ends[0].id)
        number = rings.setdefault(tensor, len(rings)) % kernel.target.dma_rings_per_engine
        ring = parted.get((record, number))
        if ring is None:
            queue = record.queue._replace(number=number)  # type: ignore[union-attr]
            ring = parted[record, number] = record.with_(queue=queue)
        records[n] = ring


def queues_of(records: Iterable[Record]) -> dict[Queue, list[int]]:
    """Return the entries of each queue, in order."""
    queues: dict[Queue, list[int]] = {}
    appends: dict[Record, object] = {}
    for n, record in enumerate(records):
        append = appends.get(record)
        if append is None:
            append = appends[record] = queues.setdefault(record.queue, []).append
        append(n)  # type: ignore[operator]
    return queues


def _entry_by_entry(
    order: Sequence[int],
    records: list[Record | None],
    waits: Sequence[tuple[int, ...]],
    target: Target,
) -> QueuedProgram:
    trip = no_instruction()
    trip.interval = target.loop_trip_ns * 1000
    executed: list[Record] = []
    positions: list[int] = []
    waited: list[tuple[int, ...]] = []
    latest: dict[int, int] = {}  # position -> its latest entry
    last: dict[Queue, int] = {}  # queue -> its latest entry
    behind: dict[Queue, int] = {}  # queue -> the trip its entries are known to wait for
    barrier = -1
    previous = -1
    for position in order:
        if position != previous + 1:  # back for another trip, or past a loop that did not run
            barrier = len(executed)
            executed.append(trip)
            positions.append(LOOP_TRIP)
            waited.append(tuple(last.values()))
            last[trip.queue] = barrier
        previous = position
        record = records[position]
        if record is None:  # it only looks, and takes no time
            continue
        entries = [latest[w] for w in waits[position] if w in latest]
        if behind.get(record.queue, -1) < barrier:
            behind[record.queue] = barrier
            entries.append(barrier)
        n = len(executed)
        latest[position] = last[record.queue] = n
        executed.append(record)
        positions.append(position)
        waited.append(tuple(entries))
    return QueuedProgram(positions, executed, waited, queues_of(executed))


def no_instruction() -> Record:
    """Return the record of an entry that is not an instruction; it takes no time."""
    return Record(_NO_FORM, ())


class _NoForm:
    """Stand for the form of an entry that is not an instruction."""

    engine = None


_NO_FORM: Form = _NoForm()  # type: ignore[assignment]
