"""Tests of where kernels of the older dialect place their tensors (nki_direct_allocation_guide.rst)."""

import functools

import ml_dtypes
import numpy as np
import pytest

from nki_lab.api.beta1 import compiler as ncc
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors import (
    AddressConflict,
    KernelArgument,
    MixedAllocation,
    NotModelled,
    TensorArgument,
)
from nki_lab.runtime import run

X = np.random.default_rng(4).standard_normal((512, 32)).astype(np.float32)
ROW = 32 * 4  # bytes of a tile of X in a partition


def doubled(buffer, psum=None):
    """Return a kernel that keeps tiles of its input in a tensor with a block axis in `buffer`."""

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((4, nl.par_dim(128), 32), dtype=x.dtype, buffer=buffer)
        ip, jf = nl.mgrid[0:128, 0:32]
        for i in nl.affine_range(4):
            tiles[i, ip, jf] = nl.load(x[i * 128 + ip, jf])
            tiles[i, ip, jf] = nl.multiply(tiles[i, ip, jf], 2.0)
            nl.store(out[i * 128 + ip, jf], tiles[i, ip, jf])
        return out

    return kernel


def places(result, memory="sbuf"):
    """Return the addresses of a compiled kernel's tensors, in the order of their names' numbers."""
    kernel = result.compiled.kernel
    addresses = {
        kernel.storages[k].name: a
        for k, a in kernel.addresses.items()
        if kernel.storages[k].buffer.name == memory
    }
    return [tuple(addresses[name]) for name in sorted(addresses)]


@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        (ncc.sbuf.mod_alloc(base_addr=1024), [(0, 1024)] * 4),
        (ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(2,)), [(0, 64), (0, 64 + ROW)] * 2),
        (ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(3,)), [(0, 0), (0, ROW), (0, 2 * ROW), (0, 0)]),
        (ncc.sbuf.alloc(lambda at, rows, size: (0, 4096 - at[0] * size)), [(0, 4096 - k * ROW) for k in range(4)]),
    ],
    ids=["one place", "two in turn", "three in turn", "a function"],
)  # fmt: skip
def test_blocks_are_where_the_formula_of_the_guide_says(buffer, expected):
    result = run(nki.jit(doubled(buffer)), X)
    assert places(result) == expected
    np.testing.assert_array_equal(result.value, X * 2)


def test_a_function_gets_index_partitions_and_bytes_of_every_block():
    """The sizes are those of the guide's example: (4, 8, 128, 4, 32) of bfloat16 has 256 bytes in a row."""
    calls = []

    def place(at, partitions, size):
        calls.append((at, partitions, size))
        return 0, (at[0] * 8 + at[1]) * size

    @nki.jit
    def kernel(x):
        nl.ndarray((4, 8, nl.par_dim(128), 4, 32), dtype=nl.bfloat16, buffer=ncc.sbuf.alloc(place))
        t = nl.ndarray((128, 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=100 * 1024))
        t[...] = nl.load(x[0:128])
        nl.store(x[0:128], t)

    kernel(X.copy())
    assert calls == [((a, b), 128, 256) for a in range(4) for b in range(8)]


def test_a_function_whose_other_parameters_are_given_gets_the_rest_by_name():
    """(allocated_attention.py: functools.partial(psum_addr, bank_map={(0,): 1, (1,): 5}))"""

    def place(starts, idx, pdim_size, fdim_size):
        return 0, starts[idx]

    placed = functools.partial(place, starts={(k,): 512 * (3 - k) for k in range(4)})
    result = run(nki.jit(doubled(ncc.sbuf.alloc(placed))), X)
    assert places(result) == [(0, 512 * (3 - k)) for k in range(4)]
    np.testing.assert_array_equal(result.value, X * 2)


