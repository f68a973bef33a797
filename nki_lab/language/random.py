"""Random numbers in kernels."""

from __future__ import annotations

from typing import Any

from nki_lab.dtypes import DType, uint32
from nki_lab.errors import WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import random as instructions
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.elementwise import tensor_scalar
from nki_lab.isa.operators import OPS
from nki_lab.isa.random_states import set_rng_seed
from nki_lab.language.creation import allocate_named, pieces
from nki_lab.language.operands import new_tile, on_chip, result_like
from nki_lab.targets.spaces import SBUF, MemoryRegion


def rand(shape: Any, dtype: DType, buffer: MemoryRegion = SBUF, name: str = "") -> NkiTensor:
    """Return a new tensor of uniform random numbers from 0 to 1.

    They are multiples of 2**-24 below 1, rounded to `dtype`; a narrow one may round up to 1. On NeuronCore-v4 it is
    one `nisa.rand2`, before that `nisa.rng` on Vector with a shift and a multiplication. A tensor in HBM is filled
    from tiles.

    Without `nl.random_seed` a kernel gets the same numbers at each call; on the chip they go on from kernel to
    kernel.
    """
    tensor = allocate_named(shape, dtype, buffer, name)
    if tensor.storage.on_chip:
        _draw(tensor)
        return tensor
    for part in pieces(tensor):
        tile = new_tile(part.shape, tensor.dtype, name="drawn")
        _draw(tile)
        dma_copy(dst=part, src=tile)
    return tensor


def random_seed(seed: NkiTensor) -> None:
    """Seed the random numbers of `nl.rand` and `nl.dropout`.

    Args:
        seed: a tile of shape [1, 1] with 32 bits, e.g. `nl.full((1, 1), 42, nl.int32)`.
    """
    if not isinstance(seed, NkiTensor):
        raise WrongOperand(
            f"nl.random_seed: `seed` must be a tile, found {type(seed).__name__} {seed!r}",
            help="put it into one: nl.random_seed(nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf))",
        )
    on_chip("random_seed", "seed", seed)
    if not current().target.supports("rand2"):
        # release-notes/components/nki.rst (0.3 and 0.4, known issues)
        current().find(
            "portability",
            "nl.random_seed: before NeuronCore-v4 nl.rand may run on another engine than the one it seeds",
            help="use nisa.set_rng_seed with nisa.rng(tile, engine=nisa.engine.vector)",
        )
    set_rng_seed(src_seeds=seed)


def dropout(x: NkiTensor, rate: Any, dtype: DType | None = None) -> NkiTensor:
    """Return a tile with elements of `x` replaced by zero at random, in SBUF.

    The elements that stay are not scaled.

    Args:
        x: a tile.
        rate: probability of a zero: a number, or a tile with one value per partition.
        dtype: of the result; by default that of `x`.
    """
    on_chip("dropout", "x", x)
    result = result_like(x, dtype)
    kept = result if result.dtype is x.dtype else new_tile(x.shape, x.dtype, name="kept")
    instructions.dropout(dst=kept, data=x, prob=rate)
    if kept is not result:
        tensor_copy(dst=result, src=kept)
    return result


def _draw(tile: NkiTensor) -> None:
    """Fill an on-chip tile with uniform random numbers."""
    written = instructions.rand2.operands["dst"].dtypes
    if current().target.supports("rand2") and tile.dtype in written:
        instructions.rand2(dst=tile, min=0.0, max=1.0)
        return
    # The upper 24 bits of a word are exact in float32; all 32 would round up to 1 now and then.
    bits = new_tile(tile.shape, uint32, name="random_bits")
    instructions.rng(dst=bits)
    tensor_scalar(dst=bits, data=bits, op0=OPS["right_shift"], operand0=8)
    tensor_scalar(dst=tile, data=bits, op0=OPS["multiply"], operand0=2.0**-24)
