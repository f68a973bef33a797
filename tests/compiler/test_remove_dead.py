"""Tests that exactly what nobody reads is removed, and reported."""

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.source import Span
from tests.compiler.programs import compiled, line_of, simulated

X = np.arange(128 * 8, dtype=np.float32).reshape(128, 8)


def names(kernel):
    return [i.definition.name for i in kernel.instructions]


def unused(x, trips=1):
    out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    for _ in range(trips):
        first = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=first, src=t)  # only for the next line
        nisa.reciprocal(dst=second, data=first)  # for nobody
    nisa.dma_copy(dst=out, src=t)
    return out


def test_what_nobody_reads_goes_with_what_only_it_needed():
    kernel = compiled(unused, X).kernel
    assert names(kernel) == ["dma_copy", "dma_copy"]
    (out,) = simulated(kernel, [X])
    np.testing.assert_array_equal(out, X)
    first, second = kernel.findings
    assert [f.kind for f in (first, second)] == ["advice"] * 2
    assert (
        first.message
        == "tensor_copy writes `first` [128, 8] float32 in sbuf, which is never read: removed"
    )
    assert Span.of(first.stack[0]).line == line_of(__file__, "# only for the next line")
    assert Span.of(second.stack[0]).line == line_of(__file__, "# for nobody")


def test_a_loop_is_told_once():
    first, second = compiled(unused, X, 5).kernel.findings
    assert first.message.endswith("never read: removed (and 4 more times at this line)")
    assert second.message.startswith("reciprocal writes `second` [128, 8]")


def part_read(x):
    out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[:, 0:4], src=x[:, 0:4])
    nisa.dma_copy(dst=t[:, 4:8], src=x[:, 4:8])
    nisa.dma_copy(dst=out, src=t[:, 4:8])
    nisa.memset(dst=t, value=0.0)  # after the last read
    return out


def test_a_tile_that_is_read_in_part_keeps_its_writers_until_the_last_read():
    kernel = compiled(part_read, X).kernel
    assert names(kernel) == ["dma_copy"] * 3
    (finding,) = kernel.findings
    assert Span.of(finding.stack[0]).line == line_of(__file__, "# after the last read")


def side_effects(x):
    """Change an accumulator register, an HBM tensor and an argument, and nothing else that is read."""
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    spill = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.private_hbm)
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    e = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(
        dst=e, op=nl.copy, data=t, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    nisa.activation(
        dst=e,
        op=nl.copy,
        data=t,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reduce,
    )
    nisa.dma_copy(dst=out, src=total)
    nisa.dma_copy(dst=spill, src=t)
    nisa.memset(dst=t, value=-1.0)
    nisa.dma_copy(dst=x, src=t)
    return out


def test_registers_and_hbm_count_as_read():
    kernel = compiled(side_effects, X).kernel
    assert len(kernel.instructions) == 7 and kernel.findings == ()
    x = X.copy()
    from nki_lab.simulator import Program

    (out,) = Program(kernel).run([x])
    np.testing.assert_array_equal(out, 2 * X.astype(float).sum(axis=1, keepdims=True))
    assert (x == -1).all()


def depends_on_dead(x):
    out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    lost = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    gone = nisa.memset(dst=lost, value=0.0)
    nisa.dma_copy(dst=t, src=x).depends_on(gone)
    nisa.dma_copy(dst=out, src=t)
    return out


def test_nobody_waits_for_what_was_removed():
    kernel = compiled(depends_on_dead, X).kernel
    assert names(kernel) == ["dma_copy", "dma_copy"]
    assert kernel.waits == ((), (0,)) == insert_waits(kernel, None).waits


def read_through_another(x):
    """Both tiles are in use when `low` is written; it lies on the first half of `both`, which is read."""
    out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    both = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
    low = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
    nisa.dma_copy(dst=both, src=x)
    nisa.memset(dst=low, value=7.0)
    nisa.dma_copy(dst=out, src=both)
    return out


def test_what_is_read_through_a_tile_at_the_same_place_stays():
    kernel = compiled(read_through_another, X, options=Choices(capacity="finding")).kernel
    assert names(kernel) == ["dma_copy", "memset", "dma_copy"]
    (out,) = simulated(kernel, [X])
    np.testing.assert_array_equal(out, np.concatenate([np.full((128, 4), 7), X[:, 4:]], axis=1))
