"""Rules that several instructions share.

Each function makes a Rule: one sentence for the documentation and the error, and its check. What an operand's
declaration implies (memory, dtype, partitions, shape of vectors) is derived in ir/definition/operands.py.
"""

from __future__ import annotations

from enum import Enum
from itertools import accumulate
from operator import mul
from typing import Any

from nki_lab.errors import NotOnTarget, RuleBroken, WrongOperand
from nki_lab.ir.definition.instruction import Instruction, Rule, rule
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.operators import ALU, Op, OpClass, suggested_name
from nki_lab.targets.engines import GPSIMD, VECTOR, Engine
from nki_lab.targets.facts import ISA, LANGUAGE, NKI_RELEASES, SHARED_API
from nki_lab.targets.features import FEATURES
from nki_lab.targets.spaces import PSUM, MemoryRegion
from nki_lab.targets.spec import Target


def tensors_of(i: Instruction, names: tuple[str, ...]) -> list[NkiTensor]:
    """Return the arguments among `names` that are tensors; numbers and None are left out."""
    values = (getattr(i, n) for n in names)
    return [v for v in values if type(v) is NkiTensor]


def named(names: tuple[str, ...], last: str = "and") -> str:
    """Return "`a`, `b` and `c`"."""
    quoted = [f"`{n}`" for n in names]
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


# -- shapes ---------------------------------------------------------------------------


def same_partitions(*names: str) -> Rule:
    """Require one number of partitions."""
    return rule(
        f"{named(names)} must have the same number of partitions",
        *names,
        help="slice axis 0 of the larger tile",
        source=ISA,
    )(lambda i, hw: len({t.shape[0] for t in tensors_of(i, names)}) <= 1)


def same_free_size(*names: str) -> Rule:
    """Require one number of elements per partition; ranks may differ, the free axes are a stream."""
    return rule(
        f"{named(names)} must have the same number of elements per partition",
        *names,
        help="slice the free axes of the larger tile, or repeat an axis of size 1 with .broadcast()",
        source=ISA,
    )(lambda i, hw: len({t.free_size for t in tensors_of(i, names)}) <= 1)


def same_element_count(*names: str) -> Rule:
    """Require one number of elements in all; shapes may differ."""
    return rule(
        f"{named(names)} must have the same number of elements",
        *names,
        help="slice the larger tensor",
        source=ISA,
    )(lambda i, hw: len({t.size for t in tensors_of(i, names)}) <= 1)


def same_grouping(first: str, second: str) -> Rule:
    """Remark on shapes that differ by more than axes merged, split or of one element."""

    def ends(t: NkiTensor) -> set[int]:
        return set(accumulate(t.shape, mul)) - {t.size}

    def holds(i: Instruction, hw: Target) -> bool:
        x, y = ends(getattr(i, first)), ends(getattr(i, second))
        return x <= y | {1} or y <= x | {1}

    def advice(i: Instruction) -> str:
        x, y = getattr(i, first), getattr(i, second)
        if x.shape == y.shape[::-1]:
            return (
                f"to transpose, use nisa.dma_transpose, or nisa.nc_transpose on chip; if row-major order is meant, give"
                f" `{second}` the shape {list(x.shape)} with reshape"
            )
        return (
            f"give `{second}` the shape of `{first}`, {list(x.shape)}, by a slice, or by reshape if row-major order is"
            " meant"
        )

    return rule(
        f"the shapes of `{first}` and `{second}` do not line up; elements are paired in row-major order",
        first,
        second,
        help=advice,
        source=ISA,
        finding="portability",
    )(holds)


def at_most(name: str, quantity: str, limit: str, text: str) -> Rule:
    """Require that `quantity` of tensor `name` is at most the number `limit` of the target.

    `quantity` is a property of NkiTensor ("free_size", "partitions"), `limit` a field of Target; `text` ends the
    sentence "the free size of `moving` must not exceed ...".
    """
    words = {"free_size": "number of elements per partition", "partitions": "number of partitions"}
    return rule(
        f"the {words.get(quantity, quantity)} of `{name}` must not exceed {text}",
        name,
        help="split the tile",
        source=ISA,
    )(lambda i, hw: all(getattr(t, quantity) <= getattr(hw, limit) for t in tensors_of(i, (name,))))


