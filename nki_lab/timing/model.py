"""Lets a profile ask the model that made it to time its program again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from nki_lab.ir.program.execution import Iterations
from nki_lab.profiler.analyses.advice import Advices
from nki_lab.profiler.analyses.what_if import WhatIf, WhatIfs
from nki_lab.profiler.profile import Profile
from nki_lab.timing.advice import advise
from nki_lab.timing.advice.evidence import Replay
from nki_lab.timing.tables import make_profile
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.what_if import what_if, what_ifs


class ModelledTimeline:
    """A run of the timing model, which its profile can ask more about (`profiler.what_if.Model`)."""

    def __init__(
        self,
        timeline: Timeline,
        iterations: Callable[[], Iterations | None] | None = None,
        replay: Replay | None = None,
        partner: Timeline | None = None,
    ) -> None:
        self._timeline = timeline
        self._iterations = iterations
        self._replay = replay
        self._partner = partner

    @property
    def timeline(self) -> Timeline:
        """The run, with what its program asked for."""
        return self._timeline

    @property
    def profile(self) -> Profile:
        """A profile of the run, which holds this model."""
        return make_profile(self._timeline, model=self, iterations=self._iterations)

    def what_if(self, changes: tuple[str, ...]) -> WhatIf:
        """Time the run again without some costs."""
        return what_if(self._timeline, changes)

    def what_ifs(self) -> WhatIfs:
        """Ask every question that applies, each alone."""
        return what_ifs(self._timeline)

    def advice(self, exact: bool | None) -> Advices:
        """Say which changes of the kernel would help, the largest gain first."""
        return self._advice if exact is None else self._advise(exact)

    @cached_property
    def _advice(self) -> Advices:
        return self._advise(None)

    def _advise(self, exact: bool | None) -> Advices:
        return advise(self._timeline, exact, self._replay, self._partner)
