"""Modules that are moved: a text, and how it is run under a name and a version."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from nki_lab.errors import NkiError, NoKernel, UsageError, close_matches
from nki_lab.runtime import KernelFunction, as_kernel
from nki_lab.source import Span, headline, keep_lines, stack_of_traceback

Scope = dict[str, Any]

_MADE, _KEEP = "__nki_lab_made__", "__nki_lab_keep__"
_ABOVE = re.compile(r"^\s*from (\.+)", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """A text with kernels.

    Attributes:
        text: the whole text.
        filename: the name that errors and places of it have.
        path: the file it is, or None for a cell.
        around: names that a cell finds in its notebook.
    """

    text: str
    filename: str
    path: Path | None = None
    around: Scope | None = None

    @property
    def is_script(self) -> bool:
        """Whether it does more when it is run by itself."""
        return self.path is not None and "__main__" in self.text

    def run(self, text: str, filename: str, name: str, observed: Any = None) -> Scope:
        """Run a text in place of the module's own, and return its names.

        Args:
            text: what to run.
            filename: its name; the lines of the module's own are known already.
            name: the `__name__` it sees.
            observed: is told what the expressions of its functions are (`Observed`).
        """
        if filename != self.filename or self.path is None:
            keep_lines(filename, text)
        if observed is None:
            code = compile(text, filename, "exec", dont_inherit=True)
        else:
            code = observed.compiled(text, filename)
        module = ModuleType(name)
        if self.path is not None:
            module.__file__ = str(self.path)
            module.__package__ = _package(self.path, text)
        scope = vars(module)
        scope.update(self.around or {})
        if self.around is not None:
            scope["__name__"] = name
        if observed is not None:
            observed.listen(scope)
        before = sys.modules.get(name), sys.argv
        sys.modules[name] = module  # dataclasses look their module up
        if name == "__main__":
            sys.argv = [str(self.path)]
        try:
            exec(code, scope)
        except NkiError as error:
            if not error.stack:
                error.stack = stack_of_traceback(error.__traceback__, code)
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not error.code:
                return scope
            raise UsageError(
                headline(error),
                stack=stack_of_traceback(error.__traceback__, code),
                notes=(f"raised while {Path(filename).name} was run",),
            ) from error
        finally:
            former, sys.argv = before
            if former is not None:
                sys.modules[name] = former
        return scope


class Made:
    """Keeps the kernels that functions of a module define when they are called, as `observed` of Module.run."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.kernels: Scope = {}

    def listen(self, scope: Scope) -> None:
        """Let a module that is about to run hand its kernels over."""
        scope[_MADE], scope[_KEEP] = self.kernels, self.kernels.__setitem__

    def compiled(self, text: str, filename: str) -> CodeType:
        """Return the code of a text that does."""
        tree = _Keeping(self.names).visit(ast.parse(text, filename))
        return compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)


class _Keeping(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names, self.path = names, list[str]()

    def visit_FunctionDef(self, node: Any) -> Any:
        self.path.append(node.name)
        self.generic_visit(node)
        name = ".".join(self.path)
        self.path.pop()
        if name not in self.names or isinstance(node, ast.ClassDef):
            return node
        keep = ast.parse(f"{_KEEP}({name!r}, {node.name})").body[0]
        return [node, ast.copy_location(keep, node)]

    visit_ClassDef = visit_FunctionDef


def with_made(scope: Scope, kernels: Scope) -> Scope:
    """Return the names of a module, and kernels that its functions made."""
    return {**scope, _MADE: kernels}


def _package(path: Path, text: str) -> str:
    """Return the package that a file is part of, and let Python find it.

    Folders are packages where they say so, and where the file imports from above as if they were.
    """
    folder = path.resolve().parent
    levels = max((len(dots) for dots in _ABOVE.findall(text)), default=0)
    parts: list[str] = []
    while (folder / "__init__.py").is_file() or len(parts) < levels:
        parts.insert(0, folder.name)
        folder = folder.parent
    for place in {str(path.resolve().parent), str(folder)} - set(sys.path):
        sys.path.insert(0, place)
    return ".".join(parts)


def kernels_of(scope: Scope) -> list[str]:
    """Return the names of the kernels that a module defines."""
    return [n for n, v in scope.items() if isinstance(v, KernelFunction)]


def kernel_in(scope: Scope, name: str, filename: str) -> KernelFunction:
    """Return the kernel of a name in a module; a function without decorator is made one."""
    made = scope.get(_MADE, {})
    if name in made:
        return as_kernel(made[name])
    value: Any = scope
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
        if value is None:
            break
    if isinstance(value, KernelFunction):
        return value
    if callable(value) and hasattr(value, "__code__"):
        return as_kernel(value)
    for other in scope.values():
        if isinstance(other, KernelFunction) and other.func.__qualname__ == name:
            return other
    listed = ", ".join(kernels_of(scope)) or "none"
    raise NoKernel(
        f"{Path(filename).name} has no kernel `{name}`",
        stack=(Span(filename, 1),) if value is not None else (),
        notes=(f"kernels: {listed}",),
        help=close_matches(name, [n for n, v in scope.items() if callable(v)]),
    )
