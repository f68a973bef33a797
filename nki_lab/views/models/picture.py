"""Pictures of a traced model: its table, and its graph."""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.views.graph.model import arrange
from nki_lab.views.graph.picture import draw_edges, draw_nodes
from nki_lab.views.head import MARGIN
from nki_lab.views.models.graph import first_part, model_graph
from nki_lab.views.models.trace import ModelTrace, heading
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Picture, VectorPicture, cut, wrapped
from nki_lab.widgets.theme import FAINT, INK, SERIES, Colour

PaperKind = type[Picture] | type[VectorPicture]
_LINE = TEXT_HEIGHT + 4
_LINES_SHOWN = 60
# Units of a picture that is still looked at; a larger graph is cut.
_TALL = 2_400
#: The colour of kernels.
KERNEL = SERIES[0]


def text_picture(lines: Sequence[str], paper: PaperKind, theme: str) -> bytes:
    """Return lines of text as a picture; those of kernels stand out, and long ones are written smaller."""
    longest = max(map(len, lines[:_LINES_SHOWN]), default=0)
    scale = min(1.0, max(0.6, (WIDTH - 2 * MARGIN) / (LETTER * (longest + 2))))
    room = int((WIDTH - 2 * MARGIN) / (LETTER * scale))
    shown = [part for line in lines[:_LINES_SHOWN] for part in wrapped(line, room)]
    if len(lines) > _LINES_SHOWN:
        shown.append(f"... {len(lines) - _LINES_SHOWN} more lines")
    step = _LINE * scale
    picture = paper(WIDTH, round(2 * MARGIN + step * len(shown)), theme)
    for k, line in enumerate(shown):
        colour: Colour = KERNEL if " * " in line[:12] or line.startswith("* ") else INK
        picture.text(MARGIN, MARGIN + k * step, cut(line, room), colour, scale=scale)
    return picture.done()


def graph_picture(trace: ModelTrace, paper: PaperKind, theme: str) -> bytes:
    """Return the graph of a trace: of a large one the top."""
    graph = model_graph(trace, first_part(trace))
    top = 2 * MARGIN + TEXT_HEIGHT + 8
    room = (WIDTH - 2 * MARGIN) // LETTER
    places = arrange(graph.flow)
    scale = min(1.6, (WIDTH - 2 * MARGIN) / max(places.width, 1))
    height = top + MARGIN + round(max(places.height * scale, _LINE))
    picture = paper(WIDTH, min(height, _TALL), theme)
    picture.text(MARGIN, MARGIN, cut(heading(trace), room))
    if graph.problem:
        picture.text(MARGIN, top, cut(f"no graph: {graph.problem}", room), FAINT)
        return picture.done()
    left = max(MARGIN, (WIDTH - places.width * scale) / 2)
    draw_edges(picture, places, left, top, scale)
    bands = [KERNEL if node.is_kernel else FAINT for node in graph.nodes]
    draw_nodes(picture, graph.flow, places, left, top, scale, bands)
    return picture.done()
