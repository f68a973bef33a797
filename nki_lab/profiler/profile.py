"""Asks a run for its answers: `Profile` has the tables of a run and a method for each analysis and for its files."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nki_lab.errors import UsageError
from nki_lab.profiler.analyses.advice import Advices
from nki_lab.profiler.analyses.cores import of_core, slowest
from nki_lab.profiler.analyses.critical_path import critical_path
from nki_lab.profiler.analyses.loops import loop_times
from nki_lab.profiler.analyses.measured_advice import measured_advice
from nki_lab.profiler.analyses.roofline import roofline
from nki_lab.profiler.analyses.source_lines import by_line
from nki_lab.profiler.analyses.stalls import stalls
from nki_lab.profiler.analyses.waits import Waits, waits
from nki_lab.profiler.analyses.what_if import Model, WhatIf, WhatIfs
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.span import part_of, span_of

if TYPE_CHECKING:
    from nki_lab.profiler.formats.imported import Chip

T = TypeVar("T")
#: What can be asked by name: name -> the method that answers, and whether it is about the core that ends last.
QUESTIONS: dict[str, tuple[Callable[[Profile], Any], bool]] = {}


def question(
    name: str, answer: Callable[[ProfileData], T], of_slowest: bool = True
) -> Callable[[Profile], T]:
    """Return a method that gives an analysis of a run, or of its core that ends last, and add it to QUESTIONS."""

    @wraps(answer, ("__doc__",), ())
    def ask(self: Profile) -> T:
        return answer(self.slowest if of_slowest else self)

    QUESTIONS[name] = ask, of_slowest
    return ask


class Profile(ProfileData):
    """The tables of one run, in Neuron Explorer's names and units, and what can be asked about it."""

    @staticmethod
    def of(data: ProfileData) -> Profile:
        """Return a profile of these tables, which are shared."""
        profile = object.__new__(Profile)
        vars(profile).update(vars(data))
        return profile

    def save(self, path: str | Path) -> Path:
        """Write the profile to a file or folder and return its path; `load` gives an equal one back.

        Args:
            path: its ending tells the format: .json, .parquet (a folder of tables; needs the extra `profile`), .csv (a
                folder of tables), or .pftrace (opens in ui.perfetto.dev).

        Raises UnknownOption for another ending, BadFile where it cannot be written.
        """
        from nki_lab.profiler.formats import files  # late: `import nki_lab` stays quick

        return files.save(self, path)

    @staticmethod
    def load(
        path: str | Path,
        target: Chip = None,
        start_ns: float | None = None,
        end_ns: float | None = None,
    ) -> Profile:
        """Read a profile that `save` wrote, or that neuron-profile or neuron-explorer did, whatever its format.

        Args:
            path: the file or folder.
            target: the chip of a measured profile that does not tell it; ours do.
            start_ns, end_ns: read only what lies in this span of time; of a folder the rest is never in memory.

        Raises BadFile with one sentence when it is not such a file, damaged, from a newer version, or has more events
        than can be looked at together.
        """
        from nki_lab.profiler.formats import files  # late, as in `save`

        return Profile.of(files.load(path, target, start_ns, end_ns))

    def between(self, start_ns: float | None = None, end_ns: float | None = None) -> Profile:
        """Return what lies in a span of time; all of it without a span.

        Its total is the span. What reaches out of the span is cut: times end with it, and bytes and operations are
        those that fall into it, so that the numbers of spans that divide a run add up to those of the run. Counts are
        of what has a part in the span.
        """
        span = span_of(start_ns, end_ns)
        return self if span is None else part_of(self, span)

    def core(self, number: int) -> Profile:
        """Return the profile of one core; this profile where there is only one core."""
        return of_core(self, number)

    @property
    def slowest(self) -> Profile:
        """What the core that ended last did; this profile where there is only one core."""
        return slowest(self)

    @property
    def waits(self) -> Waits:
        """What every event waited for: path and stalls are read from it."""
        return waits(self)

    critical_path = question("path", critical_path)
    stalls = question("stalls", stalls)
    lines = question("lines", by_line, of_slowest=False)
    iterations = question("iterations", loop_times)
    roofline = question("roofline", roofline)

    def what_if(self, *changes: str) -> WhatIf | WhatIfs:
        """Time the program again without some costs; without arguments, once for every question that applies.

        Args:
            changes: such as "free-loads", "free-vector" or "line=12" (`nki_lab.timing.what_if.CHANGES`).

        Raises UsageError for a profile that was measured or read from a file, UnknownOption for an unknown change.
        """
        model = self._known_model()
        return model.what_if(changes) if changes else model.what_ifs()

    def advice(self, exact: bool | None = True) -> Advices:
        """Return which changes of the kernel would make it faster, the largest gain first.

        Args:
            exact: time the program again for every proposal; False gives upper bounds, and None decides by the size
                of the program, as for the rows of the table Warning.

        A measured run is not timed again: small transfers and repeated loads are told, with upper bounds. Raises
        UsageError for a modelled run that was read from a file: its Warning table holds what was said.
        """
        return self._known_model().advice(exact) if self.is_simulation else measured_advice(self)

    def _known_model(self) -> Model:
        if self.model is None:
            raise UsageError(
                "this profile does not hold its program, so it cannot be timed again",
                help="ask the Result of a run, or its profile; on the command line, give the kernel's file instead",
            )
        return self.model


QUESTIONS |= {"advice": (Profile.advice, False), "what-if": (Profile.what_if, False)}
