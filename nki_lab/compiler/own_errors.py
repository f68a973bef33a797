"""Explains an exception of the author's own Python: the values in it, and the name or argument that was meant."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

from nki_lab.errors import close_matches
from nki_lab.ir.definition.author_text import call_at, expression_at, held, value, values_in
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Stack, headline


@dataclass
class OwnError:
    """What an exception of the author's own says, and what helps.

    Attributes:
        message: one line.
        notes: facts.
        help: what to write instead.
    """

    message: str
    notes: tuple[str, ...] = ()
    help: str = ""


def own_error(error: Exception, stack: Stack, frame: FrameType | None) -> OwnError:
    """Return what an exception says that Python raised at the author's innermost place."""
    told = OwnError(headline(error))
    if isinstance(error, AttributeError):
        _attribute(error, told)
    elif isinstance(error, TypeError) and "context manager" in str(error):
        told.help = "a `with` in a kernel takes a call: with nl.no_reorder():"
    if frame is None:
        return told
    if isinstance(error, TypeError):
        _arguments(error, stack, frame, told)
    expression = expression_at(stack)
    if expression is None or _raises(expression):
        return told
    if isinstance(error, KeyError):
        _key(error, expression, frame, told)
    if isinstance(error, (AssertionError, ArithmeticError, LookupError, ValueError)):
        values = values_in(expression, frame)
        told.notes += (f"here {', '.join(values)}",) if values else ()
    return told


def _attribute(error: AttributeError, told: OwnError) -> None:
    name, holder = error.name, error.obj
    if not name or holder is None:
        return
    if str(error) == name:  # all that an Enum says
        what = f"class `{holder.__name__}`" if isinstance(holder, type) else type(holder).__name__
        told.message = f"AttributeError: {what} has no `{name}`"
    told.help = close_matches(name, [n for n in dir(holder) if not n.startswith("_")])
    if isinstance(holder, (list, tuple)) and hasattr(NkiTensor, name):
        told.help = "pass an array, such as np.array(values, dtype=np.float32): a list or tuple is not a tensor"


def _arguments(error: TypeError, stack: Stack, frame: FrameType, told: OwnError) -> None:
    call = call_at(stack)
    called: Any = None if call is None else value(call.func, frame)
    said = re.match(r"(\S+)\(\) (?:missing|takes|got) ", str(error))
    if not isinstance(called, FunctionType) or said is None or said[1] != called.__qualname__:
        return
    code = called.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    told.notes += (f"parameters: {', '.join(names)}",)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    told.help = close_matches(unknown[1], names) if unknown else ""


def _key(error: KeyError, found: ast.AST, frame: FrameType, told: OwnError) -> None:
    for node in ast.walk(found):
        holder = held(node.value, frame) if isinstance(node, ast.Subscript) else None
        if isinstance(holder, dict) and error.args and error.args[0] not in holder:
            keys = [str(key) for key in holder]
            told.notes += (f"its keys: {', '.join(keys[:10])}",) if keys else ("it is empty",)
            told.help = close_matches(str(error.args[0]), keys)
            return


def _raises(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Raise) for n in ast.walk(node))
