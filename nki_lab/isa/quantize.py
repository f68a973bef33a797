"""quantize_mx: the Vector engine quantizes a tile to block-scaled (MX) floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import bfloat16, float8_e4m3fn_x4, float8_e5m2_x4, float16
from nki_lab.ir.definition.instruction import (
    UPDATE,
    WRITE,
    Instruction,
    Order,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.isa.arrays import scratch
from nki_lab.isa.microscaling import (
    BIAS,
    EIGHT_BITS,
    GROUP_PARTITIONS,
    LANES,
    SCALES,
    in_whole_quadrants,
    powers_of_two,
    scale_partitions,
    scales_fit,
    used_scales,
)
from nki_lab.isa.numerics import FLOAT32, store_cast
from nki_lab.isa.rules import same_partitions
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import SBUF

# Largest exponent (isa/__init__.py:2798) and largest value of an element of each type.
_LARGEST_EXPONENT = {float8_e4m3fn_x4: 8, float8_e5m2_x4: 15}
_LARGEST_VALUE = {float8_e4m3fn_x4: 448.0, float8_e5m2_x4: 57344.0}
_UINT8, _UINT32 = np.dtype(np.uint8), np.dtype(np.uint32)


@rule(
    "`src` must have a multiple of 4 elements per partition, and `dst` a quarter of them",
    "src",
    "dst",
    help="each element of `dst` packs 4 that follow each other in `src`",
    source=f"{ISA}:2785",
)
def _packed_by_four(i, hw):
    return i.src.free_size == LANES * i.dst.free_size


def _scale_role(i: Instruction) -> str:
    """Most scale tiles have partitions that other tensors own."""
    return WRITE if i.dst_scale.shape[0] == len(scale_partitions(i.src.shape[0])) else UPDATE


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, shape=Shape.FLAT, dtypes=EIGHT_BITS),
    src=reads(SBUF, shape=Shape.FLAT, dtypes=frozenset((bfloat16, float16))),
    dst_scale=writes(
        SBUF,
        role=_scale_role,
        shape=Shape.FLAT,
        dtypes=SCALES,
        part=lambda i, t: used_scales(t, i.src.shape[0]),
    ),
    rules=(
        in_whole_quadrants("src", 2784),
        same_partitions("dst", "src"),
        _packed_by_four,
        *scales_fit("dst_scale", "dst", source="src"),
    ),
    numerics=lambda i: {"dst": None, "dst_scale": None},
    requires=("quantize_mx",),
    any_start=("dst_scale",),
    order=Order.STREAM,
)
def quantize_mx(dst, src, dst_scale, name=None) -> None:
    """Quantize to 8-bit floats with one scale for every 32 values.

    A group is 8 partitions by 4 elements that follow each other. Its scale is 2**(e - (Emax - 1)), where 2**e is the
    largest power of two in the magnitudes of the group and Emax is 8 for float8_e4m3fn and 15 for float8_e5m2: twice
    the scale of the OCP sample algorithm, so the largest value needs no saturation. Values are divided by it, rounded
    and packed by fours into `dst`, the first in the lowest byte. `dst_scale` gets the exponent + 127; 0 for a group of
    zeros, and wherever the scale would be smaller than 2**-127.

    Group row g goes to partition g of the scales, but each 32 partitions of `src` put theirs into the first 4 of the
    same 32 of `dst_scale`; the other partitions keep what they hold. A `dst_scale` that starts at partition 4, 8 or 12
    shares the tile with other tensors. The pages do not speak of infinity and NaN; as in the published utilities they
    count as exponent 128, infinity becomes the largest value and NaN stays one.

    NeuronCore-v4. 4 input elements per partition and cycle.

    Source: nki/api/nki/isa/__init__.py:2741; nki/deep-dives/mxfp-matmul.rst;
    nki/guides/architecture/trainium3_arch.rst:157.
    """


@quantize_mx.semantics
def _(out, out_dst_scale, src, dst_scale, dtypes):
    partitions, size = src.shape
    groups = (partitions // GROUP_PARTITIONS, GROUP_PARTITIONS, size // LANES, LANES)
    exponents = scratch(src.shape, _UINT32, "exponents")
    np.right_shift(src.view(_UINT32), 23, out=exponents)
    np.bitwise_and(exponents, 0xFF, out=exponents)
    largest = exponents.reshape(groups).max(axis=(1, 3)).astype(np.int64)
    scales = np.clip(largest - (_LARGEST_EXPONENT[dtypes["dst"]] - 1), 0, 254)

    if dst_scale is not None:
        np.copyto(out_dst_scale, dst_scale)
    out_dst_scale.view(_UINT8)[scale_partitions(partitions)] = scales

    inverse = powers_of_two(FLOAT32)[2 * BIAS - scales]
    scaled = scratch(src.shape, FLOAT32, "scaled")
    np.multiply(src.reshape(groups), inverse[:, None, :, None], out=scaled.reshape(groups))
    largest_value = _LARGEST_VALUE[dtypes["dst"]]
    np.clip(scaled, -largest_value, largest_value, out=scaled)  # meets infinity only
    np.copyto(out, _packed(scaled, dtypes["dst"].lane))


def _packed(values: np.ndarray, lane: Any) -> np.ndarray:
    elements = scratch(values.shape, lane.np, "lanes")
    cast = store_cast(FLOAT32, lane)
    assert cast is not None
    cast(values, elements)
    return elements.view(_UINT32)


@quantize_mx.cost
def _(i, hw):
    # trainium3_arch.rst:172: 4 input elements per cycle, "4x Vector performance mode".
    yield stream(i, hw, "QUANTIZE_MX", hw.vector_copy_fast_sbuf_cycles, i.src.free_size, fast=True)