def test_results_go_straight_into_placed_tensors_of_another_dtype():
    """What is moved, or computed in float32, is cast once on the way; a rounded result needs a copy (inserted)."""

    def placed(byte, dtype):
        buffer = ncc.sbuf.mod_alloc(base_addr=byte, num_free_tiles=(1,))
        return nl.ndarray((nl.par_dim(128), 32), dtype=dtype, buffer=buffer)

    @nki.jit
    def kernel(x, y, rounded):
        out = nl.ndarray((3, 128, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        wide, narrow, third = (
            placed(0, nl.float32),
            placed(128, nl.bfloat16),
            placed(192, nl.float32),
        )
        wide[...] = nl.load(y)
        narrow[...] = nl.multiply(wide, 1.1)
        if rounded:
            third[...] = nl.multiply(narrow, narrow)
        else:
            third[...] = nl.copy(narrow)
        for k, t in enumerate((wide, narrow, third)):
            nl.store(out[k], t)
        return out

    y = X[:128].astype(ml_dtypes.bfloat16)
    wide = y.astype(np.float32)
    narrow = (wide * np.float32(1.1)).astype(ml_dtypes.bfloat16)
    for rounded, names in ((False, []), (True, ["inserted_tile"])):
        result = run(nki.jit(kernel), X, y, rounded)
        third = (narrow.astype(np.float32) ** 2).astype(ml_dtypes.bfloat16) if rounded else narrow
        np.testing.assert_array_equal(result.value, [wide, narrow.astype(np.float32), third])
        held = [s for s in result.compiled.kernel.storages if s.on_chip and s.address is None]
        used = {t.storage for i in result.compiled.kernel.body for t in i.written()}
        assert [s.name.split(".")[0] for s in held if s in used] == names


def test_small_tiles_lie_side_by_side_in_the_partitions():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 32, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        buffer = ncc.sbuf.mod_alloc(base_addr=0, num_par_tiles=(2,), num_free_tiles=(2,))
        tiles = nl.ndarray((4, nl.par_dim(32), 32), dtype=x.dtype, buffer=buffer)
        ip, jf = nl.mgrid[0:32, 0:32]
        for i in nl.affine_range(4):
            tiles[i, ip, jf] = nl.load(x[i * 32 + ip, jf])
            nl.store(out[i, ip, jf], tiles[i, ip, jf])
        return out

    result = run(kernel, X[:128])
    assert places(result) == [(0, 0), (32, ROW)] * 2
    np.testing.assert_array_equal(result.value, X[:128].reshape(4, 32, 32))


def test_products_are_in_the_banks_that_are_asked_for():
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((2, 64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        left = nl.ndarray(
            (nl.par_dim(128), 64), dtype=a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0)
        )
        right = nl.ndarray(
            (nl.par_dim(128), 128), dtype=b.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=256)
        )
        sums = nl.ndarray(
            (nl.par_dim(64), 128), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=768)
        )
        product = nl.ndarray(
            (2, nl.par_dim(64), 128), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=3, num_bank_tiles=(2,))
        )  # fmt: skip
        left[...] = nl.load(a)
        right[...] = nl.load(b)
        ip, jf = nl.mgrid[0:64, 0:128]
        for i in nl.sequential_range(2):
            product[i, ip, jf] = nl.matmul(left, right, transpose_x=True)
            sums[...] = nl.copy(product[i, ip, jf])
            nl.store(out[i, ip, jf], sums)
        return out

    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((128, n)).astype(np.float32) for n in (64, 128))
    result = run(kernel, a, b)
    assert places(result, "psum") == [(0, 3 * 2048), (0, 4 * 2048)]
    np.testing.assert_allclose(result.value[1], a.T @ b, rtol=1e-5, atol=1e-5)


def one_tile(shape, buffer, **options):
    def kernel(x):
        t = nl.ndarray(shape, dtype=nl.float32, buffer=buffer, **options)
        t[...] = nl.load(x[0 : t.shape[-2]])
        nl.store(x[0 : t.shape[-2]], t)

    return kernel


@pytest.mark.parametrize(
    ("shape", "buffer", "message"),
    [
        ((64, 32), ncc.sbuf.alloc(lambda *_: (32, 0)), r"block \(\) has 64 partitions and starts at partition 32"),
        ((32, 32), ncc.sbuf.alloc(lambda *_: (33, 0)), r"32 partitions and starts at partition 33"),
        ((65, 32), ncc.sbuf.mod_alloc(base_addr=0, base_partition=64), r"65 partitions and starts at partition 64"),
        ((128, 32), ncc.sbuf.mod_alloc(base_addr=-4), r"starts at byte -4"),
        ((128, 32), ncc.sbuf.mod_alloc(base_addr=300 * 1024), r"ends at byte"),
        ((128, 32), ncc.sbuf.alloc(lambda *_: 7), r"returned 7 for block \(\)"),
        ((128, 32), ncc.sbuf.alloc(lambda *_: (0, 0.5)), r"returned \(0, 0\.5\)"),
        ((128, 32), ncc.psum.alloc(lambda *_: (0, 0)), r"psum.alloc\(<lambda>\): the function returned \(0, 0\)"),
        ((128, 32), ncc.psum.mod_alloc(base_bank=8), r"is in bank 8; PSUM has the banks 0 to 7"),
        ((128, 32), ncc.psum.mod_alloc(base_bank=0, base_addr=128), r"at partition 0 and byte 128 of its bank"),
        ((32, 32), ncc.psum.mod_alloc(base_bank=0, base_partition=32), r"at partition 32 and byte 0 of its bank"),
        ((128, 513), ncc.psum.mod_alloc(base_bank=0), r"2052 bytes per partition, and a bank of PSUM holds 2048"),
        ((2, nl.par_dim(128), 32), ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2, 2)),
         r"num_free_tiles=\(2, 2\) has 2 numbers, and the tensor 1 block axes"),
    ],
    ids=str,
)  # fmt: skip
def test_a_place_that_the_hardware_refuses_is_an_error(shape, buffer, message):
    with pytest.raises(AddressConflict, match=message) as caught:
        run(nki.jit(one_tile(shape, buffer)), X.copy())
    assert caught.value.span.function == "kernel"


