"""`nki_lab.migrate`: moves the file or cell of a kernel from Python."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.choices import NKI, BadValue
from nki_lab.errors import NoKernel, UnknownOption
from nki_lab.migration.modules import Module, Scope, kernel_in, kernels_of
from nki_lab.migration.moving import Caller, Migration, migrated, module_of, since_named
from nki_lab.runtime import KernelFunction, jit
from nki_lab.session.evaluate import evaluate
from nki_lab.session.questions import ACCEPT, TO, expression
from nki_lab.versions import NEWEST, version_named


def migrate(
    kernel: Any,
    *args: Any,
    nki: str | None = None,
    to: str | None = None,
    accept: str | None = None,
    **kwargs: Any,
) -> Migration:
    """Move the file or cell of a kernel to another version of NKI, and prove by value that it computes the same.

        moved = nki_lab.migrate("add.py::add", a, b)
        print(moved.report())
        moved.write("add.py")

    Args:
        kernel: a kernel, or "FILE.py::KERNEL"; the whole file is moved. "FILE.py" without arguments runs the file,
            which calls its kernels itself.
        args, kwargs: arguments of the kernel. It runs in both versions on them, on other values of the same shapes,
            and on other shapes and dtypes where it takes these.
        nki: the version that it is written for; by default the newest one that takes it as it is.
        to: the version to write it for; by default the newest one.
        accept: "division" takes the new text although values differ, where divisions are proved to be the only cause.
    """
    module, name = _module(kernel)
    since = since_named(NKI.take(nki, "nki=") if nki is not None else None, module)
    caller = (
        None
        if not name and not args and not kwargs
        else calling(name, args, kwargs, module.filename)
    )
    written = version_named(TO.take(to, "to=")) if to is not None else NEWEST
    accepted = ACCEPT.take(accept, "accept=") if accept is not None else ""
    return migrated(module, caller, since, written, accepted=accepted)


def calling(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], filename: str) -> Caller:
    """Return what calls a kernel of a module; "" is its only one."""

    def call(scope: Scope) -> None:
        kernels = kernels_of(scope)
        if not name and len(kernels) != 1:
            raise NoKernel(
                f"{Path(filename).name} holds {len(kernels)} kernels: {', '.join(kernels) or 'none'}",
                help=f"name one: {Path(filename).name}::{kernels[0] if kernels else 'KERNEL'}",
            )
        kernel_in(scope, name or kernels[0], filename).launch(*args, **kwargs)

    return call


def evaluating(text: str, seed: int) -> Caller:
    """Return what evaluates an expression with the names of a module, `np` and the random generator `rng`."""
    try:
        asked = expression(text, "--call")
    except BadValue as error:
        raise UnknownOption(f"--call: {error}", help=error.help) from None

    def evaluated(scope: Scope) -> None:
        evaluate(asked, {"np": np, "rng": np.random.default_rng(seed), **scope})

    return evaluated


def split_place(place: str) -> tuple[Path, str]:
    """Return the file and the kernel of FILE.py::KERNEL or FILE.py:KERNEL; "" where it names a file only."""
    file, colon, name = place.rpartition(":") if ".py:" in place else (place, "", "")
    return Path(file.rstrip(":")), name if colon else ""


def _module(kernel: Any) -> tuple[Module, str]:
    if isinstance(kernel, (str, Path)):
        file, name = split_place(str(kernel))
        return module_of(file), name
    function = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    source = function.source
    source.restore_lines()
    if Path(source.filename).is_file():
        return module_of(Path(source.filename)), function.func.__qualname__
    text = "".join(linecache.getlines(source.filename))
    if not text:
        raise NoKernel(
            f"the text of `{function.__name__}` cannot be found, so it cannot be moved",
            help="define it in a file or a cell",
        )
    around = dict(function.func.__globals__)
    return Module(text, source.filename, None, around), function.func.__qualname__
