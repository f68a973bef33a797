"""Sizes of tiles on the chip that the kernel is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nki_lab.choices import Choices
from nki_lab.ir.tensor.trace import active
from nki_lab.targets import Target

_FP32_BYTES = 4
_NOTHING: Mapping[str, str] = MappingProxyType({})


def active_target(standard: Mapping[str, str] = _NOTHING) -> Target:
    """Return the target of the kernel being traced, else the chosen one, or the `standard` of a dialect."""
    builder = active.builder
    if builder is not None:
        return builder.target
    return Choices.current().with_standard(standard).chip


class TileSize:
    """Limits of tiles, as plain numbers read from the target at each use.

    Names and meaning: nki/api/nki.language.tile_size.rst. A module that stores one outside a kernel gets the number
    of the target that the environment names at that moment.
    """

    def __init__(self, standard: Mapping[str, str] = _NOTHING) -> None:
        self._standard = standard

    @property
    def _target(self) -> Target:
        return active_target(self._standard)

    @property
    def pmax(self) -> int:
        """Most partitions a tile can have."""
        return self._target.partitions

    @property
    def psum_fmax(self) -> int:
        """Deprecated name of `psum_bank_fmax`."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax(self) -> int:
        """Elements of float32 in one partition of a PSUM bank."""
        return self.psum_bank_fmax_bytes // _FP32_BYTES

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes in one partition of a PSUM bank."""
        return self._target.psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks of one partition."""
        return self._target.psum_banks

    @property
    def gemm_stationary_fmax(self) -> int:
        """Most columns of the stationary operand of a matmul."""
        return self._target.matmul_stationary_free_max

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of a moving operand whose float32 result fills a PSUM bank.

        It is 512 on every chip (nki/get-started/about/tiling-overview.rst), also where `nki.isa.nc_matmul` takes more.
        """
        return self.psum_bank_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Most elements per partition that bn_stats reads."""
        return self._target.bn_stats_free_max

    @property
    def psum_min_align(self) -> int:
        """Alignment in bytes of an address within a PSUM partition."""
        return self._target.psum_min_align_bytes

    @property
    def sbuf_min_align(self) -> int:
        """Alignment in bytes of an address within an SBUF partition."""
        return self._target.sbuf_min_align_bytes

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of the whole SBUF, over all partitions."""
        return self._target.sbuf_bytes

    @property
    def sbuf_fmax(self) -> int:
        """Elements of float32 that a tile can have in one SBUF partition."""
        return self.sbuf_fmax_bytes // _FP32_BYTES

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes that a kernel can use in one SBUF partition."""
        return self._target.sbuf_usable_bytes_per_partition

    @property
    def total_available_sbuf_size(self) -> int:
        """Deprecated name of `sbuf_fmax_bytes`: bytes of one partition."""
        return self.sbuf_fmax_bytes

    def __repr__(self) -> str:
        return f"nl.tile_size of {self._target.name}"


tile_size = TileSize()
