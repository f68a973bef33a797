"""The data flow of a kernel as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nki_lab.views.graph.flow import DataFlow, data_flow
from nki_lab.views.graph.model import NODE_HEIGHT, NODE_WIDTH, GraphLayout, arrange
from nki_lab.views.head import heading
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS, FAINT, INK, RULE, Colour

_MARGIN = 12
_LINE = TEXT_HEIGHT + 8
_ROOM = (WIDTH - 2 * _MARGIN) // LETTER
# Points of a curve between two ends of an edge, as shares of the way; pixels of an arrow.
_SHARES = [k / 12 for k in range(1, 13)]
_ARROW = 9


def graph_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the data flow of a kernel: boxes in layers, and lines from each to who reads its values."""
    flow = data_flow(data)
    graph = arrange(flow)
    top = 2 * _MARGIN + 2 * _LINE
    scale = min(1.6, (WIDTH - 2 * _MARGIN) / max(graph.width, 1))
    height = top + _MARGIN + round(max(graph.height * scale, _LINE))
    picture = paper(WIDTH, height, theme)
    heading(picture, data)
    if flow.problem:
        picture.text(_MARGIN, top, cut(f"no graph: {flow.problem}", _ROOM), FAINT)
        return picture.done()
    left = max(_MARGIN, (WIDTH - graph.width * scale) / 2)
    draw_edges(picture, graph, left, top, scale)
    draw_nodes(picture, flow, graph, left, top, scale)
    return picture.done()


def draw_edges(picture: Paper, found: GraphLayout, left: float, top: int, scale: float) -> None:
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


def draw_nodes(
    picture: Paper,
    flow: DataFlow,
    found: GraphLayout,
    left_edge: float,
    top: int,
    scale: float,
    bands: Sequence[Colour] = (),
) -> None:
    """Draw every node with its name and note; its band has the colour of its engine, or the one in `bands`."""
    width, height = NODE_WIDTH * scale, NODE_HEIGHT * scale
    letters = int((width - 14) // LETTER)
    for k, (node, (x, y)) in enumerate(zip(flow.nodes, found.places, strict=True)):
        left, upper = left_edge + x * scale, top + y * scale
        picture.fill(left, upper, width, height, RULE)
        colour = bands[k] if bands else ENGINE_COLOURS.get(node.engine, FAINT)
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
