"""Prints outcomes as a table."""

from __future__ import annotations

from collections import Counter

from tests.public.nki_library.exceptions import cause_of
from tests.public.nki_library.suite import Outcome, Run

HEAD = "| file | chip | passed / run | exceptions |\n|---|---|---|---|"

FOOT = """
trn3 has the configurations with MX, with the scale rule before NKI 0.5 and memory that starts as zeros, as the
references expect (tests/public/nki_library/stand_ins.py)."""


def row(run: Run, outcomes: list[Outcome]) -> str:
    """Return the row of one file: configurations that passed, and why others did not."""
    ran = [o for o in outcomes if o.outcome in ("passed", "failed")]
    passed = sum(o.outcome == "passed" for o in ran)
    notes = Counter(_note(run, o) for o in outcomes if o.outcome != "passed")
    told = "; ".join(f"{n} x {text}" for text, n in notes.items())
    return f"| {run.file} | {run.target} | {passed} / {len(ran)} | {told} |"


def _note(run: Run, outcome: Outcome) -> str:
    if outcome.outcome == "slow":
        return "over the time limit"
    if outcome.outcome == "skipped":
        return f"skipped by the suite: {_first(outcome.message)}"
    known = cause_of(run, outcome)
    return known.reason if known else f"NEW: {_first(outcome.message)}"


def _first(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0].replace("|", "\\|")[:160] if lines else "no message"
