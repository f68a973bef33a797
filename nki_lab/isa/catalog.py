"""Lists the instructions, and writes the page of one.

Everything here is read from the definitions: a new instruction is in the catalog as soon as it is
defined.
"""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from nki_lab.ir.definition.cost import MicroOp, Transfer
from nki_lab.ir.definition.instruction import READ, UPDATE, WRITE, Definition, Operand, Order, Rule
from nki_lab.isa import registry
from nki_lab.isa.example import describe_call, example_call
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.features import FEATURES
from nki_lab.targets.spec import Target

#: Under which name kernels usually import the official modules.
SHORT = {"nki.isa": "nisa", "nki.collectives": "ncc", "nki.isa.NkiScalar": "NkiScalar"}
_WIDTH = 92
#: What stands before a parameter that takes any number of arguments.
STARS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_ROLES = {READ: "read", WRITE: "written", UPDATE: "read and written"}


@dataclass(frozen=True)
class Row:
    """One instruction of the catalog: its module, name, engines, targets and first sentence."""

    module: str
    name: str
    engines: tuple[str, ...]
    targets: tuple[str, ...]
    summary: str


def rows() -> Iterator[Row]:
    """Yield one row per instruction, by module and name."""
    modules = list(SHORT)
    for definition in sorted(registry.values(), key=lambda d: (modules.index(d.module), d.name)):
        engines = tuple(engine.name for engine in definition.engines)
        first = definition.doc.partition("\n")[0]
        yield Row(definition.module, definition.name, engines, targets_of(definition), first)


def page(definition: Definition, target: Target) -> str:
    """Return the page of an instruction as text; its cost is that on `target`."""
    engines = ", ".join(engine.name for engine in definition.engines)
    lines = [
        *call_text(f"{SHORT[definition.module]}.{definition.name}", definition.__signature__),
        "",
        definition.doc,
        "",
        "operands",
    ]
    for name, operand in definition.operands.items():
        lines.append(f"  {name:<12} {', '.join(operand_facts(operand))}")
    orders = order_sentences(definition)
    if orders:
        lines += ["", "in place", *chain(*(_wrapped(f"- {sentence}") for sentence in orders))]
    lines += ["", f"engines: {engines}", f"targets: {', '.join(targets_of(definition))}"]
    lines += [f"  needs {feature}: {FEATURES[feature]}" for feature in definition.requires]
    lines += ["", "rules"]
    for sentence in rule_sentences(definition):
        lines += _wrapped(f"- {sentence}")
    lines += ["", *cost_lines(definition, target)]
    return "\n".join(lines)


def call_text(name: str, signature: inspect.Signature) -> list[str]:
    """Return a call with every parameter and default, in lines short enough to print."""
    parameters = parameters_of(signature)
    kinds = [p.kind for p in signature.parameters.values()]
    by_name = inspect.Parameter.KEYWORD_ONLY
    if by_name in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(by_name), "*")
    text = f"{name}({', '.join(parameters)})"
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def parameters_of(signature: inspect.Signature) -> list[str]:
    """Return the parameters of a signature as kernels write them: with stars, and with defaults."""
    return [
        f"{STARS.get(p.kind, '')}{p.name}"
        + ("" if p.default is p.empty else f"={_shown(p.default)}")
        for p in signature.parameters.values()
    ]


def _shown(default: Any) -> str:
    """Return a default as one writes it; the older dialect has classes and functions of NumPy among them."""
    if isinstance(default, type):
        return default.__name__
    is_numpy = getattr(default, "__module__", None) == "numpy" and callable(default)
    return f"np.{default.__name__}" if is_numpy else repr(default)


def targets_of(definition: Definition) -> tuple[str, ...]:
    """Return the names of the targets that have an instruction."""
    return tuple(t.name for t in ALL_TARGETS if all(t.supports(f) for f in definition.requires))


def operand_facts(operand: Operand) -> list[str]:
    """Describe an operand: how it is accessed, its memories and dtypes."""
    role = (
        "access depends on the arguments"
        if callable(operand.role)
        else _ROLES.get(operand.role, operand.role)
    )
    spaces = " or ".join(sorted({space.name for space in operand.spaces}))
    facts = [role, f"in {spaces}"]
    if operand.many:
        facts.append("a list of lists of one tensor" if operand.nested else "a list of tensors")
    if operand.scalar:
        facts.append("or a number")
    if operand.optional:
        facts.append("or None")
    if operand.indirect:
        facts.append("also .indirect()")
    if operand.rows:
        facts.append("also rows chosen by a tile of indices")
    return facts


