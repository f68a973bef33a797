"""What do the notebook and the command line say about a run?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nki_lab.profiler import view_text as texts
from nki_lab.profiler.analyses import ANALYSES

if TYPE_CHECKING:
    from nki_lab.ir.nodes import Finding
    from nki_lab.profiler.profile import Profile
    from nki_lab.profiler.view_data import Remark
    from nki_lab.runtime import Result


def view_text(result: Result, view: str) -> str:
    """Return one view of a run (see `nki_lab.options.table.VIEWS`) as plain text."""
    return texts.view_text(result.view_data, view)


def summary(result: Result) -> str:
    """Return one line on a run: which kernel ran, where, and for how long."""
    return texts.summary(result.view_data)


def answers(
    profile: Profile, analyse: tuple[str, ...] | None, what_if: tuple[str, ...] | None
) -> list[str]:
    """Return the answers that --analyse and --what-if ask for, each a text of several lines.

    Raises UnknownOption where --what-if names a line that no instruction comes from.
    """
    found = [ANALYSES[name](profile) for name in analyse or ()]
    return [*found, str(profile.what_if(*what_if))] if what_if else found


def serious_findings(runs: Sequence[Result], others: bool = False) -> list[str]:
    """Return lines on what may make a device refuse a kernel or compute other values, each once.

    They are printed whatever else is shown: what was asked to be quiet may still be wrong. With `others`, all findings
    but advice are among them.
    """

    def is_meant(finding: Finding | Remark) -> bool:
        return finding.is_serious or (others and finding.kind != "advice")

    remarks = [
        remark
        for run in runs
        if any(map(is_meant, run.findings))
        for remark in run.view_data.findings
        if is_meant(remark)
    ]
    return [line for remark in dict.fromkeys(remarks) for line in texts.remark_lines(remark)]
