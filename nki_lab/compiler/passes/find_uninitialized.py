"""Which elements are read although nothing has written them?

On the chip such a read gives whatever was there before; here it gives NaN (4 for integers, as in the official
simulator, nki/guides/nki_simulator.rst), never a former tensor's bytes, and a finding says where. The same holds for
accumulators that are read although nothing has reset them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from nki_lab.compiler.findings import FindingsByPlace
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.overwritten import find_overwritten
from nki_lab.errors import KernelResult
from nki_lab.ir.coverage import Coverage, Written, is_whole
from nki_lab.ir.instruction import READ, SPOIL, UPDATE, WRITE, Form, Instruction
from nki_lab.ir.nodes import Finding, Kernel
from nki_lab.ir.state import State
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor
from nki_lab.targets.spaces import SHARED_HBM

Part = Callable[[Instruction, NkiTensor], NkiTensor]
#: What old values count as read, and the functions of the parts read and written; all per position.
_Facts = tuple[dict[int, str], dict[int, Part], dict[int, Part]]


def find_uninitialized(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with a finding per unwritten read and the storages to fill before use."""
    findings, poisoned, unwritten = _look_at(kernel)
    if kernel.outputs and len(unwritten) == len(kernel.outputs) and not kernel.written_inputs:
        raise _no_result(kernel, unwritten)
    return kernel.with_(findings=(*findings, *find_overwritten(kernel)), poisoned=poisoned)


def unwritten_reads(kernel: Kernel) -> tuple[Finding, ...]:
    """Return a finding per read, or result, of what nothing has written; the kernel stays as it is."""
    return _look_at(kernel)[0]


def _look_at(kernel: Kernel) -> tuple[tuple[Finding, ...], frozenset[int], list[NkiTensor]]:
    """Return the findings, the storages to fill before use, and the results of which nothing is written."""
    coverage: dict[int, Coverage] = {}
    poisoned: set[int] = set()
    findings = FindingsByPlace(kernel.findings)
    known: set[State] = set()
    uncertain: set[int] = set()
    numbers = kernel.loop_numbers
    filled = _filled(kernel).tolist()
    for n in _touching(kernel, filled):
        i = kernel.instructions[n]
        form = i.form
        updated, parts, written = _facts(form)
        for position, view in _reads(i, parts):
            storage = view.storage
            if storage.origin != "temporary" or filled[storage.id]:
                continue
            seen = coverage.get(storage.id)
            if seen is None:
                seen = coverage[storage.id] = Coverage(storage)
            if seen.whole:
                continue
            if (
                view.dynamic is not None
                or storage.id in uncertain
                or _others_write(kernel, storage)
            ):
                # Which elements it touches is known only while running: what was never written reads as NaN.
                poisoned.add(storage.id)
                continue
            if seen.written(view) is Written.ALL:
                continue
            poisoned.add(storage.id)
            kind = updated.get(position)
            if kind == "partial" or (
                kind == "first" and i.args[i.definition.position["accumulate"]] is None
            ):
                continue
            findings.add(position, i.stack, partial(_finding, i, position, view, seen))
        for state, role in form.state:
            if role in (READ, UPDATE) and state.is_accumulator and state not in known:
                findings.add(state, i.stack, partial(_unknown_state, i, state))
            if role == WRITE:
                known.add(state)
            elif role == SPOIL:
                known.discard(state)
        for position in form.writes:
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                if filled[storage.id]:
                    continue
                seen = coverage.get(storage.id)
                if seen is None:
                    seen = coverage[storage.id] = Coverage(storage)
                if seen.whole or _only_ordered(i, storage):
                    continue
                if view.dynamic is not None or storage.loop != numbers[n]:
                    # A view placed by a value, or a loop that may not run at all: some of it may stay unwritten.
                    uncertain.add(storage.id)
                    poisoned.add(storage.id)
                else:
                    seen.write(written[position](i, view) if position in written else view)
    unwritten: list[NkiTensor] = []
    for view in kernel.outputs:
        storage = view.storage
        seen = coverage.get(storage.id) or Coverage(storage)
        if (
            storage.origin == "temporary"
            and not filled[storage.id]
            and storage.id not in uncertain
            and seen.written(view) is not Written.ALL
        ):
            poisoned.add(storage.id)
            if _others_write(kernel, storage):
                continue
            findings.add("result", storage.stack, partial(_unwritten_result, view, seen))
            if seen.missing(view) == view.size:
                unwritten.append(view)
    return findings.all(), frozenset(poisoned), unwritten


def _facts(form: Form) -> _Facts:
    known: _Facts | None = form.cache.get(find_uninitialized)
    if known is None:
        known = _update_kinds(form.example), *_parts(form.example)
        form.cache[find_uninitialized] = known
    return known


def _filled(kernel: Kernel) -> np.ndarray:
    """Return, per storage id, whether it is written as a whole before anything reads it, as most tiles are."""
    touches, loops = kernel.touches, kernel.loop_numbers
    first = touches.first()
    begins = np.flatnonzero(touches.writes & (touches.at == first[touches.storage]))
    filled = np.zeros(len(kernel.storages), bool)
    filled[touches.storage[begins]] = True
    for access, n in zip(begins.tolist(), touches.at[begins].tolist(), strict=True):
        i, view = kernel.instructions[n], touches.views[access]
        storage = view.storage
        in_parts = storage.loop != loops[n] or not is_whole(view) or _facts(i.form)[2]
        if in_parts or _only_ordered(i, storage):
            filled[storage.id] = False
    filled[: touches.storages] &= touches.first(touches.reads) > first
    return filled


