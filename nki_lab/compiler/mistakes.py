"""Explains an exception of a kernel's own Python: the mistake, and what to write."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Sequence
from contextlib import ContextDecorator, suppress
from dataclasses import dataclass
from enum import Enum, EnumType
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

import nki_lab.language as nl
from nki_lab.compiler.foreign_objects import is_a, name_of
from nki_lab.compiler.frontend import unknown_name
from nki_lab.dialects import DIALECTS
from nki_lab.dialects.nki import NKI
from nki_lab.errors import (
    KernelRaised,
    Needs,
    NkiError,
    TensorOperator,
    UnknownName,
    ViewError,
    WrongCall,
    WrongOperand,
    close_matches,
)
from nki_lab.ir.definition.author_text import (
    call_at,
    call_of_attribute,
    expression_at,
    held,
    parsed,
    text_of,
    value,
    values_in,
)
from nki_lab.ir.definition.instruction import BINDING, Definition, Instruction, registry
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.former import instead_of
from nki_lab.isa.operators import Op
from nki_lab.rewrite import Hint, Rewrite, call_of
from nki_lab.source import Blame, Span, Stack, headline, is_hidden, stack_of_traceback
from nki_lab.versions import (
    FORMS,
    former_signature,
    is_newer,
    refused,
    version_named,
    version_since,
    version_with,
)

_CONTEXTS = inspect.getfile(ContextDecorator)
# What arrays of NumPy and PyTorch have under a name that NKI does not use.
_ELSEWHERE = {
    "astype": "nl.copy({t}, dtype=...)",
    "to": "nl.copy({t}, dtype=...)",
    "T": "nl.transpose({t})",
    "dot": "nl.matmul({t}, ...)",
    "mm": "nl.matmul({t}, ...)",
    "flatten": "{t}.reshape(shape)",
    "ravel": "{t}.reshape(shape)",
    "unsqueeze": "{t}.expand_dim(...)",
    "squeeze": "{t}.squeeze_dim(...)",
    "pow": "nl.power({t}, ...)",
    "sub": "nl.subtract({t}, ...)",
    "mul": "nl.multiply({t}, ...)",
}
# Function of Python and of nki.language along an axis -> function of nki.language of two tensors.
_PAIRS = {"max": "maximum", "min": "minimum", "sum": ""}
BINDING.add(Op.__call__.__code__)  # it only hands its arguments on
# What Python and NumPy raise for a value of a type, or with a form, that a function does not expect.
_OF_WRONG_TYPES = (TypeError, ValueError, AttributeError, OSError)
_WRITTEN = "an instruction writes into tensors that it is given, such as `dst`: use those"
_CONDITION = re.compile(r"(if|elif|while|assert)\b|.*\sif\s")


def what_was_meant(error: Exception | SystemExit, root: CodeType) -> NkiError:
    """Return an exception that left a kernel as one of our errors, at the author's line.

    Args:
        error: what was raised, with its traceback.
        root: code of the kernel; callers outside it are not shown.
    """
    stack = stack_of_traceback(error.__traceback__, root)
    if isinstance(error, NkiError):
        if not error.stack:
            error.stack = stack
        if isinstance(error, TensorOperator):
            _say_more(error)
        error.blame = error.blame or _argument_of(error.message)
        return error
    if isinstance(error, AttributeError):
        holder: Any = error.obj
        if is_a(holder, NkiTensor):
            return _no_attribute(holder, error.name or "", stack)
        if is_a(holder, Instruction):
            said = f"an instruction has no attribute `{error.name}`"
            return UnknownName(said, stack=stack, help=_WRITTEN)
    if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        frame, _ = _author_frame(error.__traceback__)
        names = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
        return unknown_name(error.name or "", {*names, *dir(builtins)}, stack)
    if isinstance(error, TypeError):
        if str(error) == "'Instruction' object is not subscriptable":
            return ViewError("an instruction has no elements to index", stack=stack, help=_WRITTEN)
        wrong = _wrong_call(error, stack)
        if wrong is not None:
            return wrong
    misused = _misused(error, stack)
    if misused is not None:
        return misused
    told = own_error(error, stack, _author_frame(error.__traceback__)[0])
    notes = ("raised by the kernel's own Python while it was traced", *told.notes)
    help = _shape_beside_list(stack) if isinstance(error, AssertionError) else told.help
    return _raised(type(error))(told.message, stack=stack, notes=notes, help=help)


def _argument_of(message: str) -> Blame | None:
    """Return the argument that a message of a function of nki.language begins with, to be marked."""
    said = re.match(r"nl\.(\w+): (?:`(\w+)`|(\w+)=)", message)
    parameters = _parameters(getattr(nl, said[1], None)) if said and said[1] in nl.__all__ else None
    if said is None or parameters is None:
        return None
    name, params = said[2] or said[3], parameters[1]
    return Blame(said[1], ((name, params.index(name)),)) if name in params else None


def _shape_beside_list(stack: Stack) -> str:
    """Return what to write where a shape is compared with a list, as some official pages do."""
    call = parsed(text_of(Span.of(stack[0]))) if stack else None
    sides = [call.left, *call.comparators] if isinstance(call, ast.Compare) else []
    if not any(isinstance(side, ast.Attribute) and side.attr == "shape" for side in sides):
        return ""
    lists = [side for side in sides if isinstance(side, ast.List)]
    if not lists:
        return ""
    wanted = ast.unparse(ast.Tuple(lists[0].elts, ast.Load()))
    return f"a shape is a tuple, which equals no list: write {wanted}"


def _raised(kind: Any) -> type[KernelRaised]:
    """Return KernelRaised as a class that is also `kind`, so that who expects a ValueError catches one."""
    kind_class: type[KernelRaised]
    if issubclass(kind, (StopIteration, StopAsyncIteration, SystemExit)):
        return KernelRaised  # as what it is, it would end a generator or the program on its way to the caller
    try:
        kind_class = type(
            "KernelRaised", (KernelRaised, kind), {"__module__": KernelRaised.__module__}
        )
        kind_class("")
    except TypeError:  # an exception with its own memory layout or arguments, e.g. UnicodeError
        return KernelRaised
    return kind_class


# -- calls that Python could not match with the parameters ------------------------------------------------------


def _wrong_call(error: TypeError, stack: Stack) -> WrongCall | None:
    """Return the error of a call of NKI's with wrong arguments; None if it is another one."""
    said = re.match(r"(?:[\w<>]+\.)*(\w+)\(\) (.*)", str(error))
    frame, is_last = _author_frame(error.__traceback__)
    if said is None or frame is None or not is_last:
        return None
    call = call_at(stack)
    called = registry.get(said[1]) if call is None else value(call.func, frame)
    if called is None and isinstance(getattr(call, "func", None), ast.Attribute):
        called = getattr(Instruction, said[1], None)  # of the call of an instruction
    parameters = _parameters(called)
    # An operator that is also a function, such as nl.copy, has an inner function of its name.
    if parameters is None or not (
        parameters[0].split(".")[-1] == said[1].removeprefix("_")
        or (inspect.isclass(called) and said[1] in ("__new__", "__init__"))
    ):
        return None
    name, params, hidden = parameters
    what = said[2]
    if hidden:
        what = re.sub(
            r"\d+(?= to \d+ positional| positional arguments? but|(?: was| were) given)",
            lambda number: str(int(number[0]) - 1),
            what,
        ).replace(" 1 positional arguments", " 1 positional argument")
    unknown = re.search(r"unexpected keyword argument '(\w+)'", what)
    help = ""
    if unknown:
        help = instead_of(name, unknown[1]) or close_matches(unknown[1], params)
    if isinstance(called, Definition) and params[0] == "dst" and what.startswith("missing"):
        help = _assigned_to(stack) or (
            "instructions write into `dst`, the first argument: make a tile with nl.ndarray first"
        )
    if not help and params and callable(called):
        help = f"the call is {call_of(name, called)}"
    notes = [f"parameters: {', '.join(params)}" if params else "it has no parameters"]
    needs = None
    if unknown:
        needs = _other_version(called, name, unknown[1])
        if needs is not None and needs.since:
            notes.append(is_newer(unknown[1], version_named(needs.since), active.builder.version))
    return WrongCall(
        f"{name}: {what}",
        stack=stack,
        notes=notes,
        help=help,
        blame=Blame.of(unknown[1]) if unknown else None,
        needs=needs,
    )


