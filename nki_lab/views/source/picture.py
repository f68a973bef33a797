"""The lines of a kernel with their costs as a picture."""

from __future__ import annotations

from nki_lab.views.head import heading
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import LineCost, line_costs
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS, FAINT

_MARGIN = 12
_LINE = TEXT_HEIGHT + 8
_LINES_SHOWN = 60
_BAR = 200
_COST_LETTERS = 11


def source_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the kernel's lines with a bar of what each costs, divided by engine."""
    by_place = {(c.place.file, c.place.line): c for c in line_costs(data)}
    rows: list[tuple[str, str, LineCost | None]] = []
    for listing in data.listings:
        for number, text in enumerate(listing.lines, listing.first):
            cost = by_place.pop((listing.heading, number), None)
            rows.append((str(number), text.expandtabs(4), cost))
    rows += [(str(c.place.line), c.place.text or c.place.label, c) for c in by_place.values()]
    more = max(0, len(rows) - _LINES_SHOWN)
    rows = rows[:_LINES_SHOWN]
    picture = paper(WIDTH, 3 * _MARGIN + _LINE * (len(rows) + 3 + bool(more)), theme)
    heading(picture, data)
    _engine_legend(picture, [cost for _, _, cost in rows if cost])
    most = max((cost.total_ns for _, _, cost in rows if cost), default=0) or 1
    left = WIDTH - _MARGIN - _BAR - LETTER * _COST_LETTERS
    for k, (name, text, cost) in enumerate(rows):
        y = 2 * _MARGIN + _LINE * (k + 3)
        picture.text(_MARGIN, y, f"{name:>4}", FAINT)
        picture.text(_MARGIN + 5 * LETTER, y, cut(text, (left - _MARGIN) // LETTER - 6))
        if cost is None or not cost.total_ns:
            continue
        x = float(left)
        for engine, ns in [*cost.engine_ns.items(), ("dma", cost.transfer_ns)]:
            width = _BAR * ns / most
            if ns:
                picture.fill(x, y, width, TEXT_HEIGHT - 2, ENGINE_COLOURS[engine])
            x += width
        shown = f"{cost.total_ns / 1000:,.3f} us"
        picture.text(WIDTH - _MARGIN - LETTER * len(shown), y, shown, FAINT)
    if more:
        picture.text(
            _MARGIN, 2 * _MARGIN + _LINE * (len(rows) + 3), f"and {more:,} more lines", FAINT
        )
    return picture.done()


def _engine_legend(picture: Paper, costs: list[LineCost]) -> None:
    """Say which colour is which engine, and what the numbers at the right are."""
    used = {engine for cost in costs for engine, ns in cost.engine_ns.items() if ns}
    used |= {"dma"} if any(cost.transfer_ns for cost in costs) else set()
    y = _MARGIN + 2 * _LINE + 4
    x = picture.text(_MARGIN, y, "time on ", FAINT)
    for engine in (name for name in ENGINE_LABELS if name in used):
        picture.fill(x, y + 2, 14, 14, ENGINE_COLOURS[engine])
        x = picture.text(x + 20, y, f"{ENGINE_LABELS[engine]}  ")
    picture.text(x, y, "added up over engines, and over every time a line ran", FAINT)