# -- memories and element types ---------------------------------------------------------------------------


def not_all_in(space: MemoryRegion, *names: str) -> Rule:
    """Require that the tensors among `names` are not all in `space`."""

    def holds(i: Instruction, hw: Target) -> bool:
        tensors = tensors_of(i, names)
        return len(tensors) < len(names) or any(t.buffer is not space for t in tensors)

    both = "both" if len(names) == 2 else "all"
    return rule(
        f"{named(names)} must not {both} be in {space.name}",
        *names,
        help="copy one of them to SBUF with nisa.tensor_copy",
        source=ISA,
        copy="sbuf" if space is PSUM else "",
    )(holds)


def same_dtype(*names: str) -> Rule:
    """Require one dtype."""
    return rule(
        f"{named(names)} must have the same dtype",
        *names,
        help="cast with nisa.tensor_copy into a tile of the other dtype",
        source=ISA,
    )(lambda i, hw: len({t.dtype for t in tensors_of(i, names)}) <= 1)


def not_packed(*names: str) -> Rule:
    """Refuse the x4 types, whose elements have no value by themselves."""
    return rule(
        f"{named(names)} must not have a packed (x4) dtype",
        *names,
        help="view the tile as uint32 (or uint16) to move its bits",
        source=f"{SHARED_API} (nki-dtype)",
    )(lambda i, hw: all(t.dtype.kind != "packed" for t in tensors_of(i, names)))


def float32_vectors(*names: str) -> Rule:
    """Require float32 of per-partition operands that are tiles."""
    return rule(
        f"{named(names)} must be float32 when given as a tile",
        *names,
        help="cast it with nisa.tensor_copy into a float32 tile",
        source=ISA,
        copy="float32",
    )(lambda i, hw: all(t.dtype == "float32" for t in tensors_of(i, names)))


# -- operators ---------------------------------------------------------------------------

_CLASS_WORDS = {
    OpClass.BITVEC: "bitvec",
    OpClass.ARITHMETIC: "arithmetic",
    OpClass.COMPARE: "comparison",
    OpClass.LOGICAL: "logical",
    OpClass.UNARY: "unary",
}

#: Every class with two float operands, for `legal_operator`.
BINARY_ARITHMETIC = (OpClass.ARITHMETIC, OpClass.COMPARE, OpClass.LOGICAL)


def operator_help(name: str, fits: Any = None) -> Any:
    """Return a `help=` that names the nki.language operator meant, or lists those that fit."""

    def advice(i: Instruction) -> str:
        value = getattr(i, name)
        if isinstance(value, Op):
            if value.refusal:
                return value.refusal
        elif meant := suggested_name(value):
            return f"write {name}=nl.{meant}"
        fitting = [n for n, row in ALU.items() if fits is None or fits(row)]
        return "one of " + ", ".join(f"nl.{n}" for n in fitting) if fitting else ""

    return advice


def legal_operator(
    name: str,
    *classes: OpClass,
    operands: int | None = None,
    optional: bool = False,
    simulated: bool = False,
) -> Rule:
    """Require that parameter `name` is an operator of one of `classes`, on a target that has it.

    Args:
        name: the parameter.
        classes: accepted classes.
        operands: 1 or 2 to accept only operators with this number of operands.
        optional: accept None.
        simulated: accept those that only NKI's simulator computes.
    """

    def fits(row: Any) -> bool:
        return row.kind in classes and operands in (None, row.operands)

    def holds(i: Instruction, hw: Target) -> bool:
        value = getattr(i, name)
        if value is None:
            return optional
        has_row = isinstance(value, Op) and value.alu is not None
        return has_row and fits(value.alu) and (simulated or not value.refusal)

    kinds = [_CLASS_WORDS[c] for c in classes]
    count = {None: "", 1: " with one operand", 2: " with two operands"}[operands]
    article = "an" if kinds[0][0] in "au" else "a"
    listed = " or ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    return rule(
        f"`{name}` must be {'None or ' if optional else ''}{article} {listed} operator of nki.language{count}",
        name,
        help=operator_help(name, fits),
        error=WrongOperand,
        source=f"{SHARED_API} (nki-aluop)",
    )(holds)