def _misused(error: BaseException, stack: Stack) -> WrongOperand | None:
    """Return the error of an argument that a function of NKI cannot use at all; None where the author raised it."""
    frame, is_last = _author_frame(error.__traceback__)
    call = call_at(stack)
    if frame is None or is_last or call is None or not isinstance(error, _OF_WRONG_TYPES):
        return None
    called = value(call.func, frame)
    parameters = _parameters(called)
    if parameters is None:
        return None
    name, params, _ = parameters
    explained = f"`nki-lab explain {name}` says what each of them takes"
    if _parameters_elsewhere(called):
        explained = f"the call is {call_of(name, called)}"
    return WrongOperand(
        f"{name} cannot use one of its arguments: {type(error).__name__}: {error}",
        stack=stack,
        notes=(f"parameters: {', '.join(params)}",),
        help=explained,
    )


def _official(called: Any, name: str) -> str:
    """Return the official name of what NKI lets a kernel call."""
    if isinstance(called, Definition):
        return f"{called.module}.{name}"
    return f"{_owner(called) or 'nki.language'}.{name.removeprefix('nl.')}"


def _owner(called: Any) -> str:
    """Return the official name of the class that a method is of, or ""."""
    name = getattr(called, "__name__", "")
    for owner, official in _METHODS:
        if isinstance(getattr(called, "__self__", None), owner) or (
            name and getattr(owner, name, None) is called
        ):
            return official
    return ""


