"""Meetings: how ranks exchange data in a collective, and the two cores of a logical core in theirs (LNC2).

A collective takes place when every rank of a group has come to it. Tensors in shared HBM belong to both cores of a
rank, so there both cores come, and it acts on them once; tensors in SBUF are a core's own, so each core meets the same
core of the other ranks. All sources are read before any destination is written.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from nki_lab.errors import MissingPartner, NotModelled, RanksDiffer
from nki_lab.ir.definition.form_key import key_of
from nki_lab.ir.definition.instruction import READ, UPDATE, WRITE, Instruction, Operand
from nki_lab.ir.program.logical_core import joins_cores, may_pass, meets_itself, pipe_of
from nki_lab.ir.program.unwritten import may_keep_elements
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.isa.numerics import FLOAT32, load_cast, store_cast
from nki_lab.isa.replica_groups import group_of
from nki_lab.simulator.bind import wanted
from nki_lab.simulator.late import Late
from nki_lab.simulator.rendezvous import CorePlace, Meeting, Partner
from nki_lab.source import Span


class RankMeeting(Meeting):
    """A step in which a rank waits for the others of its group."""

    advice = "make every rank of the group, and both of its cores, reach the same collectives in the same order"

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The ranks of its group, in the group's order."""
        i, ranks = self.i, self.program.world.ranks
        assert i.definition.groups is not None
        groups = i.definition.groups(i, ranks)
        last = max(rank for group in groups for rank in group)
        if last >= ranks:
            raise MissingPartner(
                f"{i.definition.name}: there is no rank {last}: the kernel runs as {ranks} rank{'s' * (ranks > 1)}",
                stack=i.stack,
                help=f"run it with nki_lab.launch(kernel, ranks={last + 1}, inputs=[...]), one entry per rank",
            )
        return group_of(i.definition.name, groups, self.place.rank)

    @cached_property
    def _parties(self) -> tuple[CorePlace, ...]:
        cores = range(self.program.world.cores) if joins_cores(self.i) else (self.place.core,)
        return tuple(CorePlace(rank, core) for rank in self.members for core in cores)

    def parties(self) -> tuple[CorePlace, ...]:
        """Return the cores of the ranks of its group that take part."""
        return self._parties

    def key(self) -> Hashable:
        """Return who meets: whether they mean the same collective is asked when all have come."""
        return self._parties

    def describe(self) -> str:
        """Return how messages call it."""
        return f"{self.i.definition.name} of ranks {list(self.members)}"

    def exchange(self, calls: Sequence[RankMeeting]) -> None:
        """Compute what every rank receives."""
        _check_alike(calls)
        by_rank: dict[int, list[RankMeeting]] = {rank: [] for rank in self.members}
        for call in calls:
            by_rank[call.place.rank].append(call)
        _Act(list(by_rank.values())).run()


