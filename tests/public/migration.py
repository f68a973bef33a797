"""Moves every published kernel of the older dialect that runs: `python -m tests.public.migration [words of suites]`.

Each kernel is moved by the calls that the published test makes of it, and proved by value as `nki-lab migrate` does.
The clones are those of `tests.public.beta1`. A table says what comes of each kernel, and why.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import runpy
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nki_lab.dialects import BETA1
from nki_lab.errors import NkiError
from nki_lab.migration.modules import Module, Scope
from nki_lab.migration.moving import Migration, migrated
from nki_lab.migration.proof import DIVISION, Call
from nki_lab.runtime import Result
from nki_lab.runtime.recording import on_run
from nki_lab.runtime.time_limit import time_limit
from tests.public.beta1 import contributed, suites, tutorials, user_kernels
from tests.public.beta1.__main__ import outcome_of
from tests.public.beta1.kernels import Placed, surroundings

_CALLS = 3  # of a kernel, with the smallest inputs
_SECONDS = 240.0  # for a kernel
_UNREACHED = "no run reached `"  # another kernel of the file


@dataclass
class Row:
    """What came of a kernel.

    Attributes:
        suite, file, kernel: where it stands.
        comments: what is left to decide.
        values: whether they are equal, in a few words; "" where they were not compared.
        error: why it cannot be moved.
        sets: sets of inputs on which both versions ran.
        seconds: that it took.
    """

    suite: str
    file: str
    kernel: str
    comments: list[str] = field(default_factory=list)
    values: str = ""
    error: str = ""
    sets: int = 0
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""
        if self.error:
            return "cannot"
        if self.values.endswith(f"({DIVISION})"):
            return f"moved but for the {DIVISION}"
        if not self.comments:
            return "moved" if self.values == "equal" else "moved, not equal"
        return "comments, equal" if self.values == "equal" else "comments"

    def __str__(self) -> str:
        reasons = dict.fromkeys([self.error] if self.error else self.comments)
        cells = (
            self.suite,
            f"{self.file}:{self.kernel}",
            self.outcome,
            str(len(self.comments) or ""),
            self.values or "not run",
            f"{self.sets}",
            f"{self.seconds:.0f}",
            "; ".join(reasons),
        )
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


class Listener:
    """Keeps calls of kernels of the older dialect whose files lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.calls: dict[tuple[str, str], dict[str, Call]] = defaultdict(dict)

    def __call__(self, result: Result) -> None:
        """Keep the call of a run."""
        retrace = result.retrace
        if retrace is None or retrace.source.dialect is not BETA1:
            return
        source = retrace.source
        call = Call.of(result)
        if call is None or not Path(source.filename).resolve().is_relative_to(self.folder):
            return
        calls = self.calls[source.filename, call.kernel]
        calls.setdefault(repr((call.args, call.kwargs, call.grid)), call)
        if len(calls) > _CALLS:
            del calls[max(calls, key=lambda name: sum(a.size for a in calls[name].arrays))]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keep the calls that are made in a block."""
        on_run(self)
        try:
            yield
        finally:
            on_run(None)

    def rows(self, suite: str, done: set[str]) -> Iterator[Row]:
        """Move each kernel that was called, but those that are `done` in the same text at another commit."""
        for (filename, kernel), calls in self.calls.items():
            path = Path(filename)
            key = f"{kernel} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            if key not in done:
                done.add(key)
                name = str(path.resolve().relative_to(self.folder))
                yield row_of(Row(suite, name, kernel), path, list(calls.values()))


def row_of(row: Row, path: Path, calls: list[Call]) -> Row:
    """Move the file of a kernel by calls of it, and say what came of it."""

    def call_all(scope: Scope) -> None:
        for call in calls:
            call.run(scope, call.arrays, str(path))

    started = time.monotonic()
    try:
        module = Module(path.read_text("utf-8"), str(path), path)
        with time_limit(_SECONDS), redirect_stdout(io.StringIO()):
            migration = migrated(module, call_all)
        _fill(row, migration)
    except NkiError as error:
        row.error = f"{type(error).__name__}: {' '.join(error.message.split())[:300]}"
    except Exception as error:
        row.error = f"crashed: {type(error).__name__}: {error}"[:300]
    row.seconds = time.monotonic() - started
    return row


def _fill(row: Row, migration: Migration) -> None:
    row.comments = [n.text for n in migration.undecided if not n.text.startswith(_UNREACHED)]
    row.sets = len(migration.proof)
    worst = max(migration.proof, key=lambda one: (bool(one.difference), one.ulps), default=None)
    if worst is not None:
        row.values = worst.said
        if worst.difference and not worst.cause:
            row.values += f" on {worst.inputs}: {worst.difference}"


def _of_tests(words: list[str]) -> Iterator[Row]:
    done: set[str] = set()
    for tree, file in suites.published():
        if _meant(f"{tree.name} tests {file}", words):
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder, "report")
                report.write_text(json.dumps(sorted(done)))
                before = ("-m", "tests.public.migration", "--run", str(tree.path), str(report))
                suites.outcomes(tree, file, before)
                report_of = json.loads(report.read_text("utf-8"))
                done.update(report_of["done"])
                for row in report_of["rows"]:
                    yield Row(**{**row, "suite": f"{tree.name} tests"})


def _of_cases(words: list[str]) -> Iterator[Row]:
    done: set[str] = set()
    files: dict[tuple[Path, str], list[Placed]] = defaultdict(list)
    for case in tutorials.cases() + contributed.cases() + user_kernels.cases():
        if case.case.raises is None and _meant(str(case), words):
            assert case.tree.path is not None
            files[case.tree.path, f"{case.folder}/{case.case.file}"].append(case)
    for (folder, _), cases in files.items():
        listener = Listener(folder)
        for case in cases:
            with listener.listening(), redirect_stdout(io.StringIO()):
                outcome_of(case)  # `tests.public.beta1` tells whether it passes
        with surroundings(cases[0]):
            yield from listener.rows(cases[0].tree.name, done)


def _meant(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


def run(folder: str, report: Path, words: list[str]) -> None:
    """Run a module as `python -m` does, then move the kernels that it called; write what came of them as JSON."""
    listener = Listener(Path(folder))
    done = set(json.loads(report.read_text("utf-8")))
    sys.argv = words
    with listener.listening(), suppress(SystemExit):
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    rows = [asdict(row) for row in listener.rows("", done)]
    report.write_text(json.dumps({"rows": rows, "done": sorted(done)}), "utf-8")


def main(words: list[str]) -> None:
    """Print a row for each kernel, then how many came out how, and what is left most often."""
    rows: list[Row] = []
    print("| suite | kernel | outcome | comments | values | sets of inputs | seconds | why |")
    print("|---|---|---|---|---|---|---|---|")
    for row in itertools.chain(_of_cases(words), _of_tests(words)):
        print(row, flush=True)
        rows.append(row)
    print("\n| outcome | kernels |\n|---|---|")
    for outcome, count in Counter(row.outcome for row in rows).most_common():
        print(f"| {outcome} | {count} |")
    print(f"| all | {len(rows)} |\n\n| what is left | kernels |\n|---|---|")
    causes = Counter(c for row in rows for c in {row.error} - {""} or set(row.comments))
    for cause, count in causes.most_common():
        print(f"| {cause.replace('|', '/')} | {count} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:  # FOLDER REPORT -m MODULE WORDS
        run(sys.argv[2], Path(sys.argv[3]), sys.argv[5:])
    else:
        main(sys.argv[1:])
