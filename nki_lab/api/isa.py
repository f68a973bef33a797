"""The module `nki.isa`: its instructions, as the registry defines them, and the named choices that they take."""

from __future__ import annotations

from typing import Any

from nki_lab.api import isa_constants
from nki_lab.errors import NkiError, UnknownName, close_matches
from nki_lab.ir.definition.instruction import Instruction, dependency
from nki_lab.ir.tensor.register import NkiScalar, VirtualRegister
from nki_lab.ir.tensor.trace import active
from nki_lab.isa import instructions_of
from nki_lab.isa.control import register_alloc
from nki_lab.isa.enums import (
    Generation,
    dge_mode,
    dma_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from nki_lab.language.sizes import active_target
from nki_lab.rewrite import instead
from nki_lab.targets.engines import Engine
from nki_lab.versions import VERSIONS, ended_with, removed_in

# The import system asks a module with submodules for this; they are found by name, not in a folder.
__path__: list[str] = []

constants = isa_constants
engine = Engine
tensor_engine = Engine.tensor
vector_engine = Engine.vector
scalar_engine = Engine.scalar
gpsimd_engine = Engine.gpsimd
unknown_engine = Engine.unknown

NkiInstruction = Instruction
#: Base of everything nki_lab refuses: rules of instructions, memory that does not fit, language that is not NKI.
NkiValidationError = NkiError


def get_nc_version() -> Generation:
    """Return the generation of the NeuronCore that the kernel is compiled for.

    Outside a kernel it is that of the chip the environment names.
    """
    return nc_version(active_target().generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision: 0, the first, is the one described in public."""
    if active.builder is not None:
        active.builder.check_named("nki.isa.get_nc_sub_version")
    return 0


# `register_alloc` is a function that only names a register.
_INSTRUCTIONS = instructions_of("nki.isa") | {"register_alloc": register_alloc}
globals().update(_INSTRUCTIONS)

__all__ = [
    "NkiInstruction", "NkiScalar", "NkiValidationError", "VirtualRegister", "dependency", "dge_mode", "dma_engine",
    "engine", "get_nc_sub_version", "get_nc_version", "gpsimd_engine", "matmul_perf_mode", "nc_version", "oob_mode",
    "reduce_cmd", "scalar_engine", "tensor_engine", "unknown_engine", "vector_engine", *_INSTRUCTIONS,
]  # fmt: skip


# Instructions of former versions, and what is written today.
_BEFORE = {"builtin_custom_op": "the operator with the instructions of nki.isa"} | {
    name.rpartition(".")[2]: instead
    for version in VERSIONS
    for name, (_, instead) in version.removes.items()
    if name.startswith("nki.isa.")
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    help = instead(name, _BEFORE) or close_matches(name, __all__)
    gone = removed_in(f"nki.isa.{name}")
    needs = None
    if gone is not None:
        needs = ended_with(f"nisa.{name}", gone.name)
        needs = needs._replace(note=f"{needs.note}; nki_lab has no model of it")
    raise UnknownName(f"nki.isa has no `{name}`", help=help, needs=needs)
