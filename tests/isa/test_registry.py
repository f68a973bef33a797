"""Tests that every definition is complete, costed on every chip, shown by a case, and that a case breaks every rule."""

from __future__ import annotations

import re

import pytest

from nki_lab.dtypes import DTYPES
from nki_lab.errors import NotOnTarget
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.cost import MicroOp, Transfer
from nki_lab.ir.definition.operands import operand_rules
from nki_lab.ir.definition.rule_errors import rule_error
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import registry
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.features import FEATURES
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM
from tests.isa.case import Case, Traced
from tests.isa.cases import ALL

RUNNING = [c for c in ALL if not c.breaks]
DEFINITIONS = list(registry.values())


def by_name(value):
    return getattr(value, "name", None) or str(value)


# -- definitions ---------------------------------------------------------------------------


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_complete(definition):
    assert definition.check_complete() == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_documented(definition):
    first, *rest = definition.doc.splitlines()
    assert len(first) <= 80 and first.endswith(".")
    assert not rest or rest[0] == ""
    assert re.search(r"nki/[\w./-]+", definition.doc), "no page of the official documentation"
    assert all(r.source or r in operand_rules(definition) for r in definition.all_rules()), [
        r.text for r in definition.rules if not r.source
    ]
    assert not [r.text for r in definition.all_rules() if r.text.endswith(".")]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=by_name)
def test_has_a_case(definition):
    assert [c for c in RUNNING if c.instruction == definition.name]


@pytest.mark.parametrize("case", RUNNING, ids=str)
def test_cost_on_every_target(case: Case):
    costed = 0
    for target in ALL_TARGETS:
        for i in Traced(case, target).own:
            if i.form.broken:
                assert target.name not in case.targets
                continue
            costs = i.definition.cost_of(i, target)
            assert costs, i.definition.name
            for part in costs:
                assert type(part) in (MicroOp, Transfer)
                if type(part) is MicroOp:
                    assert 0 < part.cycles < 1e7 and part.opcode == part.opcode.upper()
                else:
                    assert part.descriptors > 0 and part.descriptor_bytes > 0 and 0 < part.rate <= 1
                costed += 1
            moved = sum(p.bytes_read + p.bytes_written for p in costs)
            assert moved > 0 or not [*i.read(), *i.written()], "its tensors' bytes are not counted"
    assert costed


# -- rules of instructions ---------------------------------------------------------------------------


def test_an_error_has_no_address():
    case = next(c for c in ALL if str(c) == "tensor_reduce-NumPy_operator")
    (error,) = Traced(case, "trn2").errors
    assert "op = max (" in str(error) and "0x" not in str(error)


def test_every_rule_of_an_instruction_is_broken_by_a_case():
    broken = set()
    for case in ALL:
        for name in case.targets if case.breaks else case.targets[:1]:
            form = Traced(case, name).subject.form
            broken |= {(form.definition.name, r) for r in (*form.broken, *form.remarks)}
    missing = [
        f"{d.name}: {r.text}" for d in DEFINITIONS for r in d.rules if (d.name, r) not in broken
    ]
    assert missing == []


def test_rules_speak_of_parameters_and_abilities_of_targets():
    for definition in DEFINITIONS:
        words = {*definition.signature.parameters, *FEATURES, "hwdge"}
        for rule in definition.all_rules():
            assert set(re.findall("`([^`]*)`", rule.text)) <= words, rule.text
            assert set(rule.about) <= set(definition.signature.parameters), rule.text
            assert not re.search(r"\b(\w+) or \1\b", rule.text), rule.text
            if together := re.search("must not (both|all) be", rule.text):
                assert (together[1] == "both") == (len(rule.about) == 2), rule.text


# -- rules that follow from operands ---------------------------------------------------------------------------


def _strange(builder: Builder, t: NkiTensor, shape, strides, offset=0) -> NkiTensor:
    return NkiTensor._make(t.storage, tuple(shape), tuple(strides), offset, t.dtype)


def _in_space(builder, t, operand):
    other = next((s for s in (SHARED_HBM, PSUM, SBUF) if s not in operand.spaces), None)
    return None if other is None else builder.allocate(t.shape, t.dtype, other)


def _with_dtype(builder, t, operand):
    other = next(d for d in DTYPES.values() if d not in operand.dtypes)
    return builder.allocate(t.shape, other, t.buffer)


def _wide(builder, t, operand):
    return builder.allocate(t.shape, "int64", t.buffer)


def _on_chip(builder, operand, rows, *free):
    space = next((s for s in operand.spaces if s.on_chip), None)
    dtype = min(operand.dtypes or {"float32"})
    return None if space is None else builder.allocate((rows, *free), dtype, space)


