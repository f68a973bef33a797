"""Executions: which instructions ran, in which order, and in which iterations of the author's loops they were traced.

Timing and profiling read this and never the simulator. A program without device loops runs in program order, so its
execution is known without computing a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nki_lab.errors import TooManyTrips
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel, Loop


@dataclass(frozen=True)
class Execution:
    """The executed stream of one core.

    Attributes:
        kernel: the compiled kernel.
        order: positions in `kernel.instructions`, in the order they ran; a loop body's positions repeat.
        trips: how often each device loop ran, in the order the loops were entered.
    """

    kernel: Kernel
    order: Sequence[int]
    trips: tuple[int, ...] = ()

    @classmethod
    def in_program_order(cls, kernel: Kernel) -> Execution:
        """Return the execution of a kernel without device loops."""
        assert not kernel.has_loops, "only running a program with loops shows what it executes"
        return cls(kernel, range(len(kernel.instructions)))

    @classmethod
    def of(cls, kernel: Kernel, trips: Sequence[int]) -> Execution:
        """Return the execution of a run whose device loops ran `trips` times, in the order they were entered."""
        if not kernel.has_loops:
            return cls.in_program_order(kernel)
        order: list[int] = []
        _walk(kernel.body, 0, iter(trips), order)
        return cls(kernel, order, tuple(trips))


def _walk(
    body: tuple[Instruction | Loop, ...], at: int, trips: Iterator[int], order: list[int]
) -> int:
    """Append the positions of a body that begins at `at`, once for each pass; return where it ends."""
    for node in body:
        if isinstance(node, Loop):
            count = next(trips)
            for _ in range(count):
                end = _walk(node.body, at, trips, order)
            at = end if count else at + size_of(node.body)
        else:
            order.append(at)
            at += 1
    return at


def known_trips(kernel: Kernel, most: int) -> tuple[int, ...] | None:
    """Return how often each device loop runs, in the order they are entered; None where values decide it.

    Raises TooManyTrips where they run more than `most` times together.
    """
    trips: list[int] = []
    return tuple(trips) if _count(kernel.body, trips, [most], most) else None


def _count(
    body: tuple[Instruction | Loop, ...], trips: list[int], room: list[int], most: int
) -> bool:
    """Append how often the loops of a body run; return False where values decide it."""
    for node in body:
        if not isinstance(node, Loop):
            continue
        if node.kind != "for" or not all(type(bound) is int for bound in node.bounds):
            return False
        count = len(range(*node.bounds))
        room[0] -= count
        if room[0] < 0:
            raise too_many_trips(node, f"is to make {count:,} trips", most)
        trips.append(count)
        inner = any(isinstance(n, Loop) for n in node.body)
        if inner and not all(_count(node.body, trips, room, most) for _ in range(count)):
            return False
    return True


def too_many_trips(loop: Loop, what: str, most: int) -> TooManyTrips:
    """Return the error of a loop that goes beyond the trips that a run may make."""
    help = "--max-trips, NKI_LAB_MAX_TRIPS or nki_lab.run(..., max_trips=...) raise the limit"
    if loop.kind == "while":
        help = "set the register to 0 in the body when the loop is done; " + help
    return TooManyTrips(
        f"the {loop.kind} loop over register `{loop.register.name}` {what}; all device loops of a run may make"
        f" {most:,} trips together",
        stack=loop.stack,
        help=help,
    )


def first_difference(first: Execution, second: Execution) -> tuple[Loop, int, int] | None:
    """Return the first loop through which two executions of the same loops make different numbers of passes."""
    return _difference(first.kernel.body, iter(first.trips), iter(second.trips))


def _difference(
    body: tuple[Instruction | Loop, ...], first: Iterator[int], second: Iterator[int]
) -> tuple[Loop, int, int] | None:
    for loop in (node for node in body if isinstance(node, Loop)):
        count, other = next(first), next(second)
        if count != other:
            return loop, count, other
        if any(isinstance(node, Loop) for node in loop.body):
            for _ in range(count):
                if different := _difference(loop.body, first, second):
                    return different
    return None


def loops_run(execution: Execution) -> set[int]:
    """Return the numbers of the device loops that ran at least once."""
    ran: set[int] = set()
    _note_run(execution.kernel.body, iter(execution.trips), ran)
    return ran


def _note_run(body: tuple[Instruction | Loop, ...], trips: Iterator[int], ran: set[int]) -> None:
    for loop in (node for node in body if isinstance(node, Loop)):
        count = next(trips)
        if count:
            ran.add(loop.number)
        if any(isinstance(node, Loop) for node in loop.body):
            for _ in range(count):
                _note_run(loop.body, trips, ran)


def size_of(body: tuple[Instruction | Loop, ...]) -> int:
    """Return how many instructions a body holds, loop bodies once."""
    return sum(size_of(n.body) if isinstance(n, Loop) else 1 for n in body)


@dataclass(frozen=True)
class Iteration:
    """A loop variable and its value in one iteration.

    Attributes:
        name: the variable.
        value: a whole number; None where it is something else, or known only while the kernel runs.
        filename, line: where the loop stands.
        parent: position of the variable around it in `Iterations.entries`, -1 for the outermost.
    """

    name: str
    value: int | None
    filename: str
    line: int
    parent: int


@dataclass(frozen=True)
class Iterations:
    """The loop variables of a traced kernel.

    Attributes:
        entries: every variable and value, what is around it before it.
        innermost: `ident` of an instruction -> position in `entries`; -1 outside all loops.
    """

    entries: tuple[Iteration, ...]
    innermost: Mapping[int, int]

    def depth(self, entry: int) -> int:
        """Return how many loop variables an entry stands for, with those around it."""
        depth = 0
        while entry >= 0:
            depth += 1
            entry = self.entries[entry].parent
        return depth
