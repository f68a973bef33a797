"""Writes the answers about a run: as text, and as a document that another program reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nki_lab.errors import CheckFailed, UsageError
from nki_lab.hardware.importers import load_profile
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import bound_sentence
from nki_lab.profiler.answers import ANALYSES, analysis_data, plain
from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Comparison, Result
from nki_lab.source import Stack, text_of
from nki_lab.views import head, texts
from nki_lab.views.entries import remark_lines

if TYPE_CHECKING:
    from nki_lab.views.run import Remark


def profile_of(what: Any, stack: Stack = ()) -> Profile:
    """Return the profile of a Result, a Profile, or of the file of that name.

    Raises UsageError at `stack` for anything else, BadFile where a file holds none.
    """
    if isinstance(what, Result):
        return what.profile
    if isinstance(what, Profile):
        return what
    if isinstance(what, (str, Path)):
        return load_profile(what)
    raise UsageError(
        f"found {type(what).__name__}, expected a run",
        stack=stack,
        help="name a Result such as add_result, a Profile, or the file of a stored profile in quotes",
    )


def view_text(result: Result, view: str) -> str:
    """Return one view of a run (see `nki_lab.session.questions.VIEWS`) as plain text."""
    return texts.view_text(result.view_data, view)


def summary(result: Result) -> str:
    """Return one line on a run: which kernel ran, where, and for how long, or why that is not known."""
    missing = result.missing_times
    if missing:
        where = f"{result.name} on {result.kernel.target.name}"
        return text_of([f"{where}: {'; '.join(filter(None, (result.origin, missing)))}"])
    return head.summary(result.view_data)


def answers(
    profile: Profile, analyse: tuple[str, ...] | None, what_if: tuple[str, ...] | None
) -> list[str]:
    """Return the answers that --analyse and --what-if ask for, each a text of several lines.

    Raises UnknownOption where --what-if names a line that no instruction comes from.
    """
    analyses = [ANALYSES[name](profile) for name in analyse or ()]
    return [*analyses, str(profile.what_if(*what_if))] if what_if else analyses


def lists_findings(views: tuple[str, ...] | None) -> bool:
    """Tell whether the views that are shown list the findings; None is the choice of the display."""
    return views is None or "report" in views or "findings" in views


def findings_lines(runs: Sequence[Result], reported: Result | None = None) -> list[str]:
    """Return lines on what the author should know about runs, each fact once: what a direct call would warn of.

    Args:
        runs: those whose findings are listed, without advice.
        reported: the run whose report is shown: it lists its findings.
    """
    listed = set() if reported is None else set(reported.remarks)
    lines: dict[Remark, None] = {}
    for run in runs:
        meant = [f.kind != "advice" for f in run.findings]
        if any(meant):
            lines |= dict.fromkeys(itertools.compress(run.remarks, meant))
    return [
        text_of([line])
        for remark in lines
        if remark not in listed
        for line in remark_lines(remark, excerpt=True)
    ]


def run_json(
    result: Result,
    comparisons: Sequence[Comparison] = (),
    analyse: Sequence[str] | None = None,
    what_if: Sequence[str] | None = None,
    bench: bool = False,
    compare: Profile | None = None,
    saved: Sequence[Path] | None = None,
    failed: CheckFailed | None = None,
) -> str:
    """Return the kernel, chip, time, Summary metrics, findings, results and checks of a run as JSON.

    Times of the Summary are seconds and shares fractions of 1, as in Neuron Explorer's own files. What else was asked
    about the run is in the document only then: `analyses`, `what_if`, `benchmark`, `comparison` and `saved`;
    and so is `check_failed`.

    Args:
        result: the run.
        comparisons: how its results compare with the reference.
        analyse: names of `ANALYSES`.
        what_if: costs to time the program again without.
        bench: tell the time of one call and of one of many.
        compare: the profile of an earlier run.
        saved: files that the run was written to.
        failed: why its results are not what they should be; it has the comparisons then.
    """
    profile = result.profile
    bound = bound_by(profile)
    document: dict[str, Any] = {
        "kernel": result.name,
        "target": profile.target.name,
        "is_simulation": profile.is_simulation,
        "origin": result.origin,
        "total_ns": profile.total_ns,
        "bound": bound.resource if bound.is_bound else "latency",
        "bound_also": [name for name, _ in bound.others],
        "bound_sentence": bound_sentence(profile),
        "summary": profile.summary,
        "findings": [
            {
                "kind": remark.kind,
                "message": remark.message,
                "help": remark.help,
                "place": remark.place.label if remark.place else None,
                "is_serious": remark.is_serious,
            }
            for remark in result.remarks
        ],
        "outputs": [{"shape": list(o.shape), "dtype": o.dtype.name} for o in result.outputs],
        "checks": [
            {
                "matches": comparison.ok,
                "max_abs_error": _finite(comparison.max_abs_error),
                "max_rel_error": _finite(comparison.max_rel_error),
            }
            for comparison in (failed.comparisons if failed else comparisons)
        ],
    }
    if failed:
        document["check_failed"] = failed.message
    if result.run.notes:
        document["notes"] = list(result.run.notes)
    if analyse:
        document["analyses"] = {name: analysis_data(name, profile) for name in analyse}
    if what_if:
        document["what_if"] = plain(profile.what_if(*what_if))
    if bench:
        document["benchmark"] = plain(result.benchmark())
    if compare is not None:
        document["comparison"] = plain(compare_profiles(compare, profile))
    if saved:
        document["saved"] = [str(path) for path in saved]
    return json.dumps(document, indent=2, default=_plain, allow_nan=False)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # JSON has no infinity


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
