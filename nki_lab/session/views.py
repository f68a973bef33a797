"""What do the notebook and the command line say about a run?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nki_lab.profiler.answers import ANALYSES
from nki_lab.source import text_of
from nki_lab.views import head, texts
from nki_lab.views.entries import remark_lines

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile
    from nki_lab.runtime import Result
    from nki_lab.views.run import Remark


def view_text(result: Result, view: str) -> str:
    """Return one view of a run (see `nki_lab.views.registry`) as plain text."""
    return texts.view_text(result.view_data, view)


def summary(result: Result) -> str:
    """Return one line on a run: which kernel ran, where, and for how long."""
    return head.summary(result.view_data)


def answers(
    profile: Profile, analyse: tuple[str, ...] | None, what_if: tuple[str, ...] | None
) -> list[str]:
    """Return the answers that --analyse and --what-if ask for, each a text of several lines.

    Raises UnknownOption where --what-if names a line that no instruction comes from.
    """
    found = [ANALYSES[name](profile) for name in analyse or ()]
    return [*found, str(profile.what_if(*what_if))] if what_if else found


def lists_findings(views: tuple[str, ...] | None) -> bool:
    """Tell whether the views that are shown list the findings; None is the choice of the display."""
    return views is None or "report" in views or "findings" in views


def findings_lines(runs: Sequence[Result], reported: Result | None = None) -> list[str]:
    """Return lines on what the author should know about runs, each fact once: what a direct call would warn of.

    Args:
        runs: those whose findings are told, advice left out.
        reported: the run whose report is shown: it lists its findings.
    """
    listed = set() if reported is None else set(reported.view_data.findings)
    lines: dict[Remark, None] = {}
    for run in runs:
        meant = [f.kind != "advice" for f in run.findings]
        if any(meant):
            lines |= dict.fromkeys(itertools.compress(run.view_data.findings, meant))
    return [
        text_of([line]) for remark in lines if remark not in listed for line in remark_lines(remark)
    ]
