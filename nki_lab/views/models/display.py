"""A traced model as a notebook shows it: its operators, their graph, its kernels with their views, and their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from nki_lab.errors import UnknownOption, close_matches
from nki_lab.profiler.analyses.report import badge
from nki_lab.profiler.text_table import VIEW_LINES
from nki_lab.source import text_of
from nki_lab.views.display import Shown
from nki_lab.views.entries import place_entry, remark_entry
from nki_lab.views.graph.model import arrange
from nki_lab.views.graph.picture import draw_edges, draw_nodes
from nki_lab.views.head import MARGIN, view_head
from nki_lab.views.models.graph import GRAPHS, first_part, model_graph
from nki_lab.views.models.trace import (
    BASIS,
    ModelTrace,
    OperatorRow,
    custom_call_lines,
    distinct_calls,
    graph_lines,
    heading,
    operator_lines,
)
from nki_lab.views.registry import STORED_BYTES, Parts, scripts, view_names
from nki_lab.widgets.modules import Script
from nki_lab.widgets.packing import UnknownPart, pack
from nki_lab.widgets.picture import (
    LETTER,
    PAPERS,
    TEXT_HEIGHT,
    THEMES,
    WIDTH,
    Picture,
    VectorPicture,
    cut,
    named,
    wrapped,
)
from nki_lab.widgets.theme import FAINT, INK, SERIES, Colour

PaperKind = type[Picture] | type[VectorPicture]
_LINE = TEXT_HEIGHT + 4
_LINES_SHOWN = 60
# Units of a picture that is still looked at; a larger graph is cut.
_TALL = 2_400
#: The colour of kernels.
KERNEL = SERIES[0]


def distinct_runs(trace: ModelTrace) -> list[OperatorRow]:
    """Return the first row of each program of a kernel: the runs whose views are shown."""
    first: dict[int, OperatorRow] = {}
    for row in trace.kernels:
        first.setdefault(id(row.run.compiled), row)
    return list(first.values())


def _operators(trace: ModelTrace) -> bytes:
    shown = {id(row.run.compiled): k for k, row in enumerate(distinct_runs(trace))}
    rows = [
        {
            "number": row.number, "name": row.name, "path": row.path, "ns": row.total_ns, "bytes": row.bytes,
            "flops": row.flops, "binds": row.binds, "kernel": row.is_kernel, "part": row.part, "calls": row.calls,
            "inputs": row.inputs, "outputs": row.outputs, "sources": row.sources,
            "run": shown[id(row.run.compiled)] if row.is_kernel else -1, **place_entry(row.place),
        }
        for row in trace.rows
    ]  # fmt: skip
    return pack(
        {
            "heading": heading(trace),
            "basis": BASIS,
            "rows": rows,
            "total": trace.total_ns,
            "inputs": dict(trace.inputs),
            "findings": [remark_entry(finding) for finding in trace.findings],
            "modules": list(trace.by_module().items())[:40],
        }
    )


def _kernels(trace: ModelTrace) -> bytes:
    shown = distinct_runs(trace)
    runs = []
    for k, row in enumerate(shown):
        same = [r for r in trace.kernels if r.run.compiled is row.run.compiled]
        data = row.run.view_data
        runs.append(
            {
                "prefix": f"run/{k}/",
                "head": view_head(data) | {"title": row.name},
                "name": row.name,
                "part": row.part,
                "rows": [r.number for r in same],
                "ns": row.total_ns / row.calls,
                "binds": row.binds,
                "tabs": view_names(),
            }
        )
    return pack({"runs": runs})


def _calls(trace: ModelTrace) -> bytes:
    calls = [
        {"name": rows[0].name, "rows": [row.number for row in rows], "text": text}
        for text, rows in distinct_calls(trace.rows).items()
    ]
    return pack({"calls": calls})


def text_picture(lines: Sequence[str], paper: PaperKind, theme: str) -> bytes:
    """Return lines of text as a picture; those of kernels stand out, and long ones are written smaller."""
    longest = max(map(len, lines), default=0)
    scale = min(1.0, max(0.6, (WIDTH - 2 * MARGIN) / (LETTER * (longest + 5))))
    room = int((WIDTH - 2 * MARGIN) / (LETTER * scale))
    shown = [part for line in lines for part in wrapped(line, room)]
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


@dataclass(frozen=True)
class TraceView:
    """A view of a traced model.

    Attributes:
        name: as `trace.show` takes it.
        title: on its tab.
        text: returns its lines; the second argument limits them.
        words: what its picture shows.
        parts: its blocks of data by their names; the first is shown at once.
        picture: draws it; None for its text.
    """

    name: str
    title: str
    text: Callable[[ModelTrace, int | None], Sequence[str]]
    words: str
    parts: Mapping[str, Callable[[ModelTrace], bytes]]
    picture: Callable[..., bytes] | None = None

    @property
    def script(self) -> Script:
        """Its module, which exports `mount`."""
        return Script(self.name, self.title, Path(__file__).with_name(f"{self.name}.js"))


#: The views of a traced model, in the order of their tabs.
TRACE_VIEWS = {
    view.name: view
    for view in (
        TraceView("operators", "Operators", operator_lines, "Operators with their times", {"operators": _operators}),
        TraceView("graph", "Graph", graph_lines, "Graph of the operators", GRAPHS, graph_picture),
        TraceView("kernels", "Kernels", operator_lines, "Kernels with their times", {"kernels": _kernels}),
        TraceView("calls", "Custom calls", custom_call_lines, "Custom calls of the kernels", {"calls": _calls}),
    )
}  # fmt: skip


@cache
def trace_scripts() -> tuple[Script, ...]:
    """Return the scripts of all views of a model, and of those of its kernels' runs, whose names say so."""
    own = tuple(view.script for view in TRACE_VIEWS.values())
    return (*own, *(script._replace(view=f"run:{script.view}") for script in scripts()))