def _touching(kernel: Kernel, filled: list[bool]) -> list[int]:
    """Return the instructions, in order, that use a hidden register or touch a storage that is not `filled`.

    Reading an argument, which nothing leaves unwritten, does not count.
    """
    touches = kernel.touches
    temporary = np.array([s.origin == "temporary" for s in kernel.storages], bool)
    chosen = touches.per_form(lambda form: bool(form.state))
    matters = ~np.array(filled, bool)[touches.storage] & (
        touches.writes | temporary[touches.storage]
    )
    chosen[touches.at[matters]] = True
    found: list[int] = np.flatnonzero(chosen).tolist()
    return found


def _only_ordered(i: Instruction, storage: Storage) -> bool:
    """Tell whether an instruction orders uses of a tensor, as a barrier does, and puts nothing into it."""
    return i.definition.meets and storage.buffer is SHARED_HBM


def _others_write(kernel: Kernel, storage: Storage) -> bool:
    """Tell whether another core may write a tensor: what this core leaves unwritten says nothing then."""
    return kernel.program[1] > 1 and storage.buffer is SHARED_HBM


def unwritten_results(cores: tuple[Kernel, Kernel], same: dict[int, int]) -> list[Finding]:
    """Return a finding per result that two cores together leave unwritten in parts.

    `same` gives, for the storages of the second core, those of the first that are the same memory.
    """
    first, second = cores
    results = [v for v in first.outputs if v.storage.origin == "temporary"]
    coverage = {v.storage.id: Coverage(v.storage) for v in results}
    uncertain: set[int] = set()
    for core, name in ((first, {key: key for key in coverage}), (second, same)):
        for n, i in enumerate(core.instructions):
            for position in i.form.writes:
                value = i.args[position]
                for view in value if type(value) is tuple else (value,):
                    key = name.get(view.storage.id)
                    if key is None or key not in coverage or _only_ordered(i, view.storage):
                        continue
                    if view.dynamic is not None or view.storage.loop != core.loop_numbers[n]:
                        uncertain.add(key)
                        continue
                    part = _parts(i)[1].get(position)
                    coverage[key].write(view if part is None else part(i, view))
    left = [
        v for v in results
        if v.storage.id not in uncertain and coverage[v.storage.id].written(v) is not Written.ALL
    ]  # fmt: skip
    return [_unwritten_result(v, coverage[v.storage.id]) for v in left]


def _reads(i: Instruction, parts: dict[int, Part]) -> Iterator[tuple[int, NkiTensor]]:
    """Yield what is really read: operands with their position, and the tiles of indices that address them."""
    for position in i.form.reads:
        value = i.args[position]
        for view in value if type(value) is tuple else (value,):
            whole = position not in parts or view.dynamic is not None
            yield position, view if whole else parts[position](i, view)
    if i.form.dynamic:
        for position in {*i.form.reads, *i.form.writes}:
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                if view.dynamic is not None and type(view.dynamic.index) is NkiTensor:
                    yield position, view.dynamic.index


def _update_kinds(i: Instruction) -> dict[int, str]:
    """Say, per updated operand, whether its old value counts as read where nothing was written."""
    kinds = {}
    for position, role in i.definition.roles(i):
        if role == UPDATE and i.definition.operands[i.definition.params[position]].part_written:
            continue  # which elements are read is known
        if role == UPDATE:
            # With `accumulate` the first write needs no old value; otherwise some elements may just keep theirs.
            kinds[position] = "first" if "accumulate" in i.definition.position else "partial"
        assert role != WRITE or position not in i.form.reads
    return kinds


def _parts(i: Instruction) -> tuple[dict[int, Part], dict[int, Part]]:
    """Return the functions that give the parts read and written, per operand of which not all is touched."""
    read: dict[int, Part] = {}
    written: dict[int, Part] = {}
    for name, operand in i.definition.operands.items():
        if operand.part is not None:
            position = i.definition.position[name]
            read[position] = operand.part
            written[position] = operand.part_written or operand.part
    return read, written


def _finding(i: Instruction, position: int, view: NkiTensor, seen: Coverage) -> Finding:
    missing = seen.missing(view)
    where = seen.first_missing(view)
    what = "all" if missing == view.size else f"{missing} of {view.size}"
    help = "write the tile first, e.g. nisa.memset(dst=tile, value=0.0) or nisa.dma_copy"
    if "accumulate" in i.definition.position and i.definition.params[position] == "dst":
        help = "leave `accumulate` out, or pass accumulate=False for the first product"
    return Finding(
        "uninitialized",
        f"{i.definition.name}: {what} elements of {i.definition.params[position]} = {view.describe()} are read"
        f" but were never written, the first at index {list(where)}",
        i.stack,
        help=help,
        code="NKI401",
    )


def _unwritten_result(view: NkiTensor, seen: Coverage) -> Finding:
    return Finding(
        "uninitialized",
        f"{seen.missing(view)} of {view.size} elements of the result {view.describe()} are never written",
        view.storage.stack,
        help="write every element with nisa.dma_copy before the kernel returns",
        code="NKI401",
    )


def _no_result(kernel: Kernel, unwritten: list[NkiTensor]) -> KernelResult:
    return KernelResult(
        f"{kernel.name} computes nothing: no element of what it returns is ever written",
        stack=unwritten[0].storage.stack,
        notes=[f"returned: {view.describe()}" for view in unwritten],
        help="write the result with nisa.dma_copy(dst=result, src=tile) before the kernel returns",
    )


def _unknown_state(i: Instruction, state: State) -> Finding:
    # By engine and not by partition: the first reset anywhere counts, so that nothing is reported wrongly.
    return Finding(
        "uninitialized",
        f"{i.definition.name}: {state.title} is read, and no instruction before has set it",
        i.stack,
        help="start with reduce_cmd=nisa.reduce_cmd.reset_reduce; what an earlier kernel or idle left is undefined",
        code="NKI401",
    )
