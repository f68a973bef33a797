"""Answers a request: runs what a cell or a command asks for, compares, saves and tells.

`%%nki`, `%nki` and the commands of `nki-lab` are faces of this: each says where its text goes and how a view is shown.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nki_lab.api.install import aliases
from nki_lab.choices import acting, inside
from nki_lab.errors import CheckFailed, NoKernel, NotModelled, SimulationError, UnknownOption
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Comparison, Result
from nki_lab.runtime.recording import record_runs
from nki_lab.runtime.time_limit import time_limit
from nki_lab.session.answers import (
    answers,
    findings_lines,
    lists_findings,
    profile_of,
    run_json,
    summary,
)
from nki_lab.session.evaluate import check_value, evaluate, reference
from nki_lab.session.questions import options_of
from nki_lab.session.reading import Locate, nowhere
from nki_lab.session.saving import keep
from nki_lab.source import Stack, text_of

_STEPS_OF_A_FAILURE = (
    "nki_lab.step(kernel, ...) with the same arguments and target, and .show() of it,"
    " shows the run up to what failed"
)


@contextmanager
def session(options: Namespace, stack: Stack = ()) -> Iterator[list[Result]]:
    """Let `import nki` find nki_lab, and the options act, inside a `with` block; collect its runs.

    Args:
        options: values of the choices that the magic or command has.
        stack: place of the time limit, shown when it ends something outside the author's text.
    """
    given = vars(options)
    # A switch that is not given leaves the choice to the session and the environment.
    chosen = {c.name: None if (v := given.get(c.name)) is False else v for c in acting()}
    with (
        aliases(),
        inside(**chosen),
        record_runs() as runs,
        time_limit(given.get("timeout"), stack),
    ):
        yield runs


@dataclass(frozen=True)
class Request:
    """What a cell or a command asks for.

    Attributes:
        command: the magic or subcommand, as its choices name it.
        options: their values; an option that the command does not have is not asked.
        scope: names that its expressions may use.
        locate: gives the place of a part of the author's line.
        call: runs the kernel where --run is not given; None leaves that to the cell.
        kernel: name of a kernel to call, for help.
    """

    command: str
    options: Namespace
    scope: dict[str, Any]
    locate: Locate = nowhere
    call: Callable[[], Any] | None = None
    kernel: str = "kernel"

    def asks(self, name: str) -> Any:
        """Return the value of an option; None where the command does not have it."""
        return getattr(self.options, name, None)

    def answer(self, runs: list[Result]) -> Answer | None:
        """Run the request and compare the result with the reference; None where nothing ran.

        Args:
            runs: those that the session has collected, to which this one is added.
        """
        check, run = self.asks("check"), self.asks("run")
        expected = None if check is None else reference(check, self.scope, self.locate)
        if run is None and self.call is None and not runs:
            self._refuse_unused()
            return None
        # Before the run, which may give its own result the same name.
        other = self._other()
        value = None
        if run is not None or self.call is not None:
            value = self._run(runs)
        if other is None and runs and runs[-1].modelled is not None and not runs[-1].missing_times:
            other = runs[-1].modelled.profile
        answer = Answer(self, runs, other)
        if check is not None:
            value = value.value if isinstance(value, Result) else value
            stack = self.locate(check.text, 0, 0)
            tolerances = {name: self.asks(name) for name in ("rtol", "atol")}
            try:
                answer.comparisons = check_value(value, expected, stack, **tolerances)
            except CheckFailed as error:
                answer.failed = error
        return answer

    def _run(self, runs: list[Result]) -> Any:
        before, run = len(runs), self.asks("run")
        try:
            if run is not None:
                value = evaluate(run, self.scope, self.locate)
            else:
                assert self.call is not None
                value = self.call()
        except SimulationError as error:
            if error.can_be_stepped and "stepper" in (self.asks("show") or ()):
                error.notes += (_STEPS_OF_A_FAILURE,)
            raise
        if len(runs) == before:
            raise NoKernel(
                "--run called no kernel",
                stack=self.locate(run.text, 0, 0) if run else (),
                help=f"write a call with arrays, such as --run '{self.kernel}(a)'",
            )
        return value

    def _other(self) -> Profile | None:
        """Return the profile of the run to compare with."""
        compare = self.asks("compare")
        if compare is None:
            return None
        value = evaluate(compare, self.scope, self.locate)
        return profile_of(value, self.locate(compare.text, 0, 0))

    def refuse_alone(self) -> None:
        """Raise UnknownOption for options that need another one, which is not given."""
        if self.asks("check") is not None and self.asks("run") is None and self.call is None:
            raise UnknownOption(
                "--check compares what --run returns, but --run is not given",
                stack=self.locate("--check", 0, 0),
                help="add --run 'kernel(a, b)'",
            )
        for flag, given in (("--rtol", self.asks("rtol")), ("--atol", self.asks("atol"))):
            if given is not None and self.asks("check") is None:
                raise UnknownOption(
                    f"{flag} is a tolerance of --check, but --check is not given",
                    stack=self.locate(flag, 0, 0),
                    help="add --check with the expression to compare with",
                )

    def _refuse_unused(self) -> None:
        for option in options_of(self.command):
            if option.about_run and self.asks(option.name):
                raise UnknownOption(
                    f"{option.flag} needs a run, but nothing ran",
                    stack=self.locate(option.flag, 0, 0),
                    help=f"add --run '{self.kernel}(...)' with arrays as arguments",
                )


@dataclass
class Answer:
    """What came of a request.

    Attributes:
        request: what was asked.
        runs: all runs; the last one is the result.
        other: the profile it is compared with.
        comparisons: how the result differs from the reference.
        failed: why the result is wrong; None where it is right, or no reference was given.
    """

    request: Request
    runs: list[Result]
    other: Profile | None = None
    comparisons: Sequence[Comparison] = field(default=())
    failed: CheckFailed | None = None

    @property
    def result(self) -> Result:
        """The last run."""
        return self.runs[-1]

    def tell(
        self,
        say: Callable[[str], None],
        warn: Callable[[str], None],
        show: Callable[[tuple[str, ...] | None], None],
        variable: str = "",
        differs: Callable[[Any], None] | None = None,
    ) -> None:
        """Print the outcome, and the answers to all questions about the run; raise CheckFailed where it is wrong.

        Args:
            say: prints a part of the answer.
            warn: prints a finding, as a direct call would warn of it.
            show: shows views; None for those that are shown without being asked for.
            variable: where the result is kept, for the reader.
            differs: shows where a result differs from its reference, before its views; None says it as text, without.
        """
        asks = self.request.asks
        quiet, views = asks("quiet"), asks("show")
        if self.failed is not None:
            if asks("json"):
                say(self._document())
            else:
                difference = None if quiet else self.failed.difference
                has_views = differs is not None and difference is not None
                self.tell_findings(warn, has_views and lists_findings(views))
                if difference is not None and differs is None:
                    say(str(difference))
                elif difference is not None and differs is not None:
                    differs(difference)
                    show(views)
            if variable:
                self.failed.notes += (f"the run is in `{variable}`",)
            raise self.failed
        try:
            count = f"{len(self.runs)} kernel runs; the last: " if len(self.runs) > 1 else ""
            lines = [f"{count}{summary(self.result)}{variable and f'; in `{variable}`'}"]
        except NotModelled as error:  # its times
            if variable:
                error.notes += (f"the run and its results are in `{variable}`",)
            raise
        lines += [*self.result.run.notes, *(c.summary() for c in self.comparisons)]
        # Before questions about the run: one without an answer is an error.
        saved = keep(self.result, asks("save") or ())
        if asks("json"):
            say(self._document())
            if views:
                show(views)
            return
        if not quiet:
            say(text_of(lines))
        if views is None and self.result.missing_times:
            views = ()  # those that are shown without being asked for tell times
        self.tell_findings(warn, not quiet and lists_findings(views))
        if quiet:
            return
        show(views)
        if asks("analyse") or asks("what_if"):
            for text in self.explanations(self.result.profile):
                say(text)
        if asks("bench"):
            say(str(self.result.benchmark()))
        if self.other is not None:
            say(str(compare_profiles(self.other, self.result.profile)))
        if saved:
            say(text_of(saved))

    def tell_findings(self, warn: Callable[[str], None], listed: bool = False) -> None:
        """Print what the author should know about the runs; `listed` says that a report has that of the last one."""
        for line in findings_lines(self.runs, self.result if listed else None):
            warn(line)

    def explanations(self, profile: Profile) -> list[str]:
        """Return what --analyse and --what-if ask for."""
        with self._at_what_if():
            return answers(profile, self.request.asks("analyse"), self.request.asks("what_if"))

    def _document(self) -> str:
        """Return what --json prints."""
        asks = self.request.asks
        with self._at_what_if():
            return run_json(
                self.result,
                self.comparisons,
                asks("analyse"),
                asks("what_if"),
                asks("bench"),
                self.other,
                None if self.failed else asks("save"),
                self.failed,
            )

    @contextmanager
    def _at_what_if(self) -> Iterator[None]:
        try:
            yield
        except UnknownOption as error:  # a line that is not of this kernel
            error.stack = self.request.locate("--what-if", 0, 0)
            raise
