"""Rewrites the text of kernels statement by statement, and keeps its comments and its layout.

The rules are in `calls.py` and `loops.py`; here is what they share: places, official names, what was changed, and what
is left with a comment `# migrate: ...` above its statement.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from nki_lab.compiler.version_comments import VERSION_COMMENT
from nki_lab.errors import BadSyntax
from nki_lab.migration.calls import Site, move_call
from nki_lab.migration.facts import Facts, Place
from nki_lab.migration.loops import counted_loop, register_loop
from nki_lab.migration.names import Names
from nki_lab.source import Span
from nki_lab.versions import ACCEPTED, FORMS, NEWEST, Version, deprecated_in

#: How a comment begins that says what an author must decide.
MARK = "# migrate:"
#: A cause of other values: the quotient that was rounded once is a product with 1 / y, rounded twice.
DIVISION = "division"

_STATEMENT = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_WIDTH = 100


class Note(NamedTuple):
    """Something about a line of the original text: what was changed there, or what is left to decide."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass
class Moved:
    """The text of a module moved to another version.

    Attributes:
        text: the new text.
        changes: what was changed.
        undecided: what is left with a comment.
        unreached: first lines of branches of the older text that no run reached.
    """

    text: str
    changes: list[Note] = field(default_factory=list)
    undecided: list[Note] = field(default_factory=list)
    unreached: list[int] = field(default_factory=list)


