"""Orders instructions as the author asked: `Instruction.depends_on` and `kernel.with_schedule`.

An edge makes one instruction wait for another. Where the program has them the other way round, instructions move, each
as little as the edges and what they read and write allow. Edges that ask for a circle are refused.

Both pages agree that an edge must not cross a device loop; of an edge from an instruction before the loop to one inside
it, the page of `depends_on` says both that the producer may sit in an enclosing scope and that no edge goes into a
loop. Such an edge is accepted. (nki/api/nki/isa/__init__.py, NkiInstruction; nki/guides/how-to-scheduling-apis.rst)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from nki_lab.choices import Choices
from nki_lab.compiler.passes.dependences import dependences
from nki_lab.compiler.passes.explicit_addresses import (
    explicit_addresses,
    groups,
    overlapping,
    share_bytes,
)
from nki_lab.errors import InstructionError, KernelArgument, NkiError, close_matches
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.execution import size_of
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.register import Register
from nki_lab.source import Span, Stack

Edges = tuple[tuple[str, tuple[str, ...]], ...]
_FORM = 'write [("second", "first"), ("third", ["first", "second"])], with the names given as name='
_TURN = "a pair is (what waits, what it waits for): turn it around, or leave it out"
_AROUND = "turn the call around, producer and consumer, or leave it out"


class _Asked(NamedTuple):
    """An edge the author asked for.

    Attributes:
        later, earlier: the positions of the instruction that waits and of the one it waits for.
        text: what the author wrote, for messages.
        error: the class of errors about it.
        stack: where the author asked.
        help: what to write instead of an edge that cannot be.
    """

    later: int
    earlier: int
    text: str
    error: type[NkiError]
    stack: Stack
    help: str


def edges_of(schedule: Any) -> Edges:
    """Return a schedule as (name, names it waits for); an error shows the entry that is not a pair of names."""
    if not isinstance(schedule, (list, tuple)):
        raise KernelArgument(
            f"with_schedule takes a list of pairs, found {type(schedule).__name__}", help=_FORM
        )
    edges = []
    for entry in schedule:
        pair = tuple(entry) if isinstance(entry, (list, tuple)) and len(entry) == 2 else ("", None)
        later, earlier = pair
        before: Any = (earlier,) if isinstance(earlier, str) else earlier
        listed = isinstance(before, (list, tuple)) and all(isinstance(n, str) for n in before)
        if not (isinstance(later, str) and listed):
            raise KernelArgument(
                f"with_schedule: {entry!r} is not a pair of an instruction's name and the names it waits for",
                help=_FORM,
            )
        edges.append((later, tuple(before)))
    return tuple(edges)


def order_dependent(kernel: Kernel, places: Mapping[tuple[int, int], Stack]) -> Kernel:
    """Return a traced kernel in an order that respects each `depends_on`.

    Args:
        kernel: the program as it was traced.
        places: where `depends_on` was called, by the idents of the instruction that waits and of its producer.

    Raises InstructionError for an edge that crosses a device loop, belongs to another trace or closes a circle.
    """
    if not places:
        return kernel
    instructions = kernel.instructions
    position = {i.ident: n for n, i in enumerate(instructions)}
    asked = []
    for n, i in enumerate(instructions):
        for producer in i.after:
            stack = places.get((i.ident, producer.ident))
            if stack is None:  # the block of a no_reorder
                continue
            at = position.get(producer.ident, -1)
            if at < 0 or instructions[at] is not producer:
                raise InstructionError(
                    f"depends_on: {producer.definition.name} is not an instruction of this run of {kernel.name}",
                    stack=stack,
                    help="pass what a call of nki.isa returned in this kernel, and keep it nowhere else",
                )
            asked.append(_Asked(n, at, "depends_on", InstructionError, stack, _AROUND))
    return _ordered(kernel, asked)


def apply_schedule(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with the edges of `options.schedule`, in an order that respects them.

    Names that the kernel does not have are left out: another core may have them (`check_names`).
    """
    instructions = kernel.instructions
    named = _by_name(kernel)
    asked = []
    for later, before in options.schedule:
        for n in named.get(later, ()):
            for first in dict.fromkeys(k for name in before for k in named.get(name, ())):
                name = instructions[first].name
                if n == first:
                    raise KernelArgument(
                        f"with_schedule: `{later}` of {kernel.name} waits for itself",
                        help="leave its own name out of what it waits for",
                    )
                text = f'with_schedule, ("{later}", "{name}")'
                asked.append(_Asked(n, first, text, KernelArgument, instructions[n].stack, _TURN))
    kernel = _ordered(kernel, asked)
    producers: dict[int, list[Instruction]] = {}
    for edge in asked:
        producers.setdefault(instructions[edge.later].ident, []).append(instructions[edge.earlier])

    def waiting(i: Instruction) -> Instruction:
        return i.following((*i.after, *producers[i.ident])) if i.ident in producers else i

    return kernel.rewrite(waiting)


