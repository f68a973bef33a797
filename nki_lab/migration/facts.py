"""Facts: what one run of a kernel shows of its text that reading alone cannot.

A kernel is traced once more, as it was called, with a builder that notes which instructions each call emitted and
which forms of earlier versions it met, each with its place in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nki_lab.compiler.silence import silence
from nki_lab.compiler.trace import trace
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.runtime import Result
from nki_lab.source import Span, Stack
from nki_lab.targets.spaces import PRIVATE_HBM


class Place(NamedTuple):
    """Where an expression stands: lines from 1 on, columns in characters from 0 on."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class Facts:
    """What runs of the kernels of a file or cell show.

    Attributes:
        emitted: the instructions that the call at a place emitted, in order.
        forms: the forms that were met at a place, by their key in `FORMS`.
        private: places where results in private HBM are made.
        reached: lines at which anything was emitted, made or met.
    """

    emitted: dict[Place, list[Instruction]] = field(default_factory=dict)
    forms: dict[Place, set[str]] = field(default_factory=dict)
    private: set[Place] = field(default_factory=set)

    def met(self, form: str, place: Place) -> bool:
        """Tell whether a form was met at a place, or anywhere inside it."""
        return any(
            form in forms and place[:2] <= at[:2] and at[2:] <= place[2:]
            for at, forms in self.forms.items()
        )


class _Noting(Builder):
    """A builder that keeps the forms it meets, whatever the kernel's version makes of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.noted: list[tuple[str, Stack]] = []

    def meet_form(self, key: str, what: str, *args: Any, **kwargs: Any) -> str:
        """Note the form and do what a builder does with it."""
        self.noted.append((key, self.stack()))
        return super().meet_form(key, what, *args, **kwargs)


def facts_of(results: Iterable[Result], filename: str) -> Facts:
    """Return what runs show of the text that is known as `filename`."""
    facts = Facts()
    for result in results:
        retrace = result.retrace
        if retrace is None:
            continue
        builders: list[_Noting] = []

        def noting(*args: Any, builders: list[_Noting] = builders, **kwargs: Any) -> Builder:
            builders.append(_Noting(*args, **kwargs))
            return builders[-1]

        with silence():
            kernel = trace(
                retrace.source,
                retrace.args,
                retrace.kwargs,
                retrace.target,
                retrace.options.replace(strict=False),
                result.compiled.kernel.program,
                builder_of=noting,
            )
        for i in kernel.instructions:
            for place in _places(i.stack, filename):
                facts.emitted.setdefault(place, []).append(i)
        for key, stack in builders[-1].noted:
            for place in _places(stack[:1], filename):
                facts.forms.setdefault(place, set()).add(key)
        for view in kernel.outputs:
            if view.storage.buffer is PRIVATE_HBM:
                facts.private.update(_places(view.storage.stack[:1], filename))
    return facts


def _places(stack: Stack, filename: str) -> Iterable[Place]:
    for span in map(Span.of, stack):
        if span.filename == filename and None not in (span.column, span.end_line, span.end_column):
            yield Place(span.line, span.column, span.end_line, span.end_column)  # type: ignore[arg-type]
