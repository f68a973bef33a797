"""What does the source view show: the author's lines, what each costs, and what was found there?"""

from __future__ import annotations

from typing import Any

from nki_lab.views.entries import remark_entry
from nki_lab.views.findings.advice import about_the_numbers, known_advice
from nki_lab.views.run import Remark, ViewData
from nki_lab.views.source.costs import line_costs
from nki_lab.widgets.packing import pack

#: Findings and rows about the numbers that are sent.
REMARKS_SENT = 1_000


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


def findings_parts(data: ViewData) -> bytes:
    """Return every finding, the serious first, advice, and what the numbers rest on, packed."""
    found = sorted(data.findings, key=lambda remark: not remark.is_serious)
    meta = {
        "findings": [finding_entry(remark) for remark in found[:REMARKS_SENT]],
        "more": max(0, len(found) - REMARKS_SENT),
        "advice": [
            {
                "rule": advised.rule,
                "gain": advised.gain,
                "message": advised.message,
                "help": advised.help,
                "places": [[place.heading, place.text] for place in advised.places],
            }
            for advised in known_advice(data)[:REMARKS_SENT]
        ],
        "warnings": [
            {"kind": kind, "message": message}
            for kind, message in about_the_numbers(data)[:REMARKS_SENT]
        ],
    }
    return pack(meta)


def finding_entry(remark: Remark) -> dict[str, Any]:
    """Return a finding as the browser takes it."""
    return remark_entry(remark) | {"serious": remark.is_serious}
