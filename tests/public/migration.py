"""Moves every published kernel of the older dialect that runs: `python -m tests.public.migration [words of suites]`.

Each kernel is moved by the calls that the published test makes of it, and proved by value as `nki-lab migrate` does.
The clones are those of `tests.public.beta1`. A table says what comes of each kernel, and why.

With `--keep FILE` first, rows are added to a file, cases whose rows it holds are not run again, and the table is of
all rows of the file: a sweep over everything can be run in pieces.
"""

from __future__ import annotations

import hashlib
import io
import json
import runpy
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nki_lab.dialects import BETA1
from nki_lab.errors import NkiError, NoKernel
from nki_lab.migration.modules import Module, Scope
from nki_lab.migration.moving import Migration, migrated
from nki_lab.migration.proof import DIVISION, Call
from nki_lab.runtime import Result
from nki_lab.runtime.recording import on_run
from nki_lab.runtime.time_limit import time_limit
from tests.public.beta1 import contributed, suites, tutorials, user_kernels
from tests.public.beta1.__main__ import outcome_of
from tests.public.beta1.kernels import Placed, called, surroundings

_CALLS = 3  # of a kernel, with the smallest inputs
_SECONDS = 240.0  # for a kernel
#: Comments that are about another kernel of the file, and about what calls kernels.
_OTHERS = ("no run reached `", "today's NKI has no nki.benchmark")


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

    def rows(self, suite: str, done: set[str], cases: Sequence[Placed] = ()) -> Iterator[Row]:
        """Move each kernel that was called, but those that are `done` in the same text at another commit.

        Kernels that functions make are called as cases do.
        """
        for (filename, kernel), calls in self.calls.items():
            path = Path(filename)
            key = f"{kernel} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            if key not in done:
                done.add(key)
                name = str(path.resolve().relative_to(self.folder))
                yield row_of(Row(suite, name, kernel), path, list(calls.values()), cases)


def row_of(row: Row, path: Path, calls: list[Call], cases: Sequence[Placed] = ()) -> Row:
    """Move the file of a kernel by calls of it, and say what came of it."""

    def call_all(scope: Scope) -> None:
        for call in calls:
            try:
                call.run(scope, call.arrays, str(path))
            except NoKernel:
                _call_made(SimpleNamespace(**scope), cases, call)

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


def _call_made(module: Any, cases: Sequence[Placed], call: Call) -> None:
    for case in cases:
        if case.case.check is not None:
            case.case.check(module)
        elif case.case.made is not None:
            called(case.case.made(module), case.case, list(call.arrays))


def _fill(row: Row, migration: Migration) -> None:
    row.comments = [n.text for n in migration.undecided if not n.text.startswith(_OTHERS)]
    row.sets = len(migration.proof)
    worst = max(migration.proof, key=lambda one: (bool(one.difference), one.ulps), default=None)
    if worst is not None:
        row.values = worst.said
        if worst.difference and not worst.cause:
            row.values += f" on {worst.inputs}: {worst.difference}"


class Kept:
    """Rows of this and of earlier sweeps.

    Attributes:
        path: of the file that holds them, if there is one.
        rows: all of them, in order.
        done: what need not be run again: kernels with a digest of their text, and what called them.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.rows, self.done = path, list[Row](), set[str]()
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        self.rows += [Row(**row) for row in line["rows"]]
        self.done |= set(line["done"])

    def add(self, rows: list[Row], done: set[str]) -> None:
        """Keep what was found, and print the rows."""
        line = {"rows": [asdict(row) for row in rows], "done": sorted(done - self.done)}
        self._take(line)
        for row in rows:
            print(row, flush=True)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                print(json.dumps(line), file=file)


def _move_tests(kept: Kept, words: list[str]) -> None:
    for tree, file in suites.published():
        name = f"{tree.name} tests {file}"
        if _meant(name, words) and name not in kept.done:
            done = kept.done | {name}
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder, "report")
                report.write_text(json.dumps(sorted(done)))
                before = ("-m", "tests.public.migration", "--run", str(tree.path), str(report))
                suites.outcomes(tree, file, before)
                report_of = json.loads(report.read_text("utf-8"))
                rows = [Row(**{**row, "suite": f"{tree.name} tests"}) for row in report_of["rows"]]
                kept.add(rows, done | set(report_of["done"]))


def _move_cases(kept: Kept, words: list[str]) -> None:
    files: dict[tuple[Path, str], list[Placed]] = defaultdict(list)
    for case in tutorials.cases() + contributed.cases() + user_kernels.cases():
        if case.case.raises is None and _meant(str(case), words):
            assert case.tree.path is not None
            files[case.tree.path, f"{case.folder}/{case.case.file}"].append(case)
    for (folder, file), cases in files.items():
        digest = hashlib.sha256(Path(folder, file).read_bytes()).hexdigest()
        names = {f"{case.case} {digest}" for case in cases}
        if names <= kept.done:
            continue
        listener = Listener(folder)
        for case in cases:
            with listener.listening(), redirect_stdout(io.StringIO()):
                outcome_of(case)  # `tests.public.beta1` tells whether it passes
        done = kept.done | names
        with surroundings(cases[0]):
            for row in listener.rows(cases[0].tree.name, done, cases):
                kept.add([row], done - names)
        kept.add([], done)


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
    """Print a row for each kernel, then how many of each suite came out how, and what is left most often."""
    path = Path(words[1]) if words[:1] == ["--keep"] else None
    kept = Kept(path)
    print("| suite | kernel | outcome | comments | values | sets of inputs | seconds | why |")
    print("|---|---|---|---|---|---|---|---|")
    for move in (_move_cases, _move_tests):
        move(kept, words[2 * (path is not None) :])
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in kept.rows:
        for suite in (row.suite, "all"):
            counts[suite].update([row.outcome, "kernels"])
    outcomes = ["kernels", *dict.fromkeys(row.outcome for row in kept.rows)]
    print(f"\n| suite | {' | '.join(outcomes)} |\n|{'---|' * (len(outcomes) + 1)}")
    for suite, count in sorted(counts.items(), key=lambda item: item[0] == "all"):
        print(f"| {suite} | {' | '.join(str(count[o] or '') for o in outcomes)} |")
    print("\n| what is left | kernels |\n|---|---|")
    causes = Counter(c for row in kept.rows for c in {row.error} - {""} or set(row.comments))
    for cause, number in causes.most_common():
        print(f"| {cause.replace('|', '/')} | {number} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:  # FOLDER REPORT -m MODULE WORDS
        run(sys.argv[2], Path(sys.argv[3]), sys.argv[5:])
    else:
        main(sys.argv[1:])
