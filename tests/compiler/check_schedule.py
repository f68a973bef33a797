"""Checks that a scheduled program does what the program before it did.

Nothing here is taken from the passes it checks: accesses are looked at in pairs, byte by byte where rectangles meet,
and what waits guarantee is their transitive closure. That is quadratic: it is for tests, the fuzzer and debugging.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nki_lab.errors import BrokenProgram, NkiError
from nki_lab.ir.definition.instruction import READ, UPDATE, WRITE, Instruction
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.register import Register
from nki_lab.source import Span
from nki_lab.targets.engines import DMA
from tests.compiler.accesses import Access, by_memory, meeting, share_bytes, shared_bytes

_OBSERVED, _MET = "what observers print", "meetings"


def check_schedule(before: Kernel, after: Kernel) -> list[NkiError]:
    """Return an error for every way in which a scheduled program breaks the one before; at most one per instruction.

    Checked are, for memory (bytes, physical places included), hidden registers, registers and `depends_on`:
    the order of `after` keeps every dependence of `before`; whoever depends on another instruction waits until that is
    finished, by the order of its engine, its waits and theirs; no tile lies on another one that is in use.

    Args:
        before: the program in the author's order, e.g. as traced.
        after: the same program after insert_waits.
    """
    found: list[NkiError] = [*_membership_errors(before, after)]
    if found:
        return found
    found += _order_errors(before, after)
    found += _placement_errors(after)
    if after.waits is None or len(after.waits) != len(after.instructions):
        return [*found, BrokenProgram(f"{after.name} has no waits, or not for every instruction")]
    for n, waits in enumerate(after.waits):
        if any(not 0 <= k < n for k in waits):
            found.append(
                _error(after.instructions[n], n, f"waits for {list(waits)}: not all earlier")
            )
    return found or [*_guard_errors(before, after)]


# -- the same instructions in the same loops -------------------------------------------------------------------------


def _membership_errors(before: Kernel, after: Kernel) -> Iterator[NkiError]:
    old, new = _loops_around(before.body), _loops_around(after.body)
    instructions = {i.ident: i for i in before.instructions}
    if len(instructions) != len(before.instructions):
        yield BrokenProgram(f"{before.name}: two instructions have one identity")
        return
    if len({i.ident for i in after.instructions}) != len(after.instructions):
        yield BrokenProgram(f"{after.name}: an instruction was made two")
        return
    for n, i in enumerate(after.instructions):
        if i.ident not in instructions:
            yield _error(i, n, "is not in the program before")
        elif old[i.ident] != new[i.ident]:
            yield _error(i, n, f"moved from device loops {old[i.ident]} to {new[i.ident]}")
    for ident, i in instructions.items():
        lost = [v for v in i.written() if not v.storage.on_chip]
        changed = [key for key, role in _registers(i) if role != READ]
        if ident not in new and (lost or changed):
            yield _error(
                i, ident, f"was removed, but writes {lost[0].name if lost else changed[0]}"
            )


def _loops_around(body: Sequence[Instruction | Loop]) -> dict[int, tuple[int, ...]]:
    """Return the numbers of the device loops around each instruction, by its identity."""
    found: dict[int, tuple[int, ...]] = {}
    for node in body:
        if isinstance(node, Loop):
            inner = _loops_around(node.body)
            found.update({ident: (node.number, *loops) for ident, loops in inner.items()})
        else:
            found[node.ident] = ()
    return found


# -- order -----------------------------------------------------------------------------------------------------------


def _order_errors(before: Kernel, after: Kernel) -> Iterator[NkiError]:
    """Yield an error per instruction that comes before one it depends on, or whose data is no longer made."""
    at = {i.ident: n for n, i in enumerate(after.instructions)}
    instructions = before.instructions
    place = np.array([at.get(i.ident, -1) for i in instructions])
    asked = {s.id: s.address for s in before.storages if s.address is not None}
    wrong: dict[int, int] = {}
    for accesses in by_memory(before, asked):
        where = np.array([place[a.n] for a in accesses])
        for b, candidates in meeting(accesses):
            later = accesses[b]
            if where[b] < 0 or later.n in wrong:
                continue
            for a in candidates[(where[candidates] > where[b]) | (where[candidates] < 0)]:
                earlier = accesses[a]
                removed = where[a] < 0
                if removed and not (earlier.writes and later.reads):
                    continue
                if removed and not _arrives(accesses, int(a), b):
                    continue
                if share_bytes(earlier, later):
                    wrong[later.n] = earlier.n
                    break
    for _, users in _users(before).items():
        newest = changed = (
            -1,
            -1,
        )  # the latest user, and the latest that changes it: (place, position before)
        for n, role in users:
            if place[n] < 0:
                continue
            bound = changed if role == READ else newest
            if bound[0] > place[n]:
                wrong.setdefault(n, bound[1])
            newest = max(newest, (int(place[n]), n))
            if role != READ:
                changed = max(changed, (int(place[n]), n))
    for n, k in _asked(before, at):
        if place[k] > place[n]:
            wrong.setdefault(n, k)
    for n, first in sorted(wrong.items()):
        other = instructions[first]
        how = "now comes before" if place[first] >= 0 else "needs the removed"
        yield _error(instructions[n], n, f"{how} {_name(other, first)}, which it depends on")


def _asked(before: Kernel, at: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield (instruction, one it was asked to follow) of those that are still there, by their positions before.

    Who follows a removed instruction follows those that it had to follow.
    """
    position = {i.ident: n for n, i in enumerate(before.instructions)}
    followed: dict[int, set[int]] = {}
    for n, i in enumerate(before.instructions):
        found = followed[n] = set()
        for producer in i.after:
            k = position.get(producer.ident)
            if k is not None:
                found |= {k} if producer.ident in at else followed.get(k, set())
        if i.ident in at:
            yield from ((n, k) for k in sorted(found))


