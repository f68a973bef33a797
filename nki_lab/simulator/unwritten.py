"""Finds reads of memory that nothing has written, where only a run decides what is written or read.

The compiler says which storages that concerns (`Kernel.tracked`); others cost nothing. Each has a mask of what has been
written so far, per element, or per byte where views read it as elements of another size. The values that unwritten
memory shows (NaN; 4 for integers) are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import READ, SPOIL, UPDATE, WRITE, Instruction
from nki_lab.ir.definition.operands import State
from nki_lab.ir.program.execution import Execution, loops_run
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel, Loop
from nki_lab.ir.program.unwritten import (
    KIND,
    may_keep_elements,
    old_value_is_read,
    unset_state,
    unwritten_read,
    unwritten_result,
)
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.simulator.accesses import Access, Elements
from nki_lab.simulator.late import Late
from nki_lab.source import Span
from nki_lab.targets.spaces import SHARED_HBM


class _Mask:
    """What has been written of one storage.

    Attributes:
        unit: bytes that one entry stands for: those of an element, or 1.
        written: one entry per unit.
        settled: accesses at fixed places that need no second look until the mask is cleared.
    """

    __slots__ = ("unit", "written", "settled")

    def __init__(self, storage: Storage, unit: int) -> None:
        self.unit = unit
        self.written = np.zeros(storage.nbytes // unit, bool)
        self.settled: set[tuple[int, int, int, str]] = set()

    def clear(self) -> None:
        """Take everything as unwritten."""
        self.written.fill(False)
        self.settled.clear()


class Unwritten:
    """Follows a run (an `Observer`) and reports what is read, or returned, although nothing has written it.

    Args:
        late: gives the elements that an instruction leaves alone.
        kernel: the compiled program; None where it is run while it is traced, so that everything is tracked.

    Attributes:
        masks: by id of the storage.
    """

    def __init__(self, late: Late, kernel: Kernel | None) -> None:
        self.masks: dict[int, _Mask] = {}
        self._late = late
        self._all = kernel is None
        self._findings = FindingsByPlace(())
        self._set: set[State] = set()
        self._states = kernel is None or _sets_in_loops(kernel)
        if kernel is not None and kernel.tracked:
            units = _units(kernel)
            self.masks = {k: _Mask(kernel.storages[k], units[k]) for k in kernel.tracked}

    @property
    def has_work(self) -> bool:
        """Whether there is anything to follow."""
        return bool(self.masks) or self._states

    # -- what is written -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take everything as unwritten, before a run."""
        for mask in self.masks.values():
            mask.clear()
        self._findings = FindingsByPlace(())
        self._set.clear()

    def renew(self, storage_id: int) -> None:
        """Take a tensor as unwritten, as it is anew in each pass of the loop that makes it."""
        mask = self.masks.get(storage_id)
        if mask is not None:
            mask.clear()

    def share(self, other: Unwritten, pairs: Sequence[tuple[Storage, Storage]]) -> None:
        """Let another core have the masks of the tensors that are one memory, as (here, there)."""
        for here, there in pairs:
            if here.id not in self.masks or there.id not in other.masks:
                continue
            if self.masks[here.id].unit != other.masks[there.id].unit:
                self.masks[here.id] = _Mask(here, 1)
            other.masks[there.id] = self.masks[here.id]

    def restored(self) -> None:
        """Look at every access again: the masks hold what they held at another time of the run."""
        for mask in self.masks.values():
            mask.settled.clear()

    # -- following a run -----------------------------------------------------------------------------------------

    def wants(self, i: Instruction) -> bool:
        """Tell whether an instruction touches a tracked tensor, or a hidden register that a loop may leave unset."""
        if self._all or (self._states and any(s.is_accumulator for s, _ in i.form.state)):
            return True
        return any(v.storage.id in self.masks for v in (*i.read(), *i.written()))

    def before(self, i: Instruction, accesses: Sequence[Access]) -> None:
        """Report what is read and not written, and note what is written."""
        writes = []
        for access in accesses:
            mask = self._mask_of(access.view.storage)
            if mask is None or _only_ordered(i, access.view.storage):
                continue
            if old_value_is_read(i, access.position, access.role):
                self._read(i, access, mask)
            if access.role != READ:
                writes.append((access, mask))
        for access, mask in writes:
            self._write(i, access, mask)
        if self._states and i.form.state:
            self._use_states(i)

    def has_mask(self, view: NkiTensor) -> bool:
        """Tell whether it matters what is written of a tensor."""
        return view.storage.id in self.masks

    def received(self, view: NkiTensor, written: np.ndarray) -> None:
        """Note which elements of a view at a fixed place a collective has written."""
        mask = self.masks.get(view.storage.id)
        if mask is not None:
            Elements(view).mark_where(mask.written, mask.unit, written)

    def _mask_of(self, storage: Storage) -> _Mask | None:
        mask = self.masks.get(storage.id)
        if mask is None and self._all and storage.origin == "temporary" and storage.data is None:
            mask = self.masks[storage.id] = _Mask(storage, 1)
        return mask

    def _read(self, i: Instruction, access: Access, mask: _Mask) -> None:
        key = _fixed(i, access, READ)
        if key in mask.settled:
            return
        elements = access.elements
        part = elements.of(mask.written, mask.unit)
        if part.all():
            if key is not None:
                mask.settled.add(key)
            return
        if elements.window.dtype.itemsize > mask.unit:
            part = np.asarray(part.all(axis=-1))
        if (
            not access.is_index
            and i.definition.operands[i.definition.params[access.position]].chosen
        ):
            part = ~self._late.chosen(i, access.position, access.view, ~part)
        missing = part.size - int(np.count_nonzero(part))
        if not missing:
            return
        first = tuple(int(n) for n in np.unravel_index(int(np.argmin(part)), part.shape))
        if elements.rows is not None:
            first = (int(elements.rows[first[0]]), *first[1:])
        about = access.position, access.view.storage.id
        make = partial(unwritten_read, i, access.position, access.view, missing, first)
        self._findings.add(about, i.stack, make)

    def _write(self, i: Instruction, access: Access, mask: _Mask) -> None:
        key = _fixed(i, access, WRITE)
        if key in mask.settled:
            return
        elements = access.elements
        # Where rows are skipped, the elements are exactly those that are written.
        if may_keep_elements(i, access.position, access.role) and not elements.exact:
            if elements.of(mask.written, mask.unit).all():
                return
            if i.definition.waits_for_others:
                return  # noted when what was received is known
            elements.mark_where(
                mask.written, mask.unit, ~self._late.kept(i, access.position, access.view)
            )
            return
        elements.mark(mask.written, mask.unit)
        if key is not None:
            mask.settled.add(key)

    def _use_states(self, i: Instruction) -> None:
        for state, role in i.form.state:
            if role in (READ, UPDATE) and state.is_accumulator and state not in self._set:
                self._findings.add(state, i.stack, partial(unset_state, i, state))
            if role == WRITE:
                self._set.add(state)
            elif role == SPOIL:
                self._set.discard(state)

    # -- what it shows -------------------------------------------------------------------------------------------

    def check_results(self, kernel: Kernel) -> None:
        """Report elements of results that nothing has written, after a run."""
        for view in kernel.outputs:
            mask = self.masks.get(view.storage.id) if view.storage.id in kernel.tracked else None
            if mask is None:
                continue
            part = Elements(view).of(mask.written, mask.unit)
            if view.dtype.itemsize > mask.unit:
                part = np.asarray(part.all(axis=-1))
            missing = part.size - int(np.count_nonzero(part))
            if missing:
                about = "result", view.storage.id
                make = partial(unwritten_result, view, missing)
                self._findings.add(about, view.storage.stack, make)

    def findings(self, kernel: Kernel, trips: Sequence[int] | None) -> tuple[Finding, ...]:
        """Return what the last run showed and the compiler did not; `trips` is None where it broke off."""
        by_key = self._findings.by_key()
        if not by_key:
            return ()
        idle = [] if trips is None else idle_loops(kernel, trips)
        # A run while tracing takes in what the compiler left out because nothing uses it, and what it has decided.
        places = {i.stack for i in kernel.instructions} if self._all else set()
        reported = {(f.stack, _subject(f)) for f in kernel.findings if f.kind == KIND}
        shown = []
        for about, finding in by_key:
            if self._all and type(about) is tuple:
                if about[1] not in kernel.tracked:
                    continue
                if about[0] != "result" and finding.stack not in places:
                    continue
            if (finding.stack, _subject(finding)) in reported:
                continue
            why = _left_out(idle, about)
            shown.append(replace(finding, message=finding.message + why))
        return tuple(shown)