class TraceParts:
    """The blocks of data of a traced model, with those of its kernels' runs below "run/NUMBER/"."""

    def __init__(self, trace: ModelTrace) -> None:
        self._trace = trace
        self._made = {name: make for v in TRACE_VIEWS.values() for name, make in v.parts.items()}

    @cached_property
    def _runs(self) -> list[Parts]:
        return [Parts(row.run.view_data) for row in distinct_runs(self._trace)]

    def make(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a part; raises UnknownPart."""
        if name in self._made:
            yield self._made[name](self._trace)
            return
        start, _, rest = name.removeprefix("run/").partition("/")
        if not name.startswith("run/") or not start.isdigit() or int(start) >= len(self._runs):
            raise UnknownPart(f"there is no data called {name!r}")
        yield from self._runs[int(start)].make(rest)

    def stored(self, tabs: Sequence[str]) -> dict[str, bytes]:
        """Return the blocks that a widget keeps in its own state: those of the first view."""
        name = next(iter(TRACE_VIEWS[tabs[0]].parts))
        block = self._made[name](self._trace)
        return {name: block} if len(block) <= STORED_BYTES else {}

    def recorded(
        self, tabs: Sequence[str], limit: int
    ) -> tuple[dict[str, list[bytes]], dict[str, list[str]]]:
        """Return the blocks that a page without a kernel holds, and what has no room."""
        recorded = {
            name: [make(self._trace)]
            for tab in tabs
            for name, make in TRACE_VIEWS[tab].parts.items()
        }
        cut: dict[str, list[str]] = {tab: [] for tab in tabs}
        if "kernels" not in tabs:
            return recorded, cut
        space = limit - sum(len(b) for blocks in recorded.values() for b in blocks)
        for k, parts in enumerate(self._runs):
            blocks, missing = parts.recorded(view_names(), space)
            recorded |= {f"run/{k}/{name}": each for name, each in blocks.items()}
            space -= sum(len(b) for each in blocks.values() for b in each)
            cut["kernels"] += [f"run/{k}/{name}" for names in missing.values() for name in names]
        return recorded, cut


class TraceDisplay(Shown):
    """A traced model, ready to be shown.

    Args:
        trace: the trace.
        tabs: names of its views; by default all that it has something for.
    """

    def __init__(self, trace: ModelTrace, tabs: Sequence[str] = ()) -> None:
        for name in tabs:
            if name not in TRACE_VIEWS:
                raise UnknownOption(
                    f"unknown view `{name}` of a model",
                    help=close_matches(name, TRACE_VIEWS) or f"views: {', '.join(TRACE_VIEWS)}",
                )
        has = TRACE_VIEWS if trace.kernels else ("operators", "graph")
        super().__init__(TraceParts(trace), tabs or tuple(has))
        self.trace = trace

    @property
    def name(self) -> str:
        """Name of the model."""
        return f"trace of {self.trace.name}"

    def _head(self) -> dict[str, Any]:
        return {
            "title": self.trace.name,
            "target": self.trace.target,
            "badge": self._summary()[1],
            "modelled": True,
            "lines": [],
        }

    def _scripts(self) -> tuple[Script, ...]:
        return trace_scripts()

    def _tab_text(self, tab: str, limit: int) -> str:
        return text_of(TRACE_VIEWS[tab].text(self.trace, limit))

    def _summary(self) -> tuple[str, str]:
        kernels = self.trace.kernels
        model = f"kernels: {badge(kernels[0].run.profile)}; " if kernels else ""
        return heading(self.trace), f"{model}other operators: estimated"

    @property
    def _words(self) -> str:
        return f"{TRACE_VIEWS[self.tabs[0]].words} of {heading(self.trace)}"

    def to_image(self, format: str = "png", view: str | None = None, theme: str = "light") -> bytes:
        """Return a view as a picture, to be written to a file.

        Args:
            format: "png" or "svg".
            view: name of the view; by default the first tab.
            theme: "light" or "dark".
        """
        shown = TRACE_VIEWS.get(view or self.tabs[0])
        if shown is None or format not in PAPERS or theme not in THEMES:
            raise UnknownOption(
                f"there is no picture of view `{view}`, format `{format}` and theme `{theme}`",
                help=f"views: {', '.join(TRACE_VIEWS)}; formats: {', '.join(PAPERS)}; themes: {', '.join(THEMES)}",
            )
        paper = PAPERS[format]
        if shown.picture is not None:
            picture = shown.picture(self.trace, paper, theme)
        else:
            picture = text_picture(shown.text(self.trace, _LINES_SHOWN), paper, theme)
        return (
            named(picture, f"{shown.words} of {heading(self.trace)}")
            if format == "svg"
            else picture
        )

    def __repr__(self) -> str:
        return text_of(TRACE_VIEWS[self.tabs[0]].text(self.trace, VIEW_LINES))
