"""What does a `%%nki` cell do?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from nki_lab.errors import (
    CheckFailed,
    NkiError,
    NoKernel,
    NotModelled,
    SimulationError,
    UnknownOption,
    show_place,
    without_our_frames,
)
from nki_lab.magics.breakpoints import breakpoints
from nki_lab.magics.cells import Cell, typed_stack
from nki_lab.magics.define import EXAMPLE, define_kernels
from nki_lab.magics.editor import editor_of
from nki_lab.magics.show import profile_of, show
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Comparison, KernelFunction, Result
from nki_lab.runtime.chosen import current_target
from nki_lab.session.evaluate import check_value, evaluate, reference
from nki_lab.session.expect import expected
from nki_lab.session.parsing import Locate, option_help, parse_line
from nki_lab.session.run_json import run_json
from nki_lab.session.saving import keep
from nki_lab.session.table import options_of
from nki_lab.session.views import answers, findings_lines, lists_findings, summary
from nki_lab.session.within import session
from nki_lab.settings import Settings
from nki_lab.source import text_of

_CELL, _LINE = "%%nki", "%nki"

_STEPS_OF_A_FAILURE = (
    "nki_lab.step(kernel, ...) with the same arguments and target, and .show() of it,"
    " shows the run up to what failed"
)

_DOCUMENTATION = f"""\
Make the cell's function an NKI kernel; with --run, compile, simulate, time and show it.

{EXAMPLE}

The cell is plain Python and runs in the notebook's namespace. Functions decorated with @nki.jit are
kernels; a single function without decorator becomes one. `nki`, `nl` (nki.language) and `nisa`
(nki.isa) may be used without importing them. Without --run the kernel is defined and its text is
checked.

A run leaves its Result in <kernel>_result, or in the variable --name gives; `_nki` is always the
last one. `%nki --run "double(a)"` runs a kernel of an earlier cell.

