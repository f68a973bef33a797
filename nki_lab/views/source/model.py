"""Data of the source view: the author's lines, what each costs, and the findings there."""

from __future__ import annotations

from nki_lab.views.findings.advice import REMARKS_SENT, known_advice
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_costs
from nki_lab.widgets.packing import pack


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
