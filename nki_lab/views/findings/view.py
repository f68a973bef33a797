"""The findings of a run: what the author should know, advice, and what the numbers rest on."""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.text_table import cut
from nki_lab.views.entries import remark_entry, remark_lines
from nki_lab.views.findings.advice import REMARKS_SENT, about_the_numbers, known_advice
from nki_lab.views.page import Page
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack
from nki_lab.widgets.picture import Picture, VectorPicture
from nki_lab.widgets.theme import FAINT

_PLACES_SHOWN = 3


def findings_text(data: ViewData, limit: int | None) -> list[str]:
    """Return what the author should know, the serious first, advice, and what the numbers rest on."""
    remarks = sorted(data.findings, key=lambda remark: not remark.is_serious)
    lines = [line for remark in remarks for line in remark_lines(remark, excerpt=True)]
    for advised in known_advice(data):
        places = "; ".join(place.label for place in advised.places[:_PLACES_SHOWN])
        gain = f" ({advised.gain})" if advised.gain else ""
        lines.append(f"{f'{places}: ' if places else ''}{advised.rule}{gain}: {advised.message}")
        lines += [f"  help: {advised.help}"] if advised.help else []
    lines = lines or ["nothing was found"]
    lines += [f"about the numbers: {kind}: {text}" for kind, text in about_the_numbers(data)]
    return cut(lines, limit)


def findings_parts(data: ViewData) -> bytes:
    """Return every finding, the serious first, advice, and what the numbers rest on, packed."""
    return pack(_data(data))


def findings_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return findings, advice, and what the numbers rest on as a picture; of many the first, and how many more."""
    remarks = _data(data)
    page = Page(data, paper, theme)
    if not remarks["findings"]:
        page.line("Nothing was found.")
    page.remarks("Findings", remarks["findings"], remarks["more"])
    advice = [
        advised
        | {
            "kind": f"{advised['rule']} ({advised['gain']})"
            if advised["gain"]
            else advised["rule"],
            "place": "; ".join(heading for heading, _ in advised["places"][:_PLACES_SHOWN]),
        }
        for advised in remarks["advice"]
    ]
    page.remarks("What would make it faster, the largest gain first", advice)
    page.remarks("About the numbers", remarks["warnings"], colour=FAINT)
    return page.done()


def _data(data: ViewData) -> dict[str, Any]:
    remarks = sorted(data.findings, key=lambda remark: not remark.is_serious)
    return {
        "findings": [
            remark_entry(remark) | {"serious": remark.is_serious}
            for remark in remarks[:REMARKS_SENT]
        ],
        "more": max(0, len(remarks) - REMARKS_SENT),
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


VIEW = View(
    name="findings",
    title="Findings",
    needs=Needs.PROGRAM,
    text=findings_text,
    words="Findings and advice",
    parts={"findings": findings_parts},
    first=("findings",),
    picture=findings_picture,
)
