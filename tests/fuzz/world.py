"""The tensors of a random kernel, and the views of them that its next instruction may take.

What an instruction asks for is a view of a tensor that exists, where one fits: so one tensor is used several times, in
views that are shifted against each other. New tensors are made where nothing fits. What is to be read is written
first, but in kernels that are to read unwritten memory. Tensors of indices hold integers from 0 to 3 and are only
copied, so that every address the device computes is in range.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nki_lab.api import isa as nisa
from nki_lab.dtypes import DTYPES, DType
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.register import Register, VirtualRegister
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import DynamicSlice, NkiTensor, whole_view
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM, MemoryRegion

ROWS, COLUMNS = 128, 48
INDEX_DTYPES = ("int32", "uint32", "int16", "uint16")
MOST_INDEX = 3
#: How often a dtype is chosen, relative to the others.
WEIGHTS = {
    "float32": 12, "bfloat16": 6, "int32": 5, "float16": 3, "uint8": 2, "uint32": 2, "int8": 1, "int16": 1,
    "uint16": 2, "float8_e4m3": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1, "bool_": 1,
    "tfloat32": 1, "float8_e4m3fn_x4": 1, "float8_e5m2_x4": 1, "float4_e2m1fn_x4": 1,
}  # fmt: skip


@dataclass
class Choices:
    """What a kernel is like as a whole.

    Attributes:
        raw: it may read what nothing has written.
        explicit: share of tiles with an address of the author.
        window: bytes of a partition in which such addresses lie.
        skips: passes to leave out.
        overlaps: tiles share bytes while they are in use, which is a finding; there are no loops and no dynamic
            addresses, with which a tile that is taken to be unwritten would be filled.
    """

    raw: bool = False
    explicit: float = 0.0
    window: int = 1024
    skips: tuple[str, ...] = ()
    overlaps: bool = False


class World:
    """The tensors and registers of a kernel that is being written."""

    def __init__(self, builder: Builder, choices: Choices, pick: random.Random) -> None:
        self.builder = builder
        self.choices = choices
        self.pick = pick
        self.counts: Counter[str] = Counter()
        self.tensors: list[Storage] = []
        self.registers: list[Register] = []
        self.arrays: list[np.ndarray] = []
        self.written: dict[int, np.ndarray] = {}  # per byte, by storage
        self.indices: dict[str, NkiTensor] = {}
        self.inputs: dict[str, NkiTensor] = {}
        self.index_ids: set[int] = set()
        self.distinct_ids: set[int] = set()
        self.touched: dict[int, int] = {}  # storage -> the outermost loop in which it was used last
        self.retired: set[int] = set()
        self.loops: list[tuple[int, Register]] = []
        self.saved: list[dict[int, np.ndarray]] = []  # per open loop
        self._make_inputs()

    def _make_inputs(self) -> None:
        rng = np.random.default_rng(self.pick.getrandbits(32))
        wide = self.pick.sample([n for n in WEIGHTS if n != "tfloat32"], 4)
        for name in dict.fromkeys(("float32", *wide)):
            dtype = DTYPES[name]
            made = self.builder.allocate(
                (ROWS, COLUMNS), dtype, SHARED_HBM, f"in_{name}", origin="input"
            )
            self.inputs[name] = made
            self.tensors.append(made.storage)
            self._note_all(made.storage)
            self.arrays.append(_values(rng, dtype))
        for name in INDEX_DTYPES:
            values = rng.integers(0, MOST_INDEX + 1, (ROWS, 8)).astype(DTYPES[name].np)
            self.indices[name] = self._index_input(f"index_{name}", values)
        self.ladder = self._index_input("ladder", np.arange(ROWS - 1, -1, -1, np.int32)[:, None])

    def _index_input(self, name: str, values: np.ndarray) -> NkiTensor:
        dtype = DTYPES[values.dtype.name]
        made = self.builder.allocate(values.shape, dtype, SHARED_HBM, name, origin="input")
        self.index_ids.add(made.storage.id)
        self._note_all(made.storage)
        self.arrays.append(values)
        return made

    # -- what is written -----------------------------------------------------------------------------------------

    def _bytes(self, storage: Storage) -> np.ndarray:
        mask = self.written.get(storage.id)
        if mask is None:
            mask = self.written[storage.id] = np.zeros(storage.nbytes, bool)
        return mask

    def _note_all(self, storage: Storage) -> None:
        self._bytes(storage)[...] = True

    def _window(self, view: NkiTensor) -> np.ndarray:
        size = view.dtype.itemsize
        steps = [s * size for s in view.strides]
        mask = self._bytes(view.storage)
        return np.ndarray((*view.shape, size), bool, mask, view.offset * size, (*steps, 1))

    def is_written(self, view: NkiTensor) -> bool:
        """Tell whether all that a view may show is written, in whatever pass of a loop."""
        if view.dynamic is not None:
            return bool(self._bytes(view.storage).all())
        return bool(self._window(view).all())

    def note(self, i: Instruction) -> None:
        """Note what an instruction that was emitted writes and uses."""
        depth = self.loops[0][0] if self.loops else 0
        for view in (*i.read(), *i.written()):
            self.touched[view.storage.id] = depth
            if view.storage.address is not None and not self.choices.overlaps:
                self.retired.update(s.id for s in self._over(view.storage) if s.id in self.touched)
        self.tensors = [s for s in self.tensors if s.id not in self.retired]
        whole = {
            i.args[k].storage.id
            for k in i.form.writes
            if type(i.args[k]) is NkiTensor and k not in i.form.reads
        }
        for view in i.written():
            certain = view.dynamic is None
            partial = i.definition.operands[self._name(i, view)].part is not None
            sure = view.storage.id in whole and not partial
            if certain and (sure or "accumulate" in i.definition.position):
                self._save(view.storage)
                self._window(view)[...] = True

    def _save(self, storage: Storage) -> None:
        """Keep what is written of a tensor outside the open loop: that may run no pass."""
        if self.loops and storage.loop != self.builder.loop:
            self.saved[-1].setdefault(storage.id, self._bytes(storage).copy())

    def open_loop(self, register: Register) -> None:
        """Note that what follows is the body of a loop."""
        self.loops.append((self.builder.loop, register))
        self.saved.append({})

    def close_loop(self) -> None:
        """Forget what the innermost loop's body wrote and made."""
        number, _ = self.loops.pop()
        self.written.update(self.saved.pop())
        self.tensors = [s for s in self.tensors if s.loop != number]

    @staticmethod
    def _name(i: Instruction, view: NkiTensor) -> str:
        for name in i.definition.operands:
            value = i.args[i.definition.position[name]]
            if value is view or (type(value) is tuple and any(v is view for v in value)):
                return name
        raise AssertionError(f"{view} is no operand of {i}")

    # -- explicit addresses --------------------------------------------------------------------------------------

    def _over(self, storage: Storage) -> list[Storage]:
        """Return the other tiles with an address that share a byte with this one."""
        a = storage.address
        assert a is not None
        found = []
        for s in self.builder.storages:
            b = s.address
            if b is None or s is storage or s.buffer is not storage.buffer:
                continue
            rows = _meet(a.partition, storage.partitions, b.partition, s.partitions)
            if rows and _meet(a.byte, storage.row_bytes, b.byte, s.row_bytes):
                found.append(s)
        return found

    def may_touch(self, storages: set[Storage]) -> bool:
        """Tell whether an instruction may use these tensors together, now."""
        if self.choices.overlaps:
            return True
        loop = self.loops[0][0] if self.loops else 0
        for s in storages:
            if s.address is None or s.id < 0:
                continue
            for other in self._over(s):
                if other in storages:
                    return False
                if loop and self.touched.get(other.id) == loop:
                    return False
        return True

    def _address(self, shape: tuple[int, ...], dtype: DType, space: MemoryRegion) -> Any:
        if not space.on_chip or self.pick.random() >= self.choices.explicit:
            return None
        if (
            self.choices.overlaps and not dtype.is_integer
        ):  # see `_fits`; and bytes of booleans are 0 or 1
            return None
        target = self.builder.target
        size = prod(shape[1:]) * dtype.itemsize
        first = self.pick.choice(range(0, ROWS - shape[0] + 1, _partition_step(shape[0])))
        limit = target.psum_bank_bytes if space is PSUM else min(
            self.choices.window, target.sbuf_usable_bytes_per_partition
        )  # fmt: skip
        if size > limit:
            return None
        byte = self.pick.randrange(0, limit - size + 1, 4)
        if space is PSUM:
            byte += self.pick.randrange(target.psum_banks) * target.psum_bank_bytes
        return Address(first, byte)

    # -- making tensors ------------------------------------------------------------------------------------------

    def new(self, shape: tuple[int, ...], dtype: DType, space: MemoryRegion) -> Storage:
        """Make a tensor; nothing is written into it yet."""
        address = self._address(shape, dtype, space)
        if address is not None:
            self.counts["explicit addresses"] += 1
        made = self.builder.allocate(
            shape, dtype, space, f"t{len(self.builder.storages)}", address=address
        )
        self.tensors.append(made.storage)
        return made.storage

    def real(self, sketch: Storage) -> Storage:
        """Make the tensor that a sketch describes."""
        return self.new(sketch.shape, sketch.dtype, sketch.buffer)

    def _sketch(self, shape: tuple[int, ...], dtype: DType, space: MemoryRegion) -> Storage:
        """Return a tensor that is not in the kernel yet, with room for a view of this shape and more."""
        pick = self.pick
        if space.on_chip:
            rows = pick.choice((shape[0], shape[0], ROWS))
            free = prod(shape[1:])
            sizes = pick.choice(
                ((rows, *shape[1:]), (rows, free), (rows, free + pick.randint(1, 8)))
            )
        else:
            sizes = pick.choice((shape, (max(shape[0], 4), *shape[1:])))
        return Storage(
            -1, "sketch", sizes, dtype, space, owner=self.builder, loop=self.builder.loop
        )

    def fill(self, storage: Storage) -> None:
        """Write all of a tensor."""
        pick, whole = self.pick, whole_view(storage)
        if storage.dtype.kind in ("packed", "scale") and str(storage.dtype) not in self.inputs:
            whole = whole.view(
                DTYPES[{1: "uint8", 2: "uint16", 4: "uint32"}[storage.dtype.itemsize]]
            )
        source = self._like(storage, whole.dtype)
        if storage.buffer is PSUM:
            tile = self.builder.allocate(
                storage.shape, storage.dtype, SBUF, f"t{len(self.builder.storages)}"
            )
            self.fill(tile.storage)
            self.note(nisa.tensor_copy(dst=whole_view(storage), src=tile))
        elif (
            storage.on_chip and whole.dtype.kind not in ("packed", "scale") and pick.random() < 0.4
        ):
            self.note(nisa.memset(dst=whole, value=pick.choice((0, 1, 2, 3))))
        else:
            self.note(nisa.dma_copy(dst=whole, src=source))
        self._save(storage)
        self._note_all(storage)

    def _like(self, storage: Storage, dtype: DType) -> NkiTensor:
        """Return a part of an input with the shape of a tensor; where it is too small, one element again and again."""
        same = self.inputs.get(str(dtype))
        source = same if same is not None else self.inputs["float32"]
        rows, free = storage.shape[0], prod(storage.shape[1:])
        if rows > ROWS or free > COLUMNS:
            rows = prod(storage.shape)
            source_strides = (*(0 for _ in storage.shape),)
            return NkiTensor._make(source.storage, storage.shape, source_strides, 0, source.dtype)
        inner = contiguous_strides((1, *storage.shape[1:]))[1:]
        column = self.pick.randint(0, COLUMNS - free)
        return NkiTensor._make(
            source.storage, storage.shape, (COLUMNS, *inner), column, source.dtype
        )

    def index_tile(self, rows: int, columns: int, dtype: str, distinct: bool = False) -> NkiTensor:
        """Return a tile of indices, written; `distinct` ones count down to 0, for rows that are to be written."""
        fitting = [
            s for s in self.tensors
            if s.id in self.index_ids and s.on_chip and s.shape == (rows, columns) and s.dtype == dtype
            and (s.id in self.distinct_ids) == distinct
        ]  # fmt: skip
        if fitting and self.pick.random() < 0.7:
            return whole_view(self.pick.choice(fitting))
        made = self.builder.allocate(
            (rows, columns), DTYPES[dtype], SBUF, f"i{len(self.builder.storages)}"
        )
        if distinct:
            view = self.ladder[ROWS - rows :]
            self.distinct_ids.add(made.storage.id)
        else:
            source, first = self.indices[dtype], self.pick.randint(0, 8 - min(columns, 8))
            strides = (8, 1 if columns <= 8 else 0)
            view = NkiTensor._make(source.storage, (rows, columns), strides, first, source.dtype)
        self.note(nisa.dma_copy(dst=made, src=view))
        self.index_ids.add(made.storage.id)
        self.tensors.append(made.storage)
        return made

    # -- views ---------------------------------------------------------------------------------------------------

    def view(
        self, spaces: tuple[MemoryRegion, ...], shape: tuple[int, ...], dtype: DType, written: bool
    ) -> NkiTensor:
        """Return a view of a tensor that exists, or of a sketch.

        Args:
            spaces: memories it may lie in.
            shape, dtype: of the view.
            written: it is for writing.
        """
        pick = self.pick
        fitting = [
            s for s in self.tensors
            if s.buffer in spaces and s.id not in self.retired and self._fits(s, shape, dtype, written)
            and not (written and s.id in self.index_ids)
        ]  # fmt: skip
        if fitting and pick.random() < 0.85:
            ready = [s for s in fitting if s.id in self.written and self.written[s.id].all()]
            near = ready if ready and not written and pick.random() < 0.8 else fitting
            return self._part(pick.choice(near[-6:]), shape, dtype, written)
        space = pick.choice(spaces)
        if space is SHARED_HBM and pick.random() < 0.5 and PRIVATE_HBM in spaces:
            space = PRIVATE_HBM
        return self._part(self._sketch(shape, dtype, space), shape, dtype, written)

    def _fits(self, s: Storage, shape: tuple[int, ...], dtype: DType, written: bool) -> bool:
        if s.dtype is not dtype:
            # Bits of NaNs are no one's business, so no integer shows what was written as a float.
            plain = s.dtype.is_integer and (dtype.is_integer or (dtype.is_float and not written))
            # Which elements of PSUM are written is known element by element, so not through another size.
            counted = s.buffer is PSUM and s.dtype.itemsize != dtype.itemsize
            if not plain or counted or self.pick.random() < 0.6:
                return False
        if not s.on_chip:
            same = s.dtype is dtype and len(shape) == len(s.shape)
            return same and all(n <= m for n, m in zip(shape, s.shape, strict=True))
        if shape[0] > s.partitions or s.row_bytes % dtype.itemsize:
            return False
        return prod(shape[1:]) * dtype.itemsize <= s.row_bytes

    def _part(self, s: Storage, shape: tuple[int, ...], dtype: DType, written: bool) -> NkiTensor:
        """Return a view of a storage that is large enough: shifted, with steps, axes exchanged, or repeated."""
        pick = self.pick
        if not s.on_chip:
            offset, strides = 0, contiguous_strides(s.shape)
            for n, m, step in zip(shape, s.shape, strides, strict=True):
                offset += pick.choice((0, m - n, pick.randint(0, m - n))) * step
            return NkiTensor._make(s, shape, strides, offset, dtype)
        row = s.row_bytes // dtype.itemsize
        rows = shape[0]
        first = pick.choice(range(0, s.partitions - rows + 1, _partition_step(rows)))
        free = shape[1:]
        order = list(range(len(free)))
        if len(free) > 1 and pick.random() < 0.3:
            pick.shuffle(order)
        strides = [0] * len(free)
        reach = pick.choice((1, 1, 2))
        if prod(free) * reach > row:
            reach = 1
        for k in reversed(order):
            strides[k] = reach
            reach *= free[k]
        if not written and pick.random() < 0.08:
            strides[pick.randrange(len(free))] = 0
        last = sum((n - 1) * st for n, st in zip(free, strides, strict=True))
        column = pick.choice(
            (0, row - last - 1, pick.randint(0, row - last - 1), min(1, row - last - 1))
        )
        return NkiTensor._make(s, shape, (row, *strides), first * row + column, dtype)

    def moved(self, view: NkiTensor) -> NkiTensor | None:
        """Return a view of the same shape that a register or an index moves, or None where it has no room."""
        pick, s = self.pick, view.storage
        if s.id < 0 or view.dtype is not s.dtype:
            return None
        if s.on_chip:
            row, size = s.row_bytes // s.dtype.itemsize, prod(view.shape[1:])
            whole = NkiTensor._make(s, (s.partitions, row), (row, 1), 0, s.dtype)
            if row - size < MOST_INDEX:
                return None
            cut: Any = (slice(view.start_partition, view.start_partition + view.shape[0]),)
            return whole[(*cut, DynamicSlice(self._mover(), size))].reshape(view.shape)
        axes = [
            k
            for k, (n, m) in enumerate(zip(view.shape, s.shape, strict=True))
            if m - n >= MOST_INDEX
        ]
        if not axes or len(view.shape) != len(s.shape):
            return None
        axis = pick.choice(axes)
        key = [slice(0, n) for n in view.shape]
        key[axis] = DynamicSlice(self._mover(), view.shape[axis])  # type: ignore[call-overload]
        return whole_view(s)[tuple(key)]

    def _mover(self) -> Any:
        # What is computed may be any number.
        held = [r for r in self.registers if type(r) is VirtualRegister]
        known = [*held, *(r for _, r in self.loops)]
        if known and self.pick.random() < 0.7:
            return self.pick.choice(known)
        return self.index_tile(1, 1, "int32")


def _partition_step(rows: int) -> int:
    """Return of which number the first partition of so many rows is a multiple."""
    return 128 if rows > 64 else 64 if rows > 32 else 32


def _meet(a: int, size: int, b: int, other: int) -> bool:
    return a < b + other and b < a + size


def _values(rng: np.random.Generator, dtype: DType) -> np.ndarray:
    shape = (ROWS, COLUMNS)
    if dtype.kind in ("packed", "scale"):  # small numbers in each lane, scales around 1
        low, high = (120, 132) if dtype.kind == "scale" else (0, 64)
        raw = rng.integers(low, high, (ROWS, COLUMNS * dtype.itemsize))
        return raw.astype(np.uint8).view(dtype.host)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "uint" else -9, 10, shape).astype(dtype.np)
    return (rng.integers(-40, 41, shape) / 8).astype(dtype.np)
