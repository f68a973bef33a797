"""Lets the programs of a launch wait for each other: each runs up to where it waits, in the order of their numbers.

Until a program waits, programs run one after the other in the thread that traces. From then on, the ones that have not
begun get threads of their own, of which one runs at a time. Each program writes its own body, so that its open loops
see nothing of the others; the parts between two waits follow each other in the order in which they were traced.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from nki_lab.beta1.program import Program, running, taken
from nki_lab.errors import MissingPartner, WrongOperand
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.building.kept_order import KeptOrder
from nki_lab.source import Span, Stack


class _Stopped(BaseException):
    """Ends a program whose launch has ended; no `except Exception` of an author holds it up."""


@dataclass
class Meeting:
    """A call in which programs wait for each other.

    Attributes:
        name: of the function.
        axes: of the grid, along which the programs that wait for each other lie.
        terms: further things in which their calls must agree, by name.
        value: what the program brings.
        stack: where it is called.
    """

    name: str
    axes: tuple[int, ...]
    terms: dict[str, Any]
    value: Any
    stack: Stack


@dataclass
class _Member:
    """A program and what of the trace belongs to it."""

    program: Program
    body: list[Any] = field(default_factory=list)
    first: int = 0
    told: int = 0
    order: KeptOrder = field(default_factory=KeptOrder)
    thread: threading.Thread | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    meeting: Meeting | None = None
    group: list[Any] | None = None
    ended: bool = False
    error: BaseException | None = None


class Turns:
    """The programs of a launch, which take turns where they wait for each other."""

    def __init__(
        self, builder: Builder, programs: Sequence[Program], run: Callable[[Program], Any]
    ) -> None:
        self.programs = programs
        self._builder, self._run = builder, run
        self._members = {id(p): _Member(p) for p in programs}
        self._back = threading.Semaphore(0)
        self._body: list[Any] | None = None
        self._stopped = False
        for program in programs:
            program.turns = self

    def run(self, program: Program) -> None:
        """Run a program to its end."""
        member = self._members[id(program)]
        if member.thread is not None:
            self._drive(lambda: member.ended)
            return
        self._tracing = member
        member.body, member.order = self._builder.body, self._builder.kept_order
        member.first = len(member.body)
        self._builder.place = program.place if len(self.programs) > 1 else ()
        with taken(program):
            self._run(program)
        member.ended = True

    def emitted(self, program: Program) -> list[Any]:
        """Return what a program that has ended has emitted."""
        member = self._members[id(program)]
        return member.body[member.first :]

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *error: object) -> None:
        """End the programs that wait, and put the parts of all into the order in which they were traced."""
        self._stopped = True
        for member in self._members.values():
            if member.thread is not None and not member.ended:
                # It waits for its turn, or runs where an interrupt has ended the turn that it was given.
                number = ctypes.c_ulong(member.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Stopped))
                member.go.release()
                member.thread.join(timeout=5)
            member.program.turns = None
        if self._body is not None:
            self._tell()
            self._builder.body = self._body
            self._builder.note_changed()

    def meet(self, meeting: Meeting) -> list[Any]:
        """Wait for the other programs along axes; return the list of all their meetings, the same for each of them."""
        member = self._members[id(running())]
        member.meeting, member.group = meeting, None
        self._gather(member)
        if member.thread is None:
            self._drive(lambda: member.group is not None)
        else:
            self._wait(member)
        member.meeting = None
        return member.group or []

    # -- groups --------------------------------------------------------------------------------------------------

    def _partners(self, member: _Member) -> list[_Member]:
        assert member.meeting is not None
        axes, place = member.meeting.axes, member.program.place
        return [
            m
            for m in self._members.values()
            if all(
                a == b or at in axes
                for at, (a, b) in enumerate(zip(m.program.place, place, strict=True))
            )
        ]

    def _gather(self, member: _Member) -> None:
        """Form the group of a program that has come to a meeting, if all others of it wait there."""
        partners = self._partners(member)
        meetings = [m.meeting for m in partners if m.meeting is not None and m.group is None]
        if len(meetings) < len(partners) or any(m.axes != meetings[0].axes for m in meetings):
            return
        for m, other in zip(meetings, partners, strict=True):
            for name, value in meetings[0].terms.items():
                if m.name != meetings[0].name or m.terms.get(name) != value:
                    raise WrongOperand(
                        f"{m.name} of program {list(other.program.place)} has {name} {m.terms.get(name)}, that of"
                        f" program {list(partners[0].program.place)} has {value}",
                        stack=m.stack,
                        help="let all programs make the same call",
                    )
        for partner in partners:
            partner.group = meetings

    # -- turns ---------------------------------------------------------------------------------------------------

    def _drive(self, done: Callable[[], bool]) -> None:
        """Give turns to programs that have threads, until something is done; in the thread that traces."""
        while not done():
            moved = False
            for member in self._members.values():
                waits = member.meeting is not None and member.group is None
                traces = member is self._tracing
                if not (member.ended or waits or traces or done()):
                    self._turn(member)
                    moved = True
            if not moved and not done():
                raise self._missing()

    def _turn(self, member: _Member) -> None:
        builder = self._builder
        self._tell()
        outside = builder.body, builder.kept_order, builder.place
        builder.body, builder.kept_order, builder.place = (
            member.body, member.order, member.program.place,
        )  # fmt: skip
        builder.note_changed()
        try:
            if member.thread is None:
                context = copy_context()
                member.thread = threading.Thread(
                    target=context.run, args=(self._whole, member), daemon=True
                )
                member.thread.start()
            else:
                member.go.release()
            self._back.acquire()
            self._tell()
        finally:
            builder.body, builder.kept_order, builder.place = outside
            builder.note_changed()
        if member.error is not None:
            raise member.error

    def _whole(self, member: _Member) -> None:
        """Run a program in its thread."""
        try:
            with self._builder.active(), taken(member.program):
                self._run(member.program)
        except _Stopped:
            pass
        except BaseException as error:
            member.error = error
        finally:
            member.ended = True
            self._back.release()

    def _wait(self, member: _Member) -> None:
        if member.group is not None:
            return
        self._back.release()
        member.go.acquire()
        if self._stopped:
            raise _Stopped

    def _tell(self) -> None:
        """Note what the program that has run until now has emitted in its turn."""
        if self._body is None:
            self._body = []
        body = self._builder.body
        member = next(m for m in self._members.values() if m.body is body)
        self._body += member.body[member.told :]
        member.told = len(member.body)

    def _missing(self) -> MissingPartner:
        """Return the error that a program waits for one that does not come."""
        waiting = next(
            m for m in self._members.values() if m.meeting is not None and m.group is None
        )
        assert waiting.meeting is not None
        partners = self._partners(waiting)
        missing = next(
            m for m in partners if m.meeting is None or m.meeting.axes != waiting.meeting.axes
        )
        other = missing.meeting
        does = (
            "has ended"
            if other is None
            else f"waits at {Span.of(other.stack[0])} along other axes, {list(other.axes)}"
        )
        return MissingPartner(
            f"program {list(waiting.program.place)} waits in {waiting.meeting.name} along axes"
            f" {list(waiting.meeting.axes)} for program {list(missing.program.place)}, which {does}",
            stack=waiting.meeting.stack,
            help="let all programs along these axes make the same calls in the same order",
        )
