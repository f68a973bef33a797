"""Times every instruction and every transfer of a program.

Queues are in order and run ahead until they need a time that is not known yet. What queues share is decided in the
order of time by the loop here: DMA engines, issuers of transfers and ports. It always takes the earliest thing that
is known to happen; what is not known yet depends on something that has still to happen, so it cannot be earlier.
"""

from __future__ import annotations

from collections import deque

from nki_lab.errors import BrokenProgram
from nki_lab.ir.definition.cost import Port
from nki_lab.ir.definition.form_times import SOFTWARE, RingKey, shared_ports
from nki_lab.ir.program.execution import Execution
from nki_lab.progress import phase
from nki_lab.targets.engines import GPSIMD, TENSOR, Engine
from nki_lab.targets.spec import Target
from nki_lab.timing.board import NEVER, Board, Running, last_unknown
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.program import QueuedProgram, program_of
from nki_lab.timing.queues import SharingQueue, engine_queue
from nki_lab.timing.tensor_queue import tensor_queue
from nki_lab.timing.timeline import Timeline


def schedule(execution: Execution, options: TimingOptions) -> Timeline:
    """Run the model over an execution."""
    program = program_of(execution, options.hbm_share)
    return Timeline(execution, options, times_of(program, execution.kernel.target))


def times_of(program: QueuedProgram, target: Target) -> Board:
    """Return when every entry of a program runs.

    Raises BrokenProgram when entries wait for each other.
    """
    board = Board(program, target)
    with phase("timing", board.settled, len(program.records)):
        sharing = _start_engines(program, board, target)
        rings = _start_rings(program, board, sharing)
        _run(rings, list(sharing.values()), board)
        for ring in rings:
            ring.rivals.clear()  # which know each other
    return board


def _start_engines(
    program: QueuedProgram, board: Board, target: Target
) -> dict[Engine, SharingQueue]:
    records = set(program.records)
    contested = shared_ports(records)
    holds: dict[object, set[Port]] = {}
    for record in records:
        holds.setdefault(record.queue, set()).update(record.ports)
    writes_descriptors = any(isinstance(q, RingKey) and q.maker == SOFTWARE for q in program.queues)
    sharing: dict[Engine, SharingQueue] = {}
    for queue, entries in program.queues.items():
        if isinstance(queue, RingKey):
            continue
        if queue is TENSOR:
            board.runnable.append(tensor_queue(entries, board, target))
        elif (queue is GPSIMD and writes_descriptors) or holds[queue] & contested:
            shared = sharing[queue] = SharingQueue(queue, entries, board, contested)
            board.runnable.append(shared.heads)
        else:
            board.runnable.append(engine_queue(queue, entries, board))
    return sharing


def _start_rings(
    program: QueuedProgram, board: Board, sharing: dict[Engine, SharingQueue]
) -> list[Ring]:
    rings: dict[RingKey, Ring] = {}
    for queue, entries in program.queues.items():
        if not isinstance(queue, RingKey):
            continue
        # Software descriptors take the time of the engine that writes them; the rest has its own hardware.
        owner = sharing.get(queue.issuer) if queue.maker == SOFTWARE else None
        ring = Ring(entries, owner, board)
        for key, other in rings.items():
            if key[:2] == queue[:2]:
                ring.rivals.append(other)
                other.rivals.append(ring)
        rings[queue] = ring
        board.runnable.append(ring.heads)
    return list(rings.values())