def rewritten(text: str, facts: Facts, since: Version, to: Version, filename: str = "") -> Moved:
    """Move the text of a module from one version to another.

    Args:
        text: the module.
        facts: what runs of its kernels show.
        since: the version that it is written for.
        to: the version to write it for.
        filename: its name, for errors.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    except cst.ParserSyntaxError as error:
        place = Span(filename, error.raw_line, max(error.editor_column - 1, 0))
        raise BadSyntax.of(error.message, place) from None
    rewriter = Rewriter(wrapper.module, facts, since, to)
    moved = wrapper.visit(rewriter)
    key = lambda note: note.line  # noqa: E731
    changes, undecided = sorted(rewriter.changes, key=key), sorted(rewriter.undecided, key=key)
    return Moved(moved.code, list(dict.fromkeys(changes)), list(dict.fromkeys(undecided)))


@dataclass
class _Frame:
    """What becomes of the statement that is being visited: comments above it, and other statements in its place."""

    comments: list[str] = field(default_factory=list)
    split: Callable[[cst.SimpleStatementLine], Any] | None = None


class Rewriter(cst.CSTTransformer):
    """Applies every rule to a module.

    Attributes:
        names: the official names in it.
        facts: what runs show.
        since, to: versions that it is written for, and is to be.
        changes, undecided: what was done, and what was not.
        functions: the functions around the node that is visited, the outermost first.
        loops: the loops around it within its function.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, module: cst.Module, facts: Facts, since: Version, to: Version) -> None:
        super().__init__()
        self.module = module
        self.names = Names(module)
        self.facts = facts
        self.since, self.to = since, to
        self.changes: list[Note] = []
        self.undecided: list[Note] = []
        self.functions: list[cst.FunctionDef] = []
        self.loops: list[cst.For | cst.While] = []
        self.bodies = 0
        self._frames: list[_Frame] = []

    # -- what rules ask and say ------------------------------------------------------------------------------------

    def place(self, node: cst.CSTNode) -> Place:
        """Return where a node of the original text stands."""
        where = self.get_metadata(PositionProvider, node)
        assert isinstance(where, CodeRange)
        return Place(where.start.line, where.start.column, where.end.line, where.end.column)

    def moves(self, form: str) -> bool:
        """Tell whether the version to write for does anything but accept a form."""
        return FORMS[form].level(self.to) != ACCEPTED

    def met(self, form: str, node: cst.CSTNode) -> bool:
        """Tell whether a run met a form at a node that the version to write for does not accept."""
        return self.moves(form) and self.facts.met(form, self.place(node))

    def change(self, node: cst.CSTNode, text: str, comment: str = "") -> None:
        """Note what was changed at a node; `comment` stands above its statement."""
        self.changes.append(Note(self.place(node).line, text))
        if comment and self._frames:
            self._frames[-1].comments.append(f"# {comment}")

    def decide(self, node: cst.CSTNode, text: str) -> None:
        """Leave a comment above the statement of a node that says what to decide."""
        self.undecided.append(Note(self.place(node).line, text))
        if self._frames:
            self._frames[-1].comments.append(f"{MARK} {text}")

    def keep_comments(self, node: cst.CSTNode) -> None:
        """Put the comments of a node that is left out above its statement."""
        if self._frames:
            comments = m.findall(node, m.Comment())
            self._frames[-1].comments += [c.value for c in comments if isinstance(c, cst.Comment)]

    def split(self, into: Callable[[cst.SimpleStatementLine], Any]) -> None:
        """Put what a function makes of the statement that is visited in its place."""
        self._frames[-1].split = into

    # -- statements ------------------------------------------------------------------------------------------------

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Open a statement."""
        if isinstance(node, _STATEMENT):
            self._frames.append(_Frame())
        if isinstance(node, cst.FunctionDef):
            self.functions.append(node)
        if isinstance(node, (cst.For, cst.While)):
            self.loops.append(node)
        return super().on_visit(node)

    def on_leave(self, original: Any, updated: Any) -> Any:  # type: ignore[override]
        """Close a statement, and put above it what is to be said there."""
        if isinstance(original, (cst.For, cst.While)):
            self.loops.pop()
        result: Any = super().on_leave(original, updated)
        if isinstance(original, cst.FunctionDef):
            self.functions.pop()
        if isinstance(original, _STATEMENT):
            frame = self._frames.pop()
            if frame.split is not None:
                result = frame.split(result)
            result = _under_comments(result, frame.comments)
        return result

    def visit_Import(self, node: cst.Import) -> bool:
        """Leave imports as they are."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        """Leave imports as they are."""
        return False

    def leave_For(self, original: cst.For, updated: cst.For) -> Any:  # type: ignore[override]
        """Move a loop over nl.dynamic_range."""
        return counted_loop(self, original, updated)

    def leave_While(self, original: cst.While, updated: cst.While) -> Any:  # type: ignore[override]
        """Move a `while` over a register."""
        return register_loop(self, original, updated)

    def leave_Decorator(self, original: cst.Decorator, updated: cst.Decorator) -> cst.Decorator:  # type: ignore[override]
        """Write `@nki.jit` where no argument of `@nki.jit(...)` stays."""
        before, now = original.decorator, updated.decorator
        if (
            isinstance(now, cst.Call)
            and isinstance(before, cst.Call)
            and before.args
            and not now.args
        ):
            return updated.with_changes(decorator=now.func)
        return updated

    # -- expressions -----------------------------------------------------------------------------------------------

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:  # type: ignore[override]
        """Move a call."""
        return move_call(Site(self, self.names.official(original.func), original, updated))

    def leave_Attribute(
        self, original: cst.Attribute, updated: cst.Attribute
    ) -> cst.BaseExpression:  # type: ignore[override]
        """Write the name that replaces a deprecated one."""
        name = self.names.official(original)
        now = deprecated_in(self.to).get(name, "") if name else ""
        if "." not in now:  # a function of Python takes its arguments in another way
            return updated
        self.change(original, f"{_short(name)} is {_short(now)}")
        return self.names.written(now)

    # -- the module ------------------------------------------------------------------------------------------------

    def leave_EmptyLine(self, original: cst.EmptyLine, updated: cst.EmptyLine) -> Any:
        """Write the version anew that a comment says, or leave the line out where that is not needed."""
        return self._versioned(original, updated) or cst.RemoveFromParent()

    def leave_TrailingWhitespace(
        self, original: cst.TrailingWhitespace, updated: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        """Do the same with a comment behind a statement."""
        alone = updated.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        return self._versioned(original, updated) or alone

    def _versioned(self, original: Any, updated: Any) -> Any:
        """Return a line with the version that its comment says made the new one; None where nothing is to be said."""
        if updated.comment is None or VERSION_COMMENT.match(updated.comment.value) is None:
            return updated
        self.change(original, f"it is written for NKI {self.to.name}")
        said = cst.Comment(f"# nki: {self.to.name}")
        return None if self.to is NEWEST else updated.with_changes(comment=said)

    def leave_Module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        """Add the imports that are needed, below the last one of NKI."""
        lines = [cst.parse_statement(line) for line in dict.fromkeys(self.names.needed)]
        if not lines:
            return updated
        body = list(updated.body)
        of_nki = [n for n, node in enumerate(original.body) if self.names.imports_nki(node)]
        at = of_nki[-1] + 1 if of_nki else 0
        return updated.with_changes(body=[*body[:at], *lines, *body[at:]])


def _short(name: str) -> str:
    return name.replace("nki.language", "nl").replace("nki.isa", "nisa")


def _under_comments(result: Any, comments: list[str]) -> Any:
    if not comments or isinstance(result, cst.RemovalSentinel):
        return result
    first, *rest = result.nodes if isinstance(result, cst.FlattenSentinel) else [result]
    present = {line.comment.value for line in first.leading_lines if line.comment}
    lines = [
        line
        for comment in dict.fromkeys(comments)
        for line in textwrap.wrap(comment, _WIDTH, subsequent_indent="#   ")
    ]
    added = [cst.EmptyLine(comment=cst.Comment(line)) for line in lines if line not in present]
    first = first.with_changes(leading_lines=[*first.leading_lines, *added])
    return cst.FlattenSentinel([first, *rest]) if rest else first
