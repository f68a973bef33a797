"""Checks a `%%nki` cell without running it.

`Draft.read` looks at the text alone and runs nothing of it. `Draft.compile` defines what the cell defines in a copy of
the namespace and compiles the call that `--run` names, without simulating it; it belongs in a separate process
(see `nki_lab.magics.copied_process`), since a kernel may change what it is given.
"""

from __future__ import annotations

import ast
import builtins
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import isfunction
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nki_lab.api.install import aliases
from nki_lab.choices import Choices
from nki_lab.compiler.check_language import remarks_of
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.dialects import DIALECTS
from nki_lab.errors import KernelErrors, NkiError, UnknownName
from nki_lab.ir.program.nodes import Finding
from nki_lab.magics.cells import Cell
from nki_lab.magics.define import dialect_said, no_only_function, parsed, ready_modules
from nki_lab.magics.safe_statements import defines, is_safe_call, written_names
from nki_lab.runtime import KernelFunction, as_kernel
from nki_lab.session.reading import parse_line
from nki_lab.session.request import session
from nki_lab.source import stack_of_traceback
from nki_lab.versions import Version

MAGIC = "%%nki"
_IS_CELL = re.compile(rf"\s*{MAGIC}(?!\S)")
_DEF = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Decorators that make kernels, by their last name: those of today's dialect and of the older one.
_MAKERS = ("jit", "baremetal", "benchmark", "profile", "trace")


def is_kernel_cell(text: str) -> bool:
    """Tell whether the text of a cell starts with `%%nki`."""
    return _IS_CELL.match(text) is not None