def _fixed(i: Instruction, access: Access, way: str) -> tuple[int, int, int, str] | None:
    """Return what names an access at a fixed place; None where values decide about its elements."""
    if access.view.dynamic is not None or access.elements.at is not None:
        return None
    return id(i), access.position, id(access.view), way


def _only_ordered(i: Instruction, storage: Storage) -> bool:
    """Tell whether an instruction orders uses of a tensor, as a barrier does, and puts nothing into it."""
    return i.definition.meets and storage.buffer is SHARED_HBM


def _units(kernel: Kernel) -> dict[int, int]:
    """Return the unit of the mask of each tracked storage: a byte where views have elements of another size."""
    units = {key: kernel.storages[key].dtype.itemsize for key in kernel.tracked}
    for view in (*kernel.touches.views, *kernel.outputs):
        if view.dtype.itemsize != units.get(view.storage.id, view.dtype.itemsize):
            units[view.storage.id] = 1
    return units


def _sets_in_loops(kernel: Kernel) -> bool:
    """Tell whether a hidden accumulator is used in a device loop, which may run no pass."""
    return any(
        state.is_accumulator
        for _, first, end in kernel.loops
        for i in kernel.instructions[first:end]
        for state, _ in i.form.state
    )


def _subject(finding: Finding) -> str:
    """Return what a finding is about, without the numbers that may differ from run to run."""
    message = finding.message
    return message[message.find(" of ") :].split(" are ")[0].split(" elements ")[-1]


def idle_loops(kernel: Kernel, trips: Sequence[int]) -> list[Loop]:
    """Return the device loops that ran no pass, the outermost of those that lie in each other."""
    if not kernel.has_loops:
        return []
    ran = loops_run(Execution(kernel, (), tuple(trips)))
    idle = [r.loop for r in kernel.loops if r.loop.number not in ran]
    return [a for a in idle if not any(b is not a and a.number in b.numbers for b in idle)]


def _left_out(idle: Sequence[Loop], about: object) -> str:
    """Return the end of a message that names the loops which would have written a tensor, or set a register."""
    loops = [loop for loop in idle if _writes(loop, about)]
    if not loops:
        return ""
    where = ", ".join(str(Span.of(loop.stack[0])) for loop in loops if loop.stack)
    return f"; the device loop at {where} ran no time" if where else "; a device loop ran no time"


def _writes(loop: Loop, about: object) -> bool:
    for node in loop.body:
        if isinstance(node, Loop):
            if _writes(node, about):
                return True
        elif type(about) is tuple:
            if any(v.storage.id == about[1] for v in node.written()):
                return True
        elif any(state is about and role == WRITE for state, role in node.form.state):
            return True
    return False
