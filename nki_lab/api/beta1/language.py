"""The module `neuronxcc.nki.language`."""

from __future__ import annotations

from typing import Any

from nki_lab.beta1.creation import (
    empty_like,
    full,
    ndarray,
    ones,
    par_dim,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from nki_lab.beta1.elementwise import FUNCTIONS, where
from nki_lab.beta1.index import arange, mgrid
from nki_lab.beta1.keywords import bound
from nki_lab.beta1.limits import (
    bfp16,
    constants,
    finfo,
    fp32,
    gemm_grid,
    gemm_stationary_grid,
    nc,
    spmd_dim,
    static_cast,
)
from nki_lab.beta1.loops import affine_range, sequential_range, static_range
from nki_lab.beta1.matmul import matmul, transpose
from nki_lab.beta1.memory import atomic_rmw, copy, load, store
from nki_lab.beta1.program import num_programs, program_id, program_ndim
from nki_lab.beta1.reductions import LANGUAGE
from nki_lab.beta1.shaping import broadcast_to, device_print, expand_dims
from nki_lab.dialects.beta1 import BETA1
from nki_lab.dtypes import (
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nki_lab.errors import UnknownName, close_matches
from nki_lab.language.indexing import ds
from nki_lab.language.sizes import TileSize
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM

tile_size = TileSize(BETA1.standard)
sbuf, psum, hbm, private_hbm, shared_hbm = SBUF, PSUM, PRIVATE_HBM, PRIVATE_HBM, SHARED_HBM

_OTHERS = (
    atomic_rmw, broadcast_to, copy, device_print, empty_like, expand_dims, full, load, matmul, ndarray, ones,
    shared_constant, shared_identity_matrix, store, transpose, where, zeros, zeros_like,
)  # fmt: skip
_BOUND = bound(
    {
        **FUNCTIONS,
        **dict[str, Any](LANGUAGE),
        **{function.__name__: function for function in _OTHERS},
    }
)
globals().update(_BOUND)

__all__ = [
    "affine_range", "arange", "bfloat16", "bfp16", "bool_", "constants", "ds", "finfo", "float16", "float32",
    "float8_e4m3", "float8_e5m2", "fp32", "gemm_grid", "gemm_stationary_grid", "hbm", "int16", "int32", "int8",
    "mgrid", "nc", "num_programs", "par_dim", "private_hbm", "program_id", "program_ndim", "psum", "sbuf",
    "sequential_range", "shared_hbm", "spmd_dim", "static_cast", "static_range", "tfloat32", "tile_size", "uint16",
    "uint32", "uint8", *_BOUND,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"neuronxcc.nki.language has no `{name}`", help=close_matches(name, __all__))