class _Act:
    """One collective of one group: arrays of every rank, the meaning, and where results go.

    Args:
        calls: per rank, in the group's order, the meetings of its cores that take part.
    """

    def __init__(self, calls: list[list[RankMeeting]]) -> None:
        self.calls = calls
        self.lead = calls[0][0].i
        self.results: list[tuple[np.ndarray, list[np.ndarray], Any]] = []

    def run(self) -> None:
        """Compute and store."""
        i, definition = self.lead, self.lead.definition
        numerics = definition.numerics(i) if definition.numerics is not None else {}
        roles = {definition.params[k]: role for k, role in definition.roles(i)}
        given: dict[str, Any] = dict(zip(definition.params, i.args, strict=True))
        for name in definition.operands:
            compute, role = numerics.get(name, FLOAT32), roles.get(name, READ)
            if role != WRITE:
                given[name] = self._each(name, lambda v, n=name, c=compute: self._read(n, v, c))
            if role != READ:
                kept = role == UPDATE
                given[f"out_{name}"] = self._each(
                    name, lambda v, c=compute, k=kept: self._result(v, c, k)
                )
        given["ranks"] = tuple(row[0].place.rank for row in self.calls)
        given["target"] = self.calls[0][0].program.kernel.target
        definition.facets["semantics"](**{name: given.get(name) for name in wanted(definition)})
        for name, role in roles.items():
            if may_keep_elements(i, definition.position[name], role):
                self._note_received(name, given)
        for result, places, cast in self.results:
            for place in places:
                if cast is None:
                    np.copyto(place, result, casting="unsafe")
                else:
                    cast(result, place)

    def _each(self, name: str, make: Any) -> tuple[Any, ...]:
        """Return `make(views)` per rank, or per rank a tuple of them for a list of tensors.

        `views` are a tensor's (program, view) pairs, one for each core that takes part.
        """
        operand: Operand = self.lead.definition.operands[name]
        results = []
        for row in self.calls:
            values = [(call.program, call.tensors[name]) for call in row]
            if operand.many:
                count = len(values[0][1])
                results.append(tuple(make([(p, v[k]) for p, v in values]) for k in range(count)))
            else:
                results.append(make(values))
        return tuple(results)

    def _note_received(self, name: str, given: Mapping[str, Any]) -> None:
        """Note which elements of an operand every rank gets, where that matters for what is unwritten.

        The meaning is computed on two old values that differ in every bit: what differs afterwards was left alone.
        """
        tensors = [
            (call.program.unwritten, k, n, view)
            for k, row in enumerate(self.calls)
            for call in row
            for n, view in enumerate(_listed(call.tensors[name]))
        ]
        if not any(unwritten.has_mask(view) for unwritten, _, _, view in tensors):
            return
        definition, out = self.lead.definition, f"out_{name}"
        results = []
        for pattern in (0x00, 0xFF):
            filled = tuple(tuple(map(np.empty_like, _listed(rank))) for rank in given[out])
            for array in chain(*filled):
                array.view(np.uint8).fill(pattern)
            many = definition.operands[name].many
            again = {**given, out: filled if many else tuple(rank[0] for rank in filled)}
            definition.facets["semantics"](**{n: again.get(n) for n in wanted(definition)})
            results.append(filled)
        for unwritten, k, n, view in tensors:
            one, other = (filled[k][n].view(np.uint8) for filled in results)
            same = (one == other).reshape(*view.shape, -1).all(axis=-1)
            unwritten.received(view, same)

    def _read(self, name: str, views: list[tuple[Any, NkiTensor]], compute: Any) -> np.ndarray:
        first, *others = self._arrays(views)
        if others:
            part = self.lead.definition.operands[name].part or (lambda i, view: view)
            read = {p.memory.array(part(self.lead, v)).tobytes() for p, v in views}
            if len(read) > 1:
                raise RanksDiffer(
                    f"{self.lead.definition.name}: `{name}` holds other values on core 1 of a rank than on core 0",
                    stack=self.lead.stack,
                    help="write the same values on both cores",
                )
        program, view = views[0]
        cast = load_cast(program.memory.held_as(view.dtype), compute)
        if cast is None:
            return first
        array = np.empty(first.shape, compute)
        cast(first, array)
        return array

    def _result(self, views: list[tuple[Any, NkiTensor]], compute: Any, kept: bool) -> np.ndarray:
        arrays = self._arrays(views)
        program, view = views[0]
        held = program.memory.held_as(view.dtype)
        array = np.empty(arrays[0].shape, held.np if compute is None else compute)
        if kept:
            np.copyto(array, arrays[0], casting="unsafe")
        self.results.append((array, arrays, store_cast(compute, held)))
        return array

    def _arrays(self, views: list[tuple[Any, NkiTensor]]) -> list[np.ndarray]:
        """Return the arrays of a tensor, one where the cores share it."""
        arrays = [program.memory.array(view) for program, view in views]
        first = arrays[0]
        if len(arrays) == 1 or all(_is_same(first, other) for other in arrays[1:]):
            return [first]
        if not views[0][1].storage.on_chip:
            raise NotModelled(
                f"{self.lead.definition.name}: the cores of a rank give different tensors in HBM,"
                f" {views[0][1].describe()} and {views[1][1].describe()}; no page says what that means",
                stack=self.lead.stack,
                help="give both cores the same view of a shared_hbm tensor: a collective acts on it once",
            )
        return arrays