def crowded(x):
    """All blocks are in use between the loops, and there are places for two (the guide's common error 3)."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    buffer = ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,))
    tiles = nl.ndarray((4, nl.par_dim(128), 32), dtype=x.dtype, buffer=buffer)
    ip, jf = nl.mgrid[0:128, 0:32]
    for i in nl.affine_range(3):
        tiles[i, ip, jf] = nl.load(x[i * 128 + ip, jf])
    for i in nl.affine_range(3):
        nl.store(out[i * 128 + ip, jf], tiles[i, ip, jf])
    return out


def test_blocks_in_use_at_the_same_time_may_not_share_bytes_unless_the_compiler_places_them():
    with pytest.raises(AddressConflict, match=r"overlaps .* while both are in use"):
        nki.jit(crowded)(X)
    forced = ncc.force_auto_alloc(nki.jit(crowded))
    np.testing.assert_array_equal(forced(X)[:384], X[:384])
    del crowded._nki_forced


def some_placed(x):
    t = nl.ndarray((128, 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    u = nl.load(x[0:128])
    t[...] = nl.exp(u)
    nl.store(x[0:128], t)


def own_hbm(x):
    t = nl.ndarray((128, 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    scratch = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.hbm)
    t[...] = nl.load(x[0:128])
    nl.store(scratch, t)


def implied(x):
    t = nl.ndarray((128, 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    t[...] = nl.load(x[0:128])
    t[...] = nl.exp(t + 1.0)
    nl.store(x[0:128], t)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            some_placed,
            "`u` .* is placed by the compiler, and other tensors of the kernel by `buffer=`",
        ),
        (implied, "is placed by the compiler"),
        (own_hbm, "Non IO HBM tensor is not supported in allocated NKI kernel: scratch"),
    ],
)
def test_a_kernel_places_all_tensors_or_none(kernel, message):
    with pytest.raises(MixedAllocation, match=message) as caught:
        run(nki.jit(kernel), X.copy())
    assert caught.value.span.function == kernel.__name__


def test_a_placed_tensor_has_no_initial_value():
    def kernel(x):
        nl.full((128, 32), 1.0, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))

    with pytest.raises(TensorArgument, match="cannot have an initial value"):
        run(nki.jit(kernel), X)


def test_auto_alloc_is_what_the_memories_are():
    assert ncc.sbuf.auto_alloc() is nl.sbuf and ncc.psum.auto_alloc() is nl.psum
    with pytest.raises(KernelArgument, match=r"sbuf.alloc: `func` must be a function, found int"):
        ncc.sbuf.alloc(3)


def test_the_stack_allocator_needs_its_companion():
    def kernel(x):
        nl.store(x[0:128], nl.load(x[128:256]))

    alone = ncc.enable_stack_allocator(log_level=20)(nki.jit(kernel))
    with pytest.raises(KernelArgument, match="stands without skip_middle_end_transformations"):
        alone(X.copy())
    ncc.skip_middle_end_transformations(alone)
    copy = X.copy()
    alone(copy)
    np.testing.assert_array_equal(copy[:128], X[128:256])


def loop_with(directives):
    def kernel(x):
        ip, jf = nl.mgrid[0:128, 0:32]
        for i in nl.sequential_range(4, directives=directives()):
            with ncc.allocation_scope():
                nl.store(x[i * 128 + ip, jf], nl.exp(nl.load(x[i * 128 + ip, jf])))

    return nki.jit(kernel)


@pytest.mark.parametrize(
    "directives", [ncc.no_reorder, ncc.multi_buffer, lambda: [ncc.multi_buffer(3)]]
)
def test_directives_of_a_loop_change_no_value(directives):
    copy = X.copy()
    loop_with(directives)(copy)
    np.testing.assert_allclose(copy, np.exp(X), rtol=1e-5)


def test_no_reorder_runs_passes_one_after_the_other():
    ordered = run(loop_with(ncc.no_reorder), X.copy()).profile.total_ns
    free = run(loop_with(ncc.multi_buffer), X.copy()).profile.total_ns
    assert ordered > 1.2 * free


def test_a_directive_that_is_not_modelled_is_an_error():
    with pytest.raises(NotModelled, match="directives='fast'"):
        loop_with(lambda: "fast")(X.copy())
    with pytest.raises(KernelArgument, match=r"multi_buffer\(0\)"):
        ncc.multi_buffer(0)
