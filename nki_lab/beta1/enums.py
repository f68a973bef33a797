"""The named choices of the older `nki.isa`, with its numbers, and today's choices that they mean.

Kernels of that dialect may pass a number for a member. (general/nki/api/nki/isa/__init__.py@0521004c)
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from nki_lab.errors import WrongOperand
from nki_lab.isa import enums as today
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.engines import Engine


class _Choice(IntEnum):
    """A choice that a number stands for as well."""

    def __repr__(self) -> str:
        return f"nisa.{type(self).__name__}.{self.name}"


class dge_mode(_Choice):
    """Who makes the descriptors of a DMA transfer."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


class engine(_Choice):
    """Engines of a NeuronCore."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    sync = 6
    unknown = 0


class oob_mode(_Choice):
    """What an access outside its tensor does at run time."""

    error = 0
    skip = 1


class reduce_cmd(_Choice):
    """What an instruction does with the accumulator registers of its engine."""

    idle = 0
    reset = 1
    reset_reduce = 3
    reduce = 2
    load_reduce = 4  # of releases after 2.26


#: Generation of a NeuronCore; those that came after the dialect are members, too.
nc_version: Any = _Choice("nc_version", {f"gen{t.generation}": t.generation for t in ALL_TARGETS})  # type: ignore[call-arg, arg-type]
nc_version.__doc__ = "Generations of the NeuronCore."

#: Matmul modes that no page of the dialect lists; its examples name the first.
PERF_MODES = {
    "double_row_gen3": today.matmul_perf_mode.double_row,
    "double_row": today.matmul_perf_mode.double_row,
    "": today.matmul_perf_mode.none,
    "none": today.matmul_perf_mode.none,
}

_TODAY: dict[type[IntEnum], Any] = {
    dge_mode: today.dge_mode,
    engine: Engine,
    oob_mode: today.oob_mode,
    reduce_cmd: today.reduce_cmd,
}


def meant(value: Any, kind: type[IntEnum], function: str, parameter: str) -> Any:
    """Return today's choice for a member of the dialect, or for its number.

    Args:
        value: what the author passed; None is what a call without it means.
        kind: the choice.
        function: the instruction it was passed to, for the error.
        parameter: its parameter.
    """
    if value is None:
        return None
    if type(value) is kind:
        return _TODAY[kind][value.name]
    if type(value) is _TODAY[kind]:
        return value
    try:
        return _TODAY[kind][kind(value).name]
    except ValueError:
        members = ", ".join(f"nisa.{kind.__name__}.{m.name}" for m in kind)
        raise WrongOperand(
            f"{function}: {parameter}={value!r} is not a member of nisa.{kind.__name__}",
            help=f"write one of {members}",
        ) from None


def perf_mode_of(value: Any) -> Any:
    """Return today's matmul mode for the name that kernels of the dialect give it."""
    if value is None:
        return today.matmul_perf_mode.none
    name = value if isinstance(value, str) else getattr(value, "name", value)
    if name not in PERF_MODES:
        raise WrongOperand(
            f"nc_matmul: perf_mode={value!r} is not a mode of the Tensor engine that nki_lab models",
            help="write perf_mode='double_row_gen3', or leave it out",
        )
    return PERF_MODES[name]
