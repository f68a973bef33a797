"""Decides which findings are errors."""

from __future__ import annotations

from collections.abc import Iterable

from nki_lab.choices import Choices, allowable
from nki_lab.errors import NkiError, StrictFinding, error_classes, joined
from nki_lab.ir.program.nodes import Finding
from nki_lab.versions import ERROR, Form, refused


def refusals(findings: Iterable[Finding], choices: Choices) -> list[NkiError]:
    """Return an error for each finding about a form that the kernel's version refuses, and that is not allowed."""
    kinds = {kind.code: kind for kind in error_classes()}
    version, allowed = choices.version, choices.allow
    refusing = {
        code: form
        for code, form in allowable().items()
        if code not in allowed and form.level(version) == ERROR
    }
    return [
        kinds[f.code](
            f.message,
            stack=f.stack,
            help=f.help,
            blame=f.blame,
            needs=refused(form, _words(f.message, form)),
        )
        for f in findings
        if (form := refusing.get(f.code))
    ]


def _words(message: str, form: Form) -> str:
    """Return what a finding says of a form, or the words of the form where the finding says more."""
    fate = f" {form.fate(ERROR)}"
    return message.removesuffix(fate) if message.endswith(fate) else form.what


def refuse_findings(findings: Iterable[Finding]) -> None:
    """Raise the findings that `strict` does not let pass, each as the class it names, else StrictFinding."""
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
