"""Measures the tests: changes single places of the package, and counts the changes that a test notices.

python -m tests.mutations --record lines.db               # once: which test executes which line
python -m tests.mutations --record lines.db tests/isa     # with these tests only
python -m tests.mutations --lines lines.db --seed 14 --count 200
python -m tests.mutations --lines lines.db --seed 14 --only 3,17   # some of the same sample again

A change is tried in a copy of the tree, with the tests that execute its line, those of the same subject first. A change
that leaves the meaning as it is survives rightly: look at each survivor.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
ROOMS = ("isa", "simulator", "compiler", "timing", "ir")
TESTS = tuple(
    f"tests/{r}"
    for r in (*ROOMS, "language", "runtime", "reference", "profiler", "widgets", "magics", "fuzz")
)
COPIED = (
    "nki_lab",
    "tests",
    "benchmarks",
    "workshop",
    "docs",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
_FILES, _CLOSEST = 3, 100  # files, and tests of theirs, that are tried before all others
_OTHERS = 1500


class Mutation(NamedTuple):
    """A piece of a file, from byte `start` to `end`, that becomes `text`."""

    path: str
    line: int
    lines: tuple[int, int]
    start: int
    end: int
    text: str
    what: str


# -- what can be changed ---------------------------------------------------------------------------

_SWAPPED: dict[type, tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("//", "+")),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("*", "/")),
    ast.Mod: ("%", ("*",)),
    ast.Pow: ("**", ("*",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.BitXor: ("^", ("|",)),
    ast.LShift: ("<<", (">>",)),
    ast.RShift: (">>", ("<<",)),
    ast.And: ("and", ("or",)),
    ast.Or: ("or", ("and",)),
}


class _Finder:
    """Finds the changes that one file allows; each keeps the number of lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.source = (ROOT / path).read_bytes()
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def mutations(self) -> Iterator[Mutation]:
        tree = ast.parse(self.source)
        yield from self._inside(tree, (0, 0))

    def _inside(self, node: ast.AST, lines: tuple[int, int]) -> Iterator[Mutation]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns"):
                continue
            children = value if isinstance(value, list) else [value]
            for child in children:
                if not isinstance(child, ast.AST):
                    continue
                at = lines
                if isinstance(child, ast.stmt):
                    body = getattr(child, "body", None)
                    at = (
                        child.lineno,
                        body[0].lineno if body else child.end_lineno or child.lineno,
                    )
                if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                    continue
                for start, end, text, what in self._of(child):
                    line = self.source.count(b"\n", 0, start) + 1
                    yield Mutation(self.path, line, at, start, end, text, what)
                yield from self._inside(child, at)

    def _of(self, node: Any) -> Iterator[tuple[int, int, str, str]]:
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for n, operator in enumerate(node.ops):
                    yield from self._between(operands[n], operator, operands[n + 1])
            case ast.BinOp() if not any(_is_text(x) for x in (node.left, node.right)):
                yield from self._between(node.left, node.op, node.right)
            case ast.AugAssign() if type(node.op) in _SWAPPED:
                token = _SWAPPED[type(node.op)]
                start = self._end(node.target)
                at = self.source.index(token[0].encode(), start)
                for other in token[1]:
                    yield at, at + len(token[0]), other, f"{token[0]}= becomes {other}="
            case ast.BoolOp():
                for first, second in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(first, node.op, second)
            case ast.UnaryOp(op=ast.Not()):
                yield self._start(node), self._start(node) + 3, "   ", "not is left out"
            case ast.Constant(value=bool()):
                yield (
                    *self._span(node),
                    str(not node.value),
                    f"{node.value} becomes {not node.value}",
                )
            case ast.Constant(value=int() | float()):
                for other in (node.value + 1, node.value - 1):
                    yield *self._span(node), repr(other), f"{node.value} becomes {other}"
            case ast.If() | ast.IfExp() | ast.While():
                start, end = self._span(node.test)
                yield start, end, f"(not ({self._text(start, end)}))", "the condition is negated"
            case ast.Return(value=ast.expr()) if not _is_none(node.value):
                yield from self._gone(node, "return None")
            case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue():
                yield from self._gone(node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield from self._gone(node, "pass")
            case ast.Call(args=[first, second, *_]) if not any(
                isinstance(a, ast.Starred | ast.GeneratorExp) for a in node.args
            ):
                (a, b), (c, d) = self._span(first), self._span(second)
                text = self._text(c, d) + self._text(b, c) + self._text(a, b)
                if self._text(a, b) != self._text(c, d):
                    yield a, d, text, "two arguments are swapped"

    def _between(
        self, first: ast.AST, operator: ast.AST, second: ast.AST
    ) -> Iterator[tuple[int, int, str, str]]:
        token, others = _SWAPPED[type(operator)]
        start, end = self._end(first), self._start(second)
        place = re.search(re.escape(token).replace(r"\ ", r"\s+"), self._text(start, end))
        if place is not None:
            for other in others:
                yield start + place.start(), start + place.end(), other, f"{token} becomes {other}"

    def _gone(self, node: ast.AST, text: str) -> Iterator[tuple[int, int, str, str]]:
        start, end = self._span(node)
        lines = self.source.count(b"\n", start, end)
        yield start, end, text + "\n" * lines, f"the statement becomes {text}"

    def _start(self, node: Any) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: Any) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return self._start(node), self._end(node)

    def _text(self, start: int, end: int) -> str:
        return self.source[start:end].decode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def changed(mutation: Mutation) -> bytes:
    """Return the changed file."""
    source = (ROOT / mutation.path).read_bytes()
    return source[: mutation.start] + mutation.text.encode() + source[mutation.end :]


