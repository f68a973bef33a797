"""What does `import nki.isa as nisa` offer? Every instruction of the registry, and the named choices they take."""

from __future__ import annotations

from typing import Any

from nki_lab.api import isa_constants
from nki_lab.api.absent import Absent
from nki_lab.errors import NkiError, UnknownName, close_matches
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.register import Register
from nki_lab.isa import registry
from nki_lab.isa.control import register_alloc
from nki_lab.isa.enums import (
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
VirtualRegister = Register
#: Base of everything nki_lab refuses: rules of instructions, memory that does not fit, language that is not NKI.
NkiValidationError = NkiError


def get_nc_version() -> nc_version:
    """Return the generation of the NeuronCore that the kernel is compiled for.

    Outside a kernel it is that of the chip the environment names.
    """
    return nc_version(active_target().generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision: 0, the first, is the one described in public."""
    return 0


# nki/api/nki/isa/__init__.py of NKI 0.6.0, in the order of its page.
_INSTRUCTIONS = (
    "dma_copy tensor_copy memset tensor_copy_predicated nc_matmul nc_matmul_mx nc_transpose dma_transpose"
    " tensor_tensor tensor_scalar tensor_reduce tensor_partition_reduce tensor_scalar_cumulative activation"
    " activation_reduce activate2 iota affine_select local_gather nc_n_gather bn_stats bn_aggr tensor_tensor_scan"
    " nc_stream_shuffle rng dropout set_rng_seed rand_set_state rand_get_state rand2 exponential reciprocal max8"
    " sequence_bounds scalar_tensor_tensor tensor_scalar_reduce core_barrier dma_compute quantize_mx range_select"
    " select_reduce sendrecv register_alloc register_move register_load register_store nc_find_index8"
    " nc_match_replace8 nonzero_with_count topk"
).split()
# The one function here that is no instruction: it only names a register.
_FUNCTIONS = {"register_alloc": register_alloc}
globals().update(
    {n: _FUNCTIONS.get(n) or registry.get(n) or Absent("nki.isa", n) for n in _INSTRUCTIONS}
)

__all__ = [
    "NkiInstruction", "NkiValidationError", "VirtualRegister", "dge_mode", "dma_engine", "engine",
    "get_nc_sub_version", "get_nc_version", "gpsimd_engine", "matmul_perf_mode", "nc_version", "oob_mode",
    "reduce_cmd", "scalar_engine", "tensor_engine", "unknown_engine", "vector_engine", *_INSTRUCTIONS,
]  # fmt: skip


# Instructions of former versions, and what is written today (nki/migration/index.rst).
_BEFORE = {
    "builtin_custom_op": "the operator with the instructions of nki.isa",
    "tensor_copy_dynamic_dst": "nisa.tensor_copy(dst.ap(pattern, scalar_offset=index), src)",
    "tensor_copy_dynamic_src": "nisa.tensor_copy(dst, src.ap(pattern, scalar_offset=index))",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    help = instead(name, _BEFORE) or close_matches(name, __all__)
    raise UnknownName(f"nki.isa has no `{name}`", help=help)
