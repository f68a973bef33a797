"""Numbers of nki.language that are facts: limits of dtypes and tiles, cores of a launch grid, casts of constants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.beta1.index import Index, mgrid
from nki_lab.beta1.promotion import dtype_named
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import DType, bfloat16, float32
from nki_lab.errors import WrongOperand
from nki_lab.language.sizes import tile_size


class Limits:
    """The numbers that a dtype of floats holds, as Python's floats.

    Attributes:
        dtype: the dtype.
        bits: of one number.
    """

    def __init__(self, dtype: DType) -> None:
        self._facts = ml_dtypes.finfo(dtype.np)
        self.dtype, self.bits = dtype, int(self._facts.bits)

    @property
    def min(self) -> float:
        """The smallest finite number."""
        return float(self._facts.min)

    @property
    def max(self) -> float:
        """The largest finite number."""
        return float(self._facts.max)

    @property
    def tiny(self) -> float:
        """The smallest normal number above 0."""
        return float(self._facts.tiny)

    @property
    def eps(self) -> float:
        """The difference between 1 and the next larger number."""
        return float(self._facts.eps)

    def __repr__(self) -> str:
        return f"nl.finfo(nl.{self.dtype})"


def finfo(dtype: Any) -> Limits:
    """Return the limits of a dtype of floats."""
    named = dtype_named(dtype)
    if not named.is_float:
        raise WrongOperand(
            f"nl.finfo: {named} is a dtype of integers",
            help="write a dtype of floats, such as nl.bfloat16",
        )
    return Limits(named)


#: `nl.fp32.min` and `nl.bfp16.min`.
fp32, bfp16 = Limits(float32), Limits(bfloat16)


class Constants(SimpleNamespace):
    """`nl.constants`: names that public kernels use, and no page lists (nki_direct_allocation_guide.rst has one)."""

    @property
    def sbuf_min_align(self) -> int:
        """Alignment in bytes of an address within an SBUF partition."""
        return tile_size.sbuf_min_align

    @property
    def psum_min_align(self) -> int:
        """Alignment in bytes of an address within a PSUM partition."""
        return tile_size.psum_min_align

    @staticmethod
    def sizeinbytes(dtype: Any) -> int:
        """Return the bytes of one element of a dtype."""
        return dtype_named(dtype).itemsize


constants = Constants()


def gemm_grid() -> tuple[Index, ...]:
    """Return the index of a moving operand or result of the Tensor engine: all partitions, a bank of float32."""
    return tuple(mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_moving_fmax])


def gemm_stationary_grid() -> tuple[Index, ...]:
    """Return the index of a stationary operand of the Tensor engine."""
    return tuple(mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_stationary_fmax])


class nc(int):
    """A number of cores in a launch grid: `kernel[nl.nc(2), 4]`; all programs run one after the other here."""

    def __new__(cls, cores: int) -> nc:
        """Return a number of cores."""
        return super().__new__(cls, cores)


def spmd_dim(programs: int, *inner: int) -> int:
    """Return the size of an axis of a launch grid, of cores and programs on each: `spmd_dim(nl.nc(2), 2)`."""
    return int(np.prod([int(programs), *map(int, inner)]))


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Return a number or an array of the host rounded to a dtype, or a copy of a tile in it."""
    named = dtype_named(dtype)
    if isinstance(input_data, Tile):
        return input_data.astype(named)
    cast = np.asarray(input_data).astype(named.np)
    return cast if cast.ndim else cast[()]