def check_names(schedule: Edges, kernels: Sequence[Kernel]) -> None:
    """Raise KernelArgument where no core's kernel has an instruction of a name in the schedule."""
    names = {name for kernel in kernels for name in _by_name(kernel)}
    for name in (name for later, before in schedule for name in (later, *before)):
        if name not in names:
            raise KernelArgument(
                f"with_schedule: {kernels[0].name} has no instruction named `{name}`",
                help=close_matches(name, names)
                or 'name the instruction: nisa.activation(..., name="a")',
            )


def _by_name(kernel: Kernel) -> dict[str, list[int]]:
    """Return the positions of the instructions that have a name."""
    named: dict[str, list[int]] = {}
    for n, i in enumerate(kernel.instructions):
        at = i.definition.position.get("name")
        if at is not None and i.args[at]:
            named.setdefault(i.args[at], []).append(n)
    return named


# -- the order ---------------------------------------------------------------------------------------------------------


def _ordered(kernel: Kernel, asked: Sequence[_Asked]) -> Kernel:
    """Return the kernel in the order nearest to its own that respects every edge and every dependence."""
    for edge in asked:
        _check_loops(kernel, edge)
    if not any(edge.earlier > edge.later for edge in asked):
        return kernel
    return kernel.with_(body=_Order(kernel, asked).body(kernel.body, 0))


def _check_loops(kernel: Kernel, edge: _Asked) -> None:
    """Refuse an edge that leaves a device loop."""
    loop = next(
        (
            r.loop
            for r in kernel.loops
            if r.first <= edge.earlier < r.end and not r.first <= edge.later < r.end
        ),
        None,
    )
    if loop is None:
        return
    first, then = (kernel.instructions[n] for n in (edge.earlier, edge.later))
    raise edge.error(
        f"{edge.text}: {_call(then)} cannot wait for {_call(first)}, which runs in each pass of the device loop"
        f"{_at(loop.stack)}: an edge cannot leave a device loop",
        stack=edge.stack,
        help="put both into the same loop, or the first one before the loop; an instruction after a loop follows all of"
        " its passes if it reads what they write",
    )


