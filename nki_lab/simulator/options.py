"""The choices that change how a program is simulated."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.settings import VARIABLES


@dataclass(frozen=True)
class SimulatorOptions:
    """Choices of one simulation.

    Attributes:
        precise_fp: round to the tile's dtype on every write; False keeps narrow floats in float32, which separates
            errors of the algorithm from rounding (nki/guides/nki_simulator.rst, NKI_PRECISE_FP).
        shared_bytes: put every on-chip tensor into one byte array per memory at its address, as on the chip. Slower;
            values are the same unless the allocation is wrong.
        strict: what only the values of a run show is an error, not a finding.
        max_trips: trips that the device loops of a run may make together.
    """

    precise_fp: bool = True
    shared_bytes: bool = False
    strict: bool = False
    max_trips: int = int(VARIABLES["max_trips"].default)
