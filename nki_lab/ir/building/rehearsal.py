"""Rehearses a kernel whose device loops may depend on changing state of Python: runs the passes that Python would run.

The body of a device loop is traced once, so the device repeats what Python made of the first pass. A rehearsal traces
the kernel anew, into a builder that is thrown away, and calls each body for several passes. Passes that give the same
instructions need no state from each other, whatever they count; names of tensors and their addresses may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nki_lab.ir.building.loop_state import tell_change
from nki_lab.ir.building.values import MISSING
from nki_lab.ir.definition.instruction import NAME, Instruction
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Stack

_PASSES = 8  # of a loop whose bounds are registers
_MOST = 20_000  # instructions of all further passes
_REPEATED = "the first pass differs from the others: the device repeats what Python does in the first pass only"


class Difference(NamedTuple):
    """What Python would do differently in a later pass.

    Attributes:
        loop: where the loop was opened; () where what follows all loops differs.
        place: of the instruction that differs.
        what: the difference in words, behind ": ".
    """

    loop: Stack
    place: Stack
    what: str


class Rehearsal:
    """Calls the bodies of device loops for several passes, and compares what they give.

    Args:
        passes: at most so many of one loop.
    """

    def __init__(self, passes: int) -> None:
        self._most = passes
        self._left = _MOST
        self._open: list[_Passes] = []
        self.differences: list[Difference] = []

    def passes(self, builder: Any, bounds: tuple[Any, ...]) -> Iterator[None]:
        """Yield once for each pass of the loop that was opened last."""
        self.begin(builder, bounds)
        yield
        while self.again(builder):
            yield

    def begin(self, builder: Any, bounds: tuple[Any, ...]) -> None:
        """Begin the first pass of the loop that was opened last."""
        whole = bool(bounds) and all(type(bound) is int for bound in bounds)
        count = min(len(range(*bounds)) if whole else _PASSES, self._most)
        self._open.append(_Passes(count, builder.loop_stack, len(builder.storages)))

    def again(self, builder: Any) -> bool:
        """Compare the pass that has ended with the first, and tell whether there is another one."""
        passes = self._open[-1]
        if passes.first is None:
            passes.first = list(builder.body)
        else:
            later = builder.take_back(len(passes.first))
            self._left -= len(later)
            compared = _Comparison(passes.storages, f"; in pass {passes.number} Python gives")
            if difference := compared.bodies(passes.first, later):
                self.differences.append(Difference(passes.loop, *difference))
                passes.count = 0
        passes.number += 1
        if passes.number <= passes.count and self._left > 0:
            return True
        self._open.pop()
        return False


class _Passes:
    def __init__(self, count: int, loop: Stack, storages: int) -> None:
        self.count, self.loop, self.storages = count, loop, storages
        self.number = 1
        self.first: list[Any] | None = None


class _Comparison:
    """Compares two lists of instructions that should be the same.

    Args:
        made_since: of two passes, how many tensors there were before the first; None for two whole programs.
        gives: the words before what the later one gives.
    """

    def __init__(self, made_since: int | None, gives: str) -> None:
        self._made_since = made_since
        self._gives = gives
        self._pairs: dict[int, Any] = {}  # by identity: storages and registers, as they are met
        self._added: list[int] = []

    def bodies(self, first: Any, later: Any) -> tuple[Stack, str] | None:
        """Return (place, what) of the first difference, or None."""
        at = 0
        skipped: tuple[Stack, str] | None = (
            None  # as long as only the first has further instructions
        )
        for node in first:
            self._added = []
            different = self._nodes(node, later[at] if at < len(later) else None)
            if different is None:
                at += 1
                continue
            for key in self._added:
                del self._pairs[key]
            if not self._makes(node):
                return skipped or different
            skipped = skipped or different
        if at < len(later):
            return skipped or (later[at].stack, f"{self._gives} a further {_name(later[at])}")
        return None if skipped is None else (skipped[0], "")

    def _makes(self, node: Any) -> bool:
        """Tell whether an instruction only writes tensors of its pass, such as a constant that later passes find."""
        since = self._made_since
        return (
            since is not None
            and isinstance(node, Instruction)
            and all(v.storage.id >= since and v.storage.on_chip for v in node.written())
        )

    def _nodes(self, node: Any, other: Any) -> tuple[Stack, str] | None:
        if isinstance(node, Loop) and isinstance(other, Loop):
            if not self._same(node.bounds, other.bounds) or not self._same(
                node.register, other.register
            ):
                return node.stack, f"{self._gives} a loop with other bounds"
            return self.bodies(node.body, other.body)
        if not isinstance(node, Instruction) or not isinstance(other, Instruction):
            return node.stack, f"{self._gives} no {_name(node)} here"
        definition = node.definition
        if definition is not other.definition:
            return node.stack, f"{self._gives} {other.definition.name} instead of {definition.name}"
        for k, (value, now) in enumerate(zip(node.args, other.args, strict=True)):
            if definition.keyed[k] is not NAME and not self._same(value, now):
                return (
                    node.stack,
                    f"{self._gives} {definition.params[k]}={_shown(now)} instead of {_shown(value)}",
                )
        return None

    def _same(self, value: Any, now: Any) -> bool:
        if type(value) is not type(now):
            return False
        if isinstance(value, NkiTensor):
            before = self._made_since is not None and value.storage.id < self._made_since
            return (
                all(
                    getattr(value, f) == getattr(now, f)
                    for f in ("shape", "strides", "offset", "dtype")
                )
                and self._paired(value.storage, now.storage, before)
                and self._same_address(value.dynamic, now.dynamic)
            )
        if isinstance(value, Register):
            return self._paired(value, now, False)
        if isinstance(value, (tuple, list)):
            return len(value) == len(now) and all(map(self._same, value, now))
        if isinstance(value, np.ndarray):
            return np.array_equal(value, now, equal_nan=value.dtype.kind == "f")
        if isinstance(value, Instruction):
            return value.definition is now.definition
        return value is now or bool(value == now) or (value != value and now != now)

    def _same_address(self, value: Dynamic | None, now: Dynamic | None) -> bool:
        if value is None or now is None:
            return value is now
        parts = (value.kind, value.step, value.limit) == (now.kind, now.step, now.limit)
        return parts and self._same(value.index, now.index)

    def _paired(self, value: Any, now: Any, before: bool) -> bool:
        if value is now:
            return True
        if before:
            return False
        if id(value) not in self._pairs:
            self._pairs[id(value)] = now
            self._added.append(id(value))
        return self._pairs[id(value)] is now


def rehearse(
    builder: Any, builder_of: Callable[[Rehearsal], Any], run: Callable[[Any], Any]
) -> None:
    """Tell in the builder what Python would do differently in later passes of its device loops.

    Args:
        builder: the builder of the trace, where `unsure` has the loops around which something changed.
        builder_of: returns a builder for a rehearsal.
        run: runs the kernel with a builder.
    """
    unsure = {loop: changes for loop, changes in builder.unsure.items() if changes is not None}
    if not unsure:
        return
    failure: Exception | SystemExit | None = None
    for passes in (_MOST, 2):  # an allocator may have no room for what many passes ask for
        rehearsal = Rehearsal(passes)
        again = builder_of(rehearsal)
        try:
            run(again)
        except (Exception, SystemExit) as error:
            failure = error
            if rehearsal.differences:
                break
            continue
        failure = None
        if not rehearsal.differences:
            compared = _Comparison(None, "; after all passes Python gives")
            if (difference := compared.bodies(builder.body, again.body)) is not None:
                rehearsal.differences.append(Difference((), *difference))
        break
    for loop, place, what in rehearsal.differences:
        if loop in builder.unsure and builder.unsure[loop] is None:
            continue  # it was told while the body was traced
        changes = unsure.get(loop) or {k: v for c in unsure.values() for k, v in c.items()}
        name, *others = changes or ["Python's state"]
        also = f" (and {', '.join(f'`{n}`' for n in others[:2])})" if others else ""
        value = changes.get(name, MISSING)
        tell_change(builder, name, value, place, what or f"; {_REPEATED}", also)
    if failure is not None and not rehearsal.differences:
        loop, changes = next(iter(unsure.items()))
        builder.find(
            "unchecked",
            f"`{next(iter(changes), 'Python state')}` changes in the body of a device loop, which is traced once;"
            f" whether it matters could not be found out: a second pass ends with {type(failure).__name__}: {failure}",
            "keep what changes from pass to pass in a tensor in SBUF or HBM",
            stack=loop,
        )


def _name(node: Any) -> str:
    return "loop" if isinstance(node, Loop) else node.definition.name


def _shown(value: Any) -> str:
    if isinstance(value, NkiTensor):
        return f"{value.describe()}" + (f" from element {value.offset} on" if value.offset else "")
    return repr(value)
