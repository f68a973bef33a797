"""What did the author write at a place, and what do the names in it stand for?"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import re
from contextlib import ContextDecorator
from types import FrameType, TracebackType
from typing import Any

from nki_lab.ir.tensor import NkiTensor
from nki_lab.isa.operators import Op
from nki_lab.source import Span, Stack, is_hidden

_CONTEXTS = inspect.getfile(ContextDecorator)
_UNKNOWN: Any = object()
_SHOWN = 4
_PLAIN = (int, float, str, bool, type(None))


def author_frame(tb: TracebackType | None) -> tuple[FrameType | None, bool]:
    """Return the author's innermost frame, and whether the call it was making never began."""
    frame, is_last = None, False
    while tb is not None:
        code = tb.tb_frame.f_code
        if not is_hidden(code):
            frame, is_last = tb.tb_frame, True
        elif code is not Op.__call__.__code__ and code.co_filename != _CONTEXTS:
            is_last = False  # the others only hand their arguments on
        tb = tb.tb_next
    return frame, is_last


def text_of(span: Span, beyond: bool = False) -> str:
    """Return the text of a span, or all from its start to the end of its last line."""
    last = span.end_line or span.line
    lines = [linecache.getline(span.filename, n) for n in range(span.line, last + 1)]
    if not beyond:
        lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column or 0 :]
    return "".join(lines)


def parsed(text: str) -> ast.expr | None:
    """Return the expression that a text is, or None."""
    try:
        return ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None


def call_at(stack: Stack) -> ast.Call | None:
    """Return the call at the innermost place."""
    found = parsed(text_of(Span.of(stack[0]))) if stack else None
    return found if isinstance(found, ast.Call) else None


def call_of_attribute(stack: Stack) -> ast.Call | None:
    """Return the call of the attribute at the innermost place, where it ends in the same line."""
    if not stack:
        return None
    text = text_of(Span.of(stack[0]), beyond=True)
    for end in (m.end() for m in re.finditer(r"\)", text)):
        found = parsed(text[:end])
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
            return found
    return None


def value(name: ast.expr, frame: FrameType) -> Any:
    """Return what a dotted name of the author's stands for, without running any of their code."""
    if isinstance(name, ast.Attribute):
        holder = value(name.value, frame)
        if inspect.ismodule(holder) or isinstance(holder, NkiTensor):
            return getattr(holder, name.attr, None)
        return None
    if not isinstance(name, ast.Name):
        return None
    scopes = (frame.f_locals, frame.f_globals, vars(builtins))
    return next((scope[name.id] for scope in scopes if name.id in scope), None)


def expression_at(stack: Stack) -> ast.AST | None:
    """Return the expression, or else the statement, at the innermost place."""
    if not stack:
        return None
    text = text_of(Span.of(stack[0]))
    found = parsed(text)
    if found is not None:
        return found
    try:
        return ast.parse(text.strip())
    except SyntaxError:
        return None


def held(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name with attributes and elements, without running any of the author's code."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        scopes = (frame.f_locals, frame.f_globals)
        return next((scope[node.id] for scope in scopes if node.id in scope), _UNKNOWN)
    if isinstance(node, ast.Attribute):
        holder = held(node.value, frame)
        if isinstance(holder, NkiTensor):
            return getattr(holder, node.attr, _UNKNOWN)
        return getattr(holder, "__dict__", {}).get(node.attr, _UNKNOWN)
    if isinstance(node, ast.Subscript):
        holder, key = held(node.value, frame), held(node.slice, frame)
        if type(holder) in (tuple, list, dict) and type(key) in (int, str):
            try:
                return holder[key]
            except (LookupError, TypeError):
                return _UNKNOWN
    return _UNKNOWN


def values_in(node: ast.AST, frame: FrameType) -> str:
    """Return the plain values that names in an expression have, as `n = 0, x.shape[0] = 128`."""
    found: dict[str, str] = {}
    waiting = [node]
    while waiting:
        at = waiting.pop(0)
        if isinstance(at, (ast.Name, ast.Attribute, ast.Subscript)):
            value_ = held(at, frame)
            if isinstance(value_, _PLAIN) or (
                type(value_) in (tuple, list) and all(isinstance(v, _PLAIN) for v in value_)
            ):
                found[ast.unparse(at)] = repr(value_)
                continue
        waiting += ast.iter_child_nodes(at)
    shown = [f"{name} = {value_}" for name, value_ in found.items() if len(value_) <= 60]
    return ", ".join(shown[:_SHOWN])
