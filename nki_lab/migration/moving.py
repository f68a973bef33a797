"""Moves a file or cell of kernels to another version of NKI, and proves by value that nothing changed."""

from __future__ import annotations

import ast
import difflib
import functools
import itertools
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.api.install import aliases
from nki_lab.dialects import BETA1, NKI
from nki_lab.errors import (
    BadFile,
    BadSyntax,
    CheckFailed,
    MixedDialects,
    NkiError,
    NoKernel,
    NotModelled,
    UnknownOption,
    close_matches,
)
from nki_lab.migration.facts import facts_of
from nki_lab.migration.modules import Made, Module, Scope, kernel_in, with_made
from nki_lab.migration.observed import Observed
from nki_lab.migration.older import moved_from_older
from nki_lab.migration.proof import (
    SECONDS,
    Call,
    Compared,
    as_before,
    prove,
    side_by_side,
)
from nki_lab.migration.rewriter import DIVISION, MARK, Moved, Note, rewritten
from nki_lab.runtime import Result
from nki_lab.runtime.beta1 import running_only
from nki_lab.runtime.recording import record_runs
from nki_lab.source import Span, text_of
from nki_lab.versions import NEWEST, VERSIONS, Version, version_named

#: Calls kernels of a module, given its names.
Caller = Callable[[Scope], Any]


@dataclass
class Migration:
    """A text that was moved, what was done, and the proof.

    Attributes:
        module: the text as it was.
        since, to: the versions that it was and is written for.
        text: as it is now.
        changes: what was changed.
        undecided: what is left with a comment `# migrate: ...`.
        proof: both versions of every call, on every set of inputs.
        is_older: it was of the older dialect.
        accepted: a cause for which values may differ.
    """

    module: Module
    since: Version
    to: Version
    text: str
    changes: list[Note]
    undecided: list[Note]
    proof: list[Compared] = field(default_factory=list)
    is_older: bool = False
    accepted: str = ""

    @property
    def is_moved(self) -> bool:
        """Whether there was anything to move."""
        return self.text != self.module.text

    @property
    def is_equal(self) -> bool:
        """Whether both versions were run, and every bit is equal."""
        return bool(self.proof) and not any(row.difference for row in self.proof)

    @property
    def refused(self) -> list[Compared]:
        """The rows of the proof whose values differ, but for the cause that is accepted."""
        return [
            row
            for row in self.proof
            if row.difference and not (row.cause and row.cause == self.accepted)
        ]

    @property
    def name(self) -> str:
        """The name of the file, or what stands for a cell."""
        return self.module.path.name if self.module.path is not None else "cell"

    @property
    def before(self) -> str:
        """What the text was written for."""
        if self.is_older:
            return "NKI Beta 1"
        return "forms of earlier versions" if self.since is self.to else f"NKI {self.since.name}"

    def diff(self) -> str:
        """Return the change as a unified diff."""
        names = f"{self.name} ({self.before})", f"{self.name} (NKI {self.to.name})"
        lines = difflib.unified_diff(
            self.module.text.splitlines(), self.text.splitlines(), *names, lineterm=""
        )
        return "\n".join(lines)

    def report(self) -> str:
        """Return what was done, what is left, and both versions side by side."""
        if not self.is_moved:
            return text_of([f"{self.name}: nothing to move, it is written for NKI {self.to.name}"])
        lines = [
            f"{self.name}: {self.before} -> NKI {self.to.name}, {_counted(self.changes, 'change')}"
        ]
        lines += [f"  {line}" for line in _grouped(self.changes)]
        if self.undecided:
            lines += [
                f"to decide, marked `{MARK}`:",
                *(f"  {line}" for line in _grouped(self.undecided)),
            ]
        lines += ["", *side_by_side(self.proof, self.before, self.to)] if self.proof else []
        lines += [
            f"{row.kernel}, {row.inputs}: {row.difference}" for row in self.proof if row.difference
        ]
        if self.is_equal:
            lines.append("every bit of every result is equal")
        elif self.proof and all(row.cause == DIVISION for row in self.proof if row.difference):
            lines.append(
                f"the division alone is the cause: `x / y` was rounded once, `x * (1 / y)` is rounded twice;"
                f" computed so in {self.before}, too, every bit is equal; "
                + ("it is accepted" if self.accepted else "--accept division takes the new text")
            )
        elif not self.proof:
            lines.append("not proved: the new text does not run before that is decided")
        return text_of(lines)

    def refuse_difference(self) -> None:
        """Raise CheckFailed where the values of the two versions differ, but for a cause that is accepted."""
        for row in self.refused[:1]:
            raise CheckFailed(
                f"{row.kernel} computes other values as a kernel for NKI {self.to.name}, on {row.inputs}:"
                f" {row.difference}",
                notes=("nothing was written",),
                help="nki-lab migrate --diff shows what would have been; "
                + (
                    "decide what its comments say"
                    if self.undecided
                    else "report it with the kernel"
                ),
            )

    def write(self, path: Path | None = None) -> Path:
        """Write the new text to a file, by default in place of the old one; refuse to where values differ."""
        self.refuse_difference()
        where = path or self.module.path
        if where is None:
            raise UnknownOption("a cell has no file to be written", help="give a path")
        where.write_text(self.text, encoding="utf-8")
        return where