def _listed(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


def _is_same(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.ctypes.data, a.shape, a.strides, a.dtype) == (
        b.ctypes.data,
        b.shape,
        b.strides,
        b.dtype,
    )


def _check_alike(calls: Sequence[RankMeeting]) -> None:
    """Refuse ranks or cores that came to different collectives."""
    first = calls[0]
    for other in calls[1:]:
        if other.i is first.i:
            continue
        a, b = first.i, other.i
        name = first.program.world.name
        if a.definition is not b.definition:
            raise RanksDiffer(
                f"{name(first.place)} is in {a.definition.name}{_at(first)} while {name(other.place)} is in"
                f" {b.definition.name}{_at(other)}",
                stack=a.stack,
                help=RankMeeting.advice,
            )
        for parameter, x, y in zip(a.definition.params, a.args, b.args, strict=True):
            if parameter != "name" and _facts(x) != _facts(y):
                raise RanksDiffer(
                    f"{a.definition.name}: `{parameter}` is {_shown(x)} on {name(first.place)}{_at(first)} and"
                    f" {_shown(y)} on {name(other.place)}{_at(other)}",
                    stack=a.stack,
                    help="give every rank of the group tensors of one shape and dtype, and the same arguments",
                )


def _facts(value: Any) -> Any:
    """Return what of an argument must agree: of tensors the shape, element type and memory."""
    if type(value) is NkiTensor:
        return value.shape, value.dtype, value.storage.on_chip
    if type(value) is tuple:
        return tuple(_facts(v) for v in value)
    return key_of(value)


def _shown(value: Any) -> str:
    if type(value) is tuple and value and type(value[0]) is NkiTensor:
        return ", ".join(v.describe() for v in value)
    return value.describe() if type(value) is NkiTensor else repr(value)


def _at(call: RankMeeting) -> str:
    return f" at {Span.of(call.i.stack[0])}" if call.i.stack else ""


# -- the two cores of a logical core (LNC2) -----------------------------------------------------------------------


class CoreMeeting(Meeting):
    """A step in which a core waits for the other one.

    Attributes:
        sent, received: what goes, and the array of what comes, or None for a barrier; known when the core has come.
        pipe: what groups meetings that belong together, or None.
    """

    advice = "make both cores issue the same barriers and transfers in the same order"

    def __init__(self, i: Instruction, program: Partner, late: Late) -> None:
        super().__init__(i, program, late)
        self.pipe = pipe_of(i)
        self.may_pass = may_pass(i)  # pipes do not wait for each other
        self.sent: np.ndarray | None = None
        self.received: np.ndarray | None = None

    def parties(self) -> tuple[CorePlace, ...]:
        """Return both cores, or the one that sends to itself."""
        rank, core = self.place
        if self.program.world.cores == 1 or meets_itself(self.i, core):
            return (self.place,)
        return CorePlace(rank, 0), CorePlace(rank, 1)

    def key(self) -> Hashable:
        """Return the pipe of the rank, and who shares it: a core that sends to itself meets nobody."""
        return self.i.definition, self.pipe, self.parties()

    def describe(self) -> str:
        """Return how messages call it."""
        pipe = f" (pipe_id={self.pipe})" if self.pipe is not None else ""
        return f"{self.i.definition.name}{pipe}"

    def post(self) -> None:
        """Take what is sent as it is now; the tile may be overwritten afterwards."""
        super().post()
        if self.may_pass:
            sent, received = (self.program.memory.array(self.tensors[n]) for n in ("src", "dst"))
            self.sent, self.received = sent.copy(), received

    def exchange(self, calls: Sequence[CoreMeeting]) -> None:
        """Give each what the other one sent."""
        first, last = calls[0], calls[-1]
        if first is not last:
            _check_ranks(first, last)
            _check_data(first, last)
        for sender, receiver in ((first, last), (last, first)):
            if sender.sent is not None and receiver.received is not None:
                receiver.receive(sender.sent)
        first.sent = first.received = last.sent = last.received = None

    def receive(self, peer: np.ndarray) -> None:
        """Put what the other core sent into `dst`, reduced with what this one sent where the instruction says so."""
        assert self.sent is not None and self.received is not None
        definition = self.i.definition
        if "peer" not in wanted(definition):
            np.copyto(self.received, peer)
            return
        held = self.program.memory.held_as(self.i.src.dtype)
        cast = load_cast(held, FLOAT32)
        arrays = []
        for stored in (self.sent, peer):
            arrays.append(stored if cast is None else np.empty(stored.shape, FLOAT32))
            if cast is not None:
                cast(stored, arrays[-1])
        result = np.empty(peer.shape, FLOAT32)
        given = {"out": result, "src": arrays[0], "peer": arrays[1], "reduce_op": self.i.reduce_op}
        definition.facets["semantics"](**given)
        back = store_cast(FLOAT32, held)
        if back is None:
            np.copyto(self.received, result, casting="unsafe")
        else:
            back(result, self.received)


def _check_ranks(a: CoreMeeting, b: CoreMeeting) -> None:
    if a.sent is None or a.received is None or b.sent is None or b.received is None:
        return
    for meeting in (a, b):
        core = meeting.place.core
        if meeting.i.send_to_rank == core or meeting.i.recv_from_rank == core:
            raise MissingPartner(
                f"{meeting.i.definition.name}: core {core} sends to rank {meeting.i.send_to_rank} and receives"
                f" from rank {meeting.i.recv_from_rank}, so the other core's data goes nowhere",
                stack=meeting.i.stack,
                help="send to and receive from the other core: 1 - nl.program_id()",
            )
    if a.sent.shape != b.received.shape or a.sent.dtype != b.received.dtype:
        raise MissingPartner(
            f"{a.i.definition.name}: core {a.place.core} sends {a.i.src.describe()}, core {b.place.core} expects"
            f" {b.i.dst.describe()}",
            stack=b.i.stack,
            help="send and receive tiles of one shape and dtype",
        )


def _check_data(a: CoreMeeting, b: CoreMeeting) -> None:
    """Notice a barrier at which the cores name other tensors, which orders what each does with its own alone."""
    if "data" not in a.tensors or np.may_share_memory(_whole(a), _whole(b)):
        return
    one, other = (f"`{m.tensors['data'].storage.name}` on core {m.place.core}" for m in (a, b))
    a.program.notice(
        a.i.definition.name, a.i.stack, 1, 1,
        f"barriers wait for two tensors, {one} and {other}",
        "name the same tensor in shared HBM on both cores, and add a second barrier for the other tensor",
    )  # fmt: skip


def _whole(meeting: CoreMeeting) -> np.ndarray:
    return meeting.program.memory.array(whole_view(meeting.tensors["data"].storage))
