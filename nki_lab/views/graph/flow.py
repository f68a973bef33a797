"""Finds which instruction hands which values to which other.

A node is an instruction, or a tensor in HBM that comes in or goes out. An edge stands for elements that the node at
its head reads and the node at its tail wrote last; between nodes it is exact, element by element. A program of more
than a few instructions is drawn by source lines at first: one node for all instructions of a line on an engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nki_lab.profiler.text_table import text_table
from nki_lab.views.run import Place, ShownAccess, ViewData

#: Nodes of a graph that is drawn, and instructions that are drawn one by one unless the reader groups them by line.
NODES_SHOWN = 60
FEW_OPERATIONS = 24
#: Programs up to this size are looked through for the values that lines hand to each other.
OPERATIONS_READ = 4_000
_NAMES_SHOWN = 2
# Tensors up to this size are followed element by element.
_FOLLOWED_ELEMENTS = 1 << 22


@dataclass
class Node:
    """An instruction, all instructions of a line, or a tensor in HBM.

    Attributes:
        name: what is written into it.
        note: what is written below: the engine's name, the shape of a tensor.
        engine: engine of its instructions; "" for a tensor.
        place: line of the author's text.
        operations: positions of its instructions.
        tensor: number of its tensor; -1 for instructions.
    """

    name: str
    note: str
    engine: str = ""
    place: Place | None = None
    operations: list[int] = field(default_factory=list)
    tensor: int = -1


@dataclass(frozen=True)
class DataFlow:
    """The graph of a program.

    Attributes:
        nodes: in program order, inputs first.
        edges: (from, to) -> names of the tensors whose elements are handed over.
        by_line: nodes are lines, not instructions.
        problem: why there is no graph; "" where there is one.
    """

    nodes: list[Node]
    edges: dict[tuple[int, int], tuple[str, ...]]
    by_line: bool = False
    problem: str = ""


def data_flow(data: ViewData, by_line: bool | None = None) -> DataFlow:
    """Return the graph of a program, by source lines or by instructions; None is instructions where they are few."""
    count = len(data.operations)
    if not count or not data.accesses(0):
        return DataFlow([], {}, problem="the operands of this run's instructions are not known")
    if count > OPERATIONS_READ:
        return DataFlow(
            [],
            {},
            problem=f"the program has {count:,} instructions; graphs are drawn of programs up to"
            f" {OPERATIONS_READ:,}, of which {NODES_SHOWN} nodes can be read",
        )
    by_line = count > FEW_OPERATIONS if by_line is None else by_line
    what = "lines and tensors" if by_line else "instructions"
    nodes = count
    if by_line or count <= NODES_SHOWN:
        flow = _Writers(data, by_line).read()
        nodes = len(flow.nodes)
        if nodes <= NODES_SHOWN:
            return flow
    text = f"there are {nodes:,} {what}; a graph can be read up to {NODES_SHOWN} nodes"
    return DataFlow([], {}, by_line, problem=text)


class _Writers:
    """Walks a program and remembers which node wrote each element last."""

    def __init__(self, data: ViewData, by_line: bool) -> None:
        self.data = data
        self.by_line = by_line
        self.nodes: list[Node] = []
        self.edges: dict[tuple[int, int], dict[str, None]] = {}
        self._tensors = dict(enumerate(data.tensors))
        self._writers: dict[int, np.ndarray] = {}
        self._of_line: dict[tuple[str, str], int] = {}

    def read(self) -> DataFlow:
        """Return the graph."""
        for position in range(len(self.data.operations)):
            accesses = self.data.accesses(position)
            node = self._node(position)
            for access in accesses:
                if access.way != "writes":
                    self._reads(node, access)
            for access in accesses:
                if access.way != "reads":
                    self._written_by(access, node)
        self._results()
        edges = {pair: tuple(names) for pair, names in self.edges.items()}
        return DataFlow(self.nodes, edges, self.by_line)

    def _node(self, position: int) -> int:
        operation = self.data.operations[position]
        if self.by_line:
            place = operation.place
            key = (place.heading if place else "", operation.engine)
            if key in self._of_line:
                node = self.nodes[self._of_line[key]]
                node.operations.append(position)
                if operation.name not in node.name.split(", "):
                    node.name += f", {operation.name}"
                return self._of_line[key]
            self._of_line[key] = len(self.nodes)
        self.nodes.append(
            Node(operation.name, operation.engine, operation.engine, operation.place, [position])
        )
        return len(self.nodes) - 1

    def _reads(self, node: int, access: ShownAccess) -> None:
        parts = _different(self._part(access))
        if any(w < 0 for w in parts) and self._is_given(access.tensor):
            parts.append(self._given(access.tensor))
        for writer in parts:
            if writer >= 0 and (writer != node or not self.by_line):
                names = self.edges.setdefault((writer, node), {})
                names[self._tensors[access.tensor].name] = None

    def _written_by(self, access: ShownAccess, node: int) -> None:
        self._part(access)[...] = node

    def _of(self, tensor: int) -> np.ndarray:
        if tensor not in self._writers:
            facts = self._tensors[tensor]
            elements = facts.nbytes // facts.itemsize
            size = elements if elements <= _FOLLOWED_ELEMENTS else 1
            self._writers[tensor] = np.full(size, -1, dtype=np.int32)
        return self._writers[tensor]

    def _part(self, access: ShownAccess) -> np.ndarray:
        """Return who wrote the elements of an operand last, as a window into its tensor."""
        writers = self._of(access.tensor)
        facts = self._tensors[access.tensor]
        if access.gather is not None or access.itemsize != facts.itemsize or len(writers) == 1:
            return (
                writers  # a tensor that is too large or addressed by the device is followed as one
            )
        size = writers.itemsize
        strides = [stride * size for stride in access.strides]
        return np.ndarray(access.shape, writers.dtype, writers, access.offset * size, strides)

    def _is_given(self, tensor: int) -> bool:
        return self._tensors[tensor].origin in ("input", "constant")

    def _given(self, tensor: int) -> int:
        for number, node in enumerate(self.nodes):
            if node.tensor == tensor and node.note.startswith("argument"):
                return number
        facts = self._tensors[tensor]
        kind = "argument" if facts.origin == "input" else "argument, constant"
        shape = " x ".join(map(str, facts.shape))
        self.nodes.append(Node(facts.name, f"{kind} {shape}", tensor=tensor, place=facts.place))
        return len(self.nodes) - 1

    def _results(self) -> None:
        for number, facts in self._tensors.items():
            written = self._writers.get(number)
            result = facts.origin == "output" or (facts.origin == "input" and not facts.on_chip)
            if not result or written is None or not (written >= 0).any():
                continue
            shape = " x ".join(map(str, facts.shape))
            self.nodes.append(Node(facts.name, f"result {shape}", tensor=number, place=facts.place))
            for writer in _different(written[written >= 0]):
                self.edges[writer, len(self.nodes) - 1] = {facts.name: None}


def _different(numbers: np.ndarray) -> list[int]:
    """Return the different numbers in an array; most often there is one, which is found without sorting."""
    low, high = int(numbers.min()), int(numbers.max())
    return [low] if low == high else np.unique(numbers).tolist()


def data_flow_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the graph as a table: per node where its values come from."""
    flow = data_flow(data)
    if flow.problem:
        return [flow.problem]
    rows = []
    for number, node in enumerate(flow.nodes):
        sources = [
            f"{_label(flow.nodes[a])} ({_some(names)})"
            for (a, b), names in flow.edges.items()
            if b == number
        ]
        count = f" x {len(node.operations)}" if flow.by_line and node.operations else ""
        place = node.place.label if node.place else ""
        what = "" if node.tensor >= 0 else node.name + count
        rows.append((_label(node), what, node.note, place, ", ".join(sources[:3])))
    heads = ("node", "what", "on", "line", "gets its values from")
    return text_table(heads, rows, limit)


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join([*names[:_NAMES_SHOWN], *([f"{more} more"] if more > 0 else [])])


def _label(node: Node) -> str:
    return f"%{node.name}" if node.tensor >= 0 else f"#{node.operations[0]}"