def migrated(
    module: Module,
    caller: Caller | None,
    since: Version | None = None,
    to: Version = NEWEST,
    seed: int = 0,
    accepted: str = "",
) -> Migration:
    """Move a module, and prove it.

    Args:
        module: what to move.
        caller: calls its kernels; None where the module does so itself when it is run.
        since: the version that it is written for; None is the newest one that takes its calls.
        to: the version to write it for.
        seed: of the inputs that are drawn.
        accepted: a cause for which values may differ; "" for none.
    """
    _parsed(module.text, module.filename)
    if since is not None and since.number > to.number:
        raise UnknownOption(
            f"from NKI {since.name} to {to.name}: kernels are moved to a later version",
            help="leave --to out for the newest version",
        )
    with aliases(), running_only():
        is_given = since is not None
        is_older = BETA1.root in _imported_roots(module.text)
        if is_older and to is not NEWEST:
            raise UnknownOption(
                f"to NKI {to.name}: kernels of {BETA1.title} are moved to NKI {NEWEST.name} only",
                help="leave --to out",
            )
        observed = Observed() if is_older else None
        since, results = _first_run(module, caller, to if is_older else since, to, observed)
        if observed is not None:
            _observe_others(module, results, observed, seed)
            grids = {r.name: tuple(r.options.grid) for r in results if r.options.grid}
            moved = moved_from_older(module.text, observed, grids, accepted)
            while _observe_branches(module, results, observed, moved.unreached):
                moved = moved_from_older(module.text, observed, grids, accepted)
        else:
            moved = _rewritten(module, results, since, to)
        is_given |= is_older
        for earlier in () if is_given else reversed(VERSIONS[: VERSIONS.index(since)]):
            # Where other functions of a file are older, the calls alone do not tell.
            if not moved.undecided:
                break
            try:
                older, again = _first_run(module, caller, earlier, to)
            except NkiError:
                continue
            other = _rewritten(module, again, older, to)
            if len(other.undecided) < len(moved.undecided):
                since, results, moved = older, again, other
        migration = Migration(
            module,
            since,
            to,
            moved.text,
            moved.changes,
            moved.undecided,
            is_older=is_older,
            accepted=accepted,
        )
        if not migration.is_moved:
            return migration
        calls = [call for call in map(Call.of, results) if call is not None]
        new_name = f"{module.filename} (NKI {to.name})"

        def define(is_new: bool) -> tuple[Scope, str]:
            text, name = (migration.text, new_name) if is_new else (module.text, module.filename)
            scope = module.run(text, name, _NAME)
            made = Made({call.kernel for call in calls if not _is_there(scope, call.kernel)})
            if made.names:
                # What defines them is called as it was; they are launched below.
                with record_runs(), suppress(Exception):
                    script = "__main__" if caller is None and module.is_script else _NAME
                    scope = module.run(text, name, script, made)
                    if caller is not None:
                        caller(scope)
            for one in made.names:
                if not _is_there(scope, one):
                    raise NoKernel(
                        f"`{one}` is made by a function that the call does not reach in the text for NKI {to.name}",
                        help="call it as both texts do: make(...)(a, b), not nki.simulate_kernel(make(...), a, b)",
                    )
            return scope, name

        try:
            for row in prove(calls, define, since, to, seed, is_older):
                migration.proof.append(row)
        except NkiError as error:
            migration.proof.clear()
            _mark(migration, error, new_name)
    return migration


