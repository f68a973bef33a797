"""Runs instructions whose address or operand is a value of the device.

It is bound when its turn comes: registers and tiles of indices have their values then. A view moved by one value
becomes a plain view; rows or elements named by a tile of indices are gathered into a new array before the
instruction, or scattered from one after it. Where an index is out of range and skipped, elements of `dst` keep their
values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nki_lab.dtypes import int64
from nki_lab.errors import AddressOutOfRange, UnwrittenRegister
from nki_lab.ir.definition.instruction import READ, WRITE, Instruction
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Address, Storage, leaves_storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.simulator.accesses import Access, Elements, indices_read, operand_accesses
from nki_lab.simulator.bind import Binder, run_steps, wanted
from nki_lab.simulator.memory import Base, Memory
from nki_lab.simulator.places import DynamicPlaces, out_of_range, places_of


class RegisterFile:
    """Values of a kernel's registers, signed; reading one that was never set is an error."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}

    def clear(self) -> None:
        """Forget all values, before a run."""
        self.values.clear()

    def get(self, register: Register, at: Instruction | Loop | None = None) -> int:
        """Return the value of a register that an instruction or loop asks for."""
        value = self.values.get(register.id)
        if value is None:
            raise UnwrittenRegister(
                f"register `{register.name}` is read but was never set",
                stack=at.stack if at is not None else (),
                help="set it with nisa.register_move or nisa.register_load first",
            )
        return value

    def set(self, register: Register, value: int) -> None:
        """Set a register; only the low bits are kept."""
        kept = register.kept
        self.values[register.id] = kept.start + (value - kept.start) % (kept.stop - kept.start)


#: A byte that, repeated, is not zero in any type, and a small number of floats, which no cast makes 0.
_MARK = 0x43


class _Skipped(Exception):
    """An address is out of range, and the whole instruction is to be skipped."""


class _Operand(NamedTuple):
    """A tensor that an instruction touches, where it is now.

    Attributes:
        position: of the argument.
        role: READ, WRITE or UPDATE.
        view: as the program has it.
        static: where its address or one value puts it; `view` where a tile of indices places its elements.
        places: of the elements, where a tile of indices names them.
    """

    position: int
    role: str
    view: NkiTensor
    static: NkiTensor
    places: DynamicPlaces | None = None


