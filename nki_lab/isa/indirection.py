"""Rules of operands that are views of `.indirect()`.

Tensor Indirection reads or writes elements at offsets along the free axis that another tile holds (NeuronCore-v4).
Which operands take such a view stands in their declaration; how the tiles must lie to each other stands here. No page
gives its time: it is timed as an access of contiguous elements.
"""

from __future__ import annotations

from typing import Any

from nki_lab.ir.definition.instruction import Instruction, Rule, rule
from nki_lab.ir.tensor.fields import Addressing, first_partition
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.rules import named
from nki_lab.targets.engines import SCALAR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM
from nki_lab.targets.spec import Target

_QUADRANT = 32


def is_indirect(value: Any) -> bool:
    """Tell whether an argument is a view of `.indirect()`."""
    return (
        type(value) is NkiTensor
        and value.dynamic is not None
        and value.dynamic.kind is Addressing.ELEMENTS
    )


def index_start(view: NkiTensor) -> int:
    """Return the partition that the offsets of an indirect view start on."""
    assert view.dynamic is not None and type(view.dynamic.index) is NkiTensor
    return first_partition(view.dynamic.index)


def _indirect(i: Instruction, names: tuple[str, ...]) -> list[NkiTensor]:
    return [v for n in names if is_indirect(v := getattr(i, n))]


def index_in_quadrant(line: int, *names: str) -> Rule:
    """Require offsets that start where a quadrant of partitions does."""

    def holds(i: Instruction, hw: Target) -> bool:
        return all(index_start(v) % _QUADRANT == 0 for v in _indirect(i, names))

    return rule(
        f"the offsets of an indirect {named(names, 'or')} must start at partition 0, 32, 64 or 96",
        *names,
        help="keep the offsets in a separate tile",
        source=f"{ISA}:{line}",
    )(holds)


def gathered_from(line: int, *names: str) -> Rule:
    """Require that a gathered tile and its offsets start on one partition."""

    def holds(i: Instruction, hw: Target) -> bool:
        return all(first_partition(v) == index_start(v) for v in _indirect(i, names))

    return rule(
        f"an indirect {named(names, 'or')} must start on the partition on which its offsets start",
        *names,
        help="slice the tile and its offsets at the same partition",
        source=f"{ISA}:{line}",
    )(holds)


def scattered_to(line: int, source: str) -> Rule:
    """Require that the offsets of `dst` start where the tile that is scattered, `source`, does."""

    def holds(i: Instruction, hw: Target) -> bool:
        if not is_indirect(i.dst):
            return True
        from_ = getattr(i, source)
        if from_.buffer is PSUM:
            return not is_indirect(from_) or index_start(i.dst) == index_start(from_)
        return index_start(i.dst) == first_partition(from_)

    return rule(
        f"the offsets of an indirect `dst` must start on the partition of `{source}` (of its offsets where `{source}`"
        " is indirect and in psum)",
        "dst",
        source,
        help=f"slice `{source}` and the offsets of `dst` at the same partition",
        source=f"{ISA}:{line}",
    )(holds)


def indirection(source: str, line: int) -> tuple[Rule, ...]:
    """Return the rules of an instruction that scatters to `dst` and gathers from `source`.

    Args:
        source: the input that may be indirect, besides `dst`.
        line: line of the instruction's page that begins the section.
    """
    return (
        index_in_quadrant(line, "dst", source),
        gathered_from(line, source),
        scattered_to(line, source),
    )


def no_scatter_to_psum(line: int) -> Rule:
    """Refuse an indirect `dst` in PSUM on Scalar."""

    def holds(i: Instruction, hw: Target) -> bool:
        scattered = is_indirect(i.dst) and i.dst.buffer is PSUM
        return not scattered or i.definition.place_of(i, hw) is not SCALAR

    return rule(
        "an indirect `dst` must not be in psum on Scalar",
        "dst",
        help="scatter into an SBUF tile, or let Vector run the instruction",
        source=f"{ISA}:{line}",
    )(holds)
