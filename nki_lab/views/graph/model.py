"""Places the nodes of a data-flow graph so that its edges can be followed.

Layers run from left to right, or from top to bottom where that is narrower; a node stands behind everything it gets
values from. Long edges pass through places of their own in the layers between. The order within a layer is that of
the neighbours' means, swept a few times (Sugiyama, Tagawa and Toda, 1981).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from nki_lab.views.entries import place_entry
from nki_lab.views.graph.flow import DataFlow, data_flow
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack

#: Size of a node, and the distances between layers and rows, in pixels.
NODE_WIDTH, NODE_HEIGHT = 158, 34
LAYER_GAP, ROW_GAP, PASSAGE = 54, 10, 14
LAYER_GAP_DOWN = 30
#: A graph of one long chain runs down; others run to the right up to this width.
_WIDE = 1_000
_SWEEPS = 8


@dataclass(frozen=True)
class GraphLayout:
    """Places of nodes and edges.

    Attributes:
        places: per node, its left and upper edge.
        routes: per edge, the points it passes, its ends included.
        width, height: of everything.
        down: layers run from top to bottom.
    """

    places: list[tuple[float, float]]
    routes: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float
    down: bool = False


def layers_of(count: int, edges: list[tuple[int, int]]) -> list[int]:
    """Return the layer of every node: one more than the highest of those it gets values from.

    Edges that close a circle (a line whose loop feeds itself) are left out of account.
    """
    before: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
    layer = [-1] * count
    for node in range(count):
        _place(node, before, layer, set())
    return layer


def _place(node: int, before: list[list[int]], layer: list[int], open_: set[int]) -> int:
    if layer[node] < 0:
        open_.add(node)
        earlier = (_place(b, before, layer, open_) for b in before[node] if b not in open_)
        layer[node] = 1 + max(earlier, default=-1)
        open_.discard(node)
    return layer[node]


def arrange(flow: DataFlow) -> GraphLayout:
    """Return places for the nodes and routes for the edges of a graph."""
    count = len(flow.nodes)
    edges = list(flow.edges)
    layer = layers_of(count, edges)
    for node in range(count):  # a source stands beside its first reader, not at the far left
        readers = [layer[b] for a, b in edges if a == node and layer[b] > layer[node]]
        if readers and not any(b == node for _, b in edges):
            layer[node] = min(readers) - 1
    chains: dict[tuple[int, int], list[int]] = {}
    members: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for node in range(count):
        members[layer[node]].append(node)
    total = count
    neighbours: dict[int, tuple[list[int], list[int]]] = {n: ([], []) for n in range(count)}
    for a, b in edges:
        low, high = sorted((layer[a], layer[b]))
        chain = []
        for between in range(low + 1, high):  # a place in each layer that it passes
            members[between].append(total)
            neighbours[total] = ([], [])
            chain.append(total)
            total += 1
        forward = layer[a] <= layer[b]
        chains[a, b] = chain if forward else chain[::-1]
        walk = [a, *chains[a, b], b] if forward else [b, *chain, a]
        for one, other in pairwise(walk):
            neighbours[one][1].append(other)
            neighbours[other][0].append(one)
    _order(members, neighbours)
    right = _coordinates(count, members, chains, down=False)
    if right.width <= _WIDE:
        return right
    below = _coordinates(count, members, chains, down=True)
    return below if below.width < right.width else right


def _order(members: list[list[int]], neighbours: dict[int, tuple[list[int], list[int]]]) -> None:
    """Sort each layer by the mean rank of the neighbours, forwards and backwards in turn."""
    rank = {node: k for nodes in members for k, node in enumerate(nodes)}
    for sweep in range(_SWEEPS):
        side = sweep % 2
        for nodes in members if side == 0 else members[::-1]:
            mean = {}
            for node in nodes:
                near = neighbours[node][side]
                mean[node] = sum(rank[n] for n in near) / len(near) if near else rank[node]
            nodes.sort(key=lambda node: (mean[node], rank[node]))
            for k, node in enumerate(nodes):
                rank[node] = k


def _coordinates(
    count: int, members: list[list[int]], chains: dict[tuple[int, int], list[int]], down: bool
) -> GraphLayout:
    # Counted along the layers and across them; a drawing that runs down exchanges the two at the end.
    long, thick = (NODE_HEIGHT, NODE_WIDTH) if down else (NODE_WIDTH, NODE_HEIGHT)
    gap = LAYER_GAP_DOWN if down else LAYER_GAP

    def broad(node: int) -> float:
        return thick if node < count else PASSAGE

    breadths = [sum(broad(n) + ROW_GAP for n in nodes) - ROW_GAP for nodes in members]
    breadth = max(breadths, default=0)
    places: dict[int, tuple[float, float]] = {}
    for layer, nodes in enumerate(members):
        across = (breadth - breadths[layer]) / 2
        for node in nodes:
            places[node] = (layer * (long + gap), round(across, 1))
            across += broad(node) + ROW_GAP
    routes = {}
    for (a, b), chain in chains.items():
        points = [(places[a][0] + long, places[a][1] + thick / 2)]
        forward = places[a][0] < places[b][0]
        for passage in chain:
            along, across = places[passage]
            ends = (along, along + long) if forward else (along + long, along)
            points += [(end, across + PASSAGE / 2) for end in ends]
        points.append((places[b][0], places[b][1] + thick / 2))
        routes[a, b] = points
    length = max(len(members) * (long + gap) - gap, 0)
    if down:
        turned = {pair: [(y, x) for x, y in points] for pair, points in routes.items()}
        coordinates = [(places[n][1], places[n][0]) for n in range(count)]
        return GraphLayout(coordinates, turned, breadth, length, down=True)
    return GraphLayout([places[n] for n in range(count)], routes, length, breadth)


def graph_parts(data: ViewData, by_line: bool | None = None) -> bytes:
    """Return nodes and edges with their places, or why there are none, packed; see `data_flow`."""
    flow = data_flow(data, by_line)
    if flow.problem:
        return pack({"problem": flow.problem, "by_line": flow.by_line})
    graph = arrange(flow)
    meta = {
        "problem": "",
        "by_line": flow.by_line,
        "size": [graph.width, graph.height],
        "down": graph.down,
        "node": [NODE_WIDTH, NODE_HEIGHT],
        "nodes": [
            {
                "name": node.name,
                "note": node.note,
                "engine": node.engine,
                "tensor": node.tensor,
                "operations": node.operations[:20],
                "count": len(node.operations),
                "text": data.operations[node.operations[0]].text if node.operations else "",
                **place_entry(node.place),
                "at": list(place),
            }
            for node, place in zip(flow.nodes, graph.places, strict=True)
        ],
        "edges": [
            {"from": a, "to": b, "names": list(names), "route": graph.routes[a, b]}
            for (a, b), names in flow.edges.items()
        ],
    }
    return pack(meta)
