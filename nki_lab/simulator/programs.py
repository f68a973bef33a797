"""How do the programs of several cores and ranks run on their inputs?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_lab.errors import KernelArgument
from nki_lab.ir.tensor.storage import Storage
from nki_lab.progress import phase
from nki_lab.simulator.machine import Program, one_blas_thread
from nki_lab.simulator.rendezvous import run_together

Pairs = Sequence[tuple[Storage, Storage]]


def run_ranks(
    programs: Sequence[Sequence[Program]],
    arrays: Sequence[Sequence[np.ndarray]],
    pairs: Pairs = (),
) -> list[list[np.ndarray]]:
    """Run ranks, each with one core or two, and return the outputs of each.

    Args:
        programs: per rank, those of its cores.
        arrays: per rank, the inputs, which its cores share.
        pairs: shared HBM tensors, as (of core 0, of core 1).
    """
    for cores in programs:
        written = {k for p in cores for k in p.writes if k < len(p.kernel.inputs)}
        for program in cores:
            program.writes |= written
    _check_own(programs, arrays)
    for rank, (cores, own) in enumerate(zip(programs, arrays, strict=True)):
        first, *others = cores
        try:
            first.begin(own)
        except KernelArgument as error:
            raise of_rank(rank, error) if len(programs) > 1 else error from None
        shared = {b.id: first.arrays[a.id] for a, b in pairs}
        shared.update({s.id: first.arrays[s.id] for s in first.kernel.inputs})
        for other in others:
            first.unwritten.share(other.unwritten, pairs)
            other.begin(own, shared)
    running = [p for cores in programs for p in cores]
    meetings = {p.place: p.meetings() for p in running}
    together = phase(
        "simulating",
        lambda: sum(p.taken.done() for p in running),
        sum(p.taken.total for p in running),
    )
    with together, np.errstate(all="ignore"), one_blas_thread():
        run_together(meetings, running[0].world)
    return [cores[0].end(own) for cores, own in zip(programs, arrays, strict=True)]


def of_rank(rank: int, error: KernelArgument) -> KernelArgument:
    """Return the error of an argument with the rank that got it."""
    return KernelArgument(
        f"rank {rank}: {error.message}",
        notes=error.notes,
        help="give every rank arrays of one shape and dtype, and the same constants: one program runs on all",
    )


def _check_own(
    programs: Sequence[Sequence[Program]], arrays: Sequence[Sequence[np.ndarray]]
) -> None:
    """Refuse an array that a rank writes and another rank has, too: each has a memory of its own."""
    if len(programs) == 1:
        return
    first = programs[0][0]
    written = [k for k, s in enumerate(first.kernel.inputs) if s.id in first.writes]
    for rank, own in enumerate(arrays):
        for k in written:
            for other, theirs in enumerate(arrays):
                if other != rank and any(np.may_share_memory(own[k], a) for a in theirs):
                    raise KernelArgument(
                        f"{first.kernel.name} writes its argument `{first.kernel.inputs[k].name}`, and that of rank"
                        f" {rank} shares memory with an argument of rank {other}",
                        help="give each rank an array of its own: array.copy()",
                    )
