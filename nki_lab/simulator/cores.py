"""How do the two cores of a logical core exchange data (LNC2)?

What nothing orders between them is found as a race, in compiler/cores.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nki_lab.errors import MissingPartner
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.logical_core import may_pass, meets_itself, pipe_of
from nki_lab.ir.tensor.view import whole_view
from nki_lab.simulator.rendezvous import Meeting, Place

if TYPE_CHECKING:
    from nki_lab.simulator.late import Late
    from nki_lab.simulator.machine import Program


class CoreMeeting(Meeting):
    """A step in which a core waits for the other one.

    Attributes:
        sent, received: what goes, and the array of what comes, or None for a barrier; known when the core has come.
        pipe: what groups meetings that belong together, or None.
    """

    advice = "let both cores come to the same meetings in the same order"

    def __init__(self, i: Instruction, program: Program, late: Late) -> None:
        super().__init__(i, program, late)
        self.pipe = pipe_of(i)
        self.may_pass = may_pass(i)  # pipes do not wait for each other
        self.sent: np.ndarray | None = None
        self.received: np.ndarray | None = None

    def parties(self) -> tuple[Place, ...]:
        """Return both cores, or the one that sends to itself."""
        rank, core = self.place
        if meets_itself(self.i, core):
            return (self.place,)
        return Place(rank, 0), Place(rank, 1)

    def key(self) -> Hashable:
        """Return the pipe of the rank, and who shares it: a core that sends to itself meets nobody."""
        return self.i.definition, self.pipe, self.parties()

    def describe(self) -> str:
        """Return how messages call it."""
        pipe = f" (pipe_id={self.pipe})" if self.pipe is not None else ""
        return f"{self.i.definition.name}{pipe}"

    def post(self) -> None:
        """Take what is sent as it is now; the tile may be overwritten afterwards."""
        super().post()
        if self.may_pass:
            sent, received = (self.program.memory.array(self.tensors[n]) for n in ("src", "dst"))
            self.sent, self.received = sent.copy(), received

    def exchange(self, calls: Sequence[CoreMeeting]) -> None:
        """Give each what the other one sent."""
        first, last = calls[0], calls[-1]
        if first is not last:
            _check_ranks(first, last)
            _check_data(first, last)
        for sender, receiver in ((first, last), (last, first)):
            if sender.sent is not None and receiver.received is not None:
                np.copyto(receiver.received, sender.sent)
        first.sent = first.received = last.sent = last.received = None


def _check_ranks(a: CoreMeeting, b: CoreMeeting) -> None:
    if a.sent is None or a.received is None or b.sent is None or b.received is None:
        return
    for meeting in (a, b):
        core = meeting.place.core
        if meeting.i.send_to_rank == core or meeting.i.recv_from_rank == core:
            raise MissingPartner(
                f"{meeting.i.definition.name}: core {core} sends to rank {meeting.i.send_to_rank} and receives"
                f" from rank {meeting.i.recv_from_rank}, so the other core's data goes nowhere",
                stack=meeting.i.stack,
                help="send to and receive from the other core: 1 - nl.program_id()",
            )
    if a.sent.shape != b.received.shape or a.sent.dtype != b.received.dtype:
        raise MissingPartner(
            f"{a.i.definition.name}: core {a.place.core} sends {a.i.src.describe()}, core {b.place.core} expects"
            f" {b.i.dst.describe()}",
            stack=b.i.stack,
            help="send and receive tiles of one shape and dtype",
        )


def _check_data(a: CoreMeeting, b: CoreMeeting) -> None:
    """Notice a barrier at which the cores name other tensors, which orders what each does with its own alone."""
    if "data" not in a.tensors or np.may_share_memory(_whole(a), _whole(b)):
        return
    one, other = (f"`{m.tensors['data'].storage.name}` on core {m.place.core}" for m in (a, b))
    a.program.notice(
        a.i.definition.name, a.i.stack, 1, 1,
        f"barriers wait for two tensors, {one} and {other}",
        "name one tensor in shared HBM on both cores, the one that both write and read; add a barrier for the other",
    )  # fmt: skip


def _whole(meeting: CoreMeeting) -> np.ndarray:
    return meeting.program.memory.array(whole_view(meeting.tensors["data"].storage))
