"""Reads the author's text at a place: expressions, the values of names in them, and who takes a call's value."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import linecache
import re
from bisect import bisect_right
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Blame, Place, Span, Stack

_UNKNOWN: Any = object()
_SHOWN = 4
_PLAIN = (int, float, str, bool, type(None))


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
    node = parsed(text_of(Span.of(stack[0]))) if stack else None
    return node if isinstance(node, ast.Call) else None


def call_of_attribute(stack: Stack) -> ast.Call | None:
    """Return the call of the attribute at the innermost place, where it ends in the same line."""
    if not stack:
        return None
    text = text_of(Span.of(stack[0]), beyond=True)
    for end in (m.end() for m in re.finditer(r"\)", text)):
        node = parsed(text[:end])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node
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
    node = parsed(text)
    if node is not None:
        return node
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


def values_in(node: ast.AST, frame: FrameType) -> list[str]:
    """Return the plain values that names in an expression have, as `n = 0` and `x.shape[0] = 128`; at most four."""
    values: dict[str, str] = {}
    waiting = [node]
    while waiting:
        at = waiting.pop(0)
        if isinstance(at, (ast.Name, ast.Attribute, ast.Subscript)):
            value_ = held(at, frame)
            if isinstance(value_, _PLAIN) or (
                type(value_) in (tuple, list) and all(isinstance(v, _PLAIN) for v in value_)
            ):
                values[ast.unparse(at)] = repr(value_)
                continue
        waiting += ast.iter_child_nodes(at)
    return [f"{name} = {value_}" for name, value_ in values.items() if len(value_) <= 60][:_SHOWN]


def values_of_arguments(stack: Stack, blame: Blame, frame: FrameType) -> list[str]:
    """Return the plain values of names in the arguments of the call at the innermost place that a mistake is about."""
    call = call_at(stack)
    if call is None:
        return []
    written = {k.arg: k.value for k in call.keywords}
    plain = not any(isinstance(a, ast.Starred) for a in call.args)
    nodes = []
    for name, position in blame.arguments:
        if name in written:
            nodes.append(written[name])
        elif plain and 0 <= position < len(call.args):
            nodes.append(call.args[position])
    return values_in(ast.Tuple(nodes, ast.Load()), frame)


# -- who takes the value of a call -------------------------------------------------------------------------------------

_RETURNED = "return"  # no variable is called that


def variable_of(stack: Stack) -> str:
    """Return the variable or attribute that takes the value of the innermost call, or an empty string.

    A function that returns the value at once leaves it to its caller to name it.
    """
    for place in stack:
        name = _stored_name(place)
        if name != _RETURNED:
            return name
    return ""


@lru_cache(
    maxsize=16
)  # a kernel asks once per call, and to list the instructions takes time in its length
def _instructions(code: CodeType) -> tuple[list[int], list[dis.Instruction]]:
    listed = [op for op in dis.get_instructions(code) if op.opname != "COPY"]  # COPY: `a = b = ...`
    return [op.offset for op in listed], listed


def _stored_name(place: Place) -> str:
    if isinstance(place, Span):  # no code
        return ""
    code, offset = place
    # The offset lies on the call or in its inline caches; what follows is the next instruction.
    offsets, instructions = _instructions(code)
    first = bisect_right(offsets, offset)
    following = instructions[first : first + 2]
    names = [op.opname for op in following]
    if names[0] == "RETURN_VALUE":
        return _RETURNED
    if names[0].startswith("LOAD_") and names[1:] == ["STORE_ATTR"]:
        return str(following[1].argval)
    if not names[0].startswith("STORE_") or names[0] in ("STORE_SUBSCR", "STORE_ATTR"):
        return ""
    stored = following[0].argval
    # Python 3.13 stores and loads in one step, on two names.
    return str(stored[0] if isinstance(stored, tuple) else stored)
