"""Finds the kernel that `file.py:kernel` names, and the arguments it is called with."""

from __future__ import annotations

import ast
import inspect
import os
import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from nki_lab.cli.inputs import read_input
from nki_lab.compiler.program import is_artifact
from nki_lab.errors import (
    BadSyntax,
    NkiError,
    NoKernel,
    UnknownOption,
    UsageError,
    close_matches,
)
from nki_lab.runtime import CompiledFunction, KernelFunction, as_kernel, load
from nki_lab.source import Span, stack_of_traceback


@dataclass(frozen=True)
class KernelCall:
    """A kernel of a file and the arguments to call it with.

    Attributes:
        kernel: the kernel.
        arguments: values by parameter name.
        scope: names an expression may use: the file's, `np`, the kernel and the arguments.
    """

    kernel: KernelFunction | CompiledFunction
    arguments: dict[str, Any]
    scope: dict[str, Any]


def prepare_call(
    place: str,
    inputs: list[str],
    args: list[str],
    seed: int,
    target: str | None = None,
    cores: int | None = None,
    is_called: bool = True,
) -> KernelCall:
    """Load a kernel and make its arguments.

    Args:
        place: FILE.py:KERNEL, FILE.py where the file holds one kernel, or a kernel saved by `nki-lab compile`.
        inputs: arrays, as in `--input a=randn:128x512:bf16`.
        args: Python literals, as in `--arg 'shape=(3,4)'`.
        seed: of the random inputs.
        target: the chip asked for; a saved kernel must have been compiled for it.
        cores: the cores asked for, likewise.
        is_called: the kernel is called with these arguments; otherwise they are names for an expression that calls it.
    """
    if is_artifact(Path(place)):
        saved = load(place, target)
        _check_cores(place, saved, cores)
        arguments = read_arguments(inputs, args, seed)
        if is_called:
            _check_names(saved, arguments)
        return KernelCall(saved, arguments, {"np": np, saved.__name__: saved, **arguments})
    file, colon, name = _split(place)
    module = load_file(Path(file))
    kernel = find_kernel(module, name, file) if colon else _only_kernel(module, file, is_called)
    arguments = read_arguments(inputs, args, seed)
    if is_called:
        _check_names(kernel, arguments)
    scope = {**vars(module), "np": np, kernel.__name__: kernel, **arguments}
    return KernelCall(kernel, arguments, scope)


def _check_cores(place: str, saved: CompiledFunction, cores: int | None) -> None:
    compiled_for = 1 + len(saved.compiled.others)
    if cores not in (None, compiled_for):
        raise UnknownOption(
            f"{place} was compiled for {compiled_for} of a logical core's cores, --lnc asks for {cores}",
            help=f"compile it again with --lnc {cores}, or leave --lnc out",
        )


