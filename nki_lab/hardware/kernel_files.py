"""Writes a kernel as files that another Python runs with the official package.

The author's text is copied line for line: a function stands in `cell_<hash>.py` on the lines that it has in its cell or
file, so that what the official tools say of a line is true of the cell. Decorators are left out, since the process
that runs the kernel applies the official one. What the text reads from outside is written beside it as data: numbers,
dtypes, modules and names of the official package, functions. What cannot be written so is an error here, not there.
"""

from __future__ import annotations
import __future__

import ast
import dataclasses
import dis
import hashlib
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from nki_lab.compiler.frontend import KernelObject, SourceKernel
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dialects import Dialect
from nki_lab.dialects.dialect import codes_of
from nki_lab.dtypes import DType
from nki_lab.errors import KernelArgument, NkiError
from nki_lab.source import is_cell, lines_of

#: Bytes of an array among a kernel's globals, which is written as text.
MOST_BYTES = 1 << 20
_OWN = "nki_lab"
_IMPORTS_OURS = re.compile(rf"^\s*(?:from|import)\s+{_OWN}\b", re.MULTILINE)
_KERNELS = "nki_lab.kernels"
_ANNOTATIONS = __future__.annotations.compiler_flag
_PLAIN = (bool, int, str, type(None))
_DEEPEST = 30

Encoded = dict[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])


