"""The module `neuronxcc.nki.language`."""

from __future__ import annotations

from nki_lab.beta1.broadcasting import broadcast_to
from nki_lab.beta1.creation import (
    empty_like,
    full,
    ndarray,
    ones,
    par_dim,
    shared_constant,
    zeros,
    zeros_like,
)
from nki_lab.beta1.elementwise import FUNCTIONS, where
from nki_lab.beta1.index import arange, mgrid
from nki_lab.beta1.loops import affine_range, sequential_range, static_range
from nki_lab.beta1.matmul import matmul, transpose
from nki_lab.beta1.memory import atomic_rmw, copy, load, store
from nki_lab.beta1.program import num_programs, program_id, program_ndim
from nki_lab.beta1.reductions import LANGUAGE
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
from nki_lab.language.indexing import ds
from nki_lab.language.sizes import tile_size
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM

sbuf, psum, hbm, private_hbm, shared_hbm = SBUF, PSUM, PRIVATE_HBM, PRIVATE_HBM, SHARED_HBM
globals().update(FUNCTIONS | LANGUAGE)

__all__ = [
    "affine_range", "arange", "atomic_rmw", "bfloat16", "bool_", "broadcast_to", "copy", "ds", "empty_like", "float16",
    "float32", "float8_e4m3", "float8_e5m2", "full", "hbm", "int16", "int32", "int8", "load", "matmul", "mgrid",
    "ndarray", "num_programs", "ones", "par_dim", "private_hbm", "program_id", "program_ndim", "psum", "sbuf",
    "sequential_range", "shared_constant", "shared_hbm", "static_range", "store", "tfloat32", "tile_size",
    "transpose", "uint16", "uint32", "uint8", "where", "zeros", "zeros_like", *FUNCTIONS, *LANGUAGE,
]  # fmt: skip
