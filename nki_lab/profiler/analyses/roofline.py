"""Roofline: computes how fast the chip could do the same work at best, and which limit binds.

Each roof is a resource that cannot be faster than its published rate: the Tensor engine (by the operations it was
asked for, counted in bfloat16's), the device memory's share of a core and the DMA engines (by the bytes moved). The
least time of the work is that of the slowest of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.percent import percent
from nki_lab.profiler.data import ProfileData
from nki_lab.source import text_of
from nki_lab.targets import Target


@dataclass(frozen=True)
class Roof:
    """One limit of the chip.

    Attributes:
        name: what it is the limit of.
        rate: of the chip, in `unit`.
        unit: "TFLOP/s" or "GB/s".
        least_ns: time the work of the run takes at that rate.
    """

    name: str
    rate: float
    unit: str
    least_ns: float


@dataclass(frozen=True)
class Roofline:
    """A run below the roofs of its target.

    Attributes:
        target: name of the chip.
        total_ns: time of the run.
        flops: operations of the Tensor engine; `adjusted_flops` counts each as the bfloat16 ones it takes the time of.
        hbm_bytes: bytes read from and written to device memory.
        intensity: `flops` per byte, None where no byte moved.
        balance: FLOP per byte above which the Tensor engine (bfloat16) and not memory is the roof; see `balance`.
        roofs: every limit, the one that binds first.
    """

    target: str
    total_ns: int
    flops: int
    adjusted_flops: int
    hbm_bytes: int
    intensity: float | None
    balance: float
    roofs: tuple[Roof, ...]

    @property
    def binds(self) -> Roof:
        """The roof that allows the least."""
        return self.roofs[0]

    @property
    def attainable_ns(self) -> float:
        """Least time of this work on this chip."""
        return self.binds.least_ns

    @property
    def attained(self) -> float:
        """Fraction of what the roof allows that the run reaches."""
        return self.share(self.binds)

    def share(self, roof: Roof) -> float:
        """Fraction of the run's time that its work takes at least under a roof.

        At most 1: a span of a transfer's time holds that share of its bytes, which may have moved before or after.
        """
        return min(1.0, roof.least_ns / self.total_ns) if self.total_ns else 0.0

    def __str__(self) -> str:
        intensity = "no bytes" if self.intensity is None else f"{self.intensity:.1f} FLOP per byte"
        lines = [
            f"roofline of {self.target}: {intensity} of device memory; the Tensor engine and a "
            f"core's share of it balance at {self.balance:.1f}",
            f"{'roof':<26}{'rate':>18}{'least us':>14}{'of the run':>12}",
        ]
        for n, roof in enumerate(self.roofs):
            share = self.share(roof)
            binds = "  binds" if n == 0 and roof.least_ns else ""
            lines.append(
                f"{roof.name:<26}{f'{roof.rate:,.1f} {roof.unit}':>18}"
                f"{roof.least_ns / 1000:>14,.3f}{percent(share):>12}{binds}"
            )
        if self.adjusted_flops != self.flops:
            lines.append(
                f"{self.flops / 1e9:,.3f} GFLOP take the Tensor engine as long as "
                f"{self.adjusted_flops / 1e9:,.3f} in bfloat16"
            )
        if self.flops and self.total_ns:
            reach = self.flops / self.attainable_ns / 1000 if self.attainable_ns else 0.0
            lines.append(
                f"attainable {reach:,.2f} TFLOP/s, reached {self.flops / self.total_ns / 1000:,.2f}"
            )
        return text_of(lines)

    __repr__ = __str__


def balance(target: Target) -> float:
    """Return the FLOP per byte above which the Tensor engine (bfloat16), not memory, is the roof of one core.

    Neuron Explorer's `peak_flops_bandwidth_ratio` divides by the rate of a whole stack of HBM instead, which the cores
    beside it share.
    """
    memory = min(target.dma_bytes_per_ns_all_engines, target.hbm_bytes_per_ns)
    return target.tensor_peak_flops_per_ns / memory


def bf16_equivalent(target: Target, itemsize: int, lanes: int = 1) -> float:
    """Return how many bfloat16 operations take the time of one operation on operands of a type.

    Args:
        target: the chip.
        itemsize: bytes of the widest operand's element.
        lanes: elements packed in it.
    """
    if lanes > 1:
        return 1 / lanes
    if itemsize >= 4:
        return float(target.matmul_fp32_cycle_factor)
    if itemsize == 1 and target.supports("matmul_double_row"):
        return 0.5
    return 1.0


def roofs(target: Target, adjusted_flops: float, hbm: int, moved: int) -> tuple[Roof, ...]:
    """Return the least time of some work by each limit of the chip, the one that binds first.

    Args:
        target: the chip.
        adjusted_flops: operations of the Tensor engine, in bfloat16's.
        hbm: bytes read from and written to device memory.
        moved: bytes that the DMA engines move.
    """
    peak, dma = target.tensor_peak_flops_per_ns, target.dma_bytes_per_ns_all_engines
    limits = [
        Roof("Tensor engine, bfloat16", peak / 1000, "TFLOP/s", adjusted_flops / peak),
        Roof("device memory, one core", target.hbm_bytes_per_ns, "GB/s", hbm / target.hbm_bytes_per_ns),
        Roof(f"{target.dma_engines} DMA engines", dma, "GB/s", moved / dma),
    ]  # fmt: skip
    return tuple(sorted(limits, key=lambda roof: -roof.least_ns))


def roofline(profile: ProfileData) -> Roofline:
    """Return the least time of the same work by each limit of the chip.

    Rates are those of one core: the share of device memory that is its own, all its DMA engines, the bfloat16 peak.
    """
    target, summary = profile.target, profile.summary
    flops = int(summary.get("hardware_flops", 0)) - int(summary.get("transpose_flops", 0))
    adjusted = int(summary.get("adjusted_hardware_flops", flops))
    adjusted -= int(summary.get("adjusted_transpose_flops", 0))
    hbm = int(summary.get("hbm_read_bytes", 0)) + int(summary.get("hbm_write_bytes", 0))
    moved = int(summary.get("dma_transfer_total_bytes", 0))
    return Roofline(
        target=target.name,
        total_ns=profile.total_ns,
        flops=flops,
        adjusted_flops=adjusted,
        hbm_bytes=hbm,
        intensity=flops / hbm if hbm else None,
        balance=balance(target),
        roofs=roofs(target, adjusted, hbm, moved),
    )
