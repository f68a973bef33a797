"""Times the Tensor engine: weights load behind the running product, and the current limit slows it."""

from __future__ import annotations

from math import sqrt

from nki_lab.ir.definition.form_times import picoseconds
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spec import Target
from nki_lab.timing.board import Board, Running, last_unknown


def tensor_queue(entries: list[int], board: Board, target: Target) -> Running:
    """Run the Tensor engine, whose products use the whole array or parts of it."""
    parted = any(board.records[n].part is not None for n in entries)
    return (_parted_queue if parted else _whole_queue)(entries, board, target)


def _parted_queue(entries: list[int], board: Board, target: Target) -> Running:
    """Run products that use parts of the array, which run at the same time where the parts do not touch.

    Page nki/api/nki/isa/__init__.py:513. Each part has a buffer for the weights that follow. Instructions still start
    in order, the minimum interval apart; the current limit counts a part as the whole.
    """
    records, waits, hop = board.records, board.waits, board.hop
    loads, begins, ends = board.products
    limit = CurrentLimit.of(target)
    apart = picoseconds(target.min_interval_cycles, target.tensor_ghz)
    free: dict[tuple[int, int], int] = {}  # when each block of 32 x 32 is free, and its buffer
    buffer: dict[tuple[int, int], int] = {}
    started = last = busy_until = 0
    for n in entries:
        record = records[n]
        time = 0
        for w in waits[n]:
            while board.done[w] < 0:
                yield last_unknown(waits[n], w, board.done)
            time = max(time, board.done[w] - (hop if records[w].queue is TENSOR else 0))
        row, column, rows, columns = record.part or (0, 0, target.pe_rows, target.pe_columns)
        blocks = [
            (r, c)
            for r in range(row, row + rows, _BLOCK)
            for c in range(column, column + columns, _BLOCK)
        ]
        idle_since = max(free.get(block, 0) for block in blocks)
        if record.load:
            time = max(time, max(buffer.get(block, 0) for block in blocks))
        begin = max(time + record.load, idle_since, started)
        load_begin = time if record.load else begin
        work = record.interval
        end = begin + (work if limit is None else limit.stretched(begin, busy_until, work))
        started = begin + min(apart, end - begin)
        busy_until = max(busy_until, end)
        for block in blocks:
            buffer[block], free[block] = begin, end
        loads.append(load_begin)
        begins.append(begin)
        ends.append(end)
        board.start[n] = load_begin
        board.end[n] = last = max(end + record.latency, last)
        board.done[n] = last + hop
        if n in board.waiting:
            board.runnable += board.waiting.pop(n)


#: The smallest part of the array: as many rows and columns (nki/api/nki/isa/__init__.py:518).
_BLOCK = 32


def _whole_queue(entries: list[int], board: Board, target: Target) -> Running:
    """Run products that all use the whole array.

    Weights are loaded into a buffer for one tile, which is free from the start of the product that uses what it held:
    a load runs behind the product before it. Products follow each other at their interval; adding onto the same
    PSUM tile does not wait for the sums to be visible.
    """
    records, waits, hop = board.records, board.waits, board.hop
    start, end, done = board.start, board.end, board.done
    waiting, runnable = board.waiting, board.runnable
    loads, begins, ends = board.products
    limit = CurrentLimit.of(target)
    buffer_free = free = last = 0
    for n in entries:
        record = records[n]
        time = 0
        for w in waits[n]:
            heard = done[w]
            while heard < 0:
                yield last_unknown(waits[n], w, done)
                heard = done[w]
            if heard > time:
                if records[w].queue is TENSOR:
                    heard -= hop
                if heard > time:
                    time = heard
        load = record.load
        if load:
            if buffer_free > time:
                time = buffer_free
            loads.append(time)
            start[n] = time
            time += load
            begin = free if free > time else time
        else:
            begin = free if free > time else time
            loads.append(begin)
            start[n] = begin
        buffer_free = begin
        work = record.interval
        free = begin + (work if limit is None else limit.stretched(begin, free, work))
        begins.append(begin)
        ends.append(free)
        heard = free + record.latency
        if heard < last:
            heard = last
        end[n] = last = heard
        done[n] = heard + hop
        if n in waiting:
            runnable += waiting.pop(n)


class CurrentLimit:
    """Hold the Tensor engine to a part of its rate until it has been busy for a while.

    tools/neuron-explorer/overview-summary-page.rst:131: after idling about half of the peak, rising to all of it
    within some 3 us; back to the limit when utilisation falls below half in a window of 3 us. The level rises with
    time spent busy and falls with time spent idle, so that it stands still at a utilisation of `fraction`; the rate
    is a straight line from `fraction` at level 0 to 1 at the full window.
    """

    __slots__ = ("_fraction", "_window", "_drain", "_slope", "_level")

    def __init__(self, fraction: float, window_ps: int) -> None:
        self._fraction = fraction
        self._window = window_ps
        self._drain = fraction / (1 - fraction)
        self._slope = (1 - fraction) / window_ps
        self._level = 0.0

    @classmethod
    def of(cls, target: Target) -> CurrentLimit | None:
        """Return the limit of a target's Tensor engine, None where no such limit is known."""
        if target.pe_throttle_fraction is None or target.pe_throttle_window_ns is None:
            return None
        return cls(target.pe_throttle_fraction, target.pe_throttle_window_ns * 1000)

    def stretched(self, begin: int, idle_since: int, work: int) -> int:
        """Return the time from `begin` in which `work` (at full rate) gets done, and account for it."""
        window = self._window
        level = self._level
        if begin > idle_since:
            level -= (begin - idle_since) * self._drain
            if level < 0:
                level = 0.0
        if level >= window:
            self._level = level
            return work
        rate = self._fraction + self._slope * level
        # The rate rises while it works: rate * t + slope * t^2 / 2 = work.
        slope = self._slope
        time = (sqrt(rate * rate + 2 * slope * work) - rate) / slope
        if level + time > window:
            ramp = window - level
            time = ramp + work - (rate + 1) / 2 * ramp
        level += time
        self._level = level if level < window else float(window)
        return round(time)