class Late:
    """Runs instructions that are bound when their turn comes."""

    def __init__(self, memory: Memory, binder: Binder, registers: RegisterFile) -> None:
        self.memory = memory
        self.binder = binder
        self.registers = registers
        self._made: list[int] = []
        # The instruction that was looked at last, with the places of its operands: it is to run next.
        self._ready: tuple[Instruction, list[_Operand]] | None = None

    def run(self, i: Instruction) -> None:
        """Run one instruction with the values registers and indices have now."""
        try:
            self._run(i)
        except _Skipped:
            pass
        finally:
            self._drop_made()

    def accesses(self, i: Instruction) -> list[Access]:
        """Return what an instruction reads and writes, element by element, with the values that addresses have now.

        It is asked right before the instruction runs. Rows that are skipped because their index is out of range are
        left out, and so are the elements of `dst` that keep their values because of that.

        Raises:
            AddressOutOfRange: an index is out of range and not to be skipped.
        """
        try:
            operands = self._placed(i)
        except _Skipped:
            return []
        self._ready = i, operands
        keeps = self._kept(i, operands)
        return [*indices_read(i), *(a for o in operands for a in _accesses(i, o, keeps))]

    def values(self, view: NkiTensor) -> np.ndarray:
        """Return a copy of what a view holds now; its address is computed from the values of this moment."""
        return self.reader(view)()

    def reader(self, view: NkiTensor, i: Instruction | None = None) -> Callable[[], np.ndarray]:
        """Return what gives a copy of what a view holds, at the address it has now.

        Of rows whose index is out of range and skipped by instruction `i`, it gives none.
        """
        skip = i is not None and skips(i)
        if view.dynamic is None:
            array = self.memory.array(view)
        elif view.dynamic.kind is Addressing.SCALAR:
            try:
                array = self.memory.array(self._moved(i, view, skip))
            except _Skipped:
                array = np.empty((0, *view.shape[1:]), self.memory.held_as(view.dtype).np)
        else:
            places = self._places(i, view, skip)
            window = self.memory.array(places.window)
            at = places.at
            if not places.valid.all():
                at = tuple(a[places.valid] for a in at)
            return lambda: window[at]
        return array.copy

    def _placed(self, i: Instruction) -> list[_Operand]:
        """Return every tensor an instruction touches with its place; raise _Skipped where it does not run at all."""
        skip = skips(i)
        placed = []
        for position, role in i.definition.roles(i):
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                if view.dynamic is None:
                    placed.append(_Operand(position, role, view, view))
                elif view.dynamic.kind is Addressing.SCALAR:
                    placed.append(_Operand(position, role, view, self._moved(i, view, skip)))
                else:
                    placed.append(_Operand(position, role, view, view, self._places(i, view, skip)))
        return placed

    def _kept(self, i: Instruction, operands: list[_Operand]) -> np.ndarray | None:
        """Return which elements of `dst` keep their values because rows that are read are skipped; None for none."""
        skipped: dict[int, list[tuple[NkiTensor, np.ndarray | None]]] = {}
        for o in operands:
            missing = o.places is not None and o.role == READ and not o.places.valid.all()
            skipped.setdefault(o.position, []).append(
                (o.view, ~o.places.valid if missing and o.places is not None else None)
            )
        if any(missing is not None for views in skipped.values() for _, missing in views):
            return _kept(i, skipped)
        return None

    def kept(self, i: Instruction, position: int, view: NkiTensor) -> np.ndarray:
        """Return which elements of an operand that is updated an instruction leaves as they are.

        It is run on two old values that differ in every bit: what differs afterwards was left alone.
        """
        results = []
        try:
            for pattern in (0x00, 0xFF):
                given: dict[int, list[NkiTensor]] = {}
                for o in self._placed(i):
                    if o.view is view and o.position == position:
                        array = np.empty(view.shape, self.memory.held_as(view.dtype).np)
                        array.view(np.uint8).fill(pattern)
                        view_of_array = self._adopt(view, array)
                        results.append(array)
                    else:
                        view_of_array = (
                            o.static if o.places is None else self._gathered(o.view, o.places, True)
                        )
                    given.setdefault(o.position, []).append(view_of_array)
                run_steps(self.binder.bind(self._at_places(i, given)))
        finally:
            self._drop_made()
        one, other = (a.view(f"u{a.itemsize}") for a in results)
        return np.asarray(one != other)

    def chosen(
        self, i: Instruction, position: int, view: NkiTensor, unwritten: np.ndarray
    ) -> np.ndarray:
        """Return which of the unwritten elements of an operand an instruction puts into `dst`.

        It is run on copies. What differs in `dst` between two values of all unwritten elements comes from one of them;
        where it does, the bits of that one's number are read off: each in a run in which those elements that have it
        set hold the one value, and the others the other.
        """
        number = np.cumsum(unwritten).reshape(unwritten.shape) - 1
        operands = self._placed(i)
        registers = {
            s: self.binder.registers[s] for s, _ in i.form.state if s in self.binder.registers
        }
        before = {s: r.copy() for s, r in registers.items()}

        def result(marked: np.ndarray) -> np.ndarray:
            given: dict[int, list[NkiTensor]] = {}
            try:
                for o in operands:
                    tensor = o.static
                    if o.places is not None:
                        tensor = self._gathered(o.view, o.places, True)
                    array = np.array(self.memory.array(tensor), order="C")
                    if o.view is view and o.position == position:
                        held = array.view(np.uint8).reshape(*array.shape, array.itemsize)
                        held[unwritten] = 0
                        held[unwritten & marked] = _MARK
                    given.setdefault(o.position, []).append(self._adopt(o.view, array))
                run_steps(self.binder.bind(self._at_places(i, given)))
                dst = self.memory.array(given[i.definition.position["dst"]][0])
                return dst.reshape(-1).view(f"u{dst.itemsize}").copy()
            finally:
                self._drop_made()
                for s, values in before.items():
                    registers[s][...] = values

        without, marked = result(np.zeros_like(unwritten)), result(unwritten)
        differs = without != marked
        numbers = np.zeros(np.count_nonzero(differs), np.int64)
        for bit in range(int(number.max()).bit_length() if numbers.size else 0):
            some = result(number >> bit & 1 == 1)
            numbers |= (some[differs] == marked[differs]).astype(np.int64) << bit
        return unwritten & np.isin(number, numbers)

    def _run(self, i: Instruction) -> None:
        ready, self._ready = self._ready, None
        operands = ready[1] if ready is not None and ready[0] is i else self._placed(i)
        keeps = self._kept(i, operands)
        after: list[Callable[[], None]] = []
        given: dict[int, list[NkiTensor]] = {}
        put: set[int] = set()
        for o in operands:
            static = o.static
            if o.places is not None:
                static = self._gathered(o.view, o.places, o.role != WRITE)
                if o.role != READ:
                    put.add(o.position)
                    after.append(partial(self._scatter, i, static, o.places, keeps))
            given.setdefault(o.position, []).append(static)
        at_dst = i.definition.position.get("dst")
        if keeps is not None and at_dst is not None and at_dst not in put:
            given[at_dst] = [self._aside(given[at_dst][0], keeps, after)]
        run_steps(self.binder.bind(self._at_places(i, given)))
        for position in i.form.registers_set:
            self.registers.set(i.args[position], int(self.binder.set_values[position][0]))
        for finish in after:
            finish()

    def _at_places(self, i: Instruction, given: dict[int, list[NkiTensor]]) -> Instruction:
        """Return an instruction with the values of registers, and with tensors at fixed places, by position."""
        definition = i.definition
        args: list[Any] = []
        for position, value in enumerate(i.args):
            if isinstance(value, Register) and definition.params[position] not in definition.sets:
                args.append(self.registers.get(value, i))
            elif position in given:
                views = given[position]
                args.append(tuple(views) if type(value) is tuple else views[0])
            else:  # one that is not touched has no address to wait for
                args.append(value)
        static = Instruction(definition, tuple(args), i.stack)
        static.form = i.form
        return static

    def _drop_made(self) -> None:
        for key in self._made:
            self.memory.drop(key)
            self.binder.written.pop(key, None)
        self._made.clear()

    def placed(self, i: Instruction) -> dict[str, Any]:
        """Return the tensors of an instruction by name (tuples of lists), where its registers place them now.

        For instructions whose operands no tile of indices addresses.
        """
        return {name: self._place(i, getattr(i, name)) for name in i.definition.operands}

    def _place(self, i: Instruction, view: Any) -> Any:
        if type(view) is tuple:
            return tuple(self._place(i, v) for v in view)
        if type(view) is NkiTensor and view.dynamic is not None:
            return self._moved(i, view, skip=False)
        return view

    # -- one value moves a view ----------------------------------------------------------------------------------

    def _moved(self, i: Instruction | None, view: NkiTensor, skip: bool) -> NkiTensor:
        """Return a view as one index places it; raise _Skipped when it is out of range and to be skipped."""
        dynamic = view.dynamic
        assert dynamic is not None
        index = dynamic.index
        if isinstance(index, Register):
            value = self.registers.get(index, i)
        else:
            assert isinstance(index, NkiTensor)
            value = int(self.memory.array(index).reshape(-1)[0])
        offset = view.offset + value * dynamic.step
        reach = 1 << 32
        if abs(value * dynamic.step) * view.dtype.itemsize >= reach and index.dtype is not int64:
            raise AddressOutOfRange(
                f"{view.describe()}: index {value} is {value * dynamic.step * view.dtype.itemsize:,} bytes away, and an"
                f" index of 32 bits reaches {reach:,}",
                stack=i.stack if i is not None else (),
                help="load the index from an int64 tile, with nisa.scalar_load",
            )
        outside = (dynamic.limit and not 0 <= value < dynamic.limit) or leaves_storage(
            view.storage, view.shape, view.strides, offset, view.dtype.itemsize
        )
        if not outside:
            return NkiTensor._make(view.storage, view.shape, view.strides, offset, view.dtype)
        if skip:
            raise _Skipped
        raise out_of_range(i, view, value)

    # -- a tile of indices names rows or elements ----------------------------------------------------------------

    def _places(self, i: Instruction | None, view: NkiTensor, skip: bool) -> DynamicPlaces:
        dynamic = view.dynamic
        assert dynamic is not None and isinstance(dynamic.index, NkiTensor)
        places = places_of(i, view, self.memory.array(dynamic.index))
        if not (skip and dynamic.kind is Addressing.VECTOR) and not places.valid.all():
            where = tuple(np.argwhere(~places.valid)[0])
            value = int(places.chosen[where])
            raise out_of_range(i, view, value, f" for partition {where[0]}")
        return places

    def _gathered(self, view: NkiTensor, places: DynamicPlaces, filled: bool) -> NkiTensor:
        """Return a new contiguous tensor for `view`; `filled` with the elements at `places`."""
        window = self.memory.array(places.window)
        # NumPy promises no order of what an array of indices gives.
        array = np.ascontiguousarray(window[places.at]) if filled else None
        gathered = self._adopt(view, np.empty(view.shape, window.dtype) if array is None else array)
        mask = self.binder.written.get(view.storage.id)
        if mask is not None:
            written = mask.reshape(view.storage.partitions, -1)[places.at]
            self.binder.written[gathered.storage.id] = written.reshape(-1)
        return gathered

    def _scatter(
        self, i: Instruction, gathered: NkiTensor, places: DynamicPlaces, keeps: np.ndarray | None
    ) -> None:
        """Put the elements of `made` at their places, but those of indices out of range or marked in `keeps`."""
        valid, storage = places.valid, places.window.storage
        if "unique_indices" in i.definition.position:
            _check_unique(i, places)
        elif not storage.on_chip:
            self._note_repeats(i, places)
        window, values = self.memory.array(places.window), self.memory.array(gathered)
        if keeps is not None:  # rows of HBM
            for row in np.flatnonzero(valid):
                np.copyto(window[places.at[0][row]], values[row], where=~keeps[row])
            return
        at = tuple(a[valid] for a in places.at)
        window[at] = values[valid]
        mask = self.binder.written.get(storage.id)
        if mask is not None:
            mask.reshape(storage.partitions, -1)[at] = True

    def _note_repeats(self, i: Instruction, places: DynamicPlaces) -> None:
        chosen = places.chosen[places.valid]
        repeats = len(chosen) - len(np.unique(chosen))
        if repeats:
            self.binder.notice(
                i.definition.name, i.stack, repeats, len(places.chosen),
                f"rows of {places.window.storage.describe()} are written again by the same transfer",
                "let every index be named once: which write lasts is not defined on the chip, here it is the later one",
            )  # fmt: skip

    def _aside(
        self, dst: NkiTensor, keeps: np.ndarray, after: list[Callable[[], None]]
    ) -> NkiTensor:
        """Return a tensor for the instruction to write instead of `dst`; what is not kept follows after it."""
        real = self.memory.array(dst)
        aside = np.array(real, order="C")
        after.insert(0, partial(np.copyto, real, aside, where=~keeps))
        return self._adopt(dst, aside)

    def _adopt(self, view: NkiTensor, array: np.ndarray) -> NkiTensor:
        key = -1 - len(self._made)
        self._made.append(key)
        address = None
        if view.storage.on_chip:  # hidden registers are those of its partitions
            placed = self.memory.addresses.get(view.storage.id, view.storage.address)
            first = placed.partition if placed is not None else 0
            address = Address(first + view.start_partition, 0)
        storage = Storage(
            key, view.name, view.shape, view.dtype, view.buffer, address=address, owner=view.storage.owner
        )  # fmt: skip
        pitch = array.nbytes // storage.partitions
        self.memory.adopt(storage, Base(array.reshape(-1).view(np.uint8), 0, pitch))
        return whole_view(storage)