def load_file(file: Path) -> ModuleType:
    """Run a Python file as a module, with its folder on the import path; in a package, as a module of that package.

    Raises UsageError, or a more special error, at the line that failed.
    """
    if not os.path.isfile(file):
        raise UnknownOption(f"there is no file {file}", help=_files_like(file))
    outermost = file.resolve().parent
    if str(outermost) not in sys.path:
        sys.path.insert(0, str(outermost))
    package = ""
    while (outermost / "__init__.py").exists():
        package, outermost = f"{outermost.name}.{package}", outermost.parent
    if package and str(outermost) not in sys.path:
        sys.path.insert(1, str(outermost))
    # Under its own name, so that files beside it can import it; never in place of another module.
    name = f"{package}{file.stem}"
    name = name if name not in sys.modules else f"{package}nki_lab_file_{file.stem}"
    spec = spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise UnknownOption(f"{file} is not a Python file", help="name a file that ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        sys.modules.pop(name, None)
        raise _not_python(error) from None
    except NkiError as error:
        sys.modules.pop(name, None)
        if not error.stack:
            error.stack = _outermost(error, str(file.resolve()))
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        said = f": {error}" if str(error) else ""
        raise UsageError(
            f"{type(error).__name__}{said}",
            stack=_outermost(error, str(file.resolve())),
            notes=(f"raised while {file.name} was loaded",),
        ) from error
    return module


def find_kernel(module: ModuleType, name: str, file: str) -> KernelFunction:
    """Return the kernel of this name; a function without decorator is made one."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise UnknownOption(
                f"{file} has no `{name}`",
                notes=(f"kernels: {', '.join(_kernels(module)) or 'none'}",),
                help=close_matches(part, _functions(module)),
            )
        value = getattr(value, part)
    if isinstance(value, KernelFunction):
        return value
    if not inspect.isfunction(value):
        raise NoKernel(
            f"`{name}` of {file} is not a kernel (its type is {type(value).__name__})",
            help="name a function decorated with @nki.jit",
        )
    return as_kernel(value)


def read_arguments(inputs: list[str], args: list[str], seed: int) -> dict[str, Any]:
    """Return the values of --input and --arg by parameter name."""
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for name, value in (
        *(read_input(text, rng) for text in inputs),
        *(_literal(text) for text in args),
    ):
        if name in values:
            raise UnknownOption(f"`{name}` is given twice", help="give each parameter once")
        values[name] = value
    return values


def _literal(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UnknownOption(
            f"--arg {text}: expected NAME=LITERAL", help="for example --arg 'shape=(3,4)'"
        )
    try:
        if value.strip().startswith(("nl.", "nisa.")):
            return name, _named(value.strip())
        return name, ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UnknownOption(
            f"--arg {text}: `{value}` is not a Python literal",
            help="write a number, string, True, None, a tuple, list or dict of them, or a name like nl.bfloat16;"
            f" a string needs its own quotes: --arg \"{name}='{value}'\"",
        ) from None


def _named(text: str) -> Any:
    """Return what a dotted name of NKI stands for: a dtype, an operator or a member of an enum."""
    from nki_lab import language
    from nki_lab.api import isa

    root, *parts = text.split(".")
    value: Any = language if root == "nl" else isa
    for part in parts:
        names = dir(value)
        if part not in names:
            raise UnknownOption(f"--arg: there is no `{text}`", help=close_matches(part, names))
        value = getattr(value, part)
    return value


def _check_names(kernel: KernelFunction | CompiledFunction, arguments: dict[str, Any]) -> None:
    parameters = kernel.__signature__.parameters
    shown = f"parameters of {kernel.__name__}: {', '.join(parameters)}"
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in arguments:
        if name not in parameters and not takes_any:
            raise UnknownOption(
                f"{kernel.__name__} has no parameter `{name}`",
                notes=(shown,),
                help=close_matches(name, parameters),
            )
    for name, parameter in parameters.items():
        if name == "self" and name not in arguments:
            raise UnknownOption(
                f"{kernel.__name__} is a method: it needs an object of its class",
                help=f"call it by an expression: --run '{_of_object(kernel)}(...)'",
            )
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic and name not in arguments:
            raise UnknownOption(
                f"parameter `{name}` of {kernel.__name__} has no value",
                notes=(shown,),
                help=f"give an array, --input {name}=randn:128x512:f32, or a value, --arg {name}=3",
            )


def _of_object(kernel: KernelFunction | CompiledFunction) -> str:
    name = kernel.func.__qualname__ if isinstance(kernel, KernelFunction) else kernel.__name__
    owner, _, method = name.rpartition(".")
    return f"{owner or 'CLASS'}().{method}"


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, KernelFunction) or inspect.isfunction(value)
    ]


def _kernels(module: ModuleType) -> dict[str, KernelFunction]:
    """Return the kernels of a file by name; those of a class are `Class.kernel`."""
    spaces: list[tuple[str, Any]] = [("", module)]
    spaces += [
        (f"{name}.", value)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return {
        f"{prefix}{name}": kernel
        for prefix, space in spaces
        for name, value in vars(space).items()
        if isinstance(kernel := getattr(value, "__func__", value), KernelFunction)
    }


def _only_kernel(module: ModuleType, file: str, is_called: bool) -> KernelFunction:
    kernels = _kernels(module)
    if not kernels:
        raise NoKernel(
            f"{file} holds no kernel",
            help=f"write @nki.jit above the function, or name the function: {file}:FUNCTION",
        )
    if len(kernels) > 1 and is_called:
        raise NoKernel(
            f"{file} holds {len(kernels)} kernels: {', '.join(kernels)}",
            help=f"name one: {file}:{next(iter(kernels))}",
        )
    return next(iter(kernels.values()))  # an expression calls the one it names


def _split(place: str) -> tuple[str, str, str]:
    """Return file, colon and name of FILE.py:KERNEL or FILE.py::KERNEL; the latter two are empty for a file only."""
    file, colon, name = place.rpartition(":") if ".py:" in place else (place, "", "")
    return file.removesuffix(":"), colon, name


def check_outputs(place: str, **outputs: Path | None) -> None:
    """Refuse to write a file over the kernel's own, or over another one of the same command."""
    taken = {Path(_split(place)[0]).resolve(): "the kernel's own file"}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise UnknownOption(
                f"--{option} {path} is {taken[path.resolve()]}, which would be lost",
                help="write to a file of another name",
            )
        taken[path.resolve()] = f"what --{option} writes"


def _files_like(file: Path) -> str:
    folder = file.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return close_matches(file.name, [f.name for f in folder.glob("*.py")])


def _not_python(error: SyntaxError) -> BadSyntax:
    line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
    place = Span(error.filename or "", line, column, line, column + 1)
    return BadSyntax.of(error.msg, place)


def _outermost(error: BaseException, filename: str) -> Any:
    tb = error.__traceback__
    root: CodeType | None = None
    while tb is not None and root is None:
        if tb.tb_frame.f_code.co_filename == filename:
            root = tb.tb_frame.f_code
        tb = tb.tb_next
    return stack_of_traceback(error.__traceback__, root) if root else ()
