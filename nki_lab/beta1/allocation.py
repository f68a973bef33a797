"""Places tensors where the author says: `buffer=sbuf.alloc(...)`, `psum.mod_alloc(...)`, and what goes with it.

A kernel places all of its tensors on the chip itself, or none (general/nki/nki_direct_allocation_guide.rst). Whether
tensors that are in use at the same time share bytes is checked by the compiler, as for addresses of today's NKI.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from math import prod
from operator import index
from typing import Any

from nki_lab.beta1.inserted import INSERTED
from nki_lab.beta1.keywords import refusing
from nki_lab.beta1.promotion import integer, integers
from nki_lab.errors import AddressConflict, KernelArgument, MixedAllocation, NotModelled
from nki_lab.errors.beta1 import older
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.transpose import nc_transpose
from nki_lab.language.program import no_reorder as ordered
from nki_lab.source import Span, Stack, is_prebuilt
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spaces import PSUM, SBUF, MemoryRegion
from nki_lab.targets.spec import Target

#: The place of a block: (start partition, byte) in SBUF, (bank, start partition, byte) in PSUM.
Place = tuple[int, ...]
#: `(index of the block, partitions, bytes per partition) -> place`.
Placement = Callable[[tuple[int, ...], int, int], Place]

#: How functions of places name their arguments, where they take them by name.
_NAMES = ("idx", "pdim_size", "fdim_size")

_FORCED, _SKIPPED, _STACKED = "_nki_forced", "_nki_skips_middle_end", "_nki_stack_allocator"


class Allocation:
    """What `buffer=` may be instead of a memory: the memory, and the place of each block of the tensor in it."""

    def __init__(self, memory: MemoryRegion, function: Placement, call: str) -> None:
        self.memory, self.function, self.call = memory, function, call

    def __repr__(self) -> str:
        return f"nki.compiler.{self.memory.name}.{self.call}"

    def addresses(
        self, blocks: Sequence[int], partitions: int, row_bytes: int, target: Target
    ) -> Mapping[tuple[int, ...], tuple[int, int]]:
        """Return the address of each block, as today's NKI writes it: start partition, and byte within a partition.

        Args:
            blocks: sizes of the block axes; `()` is one block, whose index is `()`.
            partitions: of a block.
            row_bytes: bytes of a block in one partition.
            target: the chip.
        """
        if self.memory is PSUM and row_bytes > target.psum_bank_bytes:
            raise AddressConflict(
                f"{self}: a block has {row_bytes} bytes per partition, and a bank of PSUM holds"
                f" {target.psum_bank_bytes}",
                help="make its free axes smaller, to at most 512 elements of float32",
            )
        places = itertools.product(*map(range, blocks))
        return {at: self._address(at, partitions, row_bytes, target) for at in places}

    def _address(
        self, at: tuple[int, ...], partitions: int, row_bytes: int, target: Target
    ) -> tuple[int, int]:
        place = self.function(at, partitions, row_bytes)
        names = (
            "(bank, start partition, byte)" if self.memory is PSUM else "(start partition, byte)"
        )
        try:
            numbers = [index(n) for n in place]
        except TypeError:
            numbers = []
        if len(numbers) != names.count(",") + 1:
            raise AddressConflict(
                f"{self}: the function returned {place!r} for block {at}",
                help=f"return {names}, as integers",
            )
        *banks, start, byte = numbers
        for bank in banks:
            self._check_bank(at, bank, start, byte, target)
            byte = bank * target.psum_bank_bytes
        step = next((n for n in (32, 64) if partitions <= n), target.partitions)
        starts = range(0, target.partitions, step)
        if byte < 0:
            raise AddressConflict(
                f"{self}: block {at} starts at byte {byte}", help="start it at byte 0 or later"
            )
        if start not in starts:
            raise AddressConflict(
                f"{self}: block {at} has {partitions} partitions and starts at partition {start}",
                help=f"start it at partition {', '.join(map(str, starts))}",
            )
        return start, byte

    def _check_bank(self, at: tuple[int, ...], bank: int, start: int, byte: int, target: Target) -> None:  # fmt: skip
        banks = target.psum_bytes_per_partition // target.psum_bank_bytes
        if start or byte:
            raise AddressConflict(
                f"{self}: block {at} starts at partition {start} and byte {byte} of its bank",
                help="start it at partition 0 and byte 0: one block is in a bank at a time",
            )
        if not 0 <= bank < banks:
            raise AddressConflict(
                f"{self}: block {at} is in bank {bank}; PSUM has the banks 0 to {banks - 1}",
                help="choose another base_bank, or fewer banks in num_bank_tiles",
            )


def _by_position(func: Callable[..., Place]) -> Placement | None:
    """Return what calls a function by the documented names, or by position where it has others; None where it cannot.

    A function of C may not say what it takes: it is called by position.
    """
    try:
        taken = inspect.signature(func)
    except ValueError:
        return func
    with suppress(TypeError):
        taken.bind(**dict.fromkeys(_NAMES))
        return lambda *args: func(**dict(zip(_NAMES, args, strict=True)))
    with suppress(TypeError):
        taken.bind(*_NAMES)
        return func
    return None


class Memory:
    """`nki.compiler.sbuf` and `nki.compiler.psum`: a memory as `buffer=`, with its ways to place tensors."""

    def __init__(self, region: MemoryRegion) -> None:
        self.region = region

    def __repr__(self) -> str:
        return f"nki.compiler.{self.region.name}"

    def alloc(self, func: Callable[..., Place]) -> Allocation:
        """Return a buffer whose blocks are where `func(index, partitions, bytes per partition)` says."""
        if not callable(func):
            raise KernelArgument(
                f"{self}.alloc: `func` must be a function, found {type(func).__name__}",
                help="write a function of (index of the block, partitions, bytes per partition)",
            )
        name = getattr(func, "__name__", "func")
        placement = _by_position(func)
        if placement is None:
            raise KernelArgument(
                f"{self}.alloc: `{name}` does not take three arguments",
                help="write a function of (index of the block, partitions, bytes per partition)",
            )
        return Allocation(self.region, placement, f"alloc({name})")

    def auto_alloc(self) -> MemoryRegion:
        """Return the buffer whose tensors the compiler places, like `nl.sbuf` and `nl.psum`."""
        return self.region


class Sbuf(Memory):
    """`nki.compiler.sbuf`: SBUF as `buffer=`, with its ways to place tensors."""

    @refusing("nki.compiler.sbuf.mod_alloc")
    def mod_alloc(
        self, *, base_addr: int, base_partition: int = 0,
        num_par_tiles: tuple[int, ...] = (), num_free_tiles: tuple[int, ...] = (),
    ) -> Allocation:  # fmt: skip
        """Return a buffer whose blocks share `num_free_tiles` times `num_par_tiles` places, by index modulo these."""
        tiles = {"num_par_tiles": num_par_tiles, "num_free_tiles": num_free_tiles}
        integer(base_addr, "sbuf.mod_alloc: `base_addr`")
        integer(base_partition, "sbuf.mod_alloc: `base_partition`")

        def place(at: tuple[int, ...], partitions: int, row_bytes: int) -> Place:
            row, column = (_modulo(at, shape, name) for name, shape in tiles.items())
            return row * partitions + base_partition, column * row_bytes + base_addr

        return Allocation(SBUF, place, f"mod_alloc(base_addr={base_addr})")


class Psum(Memory):
    """`nki.compiler.psum`: PSUM as `buffer=`, with its ways to place tensors."""

    @refusing("nki.compiler.psum.mod_alloc")
    def mod_alloc(
        self, *, base_bank: int, base_addr: int = 0, base_partition: int = 0, num_bank_tiles: tuple[int, ...] = (),
        num_par_tiles: tuple[int, ...] = (), num_free_tiles: tuple[int, ...] = (),
    ) -> Allocation:  # fmt: skip
        """Return a buffer whose blocks share `num_bank_tiles` banks, by index modulo these."""
        tiles = {
            "num_bank_tiles": num_bank_tiles,
            "num_par_tiles": num_par_tiles,
            "num_free_tiles": num_free_tiles,
        }
        integer(base_bank, "psum.mod_alloc: `base_bank`")
        integer(base_addr, "psum.mod_alloc: `base_addr`")
        integer(base_partition, "psum.mod_alloc: `base_partition`")

        def place(at: tuple[int, ...], partitions: int, row_bytes: int) -> Place:
            bank, row, column = (_modulo(at, shape, name) for name, shape in tiles.items())
            return bank + base_bank, row * partitions + base_partition, column * row_bytes + base_addr  # fmt: skip

        return Allocation(PSUM, place, f"mod_alloc(base_bank={base_bank})")


SBUF_MEMORY, PSUM_MEMORY = Sbuf(SBUF), Psum(PSUM)


def _modulo(at: tuple[int, ...], shape: tuple[int, ...], name: str) -> int:
    """Return the number of a block among `shape` places, counted row by row: its index modulo the shape.

    A tensor without block axes is one block, the first; published kernels give numbers for it, too: (1,) or (32,).
    """
    shape = integers(shape, name, f"write {name}=(2,), one number for each block axis")
    if min(shape, default=1) < 1:
        raise AddressConflict(
            f"{name}={shape}: a number of places must be 1 or more",
            help=f"leave {name} out for one place",
        )
    if not shape or not at:
        return 0
    if len(shape) != len(at):
        raise AddressConflict(
            f"{name}={tuple(shape)} has {len(shape)} numbers, and the tensor {len(at)} block axes",
            help="write one number for each axis before the partition axis, or leave it out",
        )
    return sum(
        (index % size) * prod(shape[axis + 1 :])
        for axis, (index, size) in enumerate(zip(at, shape, strict=True))
    )


# -- decorators and directives -------------------------------------------------------------------------------------


def _marking(mark: str) -> Callable[[Any], Any]:
    def decorate(func: Any) -> Any:
        # A kernel keeps the author's function, which is what is run.
        setattr(getattr(func, "func", func), mark, True)
        return func

    return decorate


def force_auto_alloc(func: Any = None) -> Any:
    """Let the compiler place all tensors of a kernel, whatever their `buffer=` says."""
    decorate = _marking(_FORCED)
    return decorate if func is None else decorate(func)


def skip_middle_end_transformations(func: Any = None) -> Any:
    """Skip transformations between front end and allocation; there are none here."""
    decorate = _marking(_SKIPPED)
    return decorate if func is None else decorate(func)


def enable_stack_allocator(func: Any = None, log_level: int = 50) -> Any:
    """Place tensors with the stack allocator; the allocator is the same here, and `log_level` says nothing.

    It must stand beside skip_middle_end_transformations.
    """
    decorate = _marking(_STACKED)
    return decorate if func is None else decorate(func)


def allocation_scope() -> AbstractContextManager[None]:
    """Return a `with` block for tensors that are not used after it: their places are free after their last use."""
    return nullcontext()


class Directive:
    """What `nl.sequential_range(..., directives=...)` asks of the passes of a loop."""

    def __init__(self, call: str, around: Callable[[], AbstractContextManager[None]]) -> None:
        self.call, self.around = call, around

    def __repr__(self) -> str:
        return f"nki.compiler.{self.call}"


def multi_buffer(factor: int = 2) -> Directive:
    """Return a directive to keep `factor` copies of the tensors of a loop's passes.

    Each pass has its own tensors here, which overlap as far as the memory holds them: more copies than `factor`.
    """
    if type(factor) is not int or factor < 1:
        raise KernelArgument(
            f"multi_buffer({factor!r}): the number of copies must be a positive integer",
            help="write multi_buffer(2)",
        )
    return Directive(f"multi_buffer({factor})", nullcontext)


def no_reorder() -> Directive:
    """Return a directive to run the instructions of a loop one after the other, in program order."""
    return Directive("no_reorder()", ordered)


def around(directives: Any) -> ExitStack:
    """Return the `with` block for the passes of a loop that its directives ask for."""
    blocks = ExitStack()
    for directive in directives if isinstance(directives, (list, tuple)) else [directives]:
        if isinstance(directive, Directive):
            blocks.enter_context(directive.around())
        elif directive is not None:
            raise NotModelled(
                f"directives={directive!r}: this directive of a loop is not modelled",
                help="write nki.compiler.no_reorder() or nki.compiler.multi_buffer(2), or leave it out",
            )
    return blocks


# -- checks of a kernel --------------------------------------------------------------------------------------------


def is_forced(function: Any) -> bool:
    """Tell whether a kernel's own placement is ignored: `force_auto_alloc`."""
    return hasattr(function, _FORCED)


