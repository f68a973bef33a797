"""Writes the pages about instructions and functions of the language, from the registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby

import nki_lab.language as nl
from docs.example_script import example_script
from docs.markdown import contents, escaped, fence, page, prose, table
from nki_lab.dtypes import DType
from nki_lab.ir.definition.instruction import WRITE, Definition
from nki_lab.isa import registry
from nki_lab.isa.catalog import (
    SHORT,
    call_text,
    cost_lines,
    operand_facts,
    order_sentences,
    rows,
    rule_sentences,
    targets_of,
)
from nki_lab.targets import ALL_TARGETS, get_target
from nki_lab.targets.features import FEATURES


def instruction_pages() -> Iterator[tuple[str, str]]:
    """Yield one page per instruction, and one that lists them."""
    lists = []
    for module, own in groupby(rows(), lambda row: row.module):
        listed = list(own)
        named = [
            [
                f"[`{SHORT[module]}.{row.name}`]({row.name}.md)",
                ", ".join(row.engines),
                ", ".join(row.targets),
                escaped(row.summary),
            ]
            for row in listed
        ]
        lists += [f"## {module}\n", table(("instruction", "engines", "targets", "meaning"), named)]
        for row in listed:
            yield f"instructions/{row.name}.md", instruction_page(registry[row.name])
    text = (
        "One page per instruction: signature, operands, a kernel that uses it (a test runs each of them), the rules"
        " that it is checked by, and what it costs on each chip. `nki-lab explain NAME` and `%nki_explain NAME` print"
        " the same except for the kernel.\n"
    )
    hidden = contents(row.name for row in rows()).replace(":maxdepth: 1", ":hidden:")
    yield "instructions/index.md", page("Instructions", text, *lists, hidden)


def instruction_page(definition: Definition) -> str:
    """Return the page of one instruction."""
    name = f"{SHORT[definition.module]}.{definition.name}"
    operands = [
        [f"`{operand}`", escaped(", ".join(operand_facts(facts)))]
        for operand, facts in definition.operands.items()
    ]
    having = targets_of(definition)
    limits = [
        [f"`{target.name}`", target.core_name, "yes" if target.name in having else "no"]
        for target in ALL_TARGETS
    ]
    needs = [f"It needs `{f}`: {escaped(FEATURES[f])}.\n" for f in definition.requires]
    engines = ", ".join(engine.name for engine in definition.engines)
    costs = [fence("\n".join(cost_lines(definition, t))) for t in ALL_TARGETS if t.name in having]
    parts = [
        fence("\n".join(call_text(name, definition.__signature__)), "python"),
        prose(definition.doc),
    ]
    if operands:
        parts += ["## Operands\n", table(("operand", "what it is"), operands)]
    orders = order_sentences(definition)
    if orders:
        sentences = "".join(f"- {escaped(sentence)}\n" for sentence in orders)
        parts += ["## In place\n", sentences]
    script = example_script(definition, get_target(having[-1]))
    if script is not None:
        parts += ["## In a kernel\n", fence(script, "python")]
    parts += ["## Engines and chips\n", f"Engines, the preferred one first: {engines}.\n"]
    parts += [table(("target", "core", "has it"), limits), *needs]
    if any(operand.role != WRITE for operand in definition.operands.values()):
        has = "has a" if "backward" in definition.facets else "has no"
        parts += [f"It {has} rule for its [gradient](../../gradients.md).\n"]
    rules = "".join(f"- {escaped(rule)}\n" for rule in rule_sentences(definition))
    limits_are = "Limits without a number here are those of the [chip](../targets.md).\n"
    parts += ["## Rules\n", rules, limits_are]
    parts += ["## Modelled cost\n", "Estimated from public documents, not measured.\n", *costs]
    return page(f"`{name}`", *parts)


def function_page() -> str:
    """Return the page about the functions of nki.language."""
    parts = [
        "What kernels may call besides instructions: functions that are made of instructions, loops, tensors and their"
        " views. Element types and constants are in the table below.\n"
    ]
    for name in sorted(nl.__all__):
        value = getattr(nl, name)
        if callable(value) and not isinstance(value, (type, DType)):
            call = call_text(f"nl.{name}", inspect.signature(value))
            parts += [f"## `nl.{name}`\n", fence("\n".join(call), "python")]
            parts += [prose(inspect.getdoc(value) or "")]
    types = [
        [f"`nl.{name}`", value.kind, str(value.itemsize)]
        for name in sorted(nl.__all__)
        if isinstance(value := getattr(nl, name), DType)
    ]
    parts += ["## Element types\n", table(("name", "kind", "bytes"), types)]
    return page("Functions of nki.language", *parts)