def skips(i: Instruction) -> bool:
    """Tell whether an instruction leaves out what an index out of range names."""
    return "oob_mode" in i.definition.position and i.oob_mode.name == "skip"


def _accesses(i: Instruction, o: _Operand, keeps: np.ndarray | None) -> list[Access]:
    """Return what an instruction does with an operand; `keeps` are the elements of `dst` that it leaves alone."""
    kept = keeps if o.role != READ else None
    exact = skips(i) and o.role != READ
    if o.places is None and kept is None:
        accesses = operand_accesses(i, o.position, o.role, o.view, o.static)
        return [a._replace(elements=a.elements._replace(exact=exact)) for a in accesses]
    if o.places is None:
        assert kept is not None
        elements = Elements(o.static, np.nonzero(~kept), None, exact)
        return [Access(o.position, o.role, o.view, elements)]
    valid, at, rows = o.places.valid, o.places.at, None
    if kept is not None:  # rows of HBM, and elements in them
        written = ~kept
        written[~valid] = False
        chosen, *inner = np.nonzero(written)
        at = (at[0][chosen], *inner)
    elif not valid.all():
        at, rows = tuple(a[valid] for a in at), np.flatnonzero(valid)
    return [Access(o.position, o.role, o.view, Elements(o.places.window, at, rows, exact))]


