"""What did the passes decide about a traced program, as plain data that another process can apply to the same trace?

A trace is made at every call, so a compiled program need not be kept whole: which instructions stayed, in which order,
with which arguments, addresses, waits and findings is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nki_lab.ir.instruction import Form, Instruction
from nki_lab.ir.nodes import Finding, Kernel, Loop
from nki_lab.ir.storage import Address, Storage
from nki_lab.source import Stack
from nki_lab.targets.engines import Engine

Plan = dict[str, Any]


class NoPlan(Exception):
    """A pass did something that a plan has no words for, or the plan is not one of this trace."""


def plan_of(traced: Sequence[Kernel], compiled: Sequence[Kernel]) -> list[Plan]:
    """Return what passes did to each core's program.

    Raises NoPlan where that cannot be said.
    """
    places = _places(traced, {f.stack for kernel in compiled for f in kernel.findings})
    return [_plan(a, b, places) for a, b in zip(traced, compiled, strict=True)]


def apply_plan(traced: Sequence[Kernel], plans: Sequence[Plan]) -> list[Kernel]:
    """Return what the passes would make of the programs.

    Raises NoPlan where the plans are not of these programs.
    """
    try:
        return [
            _applied(kernel, plan, [_found(f, traced) for f in plan["findings"]])
            for kernel, plan in zip(traced, plans, strict=True)
        ]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise NoPlan(str(error)) from None


# -- writing ---------------------------------------------------------------------------------------------------------


def _plan(traced: Kernel, made: Kernel, places: dict[Stack, str]) -> Plan:
    position = {i.ident: n for n, i in enumerate(traced.instructions)}
    order, changes, after = [], {}, {}
    for n, i in enumerate(made.instructions):
        at = position.get(i.ident)
        if at is None:
            raise NoPlan("an instruction is not of the trace")
        order.append(at)
        old = traced.instructions[at]
        if i is old:
            continue
        changes[n] = [
            [k, _constant(b)]
            for k, (a, b) in enumerate(zip(old.args, i.args, strict=True))
            if a is not b
        ]
        if i.after != old.after:
            after[n] = [p.ident for p in i.after]
    if made.storages is not traced.storages or made.params is not traced.params:
        raise NoPlan("tensors are not those of the trace")
    return {
        "order": order,
        "changes": changes,
        "after": after,
        "addresses": [[k, *a] for k, a in (made.addresses or {}).items()],
        "overlaps": [sorted(group) for group in made.overlaps],
        "poisoned": sorted(made.poisoned),
        "placed": made.placed,
        "waits": made.waits,
        "findings": [_finding(f, places) for f in made.findings],
    }


def _constant(value: Any) -> Any:
    if type(value) is bool:
        return value
    if isinstance(value, Engine):
        return value.name
    raise NoPlan(f"an argument became {value!r}")


def _finding(finding: Finding, places: dict[Stack, str]) -> list[str]:
    place = places.get(finding.stack)
    if place is None:
        raise NoPlan("a finding is about a place where nothing of the trace was made")
    return [finding.kind, finding.message, place, finding.help, finding.code]


# Parts of a program that a finding may be about, by the letter that names their kind.
_PARTS: dict[str, Callable[[Kernel], Sequence[Instruction | Storage | Loop | Finding]]] = {
    "i": lambda kernel: kernel.instructions,
    "s": lambda kernel: kernel.storages,
    "l": lambda kernel: [found.loop for found in kernel.loops],
    "f": lambda kernel: kernel.findings,
}


def _places(traced: Sequence[Kernel], sought: set[Stack]) -> dict[Stack, str]:
    """Return, for those places where a part of the programs was made, the name of the part: core, kind, number."""
    found: dict[Stack, str] = {(): ""}
    for core, kernel in enumerate(traced):
        for kind, parts in _PARTS.items():
            if sought <= found.keys():
                return found
            for n, part in enumerate(parts(kernel)):
                if part.stack in sought:
                    found.setdefault(part.stack, f"{core}{kind}{n}")
    return found


# -- reading ---------------------------------------------------------------------------------------------------------


def _found(stored: Sequence[str], traced: Sequence[Kernel]) -> Finding:
    kind, message, place, help_, code = stored
    stack: Stack = ()
    if place:
        core, part, number = place[0], place[1], place[2:]
        if not number.isdecimal():
            raise ValueError(f"there is no part {place}")
        stack = _PARTS[part](traced[int(core)])[int(number)].stack
    return Finding(kind, message, stack, help_, code)


def _applied(traced: Kernel, plan: Plan, findings: Sequence[Finding]) -> Kernel:
    old = traced.instructions
    made = [old[n] for n in plan["order"]]
    producers = {i.ident: i for i in old} if plan["after"] else {}
    forms: dict[Any, Form] = {}
    for key, changed in plan["changes"].items():
        made[int(key)] = _changed(made[int(key)], changed, traced, forms)
    for key, idents in plan["after"].items():
        made[int(key)] = made[int(key)].following([producers[n] for n in idents])
    kept = {i.ident for i in made}
    following = iter(made)
    body = tuple(_body(traced.body, kept, following))
    if next(following, None) is not None or len(kept) != len(made):
        raise ValueError("the order is not one of this program")
    return traced.with_(
        body=body,
        addresses={k: Address(partition, byte) for k, partition, byte in plan["addresses"]},
        overlaps=tuple(map(frozenset, plan["overlaps"])),
        poisoned=frozenset(plan["poisoned"]),
        placed=plan["placed"],
        waits=tuple(map(tuple, plan["waits"])),
        findings=tuple(findings),
    )


def _body(
    body: tuple[Instruction | Loop, ...], kept: set[int], following: Iterator[Instruction]
) -> Iterator[Instruction | Loop]:
    """Yield the nodes of a body with what follows in the new order in place of each instruction that is kept."""
    for node in body:
        if isinstance(node, Loop):
            inner = tuple(_body(node.body, kept, following))
            yield Loop(node.kind, node.bounds, node.register, inner, node.stack, node.number)
        elif node.ident in kept:
            yield next(following)


def _changed(
    old: Instruction, changed: list[list[Any]], kernel: Kernel, forms: dict[Any, Form]
) -> Instruction:
    new = {old.definition.params[k]: Engine[v] if isinstance(v, str) else v for k, v in changed}
    made = old.with_args(**new)
    key = old.form, tuple(new.items())
    form = forms.get(key)
    if form is None:
        form = forms[key] = Form(made, kernel.target) if new else old.form
    made.form = form
    return made
