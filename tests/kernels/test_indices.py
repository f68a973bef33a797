"""Prebuilt kernels that take indices raise where one is out of range, and write to no other row."""

import numpy as np
import pytest

from nki_lab import kernels
from nki_lab.errors import AddressOutOfRange

WRONG = [
    *((name, "targets", value) for name in ("cross_entropy", "cross_entropy_backward") for value in (96, -1)),
    *((name, "index", value) for name in ("gather", "scatter_add") for value in (300, -1)),
    ("moe", "block_to_expert", 4),
    ("moe", "token_position_to_id", 101),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameter", "value"), WRONG)
def test_an_index_out_of_range_raises(name, parameter, value):
    kernel = kernels.get(name)
    arguments = kernel.example(seed=3)
    arguments[parameter][1] = value
    with pytest.raises(
        AddressOutOfRange, match=str(value) if "cross" not in name else "1073741824"
    ):
        kernel.launched(arguments, target="trn2")


def test_a_token_is_once_in_a_block():
    kernel = kernels.get("moe")
    arguments = kernel.example(seed=3)
    arguments["token_position_to_id"][1] = arguments["token_position_to_id"][0]
    with pytest.raises(AddressOutOfRange, match="more than once"):
        kernel.launched(arguments, target="trn2")


def test_rows_of_equal_indices_are_all_added():
    src = np.random.default_rng(2).standard_normal((260, 3)).astype(np.float32)
    kernel = kernels.get("scatter_add").kernel
    found = kernel(np.zeros((2, 3), np.float32), 0, np.ones(260, np.int32), src)
    np.testing.assert_allclose(found[1], src.sum(axis=0, dtype=np.float64), rtol=1e-4, atol=1e-4)
    assert not found[0].any()


@pytest.mark.parametrize("k", [3, 8, 20])
def test_of_equal_elements_the_first_are_the_largest(k):
    x = np.ones((2, 700), np.float32)
    x[1, 5::7] = 2
    values, indices = kernels.get("topk").kernel(x, k)
    np.testing.assert_array_equal(indices, [np.arange(k), 5 + 7 * np.arange(k)])
    np.testing.assert_array_equal(values, np.broadcast_to([[1], [2]], (2, k)))