_METHODS = ((NkiTensor, "nki.language.NkiTensor"), (Instruction, "nki.isa.NkiInstruction"))


def _other_version(called: Any, name: str, parameter: str) -> Needs | None:
    """Return the versions of NKI that have a parameter which the kernel's does not have; None where none has it."""
    official, builder = _official(called, name), active.builder
    newest = " ".join(inspect.signature(called).parameters)
    what = f"{name}({parameter}=...)"
    if builder is not None and (
        later := version_since(official, parameter, builder.version, newest)
    ):
        return Needs(what, since=later.name)
    if last := version_with(official, parameter):
        return Needs(
            what,
            until=last.name,
            note=f"NKI {last.name} was the last version that had `{parameter}`",
        )
    # Of a keyword that no version has, only one that the older dialect had is meant for one that ignored all of them.
    ignored = FORMS["unknown keyword"]
    if official.startswith("nki.isa.") and instead_of(name, parameter):
        return refused(ignored, what)._replace(
            note="NKI 0.1 was the last version that ignored what an instruction does not have"
        )
    return None


def _assigned_to(stack: Stack) -> str:
    """Return what to write instead of `tile[...] = nisa.op(...)`, today's form of which has the tile as `dst`."""
    try:
        statements = ast.parse(Span.of(stack[0]).text.strip()).body if stack else []
    except SyntaxError:  # one line of several
        return ""
    statement = statements[0] if len(statements) == 1 else None
    if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
        return ""
    tile, call = statement.targets[0], statement.value
    if not isinstance(tile, ast.Subscript):
        return ""
    destination = ast.Name(ast.unparse(tile))
    if call.args:  # the others keep their order behind it
        call.args.insert(0, destination)
    else:
        call.keywords.insert(0, ast.keyword("dst", destination))
    return f"write {ast.unparse(call)}"


def _parameters(called: Any) -> tuple[str, Sequence[str], bool] | None:
    """Return name and parameters of what NKI lets a kernel call, and whether Python counts one more."""
    name: str = getattr(called, "name" if isinstance(called, Definition) else "__name__", "")
    is_method = bool(_owner(called))
    if not (isinstance(called, Definition) or is_method):
        if name not in nl.__all__ or getattr(nl, name) is not called:
            return _parameters_elsewhere(called)
        if not (isinstance(called, Op) or inspect.isfunction(called)):
            return None
        name = f"nl.{name}"
    params = tuple(p for p in inspect.signature(called).parameters if p != "self")
    version = None if active.builder is None else active.builder.version
    former = None if version is None else former_signature(_official(called, name), version)
    if former is not None:
        params = tuple(w.partition("=")[0] for w in former.split() if w != "self")
    # A call by the signature of an earlier version goes through a function that has one parameter more.
    return name, params, isinstance(called, Definition) or is_method or former is not None


def _parameters_elsewhere(called: Any) -> tuple[str, Sequence[str], bool] | None:
    """Return what `_parameters` does of a function or class of a dialect that is not today's."""
    name = next((n for d in DIALECTS if d is not NKI and (n := d.name_of(called))), "")
    if not name or isinstance(called, (Enum, EnumType)) or not callable(called):
        return None
    return name, tuple(inspect.signature(called).parameters), inspect.isclass(called)


# -- tensors used like arrays or numbers -------------------------------------------------------------------------


