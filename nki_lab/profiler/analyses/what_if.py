"""What-if: the time of a run if a part of it cost nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from nki_lab.percent import percent
from nki_lab.profiler.analyses.advice import Advices
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.text_table import ANSWER_LINES, cut
from nki_lab.source import text_of


@dataclass(frozen=True)
class WhatIf:
    """A run timed again with some of its costs removed.

    Attributes:
        changes: the names of the changes, such as "free-loads".
        meaning: the same as a sentence.
        before_ns, after_ns: time of the run as it is, and without those costs.
        profile: the run without them; its name says what was removed.
    """

    changes: tuple[str, ...]
    meaning: str
    before_ns: int
    after_ns: int
    profile: ProfileData = field(repr=False, compare=False)

    @property
    def gain_ns(self) -> int:
        """Time the removed costs are responsible for; an order that turns out worse makes it negative."""
        return self.before_ns - self.after_ns

    @property
    def gain_share(self) -> float:
        """`gain_ns` as a fraction of the time before."""
        return self.gain_ns / self.before_ns if self.before_ns else 0.0

    def __str__(self) -> str:
        return (
            f"if {self.meaning}: {self.after_ns / 1000:,.3f} us instead of "
            f"{self.before_ns / 1000:,.3f} us ({change(self.gain_share)})"
        )

    __repr__ = __str__


def change(gain_share: float) -> str:
    """Write a gain as the change of the time it makes, such as `-12.5 %`."""
    return percent(-gain_share + 0.0, sign="+") if round(1000 * gain_share) else "0.0 %"


class WhatIfs(tuple[WhatIf, ...]):
    """Every question that applies to a run, each asked alone; the largest gain first."""

    def __str__(self) -> str:
        if not self:
            return "nothing ran"
        before = self[0].before_ns
        width = max(len(",".join(w.changes)) for w in self)
        lines = [f"what if ({before / 1000:,.3f} us now; each line is timed again)"]
        lines += [
            f"  {','.join(w.changes):<{width}}{w.after_ns / 1000:>14,.3f} us "
            f"{change(w.gain_share):>9}  {w.meaning}"
            for w in self
        ]
        return text_of(cut(lines, ANSWER_LINES))

    __repr__ = __str__


class Model(Protocol):
    """Whoever modelled a profile and can model it again; a measured profile has nobody."""

    def what_if(self, changes: tuple[str, ...]) -> WhatIf:
        """Time the run again without some costs."""

    def what_ifs(self) -> WhatIfs:
        """Ask every question that applies."""

    def advice(self, exact: bool | None) -> Advices:
        """Say which changes of the kernel would help."""
