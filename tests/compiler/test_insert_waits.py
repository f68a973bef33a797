"""Tests that waits enforce every dependence through bytes, whatever each engine does meanwhile.

The checker knows bytes, not tensors: it enumerates what each instruction reads and writes, at the addresses where the
tiles lie, and asks which order the waits and the in-order engines guarantee. DMA transfers may finish in any order.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.compiler.passes.dependences import dependences
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.errors import OverCapacity
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import READ
from nki_lab.isa.operators import OPS
from nki_lab.targets import TRN2
from nki_lab.targets.engines import DMA, GPSIMD
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from tests.compiler.check_schedule import check_schedule
from tests.compiler.programs import SMALL, compiled, passed, random_program, traced
from tests.ir.views import byte_numbers, views
from tests.thorough import examples


class Bytes:
    """Which bytes of a program's memories each instruction touches, as packed bits; HBM lies behind the chip."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.start, self.pitch = {}, {}
        end = 0
        for space in (SBUF, PSUM):
            placed = [s for s in kernel.storages if s.buffer is space and s.id in kernel.addresses]
            self.start[space] = end
            self.pitch[space] = max(
                (kernel.addresses[s.id].byte + s.row_bytes for s in placed), default=0
            )
            end += 128 * self.pitch[space]
        for s in kernel.storages:
            if not s.on_chip:
                self.start[s.id] = end
                end += s.nbytes
        self.end = end

    def numbers(self, view):
        storage = view.storage
        numbers = byte_numbers(view).reshape(-1)
        if not storage.on_chip:
            return numbers + self.start[storage.id]
        partition, byte = self.kernel.addresses[storage.id]
        row, column = np.divmod(numbers, storage.row_bytes)
        return (
            self.start[storage.buffer]
            + (partition + row) * self.pitch[storage.buffer]
            + byte
            + column
        )

    def touched(self, views):
        mask = np.zeros(self.end, bool)
        for view in views:
            mask[self.numbers(view)] = True
        return np.packbits(mask)


def only_read(i):
    """Return the tensors of which `i` needs the values before it begins; an accumulator is added to at the end."""
    written = {id(v) for k in i.form.writes for v in [i.args[k]]}
    return [v for v in i.read() if id(v) not in written]


def conflicts(kernel):
    """Return (earlier, later) for instructions of which one writes a byte or register that the other uses.

    Left out is what an in-order engine keeps by itself: it overwrites, and updates its registers, in order.
    """
    memory = Bytes(kernel)
    instructions = kernel.instructions
    reads = [memory.touched(i.read()) for i in instructions]
    writes = [memory.touched(i.written()) for i in instructions]
    results = [memory.touched(only_read(i)) for i in instructions]
    states = [dict(i.form.state) for i in instructions]
    found = set()
    for b in range(len(reads)):
        uses = reads[b] | writes[b]
        for a in range(b):
            if (writes[a] & results[b]).any():
                found.add((a, b))
            if instructions[a].form.engine is instructions[b].form.engine is not DMA:
                continue
            shared = any(
                states[a][s] != READ or states[b][s] != READ for s in states[a] if s in states[b]
            )
            if shared or (writes[a] & uses).any() or (reads[a] & writes[b]).any():
                found.add((a, b))
    return found


def finished_before(kernel):
    """Return, per instruction, which ones have surely finished when it starts."""
    engines = [i.form.engine for i in kernel.instructions]
    done = []
    previous = {}  # in-order engine -> its latest instruction
    for n, waits in enumerate(kernel.waits):
        engine = engines[n]
        # An in-order engine starts an instruction after it started the one before.
        before = set(done[previous[engine]]) if engine in previous else set()
        for k in waits:
            assert k < n, "an instruction waits for a later one"
            before |= {k} | done[k]
            if engines[k] is not DMA:  # it finishes in order
                earlier = {m for m in range(k) if engines[m] is engines[k]}
                before |= earlier.union(*(done[m] for m in earlier))
        done.append(before)
        if engine is not DMA:
            previous[engine] = n
    return done


MACHINES = {"trn2": TRN2, "small": SMALL}


def unguarded(kernel, needed=None):
    """Return the conflicts that nothing orders."""
    done = finished_before(kernel)
    return sorted((a, b) for a, b in needed or conflicts(kernel) if a not in done[b])


@settings(max_examples=examples(120))
@given(st.randoms(use_true_random=False), st.sampled_from(("trn2", "small")))
def test_every_dependence_is_guarded(pick, target):
    kernel = random_program(pick, length=30, tiles=6, target=MACHINES[target])
    try:
        kernel = passed(kernel)
    except OverCapacity:
        return
    assert unguarded(kernel) == []


@settings(max_examples=examples(25))
@given(st.randoms(use_true_random=False), st.sampled_from(("trn2", "small")))
def test_no_wait_is_implied_by_the_others(pick, target):
    """Without a wait, nothing else says that the instruction it names has finished."""
    kernel = random_program(pick, length=30, tiles=6, target=MACHINES[target])
    try:
        kernel = passed(kernel)
    except OverCapacity:
        return
    for n, waits in enumerate(kernel.waits):
        for k in waits:
            fewer = list(kernel.waits)
            fewer[n] = tuple(w for w in waits if w != k)
            assert k not in finished_before(kernel.with_(waits=fewer))[n], (k, n)


