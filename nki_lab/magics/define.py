"""Finds the kernels that a cell defines, once it has run in the user's namespace."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import isfunction
from types import CodeType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.choices import Choices
from nki_lab.compiler.check_language import check_text
from nki_lab.dialects import DIALECTS, NKI, Dialect
from nki_lab.errors import MixedDialects, NkiError, NoKernel
from nki_lab.frameworks.operator import Operator
from nki_lab.magics.cells import Cell
from nki_lab.runtime import KernelFunction, as_kernel
from nki_lab.source import Span, Stack, stack_of_traceback

EXAMPLE = """\
    %%nki --run "double(a)"
    @nki.jit
    def double(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nl.store(out, nl.add(tile, tile))
        return out"""

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def define_kernels(
    shell: InteractiveShell, cell: Cell, nki: str | None = None
) -> list[KernelFunction]:
    """Run a cell in the user's namespace and return the kernels it defines, in order.

    Functions decorated with `nki.jit` are kernels. Where there is none and the cell has exactly one
    function, that one is made a kernel. Each kernel's text is checked. Kernels that do not say it themselves are
    written for the version `nki` of NKI, where the cell names one.

    Raises:
        BadSyntax: the cell is not Python.
        NoKernel: it defines no kernel, or several functions of which none is marked.
        MixedDialects: its kernels are written in two dialects, or in another one than the cell asks for.
        NkiError: the text of a kernel says what no NKI compiler takes.
        Exception: as the cell's own statements raise.
    """
    tree = parsed(cell)
    code = cell.compile(tree, shell)
    cells = _cells.setdefault(shell, _Cells())
    dialect = cells.dialect(cell, dialect_said(tree, Choices.current()), shell.user_ns)
    bound = _bind_ready_names(shell, code, dialect)
    _execute(shell, code)
    cells.note(cell, bound | _imported(tree), {*_names(code)}, shell.user_ns)
    kernels = kernels_in(tree, shell.user_ns, cell)
    _check_one_dialect(kernels)
    for kernel in kernels:
        if nki:
            kernel.write_for(nki)
        check_text(kernel.source, kernel.version)
    return kernels


def kernels_in(tree: ast.Module, scope: dict[str, Any], cell: Cell) -> list[KernelFunction]:
    """Return the kernels of a cell that has run in a scope, where its only function becomes one."""
    kernels = _marked(tree, scope, cell)
    if not kernels:
        kernels = [_only_function(tree, scope, cell)]
        scope[kernels[0].func.__name__] = kernels[0]
    return kernels


def parsed(cell: Cell) -> ast.Module:
    """Return the syntax tree of a cell; raise for one that is not Python, or has no function."""
    tree = cell.parse()
    if not any(isinstance(node, _FUNCTION) for node in ast.walk(tree)):
        raise NoKernel(
            "the cell defines no function, so there is no kernel in it",
            stack=_first_statement(cell, tree),
            help=f"run plain Python in a cell without %%nki; a cell with a kernel:\n\n{EXAMPLE}",
        )
    return tree


def _execute(shell: InteractiveShell, code: CodeType) -> None:
    try:
        exec(code, shell.user_ns)
    except NkiError as error:
        if not error.stack:
            error.stack = stack_of_traceback(error.__traceback__, code)
        raise
    except Exception as error:
        _show_from_cell(shell, code, error)
        raise


def _show_from_cell(shell: InteractiveShell, code: CodeType, error: Exception) -> None:
    """Let IPython show the traceback of a cell's own error from the cell on, without our frames."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code is not code:
        tb = tb.tb_next
    if tb is not None:
        lines = shell.InteractiveTB.structured_traceback(type(error), error, tb, tb_offset=0)
        # IPython asks an exception for this before it makes its own traceback.
        error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


class _Cells:
    """The `%%nki` cells of a shell, as far as they tell which dialect a name is of.

    Attributes:
        bound: name -> the module that such a cell has bound to it last.
        of_texts: text of a cell -> the dialect of the ready names that it was run with.
    """

    def __init__(self) -> None:
        self.bound: dict[str, Any] = {}
        self.of_texts: dict[str, Dialect] = {}

    def dialect(self, cell: Cell, said: Dialect | None, scope: Mapping[str, Any]) -> Dialect | None:
        """Return the dialect of a cell; None where neither it nor its last run says one.

        A cell that is run again has the modules it had, unless plain Python has imported others since.
        """
        former = self.of_texts.get(cell.text)
        if said is not None or former is None:
            return said
        others = [n for n in former.ready if n in scope and _is_another(scope[n], former)]
        by_cells = all(self.bound.get(n) is scope[n] for n in others)
        return former if others and by_cells else None

    def note(self, cell: Cell, bound: set[str], read: set[str], scope: Mapping[str, Any]) -> None:
        """Take down the names that a cell that has run has bound, and the dialect of the ready ones that it reads."""
        names = {name for dialect in DIALECTS for name in dialect.ready} & scope.keys()
        self.bound |= {name: scope[name] for name in bound & names}
        dialects = [d for d in DIALECTS if any(_is_module_of(scope[n], d) for n in read & names)]
        if len(dialects) == 1:
            self.of_texts[cell.text] = dialects[0]


_cells: WeakKeyDictionary[InteractiveShell, _Cells] = WeakKeyDictionary()


def _imported(tree: ast.Module) -> set[str]:
    imports = (n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
    return {a.asname or a.name.partition(".")[0] for node in imports for a in node.names}


def dialect_said(tree: ast.Module, choices: Choices) -> Dialect | None:
    """Return the dialect that a cell imports or asks for; the older one where it imports both; None for neither."""
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module or "" for n in imports if isinstance(n, ast.ImportFrom)}
    roots = {module.partition(".")[0] for module in modules}
    asked = choices.asked_dialect
    said = [d for d in DIALECTS if d.root in roots or d.option == asked != ""]
    return said[-1] if said else None


def ready_modules(said: Dialect | None, scope: Mapping[str, Any]) -> dict[str, ModuleType]:
    """Return the names that a cell may use without importing them, with their modules, as far as they are to be bound.

    They are those that a scope does not have, or that it has of another dialect than the one that the cell says.
    """
    ready = (said or NKI).ready
    unbound = (
        name
        for name in ready
        if name not in scope or (said is not None and _is_another(scope[name], said))
    )
    return {name: import_module(ready[name]) for name in unbound}


def _is_module_of(value: Any, dialect: Dialect) -> bool:
    return any(value is module for module in dialect.namespaces())


def _is_another(value: Any, dialect: Dialect) -> bool:
    return any(_is_module_of(value, other) for other in DIALECTS if other is not dialect)


def _bind_ready_names(shell: InteractiveShell, code: CodeType, said: Dialect | None) -> set[str]:
    """Bind the names that a cell reads and may use without importing them, and return them; they stay bound."""
    read = set(_names(code))
    modules = {n: m for n, m in ready_modules(said, shell.user_ns).items() if n in read}
    shell.push(modules, interactive=False)
    return {*modules}


def _check_one_dialect(kernels: Sequence[KernelFunction]) -> None:
    first = kernels[0]
    for kernel in kernels:
        if kernel.source.dialect is not first.source.dialect:
            raise MixedDialects(
                f"the cell has kernels of two dialects: `{first.__name__}` of {first.source.dialect.title}, and"
                f" `{kernel.__name__}` of {kernel.source.dialect.title}",
                stack=(kernel.source.place,),
                help="write each dialect in a cell of its own",
            )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _marked(tree: ast.Module, scope: dict[str, Any], cell: Cell) -> list[KernelFunction]:
    kernels: dict[Any, KernelFunction] = {}
    for name in _bound(tree):
        value = scope.get(name)
        if isinstance(value, Operator):
            value = value.kernel
        if isinstance(value, KernelFunction) and value.func.__code__.co_filename == cell.filename:
            kernels.setdefault(value.func, value)
    return list(kernels.values())


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, _FUNCTION):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _only_function(tree: ast.Module, scope: Mapping[str, Any], cell: Cell) -> KernelFunction:
    nodes = [node for node in tree.body if isinstance(node, _FUNCTION)]
    functions = {n.name: n for n in nodes if isfunction(scope.get(n.name))}
    if len(functions) != 1:
        raise no_only_function(cell, tree, functions)
    return as_kernel(scope[next(iter(functions))])


def no_only_function(cell: Cell, tree: ast.Module, functions: Mapping[str, ast.stmt]) -> NoKernel:
    """Return the error of a cell that marks no kernel and has none or several functions."""
    names = ", ".join(f"`{name}`" for name in functions)
    return NoKernel(
        f"the cell defines {len(functions)} functions and marks none as the kernel: {names}"
        if functions
        else "the cell defines no kernel: no function stands at its outermost level",
        stack=_place(cell, next(iter(functions.values()), tree.body[0])),
        help="write @nki.jit above the function that is the kernel",
    )


def _first_statement(cell: Cell, tree: ast.Module) -> Stack:
    return _place(cell, tree.body[0]) if tree.body else cell.magic_stack


def _place(cell: Cell, node: ast.stmt) -> tuple[Span, ...]:
    same_line = node.end_lineno == node.lineno
    end = node.end_col_offset if same_line else None
    return (Span(cell.filename, node.lineno, node.col_offset, node.end_lineno, end),)
