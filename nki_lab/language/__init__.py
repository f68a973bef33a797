"""The module `nki.language`: all that a kernel may write besides instructions.

    import nki.language as nl      # the same module: see nki_lab.api.install

Operators such as `nl.add` are values for `op=` and functions at once (isa/operators.py).
"""

# A name that is imported here is one that kernels have.
# ruff: noqa: F401

from __future__ import annotations

from inspect import ismodule as _is_module
from typing import Any

from nki_lab.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nki_lab.errors import UnknownName, close_matches
from nki_lab.ir.tensor.arguments import PartitionSize as _PartitionSize
from nki_lab.ir.tensor.grid import NkiBlockGrid, NkiGrid, NkiTileGrid
from nki_lab.ir.tensor.trace import active as _active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.operators import OPS
from nki_lab.language.creation import (
    full,
    ndarray,
    ones,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from nki_lab.language.elementwise import logical_not, negative
from nki_lab.language.former import dated as _dated
from nki_lab.language.former import dated_names as _dated_names
from nki_lab.language.gathering import gather_flattened
from nki_lab.language.indexing import ds, is_hbm, is_on_chip, is_psum, is_sbuf
from nki_lab.language.loops import (
    affine_range,
    dynamic_range,
    fori_loop,
    sequential_range,
    static_range,
    while_loop,
)
from nki_lab.language.memory import load, load_transpose2d, store
from nki_lab.language.nkiobject import NKIObject
from nki_lab.language.normalization import rms_norm, softmax
from nki_lab.language.printing import device_print
from nki_lab.language.program import no_reorder, num_programs, program_id, program_ndim
from nki_lab.language.random import dropout, rand, random_seed
from nki_lab.language.reductions import all, mean, prod, sum, var
from nki_lab.language.rounding import ceil, floor, trunc
from nki_lab.language.shaping import broadcast_to, expand_dims, matmul, transpose, where
from nki_lab.language.sizes import tile_size
from nki_lab.language.tiling import alloc_blocks, alloc_tiles, blocks, empty_like, tiles
from nki_lab.language.trigonometry import cos, tan
from nki_lab.rewrite import instead
from nki_lab.targets.spaces import MemoryRegion

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm

# Functions that came after the first version, or had another signature in an earlier one.
for _name in _dated_names(globals()):
    globals()[_name] = _dated(globals()[_name])

# Operators, each under its own name.
abs = OPS["abs"]
abs_max = OPS["abs_max"]
abs_min = OPS["abs_min"]
add = OPS["add"]
arctan = OPS["arctan"]
average = OPS["average"]
bitwise_and = OPS["bitwise_and"]
bitwise_or = OPS["bitwise_or"]
bitwise_xor = OPS["bitwise_xor"]
bypass = OPS["bypass"]
copy = OPS["copy"]
divide = OPS["divide"]
equal = OPS["equal"]
erf = OPS["erf"]
erf_dx = OPS["erf_dx"]
exp = OPS["exp"]
fmod = OPS["fmod"]
gelu = OPS["gelu"]
gelu_apprx_sigmoid = OPS["gelu_apprx_sigmoid"]
gelu_apprx_sigmoid_dx = OPS["gelu_apprx_sigmoid_dx"]
gelu_apprx_tanh = OPS["gelu_apprx_tanh"]
gelu_dx = OPS["gelu_dx"]
greater = OPS["greater"]
greater_equal = OPS["greater_equal"]
invert = OPS["invert"]
left_shift = OPS["left_shift"]
less = OPS["less"]
less_equal = OPS["less_equal"]
log = OPS["log"]
logical_and = OPS["logical_and"]
logical_or = OPS["logical_or"]
logical_xor = OPS["logical_xor"]
max = OPS["max"]
maximum = OPS["maximum"]
min = OPS["min"]
minimum = OPS["minimum"]
mish = OPS["mish"]
mod = OPS["mod"]
multiply = OPS["multiply"]
not_equal = OPS["not_equal"]
power = OPS["power"]
prelu = OPS["prelu"]
reciprocal = OPS["reciprocal"]
relu = OPS["relu"]
right_shift = OPS["right_shift"]
rsqrt = OPS["rsqrt"]
sigmoid = OPS["sigmoid"]
sign = OPS["sign"]
silu = OPS["silu"]
silu_dx = OPS["silu_dx"]
sin = OPS["sin"]
softplus = OPS["softplus"]
sqrt = OPS["sqrt"]
square = OPS["square"]
subtract = OPS["subtract"]
tanh = OPS["tanh"]

# All names defined above, except those that only this module needs.
_OTHERS = {"Any", "OPS", "UnknownName", "annotations", "close_matches", "instead"}
__all__ = sorted(
    {n for n, v in globals().items() if not (n.startswith("_") or _is_module(v))} - _OTHERS
)

# Names of the older dialect (neuronxcc.nki.language), and what is written today.
_BEFORE = {
    "all_reduce": "nki.collectives.all_reduce",
    "arange": "slices, t[0:128, nl.ds(start, size)], or an access pattern, t.ap(...)",
    "atomic_rmw": "nisa.dma_compute",
    "cast": "nl.copy(tile, dtype=...)",
    "finfo": "np.finfo or ml_dtypes.finfo",
    "fp32": "np.finfo(np.float32)",
    "loop_reduce": "an nc_matmul that accumulates in PSUM, or nisa.tensor_tensor onto one tile",
    "mgrid": "slices, t[0:128, 0:512]",
    "nc": "kernel[2](...) to run on two cores",
    "par_dim": "the plain number: axis 0 of an on-chip tensor is the partition axis",
    "spmd_dim": "kernel[2](...) to run on two cores",
    "static_cast": "nl.copy(tile, dtype=...) for tiles, array.astype(...) for arrays",
}
# Not documented, but published kernels use them.
_UNDOCUMENTED = {"bool": bool_, "range": range}


def __getattr__(name: str) -> Any:
    if name in _UNDOCUMENTED:
        return _UNDOCUMENTED[name]
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "par_dim" and _active.builder and _active.builder.version.number < (0, 3):
        return _PartitionSize
    help = instead(name, _BEFORE) or close_matches(name, __all__)
    raise UnknownName(f"nki.language has no `{name}`", help=help)
