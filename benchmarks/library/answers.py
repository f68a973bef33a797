"""The model's answers to the goals that nki-library's tests name.

`python -m benchmarks.library` runs what has a goal, a process per file of the suite, and keeps the answers in
`modelled.csv` beside this file; without a clone those are what is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks.library.rows import Goal, goal_of
from benchmarks.published import Row
from benchmarks.scoring import Answer, key_of, load
from tests.public.nki_library import suite

#: What the model said when the suite was last run.
MODELLED = Path(__file__).with_name("modelled.csv")


def kept() -> list[Answer]:
    """Return the answers of the last run with a clone."""
    return load(MODELLED)


def goals_of(rows: Iterable[Row]) -> list[tuple[Row, Goal]]:
    """Return the scored rows that are goals of the commit that is run, with their configurations."""
    scored = [row for row in rows if row.score_use == "secondary"]
    pairs = [(row, goal_of(row)) for row in scored]
    return [(row, g) for row, g in pairs if g is not None and suite.COMMIT.startswith(g.commit)]


def answers_of(
    clone: Path, file: str, wanted: Sequence[tuple[Row, Goal]], limit: int
) -> tuple[list[Answer], list[str]]:
    """Time the configurations of one file, `limit` seconds for each; return answers and what went wrong."""
    answers, problems = [], []
    for line in _lines(clone, file, [goal for _, goal in wanted], limit):
        rows = [wanted[number][0] for number in line["goals"]]
        if "problem" in line:
            problems += [f"{row.name} ({row.source}): {line['problem']}" for row in rows]
        else:
            answers += [_answer(row, line) for row in rows]
    return answers, problems


def _answer(row: Row, line: dict[str, Any]) -> Answer:
    return Answer(
        *key_of(row),
        f"nki-library {row.kernel}",
        round(line["value"]),
        round(line["roofline_ns"]),
        round(line["bytes_ns"]),
        line["bottleneck"],
        " ".join(f"{busy:.1f}" for busy in line["busy"]),
    )


def _lines(clone: Path, file: str, goals: Sequence[Goal], limit: int) -> list[dict[str, Any]]:
    """Run one file of the suite and return what the plugin wrote; the clone stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        asked, report = Path(folder, "goals.json"), Path(folder, "times.jsonl")
        asked.write_text(json.dumps([goal._asdict() for goal in goals]), "utf-8")
        command = [sys.executable, "-m", "pytest", str(clone / suite.TESTS / file)]
        command += ["-q", "-c", str(clone / "test/pytest.ini"), "--rootdir", str(clone)]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["-o", f"artifacts_dir={folder}", "--output-directory", f"{folder}/out"]
        command += ["--test-mode", "simulation", "--platform-target", "trn2"]
        command += ["-p", "benchmarks.library.plugin", "--nki-target", "trn2"]
        command += ["--goals", str(asked), "--times", str(report), "--time-limit", str(limit)]
        if not any(e.name == "nki_lab" for e in entry_points(group="pytest11")):
            command += ["-p", "nki_lab.cli.pytest_plugin"]
        done = subprocess.run(
            command, cwd=folder, env=suite.environment(clone), capture_output=True, text=True
        )
        if not report.exists():
            raise RuntimeError(
                f"{file} was not timed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return [json.loads(line) for line in report.read_text("utf-8").splitlines()]
