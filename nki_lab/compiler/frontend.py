"""The source of a kernel: its text, its names, and the dialect it is written in.

The text is read, never rewritten. A kernel keeps its source from the moment it is defined, since a worker process or
a later look finds neither the cell nor the file.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import textwrap
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType
from typing import Any

from nki_lab.compiler.function_text import FunctionText
from nki_lab.compiler.version_comments import comment_of, version_said
from nki_lab.dialects import NKI, Dialect, dialects_of, owners_of
from nki_lab.dialects.dialect import codes_of
from nki_lab.errors import NkiError, UnknownName, close_matches
from nki_lab.rewrite import import_of
from nki_lab.source import Span, Stack, lines_of


@dataclass(frozen=True, eq=False)
class SourceKernel:
    """A function that is to be a kernel, with its text.

    Attributes:
        function: the author's own function object; it is what is run.
        text: its source, dedented; empty where Python cannot find it.
        filename: file or cell it stands in.
        first_line: line of the first line of `text` in that file.
        indent: white space that stood before its lines.
        nki: version of NKI that a comment above or in the function, or at the head of its cell or file, names; or "".
        configuration: what the decorator asks of the compiler, or None.
        decorated_in: the dialect of the decorator, or None.
        modules: what the names of its dialect among its globals stood for when it was defined.
    """

    function: Callable[..., Any]
    text: str
    filename: str
    first_line: int
    indent: str = ""
    nki: str = ""
    configuration: Any = None
    decorated_in: Dialect | None = None
    modules: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> SourceKernel:
        """Take the source of a function as it is now."""
        code = function.__code__
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            lines, first = [], code.co_firstlineno
        text = textwrap.dedent("".join(lines))
        removed = len(lines[0]) - len(lines_of(text)[0]) if text else 0
        indent = lines[0][:removed] if lines else ""
        nki = version_said(code.co_filename, first or 1, len(lines))
        source = cls(function, text, code.co_filename, first or 1, indent, nki)
        space = function.__globals__
        own = {d for d, name in source.dialects.items() if name}
        modules = {n: space[n] for n, o in owners_of(space).items() if not own or own & {*o}}
        return replace(source, modules=modules)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @property
    def version_comment(self) -> tuple[Span | None, bool]:
        """Where a comment names its version, and whether it is its own, not that of its file."""
        return comment_of(self.filename, self.first_line, len(lines_of(self.text)))

    @property
    def version_in_decorator(self) -> Span | None:
        """Where its decorator names its version."""
        text = self.function_text
        calls = getattr(text and text.node, "decorator_list", ())
        words = [word for call in calls for word in getattr(call, "keywords", ())]
        return next((text.place(w.value) for w in words if text and w.arg == "nki"), None)

    @property
    def version_place(self) -> Span | None:
        """Where its text names its version; None where it does not."""
        comment = self.version_comment[0] if self.nki else None
        return self.version_in_decorator or comment

    @property
    def code(self) -> CodeType:
        """Code object of the function."""
        return self.function.__code__

    @property
    def scope(self) -> Mapping[str, Any]:
        """What the names that the function does not bind stand for: its globals, and what its closure holds."""
        names: Mapping[str, Any] = self.function.__globals__
        if displaced := self.displaced:
            names = ChainMap(displaced, names)  # type: ignore[arg-type]
        if self.function.__closure__:
            cells = zip(self.code.co_freevars, self.function.__closure__, strict=True)
            return ChainMap(dict(_contents(cells)), names)  # type: ignore[arg-type]
        return names

    @property
    def displaced(self) -> dict[str, Any]:
        """Names that have come to mean another dialect since the function was defined, with what they meant then.

        Cells of a notebook share their globals: one that imports another dialect's `nl` binds it for all.
        """
        space = self.function.__globals__
        changed = {n: v for n, v in self.modules.items() if n in space and space[n] is not v}
        if not changed:
            return {}
        before, now = owners_of(changed), owners_of({name: space[name] for name in changed})
        return {n: changed[n] for n in now if not {*now[n]} & {*before.get(n, now[n])}}

    @property
    def dialects(self) -> dict[Dialect, str]:
        """The dialects whose modules the function's names come from, each with the first such name."""
        return dialects_of(self.code, self.scope)

    @property
    def dialect(self) -> Dialect:
        """The dialect of the function: that of its names, the first where there are several, or of its decorator."""
        return next(iter(self.dialects), self.decorated_in or NKI)

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the function."""
        return inspect.signature(self.function)

    @cached_property
    def definition(self) -> ast.stmt | None:
        """The parsed text, or None for a lambda cut out of a longer line and where there is no text."""
        try:
            (statement,) = _statements(self.text)
        except ValueError:  # none, or several
            return None
        return statement

    @cached_property
    def function_text(self) -> FunctionText | None:
        """The text of the function itself: a `def`, or the only lambda of the statement; None without one."""
        node = self.definition
        if node is None or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None if node is None else self._parsed
        lambdas = [n for n in ast.walk(node) if isinstance(n, ast.Lambda)]
        return replace(self._parsed, node=lambdas[0]) if len(lambdas) == 1 else None

    @property
    def _parsed(self) -> FunctionText:
        return FunctionText(
            self.definition,
            [line.rstrip("\n") for line in lines_of(self.text)],
            self.filename,
            self.first_line,
            self.name,
        )

    @cached_property
    def place(self) -> Span:
        """The line of the function's `def`."""
        self.restore_lines()
        if self.definition is None:
            return Span(self.filename, self.first_line, function=self.name)
        span = self._parsed.place(self.definition)
        header = linecache.getline(self.filename, span.line).rstrip()
        return replace(span, end_line=span.line, end_column=len(header))

    @cached_property
    def returns(self) -> Span:
        """The function's `return` statement; the line of its `def` where it has none, or several."""
        returns = list(_own_returns(self.definition)) if self.definition is not None else []
        if len(returns) != 1:
            return self.place
        self.restore_lines()
        return self._parsed.place(returns[0])

    def restore_lines(self) -> None:
        """Put the text back into linecache where it is gone or another by now, so that errors can show it."""
        kept = lines_of(textwrap.indent(self.text, self.indent))
        start, stop = self.first_line - 1, self.first_line - 1 + len(kept)
        lines = linecache.getlines(self.filename)
        if [line.rstrip() for line in lines[start:stop]] == [line.rstrip() for line in kept]:
            return
        lines = [*lines[:start], *["\n"] * (start - len(lines)), *kept, *lines[stop:]]
        cached = linecache.cache.get(self.filename, ())
        changed = cached[1] if len(cached) == 4 else None  # type: ignore[misc]
        linecache.cache[self.filename] = (sum(map(len, lines)), changed, lines, self.filename)


