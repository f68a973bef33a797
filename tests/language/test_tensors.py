"""Tests that creation, loads, stores and copies make the tensors that the documentation describes."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import InstructionError, OutsideKernel, TensorArgument, WrongOperand
from nki_lab.runtime import jit, run
from tests.language.evaluate import evaluate, run_kernel, stored

RNG = np.random.default_rng(13)
X = RNG.standard_normal((40, 56)).astype(np.float32)


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm], ids=repr)
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int32, nl.uint8, nl.float8_e4m3])
def test_filled_tensors(buffer, dtype):
    values = []

    def kernel(x):
        made = [nl.zeros((40, 56), dtype, buffer=buffer), nl.ones((40, 56), dtype, buffer),
                nl.full((40, 56), 3, dtype, buffer=buffer, name="filled")]  # fmt: skip
        values.extend((t.dtype, t.buffer, t.shape) for t in made)
        tiles = [t if t.storage.on_chip else nl.load(t) for t in made]
        return tuple(stored(t) for t in tiles)

    outputs, _ = run_kernel(kernel, X)
    for output, value in zip(outputs, (0, 1, 3), strict=True):
        assert output.dtype == dtype.np
        assert np.array_equal(output, np.full((40, 56), value).astype(dtype.np))
    assert set(values) == {(dtype, buffer, (40, 56))}


@pytest.mark.parametrize("shape", [(1,), (7,), (300, 77), (3, 5, 2049), (128 * 512 * 2 + 1,)])
def test_device_memory_of_any_size_is_filled(shape):
    def kernel(x):
        return nl.full(shape, -2.5, nl.float32, buffer=nl.shared_hbm)

    (output,), _ = run_kernel(kernel, X)
    assert np.array_equal(output, np.full(shape, -2.5, np.float32))


def test_fill_values_keep_their_kind():
    def kernel(x):
        nl.full((4, 4), 1.5, nl.int32)
        return stored(nl.load(x))

    with pytest.raises(InstructionError, match="memset"):
        run_kernel(kernel, X)


def test_like():
    facts = []

    def kernel(x):
        tile = nl.load(x, dtype=nl.bfloat16)
        empty = nl.empty_like(tile)
        wide = nl.empty_like(x, dtype=nl.int32, buffer=nl.sbuf)
        zeros = nl.zeros_like(tile, dtype=nl.float32)
        assert {t.shape for t in (empty, wide, zeros)} == {(40, 56)}
        facts.extend((str(t.dtype), t.buffer) for t in (empty, wide, zeros))
        return stored(zeros)

    (output,), _ = run_kernel(kernel, X)
    assert not output.any()
    assert facts == [("bfloat16", nl.sbuf), ("int32", nl.sbuf), ("float32", nl.sbuf)]


def test_an_address_is_kept():
    def kernel(x):
        tile = nl.ndarray((32, 56), nl.float32, nl.sbuf, address=(64, 1024))
        other = nl.ndarray((32, 56), nl.float32)
        nl.store(x[0:32], nl.ones((32, 56), nl.float32))
        assert tile.address == tile[0:8].address == (64, 1024)
        assert other.address is None and x.address is None
        return stored(nl.load(x))

    run_kernel(kernel, X.copy())


def test_names_come_from_the_text():
    seen = []

    def kernel(x):
        left = nl.load(x)
        right = nl.softmax(left)
        named = nl.ndarray((4, 4), nl.float32, name="other")
        seen.extend(t.name for t in (left, right, named))
        return stored(right)

    run_kernel(kernel, X)
    assert seen == ["left", "right", "other"]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16, np.uint8, bool])
def test_constants(dtype, tmp_path):
    data = (4 * RNG.standard_normal((24, 10))).astype(dtype)
    expected = data.copy()

    def kernel(x):
        constant = nl.shared_constant(data)
        data[:] = 0  # the constant was copied
        assert constant.buffer is nl.shared_hbm
        return stored(nl.load(constant))

    assert np.array_equal(run_kernel(kernel, X)[0][0], expected)


def test_constants_from_a_file(tmp_path):
    data = RNG.integers(-9, 9, (24, 10)).astype(np.int32)
    np.save(tmp_path / "data.npy", data)
    for path in (tmp_path / "data.npy", str(tmp_path / "data.npy")):
        assert np.array_equal(evaluate(lambda t, p=path: nl.load(nl.shared_constant(p)), X), data)


def test_constants_need_a_dtype_of_nki():
    with pytest.raises(TensorArgument, match=r"(?s)float64.*astype\(np.float32\)"):
        evaluate(lambda t: nl.load(nl.shared_constant(np.ones((3, 3)))), X)


@pytest.mark.parametrize("dtype", [nl.uint8, nl.float32, nl.bfloat16])
def test_identity_matrices_share_their_constant(dtype):
    def kernel(x):
        into = nl.ndarray((16, 16), dtype)
        assert nl.shared_identity_matrix(16, dst=into) is into
        nl.shared_identity_matrix(24, dtype)
        return stored(into), stored(nl.shared_identity_matrix(16, dtype=dtype))

    outputs, kernel = run_kernel(kernel, X)
    for output in outputs:
        assert np.array_equal(output, np.eye(16).astype(dtype.np))
    constants = [s.shape for s in kernel.storages if s.origin == "constant"]
    assert sorted(constants) == [(16, 16), (24, 24)]


def test_loads_cast_and_give_one_axis_a_second():
    assert np.array_equal(
        evaluate(lambda t: nl.copy(t, dtype=nl.bfloat16), X), X.astype(ml_dtypes.bfloat16)
    )

    def kernel(row, x):
        tile = nl.load(row)
        assert tile.shape == (56, 1)
        return stored(tile), stored(nl.load(x, dtype=nl.float16))

    (column, cast), _ = run_kernel(kernel, X[0].copy(), X)
    assert np.array_equal(column[:, 0], X[0])
    assert np.array_equal(cast, X.astype(np.float16))


def test_a_long_tensor_with_one_axis_is_loaded_as_the_error_says():
    bias = np.arange(200, dtype=np.float32) - 77

    def too_long(bias):
        return stored(nl.load(bias))

    with pytest.raises(WrongOperand, match=r"\.reshape\(\(1, 200\)\).*\.broadcast\(0, rows\)"):
        run_kernel(too_long, bias)

    def kernel(bias):
        row = bias.reshape((1, 200))
        return stored(nl.load(row)), stored(nl.load(row.broadcast(0, 5)))

    (row, rows), _ = run_kernel(kernel, bias)
    assert np.array_equal(row, bias[None])
    assert np.array_equal(rows, np.tile(bias, (5, 1)))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_load_transpose2d(dtype):
    def kernel(x):
        tile = nl.load_transpose2d(x)
        return stored(tile), stored(nl.load_transpose2d(x, dtype=nl.float32))

    (same, cast), _ = run_kernel(kernel, X.astype(dtype))
    assert np.array_equal(same, X.astype(dtype).T)
    assert np.array_equal(cast, X.astype(dtype).T.astype(np.float32))


def test_store_writes_a_part_and_casts():
    def kernel(x):
        out = nl.zeros((40, 56), nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out[8:24, 10:30], nl.load(x[8:24, 10:30]))
        return out

    (output,), _ = run_kernel(kernel, X)
    expected = np.zeros((40, 56), ml_dtypes.bfloat16)
    expected[8:24, 10:30] = X[8:24, 10:30].astype(ml_dtypes.bfloat16)
    assert np.array_equal(output, expected)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x, t: nl.load(t), WrongOperand, "nl.load: `src` must be a tensor in HBM"),
        (lambda x, t: nl.load(3), WrongOperand, "found 3"),
        (lambda x, t: nl.load(np.ones((2, 2))), WrongOperand, "give an array to the kernel"),
        (lambda x, t: nl.store(t, t), WrongOperand, "nl.store: `dst` must be a tensor in HBM"),
        (
            lambda x, t: nl.store(nl.ndarray((128, 4), nl.float32), t),
            WrongOperand,
            "buffer=nl.shared_hbm",
        ),
        (lambda x, t: nl.store(x, x), WrongOperand, "`value` is `x`"),
        (lambda x, t: nl.store(x, 0.0), WrongOperand, "`value` must be a tile"),
        (lambda x, t: nl.load_transpose2d(x.reshape((40, 7, 8))), WrongOperand, "two axes"),
        (lambda x, t: nl.ndarray((4, 4), "float33"), TensorArgument, "float33"),
        (lambda x, t: nl.zeros((200, 4), nl.float32), TensorArgument, "200 partitions"),
        (lambda x, t: nl.shared_identity_matrix(8, dst=t), TensorArgument, r"shape \[8, 8\]"),
        (lambda x, t: nl.is_hbm(t), TensorArgument, r"nl.is_hbm\(tensor.buffer\)"),
    ],
)
def test_wrong_tensors_are_refused(function, error, message):
    with pytest.raises(error, match=message):
        run_kernel(lambda x: function(x, nl.load(x)), X)


def test_memories():
    found = [
        [f(b) for f in (nl.is_hbm, nl.is_sbuf, nl.is_psum, nl.is_on_chip)]
        for b in (nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm)
    ]
    assert found == [
        [False, True, False, True],
        [False, False, True, True],
        [True, False, False, False],
        [True, False, False, False],
        [True, False, False, False],
    ]


def test_dynamic_slices_index_like_slices():
    def kernel(x):
        tile = nl.load(x)
        return stored(tile[nl.ds(8, 16), nl.ds(start=3, size=5)])

    assert np.array_equal(run_kernel(kernel, X)[0][0], X[8:24, 3:8])


@pytest.mark.parametrize(
    "function",
    [
        lambda: nl.ndarray((4, 4), nl.float32),
        lambda: nl.zeros((4, 4), nl.float32),
        lambda: nl.shared_identity_matrix(4),
        lambda: nl.program_id(0),
    ],
)
def test_outside_a_kernel(function):
    with pytest.raises(OutsideKernel, match="outside a kernel"):
        function()


def test_one_element_on_chip_has_two_axes():
    """As the pages of nisa.register_load and register_store make it: nl.ones([1], ...)."""

    def kernel(x):
        bound = nl.full([1], 3, dtype=nl.int32, buffer=nl.sbuf)
        register = nisa.register_alloc()
        nisa.register_load(register, bound)
        result = nl.ndarray([1], dtype=nl.int32, buffer=nl.sbuf)
        nisa.register_store(result, register)
        assert bound.shape == result.shape == (1, 1)
        out = nl.ndarray((1,), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    assert run(jit(kernel), np.zeros((1, 1), np.float32)).value.tolist() == [3]


@pytest.mark.parametrize("memory", [nl.sbuf, nl.psum, nl.hbm], ids=repr)
def test_zeros_like_is_in_sbuf_and_empty_like_where_the_other_is(memory):
    made = []

    def kernel(x):
        like = nl.ndarray((40, 56), dtype=nl.bfloat16, buffer=memory)
        made.extend((nl.zeros_like(like), nl.zeros_like(like, buffer=nl.psum), nl.empty_like(like)))
        return stored(nl.copy(made[0]))

    (result,), _ = run_kernel(kernel, X)
    assert [t.buffer for t in made] == [nl.sbuf, nl.psum, memory]
    assert {t.dtype for t in made} == {nl.bfloat16}
    assert not result.any()