def test_waits_are_implied_across_engines_and_transfers():
    """A transfer waits for Vector, GpSimd for the transfer: so GpSimd has no need to wait for Vector."""

    def build(tile):
        a, b = tile(128, 8), tile(128, 8)
        nisa.memset(dst=a, value=1.0)
        nisa.dma_copy(dst=b, src=a)
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=OPS["add"], engine=GPSIMD)
        nisa.dma_copy(dst=a, src=b)

    assert waits_of(build) == ((), (0,), (1,), (2,))


def test_without_any_one_wait_a_tiled_kernel_is_broken():
    arrays = np.ones((128, 128), np.float32), np.ones((128, 512), np.float32)
    kernel = compiled(matmul, *arrays, options=Choices()).kernel
    assert check_schedule(kernel, kernel) == []
    for n, waits in enumerate(kernel.waits):
        for k in waits:
            fewer = list(kernel.waits)
            fewer[n] = tuple(w for w in waits if w != k)
            assert check_schedule(kernel, kernel.with_(waits=tuple(fewer)))


def test_the_checker_sees_a_missing_wait():
    kernel = passed(random_program(random.Random(3), length=30, tiles=6, target=SMALL))
    needed = conflicts(kernel)
    broken = 0
    for n, waits in enumerate(kernel.waits):
        for k in waits:
            fewer = list(kernel.waits)
            fewer[n] = tuple(w for w in waits if w != k)
            broken += bool(unguarded(kernel.with_(waits=fewer), needed))
    assert broken > sum(map(len, kernel.waits)) // 2


def matmul(lhs, rhs):
    import nki_lab.language as nl

    (k_size, m_size), (_, n_size) = lhs.shape, rhs.shape
    out = nl.ndarray((m_size, n_size), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for m in range(0, m_size, 128):
        for n in range(0, n_size, 256):
            acc = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, k_size, 64):
                a = nl.ndarray((64, 128), dtype=lhs.dtype, buffer=nl.sbuf)
                b = nl.ndarray((64, 256), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=lhs[k : k + 64, m : m + 128])
                nisa.dma_copy(dst=b, src=rhs[k : k + 64, n : n + 256])
                nisa.nc_matmul(dst=acc, stationary=a, moving=b)
            result = nl.ndarray((128, 256), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=acc)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 256], src=result)
    return out


def test_a_tiled_kernel_waits_for_what_it_needs_and_no_more():
    target = replace(
        TRN2, sbuf_bytes_per_partition=4096, sbuf_reserved_bytes_per_partition=0, psum_banks=2
    )
    arrays = np.ones((256, 256), np.float32), np.ones((256, 768), np.float32)
    kernel = compiled(matmul, *arrays, target=target).kernel
    assert unguarded(kernel) == []
    needed = conflicts(kernel)
    engines = [i.form.engine for i in kernel.instructions]
    for n, waits in enumerate(kernel.waits):
        for k in waits:
            assert (k, n) in needed, "in a grid of whole tiles every wait has a reason"
        in_order = [engines[k] for k in waits if engines[k] is not DMA]
        assert len(in_order) == len(set(in_order)), "one wait per in-order engine is enough"
    assert sum(map(len, kernel.waits)) < 2.5 * len(kernel.waits)


# -- single dependences -------------------------------------------------------------------------------------------


def waits_of(build, target=TRN2):
    """Return the waits of a program that `build(allocate)` writes."""
    b = Builder(target)
    with b.active():
        build(lambda *shape, space=SBUF, **facts: b.allocate(shape, "float32", space, **facts))
    assert not b.errors, b.errors[0]
    kernel = traced(b)
    for run_pass in (allocate_sbuf, allocate_psum, insert_waits):
        kernel = run_pass(kernel, Choices())
    return kernel.waits


def test_reads_do_not_wait_for_reads():
    def build(tile):
        a, b, c = tile(128, 8), tile(128, 8), tile(128, 8)
        nisa.memset(dst=a, value=1.0)
        nisa.dma_copy(dst=b, src=a)
        nisa.dma_copy(dst=c, src=a)

    assert waits_of(build) == ((), (0,), (0,))


def test_other_columns_of_a_tile_are_no_dependence():
    def build(tile):
        a, b = tile(128, 8), tile(128, 8)
        nisa.dma_copy(dst=a[:, 0:4], src=b[:, 0:4])
        nisa.dma_copy(dst=a[:, 4:8], src=b[:, 4:8])
        nisa.dma_copy(dst=b[:, 0:2], src=a[:, 5:7])

    assert waits_of(build)[1:] == ((), (0, 1))


