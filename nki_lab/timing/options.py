"""The choices a caller has about the timing model."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.errors import UnknownOption


@dataclass(frozen=True)
class TimingOptions:
    """Choices of one timing run.

    Attributes:
        program_overhead: begin with the time a loaded program spends before its first transfer, as in latencies of
            whole programs (the middle of the range that public traces show). A profiler's view of a kernel has none.
        hbm_share: part of the core's HBM bandwidth it gets. That bandwidth is the chip's over its cores, so both cores
            of a logical core have all of theirs; less where somebody else takes some.
    """

    program_overhead: bool = False
    hbm_share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.hbm_share <= 1:
            raise UnknownOption(
                f"hbm_share is {self.hbm_share}, need a part of the core's HBM bandwidth above 0 and at most 1",
                help="1 is what a core has when all of them stream",
            )