class _Order:
    """Finds an order for each body of a program: instructions move among the nodes beside them, never into a loop.

    A node of a body is an instruction or a device loop; an edge between instructions in two nodes is one between the
    nodes. Device loops and meetings keep their order, since both cores must come to them alike; where two cores meet,
    nothing moves past the meeting, which orders what they read and write in HBM.
    """

    def __init__(self, kernel: Kernel, asked: Sequence[_Asked]) -> None:
        self.kernel = kernel
        self.instructions = kernel.instructions
        self.two_cores = kernel.program[1] > 1
        fixed = explicit_addresses(kernel)
        overlaps = groups(overlapping(kernel, fixed))
        self.reasons: dict[tuple[int, int], _Asked | str] = {}  # (earlier, later) -> why
        for n, firsts in enumerate(dependences(kernel.with_(addresses=fixed, overlaps=overlaps))):
            self.reasons.update(((first, n), "") for first in firsts)
        for first, then in _taking_turns(kernel):
            self.reasons.update(
                {(a, b): "its tile has the place of an earlier one" for a in first for b in then}
            )
        self.reasons.update({(edge.earlier, edge.later): edge for edge in asked})

    def body(
        self, nodes: tuple[Instruction | Loop, ...], at: int
    ) -> tuple[Instruction | Loop, ...]:
        """Return a body whose first instruction is at position `at`, in order."""
        starts, sizes = [], []
        for node in nodes:
            starts.append(at)
            sizes.append(size_of(node.body) if isinstance(node, Loop) else 1)
            at += sizes[-1]
        node_of = {
            start + k: n
            for n, (start, size) in enumerate(zip(starts, sizes, strict=True))
            for k in range(size)
        }
        edges: dict[tuple[int, int], tuple[int, int] | str] = dict(self._fixed(nodes))
        for first, then in self.reasons:
            a, b = node_of.get(first), node_of.get(then)
            if a is not None and b is not None and a != b:
                edges.setdefault((a, b), (first, then))
        order = range(len(nodes))
        if any(a > b for a, b in edges):
            order = _sorted(len(nodes), edges)  # type: ignore[assignment]
            if len(order) < len(nodes):
                raise self._circle(nodes, edges, set(range(len(nodes))).difference(order))
        ordered = []
        for n in order:
            node = nodes[n]
            if isinstance(node, Loop):
                node = _with_body(node, self.body(node.body, starts[n]))
            ordered.append(node)
        return tuple(ordered)

    def _fixed(
        self, nodes: tuple[Instruction | Loop, ...]
    ) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield the pairs of nodes whose order never changes, with why."""
        last: int | None = None  # loop or meeting
        for n, node in enumerate(nodes):
            if isinstance(node, Loop):
                registers = _registers(node)
                for k, other in enumerate(nodes):
                    if (
                        k != n
                        and not isinstance(other, Loop)
                        and registers.intersection(
                            (*other.registers_read(), *other.registers_written())
                        )
                    ):
                        yield (min(k, n), max(k, n)), "the loop runs by a register that it uses"
            elif not node.definition.waits_for_others:
                continue
            elif self.two_cores:
                for k in range(len(nodes)):
                    if k != n:
                        yield (min(k, n), max(k, n)), "nothing moves past a meeting of the cores"
            if last is not None:
                yield (last, n), "device loops and meetings keep their order"
            last = n

    def _circle(
        self,
        nodes: Sequence[Instruction | Loop],
        edges: Mapping[tuple[int, int], tuple[int, int] | str],
        stuck: set[int],
    ) -> NkiError:
        """Return the error of nodes that wait for each other: the shortest circle through an edge of the author's."""
        before: dict[int, list[int]] = {n: [] for n in stuck}
        for a, b in edges:
            if a in stuck and b in stuck:
                before[b].append(a)
        circles = []
        for (a, b), pair in edges.items():
            edge = self.reasons[pair] if isinstance(pair, tuple) else ""
            if isinstance(edge, _Asked) and a in stuck and b in stuck:
                path = _path(before, a, b)
                if path:
                    circles.append((len(path), edge.later, edge, path))
        _, _, edge, path = min(circles, key=lambda circle: circle[:2])
        notes = []
        for later, earlier in pairwise(path):
            pair = edges[earlier, later]
            why = pair if isinstance(pair, str) else self._why(*pair)
            notes.append(f"{_node(nodes[later])} waits for {_node(nodes[earlier])}: {why}")
        first, then = (self.instructions[n] for n in (edge.earlier, edge.later))
        return edge.error(
            f"{edge.text}: {_call(then)} of {self.kernel.name} cannot wait for {_call(first)}, which itself has to"
            " wait for it",
            stack=edge.stack,
            notes=notes,
            help=edge.help,
        )

    def _why(self, first: int, then: int) -> str:
        """Return why one instruction follows another."""
        reason = self.reasons[first, then]
        if isinstance(reason, _Asked):
            return f"asked for by {reason.text}{_at(reason.stack)}"
        if reason:
            return reason
        a, b = self.instructions[first], self.instructions[then]
        if any(producer is a for producer in b.after):
            return "both are in the same nl.no_reorder"
        uses = (
            ("reads", "writes", b.read(), a.written()),
            ("overwrites", "reads", b.written(), a.read()),
            ("overwrites", "writes", b.written(), a.written()),
        )
        for does, did, ours, theirs in uses:
            storages = {view.storage.id for view in theirs}
            for view in ours:
                if view.storage.id in storages:
                    return f"it {does} `{view.storage.name}`, which {_call(a)} {did}"
        return "they use the same registers or the same place in memory"


