"""Finds the products that the Tensor engine's array computes, and their sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nki_lab.profiler.analyses.source_lines import positions
from nki_lab.profiler.text_table import text_table
from nki_lab.views.run import Place, ShownAccess, ViewData, contracted


@dataclass(frozen=True)
class Matmul:
    """One instruction that sums products over an axis two operands share.

    Attributes:
        position: of the instruction in the program.
        text: of the instruction.
        place: its line.
        stationary, moving, dst: its operands: [K, M], [K, N] and [M, N].
    """

    position: int
    text: str
    place: Place | None
    stationary: ShownAccess
    moving: ShownAccess
    dst: ShownAccess

    @property
    def adds(self) -> bool:
        """Whether it may add to what its destination holds."""
        return self.dst.way == "updates"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """K, M and N: partitions that are summed over, columns of the array, rows that stream through it."""
        return self.stationary.shape[0], _free(self.stationary), _free(self.moving)


def matmul_of(data: ViewData, position: int) -> Matmul | None:
    """Return the product that an instruction computes, or None where it computes none."""
    accesses = data.accesses(position)
    summed = contracted(accesses)
    result = next((a for a in accesses if a.way != "reads" and all(a.names)), None)
    if not summed or result is None:
        return None
    one = next(a for a in accesses if a.names == (summed, result.names[0]))
    other = next(a for a in accesses if a.names == (summed, result.names[1]))
    operation = data.operations[position]
    return Matmul(position, operation.text, operation.place, one, other, result)


def matmul_times(
    data: ViewData, position: int, known: np.ndarray | None = None
) -> list[tuple[str, int]]:
    """Return (opcode, ns) of everything the engine did for the first execution of an instruction, in order.

    Args:
        data: the run.
        position: of the instruction.
        known: what `positions` gives of the profile, for who asks for many.
    """
    profile = data.profile
    known = positions(profile) if known is None else known
    if known is None:
        return []
    rows = np.flatnonzero(known == position)
    opcode = profile.strings("Instruction", "opcode")
    start = profile.numbers("Instruction", "start_ts")
    lasts = profile.numbers("Instruction", "duration_ns")
    times: list[tuple[str, int]] = []
    for row in rows[np.argsort(start[rows], kind="stable")].tolist():
        name = opcode[row] or ""
        # A loop runs it again: the same opcodes follow from the start.
        if times and name == times[0][0] and len({n for n, _ in times}) > 1:
            break
        times.append((name, int(lasts[row])))
    return times


def times_text(times: Sequence[tuple[str, int]]) -> str:
    """Say what `matmul_times` gives; what repeats is counted: "LDWEIGHTS 54 ns, 4 x MATMUL 859 ns"."""
    counts = Counter(times)
    return ", ".join(
        f"{f'{n} x ' if n > 1 else ''}{name} {ns:,} ns" for (name, ns), n in counts.items()
    )


def matmul_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the sizes of every product of a run and how much of the array each uses."""
    target = data.profile.target
    cells = target.pe_rows * target.pe_columns
    if not len(data.products):
        return ["no instruction multiplies on the Tensor engine's array"]
    rows = []
    known = positions(data.profile)
    for position in data.products[:limit].tolist():
        product = matmul_of(data, position)
        if product is None:
            continue
        k, m, n = product.sizes
        times = matmul_times(data, position, known)
        rows.append(
            (
                f"{position}",
                f"{k} x {m}",
                f"{k} x {n}",
                f"{m} x {n}",
                f"{min(k * m / cells, 1):.0%}",
                f"{sum(ns for _, ns in times):,}" if times else "",
                product.place.label if product.place else "",
            )
        )
    heads = (
        "instruction", "stationary K x M", "moving K x N", "result M x N", "array used", "busy ns", "line"
    )  # fmt: skip
    return text_table(heads, rows, limit, len(data.products))


def _free(access: ShownAccess) -> int:
    count = 1
    for size in access.shape[1:]:
        count *= size
    return count