{option_help(_CELL)}"""


@magics_class
class NkiMagics(Magics):
    """The cell magic `%%nki` and the line magic `%nki`."""

    @no_var_expand
    @line_cell_magic
    def nki(self, line: str, cell: str | None = None) -> None:  # noqa: D102 - set below
        try:
            with breakpoints(self.ip):
                if cell is None:
                    self._line(line)
                else:
                    self._cell(line, cell)
        except NkiError as error:
            without_our_frames(error)
            raise
        except Exception:
            raise
        except BaseException as error:  # an interrupt, or what a kernel raises to get past everyone
            show_place(error)
            without_our_frames(error)
            raise

    nki.__doc__ = _DOCUMENTATION

    @property
    def ip(self) -> InteractiveShell:
        """The IPython these magics are registered with."""
        assert self.shell is not None
        return self.shell

    def _cell(self, line: str, body: str) -> None:
        cell = Cell.of(self.ip, _CELL, line, body)
        editor = editor_of(self.ip)
        if editor is not None:
            editor.defined(cell)
        options = parse_line(_CELL, line, cell.option_stack)
        _check_needs_run(options, cell.option_stack)
        with expected(options, cell.option_stack) as printed:
            with session(options, cell.option_stack("--timeout")) as runs:
                kernels = define_kernels(self.ip, cell)
                target = current_target(Settings.read()).name
                self._finish(options, runs, kernels, cell.option_stack)
            if not runs and not options.quiet:
                for kernel in kernels:
                    parameters = ", ".join(kernel.__signature__.parameters)
                    print(text_of([f"kernel {kernel.__name__}({parameters}) for {target}"]))
        if editor is not None:
            editor.expected(printed)

    def _line(self, line: str) -> None:
        def locate(word: str, column: int, width: int) -> Any:
            return typed_stack("<%nki>", f"{_LINE} {line}", 1, word, column, width)

        options = parse_line(_LINE, line, locate)
        if options.run is None:
            raise NoKernel(
                "%nki runs a kernel of an earlier cell, but none is named",
                stack=locate("", 0, 0),
                help="write %nki --run 'kernel(a, b)', or %%nki to define a kernel",
            )
        _check_needs_run(options, locate)
        timeout = locate("--timeout", 0, 0)
        with expected(options, locate), session(options, timeout) as runs:
            self._finish(options, runs, [], locate)

    def _finish(
        self,
        options: Namespace,
        runs: list[Result],
        kernels: list[KernelFunction],
        locate: Locate,
    ) -> None:
        """Run what --run says, keep the last run, check it and show it."""
        scope = self.ip.user_ns
        value = expected = None
        if options.check is not None:
            expected = reference(options.check, scope, locate)
        if options.run is None and not runs:
            _refuse_unused(options, kernels, locate)
            return
        # Before the run, which may give its own result the same name.
        other = _other(options, scope, locate)
        if options.run is not None:
            before = len(runs)
            try:
                value = evaluate(options.run, scope, locate)
            except SimulationError as error:
                if error.can_be_stepped and "stepper" in (options.show or ()):
                    error.notes += (_STEPS_OF_A_FAILURE,)
                raise
            if len(runs) == before:
                example = kernels[0].__name__ if kernels else "kernel"
                raise NoKernel(
                    "--run called no kernel",
                    stack=locate(options.run.text, 0, 0),
                    help=f"write a call with arrays, such as --run '{example}(a)'",
                )
        result = runs[-1]
        name = options.name or f"{result.name}_result"
        self.ip.push({name: result, "_nki": result})
        comparisons: Sequence[Comparison] = ()
        if options.check is not None:
            value = value.value if isinstance(value, Result) else value
            try:
                comparisons = check_value(
                    value,
                    expected,
                    locate(options.check.text, 0, 0),
                    rtol=options.rtol,
                    atol=options.atol,
                )
            except CheckFailed as error:
                if options.json:
                    print(_document(result, options, locate, other, failed=error))
                else:
                    _print_findings(runs)
                error.notes += (f"the run is in `{name}`",)
                raise
        try:
            count = f"{len(runs)} kernel runs; the last: " if len(runs) > 1 else ""
            lines = [f"{count}{summary(result)}; in `{name}`"]
        except NotModelled as error:  # its times
            error.notes += (f"the run and its results are in `{name}`",)
            raise
        lines += [comparison.summary() for comparison in comparisons]
        # Before questions about the run: one without an answer is an error.
        kept = keep(result, options.save or ())
        if options.json:
            print(_document(result, options, locate, other, comparisons, options.save))
            if options.show:
                show(result, options.show, other, tells=False)
        else:
            if not options.quiet:
                print(text_of(lines))
            listed = not options.quiet and lists_findings(options.show)
            _print_findings(runs, result if listed else None)
            if not options.quiet:
                _tell(result, other, options, locate)
        if kept and not options.quiet and not options.json:
            print(text_of(kept))


def _print_findings(runs: list[Result], reported: Result | None = None) -> None:
    for line in findings_lines(runs, reported):
        print(line)


def _tell(result: Result, other: Profile | None, options: Namespace, locate: Locate) -> None:
    """Show the views of a run, and answer what else was asked about it."""
    show(result, options.show, other, tells=False)
    with _at_what_if(locate):
        for answer in answers(result.profile, options.analyse, options.what_if):
            print(answer)
    if options.bench:
        print(result.benchmark())
    if other is not None:
        print(compare_profiles(other, result.profile))


def _document(
    result: Result,
    options: Namespace,
    locate: Locate,
    other: Profile | None,
    comparisons: Sequence[Comparison] = (),
    saved: Sequence[Path] | None = None,
    failed: CheckFailed | None = None,
) -> str:
    """Return what --json prints."""
    with _at_what_if(locate):
        return run_json(
            result,
            comparisons,
            options.analyse,
            options.what_if,
            options.bench,
            other,
            saved,
            failed,
        )


@contextmanager
def _at_what_if(locate: Locate) -> Iterator[None]:
    try:
        yield
    except UnknownOption as error:  # a line that is not of this kernel
        error.stack = locate("--what-if", 0, 0)
        raise


def _check_needs_run(options: Namespace, locate: Locate) -> None:
    if options.check is not None and options.run is None:
        raise UnknownOption(
            "--check compares what --run returns, but --run is not given",
            stack=locate("--check", 0, 0),
            help="add --run 'kernel(a, b)'",
        )
    for flag, given in (("--rtol", options.rtol), ("--atol", options.atol)):
        if given is not None and options.check is None:
            raise UnknownOption(
                f"{flag} is a tolerance of --check, but --check is not given",
                stack=locate(flag, 0, 0),
                help="add --check with the expression to compare with",
            )


def _other(options: Namespace, scope: dict[str, Any], locate: Locate) -> Profile | None:
    """Return the profile of the run to compare with."""
    if options.compare is None:
        return None
    text = options.compare.text
    return profile_of(evaluate(options.compare, scope, locate), locate(text, 0, 0))


def _refuse_unused(options: Namespace, kernels: list[KernelFunction], locate: Locate) -> None:
    for option in options_of(_CELL):
        if option.about_run and getattr(options, option.name):
            raise UnknownOption(
                f"{option.flag} needs a run, but nothing ran",
                stack=locate(option.flag, 0, 0),
                help=f"add --run '{kernels[0].__name__}(...)' with arrays as arguments",
            )