@dataclass
class Draft:
    """A cell that has not been run, with its findings and estimates.

    Attributes:
        cell: its text.
        scope: the namespace it would run in; never changed.
        flags: compiler flags of earlier cells, as `from __future__` sets them.
        errors, findings: what has been found.
        unseen: why nothing was compiled; "" where it was, or where errors say enough.
    """

    cell: Cell
    scope: Mapping[str, Any]
    flags: int = 0
    errors: list[BaseException] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unseen: str = ""
    _options: Namespace | None = None
    _tree: ast.Module | None = None
    _call: ast.Call | None = None

    def read(self) -> bool:
        """Look at options and text; return whether there is something to compile."""
        try:
            self._options = parse_line(MAGIC, self.cell.options, self.cell.option_stack)
        except NkiError as error:
            self.errors.append(error)
        try:
            self._tree = parsed(self.cell)
            code = self.cell.compile_text(self._tree, self.flags)
            names = _kernel_names(self.cell, self._tree)
        except NkiError as error:
            self.errors.append(error)
            return False
        self._read_functions(code, names)
        if self.errors or self._options is None:
            return False
        self._call = self._called(names)
        return self._call is not None

    def _read_functions(self, code: CodeType, names: list[str]) -> None:
        assert self._tree is not None
        scope, functions = self._scope_of_text(code, self._tree)
        stars = any(
            alias.name == "*"
            for node in ast.walk(self._tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        )
        waiting, seen = list(names), set()
        while waiting:
            name = waiting.pop(0)
            function = functions.get(name)
            if function is None or name in seen:
                continue
            seen.add(name)
            try:
                source = SourceKernel.of(function)
                version = self._version(source)
            except NkiError as error:
                self.errors.append(error)
                continue
            errors, findings = remarks_of(source, version, name in names)
            self.errors += [e for e in errors if not (stars and _is_global(e))]
            self.findings += findings
            text = source.function_text
            waiting += [called for called, _ in text.facts.calls] if text is not None else []
        scope.clear()

    def _version(self, source: SourceKernel) -> Version:
        """Return the version of NKI that the text of a function says it is written for, or the cell, or the choices."""
        decorators = getattr(source.definition, "decorator_list", [])
        keywords = [k for d in decorators if isinstance(d, ast.Call) for k in d.keywords]
        written = next((k.value for k in keywords if k.arg == "nki"), None)
        nki = written.value if isinstance(written, ast.Constant) else source.nki
        return self._choices().replace(nki=nki or None).version

    def _choices(self) -> Choices:
        """Return what holds here, with the dialect and version that the cell asks for."""
        asked = {name: getattr(self._options, name, None) for name in ("nki", "dialect")}
        return Choices.current().replace(**asked)

    def _ready(self, tree: ast.Module) -> Mapping[str, ModuleType]:
        return ready_modules(dialect_said(tree, self._choices()), self.scope)

    def _scope_of_text(
        self, code: CodeType, tree: ast.Module
    ) -> tuple[dict[str, Any], dict[str, FunctionType]]:
        """Return the names that the cell's functions will see, and the functions, without running anything."""
        scope = dict(self.scope)
        with aliases():
            scope |= self._ready(tree)
            scope |= dict.fromkeys(written_names(tree))
            scope |= _modules(tree)
        functions = {}
        for constant in code.co_consts:
            if isinstance(constant, CodeType) and constant.co_name.isidentifier():
                functions[constant.co_name] = FunctionType(constant, scope, constant.co_name)
        for name, function in functions.items():
            if name in scope:
                scope[name] = function
        return scope, functions

    def _called(self, names: list[str]) -> ast.Call | None:
        """Return the call of a kernel in --run whose arguments can be had without running anything."""
        assert self._options is not None
        if self._options.run is None:
            self.unseen = "there is no --run, so that shapes are not known"
            return None
        expression = ast.parse(self._options.run.text, mode="eval")
        calls = [n for n in ast.walk(expression) if isinstance(n, ast.Call)]
        for call in calls:
            function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
            if not isinstance(function, ast.Name):
                continue
            if function.id not in names and not isinstance(
                self.scope.get(function.id), KernelFunction
            ):
                continue
            missing = sorted(
                {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
                - {*self.scope, *names, *dir(builtins)}
            )
            if missing:
                which = ", ".join(f"`{name}`" for name in missing)
                self.unseen = f"--run names {which}, which the notebook does not have yet"
                return None
            arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
            if not all(is_safe_call(a, self.scope) for a in arguments):
                self.unseen = "the arguments in --run are computed, which only running does"
                return None
            return call
        self.unseen = "--run calls no kernel by its name"
        return None

    def compile(self) -> None:
        """Define what the cell defines, and compile the call of --run; both in this process."""
        assert self._options is not None
        assert self._tree is not None
        assert self._call is not None
        self.findings = []  # a traced kernel tells the same, and more
        scope = dict(self.scope)
        self._options.timeout = None  # the copy has its own limit
        try:
            with session(self._options):
                scope |= self._ready(self._tree)
                if not self._define(scope):
                    return
                names = {n.id for n in ast.walk(self._call.func) if isinstance(n, ast.Name)}
                for name in names:
                    if isfunction(scope.get(name)):
                        scope[name] = as_kernel(scope[name])
                self._trace(scope)
        except NkiError as error:
            self.errors.append(error)

    def _define(self, scope: dict[str, Any]) -> bool:
        """Run the definitions, imports and constants of the cell; return whether all that matters is there."""
        assert self._tree is not None
        skipped: set[str] = set()
        for node in self._tree.body:
            names = written_names(ast.Module([node], []))
            if not defines(node, self.scope) or skipped & _read(node):
                skipped |= names
                continue
            module = ast.Module([node], [])
            code = self.cell.compile_text(module, self.flags | _ANNOTATIONS)
            try:
                exec(code, scope)
            except NkiError as error:
                error.stack = error.stack or stack_of_traceback(error.__traceback__, code)
                self.errors.append(error)
                return False
            except ImportError as error:
                self.errors.append(error)
                return False
            except Exception:  # it needs what was left out
                skipped |= names
        assert self._call is not None
        lacking = skipped & _reached(self._call.func, self._tree)
        if lacking:
            self.unseen = f"`{min(lacking)}` is not made by a plain definition"
        return not lacking

    def _trace(self, scope: dict[str, Any]) -> None:
        assert self._call is not None
        kernel = _value(self._call.func, scope)
        arguments = [_value(a, scope) for a in self._call.args]
        keywords = {k.arg: _value(k.value, scope) for k in self._call.keywords if k.arg}
        try:
            compiled = kernel.compile(*arguments, **keywords)
        except NkiError as error:
            if not isinstance(error, KernelErrors) and not error.stack:
                error.stack = self.cell.option_stack(ast.unparse(self._call))
            raise
        self.findings = list(compiled.compiled.findings_before_run)


_ANNOTATIONS = 0x1000000  # annotations are not evaluated: __future__.annotations.compiler_flag


def _value(node: ast.expr, scope: dict[str, Any]) -> Any:
    code = compile(ast.Expression(node), "<--run>", "eval", dont_inherit=True)
    return eval(code, scope)


def _is_global(error: NkiError) -> bool:
    return isinstance(error, UnknownName) and error.message.startswith("name ")


def _read(node: ast.stmt) -> set[str]:
    """Return the names that running a statement reads at once, not those a function reads when it is called."""
    if isinstance(node, _DEF):
        parts = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    else:
        parts = [node]  # type: ignore[list-item]
    return set().union(*map(_loaded, parts))


def _reached(function: ast.expr, tree: ast.Module) -> set[str]:
    """Return the names that a function of a cell reads, and those that what it names in the cell reads."""
    reads = {
        node.name: _loaded(node) for node in tree.body if isinstance(node, (*_DEF, ast.ClassDef))
    }
    reached: set[str] = set()
    waiting = _loaded(function)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting |= reads.get(name, set())
    return reached


def _loaded(node: ast.AST) -> set[str]:
    walked = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in walked if isinstance(n.ctx, ast.Load)}


def _modules(tree: ast.Module) -> dict[str, Any]:
    """Return the modules of NKI that a cell imports by name."""
    modules: dict[str, Any] = {}
    roots = {dialect.root for dialect in DIALECTS}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                if root in roots:
                    value = _module(alias.name if alias.asname else root)
                    if value is not None:
                        modules[alias.asname or root] = value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in roots:
            for alias in node.names:
                value = _module(f"{node.module}.{alias.name}")
                if value is not None:
                    modules[alias.asname or alias.name] = value
    return modules


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except (ImportError, NkiError):
        return None


def _kernel_names(cell: Cell, tree: ast.Module) -> list[str]:
    """Return the names of the functions that the cell makes kernels, as far as its text tells."""
    functions = {node.name: node for node in tree.body if isinstance(node, _DEF)}
    marked = [n for n, node in functions.items() if any(map(_is_jit, node.decorator_list))]
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = [a.id for a in node.value.args if isinstance(a, ast.Name)]
            if _is_jit(node.value.func):
                marked += [name for name in names if name in functions]
    if marked:
        return marked
    if len(functions) == 1:
        return list(functions)
    if any(node.decorator_list for node in functions.values()) or any(_assigned(tree)):
        return []  # something else may make a kernel
    raise no_only_function(cell, tree, functions)


def _assigned(tree: ast.Module) -> Iterator[ast.stmt]:
    return (n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call))


def _is_jit(node: ast.expr) -> bool:
    while isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in _MAKERS