def _one_axis(builder, t, operand):
    made = _on_chip(builder, operand, 32, 4)
    return made and _strange(builder, made, (32,), (4,))


def _many_rows(builder, t, operand):
    made = _on_chip(builder, operand, 128, 4)
    return made and _strange(builder, made, (256, 4), (4, 1))


def _odd_start(builder, t, operand):
    made = _on_chip(builder, operand, 64, 4)
    return made and made[1:33]


def _every_other_row(builder, t, operand):
    made = _on_chip(builder, operand, 64, 4)
    return made and _strange(builder, made, (32, 4), (8, 1))


def _five_free_axes(builder, t, operand):
    made = _on_chip(builder, operand, 32, 32)
    return made and _strange(builder, made, (32, 2, 2, 2, 2, 2), (32, 16, 8, 4, 2, 1))


def _by_elements(builder, t, operand):
    made = _on_chip(builder, operand, 32, 4)
    return made and made.indirect(builder.allocate((32, 1), "uint16", SBUF), 4)


def _by_rows(builder, t, operand):
    space = (
        SHARED_HBM
        if SHARED_HBM in operand.spaces or operand.spaces[-1].on_chip
        else operand.spaces[-1]
    )
    made = builder.allocate((64, 4), min(operand.dtypes or {"float32"}), space)
    return made.vector_select(0, builder.allocate((32, 1), "uint32", SBUF))


def _again_and_again(builder, t, operand):
    made = builder.allocate((32, 4), t.dtype, t.buffer)
    return _strange(builder, made, (32, 4), (made.strides[0], 0))


def _two_columns(builder, t, operand):
    return _on_chip(builder, operand, t.shape[0], 2)


#: Words of the rule -> what breaks it, given the operand's tensor in a case that runs.
BREAKERS = {
    r"must be (a tensor|a list of (tensors|lists))": lambda builder, t, operand: "a word",
    r"must be in (sbuf|psum|private_hbm|shared_hbm)": _in_space,
    r"must have dtype": _with_dtype,
    r"must not have dtype int64": _wide,
    r"must have a partition axis": _one_axis,
    r"must have at most 128 partitions": _many_rows,
    r"must start at partition": _odd_start,
    r"must be on adjacent partitions": _every_other_row,
    r"may have at most 4 free axes": _five_free_axes,
    r"must be one value per partition": _two_columns,
    r"(must not|may) be a view of .indirect": _by_elements,
    r"(must not|may) choose its rows": _by_rows,
    r"should be written once": _again_and_again,
}

OPERANDS = [(d, n) for d in DEFINITIONS for n in d.operands]


def _tensor_in_a_case(definition, name):
    for case in RUNNING:
        if case.instruction == definition.name:
            traced = Traced(case, case.targets[-1])
            value = getattr(traced.subject, name)
            first = value[0] if type(value) is tuple and value else value
            if type(first) is NkiTensor:
                return traced, first
    raise AssertionError(f"no case gives {definition.name} a tensor as {name}")


@pytest.mark.parametrize(("definition", "name"), OPERANDS, ids=by_name)
def test_rules_of_an_operand_are_broken(definition, name):
    operand = definition.operands[name]
    rules = [r for r in operand_rules(definition) if r.about == (name,)]
    assert len(rules) >= 7
    traced, t = _tensor_in_a_case(definition, name)
    for r in rules:
        breaker = next(b for words, b in BREAKERS.items() if re.search(words, r.text))
        with traced.builder.active():
            bad = breaker(traced.builder, t, operand)
        if bad is None:  # allowed in every memory, or never on chip
            assert len(operand.spaces) > 2 or not any(s.on_chip for s in operand.spaces)
            continue
        if name in definition.any_start and breaker in (_odd_start, _every_other_row):
            continue
        value = (bad,) if operand.many and type(bad) is NkiTensor else bad
        i = traced.subject.with_args(**{name: value})
        targets = ALL_TARGETS if r.error is NotOnTarget else (traced.builder.target,)
        assert any(r in definition.broken_rules(i, target) for target in targets), r.text
        error = rule_error(r, i)
        assert f"`{name}`" in error.message and error.notes


@pytest.mark.parametrize("definition", [d for d in DEFINITIONS if d.requires], ids=by_name)
def test_targets_without_the_instruction(definition):
    case = next(c for c in RUNNING if c.instruction == definition.name)
    for target in ALL_TARGETS:
        has = all(target.supports(f) for f in definition.requires)
        # The errors of the trace: a trigger is not emitted when its prepare is refused.
        errors = Traced(case, target).errors
        assert has == (not any(isinstance(e, NotOnTarget) for e in errors))