def _is_there(scope: Scope, name: str) -> bool:
    with suppress(NkiError):
        kernel_in(scope, name, "")
        return True
    return False


_NAME = "nki_lab_migrated"
_IMPORTS = "write the imports into the same file or cell, which are moved with it"


def _rewritten(module: Module, results: list[Result], since: Version, to: Version) -> Moved:
    facts = facts_of(results, module.filename)
    return rewritten(module.text, facts, since, to, module.filename)


def _first_run(
    module: Module,
    caller: Caller | None,
    since: Version | None,
    to: Version,
    observed: Observed | None = None,
) -> tuple[Version, list[Result]]:
    """Return the version that a module is written for, and the runs of its kernels in it."""
    earlier = [v for v in reversed(VERSIONS) if v.number <= to.number]
    refused: dict[str, NkiError] = {}
    for version in [since] if since is not None else earlier:
        try:
            with as_before(version, observed is not None), record_runs() as runs:
                name = "__main__" if caller is None and module.is_script else _NAME
                scope = module.run(module.text, module.filename, name, observed)
                if caller is not None:
                    caller(scope)
        except (BadSyntax, UnknownOption, NoKernel, MixedDialects):
            raise
        except NkiError as error:
            refused.setdefault(error.message, error)
            if since is None and version is not VERSIONS[0]:
                continue
            errors = list(refused.values())
            raise next((e for e in errors if "refused since" not in e.message), errors[0]) from None
        if not runs:
            raise NoKernel(
                f"{Path(module.filename).name}: nothing calls its kernels, so there is nothing to compare by",
                help="give a call, --call 'kernel(a, b)', or inputs, --input a=randn:128x512",
            )
        for run in runs if observed is None else ():
            _refuse_unseen(run)
        written = min((run.options.version for run in runs), key=lambda v: v.number)
        if since is not None and written.number != since.number:
            raise UnknownOption(
                f"--from {since.name}: the text says of its kernels that they are written for NKI {written.name}",
                help="leave --from out",
            )
        return written, list(runs)
    raise AssertionError("there is no version")


def _observe_others(
    module: Module, results: Sequence[Result], observed: Observed, seed: int
) -> None:
    """Run kernels on the other shapes and dtypes of the proof, so that those of one call are not taken for all."""
    scope = with_made(module.run(module.text, module.filename, _NAME, observed), _nested(results))
    started = time.monotonic()
    for call in filter(None, map(Call.of, results)):
        for _, arrays in itertools.islice(call.sets(np.random.default_rng(seed)), 1, None):
            if time.monotonic() - started > SECONDS:
                return
            with suppress(Exception), observed.trial():
                call.trace(scope, arrays, module.filename)


def _nested(results: Sequence[Result]) -> Scope:
    """Return the kernels of runs that functions made, by name."""
    found: Scope = {}
    for result in results:
        call = Call.of(result)
        if call is not None and result.retrace is not None:
            function = result.retrace.source.function
            if "<locals>" in function.__qualname__:
                found[call.kernel] = function
    return found


def _observe_branches(
    module: Module, results: Sequence[Result], observed: Observed, lines: Sequence[int]
) -> bool:
    """Trace kernels through branches that no run reached, and tell whether one of them took such a branch."""
    started = time.monotonic()
    calls = [call for call in map(Call.of, results) if call is not None]
    calls.sort(key=lambda call: sum(a.size for a in call.arrays))
    taken = False
    for line, call in itertools.product(lines, calls):
        if line not in observed.forced and time.monotonic() - started < SECONDS:
            # Defined anew, a kernel is traced anew.
            scope = module.run(module.text, module.filename, _NAME, observed)
            scope = with_made(scope, _nested(results))
            trace = functools.partial(call.trace, scope, call.arrays, module.filename)
            taken |= observed.forcing(line, trace)
    return taken


