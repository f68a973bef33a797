"""Tests that work is shown once it takes long, exactly as far as it is, and never after its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import progress
from nki_lab.api import isa as nisa
from nki_lab.progress import counted, forget, listen, phase


class Shown:
    """A display that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[float | None, str]] = []
        self.ends = 0
        self.begun = threading.Event()

    def begin(self) -> Shown:
        return self

    def show(self, fraction: float | None, text: str) -> None:
        self.told.append((fraction, text))
        self.begun.set()

    def end(self) -> None:
        self.ends += 1

    def wait(self) -> tuple[float | None, str]:
        """Return what is told next."""
        self.begun.clear()
        assert self.begun.wait(20)
        return self.told[-1]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """Show all work, however short."""
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.02)
    made = Shown()
    listen(made.begin)
    yield made
    listen(None)
    forget()


def test_nothing_happens_where_nobody_listens():
    threads = threading.active_count()
    with phase("work") as outer, phase("part"):
        assert outer._work is None
    assert threading.active_count() <= threads


def test_parts_of_parts_make_a_whole(shown: Shown):
    with phase("kernel"), phase("compiling", total=4) as passes:
        passes.at = 3
        items = counted(range(10))
        with phase("schedule", items.done, items.total):
            for item in items:
                if item == 4:  # five of them were taken
                    assert shown.wait() == ((3 + 0.5) / 4, "kernel: schedule")
        assert shown.wait() == (0.75, "kernel: compiling")
    assert shown.ends == 1


def test_what_has_no_end_is_counted(shown: Shown):
    found = list(range(12_345))
    with phase("kernel"), phase("tracing", progress.grown(found), unit="instructions"):
        assert shown.wait() == (None, "kernel: tracing, 12,345 instructions")


def test_short_work_is_not_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "FIRST_S", 60.0)
    with phase("short"):
        time.sleep(0.5)
    assert shown.told == []
    assert shown.ends == 0


def test_an_error_ends_all_of_it(shown: Shown):
    def work() -> None:
        with phase("outer"), phase("inner"):
            shown.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert shown.ends == 1
    told = len(shown.told)
    with phase("next"):
        assert shown.wait() == (None, "next")
    assert len(shown.told) > told


def test_what_an_interrupt_left_is_forgotten(shown: Shown):
    left = phase("left behind")
    left.__enter__()
    shown.wait()
    forget()
    assert shown.ends == 1
    with phase("next"):
        assert shown.wait() == (None, "next")
    left.__exit__(None, None, None)
    assert shown.ends == 2


def test_threads_have_work_of_their_own(shown: Shown):
    def other() -> None:
        with phase("other"):
            go.wait(20)

    go = threading.Event()
    thread = threading.Thread(target=other)
    with phase("one"):
        thread.start()
        deadline = time.monotonic() + 20
        while {text for _, text in shown.told} != {"one", "other"} and time.monotonic() < deadline:
            time.sleep(0.05)
        go.set()
        thread.join()
    assert {text for _, text in shown.told} == {"one", "other"}
    assert shown.ends == 2


def long(a, passes):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for _ in nl.dynamic_range(passes):
        tile[...] = nl.tanh(tile)
    nl.store(out, tile)
    return out


@pytest.mark.usefixtures("nki_0_6")
def test_a_run_tells_what_it_does_and_gives_the_same(shown: Shown):
    a = np.linspace(-2, 2, 128 * 8, dtype=np.float32).reshape(128, 8)
    passes = 60_000
    with_display = nki_lab.run(long, a, passes)
    fractions = [f for f, text in shown.told if text == "long: simulating" and f is not None]
    assert fractions == sorted(fractions)
    assert fractions, "the loop was never seen"
    assert all(0 <= f <= 1 for f in fractions)
    listen(None)
    assert np.array_equal(with_display.outputs[0], nki_lab.run(long, a, passes).outputs[0])


@pytest.mark.usefixtures("nki_0_6")
def test_timing_tells_how_much_is_settled(shown: Shown):
    """Every queue gets its times in order, so that settled entries can be counted by halves."""
    result = nki_lab.run(long, np.ones((128, 8), np.float32), 50)
    board = result.profile.model._timeline.board
    assert board.settled() == len(board.done)
    for n, done in enumerate(board.done):
        board.done[n] = -1 if n > len(board.done) // 2 else done
    assert board.settled() == len(board.done) // 2 + 1


def halved(x):
    left = nl.load(x)
    register = nisa.register_alloc()
    nisa.register_load(register, left)
    while register:
        nisa.tensor_scalar(left, left, op0=nl.right_shift, operand0=1)
        nisa.register_load(register, left)
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, left)
    return out


@pytest.mark.usefixtures("nki_0_6")
def test_every_part_of_a_run_says_what_it_is_and_how_far(monkeypatch: pytest.MonkeyPatch):
    parts: list[phase] = []
    enter = phase.__enter__
    monkeypatch.setattr(phase, "__enter__", lambda part: enter(parts.append(part) or part))
    result = nki_lab.run(long, np.ones((128, 8), np.float32), 5)
    board = result.profile.model._timeline.board
    ends = {p.what: (p.done() if p.done else p.at, p.total) for p in parts}
    assert {"tracing", "simulating", "timing"} <= set(ends)
    assert ends["timing"] == (len(board.done), len(board.done))
    assert ends[""][1] == 5, "the loop of the device"
    parts.clear()
    np.testing.assert_array_equal(nki_lab.run(halved, np.int32([[37]])).outputs[0], [[0]])
    assert [p.total for p in parts if p.what == ""] == [0], "values decide how often it runs"