def _kept(
    i: Instruction, skipped: dict[int, list[tuple[NkiTensor, np.ndarray | None]]]
) -> np.ndarray:
    """Return which elements of `dst` keep their values: marks go the way of the elements that are skipped.

    Only instructions that move and add have oob_mode. A sum of booleans is True where one of them is.
    """
    definition = i.definition
    given: dict[str, Any] = dict(zip(definition.params, i.args, strict=True))
    for position in skipped:
        name = definition.params[position]
        marks = tuple(_marks(missing, view) for view, missing in skipped[position])
        given[name] = marks if definition.operands[name].many else marks[0]
    given["out"] = np.zeros(i.dst.shape, bool)
    given = {n: given[n] for n in wanted(definition)}
    definition.facets["semantics"](**given)
    return given["out"]


def _marks(missing: np.ndarray | None, view: NkiTensor) -> np.ndarray:
    """Return a boolean per element of `view` from one per row, or none where nothing is missing."""
    if missing is None:
        return np.zeros(view.shape, bool)
    return np.broadcast_to(missing.reshape(-1, *(1,) * (view.ndim - 1)), view.shape)


def _check_unique(i: Instruction, places: DynamicPlaces) -> None:
    values, counts = np.unique(places.chosen[places.valid], return_counts=True)
    if (counts > 1).any():
        raise AddressOutOfRange(
            f"{i.definition.name}: index {values[counts > 1][0]} names a row of"
            f" {places.window.storage.describe()} more than once, which is undefined on the chip",
            stack=i.stack,
            help="name every row once, and add up beforehand what goes to the same row",
        )
