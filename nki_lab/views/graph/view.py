"""The flow of data: which instruction hands values to which."""

from __future__ import annotations

from nki_lab.views.graph.flow import data_flow_text
from nki_lab.views.graph.model import graph_parts
from nki_lab.views.graph.picture import graph_picture
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData


def _by_line(data: ViewData) -> bytes:
    return graph_parts(data, True)


def _by_instruction(data: ViewData) -> bytes:
    return graph_parts(data, False)


VIEW = View(
    name="graph",
    title="Graph",
    needs=Needs.PROGRAM,
    text=data_flow_text,
    words="Flow of data between the lines",
    # The size of the program decides whether "graph" is by lines or by instructions.
    parts={"graph": graph_parts, "graph/lines": _by_line, "graph/instructions": _by_instruction},
    # Nothing at first: following every element takes longer than a cell should.
    saved=("graph", "graph/lines", "graph/instructions"),
    picture=graph_picture,
)
