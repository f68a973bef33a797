"""Writes a kernel as files that another Python runs with the official package.

The author's text is copied line for line: a function stands in `cell_<hash>.py` on the lines that it has in its cell or
file, so that what the official tools say of a line is true of the cell. Decorators are left out, since the process
that runs the kernel applies the official one. What the text reads from outside is written beside it as data: numbers,
dtypes, modules and names of the official package, functions. What cannot be written so is an error here, not there.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import hashlib
import re
import sys
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
from nki_lab.source import Span, lines_of

#: Bytes of an array among a kernel's globals, which is written as text.
MOST_BYTES = 1 << 20
_OWN = "nki_lab"
_IMPORTS_OURS = re.compile(rf"^\s*(?:from|import)\s+{_OWN}\b", re.MULTILINE)
_PLAIN = (bool, int, str, type(None))
_DEEPEST = 30

Encoded = dict[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])


class KernelFiles:
    """A kernel, and everything it reads, as data.

    Attributes:
        kernel: (namespace, name) of the function that is launched.
        namespaces: per dictionary of globals, its pieces of text and its names.
        sources: name of a written file -> (file or cell of the author, the text).
        folders: where modules of the author lie.
    """

    def __init__(self, source: SourceKernel, dialect: Dialect) -> None:
        self._source, self._dialect = source, dialect
        self._official = _official_names(dialect)
        self._functions: dict[int, tuple[FunctionType, list[Any]]] = {}
        self._spaces: dict[int, int] = {}
        self.namespaces: list[dict[str, Any]] = []
        self.folders: list[str] = []
        self.sources: dict[str, tuple[str, str]] = {}
        if not isinstance(source.function, FunctionType):
            raise self._refusal("it is a method, whose object stays in this process")
        self.kernel = self._function(source.function, source, source.name)
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        # Functions stay in this process; what is written does not need them.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Encoded:
        """Return the arguments of a call as data; each TensorSpec stands for the next array."""
        count = iter(range(sys.maxsize))
        encode = partial(self._argument, count)
        return {
            "args": [encode(f"argument {n}", value) for n, value in enumerate(args)],
            "kwargs": {name: encode(f"argument `{name}`", value) for name, value in kwargs.items()},
        }

    def write(self, folder: Path) -> None:
        """Write the files of the text into a folder."""
        for name, (_, text) in self.sources.items():
            (folder / name).write_text(text, encoding="utf-8")

    @property
    def digest(self) -> str:
        """Tells two kernels apart by their text and what it reads."""
        parts = [repr(self.kernel), *(f"{s['names']}{s['pieces']}" for s in self.namespaces)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    # -- functions -----------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType, source: SourceKernel, what: str) -> list[Any]:
        """Add a function, and return (namespace, name in its text)."""
        if id(function) in self._functions:
            return self._functions[id(function)][1]
        node, text = self._text(source, what)
        key = id(function) if function.__closure__ else id(function.__globals__)
        number = self._spaces.get(key)
        if number is None:
            number = self._spaces[key] = len(self.namespaces)
            self.namespaces.append({"names": {}, "pieces": [], "functions": {}})
        space = self.namespaces[number]
        place = [number, f"{len(self._functions)}"]
        self._functions[id(function)] = function, place  # before its names: it may call itself
        space["functions"][place[1]] = self._piece(space, source, node, text)
        for name in sorted(_names_read(function.__code__, node)):
            value = source.scope.get(name, _Absent)
            if value is _Absent or name in space["names"]:
                continue
            space["names"][name] = {}
            space["names"][name] = self._value(f"`{name}`, which {what} reads,", value)
        return place

    def _text(self, source: SourceKernel, what: str) -> tuple[ast.FunctionDef, list[str]]:
        """Return the function's definition and its lines, empty where decorators stand."""
        node = source.definition
        if not isinstance(node, ast.FunctionDef):
            raise self._refusal(
                f"`{what}` is a lambda, or Python does not know its text", "write it with `def`"
            )
        for inner in ast.walk(node):
            root = _imported_root(inner)
            if root == _OWN:
                raise self._refusal(
                    f"`{what}` imports {_OWN}, which the official package does not know",
                    f"import from {self._dialect.root}",
                )
        lines = [line.rstrip("\n") for line in lines_of(source.text)]
        return node, ["" if n < node.lineno else line for n, line in enumerate(lines, 1)]

    def _piece(
        self, space: dict[str, Any], source: SourceKernel, node: ast.FunctionDef, text: list[str]
    ) -> list[Any]:
        """Add the text of a function to a piece of its file, and return (number of the piece, its name there)."""
        first = source.first_line - 1
        places = slice(first, first + len(text))
        number = next(
            (
                n
                for n, piece in enumerate(space["pieces"])
                if piece["filename"] == source.filename
                and node.name not in piece["defined"]
                and not any(piece["lines"][places])
            ),
            len(space["pieces"]),
        )
        if number == len(space["pieces"]):
            space["pieces"].append({"filename": source.filename, "lines": [], "defined": []})
        piece = space["pieces"][number]
        lines = piece["lines"]
        lines += [""] * (first + len(text) - len(lines))
        lines[places] = text
        piece["defined"].append(node.name)
        return [number, node.name]

    def _close(self) -> None:
        """Give each piece the name of its file."""
        for space in self.namespaces:
            for number, piece in enumerate(space["pieces"]):
                text = "\n".join(piece["lines"]) + "\n"
                mark = hashlib.sha256(f"{piece['filename']}\0{text}".encode()).hexdigest()[:10]
                name = f"cell_{mark}.py"
                self.sources[name] = (piece["filename"], text)
                space["pieces"][number] = name

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
        if isinstance(value, FunctionType) and not self._is_elsewhere(value):
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
            kind = self._importable(what, type(value))
            return {"call": [kind, [inner(what, part) for part in value]]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {
                f.name: inner(what, getattr(value, f.name)) for f in dataclasses.fields(value)
            }
            return {"object": [self._importable(what, type(value)), fields]}
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

    def _is_elsewhere(self, function: FunctionType) -> bool:
        """Tell whether a function is of a module that the other process imports as a whole."""
        module = sys.modules.get(function.__module__ or "")
        own = function.__globals__ is self._source.function.__globals__
        if own or module is None or not _is_importable(module) or _is_ours(module):
            return False
        return getattr(module, function.__name__, None) is function

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
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    names = {i.argval for c in codes_of(code) for i in dis.get_instructions(c) if i.opname in loads}
    defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    names |= {n.id for d in defaults for n in ast.walk(d) if isinstance(n, ast.Name)}
    return names | {*code.co_freevars}


def _imported_root(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name.partition(".")[0]
    return (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else ""


def _is_ours(module: ModuleType) -> bool:
    """Tell whether a module is of nki_lab, such as a prebuilt kernel's, whose functions go as text."""
    return module.__name__.partition(".")[0] == _OWN


def _is_importable(module: ModuleType) -> bool:
    return module.__name__ != "__main__" and getattr(module, "__spec__", None) is not None


def _is_library(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file or file.startswith(sys.base_prefix)


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    kind = type(value)
    return f"`{name}`" if name else f"an object of {kind.__module__}.{kind.__qualname__}"


def place_in_cell(span: Span, sources: Mapping[str, tuple[str, str]]) -> Span:
    """Return the author's place of a line in a written file; other places as they are."""
    author = sources.get(Path(span.filename).name)
    return span if author is None else dataclasses.replace(span, filename=author[0])