class KernelObject:
    """What stands for an author's function where that is a kernel: `nki.jit` makes it.

    Attributes:
        func: the author's function, unchanged.
        source: its text as it was when it was defined.
        choices_made: what it chooses for itself, by name.
    """

    func: Callable[..., Any]
    source: SourceKernel
    choices_made: Mapping[str, Any]


def _contents(cells: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _statements(text: str) -> list[ast.stmt]:
    for before in (
        "",
        "if True:\n",
    ):  # a string that reaches the margin leaves its function indented
        try:
            tree: Any = ast.parse(before + text)
        except SyntaxError:
            continue
        if before:
            tree = ast.increment_lineno(tree, -1).body[0]
        return tree.body
    return []


def _own_returns(node: ast.AST) -> Iterator[ast.Return]:
    """Yield the return statements of a function, not those of functions within it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _own_returns(child)


def unknown_names(
    code: CodeType, scope: Mapping[str, Any], callers: Stack = ()
) -> Iterator[NkiError]:
    """Yield an error for each global name the function reads that does not exist."""
    for inner in codes_of(code):
        for instruction in _loads(inner):
            name = instruction.argval
            if name in scope or hasattr(builtins, name):
                continue
            defined = {*scope, *dir(builtins), *inner.co_varnames}
            yield unknown_name(name, defined, ((inner, instruction.offset), *callers))


def unknown_name(name: str, known: Iterable[str], stack: Stack) -> UnknownName:
    """Return the error of a name that is defined nowhere."""
    return UnknownName(
        f"name `{name}` is not defined",
        stack=stack,
        help=import_of(name)
        or close_matches(name, known)
        or "define it in this cell or an earlier one, or import it",
    )


def _loads(code: CodeType) -> Iterator[Any]:
    stored = {
        i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_NAME", "STORE_GLOBAL")
    }
    seen: set[str] = set()
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval not in seen | stored:
            seen.add(i.argval)
            yield i
