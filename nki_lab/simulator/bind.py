"""Binds one instruction to NumPy arrays: turns it into calls that run it.

Everything that can be decided before a run is decided here: which arrays `.semantics` gets, in which shape and type,
whether the result may be written in place, and which casts stand before and after. What is left is a list of calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.dtypes import DType, float8_e4m3fn
from nki_lab.errors import NkiError, NotModelled
from nki_lab.ir.definition.instruction import READ, UPDATE, Definition, Instruction, Shape
from nki_lab.ir.program.nodes import Finding
from nki_lab.ir.tensor.layout import reshape_strides
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import BITS, FLOAT32, bits_of, load_cast, overflows, store_cast
from nki_lab.simulator.memory import Memory
from nki_lab.source import Stack, came_at

# A call with keyword arguments only: `Program` replaces those that lie outside before each run.
Step = partial


class Scratch:
    """Reused arrays for operands that need a cast and for results that cannot go to their place directly."""

    def __init__(self) -> None:
        self._flat: dict[tuple[str, np.dtype], np.ndarray] = {}

    def array(self, use: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an array that is valid until the next instruction."""
        size = prod(shape)
        flat = self._flat.get((use, dtype))
        if flat is None or flat.size < size:
            flat = self._flat[use, dtype] = np.empty(max(size, 1024), dtype)
        return flat[:size].reshape(shape)


@cache
def wanted(definition: Definition) -> tuple[str, ...]:
    """Return what `.semantics` of an instruction asks for, by name."""
    return tuple(inspect.signature(definition.facets["semantics"]).parameters)


