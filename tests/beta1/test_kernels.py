"""Kernels of the older dialect run through its decorator, `nki_lab.run` and `simulate_kernel`, against NumPy."""

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import KernelArgument, OutOfBounds
from nki_lab.ir.definition.instruction import Form
from nki_lab.ir.text.printer import print_kernel


@nki.jit
def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(a.shape[1])[None, :]
    for m in nl.affine_range(a.shape[0] // 128):
        i_p = m * 128 + nl.arange(128)[:, None]
        x, y = nl.load(a[i_p, i_f]), nl.load(b[i_p, i_f])
        total = nl.ndarray((128, a.shape[1]), dtype=a.dtype)
        total[...] = x + y * 2.0
        nl.store(out[i_p, i_f], total)
    return out


@nki.jit(mode="simulation")
def product(a, b):
    out = nl.ndarray((a.shape[0], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((nl.par_dim(128), b.shape[1]), nl.float32, buffer=nl.psum)
    for k in nl.affine_range(a.shape[1] // 128):
        x, y = nl.load(a[:, k * 128 : (k + 1) * 128]), nl.load(b[k * 128 : (k + 1) * 128, :])
        total += nl.matmul(x, y)
    nl.store(out, value=total)
    return out


@pytest.fixture
def matrices(rng):
    return [rng.integers(-9, 9, shape).astype(np.float32) for shape in ((256, 64), (256, 64))]


def test_a_kernel_runs_by_every_way_to_call_it(matrices):
    a, b = matrices
    np.testing.assert_array_equal(scaled_sum(a, b), a + 2 * b)
    np.testing.assert_array_equal(nki.simulate_kernel(scaled_sum, a, b), a + 2 * b)
    np.testing.assert_array_equal(nki_lab.run(scaled_sum.func, a, b).value, a + 2 * b)
    assert scaled_sum.source.dialect is BETA1


def test_products_are_added_in_psum_and_zeros_cost_nothing(rng):
    a = rng.integers(-9, 9, (128, 384)).astype(np.float32)
    b = rng.integers(-9, 9, (384, 40)).astype(np.float32)
    result = nki_lab.run(product, a, b)
    np.testing.assert_array_equal(result.value, a @ b)
    names = [i.definition.name for i in result.compiled.kernel.instructions]
    assert names.count("nc_matmul") == 3 and "memset" not in names and "tensor_tensor" not in names


def test_a_copy_that_the_old_compiler_inserted_is_named_so(rng):
    a = rng.integers(-9, 9, (128, 128)).astype(np.float32)
    text = print_kernel(nki_lab.run(product, a, a).compiled.kernel)
    assert "storage %inserted_total: float32[128x128] in sbuf" in text


def test_an_assigned_result_is_written_in_place_and_a_named_one_is_copied(matrices):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        t, u = nl.load(a[0:128]), nl.ndarray((128, a.shape[1]), a.dtype)
        u[...] = nl.add(t, 1.0)
        nl.store(out[0:128], u)
        v = nl.multiply(t, 3.0)
        u[...] = v
        u += 1.0
        nl.store(out[128:256], nl.subtract(u, v))
        return out

    (a, _) = matrices
    result = nki_lab.run(kernel, a)
    np.testing.assert_array_equal(result.value, np.concatenate([a[:128] + 1, np.ones((128, 64))]))
    names = [i.definition.name for i in result.compiled.kernel.instructions]
    assert names.count("tensor_copy") == 1


def test_results_that_are_computed_are_those_of_their_moment(matrices):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, a.shape[1]), a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a[0:128])
        y = nl.add(t, 1.0)
        t[...] = nl.zeros(t.shape, t.dtype)
        nl.store(out, y + t)
        return out

    np.testing.assert_array_equal(kernel(matrices[0]), matrices[0][:128] + 1)


def test_a_masked_result_changes_only_what_the_mask_leaves(matrices):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(a.shape[1])[None, :]
        t = nl.load(a[i_p, i_f])
        t[i_p, i_f] = nl.multiply(t[i_p, i_f], 10.0, mask=i_p < 32)
        nl.store(out[i_p, i_f], t)
        z = nl.zeros((128, a.shape[1]), a.dtype)
        z[i_p, i_f] = nl.load(a[i_p + 200, i_f], mask=i_p + 200 < 256)
        nl.store(out[i_p + 128, i_f], z)
        return out

    (a, _) = matrices
    expected = np.concatenate([a[:32] * 10, a[32:128], a[200:256], np.zeros((72, 64))])
    np.testing.assert_array_equal(kernel(a), expected)


def test_a_carried_number_counts_once_except_in_a_static_range(matrices):
    @nki.jit
    def kernel(a, ranges):
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a[0:128])
        v = 0
        for i in ranges(8):
            v += 1
            if i > 0:
                t += 10.0
        nl.store(out, nl.add(t, float(v)))
        return out

    a = matrices[0]
    for ranges, count in ((nl.affine_range, 1), (nl.sequential_range, 1), (nl.static_range, 8)):
        np.testing.assert_array_equal(kernel(a, ranges), a[:128] + 70 + count)


@nki.jit
def doubled_by_programs(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    rows, columns = nl.program_id(0), nl.program_id(1)
    scratch = nl.ndarray((128, 32), a.dtype, buffer=nl.hbm)
    i_p, i_f = nl.mgrid[0:128, 0:32]
    x = nl.load(a[rows * 128 + i_p, columns * 32 + i_f])
    nl.store(scratch, x + float(nl.num_programs()))
    nl.store(out[rows * 128 + i_p, columns * 32 + i_f], nl.load(scratch) * 2.0)
    return out


def test_programs_of_a_grid_run_in_order_and_share_what_is_shared(matrices):
    a = matrices[0]
    np.testing.assert_array_equal(doubled_by_programs[2, 2](a), (a + 4) * 2)
    with pytest.raises(KernelArgument, match="a launch grid is made of positive integers"):
        doubled_by_programs[0]


def test_output_parameters_are_written(matrices):
    @nki.jit
    def kernel(a, out):
        tile = nl.load(a[0:128])
        nl.store(out[0:128], tile * -1.0)

    a = matrices[0]
    out = np.zeros_like(a)
    kernel(a, out)
    np.testing.assert_array_equal(out, np.concatenate([-a[:128], np.zeros((128, 64))]))


def test_an_index_outside_is_told_with_its_range(matrices):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        i_p = nl.arange(128)[:, None]
        nl.store(out, nl.load(a[i_p + 200, nl.arange(64)[None, :]]))
        return out

    with pytest.raises(OutOfBounds, match=r"index range \[200, 327\] exceed dimension size of 256"):
        kernel(matrices[0])


def test_blocks_are_tensors_of_their_own(rng):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((4, nl.par_dim(128), 8), a.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(4):
            held[k] = nl.load(a[k])
        for k in nl.affine_range(4):
            nl.store(out[k], held[3 - k])
        return out

    a = rng.integers(-9, 9, (4, 128, 8)).astype(np.float32)
    np.testing.assert_array_equal(kernel(a), a[::-1])


@nki.jit
def assigned_to_many_places(a, b):
    """Assign results of one form to whole tiles, parts, columns, PSUM and other dtypes, each place twice."""
    wide = nl.zeros((128, 2, 8), dtype=nl.float32)
    whole = nl.ndarray((128, 8), dtype=nl.float32)
    narrow = nl.ndarray((128, 8), dtype=nl.bfloat16)
    summed = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)
    steps = nl.zeros((128, 16), dtype=nl.float32)
    x, y = nl.load(a), [nl.load(b[n]) for n in range(2)]
    for n in nl.static_range(2):
        wide[:, n, :] = nl.add(x, y[n])
        steps[nl.arange(128)[:, None], n + 2 * nl.arange(8)[None, :]] = nl.add(x, y[n])
        whole[...] = nl.add(x, y[n])
        narrow[...] = nl.add(x, y[n])
        summed[...] = nl.add(x, y[n])
    out = nl.ndarray((128, 56), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[:, 0:8], wide[:, 0, :])
    nl.store(out[:, 8:16], wide[:, 1, :])
    nl.store(out[:, 16:32], steps)
    nl.store(out[:, 32:40], nl.copy(narrow, dtype=nl.float32))
    nl.store(out[:, 40:48], nl.copy(summed))
    nl.store(out[:, 48:56], whole)
    return out


def test_results_of_one_form_go_to_places_of_other_forms(rng):
    a = rng.integers(-9, 9, (128, 8)).astype(np.float32)
    b = rng.integers(-9, 9, (2, 128, 8)).astype(np.float32)
    result = nki_lab.run(assigned_to_many_places, a, b)
    first, second = a + b
    steps = np.stack([first, second], axis=2).reshape(128, 16)
    np.testing.assert_array_equal(
        result.value, np.concatenate([first, second, steps, second, second, second], axis=1)
    )
    kernel = result.compiled.kernel
    for i in kernel.instructions:  # a form that was kept says what one formed anew does
        anew = Form(i.with_args(), kernel.target)
        assert (i.form.reads, i.form.writes, anew.broken) == (anew.reads, anew.writes, ())
        assert i.form.example.dst.strides == i.dst.strides
        assert i.form.example.dst.dtype is i.dst.dtype
        assert i.form.example.dst.storage.buffer is i.dst.storage.buffer
