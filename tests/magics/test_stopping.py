"""Tests that a cell can be stopped, by its time limit or its reader, and that everything works afterwards."""

import os
import signal
import sys
import threading
import time

import pytest

from nki_lab.choices import Choices
from nki_lab.errors import TimedOut, UsageError
from nki_lab.ir.tensor.trace import active
from nki_lab.runtime.time_limit import time_limit
from tests.magics.notebook import Notebook, cell

ENDLESS = "def endless(x):\n    while True:\n        nl.load(x)\n"
NEVER = "n = 0\nwhile True:\n    n += 1\ndef f(x):\n    return x\n"
GUARDED = "while True:\n    try:\n        while True: pass\n    except Exception:\n        pass\ndef f(x): return x\n"


def assert_usable(notebook: Notebook, finders: list) -> None:
    assert active.builder is None
    assert sys.meta_path == finders
    assert Choices.current().target == "trn3"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    text = notebook.good(cell("--run 'add(a, b)' --check 'a + b' --show none"))
    assert text.startswith("add on trn3:")


@pytest.mark.parametrize(
    ("options", "body", "line"),
    [("--run 'endless(a)'", ENDLESS, (3, 4)), ("", NEVER, (3, 4)), ("", GUARDED, (4,))],
)
def test_a_time_limit_ends_what_does_not_end(
    notebook: Notebook, options: str, body: str, line: tuple[int, ...]
):
    finders, handler = list(sys.meta_path), signal.getsignal(signal.SIGALRM)
    outcome = notebook.bad(cell(f"--timeout 0.2 --target trn2 --strict {options}", body))
    assert isinstance(outcome.error, TimedOut)
    assert "not finished after 0.2 seconds" in outcome.text
    assert any(f"--> cell [3], line {n}" in outcome.text for n in line)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert_usable(notebook, finders)


def test_a_time_limit_ends_a_reference(notebook: Notebook):
    options = "--timeout 0.2 --run 'add(a, b)' --check 'next(iter(int, 1) for _ in iter(int, 1))'"
    body = cell(
        options.replace(
            "next(iter(int, 1) for _ in iter(int, 1))", "all(0 == x for x in iter(int, 1))"
        )
    )
    assert isinstance(notebook.bad(body).error, TimedOut)


def test_a_run_within_its_limit_is_left_alone(notebook: Notebook):
    notebook.good(cell("--timeout 60 --run 'add(a, b)' --check 'a + b'"))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_interrupt_ends_a_cell_and_is_seen(notebook: Notebook):
    finders = list(sys.meta_path)
    process = os.getpid()
    timer = threading.Timer(0.3, os.kill, (process, signal.SIGINT))
    timer.start()
    started = time.monotonic()
    outcome = notebook.run(cell("--run 'endless(a)' --target trn1", ENDLESS))
    assert time.monotonic() - started < 2
    assert type(outcome.error) is KeyboardInterrupt
    assert outcome.text.startswith("KeyboardInterrupt\n  --> cell [3], line ")
    assert "nki_lab" + "/" not in outcome.text
    assert_usable(notebook, finders)


def test_an_interrupt_of_a_plain_call_is_shown_in_the_cell(notebook: Notebook):
    notebook.good("import nki.language as nl, nki\n@nki.jit\n" + ENDLESS)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    outcome = notebook.run("x = 1\nendless(a)")
    assert type(outcome.error) is KeyboardInterrupt
    assert outcome.text.startswith("KeyboardInterrupt\n  --> cell [")
    assert "in line 2" in outcome.text or "line 2" in outcome.text
    assert "nki_lab" + "/" not in outcome.text


def test_an_outer_timer_still_rings():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with time_limit(60):
            time.sleep(0.05)
        deadline = time.monotonic() + 5
        while not rung and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) == 1


def test_a_limit_needs_the_main_thread():
    found = []

    def limited():
        try:
            with time_limit(1):
                found.append("ran")
        except UsageError as error:
            found.append(error.message)

    thread = threading.Thread(target=limited)
    thread.start()
    thread.join()
    assert found == ["a time limit can be set only on the main thread, and not on Windows"]
