"""The lines of a kernel with their costs as a picture."""

from __future__ import annotations

from nki_lab.views.head import MARGIN
from nki_lab.views.page import LINE, ROOM, Page
from nki_lab.views.report.model import size_text
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import LineCost, line_costs
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, Picture, VectorPicture, wrapped
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS, FAINT

_LINES_SHOWN = 60
_BAR = 200
_NUMBER = 5  # letters


def source_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the kernel's lines, and below each a bar of what it costs, divided by engine, with the numbers."""
    by_place = {(c.place.file, c.place.line): c for c in line_costs(data)}
    rows: list[tuple[str, str, LineCost | None]] = []
    for listing in data.listings:
        for number, text in enumerate(listing.lines, listing.first):
            cost = by_place.pop((listing.heading, number), None)
            rows.append((str(number), text.expandtabs(4), cost))
    rows += [(str(c.place.line), c.place.text or c.place.label, c) for c in by_place.values()]
    page = Page(data, paper, theme)
    _engine_legend(page, [cost for _, _, cost in rows if cost])
    most = max((cost.total_ns for _, _, cost in rows if cost), default=0) or 1
    left = MARGIN + (_NUMBER + 1) * LETTER
    for name, text, cost in rows[:_LINES_SHOWN]:
        page.picture.text(left - LETTER, page.y, name, FAINT, end=True)
        for part in wrapped(text, ROOM - _NUMBER - 1):
            page.line(part, x=left)
        if cost is None or not cost.total_ns:
            continue
        x: float = left + LETTER * (len(text) - len(text.lstrip()))
        end = x + _BAR + LETTER
        for engine, ns in [*cost.engine_ns.items(), ("dma", cost.transfer_ns)]:
            width = _BAR * ns / most
            if ns:
                page.picture.fill(x, page.y + 2, width, TEXT_HEIGHT - 2, ENGINE_COLOURS[engine])
            x += width
        page.line(_numbers(cost), FAINT, end)
    page.more(len(rows) - _LINES_SHOWN)
    return page.done()


def _numbers(cost: LineCost) -> str:
    """Say what a line costs: all time, what of it is DMA, how long it waited, and the bytes it moved."""
    parts = [f"{cost.total_ns / 1000:,.3f} us"]
    if cost.transfer_ns:
        parts.append(f"DMA {cost.transfer_ns / 1000:,.3f}")
    if cost.wait_ns:
        parts.append(f"waited {cost.wait_ns / 1000:,.3f}")
    if cost.bytes:
        parts.append(f"moved {size_text(cost.bytes)}")
    return ", ".join(parts)


def _engine_legend(page: Page, costs: list[LineCost]) -> None:
    """Say which colour is which engine, and what the numbers are."""
    used = {engine for cost in costs for engine, ns in cost.engine_ns.items() if ns}
    used |= {"dma"} if any(cost.transfer_ns for cost in costs) else set()
    x = page.picture.text(MARGIN, page.y, "time on ", FAINT)
    for engine in (name for name in ENGINE_LABELS if name in used):
        page.picture.fill(x, page.y + 2, 14, 14, ENGINE_COLOURS[engine])
        x = page.picture.text(x + 20, page.y, f"{ENGINE_LABELS[engine]}  ")
    page.line("in us, added up over engines and runs of a line", FAINT, x)
    page.y += LINE / 2