_ORDERS = {
    Order.STREAM: "{} may take exactly the place of an operand, or follow behind it: each partition is a stream",
    Order.LAST: "{} may lie over operands: everything is read before it is written",
    Order.MOVES: "{} may take exactly the place of an operand, and lie over no other element",
    Order.NONE: "{} must not lie over operands: no order of reads and writes is promised",
}


def order_sentences(definition: Definition) -> list[str]:
    """Return where results may lie in memory that is read, a sentence per order; empty where they cannot meet."""
    asked = inspect.signature(definition.facets["semantics"]).parameters
    results = {n for n in definition.operands if ("out" if n == "dst" else f"out_{n}") in asked}
    names: dict[Order, list[str]] = {}
    for name in definition.operands:
        spaces = set(definition.operands[name].spaces)
        read = [o for n, o in definition.operands.items() if n not in results]
        if name in results and any(not spaces.isdisjoint(o.spaces) for o in read):
            names.setdefault(definition.order_of(name), []).append(f"`{name}`")
    return [_ORDERS[order].format(" and ".join(operands)) for order, operands in names.items()]


def rule_sentences(definition: Definition) -> Iterator[str]:
    """Yield the rules of an instruction, each with its page."""
    for text, source in rule_texts(definition):
        yield text + (f" ({source})" if source else "")


def rule_texts(
    definition: Definition, but: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yield each rule as a sentence, with its source; what holds for several operands is said once.

    Args:
        definition: the instruction.
        but: sentences to leave out, as `common_rules` gives them.
    """
    grouped: dict[tuple[str, str], list[str]] = {}
    for rule in definition.all_rules():
        sentence, name = _sentence(rule)
        if sentence not in but:
            grouped.setdefault((sentence, rule.source), []).append(name)
    for (sentence, source), names in grouped.items():
        subject = ", ".join(f"`{name}`" for name in names)
        yield (sentence.replace("{}", subject, 1) if names[0] else sentence), source


def common_rules() -> tuple[str, ...]:
    """Return the rules about operands that most instructions have, with {} for the operand."""
    counted: Counter[str] = Counter()
    for definition in registry.values():
        counted.update({_sentence(rule)[0]: 1 for rule in definition.all_rules() if rule.about})
    return tuple(text for text, n in counted.items() if 2 * n > len(registry) and "{}" in text)


def _sentence(rule: Rule) -> tuple[str, str]:
    """Return a rule with {} for the one parameter it is about, and that parameter."""
    name = rule.about[0] if len(rule.about) == 1 else ""
    return (rule.text.replace(f"`{name}`", "{}", 1) if name else rule.text), name


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def cost_lines(definition: Definition, target: Target) -> list[str]:
    """Return a usual call of an instruction on `target` and what each of its steps takes there."""
    if target.chip not in targets_of(definition):
        return [f"{target.name} does not have it"]
    usual = usual_cost(definition, target)
    if usual is None:
        return [f"no usual call of it was found on {target.name}"]
    call, steps = usual
    lines = [f"modelled cost of one call on {target.name}"]
    return [*lines, *(f"  {line}" for line in call), *(f"  -> {step}" for step in steps)]


def usual_cost(definition: Definition, target: Target) -> tuple[list[str], list[str]] | None:
    """Return the arguments of a usual call and what it costs on a target that has the instruction.

    None where no usual call was found.
    """
    call = example_call(definition, target)
    if call is None:
        return None
    steps = [_step(step, call.form.engine, target) for step in definition.cost_of(call, target)]
    return describe_call(call), steps


def _step(step: MicroOp | Transfer, placed: object, target: Target) -> str:
    if isinstance(step, Transfer):
        return (
            f"{step.opcode}: {step.descriptors:,} descriptors of {step.descriptor_bytes:,} bytes,"
            f" {step.source} to {step.destination}, issued by {step.issuer.name}"
        )
    engine = step.engine or placed
    nanoseconds = step.cycles / target.clock_ghz(engine)  # type: ignore[arg-type]
    return f"{step.opcode}: {step.cycles:,.0f} cycles on {engine.name}, {nanoseconds:,.0f} ns"  # type: ignore[attr-defined]
