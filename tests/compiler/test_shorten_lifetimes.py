"""Tests that other orders of instructions make a program fit, and that nothing moves that must stay."""

from contextlib import nullcontext

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices, use_target
from nki_lab.errors import OverCapacity
from nki_lab.runtime import jit
from nki_lab.targets import TRN2
from tests.compiler.check_schedule import check_schedule
from tests.compiler.programs import check_placement, compiled, integers, simulated


def open_accumulators(lhs, rhs, filler=0):
    """Keep all accumulators open: for each k a product into each of them. `filler` bytes of SBUF are used first."""
    (k_size, m_size), n_size = lhs.shape, rhs.shape[1]
    out = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.shared_hbm)
    if filler:
        big = nl.ndarray((128, filler), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(dst=big, value=1)
        nisa.tensor_copy(dst=big[:, 0:1], src=big[:, 1:2])
        check = nl.ndarray((128, filler), dtype=nl.uint8, buffer=nl.private_hbm)
        nisa.dma_copy(dst=check, src=big)
    acc = [
        nl.ndarray((128, n_size), dtype=nl.float32, buffer=nl.psum) for _ in range(m_size // 128)
    ]
    for k in range(0, k_size, 128):
        w = nl.ndarray((128, n_size), dtype=rhs.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=w, src=rhs[k : k + 128])
        for m in range(m_size // 128):
            x = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=lhs[k : k + 128, m * 128 : (m + 1) * 128])
            nisa.nc_matmul(dst=acc[m], stationary=x, moving=w)
    for m, a in enumerate(acc):
        result = nl.ndarray((128, n_size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=a)
        nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128], src=result)
    return out


def test_open_accumulators_are_finished_one_after_the_other(rng):
    lhs, rhs = integers(rng, (384, 2048)), integers(rng, (384, 512))
    kernel = compiled(open_accumulators, lhs, rhs).kernel
    order = [i.ident for i in kernel.instructions]
    assert order != sorted(order), (
        "16 accumulators of one bank each do not fit 8 banks in program order"
    )
    check_placement(kernel)
    (told,) = (f for f in kernel.findings if "in another order" in f.message)
    assert told.kind == "advice" and "in psum fit trn2 only" in told.message
    expected = lhs.T.astype(float) @ rhs.astype(float)
    for options in ({}, {"shared_bytes": True}):
        (found,) = simulated(kernel, [lhs, rhs], **options)
        np.testing.assert_array_equal(found, expected)


def test_a_new_order_for_psum_gives_sbuf_tiles_new_places(rng):
    """In program order `w` of every k has one place; in the new order all of them are in use at one time."""
    lhs, rhs = integers(rng, (1024, 2048)), integers(rng, (1024, 512))
    free = 2048 + 5 * 512
    filler = TRN2.sbuf_usable_bytes_per_partition - free
    kernel = compiled(open_accumulators, lhs, rhs, filler=filler).kernel
    check_placement(kernel)
    expected = lhs.T.astype(float) @ rhs.astype(float)
    (found,) = simulated(kernel, [lhs, rhs], shared_bytes=True)
    np.testing.assert_array_equal(found, expected)


def drained_afterwards(lhs, rhs):
    """Finish one accumulator after the other, and drain them all afterwards."""
    (k_size, m_size), n_size = lhs.shape, rhs.shape[1]
    out = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.shared_hbm)
    w = nl.ndarray((128, k_size // 128, n_size), dtype=rhs.dtype, buffer=nl.sbuf)
    for k in range(k_size // 128):
        nisa.dma_copy(dst=w[:, k], src=rhs[k * 128 : (k + 1) * 128])
    acc = []
    for m in range(m_size // 128):
        acc.append(nl.ndarray((128, n_size), dtype=nl.float32, buffer=nl.psum))
        for k in range(k_size // 128):
            x = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=lhs[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
            nisa.nc_matmul(dst=acc[m], stationary=x, moving=w[:, k])
    results = nl.ndarray((128, m_size // 128, n_size), dtype=nl.float32, buffer=nl.sbuf)
    for m, a in enumerate(acc):
        nisa.tensor_copy(dst=results[:, m], src=a)
    for m in range(m_size // 128):
        nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128], src=results[:, m])
    return out


def test_accumulators_are_drained_early_and_all_else_keeps_its_order(rng):
    lhs, rhs = integers(rng, (256, 1536)), integers(rng, (256, 512))
    options = Choices(skip_passes=("schedule",))
    kernel = compiled(drained_afterwards, lhs, rhs, options=options).kernel
    check_placement(kernel)
    names = [i.definition.name for i in kernel.instructions]
    drained = [n for n, name in enumerate(names) if name == "tensor_copy"]
    assert [names[n - 1] for n in drained] == ["nc_matmul"] * 12
    rest = [i.ident for i in kernel.instructions if i.definition.name != "tensor_copy"]
    assert rest == sorted(rest)
    (found,) = simulated(kernel, [lhs, rhs], shared_bytes=True)
    np.testing.assert_array_equal(found, lhs.T.astype(float) @ rhs.astype(float))


def in_the_authors_order(lhs, rhs):
    with nl.no_reorder():
        return open_accumulators(lhs, rhs)


def test_an_order_that_must_stay_is_not_changed():
    lhs, rhs = np.ones((256, 2048), np.float32), np.ones((256, 512), np.float32)
    with use_target("trn2"), pytest.raises(OverCapacity, match=r"psum .* the 16 tiles in use"):
        jit(in_the_authors_order).compile(lhs, rhs)


def beside_loops(lhs, rhs):
    """All accumulators are open before a loop of the device and behind it."""
    before = open_accumulators(lhs, rhs)
    t = nl.load(before[0:128])

    def again(_):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 3, again)
    kept = nl.ndarray((128, rhs.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(kept, t)
    return before, open_accumulators(lhs, rhs), kept


def test_a_new_order_moves_nothing_past_a_loop(rng):
    lhs, rhs = integers(rng, (256, 2048)), integers(rng, (256, 512))
    found = compiled(beside_loops, lhs, rhs)
    assert check_schedule(found.stages[0][1], found.kernel) == []
    check_placement(found.kernel)
    product = lhs.T.astype(float) @ rhs.astype(float)
    for options in ({}, {"shared_bytes": True}):
        *products, kept = simulated(found.kernel, [lhs, rhs], **options)
        for value in products:
            np.testing.assert_array_equal(value, product)
        np.testing.assert_array_equal(kept, product[:128] + 3)


def around_a_meeting(lhs, rhs):
    """Both cores compute everything, into different tensors, and meet between two products."""
    first = open_accumulators(lhs, rhs)
    nisa.core_barrier(first, cores=(0, 1))
    return first, open_accumulators(lhs, rhs)


def test_a_new_order_moves_nothing_past_a_meeting(rng):
    lhs, rhs = integers(rng, (256, 2048)), integers(rng, (256, 512))
    with use_target("trn2"):
        run = jit(around_a_meeting)[2].compile(lhs, rhs)
    order = [i.ident for i in run.compiled.kernel.instructions]
    assert order != sorted(order)
    [meeting] = (i.ident for i in run.compiled.kernel.instructions if i.definition.meets)
    at = order.index(meeting)
    assert max(order[:at]) < meeting < min(order[at + 1 :])
    for found in run(lhs, rhs):
        np.testing.assert_array_equal(found, lhs.T.astype(float) @ rhs.astype(float))


def explicit_reuse(lhs, rhs):
    """Two tiles have one address, one after the other, in a kernel that only fits reordered."""
    out = nl.ndarray((384, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4096))
    kept = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=lhs[0:128, 0:128])
    nisa.dma_copy(dst=out[0:128], src=first)
    nisa.tensor_copy(dst=kept, src=first)  # only needed at the end
    second = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4096))
    nisa.memset(dst=second, value=3.0)
    nisa.dma_copy(dst=out[128:256], src=second)
    nisa.dma_copy(dst=out[256:384], src=kept)
    return open_accumulators(lhs, rhs), out


def test_a_new_order_keeps_who_had_an_explicit_address_first(rng):
    lhs, rhs = integers(rng, (256, 2048)), integers(rng, (256, 512))
    kernel = compiled(explicit_reuse, lhs, rhs).kernel
    check_placement(kernel)
    product, copies = simulated(kernel, [lhs, rhs], shared_bytes=True)
    np.testing.assert_array_equal(product, lhs.T.astype(float) @ rhs.astype(float))
    np.testing.assert_array_equal(copies[0:128], lhs[0:128, 0:128])
    np.testing.assert_array_equal(copies[128:256], 3.0)
    np.testing.assert_array_equal(copies[256:], lhs[0:128, 0:128])


def products_around_loops(a, b, kept=False):
    """33 products stand in PSUM before the first of them is read, before a loop of the device and behind it."""
    out = nl.ndarray((2, 33, 64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    total = nl.zeros((64, 512), dtype=nl.float32)

    def product(k):
        p = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(p, left[:, k : k + 64], right)
        return p

    def add(_):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=0.5)

    for half in range(2):
        nl.fori_loop(0, 2 + half, add)
        with nl.no_reorder() if kept else nullcontext():
            for k, p in enumerate([product(k) for k in range(33)]):
                s = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor(dst=s, data1=p, data2=total, op=nl.add)
                nl.store(out[half, k], s)
    return out


def test_33_products_around_loops_of_the_device_share_8_banks(rng):
    a, b = integers(rng, (16, 96)), integers(rng, (16, 512))
    found = compiled(products_around_loops, a, b)
    assert check_schedule(found.stages[0][1], found.kernel) == []
    check_placement(found.kernel)
    (value,) = simulated(found.kernel, [a, b], shared_bytes=True)
    products = np.stack([a[:, k : k + 64].T.astype(float) @ b for k in range(33)])
    np.testing.assert_array_equal(value, [products + 1, products + 2.5])
    with pytest.raises(OverCapacity, match=r"psum .* the 33 tiles in use"):
        compiled(products_around_loops, a, b, True)
