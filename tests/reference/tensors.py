"""Tensors on flat byte memories: addresses of views, registers, and reads and writes with the error of each element.

Pages: nki/api/nki/language/__init__.py (NkiTensor), nki/deep-dives/nki-aps.rst (access patterns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tests.reference.numbers import FREE, NAN, Array, DType, Val, rounded, spacing

PARTITIONS = 128


class Refused(Exception):
    """The program does something that the pages forbid or leave undefined as a whole."""


class Register:
    """A register: an integer that instructions set."""

    def __init__(self, value: int | None = None) -> None:
        self.value = value


class Scalar(Register):
    """A scalar of 32 bits: arithmetic gives another one, with the low bits of the result."""

    def __add__(self, other: int | Scalar) -> Scalar:
        return _wrapped(self.value + _held(other))

    def __sub__(self, other: int | Scalar) -> Scalar:
        return _wrapped(self.value - _held(other))

    def __rsub__(self, other: int) -> Scalar:
        return _wrapped(other - self.value)

    def __mul__(self, other: int | Scalar) -> Scalar:
        return _wrapped(self.value * _held(other))


def _held(value: int | Scalar) -> int:
    return value.value if isinstance(value, Scalar) else value


def _wrapped(value: int) -> Scalar:
    return Scalar(int(np.array(value & 0xFFFFFFFF, np.uint32).view(np.int32)))


class Memory:
    """The bytes of one tensor.

    Attributes:
        data: the bytes.
        error: per byte what `Val.e` is per element; what nothing has written is open.
        psum: per byte 0, 1 where a matmul has written it, 2 where something else has.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DType, buffer: str) -> None:
        size = math.prod(shape) * dtype.size
        self.shape, self.dtype, self.buffer = shape, dtype, buffer
        self.data = np.zeros(-(-size // 8) * 8, np.uint8)
        self.error = np.full(len(self.data), FREE, np.float32)
        self.psum = np.zeros(len(self.data), np.uint8)

    def fill(self, array: Array) -> None:
        """Put an argument into the memory."""
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.data[: len(raw)] = raw
        self.error[:] = 0
        if self.dtype.kind == "f":
            bad = np.isnan(self.data.view(self.dtype.np).astype(float))
            self.error.reshape(-1, self.dtype.size)[bad] = (
                0  # its bits are given, and copies keep them
            )


@dataclass(frozen=True, eq=False)
class Tensor:
    """A view: element i is element `offset + sum(strides * i)` of the memory, counted in elements of `dtype`.

    Attributes:
        moved: (register or tensor that holds a number, elements per unit) of a scalar dynamic address.
        rows: (tensor of row numbers, elements per row, number of rows) of a vector of addresses.
        picks: (tensor of offsets, how many) of element gathers.
        limit: how many units a scalar address may count, for skipped transfers.
    """

    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    moved: tuple[Any, int] | None = None
    rows: tuple[Any, int, int] | None = None
    picks: tuple[Any, int] | None = None
    limit: int = 0

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def buffer(self) -> str:
        return self.memory.buffer

    @property
    def on_chip(self) -> bool:
        return self.buffer in ("sbuf", "psum")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def free(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def start(self) -> int:
        row = math.prod(self.memory.shape[1:]) * self.memory.dtype.size
        return self.offset * self.dtype.size // row

    def is_indirect(self) -> bool:
        return not (self.moved is None and self.rows is None and self.picks is None)

    def get_pattern(self) -> list[list[int]]:
        return [list(p) for p in zip(self.strides, self.shape, strict=True)]

    def _as(self, shape: Any, strides: Any, offset: int | None = None, **more: Any) -> Tensor:
        at = self.offset if offset is None else offset
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=at, **more)

    # -- views ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = (*keys[:at], *[slice(None)] * (self.ndim - len(keys) + 1), *keys[at + 1 :])
        keys = (*keys, *[slice(None)] * (self.ndim - len(keys)))
        shape, strides, offset, moved = [], [], self.offset, self.moved
        for k, (n, step, one) in enumerate(zip(self.shape, self.strides, keys, strict=True)):
            if isinstance(one, Slice):
                if isinstance(one.start, int):
                    offset += one.start * step
                else:
                    moved = (one.start, step)
                shape.append(one.size)
                strides.append(step)
            elif isinstance(one, slice):
                first, last, by = one.indices(n)
                shape.append(len(range(first, last, by)))
                strides.append(step * by)
                offset += first * step
            else:
                offset += (one % n) * step
                if self.on_chip and k == 0:
                    shape.append(1)
                    strides.append(step)
        least = 2 if self.on_chip else 1
        while len(shape) < least:
            shape.append(1)
            strides.append(1)
        return self._as(shape, strides, offset, moved=moved)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Tensor:
        return self[(*[slice(None)] * dim, slice(start, end, step))]

    def select(self, dim: int, index: Any) -> Tensor:
        shape, strides = list(self.shape), list(self.strides)
        size, step = shape.pop(dim), strides.pop(dim)
        if isinstance(index, int):
            return self._as(shape, strides, self.offset + index * step)
        return self._as(shape, strides, moved=(index, step), limit=size)

    def vector_select(self, dim: int, vector_offset: Tensor) -> Tensor:
        assert dim == 0
        shape = (vector_offset.shape[0], *self.shape[1:])
        return self._as(
            shape, (0, *self.strides[1:]), rows=(vector_offset, self.strides[0], self.shape[0])
        )

    def permute(self, dims: tuple[int, ...]) -> Tensor:
        return self._as([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def broadcast(self, dim: int, size: int) -> Tensor:
        change = [
            (size, 0) if k == dim else p
            for k, p in enumerate(zip(self.shape, self.strides, strict=True))
        ]
        return self._as(*zip(*change, strict=True))

    def expand_dim(self, dim: int) -> Tensor:
        return self._as(
            (*self.shape[:dim], 1, *self.shape[dim:]), (*self.strides[:dim], 1, *self.strides[dim:])
        )

    def squeeze_dim(self, dim: int) -> Tensor:
        return self._as(
            (*self.shape[:dim], *self.shape[dim + 1 :]),
            (*self.strides[:dim], *self.strides[dim + 1 :]),
        )

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> Tensor:
        known = math.prod(n for n in shape if n != -1)
        sizes = [self.shape[dim] // known if n == -1 else n for n in shape]
        steps = [self.strides[dim] * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        return self._as(
            (*self.shape[:dim], *sizes, *self.shape[dim + 1 :]),
            (*self.strides[:dim], *steps, *self.strides[dim + 1 :]),
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> Tensor:
        inside = range(start_dim, end_dim)
        if any(self.strides[k] != self.strides[k + 1] * self.shape[k + 1] for k in inside):
            raise Refused("dimensions are not contiguous")
        size = math.prod(self.shape[start_dim : end_dim + 1])
        return self._as(
            (*self.shape[:start_dim], size, *self.shape[end_dim + 1 :]),
            (*self.strides[:start_dim], self.strides[end_dim], *self.strides[end_dim + 1 :]),
        )

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        if not all(
            self.strides[k] == self.strides[k + 1] * self.shape[k + 1]
            for k in range(1, self.ndim - 1)
        ):
            raise Refused("the view is not contiguous")
        if self.on_chip:
            if shape[0] != self.shape[0]:
                raise Refused("a reshape keeps the partitions")
            inner = [self.strides[-1] * math.prod(shape[k + 1 :]) for k in range(1, len(shape))]
            return self._as(shape, (self.strides[0], *inner))
        if self.ndim > 1 and self.strides[0] != self.strides[1] * self.shape[1]:
            raise Refused("the view is not contiguous")
        return self._as(
            shape, [self.strides[-1] * math.prod(shape[k + 1 :]) for k in range(len(shape))]
        )

    def rearrange(
        self, src_pattern: Any, dst_pattern: Any, fixed_sizes: dict[str, int] | None = None
    ) -> Tensor:
        sizes, steps = dict(fixed_sizes or {}), {}
        for n, step, group in zip(self.shape, self.strides, src_pattern, strict=True):
            names = (group,) if isinstance(group, str) else group
            known = math.prod(sizes[a] for a in names if a in sizes)
            sizes.update({a: n // known for a in names if a not in sizes})
            for k, a in enumerate(names):
                steps[a] = step * math.prod(sizes[b] for b in names[k + 1 :])
        shape, strides = [], []
        for group in dst_pattern:
            names = (group,) if isinstance(group, str) else group
            for a, b in pairwise(names):
                if steps[a] != steps[b] * sizes[b]:
                    raise Refused("dimensions are not contiguous")
            shape.append(math.prod(sizes[a] for a in names))
            strides.append(steps[names[-1]])
        return self._as(shape, strides)

    def view(self, dtype: DType) -> Tensor:
        old, new = self.dtype.size, dtype.size
        if old == new:
            return self._as(self.shape, self.strides, dtype=dtype)
        if (
            self.strides[-1] != 1
            or self.shape[-1] * old % new
            or any(s * old % new for s in (*self.strides[:-1], self.offset))
        ):
            raise Refused("the last dimension does not divide")
        strides = [s * old // new for s in self.strides[:-1]] + [1]
        return self._as(
            (*self.shape[:-1], self.shape[-1] * old // new),
            strides,
            self.offset * old // new,
            dtype=dtype,
        )

    def ap(
        self, pattern: Any, offset: int | None = None, scalar_offset: Any = None, vector_offset: Any = None,
        indirect_dim: int = 0, dtype: DType | None = None,
    ) -> Tensor:  # fmt: skip
        kind = dtype or self.dtype
        at = self.offset * self.dtype.size // kind.size + (offset or 0)
        shape, strides = [n for _, n in pattern], [s for s, _ in pattern]
        below = (
            math.prod(self.memory.shape[indirect_dim + 1 :]) * self.memory.dtype.size // kind.size
        )
        if scalar_offset is not None:
            return self._as(
                shape,
                strides,
                at,
                dtype=kind,
                moved=(scalar_offset, below),
                limit=self.shape[indirect_dim],
            )
        if vector_offset is not None:
            return self._as(
                shape, strides, at, dtype=kind, rows=(vector_offset, below, self.memory.shape[0])
            )
        return self._as(shape, strides, at, dtype=kind)

    def indirect(self, index: Tensor, num_elem: int | None = None) -> Tensor:
        count = index.size if num_elem is None else num_elem
        return self._as((self.shape[0], count), (self.strides[0], 0), picks=(index, count))

    # -- addresses -----------------------------------------------------------------------------------------------

    def places(self, group: int = 16, skip: bool = False) -> tuple[Array, Array | None]:
        """Return the elements' numbers in the memory, and which of them a transfer may skip."""
        at = np.full((), self.offset, np.int64)
        for n, step in zip(self.shape, self.strides, strict=True):
            at = at[..., None] + np.arange(n, dtype=np.int64) * step
        bad = None
        if self.moved is not None:
            source, step = self.moved
            value = source.value if isinstance(source, Register) else number(source)
            at = at + value * step
        if self.rows is not None:
            index, step, count = self.rows
            rows = index.raw().reshape(-1).astype(np.int64)[: self.shape[0]]
            bad = np.broadcast_to(
                ((rows < 0) | (rows >= count)).reshape(-1, *[1] * (self.ndim - 1)), self.shape
            )
            # Row numbers replace the first axis, whatever stride it was given.
            first = np.arange(self.shape[0], dtype=np.int64) * self.strides[0]
            at = at + (rows * step - first).reshape(-1, *[1] * (self.ndim - 1))
        if self.picks is not None:
            index, count = self.picks
            table = index.raw().astype(np.int64).reshape(index.shape[0], -1)
            i, rows_ = np.arange(count), np.arange(self.shape[0])
            # Each group of partitions has offsets of its own: offset i lies at index[i % G, i // G] of the group.
            base = rows_ // group * group
            chosen = table[
                np.minimum(base[:, None] + i % group, len(table) - 1), (i // group)[None, :]
            ]
            at = at + chosen
        limit = len(self.memory.data) // self.dtype.size
        outside = (at < 0) | (at >= limit)
        if outside.any():
            if not skip:
                raise Refused("an address is out of range")
            bad = outside if bad is None else bad | outside
        elif bad is not None and not bad.any():
            bad = None
        if bad is not None and not skip:
            raise Refused("an index is out of range")
        return (at if bad is None else np.where(bad, 0, at)), bad

    def _errors(self) -> Array:
        size = self.dtype.size
        return self.memory.error.reshape(-1, size)

    def raw(self, at: Array | None = None, group: int = 16) -> Array:
        """Return the stored elements; those of integers that are open are 0 to be harmless as addresses."""
        at = self.places(group)[0] if at is None else at
        return self.memory.data.view(self.dtype.np)[at]

    def error(self, at: Array) -> Array:
        """Return what is known of each element."""
        if not self.memory.error.any():
            return np.zeros(at.shape)
        e = self._errors()[at]
        worst = least = e[..., 0]
        for k in range(1, e.shape[-1]):  # much faster than a reduction of so short an axis
            worst, least = np.maximum(worst, e[..., k]), np.minimum(least, e[..., k])
        nan = (least < 0) & (worst <= 0) & (self.dtype is self.memory.dtype)
        return np.where(nan, NAN, np.where(least < 0, FREE, worst)).astype(float)

    def read(self, group: int = 16) -> Val:
        """Return values as float32, rows by elements."""
        at, _ = self.places(group)
        raw = self.raw(at)
        with np.errstate(all="ignore"):
            v = (
                (raw != 0).astype(float)
                if self.dtype.kind == "b"
                else raw.astype(np.float32).astype(float)
            )
        e = self.error(at)
        rows = self.shape[0] if self.ndim else 1
        return Val(v, np.where(e == NAN, 0.0, e)).map(lambda a: a.reshape(rows, -1))

    def integers(self) -> tuple[Array, Array]:
        """Return values as 64-bit integers with their errors, rows by elements."""
        at, _ = self.places()
        return self.raw(at).astype(np.int64).reshape(self.shape[0], -1), self.error(at).reshape(
            self.shape[0], -1
        )

    # -- writing -------------------------------------------------------------------------------------------------

    def put(
        self,
        raw: Array,
        error: Array,
        at: Array | None = None,
        keep: Array | None = None,
        group: int = 16,
    ) -> None:
        """Store elements with their errors, but where `keep` says to leave what is there."""
        at = self.places(group)[0] if at is None else at
        at, raw, error = at.reshape(-1), raw.reshape(-1), error.reshape(-1)
        if keep is not None:
            use = ~keep.reshape(-1)
            at, raw, error = at[use], raw[use], error[use]
        if (self.is_indirect() or 0 in self.strides) and len(np.unique(at)) != len(at):
            raise Refused("an element is written twice")
        self.memory.data.view(self.dtype.np)[at] = raw
        strange = (error == NAN) & (self.dtype is not self.memory.dtype)
        self._errors()[at] = np.where(strange, FREE, error)[:, None]
        self.memory.psum.reshape(-1, self.dtype.size)[at] = 2

    def write(self, val: Val, keep: Array | None = None, group: int = 16) -> None:
        """Round float32 values to the type and store them."""
        val = Val(val.v, np.where(np.isnan(val.e), FREE, val.e))
        v, open_ = rounded(val.v, self.dtype)
        soft = val.dirty
        if soft.any():
            with np.errstate(all="ignore"):
                e = np.where(
                    soft, val.e + spacing(v, self.dtype) + np.where(val.e == FREE, FREE, 0), 0.0
                )
            tiny = (val.e == 1e-45) & (v == 0)
            e = np.where(tiny, 1e-45, e)
            if self.dtype.kind in "bs":
                e = np.where(soft & ~tiny, FREE, e)
            elif self.dtype.kind in "iu":
                e = np.where(tiny, 0, e)
            else:  # near its end a type rounds to infinity
                e = np.where(soft & (np.abs(v) + val.e >= self.dtype.top), FREE, e)
            open_ = np.where(soft, e, open_)
        with np.errstate(all="ignore"):
            raw = v.astype(self.dtype.np)
        self.put(raw, open_, keep=keep, group=group)

    def write_integers(self, values: Array, error: Array) -> None:
        """Store integers exactly: another integer type saturates, floats round."""
        if self.dtype.kind in "iu":
            info = np.iinfo(self.dtype.np)
            self.put(np.clip(values, info.min, info.max).astype(self.dtype.np), error)
        else:
            with np.errstate(all="ignore"):
                self.write(Val(values.astype(np.float32).astype(float), error))


@dataclass(frozen=True)
class Slice:
    """nl.ds(start, size)."""

    start: Any
    size: int


def number(tensor: Tensor) -> int:
    """Return the integer in a tensor of one element."""
    return int(tensor.raw().reshape(-1)[0])


def copy_elements(dst: Tensor, src: Tensor, keep_bits: bool = True, skip: bool = False) -> None:
    """Copy in the order of elements: bit for bit within a type, else through float32."""
    if src.size != dst.size:
        raise Refused("the numbers of elements differ")
    at, bad = src.places(skip=skip)
    to, gone = dst.places(skip=skip)
    keep = None
    if bad is not None or gone is not None:
        left = np.zeros(src.size, bool) if bad is None else bad.reshape(-1)
        right = np.zeros(src.size, bool) if gone is None else gone.reshape(-1)
        keep = left | right
    raw, error = src.raw(at), src.error(at)
    if src.dtype is dst.dtype and keep_bits:
        dst.put(raw, error, to, keep)
        return
    with np.errstate(all="ignore"):
        v = (
            (raw != 0).astype(float)
            if src.dtype.kind == "b"
            else raw.astype(np.float32).astype(float)
        )
    plain = Val(v.reshape(dst.shape), np.where(error == NAN, 0.0, error).reshape(dst.shape))
    dst.write(plain, None if keep is None else keep)


def new(shape: tuple[int, ...], dtype: DType, buffer: str = "sbuf") -> Tensor:
    """Make a tensor that nothing has written."""
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return Tensor(Memory(tuple(shape), dtype, buffer), tuple(shape), tuple(steps), 0, dtype)
