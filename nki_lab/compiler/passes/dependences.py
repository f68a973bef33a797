"""Finds the earlier instructions that each instruction must follow.

Those that wrote what it reads, and those that read or wrote what it overwrites. Bytes decide, not tensors: a tile
placed where another one was follows that one's last users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.compiler.passes.uses import Uses
from nki_lab.compiler.passes.whole_places import dependences_in, whole_places
from nki_lab.ir.definition.instruction import READ, WRITE, Form
from nki_lab.ir.program.nodes import Dependences, Kernel
from nki_lab.ir.tensor.footprint import Footprint, footprint
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import PSUM, SBUF

_OBSERVED = "observed"  # a state that observers leave, so that they keep their order
_MEMORY_PITCH = 1 << 20  # more than any partition holds


def dependences(kernel: Kernel) -> list[tuple[int, ...]]:
    """Return, per instruction, the earlier ones it must follow in whatever order the rest runs."""
    pairs = dependences_of(kernel)
    followed: list[set[int]] = [set() for _ in kernel.instructions]
    for before, after in zip(pairs.before.tolist(), pairs.after.tolist(), strict=True):
        followed[after].add(before)
    return [tuple(sorted(some)) for some in followed]


def dependences_of(kernel: Kernel, ordered: bool = False) -> Dependences:
    """Return whom the instructions must follow in whatever order the rest runs, in columns.

    When the instructions are `ordered`, what an in-order engine has waited for before is left out where that saves
    looking at many, and so is what only looks.
    """
    place = whole_places(kernel)
    needed: list[int] = []
    others: list[int] = []
    counts: list[tuple[int, int, int]] = []
    for n, followed, flows in _one_by_one(kernel, place, ordered):
        followed -= flows
        needed.extend(flows)
        others.extend(followed)
        counts.append((n, len(flows), len(followed)))
    positions, *lengths = np.array(counts, np.int32).reshape(-1, 3).T
    quick = dependences_in(kernel, place)
    results = np.zeros(len(needed) + len(others), bool)
    results[: len(needed)] = True
    return Dependences(
        np.concatenate((quick.before, np.array(needed + others, np.int32))),
        np.concatenate((quick.after, *(np.repeat(positions, length) for length in lengths))),
        np.concatenate((quick.result, results)),
    )


def _worth_a_look(kernel: Kernel, place: np.ndarray) -> np.ndarray:
    """Tell, per instruction, whether it may follow others for more than its use of places with a number."""
    touches = kernel.touches
    on_chip = np.array([s.on_chip for s in kernel.storages], bool)
    changing = np.zeros(len(kernel.storages), bool)
    changing[touches.storage[touches.writes]] = True
    open_ = (place < 0) & (on_chip | changing)
    chosen = touches.per_form(_has_registers)
    chosen[touches.at[open_[touches.storage]]] = True
    return chosen


def _has_registers(form: Form) -> bool:
    return bool(
        form.dynamic
        or form.registers
        or form.registers_set
        or form.state
        or form.definition.observes
    )


def _one_by_one(
    kernel: Kernel, place: np.ndarray, ordered: bool
) -> Iterator[tuple[int, set[int], set[int]]]:
    """Yield instructions and whom they must follow: first for any reason, then to read a result.

    Tensors with a `place` are looked at elsewhere.
    """
    addresses = kernel.addresses or {}
    instructions = kernel.instructions
    position_of = _positions(instructions)
    written = set(kernel.touches.storage[kernel.touches.writes].tolist())
    apart = (place >= 0).tolist()
    chosen = _worth_a_look(kernel, place)
    uses: dict[Any, Uses] = {}
    occupants = {SBUF: Occupants(), PSUM: Occupants()}
    roots = _shared_roots(kernel)
    state_users: dict[Any, list[int]] = {}

    def first_uses(storage: Storage) -> Uses:
        """Return the uses of a storage that has had none before, or those of its group."""
        key = storage.id
        address = addresses.get(key)
        # Who was here has been used for the last time; each part of the new tile waits for the uses of its bytes.
        others = [] if address is None else occupants[storage.buffer].replace(storage, address)
        group = roots.get(key)
        if group is not None:
            earlier = uses.setdefault(("group", group), Uses(pitch=_MEMORY_PITCH))
        elif address is None:
            earlier = Uses()
        elif len(others) == 1 and uses[others[0].id].become(storage, address):
            uses[key] = earlier = uses[others[0].id]
            return earlier
        else:
            earlier = Uses(address, storage.row_bytes, storage.partitions)
        uses[key] = earlier
        for other in others:
            if uses[other.id] is not earlier:
                earlier.inherit(uses[other.id], storage, addresses[key])
        return earlier

    for n in range(len(instructions)) if position_of else np.flatnonzero(chosen).tolist():
        i = instructions[n]
        followed: set[int] = set()
        flows: set[int] = set()
        form = i.form
        if i.definition.observes:
            if ordered:  # it takes no time, and nothing waits for it
                continue
            followed.update(state_users.get(_OBSERVED, ()))
            state_users[_OBSERVED] = [n]
        args = i.args
        queue = form.engine if ordered and form.engine is not DMA else None
        for position in form.reads:
            updated = position in form.writes
            sources = followed if updated else flows
            value = args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                if not apart[storage.id] and (storage.on_chip or storage.id in written):
                    box = view.box or footprint(view)
                    if storage.id in roots:
                        box = _moved(box, addresses[storage.id])
                    earlier = uses.get(storage.id) or first_uses(storage)
                    earlier.read(box, n, sources, None if updated else queue)
        if form.dynamic:
            for dynamic in i.dynamic():
                index = dynamic.index
                if type(index) is NkiTensor and not apart[index.storage.id]:
                    box = footprint(index)
                    if index.storage.id in roots:
                        box = _moved(box, addresses[index.storage.id])
                    earlier = uses.get(index.storage.id) or first_uses(index.storage)
                    earlier.read(box, n, flows)
        for position in form.writes:
            value = args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                if apart[storage.id]:
                    continue
                box = view.box or footprint(view)
                if storage.id in roots:
                    box = _moved(box, addresses[storage.id])
                earlier = uses.get(storage.id) or first_uses(storage)
                earlier.write(box, n, followed)
        if form.dynamic or form.registers or form.registers_set:
            for register in i.registers_read():
                flows.update(state_users.get((register, WRITE), ()))
                state_users.setdefault((register, READ), []).append(n)
            for register in i.registers_written():
                followed.update(state_users.pop((register, READ), ()))
                followed.update(state_users.get((register, WRITE), ()))
                state_users[register, WRITE] = [n]
        for state, role in form.state:
            users = state_users.setdefault(state, [])
            followed.update(users)
            if role != READ:
                users.clear()
            users.append(n)
        for producer in i.after:
            if producer.ident in position_of:  # else it was removed
                flows.add(position_of[producer.ident])
        followed.discard(n)
        flows.discard(n)
        yield n, followed, flows


def _shared_roots(kernel: Kernel) -> dict[int, int]:
    """Return, for storages whose bytes overlap another's while both are in use, one id per such group."""
    return {member: group for group, members in enumerate(kernel.overlaps) for member in members}


def _moved(box: Footprint, address: Any) -> Footprint:
    # Tensors that share bytes have rows of different length: compare them at their absolute address.
    return Footprint(
        _MEMORY_PITCH,
        box.first_row + address.partition,
        box.end_row + address.partition,
        box.first_byte + address.byte,
        box.end_byte + address.byte,
    )


def _positions(instructions: Any) -> dict[int, int]:
    if not any(i.after for i in instructions):
        return {}
    return {i.ident: n for n, i in enumerate(instructions)}
