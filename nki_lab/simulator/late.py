"""How does an instruction run whose address or operand is a value of the device?

It is bound when its turn comes: registers and tiles of indices have their values then. A view moved by one value
becomes a plain view; rows or elements named by a tile of indices are gathered into an array of their own before the
instruction, or scattered from one after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nki_lab.errors import AddressOutOfRange, NotModelled, UnwrittenRegister
from nki_lab.ir.bounds import leaves_storage
from nki_lab.ir.dynamic import Addressing
from nki_lab.ir.instruction import READ, Instruction
from nki_lab.ir.layout import contiguous_strides
from nki_lab.ir.register import Register
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor
from nki_lab.simulator.bind import Binder
from nki_lab.simulator.memory import Base, Memory
from nki_lab.targets.engines import TENSOR

_SIGN, _RANGE = 1 << 31, 1 << 32
_ELEMENT_GROUP, _ELEMENT_GROUP_TENSOR = (
    16,
    32,
)  # nki/api/nki/language/__init__.py, NkiTensor.indirect


class RegisterFile:
    """Values of a kernel's registers, 32-bit signed; reading one that was never set is an error."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.values = np.zeros(len(names), np.int64)
        self.known = np.zeros(len(names), bool)

    def clear(self) -> None:
        """Forget all values, before a run."""
        self.known[...] = False

    def get(self, register: Register, i: Instruction | None = None) -> int:
        """Return the value of a register."""
        if not self.known[register.id]:
            raise UnwrittenRegister(
                f"register `{register.name}` is read but was never set",
                stack=i.stack if i is not None else (),
                help="set it with nisa.register_move or nisa.register_load first",
            )
        return int(self.values[register.id])

    def set(self, register: Register, value: int) -> None:
        """Set a register; only the low 32 bits are kept."""
        self.values[register.id] = (value + _SIGN) % _RANGE - _SIGN
        self.known[register.id] = True


