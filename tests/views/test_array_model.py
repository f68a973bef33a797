"""Tests that the view of the array shows the sizes, times and values of real products."""

import numpy as np
import pytest

from nki_lab.runtime import run
from nki_lab.views.array.model import array_list, array_product
from nki_lab.views.array.products import matmul_of, matmul_times
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import unpack
from tests.views.runs import added
from tests.views.test_access_model import matmul


@pytest.fixture(scope="module")
def product():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, n)).astype(np.float32) for n in (32, 48))
    return a, b, run(matmul, a, b, target="trn2")


def test_a_product_has_the_sizes_and_values_of_its_operands(product) -> None:
    a, b, result = product
    data = result.view_data
    position = int(data.products[0])
    meta, arrays = unpack(array_product(data, position))
    assert meta["sizes"] == [64, 32, 48] and not meta["adds"]
    np.testing.assert_array_equal(arrays["stationary"].reshape(64, 32), a)
    np.testing.assert_array_equal(arrays["moving"].reshape(64, 48), b)
    exact = a.astype(np.float64).T @ b
    np.testing.assert_allclose(arrays["dst"].reshape(32, 48), exact, rtol=2e-5, atol=2e-5)
    assert (meta["rows"], meta["columns"]) == (128, 128)


def test_times_are_those_of_the_profile(product) -> None:
    data = product[2].view_data
    position = int(data.products[0])
    name = f"inst.{position}:0"
    rows = [r for r in data.profile.records("Instruction") if r["kernel_instruction_name"] == name]
    rows.sort(key=lambda row: row["start_ts"])
    assert matmul_times(data, position) == [(r["opcode"], r["duration_ns"]) for r in rows]
    assert sum(ns for _, ns in matmul_times(data, position)) > 0


def test_every_product_is_listed_and_nothing_else(product) -> None:
    data = product[2].view_data
    meta, _ = unpack(array_list(data))
    assert [p["position"] for p in meta["products"]] == data.products.tolist()
    assert [matmul_of(data, p) is not None for p in range(len(data.operations))] == [
        o.name == "nc_matmul" for o in data.operations
    ]
    assert "64 x 32" in view_text(data, "array") and "12%" in view_text(data, "array")


def test_a_run_without_products_says_so() -> None:
    data = added().view_data
    assert unpack(array_list(data))[0]["products"] == []
    assert "no instruction multiplies" in view_text(data, "array")
    assert unpack(array_product(data, 0))[0]["problem"]
