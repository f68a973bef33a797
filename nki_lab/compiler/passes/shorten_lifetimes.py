"""How can lifetimes end earlier without changing what is computed?

Program order keeps many accumulators open when loops are nested the other way round. This orders instructions anew,
within their dependences, so that an accumulator is finished and drained before the next one is begun.
"""

from __future__ import annotations

from nki_lab.compiler.passes.explicit_addresses import explicit_addresses, groups, overlapping
from nki_lab.compiler.passes.insert_waits import dependences
from nki_lab.ir.nodes import Kernel


def shorten_lifetimes(kernel: Kernel) -> Kernel:
    """Return the kernel with everything that leads to one result done before what only leads to the next.

    That is a walk over the dependences, depth first, from each instruction nobody waits for, in program order. Nothing
    moves where the author keeps the order, the device runs loops, or two cores meet, which must come to each meeting
    with the same behind them.
    """
    meets = any(i.definition.meets for i in kernel.instructions)
    if kernel.keeps_order or kernel.has_loops or meets:
        return kernel
    # Places that are still to be given do not bind the order; those the author gave do.
    fixed = explicit_addresses(kernel)
    overlaps = groups(overlapping(kernel, fixed))
    before = dependences(kernel.with_(addresses=fixed, overlaps=overlaps))
    needed = {n for waits in before for n in waits}
    order: list[int] = []
    done = [False] * len(before)
    for root in range(len(before)):
        if root in needed or done[root]:
            continue
        done[root] = True
        stack = [(root, iter(before[root]))]
        while stack:
            n, pending = stack[-1]
            following = next((p for p in pending if not done[p]), None)
            if following is None:
                order.append(n)
                stack.pop()
            else:
                done[following] = True
                stack.append((following, iter(before[following])))
    assert len(order) == len(before), "an instruction waits for a later one"
    return kernel.with_(body=tuple(kernel.instructions[n] for n in order))
