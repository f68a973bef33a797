"""Which earlier instructions must each instruction wait for?

Engines run side by side, so an instruction waits for the writers of what it reads, and for the readers and writers of
what it overwrites. Bytes decide, not tensors: a tile placed where another one was waits for that one's last users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.implied_waits import ImpliedWaits
from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.compiler.passes.uses import Uses
from nki_lab.ir.footprint import Footprint, footprint
from nki_lab.ir.instruction import READ, WRITE
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import PSUM, SBUF

_OBSERVED = "observed"  # a state that observers leave, so that they keep their order
_MEMORY_PITCH = 1 << 20  # more than any partition holds


def insert_waits(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with, for every instruction, the positions of those it waits for.

    In a device loop these are the waits of its first pass; each later pass waits for the one before. Waits that others
    imply are left out (`implied_waits`). For an earlier instruction of its own engine, which began before it, an
    instruction waits only when it reads what that one wrote: overwriting keeps the order, and adding onto an operand
    is pipelined.
    """
    implied = ImpliedWaits()
    waits = []
    engines = [i.form.engine for i in kernel.instructions]
    for n, (found, flows) in enumerate(_dependences(kernel, ordered=True)):
        engine = engines[n]
        if found:
            if engine is not DMA:
                flows.update(k for k in found if engines[k] is not engine)
            else:
                flows |= found
        waits.append(implied.reduce(flows, engine))
    return kernel.with_(waits=tuple(waits))


def dependences(kernel: Kernel) -> list[tuple[int, ...]]:
    """Return, per instruction, the earlier ones it must follow in whatever order the rest runs."""
    return [tuple(sorted(found | flows)) for found, flows in dependences_by_kind(kernel)]


def dependences_by_kind(kernel: Kernel) -> Iterator[tuple[set[int], set[int]]]:
    """Yield, per instruction, whom it must follow for any reason, and whose result it needs to begin."""
    return _dependences(kernel, ordered=False)


def _dependences(kernel: Kernel, ordered: bool) -> Iterator[tuple[set[int], set[int]]]:
    """Yield per instruction whom it must follow: in the first set for any reason, in the second to read a result.

    When the instructions are `ordered`, what an in-order engine has waited for before is left out where that saves
    looking at many.
    """
    addresses = kernel.addresses or {}
    instructions = kernel.instructions
    position_of = _positions(instructions)
    written = {v.storage.id for i in instructions for v in i.written()}
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
            known = uses.setdefault(("group", group), Uses(pitch=_MEMORY_PITCH))
        elif address is None:
            known = Uses()
        elif len(others) == 1 and uses[others[0].id].become(storage, address):
            uses[key] = known = uses[others[0].id]
            return known
        else:
            known = Uses(address, storage.row_bytes, storage.partitions)
        uses[key] = known
        for other in others:
            if uses[other.id] is not known:
                known.inherit(uses[other.id], storage, addresses[key])
        return known

    for n, i in enumerate(instructions):
        found: set[int] = set()
        flows: set[int] = set()
        form = i.form
        if i.definition.observes:
            if ordered:  # it takes no time, and nothing waits for it
                yield found, flows
                continue
            found.update(state_users.get(_OBSERVED, ()))
            state_users[_OBSERVED] = [n]
        args = i.args
        queue = form.engine if ordered and form.engine is not DMA else None
        for position in form.reads:
            updated = position in form.writes
            sources = found if updated else flows
            value = args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                if storage.on_chip or storage.id in written:
                    box = view.box or footprint(view)
                    if storage.id in roots:
                        box = _moved(box, addresses[storage.id])
                    known = uses.get(storage.id) or first_uses(storage)
                    known.read(box, n, sources, None if updated else queue)
        if form.dynamic:
            for dynamic in i.dynamic():
                index = dynamic.index
                if type(index) is NkiTensor:
                    box = footprint(index)
                    if index.storage.id in roots:
                        box = _moved(box, addresses[index.storage.id])
                    known = uses.get(index.storage.id) or first_uses(index.storage)
                    known.read(box, n, flows)
        for position in form.writes:
            value = args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                box = view.box or footprint(view)
                if storage.id in roots:
                    box = _moved(box, addresses[storage.id])
                known = uses.get(storage.id) or first_uses(storage)
                known.write(box, n, found)
        if form.dynamic or form.registers or form.registers_set:
            for register in i.registers_read():
                flows.update(state_users.get((register, WRITE), ()))
                state_users.setdefault((register, READ), []).append(n)
            for register in i.registers_written():
                found.update(state_users.pop((register, READ), ()))
                found.update(state_users.get((register, WRITE), ()))
                state_users[register, WRITE] = [n]
        for state, role in form.state:
            users = state_users.setdefault(state, [])
            found.update(users)
            if role != READ:
                users.clear()
            users.append(n)
        for producer in i.after:
            if producer.ident in position_of:  # else it was removed
                flows.add(position_of[producer.ident])
        found.discard(n)
        flows.discard(n)
        yield found, flows


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