def _no_attribute(tensor: NkiTensor, name: str, stack: Stack) -> UnknownName:
    attributes = [n for n in dir(NkiTensor) if not n.startswith("_")]
    help = close_matches(name, attributes)
    if name in _ELSEWHERE:
        help = f"write {_ELSEWHERE[name].format(t=tensor.name)}"
        if "..." not in help and "shape" not in help:
            help = Hint(help, Rewrite("", _ELSEWHERE[name].format(t="{a}")))
    elif name in nl.__all__ and callable(getattr(nl, name)):
        arguments = [tensor.name, "..."]
        call = call_of_attribute(stack)
        if call is not None:
            assert isinstance(call.func, ast.Attribute)
            arguments = [ast.unparse(a) for a in (call.func.value, *call.args, *call.keywords)]
        help = f"write nl.{name}({', '.join(arguments)})"
    return UnknownName(
        f"a tensor has no attribute `{name}`", stack=stack, notes=(tensor.describe(),), help=help
    )


def _say_more(error: TensorOperator) -> None:
    """Tell what to write where an operator stands in a condition, or Python's own max, min or sum used it."""
    frame, _ = _author_frame(error.__traceback__)
    if frame is None or not error.stack:
        return
    span = Span.of(error.stack[0])
    expression = parsed(text_of(span))
    if isinstance(expression, ast.Compare) and _CONDITION.match(span.text.strip()):
        error.notes = (*error.notes, "a condition chooses while tracing, before any value is known")
        error.help += "; to choose by its result, nl.where or nisa.tensor_copy_predicated"
    if not isinstance(expression, ast.Call):
        return
    name = getattr(expression.func, "id", "")
    arguments = [ast.unparse(a) for a in expression.args]
    if name not in _PAIRS or not arguments or expression.keywords:
        return
    if value(expression.func, frame) is not getattr(builtins, name):
        return
    pair = _PAIRS[name]
    if len(arguments) == 1 or not pair:
        help = f"write nl.{name}({arguments[0]}, axis=...)"
    else:
        written = arguments[0]
        for argument in arguments[1:]:
            written = f"nl.{pair}({written}, {argument})"
        help = f"write {written}"
    error.message = f"`{ast.unparse(expression)}`: Python's {name} does not work on tensors"
    error.help = help


def _author_frame(tb: TracebackType | None) -> tuple[FrameType | None, bool]:
    """Return the author's innermost frame, and whether the call it was making never began."""
    frame, is_last = None, False
    while tb is not None:
        code = tb.tb_frame.f_code
        if not is_hidden(code):
            frame, is_last = tb.tb_frame, True
        elif code not in BINDING and code.co_filename != _CONTEXTS:
            is_last = False  # the others only hand their arguments on
        tb = tb.tb_next
    return frame, is_last


# -- exceptions of the author's own Python ----------------------------------------------------------------------------


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


def own_error(error: BaseException, stack: Stack, frame: FrameType | None) -> OwnError:
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
        what = f"class `{name_of(holder)}`" if is_a(holder, type) else type(holder).__name__
        told.message = f"AttributeError: {what} has no `{name}`"
    with suppress(Exception):  # the author's object may raise
        told.help = close_matches(name, [n for n in dir(holder) if not n.startswith("_")])
    if is_a(holder, (list, tuple)) and hasattr(NkiTensor, name):
        told.help = "pass an array, such as np.array(values, dtype=np.float32): a list or tuple is not a tensor"


def _arguments(error: TypeError, stack: Stack, frame: FrameType, told: OwnError) -> None:
    call = call_at(stack)
    called: Any = None if call is None else value(call.func, frame)
    said = re.match(r"(\S+)\(\) (?:missing|takes|got) ", str(error))
    if not is_a(called, FunctionType) or said is None or said[1] != called.__qualname__:
        return
    code = called.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    told.notes += (f"parameters: {', '.join(names)}",)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    told.help = close_matches(unknown[1], names) if unknown else ""


def _key(error: KeyError, found: ast.AST, frame: FrameType, told: OwnError) -> None:
    for node in ast.walk(found):
        holder: Any = held(node.value, frame) if isinstance(node, ast.Subscript) else None
        if is_a(holder, dict) and error.args and error.args[0] not in holder:
            keys = [str(key) for key in holder]
            told.notes += (f"its keys: {', '.join(keys[:10])}",) if keys else ("it is empty",)
            told.help = close_matches(str(error.args[0]), keys)
            return


def _raises(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Raise) for n in ast.walk(node))
