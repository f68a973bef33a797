"""Decides which findings are errors."""

from __future__ import annotations

from collections.abc import Iterable

from nki_lab.errors import (
    NkiError,
    StrictFinding,
    UnknownOption,
    close_matches,
    error_classes,
    joined,
)
from nki_lab.ir.program.nodes import Finding

#: The version of NKI whose rules kernels are held to.
NKI_VERSION = "0.6"


def allowable() -> dict[str, type[NkiError]]:
    """Return what kernels written for an older NKI may be allowed, by code."""
    return {k.code: k for k in error_classes() if k.refused_since and _is_in_force(k)}


def _is_in_force(kind: type[NkiError]) -> bool:
    return _number(kind.refused_since) <= _number(NKI_VERSION)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check_allowed(codes: Iterable[str]) -> None:
    """Raise UnknownOption for a code that cannot be allowed."""
    choices = allowable()
    for code in codes:
        if code not in choices:
            raise UnknownOption(
                f"`{code}` cannot be allowed: older versions of NKI have this rule, too",
                help=close_matches(code, choices) or f"allow some of {', '.join(choices)}",
            )


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
