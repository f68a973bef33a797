"""What do a kernel's lines with their costs, and its data flow, look like as pictures?"""

from __future__ import annotations

from itertools import pairwise

from nki_lab.profiler.data_flow import DataFlow, data_flow
from nki_lab.profiler.line_costs import LineCost, line_costs
from nki_lab.profiler.report import badge
from nki_lab.profiler.view_data import ViewData
from nki_lab.profiler.view_text import summary
from nki_lab.widgets.graph_model import NODE_HEIGHT, NODE_WIDTH, GraphLayout, arrange
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS, FAINT, INK, RULE

_MARGIN = 12
_LINE = TEXT_HEIGHT + 8
_LINES_SHOWN = 60
_BAR = 200
_COST_LETTERS = 11
_ROOM = (WIDTH - 2 * _MARGIN) // LETTER
# Points of a curve between two ends of an edge, as shares of the way; pixels of an arrow.
_SHARES = [k / 12 for k in range(1, 13)]
_ARROW = 9


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
    _heading(picture, data)
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


def graph_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the data flow of a kernel: boxes in layers, and lines from each to who reads its values."""
    flow = data_flow(data)
    found = arrange(flow)
    top = 2 * _MARGIN + 2 * _LINE
    scale = min(1.6, (WIDTH - 2 * _MARGIN) / max(found.width, 1))
    height = top + _MARGIN + round(max(found.height * scale, _LINE))
    picture = paper(WIDTH, height, theme)
    _heading(picture, data)
    if flow.problem:
        picture.text(_MARGIN, top, cut(f"no graph: {flow.problem}", _ROOM), FAINT)
        return picture.done()
    left = max(_MARGIN, (WIDTH - found.width * scale) / 2)
    _edges(picture, found, left, top, scale)
    _nodes(picture, flow, found, left, top, scale)
    return picture.done()


def _heading(picture: Paper, data: ViewData) -> None:
    picture.text(_MARGIN, _MARGIN, cut(summary(data), _ROOM))
    picture.text(_MARGIN, _MARGIN + _LINE, cut(badge(data.profile), _ROOM), FAINT)


def _edges(picture: Paper, found: GraphLayout, left: float, top: int, scale: float) -> None:
    """Draw every edge as a curve that leaves and arrives along the layers, with an arrow at its end."""
    for route in found.routes.values():
        points = [(left + x * scale, top + y * scale) for x, y in route]
        drawn = [points[0]]
        for (x0, y0), (x1, y1) in pairwise(points):
            for share in _SHARES:
                # A cubic Bezier curve whose handles end half-way, as the live view draws it.
                straight, bent = share, share * share * (3 - 2 * share)
                across, down = (bent, straight) if found.down else (straight, bent)
                drawn.append((x0 + across * (x1 - x0), y0 + down * (y1 - y0)))
        picture.line(drawn, FAINT)
        (x0, y0), (x1, y1) = points[-2:]
        for k in range(_ARROW):  # rows of the arrow, from its point
            if found.down:
                back = 1 if y1 > y0 else -1
                picture.fill(x1 - k / 2, y1 - back * k, k + 1, 1, FAINT)
            else:
                back = 1 if x1 > x0 else -1
                picture.fill(x1 - back * k, y1 - k / 2, 1, k + 1, FAINT)


def _nodes(
    picture: Paper, flow: DataFlow, found: GraphLayout, left_edge: float, top: int, scale: float
) -> None:
    width, height = NODE_WIDTH * scale, NODE_HEIGHT * scale
    letters = int((width - 14) // LETTER)
    for node, (x, y) in zip(flow.nodes, found.places, strict=True):
        left, upper = left_edge + x * scale, top + y * scale
        picture.fill(left, upper, width, height, RULE)
        colour = ENGINE_COLOURS.get(node.engine, FAINT)
        picture.fill(left, upper, 6, height, colour)
        if height < TEXT_HEIGHT:
            continue
        times = f" x {len(node.operations)}" if len(node.operations) > 1 else ""
        two = height >= 2 * TEXT_HEIGHT + 4
        at = upper + (4 if two else (height - TEXT_HEIGHT) / 2)
        picture.text(left + 12, at, cut(node.name + times, letters), INK)
        if two:
            line = f" line {node.place.line}" if node.place and node.place.line else ""
            note = f"{ENGINE_LABELS[node.engine]}{line}" if node.engine else node.note
            picture.text(left + 12, upper + 6 + TEXT_HEIGHT, cut(note, letters), FAINT)
