"""Quantised numbers of prebuilt kernels are the nearest of their format, but where float32 rounds to the next."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab import kernels
from nki_lab.errors import UsageError
from nki_lab.kernels import mx
from nki_lab.runtime import run


def test_few_rows_of_8_bits_differ_from_the_nearest():
    kernel = kernels.get("rmsnorm_quant")
    size = {"rows": 140, "width": 512, "norm": 1, "bound": 0}
    arguments = kernel.example(size, "float32", seed=3)
    codes, _ = kernel.decoded(kernel(**arguments), arguments)
    nearest, _ = kernel.reference(**arguments)
    assert np.mean(codes != nearest) < 1e-4
    assert len(np.unique(codes)) > 200


def test_what_is_quantised_on_the_chip_is_multiplied_there():
    rng = np.random.default_rng(6)
    pairs, exact = [], []
    for rows, dtype in ((6, nl.float8_e4m3fn_x4), (10, nl.float8_e5m2_x4)):
        x = rng.standard_normal((rows, 640)).astype(ml_dtypes.bfloat16)
        quantise = kernels.get("quantize_mx").kernel
        data, scales = run(quantise, x, dtype, target="trn3").value
        pairs += [data.view(dtype.host), scales]
        exact.append(x.astype(np.float64))
    product = run(kernels.get("matmul_mx").kernel, *pairs, target="trn3").value
    numbers = [mx.numbers(*pairs[:2]), mx.numbers(*pairs[2:])]
    np.testing.assert_allclose(product, numbers[0] @ numbers[1].T, rtol=1e-5, atol=1e-4)
    assert np.abs(product - exact[0] @ exact[1].T).max() < 0.1 * np.abs(product).max()


def test_numbers_that_a_format_has_are_kept():
    """Every finite float4_e2m1fn, with the largest in each group: 4 bits are scaled so that 4 to 8 has exponent 2."""
    codes = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    x = np.tile(codes, 8).reshape((1, 128)) * 2.0**-5
    data, scales = mx.quantised(x, "float4_e2m1fn")
    assert (data.shape, scales.tolist()) == ((32, 1), [[122]] * 4)
    np.testing.assert_array_equal(mx.numbers(data, scales), x)
    # 0, 0.5, 1 and 1.5 are the codes 0 to 3, the first in the lowest bits.
    assert data.view(np.uint16)[0, 0] == 0x3210
    with pytest.raises(UsageError, match="int8 is no type of block-scaled numbers"):
        mx.quantised(x, "int8")