class Late:
    """Runs instructions that are bound when their turn comes."""

    def __init__(self, memory: Memory, binder: Binder, registers: RegisterFile) -> None:
        self.memory = memory
        self.binder = binder
        self.registers = registers
        self._made = 0

    def run(self, i: Instruction) -> None:
        """Run one instruction with the values registers and indices have now."""
        definition = i.definition
        roles = dict(definition.roles(i))
        args = list(i.args)
        after: list[Callable[[], None]] = []
        skip = "oob_mode" in definition.position and i.oob_mode.name == "skip"
        keep: np.ndarray | None = None  # which elements a skipped row leaves alone
        for position, value in enumerate(args):
            if type(value) is Register and definition.params[position] not in definition.sets:
                args[position] = self.registers.get(value, i)
            elif type(value) is NkiTensor and value.dynamic is not None:
                if value.dynamic.kind is Addressing.SCALAR:
                    moved = self._moved(i, value, skip)
                    if moved is None:
                        return
                    args[position] = moved
                else:
                    places, valid = self._places(i, value, skip)
                    args[position] = self._stand_in(
                        value, places, valid, roles.get(position, READ), after
                    )
                    if roles.get(position) == READ and not valid.all():
                        keep = np.broadcast_to(
                            valid.reshape(valid.shape + (1,) * (value.ndim - valid.ndim)),
                            value.shape,
                        )
            elif type(value) is tuple and any(
                getattr(v, "dynamic", None) is not None for v in value
            ):
                raise NotModelled(
                    f"{definition.name}: dynamic addresses in a list of tensors are not modelled",
                    stack=i.stack,
                )
        if keep is not None:
            self._keep_skipped(i, args, keep, after)
        static = Instruction(definition, tuple(args), i.stack)
        static.form = i.form
        for step in self.binder.bind(static):
            step()
        for position in i.form.registers_set:
            self.registers.set(i.args[position], int(self.binder.set_values[position][0]))
        for finish in after:
            finish()
        for n in range(self._made):
            self.memory.drop(-1 - n)
        self._made = 0

    def _moved(self, i: Instruction, view: NkiTensor, skip: bool) -> NkiTensor | None:
        """Return a view as one index places it, or None when it is out of range and skipped."""
        dynamic = view.dynamic
        assert dynamic is not None
        index = dynamic.index
        if isinstance(index, Register):
            value = self.registers.get(index, i)
        else:
            value = int(self.memory.array(index).reshape(-1)[0])
        offset = view.offset + value * dynamic.step
        outside = (dynamic.limit and not 0 <= value < dynamic.limit) or leaves_storage(
            view.storage, view.shape, view.strides, offset, view.dtype.itemsize
        )
        if not outside:
            return NkiTensor._make(view.storage, view.shape, view.strides, offset, view.dtype)
        if skip:
            return None
        raise self._out_of_range(i, view, value, "")

    def _places(self, i: Instruction, view: NkiTensor, skip: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat element each element of a view is at, and which rows or elements are valid."""
        dynamic = view.dynamic
        assert dynamic is not None and isinstance(dynamic.index, NkiTensor)
        index = self.memory.array(dynamic.index).astype(np.int64)
        if dynamic.kind is Addressing.VECTOR:
            chosen = index.reshape(-1)
            inner = _offsets(view.shape[1:], view.strides[1:])
            elements = view.storage.nbytes // view.dtype.itemsize
            start = view.offset + chosen * dynamic.step
            reach = int(inner.max(initial=0))
            valid = (chosen >= 0) & (start >= 0) & (start + reach < elements)
            places = np.where(valid, start, 0).reshape(-1, *(1,) * (view.ndim - 1)) + inner
        else:
            group = _ELEMENT_GROUP_TENSOR if i.form.engine is TENSOR else _ELEMENT_GROUP
            count = view.shape[1]
            if count > min(group, len(index)) * index.shape[1]:
                raise AddressOutOfRange(
                    f"{i.definition.name}: {count} offsets are used, the index holds"
                    f" {min(group, len(index)) * index.shape[1]} for each group of {group} partitions",
                    stack=i.stack,
                    help="pass num_elem to indirect()",
                )
            chosen = np.concatenate(
                [
                    np.broadcast_to(
                        index[g : g + group].ravel(order="F")[:count],
                        (min(group, len(index) - g), count),
                    )
                    for g in range(0, len(index), group)
                ]
            )
            valid = (chosen >= 0) & (chosen < dynamic.limit)
            rows = view.offset + np.arange(view.shape[0])[:, None] * view.strides[0]
            places = rows + np.where(valid, chosen, 0)
        if not valid.all() and not (skip and dynamic.kind is Addressing.VECTOR):
            where = tuple(int(n) for n in np.argwhere(~valid)[0])
            raise self._out_of_range(
                i,
                view,
                int(np.broadcast_to(chosen, valid.shape)[where]),
                f" for partition {where[0]}",
            )
        return places, valid

    def _out_of_range(
        self, i: Instruction, view: NkiTensor, value: int, where: str
    ) -> AddressOutOfRange:
        dynamic = view.dynamic
        assert dynamic is not None
        limit = f"valid are 0 to {dynamic.limit - 1}" if dynamic.limit else "it leaves the tensor"
        return AddressOutOfRange(
            f"{i.definition.name}: index {value}{where} is out of range for {view.storage.describe()}: {limit}",
            stack=i.stack,
            help="clip the indices, or pass oob_mode=nisa.oob_mode.skip where the instruction has it",
        )

    def _stand_in(
        self,
        view: NkiTensor,
        places: np.ndarray,
        valid: np.ndarray,
        role: str,
        after: list[Callable[[], None]],
    ) -> NkiTensor:
        """Return a contiguous tensor with the elements at `places`; written ones go back after the instruction."""
        flat = self.memory.array(_flat(view))
        if view.storage.on_chip:
            flat = flat.reshape(-1)
        array = np.ascontiguousarray(flat[places])
        if role != READ:
            after.append(partial(_scatter, flat, places, valid, array))
        return self._adopt(view, array)

    def _adopt(self, view: NkiTensor, array: np.ndarray) -> NkiTensor:
        self._made += 1
        storage = Storage(
            -self._made, view.name, view.shape, view.dtype, view.buffer,
            address=view.storage.address, owner=view.storage.owner,
        )  # fmt: skip
        pitch = array.nbytes // storage.partitions
        self.memory.adopt(storage, Base(array.reshape(-1).view(np.uint8), 0, pitch))
        return storage.whole()

    def _keep_skipped(
        self,
        i: Instruction,
        args: list[Any],
        keep: np.ndarray,
        after: list[Callable[[], None]],
    ) -> None:
        """Let the instruction write an array of its own, and copy back what was not skipped."""
        definition = i.definition
        position = definition.position["dst"]
        dst = args[position]
        if "axes" in definition.position or dst.size != keep.size:
            raise NotModelled(
                f"{definition.name}: skipping rows that are out of range is not modelled here",
                stack=i.stack,
                help="clip the indices",
            )
        real = self.memory.array(dst)
        temporary = np.array(real, order="C")
        args[position] = self._adopt(
            NkiTensor._make(dst.storage, dst.shape, contiguous_strides(dst.shape), 0, dst.dtype),
            temporary,
        )
        mask = keep.reshape(dst.shape)
        after.insert(0, lambda: np.copyto(real, temporary, where=mask))


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        total = total + steps.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return total


def _flat(view: NkiTensor) -> NkiTensor:
    """Return all elements of a view's storage, in its dtype: on chip [partitions, elements], else one axis."""
    storage = view.storage
    if storage.on_chip:
        row = storage.row_bytes // view.dtype.itemsize
        shape: tuple[int, ...] = (storage.partitions, row)
    else:
        shape = (prod(storage.shape) * storage.dtype.itemsize // view.dtype.itemsize,)
    return NkiTensor._make(storage, shape, contiguous_strides(shape), 0, view.dtype)


def _scatter(flat: np.ndarray, places: np.ndarray, valid: np.ndarray, array: np.ndarray) -> None:
    if valid.all():
        flat[places] = array
    else:
        flat[places[valid]] = array[valid]
