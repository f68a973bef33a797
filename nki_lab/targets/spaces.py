"""The memories that a tensor can live in."""

from __future__ import annotations

from nki_lab.targets.choice import NamedChoice


class MemoryRegion(NamedChoice):
    """Memory a tensor lives in, under the names of `nki.language.MemoryRegion`.

    Attributes:
        on_chip: it is SBUF or PSUM, whose first axis is the partition axis.
    """

    on_chip: bool
    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __init__(self, value: str) -> None:
        self.on_chip = value in ("sbuf", "psum")  # no property: every tensor and view asks

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    @classmethod
    def official_name(cls) -> str:
        """Return the name kernels write the class by."""
        return "nl.MemoryRegion"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if self is ARGUMENT_HBM:
            return other is PRIVATE_HBM or other is SHARED_HBM
        return other is ARGUMENT_HBM and (self is PRIVATE_HBM or self is SHARED_HBM)

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call


SBUF = MemoryRegion.sbuf
PSUM = MemoryRegion.psum
PRIVATE_HBM = MemoryRegion.private_hbm
SHARED_HBM = MemoryRegion.shared_hbm
HBM = (PRIVATE_HBM, SHARED_HBM)


def _argument_memory() -> MemoryRegion:
    """Return the memory that arguments of a kernel say they are in: equal to either HBM, and no member.

    The official simulator puts them in hbm, with LNC2 in shared_hbm (nki/guides/nki_simulator.rst, How It Works), and
    published kernels ask for the one or the other before they load.
    """
    memory = object.__new__(MemoryRegion)
    memory._name_, memory._value_ = SHARED_HBM.name, SHARED_HBM.value
    memory.on_chip = False
    return memory


ARGUMENT_HBM = _argument_memory()
