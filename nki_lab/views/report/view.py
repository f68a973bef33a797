"""The report of a run: what bounds it, its costliest lines, advice, and what the numbers rest on."""

from __future__ import annotations

from nki_lab.profiler.analyses.report import ReportParts
from nki_lab.profiler.text_table import cut
from nki_lab.views.entries import remark_lines
from nki_lab.views.registry import Needs, View
from nki_lab.views.report.model import report_parts
from nki_lab.views.report.picture import report_picture
from nki_lab.views.run import ViewData

_LIMITS_SHOWN = 12  # of the model, where a report is cut
#: How many lines of the kernel, advice and limits of the model a report tells where it is cut, the first that fits.
_SHORTER = [
    *((lines, advice, _LIMITS_SHOWN) for advice in (3, 2, 1) for lines in (5, 3)),
    *((lines, 1, _LIMITS_SHOWN) for lines in (1, 0)),
    (0, 1, _LIMITS_SHOWN // 2),
    (0, 1, _LIMITS_SHOWN // 4),
]
_FINDINGS_LINES = 6  # the least of a report that is cut


def report_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the report; where it is cut, the limits of the model and serious findings stay."""
    parts = ReportParts(data.profile)
    findings = ["", "findings"] if data.findings else []
    for finding in sorted(data.findings, key=lambda f: not f.is_serious):  # as this may be cut
        findings += [f"  {line}" for line in remark_lines(finding)]
    told = [*parts.figures, *parts.lines(), *parts.advice()]
    if limit is None:
        return [*told, *parts.limits(), *findings]
    limits = parts.limits(_LIMITS_SHOWN)
    if len(told) + len(limits) + len(findings) > limit:
        # Numbers need their limits: lines and advice make room for those, except the first advice.
        findings = cut(findings, max(limit - len(limits) - len(told), _FINDINGS_LINES))
        for lines, advice, assumed in _SHORTER:
            told = [*parts.figures, *parts.lines(lines), *parts.advice(advice)]
            limits = parts.limits(assumed)
            room = limit - len(limits) - len(findings)
            if len(told) <= room:
                break
        else:
            advised = parts.advice(1)
            told = [*cut(parts.figures, room - len(advised)), *advised]
    return [*told, *limits, *findings]


VIEW = View(
    name="report",
    title="Report",
    needs=Needs.TIMES,
    text=report_text,
    words="Report",
    parts={"report": report_parts},
    first=("report",),
    picture=report_picture,
)
