"""Describes the steps of a run in plain text."""

from __future__ import annotations

from nki_lab.profiler.text_table import text_table
from nki_lab.views.run import Step, StepOperand, ViewData
from nki_lab.views.stepper.summary import number_text, summarize

_STEPS_SHOWN = 30
_TEXT_LETTERS = 34


def stepper_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the first executed instructions with what each has written, and where values stop being numbers."""
    steps = data.steps
    if steps.problem:
        return [f"not gone through: {steps.problem}"]
    count = len(steps.order)
    rows = []
    for number in range(min(count, _STEPS_SHOWN)):
        step = steps.at(number)
        operation = data.operations[step.position]
        place = operation.place.label if operation.place else ""
        rows += [
            (str(number) if first else "", operation.name if first else "", _passes(step) + place if first else "",
             *written)
            for first, written in _firsts(_written(step))
        ]  # fmt: skip
    heads = ("step", "instruction", "line", "writes", "least", "most", "not finite")
    lines = text_table(heads, rows, None if limit is None else limit - 2, len(rows))
    if count > _STEPS_SHOWN and not lines[-1].startswith("..."):
        lines.append(f"... {count - _STEPS_SHOWN:,} more")
    return [f"{count:,} instructions ran", *lines, _first_bad(data)]


def _firsts(rows: list[tuple[str, ...]]) -> list[tuple[bool, tuple[str, ...]]]:
    return [(k == 0, row) for k, row in enumerate(rows)]


def _written(step: Step) -> list[tuple[str, ...]]:
    """Return a row for each operand that gets values, at least one."""
    rows = [_values(o) for o in step.operands if o.way != "reads"]
    rows += [(f"{name} = {value}", "", "", "") for name, value in step.registers_set.items()]
    return rows or [("", "", "", "")]


def _values(operand: StepOperand) -> tuple[str, ...]:
    text = operand.text
    if len(text) > _TEXT_LETTERS:
        text = f"{text[: _TEXT_LETTERS - 3]}..."
    if operand.after is None:
        return text, "", "", "failed"
    summary = summarize(operand.after)
    bad = [f"{n:,} {what}" for n, what in ((summary.nan, "NaN"), (summary.infinite, "Inf")) if n]
    return text, number_text(summary.least), number_text(summary.most), ", ".join(bad)


def _passes(step: Step) -> str:
    return "".join(f"pass {p.number + 1} of {p.total}, " for p in step.passes)


def _first_bad(data: ViewData) -> str:
    first = data.steps.next_not_finite(0)
    if first is None:
        return "no instruction writes a NaN or an infinity"
    step = data.steps.at(first)
    operation = data.operations[step.position]
    read = [o for o in step.operands if o.way != "writes" and o.before is not None]
    clean = all(summarize(o.before).is_finite for o in read if o.before is not None)
    where = f" ({operation.place.label})" if operation.place else ""
    how = "of finite values" if clean else "of values that are not finite either"
    return f"first NaN or infinity: step {first:,}, {operation.name}{where}, {how}"
