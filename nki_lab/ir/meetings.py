"""Which instructions of the two cores of a logical core belong together (LNC2)?"""

from __future__ import annotations

from collections.abc import Hashable

from nki_lab.ir.instruction import Instruction


def pipe_of(i: Instruction) -> Hashable:
    """Return what groups meetings that belong together, or None."""
    return i.pipe_id if "pipe_id" in i.definition.position else None


def may_pass(i: Instruction) -> bool:
    """Tell whether a core goes on to meetings of another pipe while it waits in this one."""
    return "send_to_rank" in i.definition.position


def meets_itself(i: Instruction, core: int) -> bool:
    """Tell whether a core sends to itself, so that it waits for nobody."""
    return may_pass(i) and i.send_to_rank == i.recv_from_rank == core
