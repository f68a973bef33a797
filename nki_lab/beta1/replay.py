"""Replays the trips of a loop that differ only in where their accesses start.

Python runs the body for the first trips. Where two of them in a row emitted the same instructions, and what the loop
variable moved differs by constants, the trips after them but the last are copies: each tensor that the body makes is
made again, and each access moves by its constant once more. What decisions of the dialect asked of the two trips
(notes.py) tells how long copies are right. Python runs the last trip again, so that variables end as they do there;
where it could have been copied, too, it is compared with what the copy would have been.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from nki_lab.beta1.inserted import INSERTED
from nki_lab.beta1.notes import Notes
from nki_lab.beta1.parallel import Trips
from nki_lab.beta1.program import Program
from nki_lab.beta1.repeatable import Body, Varies, is_known
from nki_lab.beta1.scope import Scope
from nki_lab.beta1.tile import Blocks, Tile
from nki_lab.beta1.zeros import Zeros
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor

#: How many trips Python runs before the search for two that are alike ends.
_MOST_TRIED = 5
#: Comparing two trips costs as much as Python takes for one in so many instructions of a trip.
_GAIN = 2
_NUMBERS = (int, float, bool)
_NOTHING = object()

#: Whether trips are replayed; tests compare with what Python's trips give.
enabled = [True]


class _State(NamedTuple):
    """How much there is of what a trip adds to; `fixed` is what must not change in it."""

    body: int
    storages: int
    emitted: int
    scopes: int
    clock: int
    least: int
    same: int
    zeros: int
    copied: int
    allocated: int
    fixed: tuple[int, ...]


class _Trip(NamedTuple):
    """A trip that Python has run: its number, the variables that it may carry on, and what there was around it."""

    number: int
    carried: list[Any]
    start: _State
    end: _State


class _Place(NamedTuple):
    """A block of a tensor with block axes, which moves from trip to trip."""

    blocks: Blocks
    place: tuple[int, ...]
    moves: tuple[int, ...]

    def at(self, trips: int) -> tuple[int, ...]:
        """Return the place after some trips."""
        return tuple([p + m * trips for p, m in zip(self.place, self.moves, strict=True)])

    def is_free(self, place: tuple[int, ...]) -> bool:
        """Tell whether there is such a block, and it has not been touched."""
        inside = map(range.__contains__, map(range, self.blocks.shape), place)
        return self.blocks.made(place) is None and all(inside)

    def zeros(self, place: tuple[int, ...]) -> Any:
        """Return what has been written of a block of PSUM; None where that is not kept."""
        block = self.blocks.made(place)
        return None if block is None else block.zeros


class _New(NamedTuple):
    """A tensor that a trip makes.

    Attributes:
        like: what the second of two trips has made.
        called: its name before that was made unique.
        after: slot of the tensor whose name follows there, or None.
        owner: place in the trip of the instruction that writes elsewhere now, or None.
        declared: ticks from the beginning of the trip on to its declaration; None where these are not counted.
        block: the block that it is of a tensor from before the trip, or None.
    """

    like: Storage
    called: str
    after: int | None
    owner: int | None
    declared: int | None
    block: _Place | None


class _View(NamedTuple):
    """A view of a trip: the slot of its tensor, and by how many elements it moves from trip to trip.

    Attributes:
        rows: the tile of indices that it is addressed by, or None.
    """

    slot: int
    view: NkiTensor
    moves: int
    rows: _View | None


class _Pair:
    """Two trips that have emitted the same, and so what the next ones emit.

    Attributes:
        most: how many trips after the second one are as it is.
        moves: by how much anything moves from the first trip to the second.
    """

    def __init__(self, a: _Trip, b: _Trip, builder: Builder, program: Program) -> None:
        self.b, self.most, self.moves = b, 1 << 62, list[Any]()
        self._builder, self._program = builder, program
        self._starts = a.start.storages, b.start.storages
        grown = [tuple([x - y for x, y in zip(t.end[:-2], t.start[:-2])]) for t in (a, b)]  # noqa: B905
        alike = all(map(_is_same, a.carried, b.carried)) and b.start.fixed == b.end.fixed
        notes = builder.notes
        _require(alike and grown[0] == grown[1])
        _require(notes.same[a.start.same : a.end.same] == notes.same[b.start.same : b.end.same])
        for x, y in _both(notes.least, "least", a, b):
            self._limit(y, y - x)
        bodies = [[*builder.body[t.start.body : t.end.body]] for t in (a, b)]
        self._order = [{id(i): at for at, i in enumerate(body)} for body in bodies]
        self._slots: dict[Any, int] = {}
        self._others: list[Storage | tuple[Storage, _Place]] = []
        self._count = b.end.storages - b.start.storages
        self._named: dict[str, Storage] = {}
        self.new = [self._made(x, y) for x, y in _both(builder.storages, "storages", a, b)]
        self._blocks = [(at, n.block) for at, n in enumerate(self.new) if n.block is not None]
        #: The tensors that a trip makes differ in their names only.
        self._plain = not any(
            n.after is not None or n.declared is not None or n.block for n in self.new
        )
        self._nested = b.end.scopes > b.start.scopes
        self._written: dict[int, int] = {}
        self.plan = [self._emitted(x, y) for x, y in zip(*bodies, strict=True)]
        #: What is written of zeros of PSUM in blocks that a trip makes.
        self.zeros: list[tuple[_View, _Place]] = []
        for (u, _), (v, anew) in _both(notes.zeros, "zeros", a, b):
            view = self._view(u, v)
            if view.slot >= self._count:
                _require(isinstance(self._others[view.slot - self._count], Storage))
                _require(not view.moves and not anew)
            elif anew and (block := self.new[view.slot].block) is not None:
                self.zeros.append((view, block))

    def check(self, last: _Trip) -> None:
        """Raise where the last trip is not what its copy would be."""
        trips = last.number - self.b.number
        try:
            moves = _Pair(self.b, last, self._builder, self._program).moves
        except Varies:
            moves = []
        if moves != [_times(m, trips) for m in self.moves]:
            raise RuntimeError(
                "the last trip of a loop is not as those that were replayed before it"
            )

    def _limit(self, number: int, moves: int) -> None:
        """Take into account that a number, which moves from trip to trip, must not become negative."""
        if moves < 0:
            self.most = min(self.most, number // -moves)

    # -- what the trips have in common ---------------------------------------------------------------------------

    def _made(self, u: Storage, v: Storage) -> _New:
        """Return what is made in each trip, from what the first and the second have made."""
        _require(
            (u.shape, u.dtype, u.buffer, u.address, u.named, u.loop, u.masked)
            == (v.shape, v.dtype, v.buffer, v.address, v.named, v.loop, v.masked)
            and u.stack == v.stack and v.on_chip and v.origin == u.origin == "temporary" and v.data is None
        )  # fmt: skip
        owner = None
        if isinstance(v.owner, Instruction):
            owner = self._order[1].get(id(v.owner))
            _require(owner is not None and owner == self._order[0].get(id(u.owner)))
        else:
            _require(u.owner is v.owner is self._builder)
        declared, block = self._program.declared.get(v.id), self._place(u, v)
        if block is not None:
            return _New(v, f"{block.blocks.name}[", None, owner, declared, block)
        if declared is not None:
            declared -= self.b.start.clock
            _require(declared >= 0)
        _require(u.name.startswith(u.called) and v.name.startswith(v.called))
        if v.called == u.called:
            return _New(v, v.called, None, owner, declared, None)
        # Copies that were inserted are named after what they are a copy of.
        if not self._named:
            self._named = {f"{INSERTED}_{s.name}": s for s in self._builder.storages}
        first, second = self._named.get(u.called), self._named.get(v.called)
        if first is None or second is None:
            raise Varies
        return _New(v, f"{INSERTED}_", self._slot(first, second), owner, declared, None)

    def _place(self, u: Storage, v: Storage) -> _Place | None:
        """Return the block that two tensors are of one tensor from before the trips; None where they are not."""
        places = self._program.places
        (blocks, first), (others, second) = (places.get(s.id, (None, ())) for s in (u, v))
        if blocks is None or blocks is not others:
            return None
        moves = tuple(y - x for x, y in zip(first, second, strict=True))
        self.moves.append(moves)
        return _Place(blocks, second, moves)

    def _slot(self, u: Storage, v: Storage) -> int:
        """Return the slot of a tensor, which is `u` in the first trip and `v` in the second."""
        before, start = self._starts
        if v.id >= start:
            _require(u.id - before == v.id - start)
            return v.id - start
        key = u.id, v.id
        slot = self._slots.get(key)
        if slot is None:
            place = None if u is v else self._place(u, v)
            _require(u is v or place is not None)
            self._others.append(v if place is None else (v, place))
            slot = self._slots[key] = self._count + len(self._others) - 1
        return slot

    def _view(self, u: Any, v: Any) -> _View:
        _require(type(u) is type(v) is NkiTensor)
        _require((u.shape, u.strides, u.dtype) == (v.shape, v.strides, v.dtype))
        rows = None
        one, other = u.dynamic, v.dynamic
        if one is not None or other is not None:
            _require(one is not None and other is not None)
            _require((one.kind, one.step, one.limit) == (other.kind, other.step, other.limit))
            rows = self._view(one.index, other.index)
        slot, moves = self._slot(u.storage, v.storage), v.offset - u.offset
        self.moves.append(moves)
        if moves:  # it stays where forms do not tell it from the others
            reach, size = v.storage.form_bytes, v.dtype.itemsize
            into = v.offset * size % reach
            self._limit(into if moves < 0 else reach - 1 - into, -abs(moves) * size)
        return _View(slot, v, moves, rows)

    def _emitted(self, i: Any, j: Any) -> tuple[Any, ...]:
        """Return an instruction of the trips, and the views among its arguments that differ from trip to trip."""
        _require(
            type(i) is type(j) is Instruction and i.form is j.form and i.stack == j.stack
            and not i.after and not j.after and not j.form.broken and not j.form.registers_set
        )  # fmt: skip
        views: list[Any] = []
        others: list[tuple[int, Any]] = []
        for at, (x, y) in enumerate(zip(i.args, j.args, strict=True)):
            if type(y) is NkiTensor:
                view = self._view(x, y)
                if view.rows:
                    others.append((at, view))
                elif view.moves or not self._is_fixed(view.slot):
                    views.append((at, *view))
                if (
                    self._nested and at in j.form.writes
                ):  # no trip inside meets what it does not meet here
                    _require(self._written.setdefault(view.slot, view.moves) == view.moves)
            elif type(y) is tuple and any(map(_holds_view, y)):
                _require(type(x) is tuple and len(x) == len(y) and not self._nested)
                others.append((at, [self._part(p, q) for p, q in zip(x, y, strict=True)]))
            else:
                _require(_is_same(x, y))
        ident = j.ident - self.b.start.emitted
        return j.definition, j.form, j.stack, ident, j.args, views, others

    def _part(self, x: Any, y: Any) -> Any:
        if type(y) is NkiTensor:
            return self._view(x, y)
        _require(_is_same(x, y))
        return y

    def _is_fixed(self, slot: int) -> bool:
        return slot >= self._count and isinstance(self._others[slot - self._count], Storage)

    # -- copies --------------------------------------------------------------------------------------------------

    def replay(self, trips: int) -> bool:
        """Append the trip that stands so many after the second one; return False, and do nothing, where it differs."""
        builder, program, start = self._builder, self._program, self.b.start
        others = [s for other in self._others if (s := self._other(other, trips)) is not None]
        places = {at: block.at(trips) for at, block in self._blocks}
        touched = {(id(block.blocks), places[at]) for at, block in self._blocks}
        if (
            not all(block.is_free(places[at]) for at, block in self._blocks)
            # What two trips kept apart must not be one here.
            or len(touched) < len(places)
            or len({id(s) for s in others}) < len(self._others)
        ):
            return False
        emitted = builder._count
        at, made = len(builder.body), len(builder.storages)
        ticks = program.clock - start.clock
        now: list[Storage] = []
        for slot, new in enumerate(self.new):
            if self._plain:
                now.append(self._copy(new.like, new.called))
            else:
                now.append(self._again(new, places.get(slot), ticks, now, others))
        now += others
        builder.notes.copied += len(self.plan)
        body, make = builder.body, NkiTensor._make
        for definition, form, stack, ident, args, views, rest in self.plan:
            if views or rest:
                changed = list(args)
                for k, slot, v, moves, _ in views:
                    changed[k] = make(
                        now[slot], v.shape, v.strides, v.offset + moves * trips, v.dtype
                    )
                for k, part in rest:
                    changed[k] = _moved(part, now, trips)
                args = tuple(changed)
            i = Instruction(definition, args, stack)
            i.form, i.ident = form, emitted + ident
            body.append(i)
        for new, storage in zip(self.new, now):  # noqa: B905
            if new.owner is not None:
                storage.owner = body[at + new.owner]
        for view, block in self.zeros:
            block.zeros(places[view.slot]).write(_moved(view, now, trips))
        end = self.b.end
        shift = made - start.storages
        for scope in program.scopes[start.scopes : end.scopes]:
            program.scopes.append(
                Scope(
                    scope.loop, scope.first + shift, scope.end + shift, scope.began + ticks, scope.ended + ticks,
                    scope.at + at - start.body,
                )
            )  # fmt: skip
        program.clock += end.clock - start.clock
        builder._count += end.emitted - start.emitted
        if self.new:
            builder._allocated = emitted + end.allocated - start.emitted
        return True

    def _other(self, other: Any, trips: int) -> Storage | None:
        """Return a tensor from before the trip; None where it is a block that is not there or not alike."""
        if isinstance(other, Storage):
            return other
        like, block = other
        tile = block.blocks.made(block.at(trips))
        storage = None if tile is None else tile.base.storage
        if (
            storage is None
            or storage.masked != like.masked
            or _partition(storage) != _partition(like)
        ):
            return None
        return storage

    def _copy(self, like: Storage, called: str) -> Storage:
        """Make a tensor as another one, but for its name, which begins with `called`."""
        builder = self._builder
        storage = like.again(len(builder.storages), builder._unique(called), called, builder)
        builder.storages.append(storage)
        return storage

    def _again(
        self, new: _New, place: Any, ticks: int, now: list[Storage], others: list[Storage]
    ) -> Storage:
        """Make a tensor of the trip again, at a place if it is a block."""
        program, number, called = self._program, len(self._builder.storages), new.called
        if new.after is not None:
            at = new.after
            called += (now[at] if at < len(now) else others[at - self._count]).name
        if new.declared is not None:
            since = 0 if new.block else self.b.start.clock + ticks
            program.declared[number] = new.declared + since
        if new.block is None:
            return self._copy(new.like, called)
        blocks = new.block.blocks
        storage = self._copy(new.like, f"{blocks.name}[{', '.join(map(str, place))}]")
        program.places[number] = blocks, place
        sizes = storage.shape
        view = NkiTensor._make(storage, sizes, contiguous_strides(sizes), 0, storage.dtype)
        zeros = new.block.zeros(new.block.place)
        if zeros is not None:
            now_zero = zeros.set
            zeros = Zeros(zeros.filled)
            zeros.set = now_zero
        blocks.take(place, Tile(view, zeros=zeros))
        return storage


def _require(holds: bool) -> None:
    if not holds:
        raise Varies


def _both(notes: list[Any], name: str, a: _Trip, b: _Trip) -> Iterator[tuple[Any, Any]]:
    """Return what two trips have added to a list, in pairs."""
    first, second = (notes[getattr(t.start, name) : getattr(t.end, name)] for t in (a, b))
    return zip(first, second, strict=True)


def _is_same(x: Any, y: Any) -> bool:
    """Tell whether two values, of which none is a tile unless both are one, are the same."""
    if type(x) is tuple and type(y) is tuple:
        return len(x) == len(y) and all(map(_is_same, x, y))
    plain = isinstance(x, (int, float, str, type(None)))
    return x is y or (plain and type(x) is type(y) and x == y)


def _times(moves: Any, trips: int) -> Any:
    return tuple([m * trips for m in moves]) if type(moves) is tuple else moves * trips


def _holds_view(value: Any) -> bool:
    return type(value) is NkiTensor or (type(value) is tuple and any(map(_holds_view, value)))


def _partition(storage: Storage) -> int:
    return storage.address.partition if storage.address is not None else 0


def _moved(part: Any, now: list[Any], trips: int) -> Any:
    """Return an argument after some trips."""
    if type(part) is list:
        return tuple([_moved(p, now, trips) for p in part])
    if type(part) is not _View:
        return part
    slot, v, moves, rows = part
    dynamic = v.dynamic
    if rows is not None:
        assert dynamic is not None
        dynamic = Dynamic(dynamic.kind, _moved(rows, now, trips), dynamic.step, dynamic.limit)
    return NkiTensor._make(
        now[slot], v.shape, v.strides, v.offset + moves * trips, v.dtype, dynamic
    )


class Replay:
    """Follows the trips of one loop, and replays those that can be."""

    def __init__(
        self, body: Body, frame: FrameType, builder: Builder, program: Program, put_back: set[str]
    ) -> None:
        self._carried, self._frame, self._put_back = sorted(body.carried), frame, put_back
        self._builder, self._program = builder, program
        self._begun: tuple[int, list[Any], _State] | None = None
        self._last: _Trip | None = None
        #: What the last trip, which Python runs, must be as.
        self._expected: _Pair | None = None
        self._tried = 0

    def begin(self, number: int) -> None:
        """Look at what there is before a trip."""
        self._begun = number, self._values(), self._state()

    def end(self, trips: Trips, left: int) -> int:
        """Look at what a trip has emitted, and replay those after it; return how many were.

        Args:
            trips: of the loop; the trip has ended in it.
            left: how many trips there are still.
        """
        assert self._begun is not None
        number, carried, start = self._begun
        before, self._last = self._last, _Trip(number, carried, start, self._state())
        if self._expected is not None:
            self._expected.check(self._last)
        self._tried += 1
        if left < 2 or self._tried > _MOST_TRIED or before is None or before.number + 1 != number:
            return 0
        end = self._last.end
        emitted = end.body - start.body
        if (emitted - (end.copied - start.copied)) * _GAIN * (left - 1) < emitted:
            return 0
        try:
            _require(all(map(self._stays, self._carried, carried, self._values())))
            pair = _Pair(before, self._last, self._builder, self._program)
        except Varies:
            return 0
        for trip in range(1, left):
            trips.begin()
            if trip > pair.most or not pair.replay(trip):
                return trip - 1
            trips.end()
        if left <= pair.most:
            self._expected = pair
        return left - 1

    def _values(self) -> list[Any]:
        found = self._frame.f_locals
        return [found.get(name, _NOTHING) for name in self._carried]

    def _stays(self, name: str, before: Any, after: Any) -> bool:
        """Tell whether a trip begins with a variable as the one before it did."""
        if name in self._put_back and type(after) in _NUMBERS:
            return True
        return _is_same(before, after) and (before is _NOTHING or is_known(before))

    def _state(self) -> _State:
        builder, program = self._builder, self._program
        notes = builder.notes
        fixed = (
            len(builder.errors), len(builder.findings), len(builder.registers), len(builder.edges),
            len(program.shared), program.count,
        )  # fmt: skip
        return _State(
            len(builder.body), len(builder.storages), builder._count, len(program.scopes), program.clock,
            len(notes.least), len(notes.same), len(notes.zeros), notes.copied, builder._allocated, fixed,
        )  # fmt: skip


@contextmanager
def noting(builder: Builder) -> Iterator[None]:
    """Let decisions be noted, for a block."""
    outer = builder.notes
    builder.notes = outer or Notes()
    try:
        yield
    finally:
        builder.notes = outer