class KernelFiles:
    """A kernel, the arguments of a call, and everything that both read, as data.

    Args:
        source: the kernel.
        dialect: the one that it is written in.
        args, kwargs: of the call; each TensorSpec stands for the next array.

    Attributes:
        kernel: number of its definition.
        arguments: the call.
        definitions: per function and class, its namespace, its file, its name and the line of its statement there.
        order: their numbers, each after those that it needs while it is made.
        namespaces: per dictionary of globals, the values of the names that are read.
        sources: name of a written file -> (file or cell of the author, the text).
        folders: where modules of the author lie.
    """

    def __init__(
        self,
        source: SourceKernel,
        dialect: Dialect,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._source, self._dialect = source, dialect
        self._official = _official_names(dialect)
        self._numbers: dict[int, tuple[Any, int]] = {}
        self._spaces: dict[int, int] = {}
        self._texts: list[_Text] = []
        self.definitions: list[dict[str, Any]] = []
        self.order: list[int] = []
        self.namespaces: list[dict[str, Encoded]] = []
        self.folders: list[str] = []
        if not isinstance(source.function, FunctionType):
            raise self._refusal("it is a method, whose object stays in this process")
        self.kernel = self._function(source.function, source, source.name)
        encode = partial(self._argument, iter(range(sys.maxsize)))
        self.arguments = {
            "args": [encode(f"argument {n}", value) for n, value in enumerate(args)],
            "kwargs": {
                name: encode(f"argument `{name}`", value) for name, value in (kwargs or {}).items()
            },
        }
        self.sources = {text.name: (text.filename, text.whole) for text in self._texts}
        for definition in self.definitions:
            definition["file"] = self._texts[definition["file"]].name

    def __getstate__(self) -> dict[str, Any]:
        # Functions stay in this process; what is written does not need them.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @property
    def request(self) -> dict[str, Any]:
        """What the other process is told."""
        told = ("kernel", "definitions", "order", "namespaces", "folders")
        return {name: getattr(self, name) for name in told} | {"call": self.arguments}

    def write(self, folder: Path) -> None:
        """Write the files of the text into a folder."""
        for name, (_, text) in self.sources.items():
            (folder / name).write_text(text, encoding="utf-8")

    @property
    def digest(self) -> str:
        """Tells two calls apart by their text and what it reads."""
        return hashlib.sha256(repr((self.request, sorted(self.sources))).encode()).hexdigest()

    # -- functions and classes -----------------------------------------------------------------------------------

    def _function(self, function: FunctionType, source: SourceKernel, what: str) -> int:
        """Add a function, and return the number of its definition."""
        if id(function) in self._numbers:
            return self._numbers[id(function)][1]
        if hasattr(function, "__wrapped__"):  # its text would be that of the function inside
            raise self._refusal(
                f"`{what}` is wrapped by a decorator",
                "call the function without the decorator, or write what it adds into the kernel",
            )
        node = source.definition
        if not isinstance(node, ast.FunctionDef):
            raise self._refusal(
                f"`{what}` is a lambda, or Python does not know its text", "write it with `def`"
            )
        key = id(function) if function.__closure__ else id(function.__globals__)
        lines = [line.rstrip("\n") for line in lines_of(source.text)]
        # Without decorators: the process that runs it applies the official one.
        lines = ["" if n < node.lineno else line for n, line in enumerate(lines, 1)]
        place = source.filename, source.first_line
        names = _names_read(function.__code__, node)
        return self._define(function, key, place, lines, node, names, source.scope, what)

    def _class(self, kind: type, what: str) -> int:
        """Add a class, and return the number of its definition."""
        if id(kind) in self._numbers:
            return self._numbers[id(kind)][1]
        text = _text_of_class(kind)
        if text is None:
            raise self._refusal(
                f"{what} is the class `{kind.__qualname__}`, whose text is not known",
                "write it with `class` in a cell or file",
            )
        filename, first, lines = text
        tree = ast.parse("\n".join(lines))
        node = tree.body[0]
        code = compile(tree, filename, "exec", _ANNOTATIONS, dont_inherit=True)
        names = _globals_of(code) - {kind.__name__}
        module = sys.modules.get(kind.__module__)
        scope = vars(module) if module is not None else self._source.scope
        if kind.__module__ == self._source.function.__module__:
            scope = self._source.function.__globals__
        place = filename, first
        return self._define(kind, id(scope), place, lines, node, names, scope, kind.__name__)

    def _define(
        self,
        value: Any,
        key: int,
        place: tuple[str, int],
        lines: list[str],
        node: Any,
        names: set[str],
        scope: Mapping[str, Any],
        what: str,
    ) -> int:
        """Add a definition and the names that it reads."""
        if any(_imported_root(inner) == _OWN for inner in ast.walk(node)):
            raise self._refusal(
                f"`{what}` imports {_OWN}, which the official package does not know",
                f"import from {self._dialect.root}",
            )
        space = self._spaces.setdefault(key, len(self.namespaces))
        if space == len(self.namespaces):
            self.namespaces.append({})
        number = len(self.definitions)
        self._numbers[id(value)] = value, number  # before its names: it may name itself
        filename, first = place
        file = self._place(space, filename, first - 1, lines)
        line = first + node.lineno - 1
        self.definitions.append({"space": space, "file": file, "name": node.name, "line": line})
        values = self.namespaces[space]
        for name in sorted(names - values.keys()):
            read = scope.get(name, _Absent)
            if read is not _Absent:
                values[name] = {}
                values[name] = self._value(f"`{name}`, which {what} reads,", read)
        self.order.append(number)
        return number

    def _place(self, space: int, filename: str, first: int, lines: list[str]) -> int:
        """Write lines on their places in a text of a namespace where these are free, and return its number."""
        for number, text in enumerate(self._texts):
            if (text.space, text.filename) == (space, filename) and text.take(first, lines):
                return number
        self._texts.append(_Text(space, filename))
        self._texts[-1].take(first, lines)
        return len(self._texts) - 1

    # -- values --------------------------------------------------------------------------------------------------

    def _argument(self, count: Any, what: str, value: Any) -> Encoded:
        return self._value(what, value, arrays=count)

    def _value(self, what: str, value: Any, arrays: Any = None, depth: int = 0) -> Encoded:
        """Return a value as data; KernelArgument where it cannot go to another process as that."""
        if isinstance(value, TensorSpec) and arrays is not None:
            if value.dtype.kind == "packed":
                raise self._refusal(
                    f"{what} is an array of {value.dtype}: no page says how NumPy holds it on a device"
                )
            return {"array": next(arrays)}
        if depth > _DEEPEST:
            raise self._refusal(f"{what} is nested more than {_DEEPEST} deep")
        if (named := self._official.get(id(value))) is not None:
            return {"name": [*named]}
        for encode in (self._simple, self._callable, self._container):
            encoded = encode(what, value, partial(self._value, arrays=arrays, depth=depth + 1))
            if encoded is not None:
                return encoded
        raise self._refusal(
            f"{what} is {_shown(value)}",
            "pass numbers, texts, dtypes, arrays and functions",
        )

    def _simple(self, what: str, value: Any, inner: Callable[..., Encoded]) -> Encoded | None:
        if isinstance(value, DType):
            return {"name": [self._language, str(value)]}
        if type(value) in _PLAIN:
            return {"plain": value}
        if type(value) is float:
            return {"float": repr(value)}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"type": np.dtype(value).name}
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.nbytes > MOST_BYTES or array.dtype.hasobject:
                raise self._refusal(
                    f"{what} is an array of {array.nbytes:,} bytes", "pass it as an argument"
                )
            data = np.ascontiguousarray(array).tobytes().hex()
            return {
                "data": [array.dtype.name, list(array.shape), data],
                "scalar": array is not value,
            }
        if isinstance(value, Enum):
            kind = self._value(what, type(value), depth=1)
            return {"member": [kind, value.name]}
        return None

    def _callable(self, what: str, value: Any, inner: Callable[..., Encoded]) -> Encoded | None:
        if isinstance(value, ModuleType):
            return self._module(what, value)
        if isinstance(value, KernelObject):
            configuration = value.source.configuration
            if configuration is not None and configuration.compile is not None:
                raise self._refusal(f"{what} has a compile_config, which is not passed on yet")
            if not isinstance(value.func, FunctionType):
                raise self._refusal(f"{what} is a method")
            return {"kernel": self._function(value.func, value.source, value.source.name)}
        if hasattr(value, "on_device"):
            return {"constant": inner(what, value.on_device)}
        if isinstance(value, FunctionType) and self._goes_as_text(
            value, sys.modules.get(value.__module__ or "")
        ):
            return {"function": self._function(value, SourceKernel.of(value), value.__name__)}
        if isinstance(value, partial):
            parts = [inner(what, part) for part in (value.func, value.args, value.keywords)]
            return {"partial": parts}
        if isinstance(value, type) and issubclass(value, NkiError):
            return {"name": ["builtins", "ValueError"]}  # what would raise it has been checked here
        if isinstance(value, (FunctionType, BuiltinFunctionType, type, np.ufunc)):
            return self._importable(what, value)
        return None

    def _container(self, what: str, value: Any, inner: Callable[..., Encoded]) -> Encoded | None:
        if type(value) in (tuple, list, set, frozenset):
            return {type(value).__name__: [inner(what, part) for part in value]}
        if type(value) is dict:
            return {"dict": [[inner(what, k), inner(what, v)] for k, v in value.items()]}
        if isinstance(value, (slice, range)):
            parts = (value.start, value.stop, value.step)
            return {type(value).__name__: [inner(what, part) for part in parts]}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = self._value(what, type(value), depth=1)
            return {"call": [kind, [inner(what, part) for part in value]]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                f.name: inner(what, getattr(value, f.name)) for f in dataclasses.fields(value)
            }
            return {"object": [self._value(what, type(value), depth=1), fields]}
        return None

    def _module(self, what: str, module: ModuleType) -> Encoded:
        name = module.__name__
        if name.partition(".")[0] == _OWN:
            raise self._refusal(
                f"{what} is the module {name}: the official package has no such names",
                f"import {self._dialect.root} and its modules in place of {_OWN}",
            )
        self._refuse_ours(what, module)
        return {"module": name}

    def _importable(self, what: str, value: Any) -> Encoded:
        """Return what is found by its module and name; it must be there in another process, too."""
        home = str(getattr(value, "__module__", None) or "builtins")
        name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))
        if isinstance(value, np.ufunc):
            home = "numpy"
        module = sys.modules.get(home)
        if isinstance(value, type) and self._goes_as_text(value, module):
            return {"class": self._class(value, what)}
        named: Any = module
        for part in name.split("."):
            named = getattr(named, part, None)
        if module is None or named is not value or not _is_importable(module):
            raise self._refusal(
                f"{what} is {_shown(value)}, which is defined in the notebook or where no import finds it",
                "define it in a module that can be imported, or pass plain values",
            )
        self._module(what, module)
        return {"name": [home, name]}

    def _goes_as_text(self, value: Any, module: ModuleType | None) -> bool:
        """Tell whether a function or class is written into a file; others are imported with their module."""
        if module is None or not _is_importable(module):
            return True
        own = self._source.function.__globals__
        if getattr(value, "__globals__", own) is not own or vars(module) is not own:
            named = getattr(module, value.__name__, None)
            return module.__name__.startswith(_KERNELS) or named is not value
        return True

    def _refuse_ours(self, what: str, module: ModuleType) -> None:
        """Refuse a module of the author that imports nki_lab; note where its file lies."""
        file = getattr(module, "__file__", None)
        if not file or _is_library(file) or not file.endswith(".py"):
            return
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            text = ""
        if _IMPORTS_OURS.search(text):
            raise self._refusal(
                f"{what} comes from {Path(file).name}, which imports {_OWN}",
                f"import {self._dialect.root} there",
            )
        folder = str(
            Path(file)
            .resolve()
            .parents[module.__name__.count(".") + (Path(file).stem == "__init__")]
        )
        if folder not in self.folders:
            self.folders.append(folder)

    @property
    def _language(self) -> str:
        return next(m for m in self._dialect.modules if m.endswith(".language"))

    def _refusal(self, what: str, help: str = "") -> KernelArgument:
        return KernelArgument(
            f"`{self._source.name}` cannot go to the process that runs it on a device: {what}",
            stack=(self._source.place,),
            help=help or "run it with backend='simulator', or change it",
        )


