"""Tests quantization and product of block-scaled tiles together: layouts, packing, and the size of the error."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit, run

K, M, N = 128, 12, 20
RNG = np.random.default_rng(23)
#: Groups of 8 partitions by 4 elements that differ in size by powers of two.
LEFT = RNG.standard_normal((K, 4 * M)) * 2.0 ** RNG.integers(-6, 7, (K // 8, M)).repeat(
    8, 0
).repeat(4, 1)
RIGHT = RNG.standard_normal((K, 4 * N)) * 2.0 ** RNG.integers(-6, 7, (K // 8, N)).repeat(
    8, 0
).repeat(4, 1)
LEFT, RIGHT = LEFT.astype(ml_dtypes.bfloat16), RIGHT.astype(ml_dtypes.bfloat16)


def by_lanes(values):
    """Return [K, F, 4]: four elements that follow each other are the lanes of one packed element."""
    return values.astype(float).reshape(len(values), -1, 4)


@pytest.mark.parametrize("shared", [False, True], ids=["own scales", "one tile of scales"])
@pytest.mark.parametrize("rows", [32, 96, 128])
@pytest.mark.parametrize(
    ("left", "right", "steps"),
    [
        # Half a step of the mantissa of each side, relative to the largest value of a group.
        ("float8_e4m3fn_x4", "float8_e4m3fn_x4", 2 * 2.0**-4),
        ("float8_e5m2_x4", "float8_e4m3fn_x4", 2.0**-3 + 2.0**-4),
    ],
)
def test_a_quantized_product_is_the_product_within_the_steps_of_its_formats(
    left, right, steps, rows, shared
):
    def quantized(x, dtype, scale):
        source = nl.load(x)[0:rows]
        packed = nl.ndarray((rows, source.shape[1] // 4), dtype=getattr(nl, dtype), buffer=nl.sbuf)
        nisa.quantize_mx(packed, source, scale)
        return packed

    def kernel(x, y):
        if (
            shared
        ):  # the first four partitions of each quadrant are one tensor's, the next four another's
            scales = nl.ndarray((128, N), dtype=nl.uint8, buffer=nl.sbuf)
            nisa.memset(scales, 255)  # NaN wherever a scale is read that nobody wrote
            left_scale, right_scale = scales[0:rows, 0:M], scales[4 : min(rows + 4, 128)]
        else:
            left_scale = nl.ndarray((rows, M), dtype=nl.uint8, buffer=nl.sbuf)
            right_scale = nl.ndarray((rows, N), dtype=nl.uint8, buffer=nl.sbuf)
        a, b = quantized(x, left, left_scale), quantized(y, right, right_scale)
        product = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(product, a, b, left_scale, right_scale)
        out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.copy(product))
        return out

    a, b = by_lanes(LEFT)[:rows], by_lanes(RIGHT)[:rows]
    exact = np.einsum("kmq,knq->mn", a, b)
    most = np.einsum("kmq,knq->mn", np.abs(a), np.abs(b))
    found = run(jit(kernel), LEFT, RIGHT, target="trn3").value
    assert np.isfinite(found).all()
    error = np.abs(found - exact)
    assert (error <= steps * most).all()
    assert error.max() > 0, "rounding must show, or nothing was quantized"


def test_the_order_of_lanes_and_groups_matters():
    """Otherwise the test above would pass with any layout."""
    a, b = by_lanes(LEFT), by_lanes(RIGHT)
    exact = np.einsum("kmq,knq->mn", a, b)
    turned = np.einsum("kmq,knq->mn", a, b[:, :, ::-1])
    most = np.einsum("kmq,knq->mn", np.abs(a), np.abs(b))
    assert (np.abs(turned - exact) > 2 * 2.0**-4 * most).any()