def test_a_place_used_before_is_waited_for():
    """The second tile has the bytes of the first, whose last reader is a transfer still under way."""

    def build(tile):
        out = tile(128, 8, space=PRIVATE_HBM)
        a = tile(128, 8, address=(0, 64))
        nisa.memset(dst=a, value=1.0)
        nisa.dma_copy(dst=out, src=a)
        b = tile(64, 8, address=(64, 80))
        nisa.memset(dst=b, value=2.0)

    assert waits_of(build) == ((), (0,), (1,))


def test_each_part_of_a_tile_waits_for_what_its_bytes_held():
    def build(tile):
        out, source = tile(128, 8, space=PRIVATE_HBM), tile(128, 8, space=PRIVATE_HBM)
        a = tile(128, 8, address=(0, 64))
        nisa.memset(dst=a, value=1.0)
        nisa.dma_copy(dst=out[:, 0:4], src=a[:, 0:4])
        nisa.dma_copy(dst=out[:, 4:8], src=a[:, 4:8])
        b = tile(128, 8, address=(0, 64))
        nisa.dma_copy(dst=b[:, 0:4], src=source[:, 0:4])
        nisa.dma_copy(dst=b[:, 4:8], src=source[:, 4:8])

    assert waits_of(build)[3:] == ((1,), (2,)), "and those waited for #0"


def test_tiles_in_other_partitions_keep_their_place():
    def build(tile):
        out = tile(256, 8, space=PRIVATE_HBM)
        low = tile(64, 8, address=(0, 0))
        nisa.memset(dst=low, value=1.0)
        nisa.dma_copy(dst=out[0:64], src=low)
        high = tile(64, 8, address=(64, 0))
        nisa.memset(dst=high, value=2.0)
        whole = tile(128, 8, address=(0, 0))
        nisa.memset(dst=whole, value=3.0, engine=GPSIMD)

    assert waits_of(build) == ((), (0,), (), (1, 2))


def test_transfers_into_one_hbm_tensor_run_side_by_side():
    def build(tile):
        out, a = tile(1024, 64, space=SHARED_HBM), tile(128, 64)
        nisa.memset(dst=a, value=1.0)
        for row in range(0, 1024, 128):
            nisa.dma_copy(dst=out[row : row + 128], src=a)
        nisa.dma_copy(dst=a, src=out[256:384])

    waits = waits_of(build)
    assert waits[1:9] == ((0,),) * 8
    assert set(waits[9]) >= set(range(1, 9)), (
        "the store it reads, and the stores that read its tile"
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda t: t.reshape((256, 256))[200:210],  # another pitch
        lambda t: t.reshape((512 * 128,))[52000:52100],  # one long row
        lambda t: t.reshape((128, 4, 128))[101:104, :, 5],
        lambda t: t.permute((1, 0))[3:7, 400:420],
    ],
    ids=["pitch", "flat", "three axes", "transposed"],
)
def test_views_of_another_shape_meet_in_hbm(other):
    """What lies where is a matter of bytes, also where rows are counted differently."""
    b = Builder(TRN2)
    with b.active():
        t = b.allocate((512, 128), "float32", PRIVATE_HBM)
        source = b.allocate((512, 128), "float32", PRIVATE_HBM, origin="input")
        nisa.dma_copy(dst=t[384:512], src=source[384:512])
        view = other(t)
        nisa.dma_copy(dst=b.allocate(view.shape, "float32", PRIVATE_HBM), src=view)
    assert dependences(traced(b)) == [(), (0,)]


@settings(max_examples=examples(150))
@given(st.data())
def test_dependences_in_hbm_miss_nothing(data):
    b = Builder(TRN2)
    with b.active():
        t = b.allocate((300, 5), "float32", PRIVATE_HBM)
        for _ in range(data.draw(st.integers(2, 6))):
            view = data.draw(views(t.storage))
            if data.draw(st.booleans()):
                nisa.dma_copy(
                    dst=view, src=b.allocate(view.shape, view.dtype, PRIVATE_HBM, origin="input")
                )
            else:
                nisa.dma_copy(dst=b.allocate(view.shape, view.dtype, PRIVATE_HBM), src=view)
    b.errors.clear()  # patterns that write an element twice are no matter here
    kernel = insert_waits(traced(b), Choices())
    assert unguarded(kernel) == []


def test_hidden_registers_are_dependences():
    b = Builder(TRN2)
    with b.active():
        a, c = b.allocate((128, 8), "float32"), b.allocate((128, 8), "float32")
        nisa.memset(dst=a, value=1.0)
        facts = {"op": OPS["exp"], "data": a, "reduce_op": OPS["add"]}
        for command in (nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce):
            nisa.activation(dst=b.allocate((128, 8), "float32"), reduce_cmd=command, **facts)
        nisa.activation(dst=c, op=OPS["exp"], data=a)
    assert not b.errors
    assert dependences(traced(b)) == [(), (0,), (0, 1), (0,)]


def test_depends_on_is_a_dependence():
    def build(tile):
        a, b = tile(128, 8), tile(128, 8, space=PSUM)
        first = nisa.memset(dst=a, value=1.0)
        nisa.memset(dst=b, value=1.0).depends_on(first)

    assert waits_of(build)[1] == (0,)
