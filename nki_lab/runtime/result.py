"""Results: a compiled kernel, one run of it, and everything the views show of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from nki_lab.backends import Run
from nki_lab.choices import Choices
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.trace import OutputRef
from nki_lab.errors import ToolchainError, UnknownOption, UsageError, close_matches
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Finding, Kernel, told_once
from nki_lab.ir.text.printer import print_kernel
from nki_lab.profiler.analyses.advice import Advices
from nki_lab.profiler.analyses.compare import ProfileComparison
from nki_lab.profiler.analyses.critical_path import CriticalPath
from nki_lab.profiler.analyses.loops import LoopIterations
from nki_lab.profiler.analyses.roofline import Roofline
from nki_lab.profiler.analyses.source_lines import LineTimes
from nki_lab.profiler.analyses.stalls import Stalls
from nki_lab.profiler.analyses.what_if import WhatIf, WhatIfs
from nki_lab.profiler.profile import Profile
from nki_lab.progress import phase
from nki_lab.runtime.kernel_variants import variants_of_run
from nki_lab.runtime.repeated_calls import benchmark_of
from nki_lab.runtime.steps import steps_of_run
from nki_lab.runtime.view_data import make_view_data, remarks_on
from nki_lab.timing.origins import kernel_lines, label_of
from nki_lab.views.run import NoSteps, Remark, Steps, ViewData
from nki_lab.views.texts import view_text
from nki_lab.views.vary.variants import Variants


class PassTexts(Mapping[str, str]):
    """Text of the program after each pass, by pass name; printed when asked for."""

    def __init__(self, stages: tuple[tuple[str, Kernel], ...]) -> None:
        self._stages = dict(stages)

    def __getitem__(self, name: str) -> str:
        return print_kernel(self._stages[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


@dataclass(frozen=True, eq=False)
class Result:
    """One run: what came out, and everything the views show of it.

    Attributes:
        compiled: the program that ran, with its state after each pass.
        run: what the backend gave back.
        inputs: NumPy arrays given, in order.
        value: what calling the kernel returns: the outputs in the caller's library and structure.
        retrace: traces the kernel again, to read its loop variables; None for a kernel from a file.
        before: copies of the inputs that the kernel wrote, from before the run, by number; None where they were too
            large to be kept.
        options: what was chosen for the run.
        ranks: how many ranks ran together.
    """

    compiled: CompiledKernel
    run: Run = field(repr=False)
    inputs: tuple[np.ndarray, ...] = field(repr=False)
    value: Any = field(repr=False)
    retrace: Retrace | None = field(default=None, repr=False)
    before: Mapping[int, np.ndarray] | None = field(default=None, repr=False)
    options: Choices = field(default_factory=Choices, repr=False)
    ranks: int = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process by value: arrays, findings, and the program as in a file, without its source."""
        facts = self.inputs, self.value, None, self.before, self.options, self.ranks
        return Result, (self.compiled, self.run, *facts)

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.compiled.kernel.name

    @property
    def kernel(self) -> Kernel:
        """The program after the last pass."""
        return self.compiled.kernel

    @property
    def origin(self) -> str:
        """Where values and times come from: "modelled", or for example "measured on trn2, core 0"."""
        return self.run.origin

    @cached_property
    def modelled(self) -> Result | None:
        """The same call on the simulator, where `backend="both"` ran it there, too; else None."""
        other = self.run.other
        if other is None:
            return None
        return replace(self, run=other, value=structured(self.kernel.result, [*other.outputs]))

    def compare(self, other: Result | Profile | None = None) -> ProfileComparison:
        """Compare the times with those of another run, by engine, line and opcode (`nki_lab.compare`).

        Args:
            other: a run or profile, which is the first of both; by default that of the same call on the simulator.
        """
        from nki_lab.runtime.compare import compare  # late: it compares results

        first = self.modelled if other is None else other
        if first is None:
            raise UsageError(
                f"{self.name} ran on one backend, and no other run is named",
                help="name one: result.compare(other), or run the kernel with backend='both'",
            )
        return compare(first, self)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the author should know."""
        return told_once((*self.compiled.findings, *self.run.findings))

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """NumPy arrays returned, in order."""
        return self.run.outputs

    @property
    def execution(self) -> Execution:
        """Which instructions ran, in which order."""
        return self.run.executed("the execution")[0]

    @property
    def others(self) -> tuple[Execution, ...]:
        """The same of the other cores of a logical core."""
        return self.run.executed("the execution")[1:]

    @property
    def ir(self) -> Mapping[str, str]:
        """Text of the program after each pass, by pass name."""
        return PassTexts(self.compiled.stages)

    @cached_property
    def profile(self) -> Profile:
        """The timeline, in Neuron Explorer's tables: modelled by the simulator, measured by other backends."""
        with phase(self.name):
            return self.run.profile()

    @cached_property
    def missing_times(self) -> str:
        """Why the backend has no times of the run; "" where it has them."""
        try:
            self.profile  # noqa: B018
        except ToolchainError as error:
            return error.message
        return ""

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """The findings as they are shown, each with its line."""
        return remarks_on(self.kernel, self.findings)

    def critical_path(self) -> CriticalPath:
        """Return the chain of instructions and transfers that took the whole time."""
        return self.profile.critical_path()

    def benchmark(self) -> Any:
        """Return the modelled time of one call, and of one of many right behind each other (`nki_lab.benchmark`).

        Of a run on a device it is the latency that the device's counters tell.
        """
        measured = self.run.benchmark()
        return measured or benchmark_of(self.run.executed("the time of many calls"))

    def stalls(self) -> Stalls:
        """Return what every engine stood still for, and how long."""
        return self.profile.stalls()

    def lines(self) -> LineTimes:
        """Return what every source line asked for, the most expensive first."""
        return self.profile.lines()

    def iterations(self) -> LoopIterations:
        """Return what every iteration of the author's loops asked for."""
        return self.profile.iterations()

    def roofline(self) -> Roofline:
        """Return the least time of the same work by each limit of the chip."""
        return self.profile.roofline()

    def what_if(self, *changes: str) -> WhatIf | WhatIfs:
        """Time the run again without some costs, such as "free-loads"; see `Profile.what_if`."""
        return self.profile.what_if(*changes)

    def vary(self, **values: Any) -> Variants:
        """Time the kernel with other values of its parameters: `result.vary(tile_n=[128, 256], target=["trn1"])`.

        Nothing is computed, and nothing of the run changes. A notebook shows what is returned as sliders with the
        timeline of what they say. Names and values are those of `nki_lab.vary`; without any they are proposed.
        """
        return _variants(self.retrace, len(self.compiled.others), self.view_data, values)

    def advice(self) -> Advices:
        """Return which changes of the kernel would make it faster, the largest gain first."""
        return self.profile.advice()

    @cached_property
    def line_texts(self) -> Mapping[str, str]:
        """What the kernel's lines say, by their name in the profile."""
        spans = kernel_lines(self.kernel)[1]
        return {label_of(span) or "": span.text.strip() for span in spans if span}

    @cached_property
    def view_data(self) -> ViewData:
        """The run as the views show it: plain data."""
        data = make_view_data(
            self.compiled,
            self.profile,
            self.findings,
            self._make_steps,
            self.inputs,
            self.outputs,
            self.options.grid or (),
        )
        # Nothing of it leads back to the result or to itself: what nobody holds any more goes at once.
        return replace(
            data,
            make_variants=partial(_variants, self.retrace, len(self.compiled.others), data, {}),
        )

    @property
    def steps(self) -> Steps:
        """The executed instructions, each with the values around it: `result.steps.at(7)`.

        The first look runs the kernel once more, on copies of its inputs as they are now. Where that is not possible
        (two cores, several ranks) or gives other results (arrays that were changed since), `problem` says why.
        """
        return self._make_steps()

    @cached_property
    def _make_steps(self) -> Callable[[], Steps]:
        """Gives the steps, always the same; views keep it, and with it no Result."""
        if not self.run.executions:
            problem = f"the backend `{self.run.backend}` gives no values between instructions"
            return partial(
                NoSteps, f"{problem}; run it with backend='simulator' to step through it"
            )
        return cache(
            partial(
                steps_of_run,
                self.compiled,
                self.inputs,
                self.before,
                self.outputs,
                self.options,
                self.ranks,
            )
        )

    def show(self, *views: str, compare: Result | Profile | None = None) -> Any:
        """Return the run as an object that a notebook shows: `result.show()`, `result.show("memory", "ir")`.

        Args:
            views: names of views, the first in front; by default all of them.
            compare: another run, such as that of an earlier version: the timeline shows both on one axis of time, and
                the text says where they differ.

        What is returned also has `save_html(path)`, one page that needs no kernel, and `to_image("svg")`.
        """
        from nki_lab.views.display import display

        return display(self, views or None, compare)

    def chart(self, name: str = "roofline") -> Any:
        """Return a chart that a notebook draws with plotly; the view "charts" shows all of them as pictures.

        Args:
            name: "roofline", "utilisation", "transfer_sizes" or "transfer_rates".
        """
        from nki_lab.views.charts.model import CHARTS

        if name not in CHARTS:
            raise UnknownOption(
                f"unknown chart `{name}`",
                help=close_matches(str(name), CHARTS) or f"charts: {', '.join(CHARTS)}",
            )
        return CHARTS[name](self)

    def __repr__(self) -> str:
        missing = self.missing_times
        if missing:
            return f"{self.name}: {'; '.join(filter(None, (self.origin, missing)))}"
        return view_text(self.view_data, "report")


def _variants(
    retrace: Retrace | None, others: int, start: ViewData, values: Mapping[str, Any]
) -> Variants:
    """Return the variants of a run on one core and some others."""
    return variants_of_run(retrace, 1 + others, start, values)


def structured(structure: Any, outputs: list[Any]) -> Any:
    """Return what a kernel returns: its structure, with the outputs in their places."""
    if type(structure) is OutputRef:
        return outputs[structure.index]
    if type(structure) in (tuple, list):
        return type(structure)(structured(s, outputs) for s in structure)
    if isinstance(structure, tuple):
        return type(structure)(*(structured(s, outputs) for s in structure))
    if type(structure) is dict:
        return {k: structured(s, outputs) for k, s in structure.items()}
    return structure