def one_of_operators(name: str, *allowed: str, optional: bool = False, instead: str = "") -> Rule:
    """Require that parameter `name` is one of the operators called `allowed`; `instead` helps with the others."""

    def holds(i: Instruction, hw: Target) -> bool:
        value = getattr(i, name)
        return (optional and value is None) or (isinstance(value, Op) and value.name in allowed)

    listed = " or ".join(f"nl.{n}" for n in allowed)
    return rule(
        f"`{name}` must be {'None or ' if optional else ''}{listed}",
        name,
        help=lambda i: (
            f"write {name}=nl.{meant}"
            if (meant := suggested_name(getattr(i, name))) in allowed
            else instead
        ),
        error=WrongOperand,
        source=ISA,
    )(holds)


_ON_EVERY_TARGET = {
    "abs_max": "compare nl.abs of the tiles",
    "abs_min": "compare nl.abs of the tiles",
    "square": "use nisa.activation(op=nl.square), or multiply the tile by itself with nisa.tensor_tensor",
    "relu": "use op0=nl.maximum with operand0=0.0",
}


def operator_of_an_engine(*names: str) -> Rule:
    """Find operators that NKI's simulator computes and no engine has."""

    def missing(i: Instruction) -> list[Op]:
        ops = (getattr(i, n) for n in names)
        return [op for op in ops if isinstance(op, Op) and op.alu is not None and op.refusal]

    return rule(
        f"{named(names)} must be an operator that an engine has; NKI's simulator runs it, NKI's compiler refuses it",
        *names,
        help=lambda i: missing(i)[0].refusal,
        source=f"{SHARED_API} (nki-aluop)",
        finding="portability",
    )(lambda i, hw: not missing(i))


def operator_on_target(*names: str) -> Rule:
    """Refuse operators that the target does not have (those of NeuronCore-v4 before it)."""

    def holds(i: Instruction, hw: Target) -> bool:
        ops = [getattr(i, n) for n in names]
        rows = [op.alu for op in ops if isinstance(op, Op) and op.alu is not None]
        return all(not row.feature or hw.supports(row.feature) for row in rows)

    def advice(i: Instruction) -> str:
        ops = [op for n in names if isinstance(op := getattr(i, n), Op)]
        op = next(op for op in ops if op.name in _ON_EVERY_TARGET)
        return f"{op!r} needs NeuronCore-v4; {_ON_EVERY_TARGET[op.name]}"

    return rule(
        f"the target must have the operator in {named(names, 'or')}",
        *names,
        help=advice,
        error=NotOnTarget,
        source=f"{LANGUAGE}:846, {NKI_RELEASES}:228",
    )(holds)


def reduction_operator(name: str, optional: bool = False) -> Rule:
    """Require a legal reduction operator."""

    def holds(i: Instruction, hw: Target) -> bool:
        value = getattr(i, name)
        return (optional and value is None) or (isinstance(value, Op) and value.can_reduce)

    return rule(
        f"`{name}` must be {'None or ' if optional else ''}an operator that may reduce",
        name,
        help=operator_help(name, lambda row: row.reduction is not None),
        error=WrongOperand,
        source=f"{SHARED_API} (nki-aluop, Legal Reduction op)",
    )(holds)


def operand_suits(op: str, operand: str) -> Rule:
    """Require an operand for an operator with two of them, and none (or 0) for a unary one."""

    def holds(i: Instruction, hw: Target) -> bool:
        operator, value = getattr(i, op), getattr(i, operand)
        if operator is None:
            return value is None
        if operator.is_unary:
            return value is None or (type(value) is not NkiTensor and value == 0)
        return value is not None

    return rule(
        f"`{operand}` must be given for `{op}` with two operands, and be None or 0 for one with one operand",
        operand,
        op,
        help=f"pass a number or a [partitions, 1] tile as {operand}",
        error=WrongOperand,
        source=f"{ISA}:1147",
    )(holds)


