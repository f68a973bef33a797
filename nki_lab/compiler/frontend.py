"""What did the author write, and can it ever be a kernel?

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType
from typing import Any

from nki_lab.errors import KernelErrors, NkiError, NotAllowed, UnknownName, close_matches
from nki_lab.source import Span


@dataclass(frozen=True, eq=False)
class SourceKernel:
    """A function that is to be a kernel, with its text.

    Attributes:
        function: the author's own function object; it is what is run.
        text: its source, dedented; empty where Python cannot find it.
        filename: file or cell it stands in.
        first_line: line of the first line of `text` in that file.
        indent: white space that stood before its lines.
    """

    function: Callable[..., Any]
    text: str
    filename: str
    first_line: int
    indent: str = ""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> SourceKernel:
        """Take the source of a function as it is now."""
        code = function.__code__
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            lines, first = [], code.co_firstlineno
        text = textwrap.dedent("".join(lines))
        removed = len(lines[0]) - len(text.splitlines(keepends=True)[0]) if text else 0
        indent = lines[0][:removed] if lines else ""
        return cls(function, text, code.co_filename, first or 1, indent)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @property
    def code(self) -> CodeType:
        """Code object of the function."""
        return self.function.__code__

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
    def place(self) -> Span:
        """The line of the function's `def`."""
        self.restore_lines()
        if self.definition is None:
            return Span(self.filename, self.first_line, function=self.name)
        span = _place_of(self.definition, self)
        header = linecache.getline(self.filename, span.line).rstrip()
        return replace(span, end_line=span.line, end_column=len(header))

    @cached_property
    def returns(self) -> Span:
        """The function's `return` statement; the line of its `def` where it has none, or several."""
        found = list(_own_returns(self.definition)) if self.definition is not None else []
        if len(found) != 1:
            return self.place
        self.restore_lines()
        return _place_of(found[0], self)

    def restore_lines(self) -> None:
        """Put the text back into linecache where it is gone or another by now, so that errors can show it."""
        kept = textwrap.indent(self.text, self.indent).splitlines(keepends=True)
        start, stop = self.first_line - 1, self.first_line - 1 + len(kept)
        lines = linecache.getlines(self.filename)
        if [line.rstrip() for line in lines[start:stop]] == [line.rstrip() for line in kept]:
            return
        lines = [*lines[:start], *["\n"] * (start - len(lines)), *kept, *lines[stop:]]
        known = linecache.cache.get(self.filename, ())
        changed = known[1] if len(known) == 4 else None  # type: ignore[misc]
        linecache.cache[self.filename] = (sum(map(len, lines)), changed, lines, self.filename)

    def check(self) -> None:
        """Raise for everything in the text that no NKI front end compiles, all at once."""
        self.restore_lines()
        errors = [*unknown_names(self.function), *forbidden(self)]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise KernelErrors(errors)


# What to write instead of each construct that can never work while a kernel is traced.
_FORBIDDEN: dict[type[ast.AST], tuple[str, str]] = {
    ast.Yield: ("`yield`", "a kernel runs once from top to bottom: return its output tensors"),
    ast.YieldFrom: ("`yield from`", "a kernel runs once from top to bottom: return its output tensors"),
    ast.Await: ("`await`", "call nki.isa instructions directly; engines overlap by themselves"),
    ast.AsyncFor: ("`async for`", "write a plain `for` over nl.affine_range"),
    ast.AsyncWith: ("`async with`", "remove it; engines overlap by themselves"),
    ast.AsyncFunctionDef: ("`async def`", "write a plain `def`"),
    ast.Try: ("`try`", "check with `if` or `assert` on values known while the kernel is traced"),
    ast.TryStar: ("`try`", "check with `if` or `assert` on values known while the kernel is traced"),
    ast.Global: ("`global`", "pass the value as an argument, or read it without `global`"),
    ast.Nonlocal: ("`nonlocal`", "pass the value as an argument and return the new one"),
    ast.Delete: ("`del`", "leave it out: a tile is free after its last use"),
}  # fmt: skip


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


def forbidden(source: SourceKernel) -> Iterator[NkiError]:
    """Yield an error for each construct of the kernel's text that no front end compiles."""
    if source.definition is None:
        return
    for node in ast.walk(source.definition):
        if type(node) in _FORBIDDEN:
            what, instead = _FORBIDDEN[type(node)]
            yield NotAllowed(
                f"{what} is not supported in a kernel",
                stack=(_place_of(node, source),),
                help=instead,
            )


def unknown_names(function: Callable[..., Any]) -> Iterator[NkiError]:
    """Yield an error for each global name the function reads that does not exist."""
    scope = function.__globals__
    for code in _codes(function.__code__):
        for instruction in _loads(code):
            name = instruction.argval
            if name in scope or hasattr(builtins, name):
                continue
            known = {*scope, *dir(builtins), *code.co_varnames}
            yield UnknownName(
                f"name `{name}` is not defined",
                stack=((code, instruction.offset),),
                help=close_matches(name, known)
                or "define it in this cell or an earlier one, or import it",
            )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _loads(code: CodeType) -> Iterator[Any]:
    stored = {
        i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_NAME", "STORE_GLOBAL")
    }
    seen: set[str] = set()
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval not in seen | stored:
            seen.add(i.argval)
            yield i


def _place_of(node: Any, source: SourceKernel) -> Span:
    """Return where a node of the kernel's text stands; `global` and the like have no code at all."""
    dedented = source.text.splitlines()[node.lineno - 1]
    line = source.first_line + node.lineno - 1
    written = linecache.getline(source.filename, line).rstrip("\n")
    removed = max(len(written) - len(dedented), 0)
    start, end = (
        removed + len(dedented.encode()[:offset].decode())
        for offset in (node.col_offset, node.end_col_offset)
    )
    last = line + node.end_lineno - node.lineno
    return Span(source.filename, line, start, last, end, source.name)