def check_decorators(function: Any) -> None:
    """Raise where the stack allocator is asked for without what it needs."""
    if hasattr(function, _STACKED) and not hasattr(function, _SKIPPED):
        raise KernelArgument(
            f"{function.__name__}: enable_stack_allocator stands without skip_middle_end_transformations",
            help="write @nki.compiler.skip_middle_end_transformations below it",
        )


def check_all_placed(builder: Builder, result: Any) -> None:
    """Raise where a kernel places some of its tensors itself, and the compiler would place others.

    What prebuilt kernels do is not the author's: they may do both.
    """
    if not any(s.address is not None and not _is_of_prebuilt(s.stack) for s in builder.storages):
        return
    instructions = [i for i in _instructions(builder) if not _is_of_prebuilt(i.stack)]
    used = {id(s): (s, i) for i in instructions for s in _storages(i)}
    automatic = [
        (s, i)
        for s, i in used.values()
        if s.on_chip and s.address is None and not s.name.startswith(INSERTED)
    ]
    if automatic:
        storage, i = automatic[0]
        raise MixedAllocation(
            f"{storage.describe()} is placed by the compiler, and other tensors of the kernel by `buffer=`"
            + f"; {len(automatic) - 1} more are" * (len(automatic) > 1),
            stack=storage.stack or i.stack,
            help="place it too: make it with nl.ndarray(..., buffer=nki.compiler.sbuf.mod_alloc(base_addr=...)) and"
            " assign to it, t[...] = ...; or place none, or write @nki.compiler.force_auto_alloc above the kernel",
        )
    for i in instructions:
        if i.definition is activation and i.bias is None:
            raise MixedAllocation(
                "an activation has no `bias`, for which the compiler would place a tensor of zeros",
                stack=i.stack,
                notes=[older("err_bias_tensor_must_be_specified_in_allocation")],
                help="write bias=zeros, with a tensor [P, 1] that the kernel places and fills",
            )
        if i.definition is nc_transpose and i.engine is TENSOR:
            raise MixedAllocation(
                "a transpose by the Tensor engine needs an identity matrix, which the compiler would place",
                stack=i.stack,
                notes=[
                    older("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel"),
                ],
                help="multiply by one that the kernel places, nisa.nc_matmul(data, identity); transpose small tiles"
                " with engine=nisa.engine.vector; give transpose_x=True to nl.matmul",
            )
    given = {id(storage) for storage in _returned(result)}
    own = [s for s, _ in used.values() if not s.on_chip and s.origin == "temporary" and id(s) not in given]  # fmt: skip
    if own:
        raise MixedAllocation(
            "Non IO HBM tensor is not supported in allocated NKI kernel: "
            + ", ".join(s.name for s in own),
            stack=own[0].stack,
            help="return it, pass it as an argument, or let the compiler place all tensors",
        )


def _is_of_prebuilt(stack: Stack) -> bool:
    """Tell whether a prebuilt kernel is at one of the places that led to a tensor or an instruction."""
    return any(not isinstance(place, Span) and is_prebuilt(place[0]) for place in stack)


def _returned(result: Any) -> Iterator[Storage]:
    if isinstance(result, NkiTensor):
        yield result.storage
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from _returned(item)
    elif isinstance(result, dict):
        yield from _returned([*result.values()])


def _instructions(builder: Builder) -> Iterator[Instruction]:
    return (i for i in builder.body if isinstance(i, Instruction))


def _storages(i: Instruction) -> Iterator[Storage]:
    for value in i.args:
        for view in value if isinstance(value, tuple) else (value,):
            if isinstance(view, NkiTensor):
                yield view.storage
