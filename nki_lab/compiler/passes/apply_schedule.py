"""Which instructions must wait for others because the author said so, by `kernel.with_schedule`?

An edge makes the first instruction wait for the second. Where the program has them the other way round, instructions
move, each as little as the edges and what they read and write allow. (nki/guides/how-to-scheduling-apis.rst)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.dependences import dependences
from nki_lab.compiler.passes.explicit_addresses import (
    explicit_addresses,
    groups,
    overlapping,
    share_bytes,
)
from nki_lab.errors import KernelArgument, NotModelled, close_matches
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.nodes import Kernel

Edges = tuple[tuple[str, tuple[str, ...]], ...]
_FORM = 'write [("second", "first"), ("third", ["first", "second"])], with the names given as name='


def edges_of(schedule: Any) -> Edges:
    """Return a schedule as (name, names it waits for); an error says what is no pair of names."""
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
                f"with_schedule: {entry!r} is no pair of an instruction's name and the names it waits for",
                help=_FORM,
            )
        edges.append((later, tuple(before)))
    return tuple(edges)


def apply_schedule(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with the edges of `options.schedule`, in an order that respects them.

    Names that the kernel does not have are left out: another core may have them (`check_names`).
    """
    instructions = kernel.instructions
    named = _by_name(kernel)
    wanted: dict[int, set[int]] = {}
    for later, before in options.schedule:
        firsts = {n for name in before for n in named.get(name, ())}
        for n in named.get(later, ()):
            if n in firsts:
                raise KernelArgument(f"with_schedule: `{later}` of {kernel.name} waits for itself")
            wanted.setdefault(n, set()).update(firsts)
    if any(first > n for n, firsts in wanted.items() for first in firsts):
        order = _order(kernel, wanted)
        kernel = kernel.with_(body=tuple(instructions[n] for n in order))
    producers = {
        instructions[n].ident: tuple(instructions[first] for first in sorted(firsts))
        for n, firsts in wanted.items()
    }

    def waiting(i: Instruction) -> Instruction:
        if i.ident not in producers:
            return i
        return i.following((*i.after, *producers[i.ident]))

    return kernel.rewrite(waiting)


def check_names(schedule: Edges, kernels: Sequence[Kernel]) -> None:
    """Raise KernelArgument where no core's kernel has an instruction of a name in the schedule."""
    known = {name for kernel in kernels for name in _by_name(kernel)}
    for name in (name for later, before in schedule for name in (later, *before)):
        if name not in known:
            raise KernelArgument(
                f"with_schedule: {kernels[0].name} has no instruction named `{name}`",
                help=close_matches(name, known)
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


def _order(kernel: Kernel, wanted: dict[int, set[int]]) -> list[int]:
    """Return positions in an order that every edge and every dependence allows, nearest to the program's."""
    # Ranks run one program, so a collective may move with it; the two cores of a rank are ordered each by itself.
    two = kernel.program[1] > 1
    meets = any(i.definition.waits_for_others for i in kernel.instructions) and two
    if kernel.has_loops or meets:
        raise NotModelled(
            f"with_schedule: {kernel.name} would have to move instructions around loops of the device,"
            " or a meeting of two cores",
            help="write the instructions in the order that the schedule asks for",
        )
    fixed = explicit_addresses(kernel)
    overlaps = groups(overlapping(kernel, fixed))
    needed = dependences(kernel.with_(addresses=fixed, overlaps=overlaps))
    before = [{*waits, *wanted.get(n, ())} for n, waits in enumerate(needed)]
    for first, then in _taking_turns(kernel):
        for n in then:
            before[n] |= first
    followers: list[list[int]] = [[] for _ in before]
    for n, waits in enumerate(before):
        for first in waits:
            followers[first].append(n)
    left = [len(waits) for waits in before]
    ready = [n for n, count in enumerate(left) if not count]
    order = []
    while ready:
        n = heappop(ready)
        order.append(n)
        for follower in followers[n]:
            left[follower] -= 1
            if not left[follower]:
                heappush(ready, follower)
    if len(order) < len(before):
        stuck = min(n for n, firsts in wanted.items() if left[n] and max(firsts) > n)
        raise KernelArgument(
            f"with_schedule: `{_name(kernel, stuck)}` of {kernel.name} cannot wait for"
            f" `{_name(kernel, max(wanted[stuck]))}`, which itself has to wait for it",
            stack=kernel.instructions[stuck].stack,
            help="a pair is (what waits, what it waits for): turn it around, or leave it out",
        )
    return order


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
            if kernel.lifetimes[a.id].last < kernel.lifetimes[b.id].first and share_bytes(a, b):
                yield users[a.id], users[b.id]


def _name(kernel: Kernel, n: int) -> str:
    i = kernel.instructions[n]
    return str(i.args[i.definition.position["name"]])
