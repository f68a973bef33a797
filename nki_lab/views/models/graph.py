"""The graph of a traced model: its operators, or its modules with the kernels among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from nki_lab.views.graph.flow import NODES_SHOWN, DataFlow, Node
from nki_lab.views.graph.model import NODE_HEIGHT, NODE_WIDTH, arrange
from nki_lab.views.models.trace import BACKWARD, FORWARD, ModelTrace, OperatorRow
from nki_lab.widgets.packing import pack

#: Nodes of a graph that is still arranged.
NODES_ARRANGED = 400


@dataclass
class ModelNode:
    """An operator, an input, or all neighbouring operators of a module that are no kernels.

    Attributes:
        name: what is written into it.
        rows: numbers of its operators; none for an input.
        is_kernel: it is a kernel.
        note: what is written below.
    """

    name: str
    rows: list[int] = field(default_factory=list)
    is_kernel: bool = False
    note: str = ""


@dataclass(frozen=True)
class ModelGraph:
    """The graph of a trace.

    Attributes:
        nodes: inputs first, then operators in the order of execution.
        flow: the same as the views of kernels arrange it.
        by_module: neighbouring operators of a module are one node.
        problem: why there is no graph; "" where there is one.
    """

    nodes: list[ModelNode]
    flow: DataFlow
    by_module: bool
    problem: str = ""


def model_graph(trace: ModelTrace, part: str = "", by_module: bool | None = None) -> ModelGraph:
    """Return the graph of a trace.

    Args:
        trace: the trace.
        part: "forward" or "backward"; "" for both.
        by_module: draw neighbouring operators of a module as one; None is that where there are many.
    """
    rows = trace.of(part) if part else trace.rows
    by_module = len(rows) > NODES_SHOWN if by_module is None else by_module
    nodes: list[ModelNode] = []
    of_row: dict[int, int] = {}
    path = None
    for row in rows:
        grouped = by_module and not row.is_kernel
        if not (grouped and row.path == path):
            name = (row.path or trace.name) if grouped else row.name.removeprefix("aten::")
            nodes.append(ModelNode(name, is_kernel=row.is_kernel))
        nodes[-1].rows.append(row.number)
        of_row[row.number] = len(nodes) - 1
        path = row.path if grouped else None
    chosen = {row.number: row for row in rows}
    for node in nodes:
        node.note = _note([chosen[n] for n in node.rows], by_module)
    if len(nodes) > NODES_ARRANGED:
        text = f"there are {len(nodes):,} nodes; a graph is drawn of up to {NODES_ARRANGED}"
        return ModelGraph([], DataFlow([], {}, problem=text), by_module, text)
    return _joined(trace, rows, nodes, of_row, by_module)


def _joined(
    trace: ModelTrace,
    rows: Sequence[OperatorRow],
    nodes: list[ModelNode],
    of_row: dict[int, int],
    by_module: bool,
) -> ModelGraph:
    """Return the graph with a node for each input that is read, and its edges."""
    read = dict.fromkeys(s for row in rows for s in row.sources if s in trace.inputs)
    numbers = dict(zip(read, count(), strict=False))
    shift = len(numbers)
    edges: dict[tuple[int, int], dict[str, None]] = {}
    for row in rows:
        for source in row.sources:
            start = numbers.get(source) if isinstance(source, str) else of_row.get(source)
            if start is None:
                continue
            start += 0 if isinstance(source, str) else shift
            end = of_row[row.number] + shift
            if start != end:
                what = source if isinstance(source, str) else f"%{source}"
                edges.setdefault((start, end), {})[what] = None
    inputs = [ModelNode(str(name), note=trace.inputs[str(name)]) for name in numbers]
    every = [*inputs, *nodes]
    drawn = [Node(n.name, n.note, tensor=k if not n.rows else -1) for k, n in enumerate(every)]
    flow = DataFlow(drawn, {pair: tuple(names) for pair, names in edges.items()})
    return ModelGraph(every, flow, by_module)


def _note(rows: Sequence[OperatorRow], by_module: bool) -> str:
    """Return the time of some operators, and where they are."""
    us = sum(row.us for row in rows)
    about = "" if all(row.is_kernel for row in rows) else "~"
    many = f", {len(rows)} operators" if len(rows) > 1 else ""
    # The end of a path tells more than its beginning, and both have no room.
    where = "" if by_module and not rows[0].is_kernel else ".".join(rows[0].path.split(".")[-2:])
    return f"{about}{us:,.3f} us{many}{f', {where}' if where else ''}"


def graph_block(trace: ModelTrace, part: str = "", by_module: bool | None = None) -> bytes:
    """Return nodes and edges with their places, or why there are none, packed."""
    graph = model_graph(trace, part, by_module)
    facts = {"problem": graph.problem, "by_module": graph.by_module, "part": part}
    if graph.problem:
        return pack(facts)
    places = arrange(graph.flow)
    return pack(
        facts
        | {
            "size": [places.width, places.height],
            "down": places.down,
            "node": [NODE_WIDTH, NODE_HEIGHT],
            "nodes": [
                {
                    "name": node.name,
                    "note": node.note,
                    "engine": "",
                    "tensor": -1 if node.rows else 0,
                    "kernel": node.is_kernel,
                    "rows": node.rows,
                    "count": 1,
                    "at": list(at),
                }
                for node, at in zip(graph.nodes, places.places, strict=True)
            ],
            "edges": [
                {"from": a, "to": b, "names": list(names), "route": places.routes[a, b]}
                for (a, b), names in graph.flow.edges.items()
            ],
        }
    )


def first_part(trace: ModelTrace) -> str:
    """Return the part of a trace that is drawn at first: with a backward the forward alone, which can be read."""
    return FORWARD if trace.of(BACKWARD) else ""


def _first(trace: ModelTrace) -> bytes:
    return graph_block(trace, first_part(trace))


#: What the graph may be asked for, by the name of the part.
GRAPHS: dict[str, Callable[[ModelTrace], bytes]] = {
    "graph": _first,
    **{
        f"graph/{part or 'all'}/{kind}": partial(graph_block, part=part, by_module=by_module)
        for part in ("", FORWARD, BACKWARD)
        for kind, by_module in (("operators", False), ("modules", True))
    },
}
