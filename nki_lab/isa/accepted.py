"""Lists the named values that a parameter of an instruction takes: operators, engines, modes, truth values.

Nothing is listed here. Each value that has a name is tried in a call that is known to be right, and kept where every
rule about that parameter alone holds on some chip.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

from nki_lab.dtypes import DTYPES
from nki_lab.ir.definition.instruction import Definition, Instruction, Rule
from nki_lab.isa import enums
from nki_lab.isa.example import example_call
from nki_lab.isa.operators import OPS
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.choice import NamedChoice
from nki_lab.targets.engines import Engine
from nki_lab.targets.spec import Target


def accepted_values(definition: Definition) -> dict[str, tuple[Any, ...]]:
    """Return the named values of each parameter that takes some; None and operands are left out."""
    rules = definition.all_rules()
    accepted: dict[str, tuple[Any, ...]] = {}
    for name, parameter in definition.signature.parameters.items():
        if name in definition.operands:
            continue
        alone = [rule for rule in rules if set(rule.about) == {name}]
        kept = _kept(definition, name, alone)
        if len(kept) == len(
            named_values()
        ):  # no rule is about it alone: its default tells its kind
            shared = [rule for rule in rules if name in rule.about]
            kept = alternatives(parameter.default) or _kept(definition, name, shared)
        chosen = _without_chance(kept, parameter.default)
        if chosen and len(kept) < len(named_values()):
            accepted[name] = chosen
    return accepted


@cache
def named_values() -> tuple[Any, ...]:
    """Return every value that kernels write by a name: operators, dtypes, choices, truth values."""
    choices = [value for value in vars(enums).values() if _is_choice(value)]
    members = [member for choice in (Engine, *choices) for member in choice]
    return (*(op for op in OPS.values() if not op.refusal), *DTYPES.values(), *members, True, False)


def alternatives(default: Any) -> tuple[Any, ...]:
    """Return what can be written instead of a default, and the default itself."""
    if isinstance(default, bool):
        return (True, False)
    return tuple(type(default)) if isinstance(default, Enum) else ()


def _is_choice(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, NamedChoice) and value is not NamedChoice


def _kept(definition: Definition, name: str, rules: list[Rule]) -> tuple[Any, ...]:
    if not rules:
        return named_values()
    return tuple(value for value in named_values() if _holds(definition, name, value, rules))


def _without_chance(values: tuple[Any, ...], default: Any) -> tuple[Any, ...]:
    """Leave out True and False where a number or nothing is meant, for which they pass."""
    truths = [value for value in values if isinstance(value, bool)]
    meant = isinstance(default, bool) or (default is None and len(truths) == 2)
    return values if meant else tuple(value for value in values if not isinstance(value, bool))


def _holds(definition: Definition, name: str, value: Any, rules: list[Rule]) -> bool:
    for target, call in _calls(definition):
        args = list(call.args)
        try:
            args[definition.position[name]] = definition.taken(name, value)
            changed = Instruction(definition, tuple(args))
            if all(rule.holds(changed, target) for rule in rules):
                return True
        except Exception:  # a rule that takes an operator looks into a truth value
            continue
    return False


@cache
def _calls(definition: Definition) -> list[tuple[Target, Instruction]]:
    chips = [chip for chip in ALL_TARGETS if all(map(chip.supports, definition.requires))]
    calls = ((chip, example_call(definition, chip)) for chip in chips)
    return [(chip, call) for chip, call in calls if call is not None]