def all_mutations() -> list[Mutation]:
    """Return every change of the measured rooms that still is Python."""
    files = sorted(p for room in ROOMS for p in (ROOT / "nki_lab" / room).rglob("*.py"))
    return [m for p in files for m in _Finder(str(p.relative_to(ROOT))).mutations()]


# -- which tests execute a line --------------------------------------------------------------------


class Recorder:
    """The pytest plugin that records which test executes which line."""

    def __init__(self, path: str) -> None:
        import coverage

        self.coverage = coverage.Coverage(
            data_file=path, include=[f"{ROOT}/nki_lab/*"], config_file=False
        )
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.coverage.switch_context("")

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()


class Chosen:
    """The pytest plugin that runs the named tests only, in the order of the names."""

    def __init__(self, names: list[str]) -> None:
        self.order = {name: n for n, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid]
        )


def executing(lines: Any, mutation: Mutation, seed: int) -> list[str]:
    """Return the tests that execute the place, those of the same subject first; none when nothing does."""
    path = next((p for p in lines.measured_files() if p.endswith("/" + mutation.path)), None)
    by_line = lines.contexts_by_lineno(path) if path else {}
    first, last = mutation.lines
    names = set(by_line.get(mutation.line, ()))
    names |= (
        {c for at in range(first, last + 1) for c in by_line.get(at, ())} if not names else set()
    )
    if names == {""}:  # while the file is imported: for whatever uses it
        names = {c for contexts in by_line.values() for c in contexts}
    if names == {""}:
        names = set(lines.measured_contexts())
    tests = sorted(names - {""})
    random.Random(seed).shuffle(tests)
    room, subject = Path(mutation.path).parts[1], Path(mutation.path).stem

    def distance(name: str) -> tuple[bool, bool]:
        file = name.partition("::")[0]
        return subject.rstrip("s") not in Path(file).stem, f"tests/{room}/" not in file

    return sorted(tests, key=distance)


# -- one change after the other --------------------------------------------------------------------


def outcome(tree: Path, tests: list[str], limit_s: float) -> str:
    """Run tests in the copy; return the first that fails, "timeout", or "" when all pass."""
    names = tree / "chosen-tests"
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))[:_FILES]
    closest = [name for name in tests if name.partition("::")[0] in files][:_CLOSEST]
    others = [name for name in tests if name not in set(closest)][:_OTHERS]
    for part in (closest, others):
        if not part:
            continue
        seconds = limit_s + 0.2 * len(part)
        names.write_text("\n".join(part))
        files = list(dict.fromkeys(name.partition("::")[0] for name in part))
        command = [sys.executable, "-m", "tests.mutations", "--run", str(names), *files]
        environment = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FUZZ_EXAMPLES": "40",
        }
        try:
            run = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        if run.returncode != 0:
            lines = [
                line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
            ]
            return (
                lines[0]
                if lines
                else f"exit {run.returncode}: {(run.stdout + run.stderr)[-200:]!r}"
            )
    return ""


def run_tests(arguments: list[str], plugin: Any) -> int:
    import pytest

    marks = "not browser and not slow and not notebook"
    return int(
        pytest.main(["-q", "-p", "no:cacheprovider", "-m", marks, *arguments], plugins=[plugin])
    )


def measure(options: argparse.Namespace) -> int:
    """Try the sample and print what became of each change."""
    import coverage

    candidates = all_mutations()
    sample = random.Random(options.seed).sample(candidates, options.count)
    print(
        f"{len(candidates):,} changes are possible; {options.count} of them, seed {options.seed}",
        flush=True,
    )
    lines = coverage.CoverageData(options.lines)
    lines.read()
    survivors, tried = [], 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        for n, mutation in enumerate(sample):
            if options.only and n not in options.only:
                continue
            tried += 1
            start = time.perf_counter()
            tests = executing(lines, mutation, options.seed)
            (tree / mutation.path).write_bytes(changed(mutation))
            killer = outcome(tree, tests, options.limit)
            shutil.copy(ROOT / mutation.path, tree / mutation.path)
            if not killer:
                survivors.append(mutation)
            print(
                f"{n:4} {'killed' if killer else 'SURVIVED'} {mutation.path}:{mutation.line} {mutation.what} "
                f"[{len(tests)} tests, {time.perf_counter() - start:.0f} s] {killer[:150]}",
                flush=True,
            )
    print(f"{tried} changes, {tried - len(survivors)} noticed ({1 - len(survivors) / tried:.1%})")
    return 1 if len(survivors) > 0.05 * tried else 0


def _numbers(text: str) -> set[int]:
    spans = [part.partition("-") for part in text.split(",")]
    return {n for first, _, last in spans for n in range(int(first), int(last or first) + 1)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="run the tests once, all or those named, and record which line they execute",
    )
    parser.add_argument("--lines", metavar="FILE", help="what --record wrote")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds after which a change counts as noticed"
    )
    parser.add_argument("--only", type=_numbers, help="numbers of the sample, as 3,17 or 50-99")
    parser.add_argument("--run", metavar="FILE", help=argparse.SUPPRESS)
    options, files = parser.parse_known_args()
    if options.record:
        return run_tests(files or list(TESTS), Recorder(options.record))
    if options.run:
        return run_tests(["-x", *files], Chosen(Path(options.run).read_text().splitlines()))
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