def vector_has_operator(*names: str) -> Rule:
    """Refuse the operators of GpSimd in an instruction that only Vector runs."""
    return rule(
        f"{named(names)} must not be nl.power or nl.rsqrt, which only GpSimd computes",
        *names,
        help="use nisa.tensor_tensor for nl.power, nisa.tensor_scalar for nl.rsqrt",
        error=WrongOperand,
        source=f"{ISA}:1019",
    )(lambda i, hw: all(VECTOR in getattr(i, n).alu.engines for n in names))


def integers_for_bitvec(op: str, *names: str) -> Rule:
    """Require integer tiles of one width, and integer numbers, where `op` works on bit patterns.

    The documents ask for integer types and say that nothing is cast; what tiles of different widths give is not
    said, so they are refused.
    """

    def holds(i: Instruction, hw: Target) -> bool:
        if not getattr(i, op).is_bitvec:
            return True
        tiles = tensors_of(i, names)
        numbers = [v for n in names if type(v := getattr(i, n)) in (float, bool)]
        return (
            not numbers
            and all(t.dtype.is_integer for t in tiles)
            and len({t.dtype.itemsize for t in tiles}) <= 1
        )

    return rule(
        f"{named(names)} must be integers of one width for a bitvec operator",
        *names,
        op,
        help="cast with nisa.tensor_copy, or reinterpret the bits with .view(nl.int32)",
        source=f"{SHARED_API} (nki-aluop)",
    )(holds)


# -- choices ---------------------------------------------------------------------------


def choice(name: str, kind: type[Enum], *members: Enum) -> Rule:
    """Require a member of `kind`, one of `members` if given (the builder has turned values into members)."""
    allowed = members or tuple(kind)
    listed = ", ".join(repr(m) for m in allowed)
    return rule(
        f"`{name}` must be {listed if len(allowed) < 5 else f'a member of nisa.{kind.__name__}: {listed}'}",
        name,
        help=f"e.g. {name}={allowed[0]!r}",
        error=WrongOperand,
        source=ISA,
    )(lambda i, hw: type(getattr(i, name)) is kind and getattr(i, name) in allowed)


def engine_in(*engines: Engine) -> Rule:
    """Require that `engine` is unknown or one of `engines`."""
    listed = ", ".join(repr(e) for e in engines)
    return rule(
        f"`engine` must be one that runs this instruction: {listed} or {Engine.unknown!r}",
        "engine",
        help="leave `engine` out to let the compiler choose",
        error=WrongOperand,
        source=ISA,
    )(lambda i, hw: i.engine is Engine.unknown or i.engine in engines)


def engine_on_target(engine: Engine, feature: str, instead: str) -> Rule:
    """Refuse `engine` where the target lacks `feature`; `instead` says what to write."""
    return rule(
        f"`engine` may be {engine!r} only on a target with {FEATURES[feature]}",
        "engine",
        help=instead,
        error=NotOnTarget,
        source=ISA,
    )(lambda i, hw: i.engine is not engine or hw.supports(feature))


def gpsimd_without_psum(*names: str) -> Rule:
    """Refuse PSUM tiles where `engine` is GpSimd, which cannot reach that memory."""
    return rule(
        f"{named(names)} must not be in psum when `engine` is {GPSIMD!r}",
        *names,
        "engine",
        help="copy the tile to SBUF with nisa.tensor_copy, or use engine=nisa.engine.vector",
        source=ISA,
        copy="sbuf",
    )(
        lambda i, hw: (
            i.engine is not GPSIMD or all(t.buffer is not PSUM for t in tensors_of(i, names))
        )
    )


def flag(*names: str) -> Rule:
    """Require booleans."""
    return rule(
        f"{named(names)} must be True or False",
        *names,
        help=f"e.g. {names[0]}=True",
        error=RuleBroken,
        source=ISA,
    )(lambda i, hw: all(type(getattr(i, n)) is bool for n in names))
