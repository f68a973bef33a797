"""Which instructions of the two cores of a logical core belong together (LNC2)?"""

from __future__ import annotations

from collections.abc import Hashable

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.storage import Storage
from nki_lab.targets.spaces import SHARED_HBM


def pipe_of(i: Instruction) -> Hashable:
    """Return what groups meetings that belong together, or None."""
    return i.pipe_id if "pipe_id" in i.definition.position else None


def may_pass(i: Instruction) -> bool:
    """Tell whether a core goes on to meetings of another pipe while it waits in this one."""
    return "send_to_rank" in i.definition.position


def meets_itself(i: Instruction, core: int) -> bool:
    """Tell whether a core sends to itself, so that it waits for nobody."""
    return may_pass(i) and i.send_to_rank == i.recv_from_rank == core


def joins_cores(i: Instruction) -> bool:
    """Tell whether both cores of a rank take part in a collective as one, since its memory is shared."""
    views = (view for _, _, view in i.definition.tensors(i))
    return i.definition.groups is not None and any(view.buffer is SHARED_HBM for view in views)


def ordered_by(i: Instruction) -> list[Storage]:
    """Return the tensors in HBM whose uses by the two cores an instruction orders.

    A core must have done with them what stands before it, on both cores, before either does what stands behind it. A
    barrier orders its `data` only, a collective of both cores its tensors; sendrecv moves tiles, so it orders none.
    """
    if not (i.definition.meets or joins_cores(i)):
        return []
    storages = {v.storage.id: v.storage for _, _, v in i.definition.tensors(i)}
    return [s for s in storages.values() if not s.on_chip]
