"""Runs cores and ranks that must meet side by side.

One after the other, always in the same way: each runs until it comes to a meeting; when all whom the meeting is for
have come, data is exchanged and they go on. So results never depend on who is faster, and a meeting that cannot take
place is an error, never an endless wait.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from nki_lab.choices import Choices
from nki_lab.errors import MissingPartner, NkiError
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.execution import too_many_trips
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.register import Register
from nki_lab.progress import phase
from nki_lab.simulator.bind import run_steps, tell_where
from nki_lab.simulator.late import Late, RegisterFile
from nki_lab.simulator.memory import Memory
from nki_lab.simulator.unwritten import Unwritten
from nki_lab.source import Span, came_at


class CorePlace(NamedTuple):
    """Where a program runs: a rank, and a core of it."""

    rank: int = 0
    core: int = 0


class World(NamedTuple):
    """Who runs together: a number of ranks, each with a number of cores."""

    ranks: int = 1
    cores: int = 1

    def name(self, place: CorePlace) -> str:
        """Return how messages call a place: what there is only one of is left out."""
        if self.ranks == 1:
            return f"core {place.core}" if self.cores > 1 else f"rank {place.rank}"
        return f"rank {place.rank}" + (f", core {place.core}" if self.cores > 1 else "")


class Partner(Protocol):
    """What a meeting needs of the program whose step it is."""

    kernel: Kernel
    place: CorePlace
    world: World
    memory: Memory
    unwritten: Unwritten
    notice: Callable[..., None]


class Meeting(ABC):
    """A step in which a program waits for others.

    Attributes:
        i: the instruction.
        program: whose step it is.
        place: where that runs.
        tensors: its operands by name, known when its program has come: addresses that the device computes have their
            values then.
        may_pass: where all who are missed wait in such meetings, too, its program goes on before they come.
    """

    may_pass = False
    advice = ""  # how to mend a meeting that cannot take place

    def __init__(self, i: Instruction, program: Partner, late: Late) -> None:
        self.i = i
        self.program: Partner = weakref.proxy(program)  # whose step it is
        self.place = program.place
        self.late = late
        self.tensors: dict[str, Any] = {}

    @abstractmethod
    def parties(self) -> tuple[CorePlace, ...]:
        """Return who meets, itself included, in the order in which `exchange` gets them."""

    @abstractmethod
    def key(self) -> Hashable:
        """Return what is equal for meetings that belong together."""

    @abstractmethod
    def describe(self) -> str:
        """Return how messages call it."""

    def post(self) -> None:
        """Note that its program has come."""
        self.tensors = self.late.placed(self.i)

    @abstractmethod
    def exchange(self, calls: Sequence[Any]) -> None:
        """Move the data of all who met; `calls` are their meetings, this one among them."""

    def __call__(self) -> None:
        """Take place in a program that runs alone."""
        with _told(self):
            if self.parties() != (self.place,):
                raise missing(self, {}, {self.place: self}, World())
            self.post()
            self.exchange([self])


@contextmanager
def _told(meeting: Meeting) -> Iterator[None]:
    """Give what is raised in a meeting the place of its instruction."""
    try:
        yield
    except NkiError as error:
        tell_where(error, meeting.i)
        raise


class LoopRunner(Protocol):
    """What runs device loops."""

    options: Choices
    register_file: RegisterFile
    trips: list[int]
    trips_made: int


class EnteredLoop(NamedTuple):
    """A device loop that was entered.

    Attributes:
        place: where its number of passes stands in `trips` of what runs it.
        values: what its register is set to, pass by pass; None where it runs while a register is not 0.
    """

    place: int
    values: range | None


class DeviceLoop:
    """A step that is a loop of steps.

    `program` is what runs it: it has the registers, and counts the passes of each loop that is entered. `tells` is set
    where its passes tell how far a run is, as those of loops within others do not.
    """

    def __init__(
        self, program: LoopRunner, loop: Loop, steps: list[Any], tells: bool = False
    ) -> None:
        # Its steps would hold it in a circle, with all its memories.
        self.program: LoopRunner = weakref.proxy(program)
        self.tells = tells
        self.loop = loop
        self.steps = steps

    def enter(self) -> EnteredLoop:
        """Begin the loop; none of its passes has begun then."""
        program, loop = self.program, self.loop
        values = None
        if loop.kind == "for":
            registers = program.register_file
            values = range(
                *(registers.get(b, loop) if isinstance(b, Register) else b for b in loop.bounds)
            )
            if len(values) > program.options.max_trips - program.trips_made:
                raise too_many_trips(
                    loop, f"is to make {len(values):,} trips", program.options.max_trips
                )
        program.trips.append(0)
        return EnteredLoop(len(program.trips) - 1, values)

    def begins(self, passes: EnteredLoop) -> bool:
        """Begin the next pass and set the loop's register for it; False where there is none."""
        program, loop = self.program, self.loop
        count = program.trips[passes.place]
        if passes.values is None:
            if program.register_file.get(loop.register, loop) == 0:
                return False
        elif count >= len(passes.values):
            return False
        else:
            program.register_file.set(loop.register, passes.values[count])
        if program.trips_made >= program.options.max_trips:
            what = f"has made {count:,} trips and has not ended"
            raise too_many_trips(loop, what, program.options.max_trips)
        program.trips[passes.place] = count + 1
        program.trips_made += 1
        return True

    def passes(self) -> Iterator[None]:
        """Set the loop's register for each pass; count the passes."""
        passes = self.enter()
        while self.begins(passes):
            yield

    def __call__(self) -> None:
        """Run the loop."""
        passes = self.enter()
        if not self.tells:
            while self.begins(passes):
                run_steps(self.steps)
            return
        trips, place = self.program.trips, passes.place
        total = 0 if passes.values is None else len(passes.values)
        with phase("", lambda: trips[place] - 1, total):
            while self.begins(passes):
                run_steps(self.steps)


