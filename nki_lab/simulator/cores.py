"""How do the two cores of a logical core run together (LNC2)?

One after the other, always in the same way: each core runs until it must meet the other one; when both have come, data
is exchanged and both go on. So results never depend on how fast a core is; what nothing orders is found as a race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nki_lab.errors import MissingPartner
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.nodes import Loop
from nki_lab.ir.register import Register
from nki_lab.ir.storage import Storage
from nki_lab.simulator.bind import run_steps
from nki_lab.simulator.late import Late
from nki_lab.simulator.memory import Memory
from nki_lab.source import Span

if TYPE_CHECKING:
    from nki_lab.simulator.late import RegisterFile
    from nki_lab.simulator.machine import Program


class Runs(Protocol):
    """What runs device loops."""

    register_file: RegisterFile
    trips: list[int]


class Meeting:
    """A step in which a core waits for the other one.

    Attributes:
        i: the instruction.
        pipe: what groups meetings that belong together.
        sent, received: arrays of a tile that goes and of one that comes, or None for a barrier; known when the core
            has come.
    """

    def __init__(self, i: Instruction, memory: Memory, late: Late) -> None:
        self.i = i
        self.pipe = (i.definition, i.pipe_id if "pipe_id" in i.definition.position else None)
        self.memory = memory
        self.late = late
        self.sent: np.ndarray | None = None
        self.received: np.ndarray | None = None
        self.parcel: np.ndarray | None = None

    def post(self) -> None:
        """Take what is sent as it is now; the tile may be overwritten afterwards."""
        # Addresses that the device computes have their values now, and must be in range for a barrier too.
        tensors = self.late.placed(self.i)
        if "send_to_rank" in self.i.definition.position:
            self.sent, self.received = (self.memory.array(tensors[n]) for n in ("src", "dst"))
            self.parcel = self.sent.copy()

    @property
    def alone(self) -> bool:
        """True for a core that sends to itself."""
        return self.sent is not None and self.i.send_to_rank == self.i.recv_from_rank == self.rank

    rank = 0  # of the core it belongs to; set when the cores are put together

    def __call__(self) -> None:
        """Refuse to be run by a core that runs alone."""
        raise MissingPartner(  # a single core never gets here: tracing refuses it
            f"{self.i.definition.name}: there is no other core", stack=self.i.stack
        )


class DeviceLoop:
    """A step that is a loop of steps.

    `program` is what runs it: it has the registers, and counts the passes of each loop that is entered.
    """

    def __init__(self, program: Runs, loop: Loop, steps: list[Any]) -> None:
        self.program = program
        self.loop = loop
        self.steps = steps

    def passes(self) -> Iterator[None]:
        """Set the loop's register for each pass; count the passes."""
        program, loop = self.program, self.loop
        registers = program.register_file
        place = len(program.trips)
        program.trips.append(0)
        if loop.kind == "for":
            start, stop, stride = (
                registers.get(b) if isinstance(b, Register) else b for b in loop.bounds
            )
            for value in range(start, stop, stride):
                registers.set(loop.register, value)
                program.trips[place] += 1
                yield
        else:
            while registers.get(loop.register) != 0:
                program.trips[place] += 1
                yield

    def __call__(self) -> None:
        """Run the loop."""
        for _ in self.passes():
            run_steps(self.steps)


def run_to_meetings(steps: Sequence[Callable[[], Any]]) -> Iterator[Meeting]:
    """Run steps, yielding at each meeting; the caller goes on when both cores have come."""
    for step in steps:
        if isinstance(step, Meeting):
            yield step
        elif isinstance(step, DeviceLoop):
            for _ in step.passes():
                yield from run_to_meetings(step.steps)
        else:
            run_steps((step,))


