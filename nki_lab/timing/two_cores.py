"""Times the two cores of a logical core (LNC2), which wait for each other where they meet.

Each core is timed by itself, with entries of its program that stand for the other core: one takes down when the core
has come to a meeting, another one holds the meeting up until the other core has come, too. When the other core comes
depends on its own earlier meetings, so the cores are timed in turns until nothing changes. Every turn settles at least
the next meeting. The first turns guess more: that what lies between two meetings takes as long as in the turn before,
which makes two or three turns enough for most programs, however often they meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from nki_lab.errors import BrokenProgram
from nki_lab.ir.definition.form_times import Record, RingKey
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.logical_core import meets_itself, pipe_of
from nki_lab.targets.engines import TENSOR
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.program import LOOP_TRIP, QueuedProgram, no_instruction, program_of
from nki_lab.timing.schedule import times_of
from nki_lab.timing.timeline import Timeline

#: Per core, a time in picoseconds for each meeting.
Times = list[list[int]]
#: Turns in which it is guessed when the other core comes.
_GUESSES = 12


@dataclass(frozen=True)
class _Met:
    """A program with the entries that stand for the other core.

    Attributes:
        program: the program.
        came: per meeting, the entry that takes down when this core has come to it.
        held: per meeting, the entry that holds it up.
    """

    program: QueuedProgram
    came: list[int]
    held: list[int]


def schedule_cores(executions: Sequence[Execution], options: TimingOptions) -> list[Timeline]:
    """Run the model over the executions of both cores."""
    programs = [program_of(execution, options.hbm_share) for execution in executions]
    first, second = (
        _meetings(execution, program, core)
        for core, (execution, program) in enumerate(zip(executions, programs, strict=True))
    )
    pairs = [
        pair
        for key, entries in first.items()
        for pair in zip(entries, second.get(key, ()), strict=False)
    ]
    cores = [
        _with_partner(program, [pair[core] for pair in pairs])
        for core, program in enumerate(programs)
    ]
    target = executions[0].kernel.target
    hop = target.semaphore_hop_ns * 1000
    release: Times = [[0] * len(pairs), [0] * len(pairs)]
    for turn in range(_GUESSES + len(pairs) + 2):
        boards = [
            times_of(_released(met, times), target)
            for met, times in zip(cores, release, strict=True)
        ]
        came = [
            [board.start[n] for n in met.came] for met, board in zip(cores, boards, strict=True)
        ]
        if came[::-1] == release:
            return [
                Timeline(
                    execution,
                    options,
                    board,
                    {pair[core]: time for pair, time in zip(pairs, came[core], strict=True)},
                )
                for core, (execution, board) in enumerate(zip(executions, boards, strict=True))
            ]
        release = _expected(came, release, hop) if turn < _GUESSES else came[::-1]
    raise BrokenProgram("the cores wait for each other in an order that never ends")


def _expected(came: Times, release: Times, hop: int) -> Times:
    """Return when the other core is to be expected at each meeting, after a turn.

    Args:
        came: when each core came to its meetings.
        release: when the other core was taken to come.
        hop: a signal's way from core to core.
    """
    guess: Times = [[0] * len(came[0]), [0] * len(came[0])]
    begun, last = [0, 0], [0, 0]  # the meeting before, as guessed and in the last turn
    for k in sorted(range(len(came[0])), key=lambda k: (max(came[0][k], came[1][k]), k)):
        arrives = [max(0, begun[core] + came[core][k] - last[core]) for core in (0, 1)]
        for core in (0, 1):
            guess[1 - core][k] = arrives[core]
            begun[core] = max(arrives[core], arrives[1 - core] + hop)
            last[core] = max(came[core][k], release[core][k] + hop)
    return guess


def _meetings(execution: Execution, program: QueuedProgram, core: int) -> dict[Hashable, list[int]]:
    """Return the entries in which a core meets the other one, in order, by what belongs together."""
    instructions = execution.kernel.instructions
    if not any(i.definition.meets for i in instructions):
        return {}
    meetings: dict[Hashable, list[int]] = defaultdict(list)
    for entry, position in enumerate(program.positions):
        if position != LOOP_TRIP:
            i = instructions[position]
            if i.definition.meets and not meets_itself(i, core):
                meetings[i.definition.name, pipe_of(i)].append(entry)
    return meetings


def _with_partner(program: QueuedProgram, entries: list[int]) -> _Met:
    """Add the entries that stand for the other core; those of the program keep their numbers."""
    if not entries:
        return _Met(program, [], [])
    positions, records, waits = list(program.positions), list(program.records), list(program.waits)
    queues = {queue: list(entries) for queue, entries in program.queues.items()}
    place = {n: k for entries in program.queues.values() for k, n in enumerate(entries)}
    added = dict.fromkeys(queues, 0)
    met = _Met(QueuedProgram(positions, records, waits, queues), [], [])

    def add(record: Record, waited: tuple[int, ...]) -> int:
        positions.append(LOOP_TRIP)
        records.append(record)
        waits.append(waited)
        return len(records) - 1

    for entry in entries:
        queue = records[entry].queue
        marker = no_instruction()
        entry_waits = waits[entry]
        if isinstance(queue, RingKey) or queue is TENSOR:
            # It comes when what it needs is there; a separate engine notes that, behind what is before it.
            before = place[entry] - 1
            if queue is TENSOR and before >= 0:
                entry_waits = (*entry_waits, program.queues[queue][before])
            marker.queue = _Partner(entry, "came")  # type: ignore[assignment]
            came = add(marker, entry_waits)
            queues[marker.queue] = [came]
        else:
            marker.queue = queue
            came = add(marker, entry_waits)
            queues[queue].insert(place[entry] + added[queue], came)
            added[queue] += 1
        holder = no_instruction()
        holder.queue = _Partner(entry, "held")  # type: ignore[assignment]
        held = add(holder, ())
        queues[holder.queue] = [held]
        waits[entry] = (*waits[entry], held)
        met.came.append(came)
        met.held.append(held)
    return met


@dataclass(frozen=True)
class _Partner:
    """The queue of one entry that stands for the other core."""

    entry: int
    what: str


def _released(met: _Met, times: list[int]) -> QueuedProgram:
    """Return the program with its meetings held up until the other core has come, and its signal arrived."""
    program = met.program
    if not times:
        return program
    records = list(program.records)
    for held, time in zip(met.held, times, strict=True):
        records[held] = records[held].with_(interval=time)
    return QueuedProgram(program.positions, records, program.waits, program.queues)