def constant_on_device(value: Any) -> Callable[[_F], _F]:
    """Return a decorator of a function that another process takes as a constant, whatever its arguments.

    Such are checks, which have been made before a kernel goes there, and questions about this process.
    """

    def decorate(function: _F) -> _F:
        function.on_device = value  # type: ignore[attr-defined]
        return function

    return decorate


@dataclasses.dataclass
class _Text:
    """What is written of one file or cell of the author: lines at their places, others empty."""

    space: int
    filename: str
    lines: list[str] = dataclasses.field(default_factory=list)

    def take(self, first: int, lines: list[str]) -> bool:
        """Write lines where their places are free, or hold the same; tell whether they are."""
        places = slice(first, first + len(lines))
        if any(self.lines[places]):
            return False
        self.lines += [""] * (first + len(lines) - len(self.lines))
        self.lines[places] = lines
        return True

    @property
    def whole(self) -> str:
        """The text."""
        return "\n".join(self.lines) + "\n"

    @property
    def name(self) -> str:
        """The name of its file."""
        mark = f"{self.filename}\0{self.whole}\0{self.space}"
        return f"cell_{hashlib.sha256(mark.encode()).hexdigest()[:10]}.py"


class _Absent:
    """Stands for a name that the author's scope does not have, such as that of a built-in function."""