def run_cores(
    programs: Sequence[Program],
    arrays: Sequence[np.ndarray],
    pairs: Sequence[tuple[Storage, Storage]],
) -> list[np.ndarray]:
    """Run the two cores of a logical core and return the outputs.

    Args:
        programs: of core 0 and core 1.
        arrays: the inputs, which both cores share.
        pairs: shared HBM tensors, as (of core 0, of core 1).
    """
    from nki_lab.simulator.machine import one_blas_thread

    first, second = programs
    first.writes |= {k for k in second.writes if k < len(first.kernel.inputs)}
    second.writes |= {k for k in first.writes if k < len(first.kernel.inputs)}
    first.begin(arrays)
    shared = {b.id: first.arrays[a.id] for a, b in pairs}
    shared.update({s.id: first.arrays[s.id] for s in first.kernel.inputs})
    second.begin(arrays, shared)
    with np.errstate(all="ignore"), one_blas_thread():
        _meet([first.meetings(), second.meetings()])
    return first.end(arrays)


def _meet(cores: list[Iterator[Meeting]]) -> None:
    waiting: list[dict[Any, Meeting]] = [
        {},
        {},
    ]  # per core, by pipe: posted, the partner has not come
    blocked: list[Meeting | None] = [None, None]
    ended = [False, False]
    while not all(ended):
        moved = False
        for core, other in ((0, 1), (1, 0)):
            if ended[core] or blocked[core] is not None:
                continue
            moved = True
            meeting = next(cores[core], None)
            if meeting is None:
                ended[core] = True
                continue
            meeting.rank = core
            meeting.post()
            if meeting.alone:
                _deliver(meeting, meeting)
                continue
            partner = waiting[other].pop(meeting.pipe, None)
            if partner is None:
                waiting[core][meeting.pipe] = blocked[core] = meeting
            else:
                _check_ranks(meeting, partner)
                _deliver(meeting, partner)
                if blocked[other] is partner:
                    blocked[other] = None
        if not moved:
            _break_tie(blocked, ended, waiting)
    for core in (0, 1):
        for meeting in waiting[core].values():
            raise _missing(core, meeting)


def _break_tie(
    blocked: list[Meeting | None], ended: list[bool], waiting: list[dict[Any, Meeting]]
) -> None:
    """Let cores that wait in different pipes go on: pipes do not wait for each other."""
    for core in (0, 1):
        meeting = blocked[core]
        if meeting is not None and (ended[1 - core] or meeting.sent is None):
            raise _missing(core, meeting, blocked[1 - core])
    for core in (0, 1):
        if waiting[core]:
            blocked[core] = None


def _check_ranks(a: Meeting, b: Meeting) -> None:
    if a.sent is None or a.received is None or b.sent is None or b.received is None:
        return
    for meeting in (a, b):
        if meeting.i.send_to_rank == meeting.rank or meeting.i.recv_from_rank == meeting.rank:
            raise MissingPartner(
                f"{meeting.i.definition.name}: core {meeting.rank} sends to rank {meeting.i.send_to_rank} and receives"
                f" from rank {meeting.i.recv_from_rank}, so the other core's data goes nowhere",
                stack=meeting.i.stack,
                help="send to and receive from the other core: 1 - nl.program_id()",
            )
    if a.sent.shape != b.received.shape or a.sent.dtype != b.received.dtype:
        raise MissingPartner(
            f"{a.i.definition.name}: core {a.rank} sends {a.i.src.describe()}, core {b.rank} expects"
            f" {b.i.dst.describe()}",
            stack=b.i.stack,
            help="send and receive tiles of one shape and dtype",
        )


def _deliver(a: Meeting, b: Meeting) -> None:
    for sender, receiver in ((a, b), (b, a)):
        if sender.parcel is not None and receiver.received is not None:
            np.copyto(receiver.received, sender.parcel)


def _missing(core: int, meeting: Meeting, other: Meeting | None = None) -> MissingPartner:
    name = meeting.i.definition.name
    pipe = f" (pipe_id={meeting.pipe[1]})" if meeting.pipe[1] is not None else ""
    where = "has ended"
    if other is not None:
        place = f" at {Span.of(other.i.stack[0])}" if other.i.stack else ""
        where = f"waits in {other.i.definition.name}{place}"
    return MissingPartner(
        f"core {core} waits in {name}{pipe}, core {1 - core} {where}",
        stack=meeting.i.stack,
        help="let both cores come to the same meetings in the same order",
    )
