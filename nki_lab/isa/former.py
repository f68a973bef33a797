"""Arguments that former versions of NKI took, and what to write instead of them.

Names are those of the older dialect's stubs and of the migration guide (nki/migration/index.rst).
"""

from __future__ import annotations

import re

from nki_lab.rewrite import Hint, Rewrite

# Of one function (nki.isa without a prefix, nki.language with nl.), by its argument.
_OF_ONE = {
    ("affine_select", "pred"): (
        "say the compared number with pattern=[[step, count], ...], channel_multiplier= and offset=, and how with"
        " cmp_op="
    ),
    ("dma_copy", "dst_rmw_op"): "write nisa.dma_compute(dst, srcs, reduce_op) to add while moving",
    (
        "dma_copy",
        "unique_indices",
    ): "write nisa.dma_compute(dst, srcs, reduce_op) to add while moving",
    ("iota", "expr"): (
        "say the numbers with pattern=[[step, count], ...], offset= and channel_multiplier="
    ),
    ("memset", "shape"): "make the tile with nl.ndarray(shape, dtype), and pass it as dst=",
    ("register_move", "imm"): "write src=: a number or a register",
    ("nl.broadcast_to", "src"): "write x=",
    ("nl.copy", "src"): "write x=",
    ("nl.device_print", "prefix"): "write print_prefix=",
    ("nl.device_print", "x"): "write tensor=",
    ("nl.empty_like", "a"): "write x=",
    ("nl.expand_dims", "data"): "write x=",
    ("nl.shared_constant", "dtype"): "cast the array first: array.astype(...)",
    ("nl.softmax", "compute_dtype"): "it computes in float32; cast x with nl.copy(x, dtype=...)",
    ("nl.zeros_like", "a"): "write x=",
}
_MASK = (
    "leave it out and slice the operands to the part that is meant, e.g. tile[0:rows] with rows ="
    " min(128, total - start)"
)
_DTYPE = "the dtype of `dst` decides: make it with nl.ndarray(shape, dtype=...)"


def instead_of(function: str, argument: str) -> str:
    """Return what to write instead of an argument that NKI no longer takes, or ""."""
    former = _OF_ONE.get((function, argument))
    if former is not None:
        renamed = re.fullmatch(r"write (\w+)=", former)
        return Hint(former, Rewrite(argument, renamed[1])) if renamed else former
    if argument == "mask":
        return _MASK
    if argument == "dtype" and not function.startswith("nl."):
        return _DTYPE
    return ""