def _run(rings: list[Ring], sharing: list[SharingQueue], board: Board) -> None:
    records, done, start, end = board.records, board.done, board.start, board.end
    trigger, waiting, runnable = board.trigger, board.waiting, board.runnable
    now = 0  # clock of the DMA engines
    served: list[Ring] = []  # rings with a transfer under way
    on_way = 0  # transfers issued that have not reached the DMA engines
    while True:
        while runnable:
            queue = runnable.pop()
            needed = next(queue, None)
            if needed is not None:
                if needed in waiting:
                    waiting[needed].append(queue)
                else:
                    waiting[needed] = [queue]

        # The earliest thing that takes something shared: a transfer to issue or a sharing queue's instruction. Of two
        # that wait for the same issuer, the one that has waited longer.
        first = second = since = NEVER
        ring = lane = None
        for r in rings:
            time = r.ready
            if time < NEVER and (r.owner is not None or (r.serving < 0 and not r.issued)):
                if r.taken or r.owner is not None:
                    time = r.next_issue(records[r.entry].issue)
                elif r.free > time:
                    time = r.free
                if time < first or (time == first and r.ready < since):
                    second = first
                    first = time
                    since = r.ready
                    ring = r
                elif time < second:
                    second = time
        for s in sharing:
            time = s.ready
            if time < NEVER:
                if s.free > time:
                    time = s.free
                if time < first or (time == first and s.ready < since):
                    second = first
                    first = time
                    since = s.ready
                    ring, lane = None, s
                elif time < second:
                    second = time

        if ring is not None and not served and not on_way:
            # Nothing moves. While nothing else begins before a transfer ends, its times are settled.
            settled = False
            while True:
                n = ring.entry
                record = records[n]
                issued = first + record.issue
                begin = issued + record.lead
                if begin < now:
                    begin = now
                finish = begin + record.work
                if finish > second:
                    break
                settled = True
                ring.free = ring.since = issued  # who shares the issuer comes later than `finish`
                trigger[n] = first
                start[n] = begin
                end[n] = now = finish
                done[n] = finish + record.tail
                if n in waiting:
                    runnable += waiting.pop(n)
                    runnable.append(ring.heads)
                    break
                needed = next(ring.heads, None)
                if needed is not None:
                    waiting.setdefault(needed, []).append(ring.heads)
                    break
                if ring.ready == NEVER:
                    break
                first = ring.ready  # not before `issued`
                if ring.taken or ring.owner is not None:
                    first = ring.next_issue(records[ring.entry].issue)
            if settled:
                continue

        arrive = finish = NEVER
        if on_way:
            for r in rings:
                if r.issued and r.serving < 0 and r.issued[0][0] < arrive:
                    arrive = r.issued[0][0]
                    arriving = r
            if arrive < now:
                arrive = now
        if served:
            finishing = min(served, key=_work_left)
            finish = now + finishing.left * len(served)

        if finish < NEVER and finish <= arrive and finish <= first:
            _serve(served, finishing.left)
            now = finish
            served.remove(finishing)
            n = finishing.serving
            finishing.serving = -1
            end[n] = now
            done[n] = now + records[n].tail
            if n in waiting:
                runnable += waiting.pop(n)
        elif arrive < NEVER and arrive <= first:
            if served:
                _serve(served, (arrive - now) // len(served))
            now = arrive
            n = arriving.issued.popleft()[1]
            on_way -= 1
            arriving.serving = n
            arriving.left = records[n].work
            start[n] = now
            served.append(arriving)
        elif ring is not None:
            n = ring.entry
            record = records[n]
            issued = first + record.issue
            ring.issue(first, issued)
            trigger[n] = first
            ring.issued.append((issued + record.lead, n))
            on_way += 1
            ring.ready = NEVER
            runnable.append(ring.heads)
        elif lane is not None:
            n = lane.commit(first)
            if n in waiting:
                runnable += waiting.pop(n)
            runnable.append(lane.heads)
        else:
            break
    if waiting:
        stuck = board.program.positions[min(waiting)]
        raise BrokenProgram(f"instructions wait for each other; one of them is at position {stuck}")


def _work_left(ring: Ring) -> int:
    return ring.left


def _serve(served: list[Ring], work: int) -> None:
    for ring in served:
        ring.left -= work


# -- queues of transfers ----------------------------------------------------------------------------------------------


class Ring:
    """A queue of transfers that the DMA engines serve in order.

    Partitions are dealt to the DMA engines in order, so every transfer has descriptors on the first engine and none
    has more on another: that engine finishes each of them last and stands for all sixteen. A transfer is then one
    amount of work, and rings share the engines by halving, thirding, ... the rate.

    A ring whose transfer is under way is looked at again when that transfer has ended. What others did to the issuer
    meanwhile is kept in `taken`, so that the next transfer can still be issued in the time that was left.

    Attributes:
        owner: the engine that spends its own time to issue transfers, else None. Then transfers are issued while
            earlier ones are under way, because the owner has other things to do.
        rivals: other rings that share the issuer.
        heads: the running queue, which sets `entry` and `ready` for one transfer after the other.
        entry: the next transfer to issue.
        ready: since when it could be issued; NEVER while that is not known.
        since: when its last transfer had been issued: the next one waits from then on.
        free: when the issuer was last known to be free for this ring.
        taken: times after `free` at which the issuer serves another ring.
        issued: transfers on their way to the DMA engines: (time of arrival, entry).
        serving: the transfer the DMA engines work on, or -1.
        left: the work it has left.
    """

    __slots__ = (
        "owner", "rivals", "heads", "entry", "ready", "free", "taken", "issued", "serving", "left", "since",
    )  # fmt: skip

    def __init__(self, entries: list[int], owner: SharingQueue | None, board: Board) -> None:
        self.owner = owner
        self.rivals: list[Ring] = []
        self.heads = self._heads(entries, board)
        self.entry = -1
        self.ready = NEVER
        self.free = 0
        self.taken: deque[tuple[int, int]] = deque()
        self.issued: deque[tuple[int, int]] = deque()
        self.serving = -1
        self.left = 0
        self.since = 0

    def _heads(self, entries: list[int], board: Board) -> Running:
        waits, done = board.waits, board.done
        for n in entries:
            time = self.since
            for w in waits[n]:
                end = done[w]
                if end < 0:
                    self.ready = NEVER
                    while end < 0:
                        yield last_unknown(waits[n], w, done)
                        end = done[w]
                if end > time:
                    time = end
            self.entry = n
            self.ready = time
            yield None
        self.ready = NEVER

    def next_issue(self, cost: int) -> int:
        """Return when the issuer can take the next transfer, which takes it `cost`."""
        if self.owner is not None:
            return max(self.ready, self.owner.free)
        time = max(self.ready, self.free)
        while self.taken and time + cost > self.taken[0][0]:
            time = max(time, self.taken.popleft()[1])
            self.free = max(self.free, time)
        return time

    def issue(self, begin: int, end: int) -> None:
        """Take the issuer from `begin` to `end`."""
        self.free = self.since = end
        if self.owner is not None:
            self.owner.free = end
        for rival in self.rivals:
            under_way = rival.serving >= 0 or bool(rival.issued)
            fits = max(rival.ready, rival.free) + end - begin <= begin
            if under_way and fits:
                rival.taken.append((begin, end))
            elif rival.free < end:
                rival.free = end
