"""Chooses elements of a tile by a tile of indices."""

from __future__ import annotations

from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.gather import nc_n_gather
from nki_lab.language.operands import new_tile, not_modelled, on_chip


def gather_flattened(
    data: NkiTensor, indices: NkiTensor, axis: int = 0, dtype: DType | None = None
) -> NkiTensor:
    """Return the elements of each partition that a tile of indices names.

    The result is a new SBUF tile with the shape of `indices`, which count the elements of a
    partition over all free axes of `data`: result[p, ...] is element indices[p, ...] of partition p. GpSimd runs it.

    Args:
        data: an SBUF tile.
        indices: a uint32 SBUF tile with as many partitions.
        axis: 0; no page says what another axis gives (nki/api/nki/language/__init__.py:2283).
        dtype: of the result; another one than that of `data` takes one more copy.
    """
    on_chip("gather_flattened", "data", data)
    on_chip("gather_flattened", "indices", indices)
    if axis != 0:
        raise not_modelled("gather_flattened", f"axis={axis!r} is", "leave `axis` out")
    result = new_tile(indices.shape, data.dtype)
    nc_n_gather(dst=result, data=data, indices=indices)
    if dtype is None or dtype == data.dtype:
        return result
    cast = new_tile(indices.shape, dtype)
    tensor_copy(dst=cast, src=result)
    return cast
