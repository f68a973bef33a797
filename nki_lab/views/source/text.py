"""The lines of a kernel with what each costs, in plain text."""

from __future__ import annotations

from nki_lab.profiler.analyses.source_lines import ENGINE_SUM
from nki_lab.profiler.text_table import cut
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import LineCost, line_costs

_BAR = 8
_WIDTH = 110
_ROW = "{:<{w}}  {:<8} {:>13} {:>9} {:>9} {:>11}  {}"


def source_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the author's text with what each line costs; lines without a cost only where there is room."""
    costs = line_costs(data)
    if not costs and not data.listings:
        return ["no line of the author's text is known"]
    by_place = {(cost.place.file, cost.place.line): cost for cost in costs}
    most = max((cost.total_ns for cost in costs), default=0) or 1
    rows = []
    shown: set[tuple[str, int]] = set()
    for listing in data.listings:
        for number, text in enumerate(listing.lines, listing.first):
            key = (listing.heading, number)
            shown.add(key)
            rows.append(_row(f"{listing.label}, line {number}", text, by_place.get(key), most))
    rest = [cost for cost in costs if (cost.place.file, cost.place.line) not in shown]
    rows += [_row(cost.place.label, cost.place.text, cost, most) for cost in rest]
    if limit is not None and len(rows) >= limit:
        rows = [row for row in rows if row[1]]
    heads = ("line", "cost", ENGINE_SUM, "DMA us", "wait us", "bytes moved", "text")
    width = max(len(row[0]) for row in (heads, *rows))
    return cut([_ROW.format(*row, w=width).rstrip()[:_WIDTH] for row in (heads, *rows)], limit)


def _row(place: str, text: str, cost: LineCost | None, most: int) -> tuple[str, ...]:
    text = text.expandtabs(4)
    if cost is None or not cost.executed:
        return (place, "", "", "", "", "", text)
    bar = "#" * max(1, round(_BAR * cost.total_ns / most))
    engines = sum(cost.engine_ns.values())
    waits = "" if cost.wait_ns is None else _us(cost.wait_ns)
    moved = f"{cost.bytes:,}" if cost.bytes else ""
    return (place, bar, _us(engines), _us(cost.transfer_ns), waits, moved, text)


def _us(time_ns: int) -> str:
    return f"{time_ns / 1000:,.3f}" if time_ns else ""