class Binder:
    """Binds instructions to the arrays of one memory."""

    def __init__(
        self,
        memory: Memory,
        registers: dict[Any, np.ndarray],
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.memory = memory
        self.rank, self.world = rank, world
        self.registers = registers
        self.scratch = Scratch()
        self.set_values: dict[int, np.ndarray] = {}  # what an instruction sets registers to
        self.written: dict[
            int, np.ndarray
        ] = {}  # PSUM storages with an undecided first write -> mask
        # What instructions noticed about their values: (instruction, what, help) -> elements it is about, and all.
        self.notices: dict[tuple[str, Stack, str, str], list[int]] = {}

    def bind(self, i: Instruction) -> list[Step]:
        """Return the calls that perform `i`."""
        definition = i.definition
        numerics = definition.numerics(i) if definition.numerics is not None else {}
        roles = {definition.params[k]: role for k, role in definition.roles(i)}
        before: list[Step] = []
        after: list[Step] = []
        given: dict[str, Any] = {}
        shape = self._result_shape(i)
        read: list[NkiTensor] = []
        for name, operand in definition.operands.items():
            value = i.args[definition.position[name]]
            if roles.get(name) in (READ, UPDATE):
                if type(value) is tuple:
                    given[name] = tuple(
                        self._operand(f"{name}{k}", v, operand, numerics.get(name, FLOAT32), shape, before, read)
                        for k, v in enumerate(value)
                    )  # fmt: skip
                else:
                    given[name] = self._operand(
                        name,
                        value,
                        operand,
                        numerics.get(name, FLOAT32),
                        shape,
                        before,
                        read,
                    )
            elif type(value) is not NkiTensor:
                given[name] = value
        names = wanted(definition)
        for name, role in roles.items():
            if role != READ:
                out = "out" if name == "dst" else f"out_{name}"
                value = i.args[definition.position[name]]
                given[out] = self._result(
                    i, name, value, definition.operands[name].shape, numerics.get(name, FLOAT32), shape,
                    read, after, definition.in_place_safe,
                )  # fmt: skip
        for name in definition.params:
            if name not in definition.operands:
                given.setdefault(name, i.args[definition.position[name]])
        for position in i.form.registers_set:
            value = self.set_values[position] = np.zeros(1, np.int64)
            given[f"out_{definition.params[position]}"] = value
        if "engine" in definition.position:
            given["engine"] = i.form.engine  # the one that runs it, where the author left it open
        given["target"] = self.memory.target
        given["rank"], given["world"] = self.rank, self.world
        if "dtypes" in names:  # of packed operands, which arrays of words do not tell
            tensors = ((n, i.args[definition.position[n]]) for n in definition.operands)
            given["dtypes"] = {n: t.dtype for n, t in tensors if type(t) is NkiTensor}
        for state, _ in i.form.state:
            given[state.parameter] = self._register(i, state)
        if "written" in names:
            given["written"] = self._mask(i)
        if "notice" in names:
            given["notice"] = partial(self.notice, definition.name, i.stack)
        for name in names:
            given.setdefault(name, None)
        call = partial(definition.facets["semantics"], **{name: given[name] for name in names})
        vars(call)["instruction"] = i  # for errors that only values show
        return [*before, call, *after, *self._mask_updates(i)]

    def notice(self, name: str, stack: Stack, count: int, size: int, what: str, help: str) -> None:
        """Note something that only values show: `count` of `size` elements it is about, what, and the way out."""
        counts = self.notices.setdefault((name, stack, what, help), [0, 0])
        counts[0] += count
        counts[1] += size

    def noticed(self) -> tuple[Finding, ...]:
        """Return what instructions noticed about their values, with how many elements it is about."""
        return tuple(
            Finding("hazard", f"{name}: {count:,} of {size:,} {what}", stack, help=help)
            for (name, stack, what, help), (count, size) in self.notices.items()
        )

    # -- operands ------------------------------------------------------------------------------------------------

    def _result_shape(self, i: Instruction) -> tuple[int, ...]:
        position = i.definition.position.get("dst")
        dst = i.args[position] if position is not None else None
        return dst.shape if type(dst) is NkiTensor else (1, 1)

    def _operand(self, name, value, operand, compute, shape, before, read) -> Any:
        if type(value) is not NkiTensor:
            return value
        array = self.memory.array(value)
        read.append(value)
        cast = None
        held = self.memory.held_as(value.dtype)
        if compute is BITS:
            array = array.view(bits_of(held))
        elif compute is not None:
            cast = load_cast(held, compute)
        wanted = self._shaped(value.shape, operand.shape, shape)
        viewed = _reshaped(array, wanted)
        if cast is None and viewed is not None:
            return viewed
        kind = np.dtype(compute) if cast is not None else array.dtype
        copy = self.scratch.array(f"in_{name}", value.shape, kind)
        before.append(partial(_cast(cast), source=array, out=copy))
        return copy.reshape(wanted)

    @staticmethod
    def _shaped(own: tuple[int, ...], kind: Shape, shape: tuple[int, ...]) -> tuple[int, ...]:
        if kind is Shape.OWN:
            return own
        if kind is Shape.FLAT:
            return (own[0], prod(own[1:]))
        if kind is Shape.VECTOR:
            return (own[0], *(1,) * (len(shape) - 1))
        return shape if prod(own) == prod(shape) else own

    def _result(
        self, i, name, value, kind, compute, shape, read, after, in_place_safe
    ) -> np.ndarray:
        array = self.memory.array(value)
        held = self.memory.held_as(value.dtype)
        if compute is BITS:
            array = array.view(bits_of(held))
        wanted = self._shaped(value.shape, kind, shape)
        cast = store_cast(compute, held) if compute is not BITS else None
        viewed = _reshaped(array, wanted)
        clear = in_place_safe or not any(self.memory.may_alias(value, other) for other in read)
        # A destination whose elements share places would spoil what is read of `out` again, such as a running sum.
        clear = clear and not _shares_places(value)
        # A result over one that is stored after the call must follow it: the last operand wins.
        clear = clear and not any(np.may_share_memory(array, s.keywords["out"]) for s in after)
        if cast is None and viewed is not None and clear:
            return viewed
        kind_of = array.dtype if compute is None or compute is BITS else np.dtype(compute)
        result = self.scratch.array(f"out_{name}", value.shape, kind_of)
        after.append(partial(_cast(cast), source=result, out=array))
        count = overflows(held) if compute == FLOAT32 else None
        if count is not None:
            tell = partial(self.notice, i.definition.name, i.stack)
            after.append(
                partial(
                    _tell_overflow, result=result, out=array, dtype=held, count=count, tell=tell
                )
            )
        return result.reshape(wanted)

    # -- hidden registers ----------------------------------------------------------------------------------------

    def _register(self, i: Instruction, state: Any) -> np.ndarray:
        if i.definition.every_lane:
            return self.registers[state]
        view = (*i.read(), *i.written())[0]
        first = view.start_partition
        address = self.memory.addresses.get(view.storage.id, view.storage.address)
        first += address.partition if address is not None else 0
        return self.registers[state][first : first + view.shape[0]]

    # -- first writes of PSUM ------------------------------------------------------------------------------------

    def _mask(self, i: Instruction) -> Any:
        """Return which elements of `dst` were written before, where that was left to be decided per element."""
        dst = i.dst
        mask = self.written.get(dst.storage.id)
        if mask is None or i.accumulate is not None:
            return None
        return _mask_view(mask, dst)

    def _mask_updates(self, i: Instruction) -> list[Step]:
        if not self.written:
            return []
        return [
            partial(_set, mask=_mask_view(self.written[v.storage.id], v))
            for v in i.written()
            if v.storage.id in self.written
        ]


def run_steps(steps: Iterable[Callable[[], Any]]) -> None:
    """Make calls one after the other; an error in one of them gets its instruction's line."""
    step = None
    try:
        for step in steps:
            step()
    except BaseException as error:
        i = getattr(step, "instruction", None)
        if isinstance(error, NkiError):
            tell_where(error, i)
        # An interrupt, or the end of the time that a run may take; between two passes its place is the loop.
        elif (node := i or getattr(step, "loop", None)) is not None:
            came_at(error, node.stack)
        raise


def tell_where(error: NkiError, i: Instruction | None) -> None:
    """Give an error of an instruction's values its place, and name the instruction's tensors."""
    if i is None or error.stack:
        return
    error.stack = i.stack
    tensors = ((n, i.args[i.definition.position[n]]) for n in i.definition.operands)
    described = [f"{n} = {t.describe()}" for n, t in tensors if type(t) is NkiTensor]
    error.notes = (*error.notes, *described)


def _tell_overflow(
    result: np.ndarray,
    out: np.ndarray,
    dtype: DType,
    count: Callable[[np.ndarray, np.ndarray], int],
    tell: Callable[[int, int, str, str], None],
) -> None:
    lost = count(result, out)
    if lost:
        what = "NaN" if dtype is float8_e4m3fn else "infinity"
        largest = float(ml_dtypes.finfo(dtype.np).max)
        tell(
            lost,
            result.size,
            f"values overflow to {what} in {dtype}, whose largest is {largest:g}",
            f"scale them, or limit them to {largest:g} with nl.minimum and nl.maximum before they are cast",
        )


def _shares_places(view: NkiTensor) -> bool:
    """Tell whether elements of a view may lie on each other, as those of a step of 0 do."""
    reach = 0
    for stride, size in sorted(zip(view.strides, view.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False


def _mask_view(mask: np.ndarray, view: NkiTensor) -> np.ndarray:
    if view.dtype.itemsize != view.storage.dtype.itemsize:
        raise NotModelled(
            f"{view.storage.describe()} is written as {view.dtype} while a product is to decide per element whether to"
            " add to it",
            help="write the accumulator in its own dtype, or say accumulate=True or False",
        )
    return np.ndarray(view.shape, bool, mask, view.offset, view.strides)


def _cast(cast: Any) -> Any:
    return _copy if cast is None else cast


def _set(mask: np.ndarray) -> None:
    mask[...] = True


def _copy(source: np.ndarray, out: np.ndarray) -> None:
    np.copyto(out, source, casting="unsafe")


def _reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a view of `array` in another shape, or None where that needs a copy."""
    if array.shape == shape:
        return array
    strides = reshape_strides(array.shape, array.strides, shape)
    if strides is None:
        return None
    # An axis of size 1 needs no stride; NumPy only wants one. as_strided does not know ml_dtypes.
    patterns = array.view(f"u{array.itemsize}")
    return np.lib.stride_tricks.as_strided(patterns, shape, strides).view(array.dtype)