def _arrives(accesses: list[Access], a: int, b: int) -> bool:
    """Tell whether `b` reads a byte that `a` was the last to write."""
    left = shared_bytes(accesses[a], accesses[b])
    for between in accesses:
        if (
            accesses[a].n < between.n < accesses[b].n
            and between.writes
            and between.view.dynamic is None
        ):
            left = np.setdiff1d(left, shared_bytes(between, accesses[b]))
    return bool(left.size)


def _registers(i: Instruction) -> list[tuple[Hashable, str]]:
    """Return what an instruction uses besides memory, and how."""
    return [
        *i.form.state,
        *((register, READ) for register in i.registers_read()),
        *((register, WRITE) for register in i.registers_written()),
    ]


def _users(kernel: Kernel) -> dict[Hashable, list[tuple[int, str]]]:
    """Return the positions of the users of everything besides memory that orders instructions."""
    users: dict[Hashable, list[tuple[int, str]]] = {}
    for n, i in enumerate(kernel.instructions):
        uses = _registers(i)
        if i.definition.observes:
            uses.append((_OBSERVED, UPDATE))
        if i.definition.waits_for_others:
            uses.append((_MET, UPDATE))
        for key, role in uses:
            users.setdefault(key, []).append((n, role))
    return users


# -- places ----------------------------------------------------------------------------------------------------------


def _placement_errors(after: Kernel) -> Iterator[NkiError]:
    """Yield an error per tile that has bytes of another one while both are in use; the author may ask for it."""
    placed = after.addresses or {}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for n, i in enumerate(after.instructions):
        for view in (*i.read(), *i.written()):
            first.setdefault(view.storage.id, n)
            last[view.storage.id] = n
    for loop, start, end in reversed(after.loops):
        for key in first:
            # A tensor made in the body has a value in one pass only, unless it is read before it is written.
            one_pass = after.storages[key].loop in loop.numbers and key not in after.poisoned
            if first[key] < end and start <= last[key] and not one_pass:
                first[key], last[key] = min(first[key], start), max(last[key], end - 1)
    keys = [k for k in placed if k in first]
    tiles = [after.storages[k] for k in keys]
    on = np.array([tile.buffer.name == "sbuf" for tile in tiles])
    fixed = np.array([tile.address is not None for tile in tiles])
    spans = [
        (placed[k].partition, placed[k].partition + t.partitions, placed[k].byte, placed[k].byte + t.row_bytes,
         first[k], last[k] + 1)
        for k, t in zip(keys, tiles, strict=True)
    ]  # fmt: skip
    box = np.array(spans, np.int64).reshape(-1, 6).T
    for k in range(len(keys)):
        hit = (on[:k] == on[k]) & ~(fixed[:k] & fixed[k])
        for low, high in ((0, 1), (2, 3), (4, 5)):
            hit &= (box[low, :k] < box[high, k]) & (box[low, k] < box[high, :k])
        for other in np.flatnonzero(hit)[:1]:
            yield BrokenProgram(
                f"{tiles[k].describe()} at {tuple(placed[keys[k]])} has bytes of {tiles[other].describe()} at"
                f" {tuple(placed[keys[other]])} while both are in use",
                stack=tiles[k].stack,
            )


