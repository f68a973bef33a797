"""Tests that every node stands behind what it gets values from, with no two on one place."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.views.graph.flow import DataFlow, Node
from nki_lab.views.graph.model import (
    LAYER_GAP,
    NODE_HEIGHT,
    NODE_WIDTH,
    arrange,
    graph_parts,
    layers_of,
)
from nki_lab.widgets.packing import unpack
from tests.views.runs import added, by_hand


def flow_of(count: int, edges) -> DataFlow:
    nodes = [Node(f"n{k}", "", operations=[k]) for k in range(count)]
    return DataFlow(nodes, dict.fromkeys(edges, ("t",)))


@st.composite
def graphs(draw) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 14))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    return count, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []


@given(graphs())
def test_nodes_stand_behind_their_sources_and_apart(drawn) -> None:
    count, edges = drawn
    found = arrange(flow_of(count, edges))
    axis = 1 if found.down else 0
    for a, b in edges:
        assert found.places[a][axis] < found.places[b][axis]
        route = found.routes[a, b]
        x, y = found.places[a]
        middle, end = (x + NODE_WIDTH / 2, y + NODE_HEIGHT), (x + NODE_WIDTH, y + NODE_HEIGHT / 2)
        start = middle if found.down else end
        assert route[0] == pytest.approx(start)
        assert [p[axis] for p in route] == sorted(p[axis] for p in route)
    for (x0, y0), (x1, y1) in combinations(found.places, 2):
        assert abs(x0 - x1) >= NODE_WIDTH or abs(y0 - y1) >= NODE_HEIGHT
    for x, y in found.places:
        assert 0 <= x <= found.width - NODE_WIDTH + 1e-9
        assert 0 <= y <= found.height - NODE_HEIGHT + 1e-9


def test_a_layer_is_one_more_than_the_highest_before_it() -> None:
    assert layers_of(5, [(0, 1), (1, 2), (0, 2), (2, 3), (0, 4)]) == [0, 1, 2, 3, 1]


def test_a_circle_has_layers_all_the_same() -> None:
    found = arrange(flow_of(3, [(0, 1), (1, 2), (2, 1)]))
    assert len(set(found.places)) == 3
    assert set(found.routes) == {(0, 1), (1, 2), (2, 1)}


def test_edges_do_not_cross_where_they_need_not() -> None:
    found = arrange(flow_of(6, [(0, 5), (1, 4), (2, 3)]))
    assert not found.down
    tops = {node: found.places[node][1] for node in range(6)}
    sources = {5: 0, 4: 1, 3: 2}
    readers = sorted(sources, key=tops.get)
    assert sorted(sources.values(), key=tops.get) == [sources[reader] for reader in readers]
    assert found.places[5][0] == NODE_WIDTH + LAYER_GAP


def test_a_long_chain_runs_down() -> None:
    found = arrange(flow_of(9, [(k, k + 1) for k in range(8)]))
    assert found.down and found.width == NODE_WIDTH


def test_a_real_run_is_drawn_with_its_lines() -> None:
    meta, _ = unpack(graph_parts(added().view_data))
    assert meta["problem"] == "" and len(meta["nodes"]) > 6
    assert all(node["place"] for node in meta["nodes"] if node["operations"])
    names = {meta["nodes"][e["from"]]["name"] for e in meta["edges"]}
    assert {"x", "y", "dma_copy", "tensor_tensor"} <= names
    assert unpack(graph_parts(by_hand()))[0]["problem"]
