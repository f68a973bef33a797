"""Gives each tensor of a program its bytes.

Addresses decide what aliases. Tensors whose bytes never overlap while both are in use get contiguous arrays of their
own, taken from and given back to a pool in program order, so that NumPy runs at full speed and arrays stay in cache.
Tensors that do overlap share one byte array and are strided views of it: an overlap corrupts data as on the chip.
"""

from __future__ import annotations

import numpy as np

from nki_lab.choices import Choices
from nki_lab.dtypes import DType, dtype_of
from nki_lab.errors import NotModelled
from nki_lab.ir.definition.operands import State
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.footprint import footprint, overlap
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.isa import xorwow
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM, MemoryRegion
from nki_lab.targets.spec import Target

_FLOAT32 = dtype_of("float32")
assert _FLOAT32 is not None
# What an unwritten element reads as: NaN, for integers 4 (nki/guides/nki_simulator.rst).
_UNWRITTEN_INTEGER = 4


class Base:
    """The array a storage's views are cut from: flat bytes, and the bytes from one partition to the next."""

    __slots__ = ("bytes", "start", "pitch")

    def __init__(self, data: np.ndarray, start: int, pitch: int) -> None:
        self.bytes = data
        self.start = start
        self.pitch = pitch


class Memory:
    """Arrays of the storages of one kernel, on chip and in HBM.

    Attributes:
        target: the machine.
        options: how numbers are kept.
        outside: ids of arguments and results, which change from run to run.
        addresses: where each storage on chip lies, by id.
    """

    def __init__(self, target: Target, options: Choices) -> None:
        self.target = target
        self.options = options
        self.outside: set[int] = set()
        self.addresses: dict[int, Address] = {}
        self._bases: dict[int, Base] = {}
        self._pool: dict[int, list[np.ndarray]] = {}
        self._chips: dict[MemoryRegion, tuple[np.ndarray, int]] = {}
        self._pitches = {
            SBUF: target.sbuf_bytes_per_partition,
            PSUM: target.psum_bytes_per_partition,
        }
        self._shared: set[int] = set()

    @classmethod
    def of(cls, kernel: Kernel, options: Choices) -> Memory:
        """Return the memory of a compiled kernel."""
        memory = cls(kernel.target, options)
        memory.outside = {s.id for s in kernel.inputs} | {v.storage.id for v in kernel.outputs}
        if kernel.program[1] > 1:  # cores share these
            memory.outside |= {
                s.id for s in kernel.storages if s.buffer is SHARED_HBM and s.origin == "temporary"
            }
        for key, address in (kernel.addresses or {}).items():
            memory.place(kernel.storages[key], address)
        shared = (
            [s for s in kernel.storages if s.on_chip]
            if options.shared_bytes
            else [kernel.storages[k] for group in kernel.overlaps for k in group]
        )
        for storage in shared:
            memory.share(storage)
        return memory

    def place(self, storage: Storage, address: Address) -> None:
        """Put a storage at an address."""
        self.addresses[storage.id] = address
        end = address.byte + storage.row_bytes
        # Past the end of the memory when capacity is only a finding.
        self._pitches[storage.buffer] = max(self._pitches[storage.buffer], -(-end // 64) * 64)

    def share(self, storage: Storage) -> None:
        """Let a storage share its bytes with others at overlapping addresses."""
        if not self.options.precise_fp:
            raise NotModelled(
                "NKI_PRECISE_FP=0 keeps floats wider than their tiles, so tensors cannot share bytes",
                help="run with NKI_PRECISE_FP=1, or give overlapping tensors separate addresses",
            )
        self._shared.add(storage.id)

    def held_as(self, dtype: DType) -> DType:
        """Return the dtype elements are held in: float32 for narrow floats without precise_fp."""
        if self.options.precise_fp or not dtype.is_float:
            return dtype
        assert _FLOAT32 is not None
        return _FLOAT32

    def base(self, storage: Storage) -> Base:
        """Return the bytes of a storage, taking an array for it on first use."""
        base = self._bases.get(storage.id)
        if base is None:
            base = self._bases[storage.id] = self._take(storage)
        return base

    def bind(self, storage: Storage, array: np.ndarray) -> None:
        """Make `array` (C-contiguous) the bytes of an HBM storage."""
        data = array.reshape(-1).view(np.uint8)
        self._bases[storage.id] = Base(data, 0, data.nbytes)

    def adopt(self, storage: Storage, base: Base) -> None:
        """Take `base` as the bytes of a storage made while running."""
        self._bases[storage.id] = base

    def drop(self, storage_id: int) -> None:
        """Forget a storage made while running."""
        self._bases.pop(storage_id, None)

    def give_back(self, storage: Storage) -> None:
        """Let the next tile of its size have the array of a storage, after its last use."""
        base = self._bases[storage.id]
        if storage.id not in self._shared:
            self._pool.setdefault(base.bytes.nbytes, []).append(base.bytes)

    def _take(self, storage: Storage) -> Base:
        if storage.id in self._shared:
            return self._chip(storage)
        scale = self.held_as(storage.dtype).itemsize
        size = storage.nbytes // storage.dtype.itemsize * scale
        if storage.data is not None:
            held = self.held_as(storage.dtype).np
            data = np.array(storage.data, dtype=held, order="C").reshape(-1).view(np.uint8)
        else:
            pool = self._pool.get(size)
            data = pool.pop() if pool else _aligned(size)
        return Base(data, 0, size // storage.partitions)

    def _chip(self, storage: Storage) -> Base:
        address = self.addresses[storage.id]
        chip, pitch = self._chips.get(storage.buffer) or self._new_chip(storage.buffer)
        return Base(chip, address.partition * pitch + address.byte, pitch)

    def _new_chip(self, space: MemoryRegion) -> tuple[np.ndarray, int]:
        pitch = self._pitches[space]
        chip = self._chips[space] = _aligned(pitch * self.target.partitions), pitch
        return chip

    def held(self) -> dict[int, np.ndarray]:
        """Return the bytes of every storage that has some, by id; several storages may have the same."""
        return {key: base.bytes for key, base in self._bases.items()}

    def may_alias(self, a: NkiTensor, b: NkiTensor) -> bool:
        """Tell whether two views may share a byte, in this or another run."""
        if a.storage is b.storage:
            return overlap(footprint(a), footprint(b))
        together = a.storage.id in self._shared and b.storage.id in self._shared
        return together and np.may_share_memory(self.array(a), self.array(b))

    def array(self, view: NkiTensor) -> np.ndarray:
        """Return the NumPy view of a tensor view, in the dtype it is held in."""
        storage = view.storage
        base = self.base(storage)
        held = self.held_as(view.dtype)
        if held is not view.dtype or (not self.options.precise_fp and storage.dtype.is_float):
            if view.dtype is not storage.dtype and view.dtype.itemsize != storage.dtype.itemsize:
                raise NotModelled(
                    f"NKI_PRECISE_FP=0 cannot show {storage.describe()} as {view.dtype}",
                    help="run with NKI_PRECISE_FP=1",
                )
            if view.dtype is not storage.dtype:
                raise NotModelled(
                    f"NKI_PRECISE_FP=0 cannot reinterpret {storage.describe()} as {view.dtype}",
                    help="run with NKI_PRECISE_FP=1",
                )
        size = held.itemsize
        offset, strides = view.offset, view.strides
        start = base.start + offset * size
        steps = [s * size for s in strides]
        if storage.on_chip:
            row = storage.row_bytes // storage.dtype.itemsize * self.held_as(storage.dtype).itemsize
            if row != base.pitch:
                # The tensor's rows lie further apart than its own length: only partition steps feel that.
                partition, inner = divmod(offset * size, row)
                start = base.start + partition * base.pitch + inner
                if view.shape[0] > 1:
                    assert steps[0] % row == 0, "a view steps over partitions in whole rows"
                    steps[0] = steps[0] // row * base.pitch
        return np.ndarray(view.shape, held.np, base.bytes, start, steps)

    def fill_unwritten(self, storage: Storage) -> np.ndarray:
        """Return the whole array of a storage and fill it with what unwritten memory reads as."""
        array = self.array(whole_view(storage))
        fill_unwritten(array, storage.dtype)
        return array


def fill_unwritten(array: np.ndarray, dtype: DType) -> None:
    """Fill with NaN, or 4 for types without one."""
    if dtype.kind in ("float", "scale"):
        array[...] = np.nan
    elif dtype.kind == "packed":
        array[...] = np.iinfo(array.dtype).max
    else:
        array[...] = _UNWRITTEN_INTEGER


def _aligned(size: int) -> np.ndarray:
    """Return `size` bytes that start at a multiple of 64, where vector instructions are fastest."""
    raw = np.empty(size + 64, np.uint8)
    shift = -raw.ctypes.data % 64
    return raw[shift : shift + size]


Registers = dict[State, np.ndarray]


def new_registers(target: Target) -> Registers:
    """Return arrays for all registers, a row per partition, in the state before a run."""
    registers = {s: np.empty((target.partitions, s.words), s.dtype) for s in State}
    reset_registers(registers)
    return registers


def reset_registers(registers: Registers) -> None:
    """Put the registers into the state before a run.

    Accumulators keep their values from one kernel to the next and no page says what the first one finds, so they are
    NaN, as memory is that nothing has written (nki/guides/nki_simulator.rst): a sum that was not reset cannot look
    right. Random states outlive a kernel too (nki/api/nki/isa/__init__.py:2156); here they start from the seed 0, so
    that a run can be repeated.
    """
    for state, register in registers.items():
        if state.is_accumulator:
            register.fill(np.nan)
        else:
            xorwow.seed(register, 0)