# -- waits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Finished:
    """Per instruction, which earlier ones have surely finished when it starts: bit n stands for position n."""

    masks: list[int]

    def has(self, a: int, b: int) -> bool:
        return bool(self.masks[b] >> a & 1)


def finished_before(kernel: Kernel) -> _Finished:
    """Return the closure of the waits and of what in-order engines guarantee.

    An engine starts instructions in order and finishes them in order; a transfer starts when what it waits for is
    finished, and finishes whenever it likes.
    """
    assert kernel.waits is not None
    masks: list[int] = []
    with_earlier: list[
        int
    ] = []  # itself, all before on its in-order engine, and what those had waited for
    previous: dict[object, int] = {}
    for n, (i, waits) in enumerate(zip(kernel.instructions, kernel.waits, strict=True)):
        engine = i.form.engine
        before = 0
        for k in waits:
            before |= with_earlier[k]
        earlier = 0
        if engine is not DMA and not i.definition.observes:
            if engine in previous:
                before |= masks[previous[engine]]
                earlier = with_earlier[previous[engine]]
            previous[engine] = n
        masks.append(before)
        with_earlier.append(before | earlier | 1 << n)
    return _Finished(masks)


def _guard_errors(before: Kernel, after: Kernel) -> Iterator[NkiError]:
    """Yield an error per instruction that may start before one it depends on has finished."""
    instructions = after.instructions
    finished = finished_before(after)
    engines = [i.form.engine for i in instructions]
    observes = [i.definition.observes for i in instructions]

    def guarded(a: int, b: int, result: bool) -> bool:
        """Tell whether `b` may rely on `a`; an in-order engine keeps all but the reading of a result."""
        if observes[a] or observes[b] or finished.has(a, b):
            return True
        return not result and engines[a] is engines[b] and engines[a] is not DMA

    wrong: dict[int, int] = {}
    for accesses in by_memory(after, after.addresses or {}):
        for b, candidates in meeting(accesses):
            later = accesses[b]
            for a in candidates:
                earlier = accesses[a]
                if later.n in wrong or earlier.n == later.n:
                    continue
                result = earlier.writes and later.reads and not later.updates
                if not guarded(earlier.n, later.n, result) and share_bytes(earlier, later):
                    wrong[later.n] = earlier.n
    for key, users in _users(after).items():
        if key in (_OBSERVED, _MET):
            continue
        register = isinstance(key, Register)
        for m, (n, role) in enumerate(users):
            for k, other in users[:m]:
                result = register and role == READ and other != READ
                if (role != READ or other != READ) and k != n and not guarded(k, n, result):
                    wrong.setdefault(n, k)
    at = {i.ident: n for n, i in enumerate(instructions)}
    for program in (before, after):  # with_schedule asks for more than the trace does
        idents = [i.ident for i in program.instructions]
        for asking, asked in _asked(program, at):
            n, k = at[idents[asking]], at[idents[asked]]
            if not guarded(k, n, True):
                wrong.setdefault(n, k)
    for n, k in sorted(wrong.items()):
        other = _name(instructions[k], k)
        yield _error(
            instructions[n], n, f"may start before {other}, which it depends on, has finished"
        )


# -- messages --------------------------------------------------------------------------------------------------------


def _name(i: Instruction, n: int) -> str:
    where = f" ({Span.of(i.stack[0])})" if i.stack else ""
    return f"{i.definition.name} #{n}{where}"


def _error(i: Instruction, n: int, text: str) -> BrokenProgram:
    return BrokenProgram(f"{i.definition.name} #{n} {text}", stack=i.stack)
