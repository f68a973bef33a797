"""Decides which findings are errors."""

from __future__ import annotations

from collections.abc import Iterable

from nki_lab.choices import allowable
from nki_lab.errors import NkiError, StrictFinding, error_classes, joined
from nki_lab.ir.program.nodes import Finding


def refusals(findings: Iterable[Finding], allowed: Iterable[str] = ()) -> list[NkiError]:
    """Return an error for each finding that NKI refuses today and that is not allowed."""
    refused = {code: kind for code, kind in allowable().items() if code not in allowed}
    return [
        refused[f.code](
            f.message,
            stack=f.stack,
            help=f.help,
            blame=f.blame,
            notes=[f"a kernel for an older NKI runs with --allow {f.code}, NKI_LAB_ALLOW={f.code}"],
        )
        for f in findings
        if f.code in refused
    ]


def refuse_findings(findings: Iterable[Finding]) -> None:
    """Raise the findings that `strict` does not let pass, as the errors they are where each has a class of its own."""
    kinds = {kind.code: kind for kind in error_classes()}
    errors: list[NkiError] = [
        kinds.get(f.code, StrictFinding)(f"{f.kind}: {f.message}", stack=f.stack, help=f.help)
        for f in findings
        if f.kind != "advice"
    ]
    if errors:
        try:
            raise joined(errors)
        finally:
            del errors  # this frame, which the error holds, would hold the error
