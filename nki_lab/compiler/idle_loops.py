"""What stays unwritten because a device loop of a run did not run at all?

While compiling nothing is known of how often a loop runs, so what only its body writes is taken as written. After a run
it is known: the program without the loops that did not run is looked at again.
"""

from __future__ import annotations

from dataclasses import replace

from nki_lab.compiler.passes.find_uninitialized import unwritten_reads
from nki_lab.ir.execution import Execution, loops_run
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.nodes import Finding, Loop
from nki_lab.source import Span

Body = tuple[Instruction | Loop, ...]


def find_idle_loops(execution: Execution) -> tuple[Finding, ...]:
    """Return findings on what was read or returned although the loop that writes it ran no time."""
    kernel = execution.kernel
    ran = loops_run(execution)
    loops = [r.loop for r in kernel.loops if r.loop.number not in ran]
    if not loops:
        return ()
    outer = [loop for loop in loops if not any(_holds(other, loop) for other in loops)]
    where = ", ".join(str(Span.of(loop.stack[0])) for loop in outer if loop.stack)
    why = f"; the device loop at {where} ran no time" if where else "; a device loop ran no time"
    executed = kernel.with_(body=_executed(kernel.body, ran), findings=())
    known = {(f.stack, f.kind) for f in kernel.findings}
    return tuple(
        replace(f, message=f"{f.message}{why}")
        for f in unwritten_reads(executed)
        if (f.stack, f.kind) not in known
    )


def _holds(loop: Loop, inner: Loop) -> bool:
    return any(
        isinstance(node, Loop) and (node is inner or _holds(node, inner)) for node in loop.body
    )


def _executed(body: Body, ran: set[int]) -> Body:
    """Return a body without the loops that did not run, the others opened up: one pass stands for all."""
    kept: list[Instruction | Loop] = []
    for node in body:
        if not isinstance(node, Loop):
            kept.append(node)
        elif node.number in ran:
            kept += _executed(node.body, ran)
    return tuple(kept)
