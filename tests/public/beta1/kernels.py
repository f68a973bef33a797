"""Says what a published kernel is given and what it must give, and runs it."""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

from nki_lab.runtime import compare
from tests.public.beta1.trees import Tree
from tests.public.sdk.clone import load, official_names
from tests.public.sdk.references import moved, signed


@dataclass(frozen=True)
class Case:
    """One run of a published kernel.

    Attributes:
        file: below the folder of the tree; `folder` is put before it.
        kernel: name in the module; a function that is no kernel, such as one that launches it, is called.
        arguments: arrays as "float32 4x8", with " +" for numbers away from zero; "out float32 4x8" for an argument
            that the kernel writes; "full float32 4 0.5" for equal numbers; a function of the generator makes several
            at once; everything else is given as it is.
        expected: what the arguments, in float64, must give.
        check: called with the module instead: it runs the kernel and compares, as published.
        grid: of programs.
        program: the file is run as a script with these words.
        raises: the error there must be, and words of it.
        absent: packages the file imports for a device, which are replaced by empty ones.
        needs: packages that must be installed.
        made: returns the kernel, from the module, or a function that launches it.
        host: `kernel` is a function that launches kernels.
        path: another folder of the tree from which the file imports.
        name: of the module, below `path`, for a file that imports its neighbours by their package.
    """

    file: str
    kernel: str = ""
    arguments: tuple[Any, ...] = ()
    expected: Callable[..., Any] | None = None
    check: Callable[[ModuleType], Any] | None = None
    grid: tuple[Any, ...] = ()
    program: tuple[str, ...] | None = None
    raises: tuple[type[BaseException], str] | None = None
    absent: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    made: Callable[[ModuleType], Callable[..., Any]] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    path: str = ""
    name: str = ""
    host: bool = False

    def __str__(self) -> str:
        script = "program" if self.program is not None else ""
        parts = [self.file.removesuffix(".py"), self.kernel, script, self.label]
        return ":".join(part for part in parts if part)


@dataclass(frozen=True)
class Placed:
    """A case in one tree."""

    tree: Tree
    folder: str
    case: Case

    def __str__(self) -> str:
        return f"{self.tree.name}:{self.case}"


def placed(tree: Tree, folder: str, cases: tuple[Case, ...]) -> list[Placed]:
    """Return the cases whose file the tree has, in the older dialect."""
    if tree.path is None:
        return []
    return [Placed(tree, folder, c) for c in cases if _is_older(tree.path / folder / c.file)]


def _is_older(path: Path) -> bool:
    return path.exists() and "neuronxcc" in path.read_text("utf-8")


@contextlib.contextmanager
def surroundings(where: Placed) -> Iterator[Path]:
    """Let the file of a case, whose path is given, import what it does."""
    assert where.tree.path is not None
    case, path = where.case, where.tree.path / where.folder / where.case.file
    for package in case.needs:
        pytest.importorskip(package)
    folders = [path.parent] + [where.tree.path / case.path] * bool(case.path)
    with official_names(*folders), _empty(case.absent), _elsewhere():
        yield path


def check(where: Placed, rng: np.random.Generator) -> None:
    """Run a case and compare everything."""
    case = where.case
    with surroundings(where) as path:
        if case.raises is not None:
            with pytest.raises(case.raises[0], match=case.raises[1]):
                _run(case, path, rng)
        else:
            _run(case, path, rng)


def _run(case: Case, path: Path, rng: np.random.Generator) -> None:
    if case.program is not None:
        with mock.patch.object(sys, "argv", [str(path), *case.program]):
            runpy.run_path(str(path), run_name="__main__")
        return
    np.random.seed(int(rng.integers(2**31)))
    module = _packaged(case.name) if case.name else load(path)
    if case.check is not None:
        told = case.check(module)
        assert told is None or bool(told), told
        return
    written, given = [], []
    for argument in case.arguments:
        for value in _values(argument, rng):
            given.append(value)
            if isinstance(argument, str) and argument.startswith("out "):
                written.append(value)
    if not case.kernel:
        return
    kernel = case.made(module) if case.made else getattr(module, case.kernel)
    wide = [_wide(v) for v in given if not any(v is w for w in written)]
    result = called(kernel, case, [v if any(v is w for w in written) else moved(v) for v in given])
    assert case.expected is not None
    references = case.expected(*wide)
    references = references if isinstance(references, tuple) else (references,)
    found = written or (result if isinstance(result, (tuple, list)) else (result,))
    for one, reference in zip(found, references, strict=True):
        comparison = compare(np.asarray(one), reference, **case.tolerance)
        assert comparison.ok, comparison.summary()


def _packaged(name: str) -> ModuleType:
    """Import a module and its packages anew: another tree may have some of the same name."""
    root = name.partition(".")[0]
    for known in [module for module in sys.modules if module.partition(".")[0] == root]:
        del sys.modules[known]
    return importlib.import_module(name)


def called(kernel: Any, case: Case, given: list[Any]) -> Any:
    """Call the kernel of a case."""
    nki = importlib.import_module("neuronxcc.nki")
    if case.host or (case.made and not hasattr(kernel, "func")):
        return kernel(*given, **case.keywords)
    if case.grid:
        kernel = (kernel if hasattr(kernel, "func") else nki.jit(kernel))[case.grid]
    return nki.simulate_kernel(kernel, *given, **case.keywords)


def _values(argument: Any, rng: np.random.Generator) -> list[Any]:
    if callable(argument) and not isinstance(argument, type):
        return list(argument(rng))
    if not isinstance(argument, str) or " " not in argument:
        return [argument]
    words = argument.split()
    filled = words.pop(0) if words[0] in ("out", "full") else ""
    dtype, sizes, *rest = words
    shape = tuple(int(n) for n in sizes.split("x"))
    if filled:
        number = float(rest[0]) if rest else 77.0  # nothing may be left of it
        return [np.full(shape, number, getattr(ml_dtypes, dtype, dtype))]
    array = signed(rng, shape, dtype)
    if rest == ["+"]:
        array = (np.abs(array.astype(np.float64)) + 0.5).astype(array.dtype)
    return [array]


def _wide(value: Any) -> Any:
    floats = isinstance(value, np.ndarray) and value.dtype.kind not in "iub"
    return value.astype(np.float64) if floats else value


class _Nothing(ModuleType):
    """A package of which every name is there and does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # As a decorator it gives the function back.
        return args[0] if len(args) == 1 and callable(args[0]) else self


def _is_there(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _empty(names: tuple[str, ...]) -> Iterator[None]:
    """Let packages for a device be imported: what they define is not used by a kernel."""
    modules: dict[str, ModuleType] = {}
    for name in names:
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            full = ".".join(parts[:i])
            if full not in sys.modules and not _is_there(full):
                modules[full] = _Nothing(full)
    sys.modules.update(modules)
    try:
        yield
    finally:  # what was imported meanwhile stays, as extension modules are loaded only once
        for name in modules:
            del sys.modules[name]


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Let a file write what it likes, in a folder of its own."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"HOME": folder}):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