def _official_names(dialect: Dialect) -> dict[int, tuple[str, str]]:
    """Return module and name of everything that the loaded modules of a dialect offer, by identity."""
    names: dict[int, tuple[str, str]] = {}
    for official, home in dialect.modules.items():
        module = sys.modules.get(home)
        if module is None:
            continue
        names.setdefault(id(module), (official, ""))
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name, None)
            if value is not None and not isinstance(value, (bool, int, float)):
                names.setdefault(id(value), (official, name))
    return names


def _names_read(code: CodeType, node: ast.FunctionDef) -> set[str]:
    """Return the names that a function reads from outside: its code, the functions in it, and its defaults."""
    defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    named = {n.id for d in defaults for n in ast.walk(d) if isinstance(n, ast.Name)}
    return _globals_of(code) | named | {*code.co_freevars}


def _globals_of(code: CodeType) -> set[str]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return {i.argval for c in codes_of(code) for i in dis.get_instructions(c) if i.opname in loads}


def _text_of_class(kind: type) -> tuple[str, int, list[str]] | None:
    """Return where the text of a class stands: file or cell, first line, and lines; None where it is not known."""
    try:
        lines, first = inspect.getsourcelines(kind)
        filename = inspect.getsourcefile(kind) or inspect.getfile(kind)
    except (OSError, TypeError):  # of a cell
        return _class_in_cells(kind)
    text = textwrap.dedent("".join(lines))
    return filename, max(first, 1), [line.rstrip("\n") for line in lines_of(text)]


def _class_in_cells(kind: type) -> tuple[str, int, list[str]] | None:
    methods = [v.__code__.co_filename for v in vars(kind).values() if isinstance(v, FunctionType)]
    cells = [filename for filename in methods if is_cell(filename)]
    for filename in cells or reversed([name for name in linecache.cache if is_cell(name)]):
        lines = linecache.getlines(filename)
        try:
            tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                return filename, first, [x.rstrip("\n") for x in lines[first - 1 : node.end_lineno]]
    return None


def _imported_root(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name.partition(".")[0]
    return (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else ""


def _is_importable(module: ModuleType) -> bool:
    return module.__name__ != "__main__" and getattr(module, "__spec__", None) is not None


def _is_library(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file or file.startswith(sys.base_prefix)


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    kind = type(value)
    return f"`{name}`" if name else f"an object of {kind.__module__}.{kind.__qualname__}"
