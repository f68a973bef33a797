"""Verifier: checks that a kernel is a program that the machine could run.

Everything that is wrong is found at once. Rules of instructions were checked once per form; what a pass could have
broken (storages, views, addresses, waits) is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nki_lab.errors import (
    AddressConflict,
    BrokenProgram,
    KernelResult,
    LoopTensor,
    Needs,
    NkiError,
    OutOfBounds,
    OverCapacity,
    in_order,
)
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.definition.rule_errors import rule_error
from nki_lab.ir.program.nodes import Kernel, OutputRef
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.storage import Address, Storage, leaves_storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Stack
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF, SHARED_HBM
from nki_lab.targets.spec import Target


def verify(kernel: Kernel) -> list[NkiError]:
    """Return everything that is wrong with a kernel, in the order of the author's lines.

    The same mistake at the same place, e.g. in every trip of an unrolled loop, is one error.
    """
    errors: dict[tuple[str, Stack], NkiError] = {}
    for error in _errors(kernel):
        errors.setdefault((error.message, error.stack), error)
    return in_order(errors.values())


def _errors(kernel: Kernel) -> Iterator[NkiError]:
    yield from _storage_errors(kernel)
    inside: set[object] = set()
    for i in kernel.instructions:
        form = i.form or Form(i, kernel.target)
        for rule in form.broken:
            yield rule_error(rule, i)
        for tensor in _tensors(i.args):
            key = (tensor.storage, tensor.shape, tensor.strides, tensor.offset, tensor.dtype)
            if key not in inside:
                broken = list(_view_errors(kernel, tensor, i.definition.name, i.stack))
                yield from broken
                if not broken:
                    inside.add(key)
    yield from _wait_errors(kernel)
    yield from _result_errors(kernel)


# -- storages --------------------------------------------------------------------------------------------------------


def _storage_errors(kernel: Kernel) -> Iterator[NkiError]:
    names: set[str] = set()
    for position, s in enumerate(kernel.storages):
        if s.id != position:
            yield BrokenProgram(
                f"{s.describe()} has id {s.id} at position {position}", stack=s.stack
            )
        if s.name in names:
            yield BrokenProgram(f"two storages are called `{s.name}`", stack=s.stack)
        names.add(s.name)
        if s.data is not None and s.data.shape != s.shape:
            yield BrokenProgram(
                f"{s.describe()} holds data of shape {list(s.data.shape)}", stack=s.stack
            )
        if s.address is not None:
            yield from _address_errors(s, s.address, "requested", kernel.target)
    if kernel.addresses is not None:
        yield from _allocation_errors(kernel, kernel.addresses)


def _allocation_errors(kernel: Kernel, addresses: dict[int, Address]) -> Iterator[NkiError]:
    # An operand that the instruction does not touch (a bypassed immediate) needs no place.
    touched = {t.storage.id for i in kernel.instructions for t in (*i.read(), *i.written())}
    # SBUF and PSUM are allocated by their own passes.
    allocated = {s.buffer for s in kernel.storages if s.id in addresses}
    for s in kernel.storages:
        given = addresses.get(s.id)
        if given is not None:
            yield from _address_errors(s, given, "placed", kernel.target)
            if s.address is not None and given != s.address:
                yield BrokenProgram(
                    f"{s.describe()} is at {tuple(given)}, the author asked for {tuple(s.address)}",
                    stack=s.stack,
                )
        elif s.on_chip and s.id in touched and s.buffer in allocated:
            yield BrokenProgram(f"{s.describe()} is used but has no address", stack=s.stack)
    for stray in sorted(addresses.keys() - {s.id for s in kernel.storages}):
        yield BrokenProgram(f"there is an address for storage {stray}, which is not in the kernel")


def _address_errors(s: Storage, address: Address, how: str, target: Target) -> Iterator[NkiError]:
    where = f"{s.describe()} {how} at {tuple(address)}"
    if not s.on_chip:
        yield AddressConflict(
            f"{where}: only SBUF and PSUM have addresses",
            stack=s.stack,
            help="leave the address out",
        )
        return
    if address.partition < 0 or address.partition + s.partitions > target.partitions:
        last = address.partition + s.partitions - 1
        yield AddressConflict(
            f"{where}: reaches partition {last}, but the memory has {target.partitions}",
            stack=s.stack,
            help=f"begin at partition {max(target.partitions - s.partitions, 0)} or before",
        )
    end = address.byte + s.row_bytes
    in_sbuf = s.buffer is SBUF
    limit = target.sbuf_usable_bytes_per_partition if in_sbuf else target.psum_bytes_per_partition
    bank = target.psum_bank_bytes
    if address.byte < 0 or end > limit:
        yield OverCapacity(
            f"{where}: takes bytes {address.byte} to {end} of each partition, which has {limit} to use",
            stack=s.stack,
            help=f"end at byte {limit} or before",
        )
    elif not in_sbuf and address.byte % bank and address.byte % bank + s.row_bytes > bank:
        yield AddressConflict(
            f"{where}: crosses a bank of {bank} bytes",
            stack=s.stack,
            help=f"begin at a multiple of {bank} bytes",
        )


# -- views -----------------------------------------------------------------------------------------------------------


def _view_errors(kernel: Kernel, t: NkiTensor, user: str, stack: Stack) -> Iterator[NkiError]:
    s = t.storage
    if not (0 <= s.id < len(kernel.storages) and kernel.storages[s.id] is s):
        yield BrokenProgram(f"{user}: {t.describe()} is not in this kernel", stack=stack)
    if len(t.shape) != len(t.strides) or not t.shape or min(t.shape) < 1:
        yield BrokenProgram(f"{user}: {t.describe()} has strides {list(t.strides)}", stack=stack)
        return
    shape = t.shape
    if t.dynamic is not None:
        if t.dynamic.kind is Addressing.VECTOR:  # where each row is shows only while running
            shape = (1, *t.shape[1:])
        elif t.dynamic.kind is Addressing.ELEMENTS:
            # Each offset names one of the first `limit` elements.
            shape = (t.shape[0], t.dynamic.limit)
        if type(t.dynamic.index) is NkiTensor:
            yield from _view_errors(kernel, t.dynamic.index, user, stack)
    outside = leaves_storage(s, shape, t.strides, t.offset, t.dtype.itemsize)
    if outside:
        yield OutOfBounds(
            f"{user}: the view {t.describe()} {outside}",
            stack=stack,
            help="correct the offset, the shape or the strides of the view",
        )


def _tensors(values: Iterable[object]) -> Iterator[NkiTensor]:
    for value in values:
        if type(value) is NkiTensor:
            yield value
        elif type(value) is tuple:
            yield from _tensors(value)


# -- order and results -----------------------------------------------------------------------------------------------


def _wait_errors(kernel: Kernel) -> Iterator[NkiError]:
    instructions = kernel.instructions
    position = {i.ident: k for k, i in enumerate(instructions)}
    for k, i in enumerate(instructions):
        for producer in i.after:
            if position.get(producer.ident, -1) >= k:
                yield _late(i, k, position[producer.ident], "depends on", instructions)
    if kernel.waits is None:
        return
    if len(kernel.waits) != len(instructions):
        yield BrokenProgram(
            f"there are waits for {len(kernel.waits)} instructions, the kernel has {len(instructions)}"
        )
    for k, (i, waits) in enumerate(zip(instructions, kernel.waits, strict=False)):
        for other in waits:
            if not 0 <= other < k:
                yield _late(i, k, other, "waits for", instructions)


def _late(
    i: Instruction, k: int, other: int, how: str, instructions: tuple[Instruction, ...]
) -> NkiError:
    exists = 0 <= other < len(instructions)
    what = f"#{other} {instructions[other].definition.name}" if exists else f"#{other}"
    return BrokenProgram(
        f"{i.definition.name}: #{k} {how} {what}, which does not come before it", stack=i.stack
    )


def _result_errors(kernel: Kernel) -> Iterator[NkiError]:
    for t in kernel.outputs:
        yield from _view_errors(kernel, t, "result", t.storage.stack)
        if error := result_error(kernel.name, t, t.storage.stack):
            yield error
    returned = sorted(_returned(kernel.result))
    if returned != list(range(len(kernel.outputs))):
        yield BrokenProgram(
            f"{kernel.name} has {len(kernel.outputs)} outputs, its result holds {returned}"
        )


def result_error(kernel: str, result: NkiTensor, stack: Stack) -> NkiError | None:
    """Return why a tensor cannot be a kernel's result: another memory, gone by then, or at no fixed address."""
    if result.storage.buffer is not SHARED_HBM:
        return not_shared(kernel, result, stack)
    if result.storage.loop:
        return LoopTensor(
            f"{kernel} returns {result.describe()}, which was made in a device loop that has ended",
            stack=stack,
            help="make the tensor before the loop, so that it lives on after it",
        )
    if result.dynamic is not None:
        return KernelResult(
            f"{kernel} returns a part of {result.describe()} whose address is only known at run time",
            stack=stack,
            help="copy the part into a separate output tensor with nisa.dma_copy",
        )
    return None


def not_shared(
    kernel: str, result: NkiTensor, stack: Stack, needs: Needs | None = None
) -> KernelResult:
    """Return the error of a kernel whose result is not in shared HBM, which the versions in `needs` take."""
    advice = "make it with nl.ndarray(shape, dtype, buffer=nl.shared_hbm) and write it with nisa.dma_copy"
    return KernelResult(
        f"{kernel} returns {result.describe()}: a result must be in shared_hbm",
        stack=stack,
        notes=(
            "since NKI 0.3 the results of a kernel must be in shared_hbm; nl.hbm is private to a core"
            " (nki/migration/index.rst, Output tensors must use nl.shared_hbm)",
        ),
        help="write buffer=nl.shared_hbm where it is made"
        if result.buffer is PRIVATE_HBM
        else advice,
        needs=needs,
    )


def _returned(result: object) -> Iterator[int]:
    if isinstance(result, OutputRef):
        yield result.index
    elif isinstance(result, dict):
        yield from _returned(tuple(result.values()))
    elif isinstance(result, (tuple, list)):
        for value in result:
            yield from _returned(value)
