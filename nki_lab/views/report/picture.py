"""Draws the report: figures, findings, advice, engines, and costliest lines, as the live view shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nki_lab.percent import percent
from nki_lab.views.head import MARGIN
from nki_lab.views.page import LINE, ROOM, SHOWN, Page
from nki_lab.views.report.model import report_data
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LARGE, LETTER, WIDTH, Picture, VectorPicture, cut, wrapped
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS, FAINT, INK, RULE, Colour

_FIGURES_ABREAST = 3
_BAR, _BAR_HEIGHT = 160, 14
# Where a bar begins, and where the numbers of a table end, from the left.
_BAR_LEFT, _ENDS = 480, (740, 890, 1020, WIDTH - MARGIN)


def report_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the report of a run as a picture; of long lists the first entries, and how many more there are."""
    report = report_data(data)
    page = Page(data, paper, theme)
    _figures(page, report["figures"])
    page.remarks("Findings", report["findings"], report["more_findings"])
    page.remarks("Advice, the largest gain first", report["advice"])
    _engines(page, report["engines"])
    _lines(page, report["lines"])
    page.remarks("About these numbers", report["warnings"], colour=FAINT)
    return page.done()


def _figures(page: Page, figures: Sequence[Mapping[str, str]]) -> None:
    """Write figures side by side: what each is, its value, and a note."""
    wide = (WIDTH - 2 * MARGIN) // _FIGURES_ABREAST
    for first in range(0, len(figures), _FIGURES_ABREAST):
        notes = []
        for k, figure in enumerate(figures[first : first + _FIGURES_ABREAST]):
            x = MARGIN + k * wide
            page.picture.text(x, page.y, figure["label"], FAINT)
            value = cut(figure["value"], int(wide / LETTER / LARGE) - 1)
            page.picture.text(x, page.y + LINE, value, INK, scale=LARGE)
            notes.append((x, wrapped(figure["note"], wide // LETTER - 2, "")))
        page.y += (1 + LARGE) * LINE
        for x, lines in notes:
            for k, line in enumerate(lines):
                page.picture.text(x, page.y + k * LINE, line, FAINT)
        page.y += max(len(lines) for _, lines in notes) * LINE + MARGIN / 2


def _engines(page: Page, engines: Sequence[Mapping[str, Any]]) -> None:
    """Write the table of the engines, with a bar of how long each is busy."""
    page.title("Engines")
    _heads(page, "engine", "busy", "share", "active us", "waiting us", "count")
    for row in engines:
        colour = ENGINE_COLOURS[row["engine"]]
        page.picture.fill(MARGIN, page.y + 2, _BAR_HEIGHT, _BAR_HEIGHT, colour)
        page.picture.text(MARGIN + 22, page.y, ENGINE_LABELS[row["engine"]])
        page.picture.fill(_BAR_LEFT, page.y + 2, _BAR, _BAR_HEIGHT, RULE)
        if row["share"]:
            page.picture.fill(_BAR_LEFT, page.y + 2, _BAR * row["share"], _BAR_HEIGHT, colour)
        waiting = "" if row["waiting_us"] is None else f"{row['waiting_us']:,.3f}"
        active = f"{row['active_us']:,.3f}"
        _numbers(page, percent(row["share"]), active, waiting, f"{row['count']:,}")


def _lines(page: Page, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the costliest lines, each with a bar of its time by engine."""
    if not lines:
        return
    page.title("Lines that ask for most time")
    _heads(page, "line", "by engine", "", "engine sum us", "DMA us", "instructions")
    most = max(line["engine_us"] + line["dma_us"] for line in lines) or 1
    for line in lines[:SHOWN]:
        page.picture.text(MARGIN, page.y, cut(line["label"], (_BAR_LEFT - MARGIN) // LETTER - 1))
        x = float(_BAR_LEFT)
        for engine, ns in [*line["engines"].items(), ("dma", 1000 * line["dma_us"])]:
            width = _BAR * ns / 1000 / most
            if ns:
                page.picture.fill(x, page.y + 2, width, _BAR_HEIGHT, ENGINE_COLOURS[engine])
            x += width
        times = (f"{line[time]:,.3f}" for time in ("engine_us", "dma_us"))
        _numbers(page, "", *times, f"{line['count']:,}")
        page.line(cut(line["source"].strip(), ROOM - 2), FAINT, MARGIN + 2 * LETTER)
    page.more(len(lines) - SHOWN)


def _heads(page: Page, first: str, bar: str, *numbers: str) -> None:
    page.picture.text(MARGIN, page.y, first, FAINT)
    page.picture.text(_BAR_LEFT, page.y, bar, FAINT)
    _numbers(page, *numbers, colour=FAINT)


def _numbers(page: Page, *texts: str, colour: Colour = INK) -> None:
    for text, x in zip(texts, _ENDS, strict=True):
        page.picture.text(x, page.y, text, colour, end=True)
    page.y += LINE