def _sorted(count: int, edges: Mapping[tuple[int, int], tuple[int, int] | str]) -> list[int]:
    """Return nodes so that each follows what it must, the lowest number first where several may come."""
    followers: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        followers[a].append(b)
        waiting[b] += 1
    ready = [n for n in range(count) if not waiting[n]]
    heapify(ready)
    order = []
    while ready:
        n = heappop(ready)
        order.append(n)
        for follower in followers[n]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, follower)
    return order


def _path(before: Mapping[int, Sequence[int]], first: int, then: int) -> list[int]:
    """Return the shortest circle `then`, `first`, ..., `then` along what each node waits for, or an empty list."""
    came: dict[int, int] = {first: then}
    waiting = [first]
    for n in waiting:  # grows meanwhile: breadth first
        for earlier in before[n]:
            if earlier == then:
                path = [n]
                while path[-1] != first:
                    path.append(came[path[-1]])
                return [then, *reversed(path), then]
            if earlier not in came:
                came[earlier] = n
                waiting.append(earlier)
    return []


def _registers(loop: Loop) -> set[Register]:
    """Return the registers that a loop and those in its body run by."""
    inner = (_registers(node) for node in loop.body if isinstance(node, Loop))
    values = (*loop.bounds, loop.register)
    return {r for r in values if isinstance(r, Register)}.union(*inner)


def _with_body(loop: Loop, body: tuple[Instruction | Loop, ...]) -> Loop:
    return Loop(loop.kind, loop.bounds, loop.register, body, loop.stack, loop.number)


def _taking_turns(kernel: Kernel) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the users of a tile and those of a later one that the author put in the same place: they must not mix.

    Parts of the tiles that share no byte may depend on nothing, but the tiles would be in use together.
    """
    fixed = [kernel.storages[k] for k in explicit_addresses(kernel)]
    users: dict[int, set[int]] = {s.id: set() for s in fixed}
    for n, i in enumerate(kernel.instructions):
        for view in (*i.read(), *i.written()):
            if view.storage.id in users:
                users[view.storage.id].add(n)
    for a in fixed:
        for b in fixed:
            if (
                users[a.id]
                and users[b.id]
                and kernel.lifetimes[a.id].last < kernel.lifetimes[b.id].first
                and share_bytes(a, b)
            ):
                yield users[a.id], users[b.id]


def _node(node: Instruction | Loop) -> str:
    return f"the device loop{_at(node.stack)}" if isinstance(node, Loop) else _call(node)


def _call(i: Instruction) -> str:
    """Return an instruction's name as given by the author, or what it is and where."""
    at = i.definition.position.get("name")
    name = i.args[at] if at is not None else None
    return f"`{name}`" if name else f"{i.definition.name}{_at(i.stack)}"


def _at(stack: Stack) -> str:
    return f" at {Span.of(stack[0])}" if stack else ""
