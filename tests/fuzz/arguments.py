"""Draws arguments with which an instruction may be called in a random kernel.

The definition tells: its operands give memories, dtypes and shapes, defaults and names of parameters give the values to
try, and its rules say what is wrong with a try. Of a broken rule the parameters it is about are drawn anew, until none
is broken. So every instruction of the registry takes part, new ones too, without being named here.
"""

from __future__ import annotations

import random
import re
from enum import Enum
from math import prod
from typing import Any

from nki_lab.dtypes import DTYPES, DType, int32
from nki_lab.ir.definition.instruction import READ, Definition, Form, Instruction, Operand, Shape
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.register import NkiScalar, Register, VirtualRegister
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.isa import registry
from nki_lab.isa.operators import OPS
from nki_lab.targets.engines import Engine
from nki_lab.targets.spec import Target
from tests.fuzz.world import INDEX_DTYPES, MOST_INDEX, WEIGHTS, World

TRIES = 40
#: Instructions in which cores or ranks meet: a kernel here runs alone.
DEFINITIONS = tuple(d for d in registry.values() if not d.waits_for_others)
_OPERATORS = tuple(op for op in OPS.values() if not op.refusal)
_BASIC = tuple(op for op in _OPERATORS if op.alu is not None)
_NUMBERS = (0, 1, 2, 3, 8, 16, 0.0, 1.0, 0.5, -1.5, -1)
_FEW = (0, 1, 2, 4, 6, 8, 16)
#: Values for parameters that nothing in a definition tells how to fill: lists of numbers, by name.
_LISTS: dict[str, Any] = {
    "pattern": lambda pick, n: pick.choice(([[1, n]], [[-2, n]], [[3, n // 2], [1, 2]])),
    "shuffle_mask": lambda pick, n: [pick.choice((k, 255, pick.randrange(32))) for k in range(32)],
    "axis": lambda pick, n: pick.choice((1, 2, (1,), (1, 2), (2,), -1)),
    "axes": lambda pick, n: pick.choice((None, (1, 0), (0, 1), (1, 0, 2), (2, 0, 1), (0, 2, 1))),
    "scales": lambda pick, n: pick.choice((None, [1.0], [1.0, 1.0], [0.5, 2.0])),
    "tile_position": lambda pick, n: pick.choice((None, None, (0, 0), (32, 32), (64, 0))),
    "tile_size": lambda pick, n: pick.choice((None, None, (128, 128), (64, 64), (32, 32))),
    "replica_group": lambda pick, n: ((0,),),
    "keepdims": lambda pick, n: pick.random() < 0.5,
}  # fmt: skip


class Drawing:
    """The search for the arguments of one instruction."""

    def __init__(self, world: World, definition: Definition, pick: random.Random) -> None:
        self.world = world
        self.definition = definition
        self.pick = pick
        self.rows = pick.choice((1, 4, 16, 32, 32, 64, 128))
        self.free = pick.choice((1, 2, 4, 8, 8, 12, 16))
        self.dtype = self._any_dtype()
        self.args: dict[str, Any] = {}
        # What the sentence of the rule that was broken last is about: numbers, operators, and whether dtypes or sizes.
        self.numbers: tuple[int, ...] = ()
        self.operators: tuple[Any, ...] = ()
        self.keeps_dtype = self.keeps_shape = self.wants_register = self.wants_scalar = False

    @property
    def target(self) -> Target:
        return self.world.builder.target

    def found(self) -> Instruction | None:
        """Return an instruction that breaks no rule and is told of no hazard, or None after many tries."""
        definition = self.definition
        if not all(self.target.supports(f) for f in definition.requires):
            return None
        for name in definition.params:
            self.args[name] = self._value(name, first=True)
        for _ in range(TRIES):
            i = Instruction(definition, tuple(self.args[n] for n in definition.params))
            form = Form(i, self.target, self.world.builder.version)
            broken = (*form.broken, *(r for r in form.remarks if r.finding == "hazard"))
            if not broken:
                return i if self._reaches(i) else None
            for rule in broken:
                about = rule.about or definition.params
                if self.pick.random() < 0.8:  # the others are to fit those that are harder to get
                    about = [n for n in about if not self._is_gathered(n)] or about
                self._take_hints(rule.text)
                self._draw_anew(about if self.pick.random() < 0.3 else (self.pick.choice(about),))
        return None

    def _is_gathered(self, name: str) -> bool:
        value = self.args[name]
        dynamic = value.dynamic if type(value) is NkiTensor else None
        return dynamic is not None and dynamic.kind is not Addressing.SCALAR

    def _take_hints(self, text: str) -> None:
        """Note what the sentence of a broken rule tells about arguments that would do."""
        self.numbers = tuple(int(n) for n in re.findall(r"\b\d{1,3}\b", text))
        self.numbers += (1,) * (" one " in text)
        self.operators = tuple(OPS[n] for n in re.findall(r"\bnl\.(\w+)", text) if n in OPS)
        sizes = any(word in text for word in ("partition", "element", "shape", "axes", "column"))
        dtypes = "dtype" in text or "float" in text
        self.keeps_shape = dtypes and not sizes and self.pick.random() < 0.8
        self.keeps_dtype = sizes and not dtypes and self.pick.random() < 0.8
        self.wants_register = "must be a register" in text
        self.wants_scalar = "NkiScalar" in text

    @staticmethod
    def _reaches(i: Instruction) -> bool:
        """Tell whether what indices may be lies within what they choose from."""
        tensors = {
            n: v for n, v in zip(i.definition.params, i.args, strict=True) if type(v) is NkiTensor
        }
        if not any(_is_index(n) for n in tensors):
            return True
        return all(_is_index(n) or v.free_size > MOST_INDEX for n, v in tensors.items())

    def _draw_anew(self, names: Any) -> None:
        for name in names:
            self.args[name] = self._value(name, first=False)

    # -- values --------------------------------------------------------------------------------------------------

    def _value(self, name: str, first: bool) -> Any:
        """Return a value for a parameter; the `first` one is the likeliest."""
        pick, definition = self.pick, self.definition
        operand = definition.operands.get(name)
        default = definition.signature.parameters[name].default
        if name == "name":
            return None
        if name in definition.sets:
            return self._register()
        if (
            definition.sets and name == "src" and operand is None
        ):  # registers move views: small numbers
            return pick.choice((0, 1, 2, 3, self._register()))
        given = default is not definition.signature.parameters[name].empty
        if operand is not None:
            return self._operand(name, operand, default if given else ..., first)
        if given and pick.random() < (0.6 if first else 0.3):
            return definition.taken(name, default)
        if isinstance(default, Engine) or name == "engine":
            return pick.choice((Engine.unknown, *definition.engines))
        if isinstance(default, Enum):
            return pick.choice(list(type(default)))
        if name in _LISTS:
            value = _LISTS[name](pick, self.free)
            return (
                tuple(tuple(v) if type(v) is list else v for v in value)
                if type(value) is list
                else value
            )
        if name == "op" or "_op" in name or name.startswith("op"):
            if self.operators and pick.random() < 0.7:
                return pick.choice(self.operators)
            return pick.choice(_BASIC if pick.random() < 0.5 else _OPERATORS)
        if isinstance(default, bool) or name.startswith(("is_", "reverse")):
            return pick.random() < (0.1 if name.startswith("is_") else 0.5)  # they promise values
        kind = NkiScalar if self.wants_scalar else VirtualRegister
        known = [r for r in self.world.registers if type(r) is kind and not r.frozen]
        if known and pick.random() < (1.0 if self.wants_register or self.wants_scalar else 0.15):
            return pick.choice(known)
        return pick.choice((*_NUMBERS, *self.numbers))

    def _register(self) -> Any:
        world = self.world
        if self.definition.like:  # a scalar is set once
            return NkiScalar._make(-1, "sketch", world.builder, int32)
        free = [r for r in world.registers if type(r) is VirtualRegister and not r.frozen]
        if free and self.pick.random() < 0.7:
            return self.pick.choice(free)
        return VirtualRegister(-1, "sketch", world.builder)

    def _operand(self, name: str, operand: Operand, default: Any, first: bool) -> Any:
        pick = self.pick
        if operand.optional and pick.random() < 0.4:
            return None
        if operand.scalar and pick.random() < 0.5:
            return (
                pick.choice(_NUMBERS) if default in (..., None) or pick.random() < 0.7 else default
            )
        if operand.many:
            return tuple(
                self._tensor(name, operand, first) for _ in range(pick.choice((1, 2, 2, 3)))
            )
        return self._tensor(name, operand, first)

    def _any_dtype(self) -> DType:
        return DTYPES[self.pick.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]]

    def _dtype_of(self, operand: Operand, first: bool) -> DType:
        pick, allowed = self.pick, operand.dtypes
        near = [self.dtype, *(v.dtype for v in self.args.values() if type(v) is NkiTensor)]
        choices = [d for d in (near[:1] if first else near) if allowed is None or d in allowed]
        if choices and pick.random() < 0.75:
            return pick.choice(choices)
        if allowed is None or not allowed:
            return self._any_dtype()
        names = sorted(map(str, allowed))
        return DTYPES[pick.choices(names, [WEIGHTS.get(n, 1) for n in names])[0]]

    def _shape_of(self, operand: Operand, now: NkiTensor | None, first: bool) -> tuple[int, ...]:
        pick, rows, free = self.pick, self.rows, self.free
        if operand.shape is Shape.VECTOR:
            return (self._rows_of_dst(), 1)
        if first or pick.random() < 0.35:
            shape: tuple[int, ...] = (rows, free)
        else:
            others = [v.shape for v in self.args.values() if type(v) is NkiTensor]
            a = pick.choice(others) if others else (rows, free)
            n = prod(a[1:])
            told = [
                m for k in self.numbers if 0 < k <= 128
                for m in ((a[0], k), (k, n), (k, k), (rows, k * free), (a[0], k, n))
            ]  # fmt: skip
            told += [(a[0], *now.shape[1:]), (now.shape[0], *a[1:])] if now is not None else []
            shape = pick.choice((
                *told, *told, (a[0], n + 1),
                a, (a[0], n), (rows, pick.choice(_FEW[1:])), (n, a[0]), (n, free), (a[0], 1), (1, n), (rows, 8),
                (1, 1), (rows, 2 * n), (rows, max(1, n // 2)), (a[-1], *a[1:-1], a[0]), (a[0], a[-1]), (4 * a[0], n),
                (a[0], *a[1:-1]) if len(a) > 2 else a, (128, n), (32, free), (max(1, n // 4), free),
            ))  # fmt: skip
            shape = (min(max(shape[0], 1), 128), *(min(max(s, 1), 64) for s in shape[1:]))
        n = prod(shape[1:])
        if len(shape) == 2 and n > 2 and n % 2 == 0 and pick.random() < 0.25:
            shape = (shape[0], *pick.choice(((2, n // 2), (n // 2, 2), (1, n))))
        return shape

    def _rows_of_dst(self) -> int:
        dst = self.args.get("dst")
        return dst.shape[0] if type(dst) is NkiTensor else self.rows

    def _tensor(self, name: str, operand: Operand, first: bool) -> NkiTensor:
        pick, world = self.pick, self.world
        held = self.args.get(name)
        now = held if type(held) is NkiTensor else None
        shape, dtype = self._shape_of(operand, now, first), self._dtype_of(operand, first)
        if now is not None:
            shape = now.shape if self.keeps_shape else shape
            dtype = now.dtype if self.keeps_dtype else dtype
        written = operand.role != READ
        if self.definition.sets:  # registers move views, so they hold what indices may
            return world.index_tile(1, 1, "int32")
        if not written and _is_index(name):
            names = [n for n in INDEX_DTYPES if operand.dtypes is None or n in operand.dtypes]
            if names:
                return world.index_tile(shape[0], prod(shape[1:]), pick.choice(names))
        near = [
            v for v in self.args.values()
            if type(v) is NkiTensor and v.dynamic is None and v.storage.buffer in operand.spaces
            and v.shape == shape and v.dtype is dtype
            and not (written and (v.storage.id in world.index_ids or v.dtype is not v.storage.dtype))
        ]  # fmt: skip
        if near and pick.random() < 0.35:  # in place, or shifted within one tensor
            v = pick.choice(near)
            return v if pick.random() < 0.5 else world._part(v.storage, shape, dtype, written)
        if (
            (operand.rows or operand.indirect)
            and not world.choices.overlaps
            and pick.random() < 0.15
        ):
            gathered = self._gathered(operand, shape, dtype)
            if gathered is not None:
                return gathered
        view = world.view(operand.spaces, shape, dtype, written)
        return self._dynamic(operand, view)

    def _dynamic(self, operand: Operand, view: NkiTensor) -> NkiTensor:
        """Return the view, or one like it whose address depends on the device."""
        pick, world = self.pick, self.world
        if world.choices.overlaps:
            return view
        chance = pick.random()
        if chance < (0.3 if world.loops else 0.12):
            moved = world.moved(view)
            return view if moved is None else moved
        return view

    def _gathered(self, operand: Operand, shape: tuple[int, ...], dtype: DType) -> NkiTensor | None:
        """Return rows of HBM, or elements of a tile, that a tile of indices chooses; None where nothing fits."""
        pick, world = self.pick, self.world
        rows, size = shape[0], prod(shape[1:])
        written = operand.role != READ
        if operand.rows and len(shape) == 2:
            least = rows if written else MOST_INDEX + 1
            fitting = [
                s for s in world.tensors
                if not s.on_chip and s.dtype is dtype and len(s.shape) == 2
                and s.shape[0] >= least and s.shape[1] >= size and not (written and s.id in world.index_ids)
            ]  # fmt: skip
            if fitting:
                s = pick.choice(fitting)
                first = pick.randint(0, s.shape[1] - size)
                index = world.index_tile(rows, 1, "int32", distinct=written)
                return whole_view(s)[:, first : first + size].vector_select(0, index)
        elif operand.indirect and self.target.supports("tensor_indirection") and not written:
            fitting = [
                s for s in world.tensors
                if s.on_chip and s.dtype is dtype and s.buffer in operand.spaces and s.partitions >= rows
                and s.row_bytes > MOST_INDEX * dtype.itemsize
            ]  # fmt: skip
            if fitting:
                s = pick.choice(fitting)
                row = s.row_bytes // dtype.itemsize
                index = world.index_tile(
                    rows, -(-size // min(rows, 16)), pick.choice(("uint16", "uint32"))
                )
                whole = NkiTensor._make(s, (s.partitions, row), (row, 1), 0, dtype)
                return whole[0:rows].indirect(index, size)
        return None


def _is_index(name: str) -> bool:
    return "index" in name or "indices" in name or name.endswith("_ids")


def emit(
    world: World, definition: Definition, pick: random.Random, name: str | None = None
) -> Instruction | None:
    """Append an instruction with random legal arguments, after what its operands need; None where none was found."""
    i = Drawing(world, definition, pick).found()
    if i is None:
        return None
    views = [*i.read(), *i.written()]
    if not world.may_touch({v.storage for v in views}):
        world.counts["rejected: address in use"] += 1
        return None
    made: dict[int, Storage] = {}
    new: dict[int, Any] = {}

    def real(value: Any) -> Any:
        if type(value) is tuple:
            return tuple(real(v) for v in value)
        if isinstance(value, Register) and value.id < 0:
            if id(value) not in new:
                name = f"r{len(world.builder.registers)}"
                is_scalar = isinstance(value, NkiScalar)
                new[id(value)] = (
                    world.builder.scalar(value, name=name)
                    if is_scalar
                    else world.builder.register(name)
                )
            return new[id(value)]
        if type(value) is not NkiTensor or value.storage.id >= 0:
            return value
        storage = made.get(id(value.storage))
        if storage is None:
            storage = made[id(value.storage)] = world.real(value.storage)
        return NkiTensor._make(storage, value.shape, value.strides, value.offset, value.dtype)

    args = tuple(real(v) for v in i.args)
    checked = Instruction(definition, args)
    form = Form(checked, world.builder.target, world.builder.version)
    if form.broken or any(
        r.finding == "hazard" for r in form.remarks
    ):  # an address on other partitions
        world.counts["rejected: partition of an address"] += 1
        return None
    if not world.may_touch({v.storage for v in (*checked.read(), *checked.written())}):
        world.counts["rejected: address in use"] += 1
        return None
    usable = {id(r) for r in world.registers}
    if any(id(r) not in usable and not r.frozen for r in checked.registers_read()):
        return None
    for view in checked.read():
        fill_first = "accumulate" not in definition.position or not any(
            v is view for v in checked.written()
        )
        if not world.choices.raw and fill_first and not world.is_written(view):
            world.fill(view.storage)
    if name is not None and "name" in definition.position:
        at = definition.position["name"]
        args = (*args[:at], name, *args[at + 1 :])
    emitted = world.builder.emit(definition, args)
    world.note(emitted)
    for register in emitted.registers_written():
        if id(register) not in usable and not world.loops:
            world.registers.append(register)
    return emitted
