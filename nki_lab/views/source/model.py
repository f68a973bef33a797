"""Data of the source view: the author's lines, what each costs, and the findings there."""

from __future__ import annotations

from typing import Any

from nki_lab.views.findings.advice import REMARKS_SENT, known_advice
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_costs
from nki_lab.widgets.packing import pack

#: Instructions of one line that are named.
_INSTRUCTIONS_SHOWN = 40


def source_parts(data: ViewData) -> bytes:
    """Return the author's text and the cost of each line, packed."""
    costs = line_costs(data)
    listings = [
        {"heading": part.heading, "first": part.first, "lines": list(part.lines)}
        for part in data.listings
    ]
    remarks: dict[str, list[str]] = {}
    for remark in data.findings[:REMARKS_SENT]:
        if remark.place is not None:
            remarks.setdefault(remark.place.heading, []).append(f"{remark.kind}: {remark.message}")
    for advised in known_advice(data)[:REMARKS_SENT]:
        for place in advised.places[:1]:
            text = f"{advised.rule} ({advised.gain}): {advised.help or advised.message}"
            remarks.setdefault(place.heading, []).append(text)
    meta = {
        "listings": listings,
        "costs": [
            {
                "place": cost.place.heading,
                "file": cost.place.file,
                "line": cost.place.line,
                "text": cost.place.text,
                "operations": cost.operations,
                "executed": cost.executed,
                "engines": cost.engine_ns,
                "dma": cost.transfer_ns,
                "bytes": cost.bytes,
                "wait": cost.wait_ns,
            }
            for cost in costs
        ],
        "total": data.profile.total_ns,
        "remarks": remarks,
    }
    return pack(meta)


def source_instructions(data: ViewData) -> bytes:
    """Return the texts of the instructions that each line became, and their number, packed."""
    instructions: dict[str, dict[str, Any]] = {}
    for operation in data.operations:
        if operation.place is not None:
            entry = instructions.setdefault(operation.place.heading, {"count": 0, "texts": []})
            entry["count"] += 1
            if entry["count"] <= _INSTRUCTIONS_SHOWN:
                entry["texts"].append(operation.text)
    return pack(instructions)