def _refuse_unseen(run: Result) -> None:
    if run.retrace is not None and run.retrace.source.dialect is BETA1:
        raise NotModelled(
            f"`{run.name}` is a kernel of {BETA1.title}, and its text does not import neuronxcc.nki",
            stack=(run.retrace.source.place,),
            help=_IMPORTS,
        )


def since_named(name: str | None, module: Module) -> Version | None:
    """Return the version that a module is said to be written for; None where it, or its imports, are to tell."""
    roots = _imported_roots(module.text)
    text = module.path.name if module.path is not None else "the cell"
    if name == BETA1.option and BETA1.root not in roots:
        raise UnknownOption(
            f"`{name}` is neuronxcc.nki, which is not imported in {text}", help=_IMPORTS
        )
    if name in (None, BETA1.option):
        return None
    if BETA1.root in roots and NKI.root not in roots:
        raise UnknownOption(
            f"`{name}` is a version of nki, and {text} imports neuronxcc.nki",
            help=f"write {BETA1.option} instead of {name}, or leave --from out: the imports tell",
        )
    return version_named(name)


def _imported_roots(text: str) -> set[str]:
    """Return the outermost packages that a text imports."""
    names: list[str] = []
    try:
        tree = ast.parse(text)
    except SyntaxError:  # which the reader of the text tells with its line
        return set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}


def _mark(migration: Migration, error: NkiError, filename: str) -> None:
    """Leave what the new version refuses as comments in the new text; raise what is about no line of it."""
    lines: dict[int, str] = {}
    for one in getattr(error, "errors", None) or [error]:
        places = [Span.of(place) for place in one.stack]
        line = next((p.line for p in places if p.filename == filename), 0)
        if not line:
            raise error
        lines.setdefault(
            line, f"{one.message.splitlines()[0]}{f'; {one.help}' if one.help else ''}"
        )
    text = migration.text.splitlines(keepends=True)
    starts = sorted(
        {n.lineno for n in ast.walk(ast.parse(migration.text)) if isinstance(n, ast.stmt)},
        reverse=True,
    )
    for line, message in sorted(lines.items(), reverse=True):
        start = next(s for s in starts if s <= line)
        indent = text[start - 1][: len(text[start - 1]) - len(text[start - 1].lstrip())]
        comment = textwrap.wrap(f"{MARK} {message}", 100, subsequent_indent="#   ")
        text[start - 1 : start - 1] = [f"{indent}{part}\n" for part in comment]
        migration.undecided.append(Note(start, message))
    migration.text = "".join(text)


def _parsed(text: str, filename: str) -> ast.Module:
    try:
        return ast.parse(text, filename)
    except SyntaxError as error:
        column = max((error.offset or 1) - 1, 0)
        place = Span(filename, error.lineno or 1, column, error.lineno or 1, column + 1)
        raise BadSyntax.of(error.msg, place) from None
    except ValueError as error:  # a null byte
        raise BadSyntax.of(str(error), Span(filename, 1)) from None


def module_of(path: Path) -> Module:
    """Return the module that a file is."""
    if not path.is_file():
        near = [f.name for f in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise UnknownOption(f"there is no file {path}", help=close_matches(path.name, near))
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadFile(f"{path} is not a text in UTF-8", help="name a Python file") from None
    return Module(text, str(path.resolve()), path)


def _grouped(notes: Sequence[Note]) -> list[str]:
    """Return notes as lines, each text once."""
    lines: dict[str, list[int]] = {}
    for note in notes:
        lines.setdefault(note.text, []).append(note.line)
    return [
        f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, dict.fromkeys(numbers)))}: {text}"
        for text, numbers in lines.items()
    ]


def _counted(notes: Sequence[Note], word: str) -> str:
    return f"{len(notes)} {word}{'s' * (len(notes) != 1)}"
