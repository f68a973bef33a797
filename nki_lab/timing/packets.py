"""Divides a transfer into packets, by its form."""

from __future__ import annotations

from nki_lab.ir.definition.form_times import Record, busiest_engine, engines_used
from nki_lab.profiler.packets import Deal, Deals
from nki_lab.targets.spec import Target
from nki_lab.timing.timeline import Timeline


def deals_of(timeline: Timeline) -> Deals:
    """Return how every transfer of a timing run is dealt to the DMA engines, in the order of the program."""
    number: dict[Record, int] = {}
    records = timeline.program.records
    codes = [number.setdefault(records[n], len(number)) for n in timeline.transfers.tolist()]
    target = timeline.execution.kernel.target
    return Deals(codes, [_deals(record, target) for record in number])


def _deals(record: Record, target: Target) -> list[Deal]:
    found = []
    for move in record.moves:
        most, size = busiest_engine(move, target)
        moved = max(move.bytes_read, move.bytes_written)
        packets = max(1, min(round(moved / size), most * engines_used(move, target)))
        found.append(Deal(min(most, packets), packets, move.bytes_read, move.bytes_written))
    return found
