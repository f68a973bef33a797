"""Tests that the edges of the data-flow graph say who wrote last what an instruction reads."""

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import run
from nki_lab.views.graph.flow import FEW_OPERATIONS, data_flow
from tests.views.runs import added, by_hand


def labels(flow) -> dict[int, str]:
    return {
        k: node.name if node.tensor >= 0 else f"#{node.operations[0]}"
        for k, node in enumerate(flow.nodes)
    }


def edges(flow) -> set[tuple[str, str, str]]:
    name = labels(flow)
    return {(name[a], name[b], what) for (a, b), names in flow.edges.items() for what in names}


def halves(x):
    """Write two halves of a tile, overwrite one, and read each half by itself."""
    tile = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.sbuf, name="tile")
    nisa.dma_copy(dst=tile[:, 0:16], src=x[:, 0:16])
    nisa.dma_copy(dst=tile[:, 16:32], src=x[:, 16:32])
    nisa.tensor_scalar(dst=tile[:, 0:16], data=tile[:, 0:16], op0=nl.multiply, operand0=2.0)
    left = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.sbuf, name="left")
    nisa.tensor_copy(dst=left, src=tile[:, 0:16])
    right = nl.ndarray((64, 16), dtype=x.dtype, buffer=nl.sbuf, name="right")
    nisa.tensor_copy(dst=right, src=tile[:, 16:32])
    both = nl.ndarray((64, 32), dtype=x.dtype, buffer=nl.sbuf, name="both")
    nisa.tensor_copy(dst=both, src=tile)
    result = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm, name="result")
    nisa.dma_copy(dst=result[:, 0:16], src=left)
    nisa.dma_copy(dst=result[:, 16:32], src=right)
    nisa.dma_copy(dst=result[:, 32:64], src=both)
    return result


def test_edges_are_exact_to_the_element() -> None:
    compiled = run(halves, np.ones((64, 32), np.float32), target="trn2")
    data = compiled.view_data
    flow = data_flow(data)
    assert not flow.by_line and not flow.problem
    position = {o.text.split(" on ")[0]: p for p, o in enumerate(data.operations)}

    def at(part: str) -> str:
        (found,) = [p for text, p in position.items() if part in text]
        return f"#{found}"

    first, second = at("src=%x[0:64, 0:16]"), at("src=%x[0:64, 16:32]")
    doubled = at("tensor_scalar")
    left, right, both = at("dst=%left"), at("dst=%right"), at("dst=%both")
    stores = [at("src=%left"), at("src=%right"), at("src=%both")]
    expected = {
        ("x", first, "x"), ("x", second, "x"), (first, doubled, "tile"), (doubled, left, "tile"),
        (second, right, "tile"), (doubled, both, "tile"), (second, both, "tile"),
        (left, stores[0], "left"), (right, stores[1], "right"), (both, stores[2], "both"),
        *((store, "result", "result") for store in stores),
    }  # fmt: skip
    assert edges(flow) == expected


def test_lines_are_nodes_where_instructions_are_many_or_lines_are_asked_for() -> None:
    data = added().view_data
    flow = data_flow(data, by_line=True)
    assert flow.by_line
    held = sorted(p for node in flow.nodes for p in node.operations)
    assert held == list(range(len(data.operations)))
    assert len(data.operations) < FEW_OPERATIONS and not data_flow(data).by_line
    names = [node.name for node in flow.nodes if node.tensor >= 0]
    assert sorted(names) == ["result", "x", "y"]
    sizes = [(node.name, len(node.operations)) for node in flow.nodes]
    loads = sizes.index(("dma_copy", 4))
    assert sorted(labels(flow)[a] for a, b in flow.edges if b == loads) == ["x", "y"]


def test_what_cannot_be_drawn_says_why() -> None:
    assert "are not known" in data_flow(by_hand()).problem
    many = by_hand(operations=[*by_hand().operations] * 701, accesses=lambda p: [None])
    assert "4,206 instructions" in data_flow(many).problem