def run_to_meetings(steps: Iterable[Callable[[], Any]]) -> Iterator[Meeting]:
    """Run steps, yielding at each meeting; the caller goes on when all have come."""
    for step in steps:
        if isinstance(step, Meeting):
            yield step
        elif isinstance(step, DeviceLoop):
            try:
                for _ in step.passes():
                    yield from run_to_meetings(step.steps)
            except BaseException as error:
                if not isinstance(error, NkiError):  # as in run_steps
                    came_at(error, step.loop.stack)
                raise
        else:
            run_steps((step,))


Gathering = dict[CorePlace, Meeting]  # who has come to one meeting


def run_together(programs: Mapping[CorePlace, Iterator[Meeting]], world: World) -> None:
    """Run programs to their ends, letting them meet.

    Raises MissingPartner where somebody waits for one who has ended or waits elsewhere.
    """
    running = dict(programs)
    blocked: Gathering = {}
    gatherings: dict[Hashable, list[Gathering]] = {}
    while running:
        moved = False
        for place, steps in list(running.items()):
            if place in blocked:
                continue
            moved = True
            meeting = next(steps, None)
            if meeting is None:
                del running[place]
                continue
            blocked[place] = meeting
            with _told(meeting):
                meeting.post()
                _come(meeting, gatherings, blocked)
        if not moved:
            _pass(running, blocked, gatherings, world)
    for waiting in gatherings.values():
        for gathering in waiting:
            meeting = next(iter(gathering.values()))
            raise missing(meeting, running, gathering, world)


def _come(
    meeting: Meeting, gatherings: dict[Hashable, list[Gathering]], blocked: Gathering
) -> None:
    """Note that somebody has come to a meeting; when all have, let it take place."""
    waiting = gatherings.setdefault(meeting.key(), [])
    gathering = next((g for g in waiting if meeting.place not in g), None)
    if gathering is None:
        gathering = {}
        waiting.append(gathering)
    gathering[meeting.place] = meeting
    parties = meeting.parties()
    if any(place not in gathering for place in parties):
        return
    waiting.remove(gathering)
    meeting.exchange([gathering[place] for place in parties])
    for place, other in gathering.items():
        if blocked.get(place) is other:
            del blocked[place]


def _pass(
    running: Mapping[CorePlace, Any],
    blocked: Gathering,
    gatherings: dict[Hashable, list[Gathering]],
    world: World,
) -> None:
    """Let go on who may where all wait; an error where nobody may."""
    come = {
        place: next(g for g in gatherings[meeting.key()] if g.get(place) is meeting)
        for place, meeting in blocked.items()
    }
    missed = {place: _missed(meeting, come[place]) for place, meeting in blocked.items()}

    def passes(place: CorePlace) -> bool:
        others = [blocked.get(p) for p in missed[place]]
        return blocked[place].may_pass and all(m is not None and m.may_pass for m in others)

    passing = [place for place in blocked if passes(place)]
    for place in passing:
        del blocked[place]
    if passing:
        return
    # Who waits for one that will never come says more than who waits for a waiting one.
    hopeless = [place for place in sorted(blocked) if any(p not in running for p in missed[place])]
    place = (hopeless or sorted(blocked))[0]
    raise missing(blocked[place], blocked, come[place], world)


def _missed(meeting: Meeting, gathering: Gathering) -> list[CorePlace]:
    """Return who has not come to a meeting, in the order of its parties."""
    return [place for place in meeting.parties() if place not in gathering]


def missing(
    meeting: Meeting, waiting: Mapping[CorePlace, Any], gathering: Gathering, world: World
) -> MissingPartner:
    """Return the error of a meeting that some never came to; `waiting` are the meetings where all wait."""

    def where(place: CorePlace) -> str:
        other = waiting.get(place)
        if not isinstance(other, Meeting):
            return f"{world.name(place)} has ended"
        at = f" at {Span.of(other.i.stack[0])}" if other.i.stack else ""
        return f"{world.name(place)} waits in {other.i.definition.name}{at}"

    first, *rest = [where(place) for place in _missed(meeting, gathering)]
    return MissingPartner(
        f"{world.name(meeting.place)} waits in {meeting.describe()}, {first}",
        stack=meeting.i.stack,
        notes=rest,
        help=meeting.advice,
    )
