"""Loads a kernel from a file."""

from __future__ import annotations

from pathlib import Path

from nki_lab.choices import Choices
from nki_lab.compiler.program import CompiledKernel
from nki_lab.errors import NotOnTarget
from nki_lab.runtime.compiled import CompiledFunction, stored_kernel
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target


def load(path: str | Path, target: str | Target | None = None) -> CompiledFunction:
    """Read a kernel that `compiled.save(path)` or `nki-lab compile` wrote, ready to be called.

    Call it with the arrays of the kernel's parameters, by position or name; constants were compiled in and may be
    left out. Its source is not needed.

    Args:
        path: the file, usually ending in .nkic.
        target: the chip it must have been compiled for; None takes any.

    Raises:
        BadFile: it is not a compiled kernel, is damaged, or is from another version of nki_lab.
        NotOnTarget: it was compiled for another chip than `target`.
    """
    compiled = CompiledKernel.load(path)
    if target is not None and get_target(target) is not compiled.target:
        raise NotOnTarget(
            f"{Path(path).name} was compiled for {compiled.target.name}, not for {get_target(target).name}",
            help="compile the kernel again for the other chip: addresses and engines differ",
        )
    return stored_kernel(compiled, Choices.current())
