"""Tests that the kernels of nki-samples run (NKI_SAMPLES_ROOT names a clone of aws-neuron/nki-samples).

At its last commit the repository holds two dialects. Most files are of the oldest one (`neuronxcc.nki`). The others,
which run here, are of NKI 0.1, which took the chip in the decorator and ignored keywords that it did not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.choices import inside
from nki_lab.errors import KernelArgument, WrongCall
from nki_lab.runtime import compare, run
from tests.public.sdk.clone import SAMPLES_VARIABLE, load, official_names, root
from tests.public.sdk.references import signed

CLONE = root(SAMPLES_VARIABLE)
pytestmark = pytest.mark.skipif(CLONE is None, reason=f"{SAMPLES_VARIABLE} names no nki-samples")
TUTORIALS = Path(CLONE or ".", "src/nki_samples/tutorials")
MATMUL = TUTORIALS / "matrix_multiplication/matrix_multiplication_nki_kernels.py"
MX = TUTORIALS / "mxfp-matmul/mx_kernels.py"
SIZES = {
    "basic_": (128, 64, 512),
    "tiled_": (256, 384, 1024),
    "hoist_load_": (256, 384, 1024),
    "block_free_dimension_": (384, 256, 2048),
    "fully_optimized_": (1024, 2048, 1024),
}
WITH_DTYPE = ("basic_", "tiled_", "hoist_load_")  # copies of the others never gave one
CLOSE = {"rtol": 5e-2, "atol": 5e-2}  # as the driver beside the MX kernels compares


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Let the samples import `nki` and the files beside them."""
    with official_names(MATMUL.parent, MX.parent):
        yield


def _matches(found, expected, **tolerance):
    comparison = compare(found, expected, **tolerance)
    assert comparison.ok, comparison.summary()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", SIZES)
def test_matrix_multiplication(name, target, rng):
    k, m, n = SIZES[name]
    left, right = signed(rng, (k, m), "float32"), signed(rng, (k, n), "float32")
    expected = left.T.astype("f8") @ right.astype("f8")
    kernel = getattr(load(MATMUL), f"nki_matmul_{name}")
    _matches(run(kernel, left, right, target=target).outputs[0], expected)
    if name in WITH_DTYPE:
        with pytest.raises(WrongCall, match=r"(?s)argument 'dtype'.*the dtype of `dst` decides"):
            run(kernel, left, right, target=target, nki="0.2")


def test_the_target_is_no_argument_of_jit_since_0_3():
    with (
        inside(nki="0.3"),
        pytest.raises(
            KernelArgument, match=r"(?s)platform_target.*NEURON_PLATFORM_TARGET_OVERRIDE"
        ),
    ):
        load(MX)


@pytest.fixture
def mx(rng):
    """Return the MX kernels and their references, whose inputs come from NumPy's global generator."""
    np.random.seed(int(rng.integers(2**31)))
    return load(MX), load(MX.parent / "mx_cpu_utils.py")


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "float4_e2m1fn"])
def test_offline_quantized_mx_matmul(mx, dtype):
    kernels, host = mx
    number, packed = getattr(ml_dtypes, dtype), getattr(nl, f"{dtype}_x4")
    _, _, left, left_scale = host.generate_stabilized_mx_data(number, (128, 512))
    _, _, right, right_scale = host.generate_stabilized_mx_data(number, (128, 2048))
    expected = host.nc_matmul_mx_golden(left, right, left_scale, right_scale, number, number)
    arguments = (left, left_scale, right, right_scale, packed)
    result = run(kernels.kernel_offline_quantized_mx_matmul, *arguments, target="trn3")
    _matches(result.outputs[0], expected, **CLOSE)


@pytest.mark.parametrize("stationary", ["float8_e5m2", "float4_e2m1fn"])
def test_on_device_quantize_matmul_mx(mx, stationary):
    kernels, host = mx
    one, other = getattr(ml_dtypes, stationary), ml_dtypes.float8_e5m2
    _, _, left, left_scale = host.generate_stabilized_mx_data(one, (128, 512))
    values = host.generate_stabilized_mx_data(other, (128, 2048))[0]
    right, right_scale = host.quantize_mx_golden(values, other)
    expected = host.nc_matmul_mx_golden(left, right, left_scale, right_scale, one, other)
    arguments = (left, left_scale, values.astype(ml_dtypes.bfloat16))
    dtypes = (getattr(nl, f"{stationary}_x4"), nl.float8_e5m2_x4)
    result = run(kernels.kernel_on_device_quantize_matmul_mx, *arguments, *dtypes, target="trn3")
    _matches(result.outputs[0], expected, **CLOSE)


@pytest.mark.parametrize("by_engine", [True, False])
def test_copy_strided_quantize_matmul_mx(mx, by_engine):
    kernels, host = mx
    left = host.generate_stabilized_mx_data(ml_dtypes.float8_e5m2, (512, 128))[0]
    right = host.generate_stabilized_mx_data(ml_dtypes.float8_e5m2, (512, 512))[0]
    given = (left.astype(ml_dtypes.bfloat16), right.astype(ml_dtypes.bfloat16))
    kernel = kernels.kernel_copy_strided_quantize_matmul_mx
    result = run(kernel, *given, nl.float8_e5m2_x4, by_engine, target="trn3")
    _matches(result.outputs[0], left.T @ right, **CLOSE)
