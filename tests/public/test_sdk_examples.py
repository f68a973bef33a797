"""Tests the example kernels of the documentation against NumPy, or the reference beside them.

NKI_SDK_ROOT names a clone of aws-neuron/aws-neuron-sdk; without it the tests are skipped.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nki_lab.choices import use_target
from nki_lab.errors import NkiError, TensorArgument
from nki_lab.runtime import compare, run
from tests.public.sdk.clone import SDK_VARIABLE, load, official_names, root
from tests.public.sdk.references import moved, selective_scan, signed

CLONE = root(SDK_VARIABLE)
pytestmark = pytest.mark.skipif(CLONE is None, reason=f"{SDK_VARIABLE} names no aws-neuron-sdk")
EXAMPLES = Path(CLONE or ".", "nki/examples")
ALL = ("trn1", "trn2", "trn3")
on_all = pytest.mark.parametrize("target", ALL)


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Let the examples import `nki` and the files beside them."""
    with official_names(EXAMPLES):
        yield


def check(kernel, arguments, *expected, target, **tolerance):
    """Run a kernel on a copy of the arguments and compare everything it returns."""
    result = run(kernel, *(moved(a) for a in arguments), target=target)
    assert len(result.outputs) == len(expected)
    for found, reference in zip(result.outputs, expected, strict=True):
        comparison = compare(found, reference, **tolerance)
        assert comparison.ok, comparison.summary()
    assert not [f for f in result.findings if f.is_serious]


# -- getting started, layout, indexing --------------------------------------------------------------------------------


@on_all
@pytest.mark.parametrize("file", ["baremetal", "torch", "jax"])
def test_getting_started(file, target, rng):
    kernel = load(EXAMPLES / f"getting_started_{file}.py").nki_tensor_add_kernel
    for shape in ((4, 3), (128, 77)):
        a, b = signed(rng, shape, "float16"), signed(rng, shape, "float16")
        check(kernel, (a, b), a.astype("f8") + b.astype("f8"), target=target)


@on_all
def test_layout_pass(target, rng):
    kernel = load(EXAMPLES / "layout-pass.py").tensor_exp_kernel_
    x = signed(rng, (128, 512), "bfloat16")
    check(kernel, (x,), np.exp(x.astype("f8")), target=target)


@on_all
def test_layout_violation_is_refused_at_the_load(target, rng):
    kernel = load(EXAMPLES / "layout-violation.py").tensor_exp_kernel_
    with pytest.raises(TensorArgument, match=r"256 partitions, but the memory has 128") as caught:
        run(kernel, signed(rng, (256, 512), "bfloat16"), target=target)
    assert "nl.load" in str(caught.value) and "layout-violation.py, line" in str(caught.value)


def test_layout_dynamic_loop_is_no_python():
    with pytest.raises(SyntaxError) as caught:
        load(EXAMPLES / "layout-dynamic-loop.py")
    assert caught.value.lineno == 25


def test_layout_loop_needs_a_decorator_of_another_package():
    with pytest.raises(ModuleNotFoundError, match="torch_neuronx"):
        load(EXAMPLES / "layout-loop.py")


@on_all
@pytest.mark.parametrize("shape", [(4, 5), (128, 96), (3, 7)])
def test_index_case_1(shape, target, rng):
    kernel = load(EXAMPLES / "index-case-1.py").tensor_split_kernel_
    x = signed(rng, shape, "bfloat16")
    check(kernel, (x,), x[:, ::2].copy(), x[:, 1::2].copy(), target=target)


@on_all
@pytest.mark.parametrize(("shape", "pool"), [((2, 6, 6), 2), ((128, 9, 12), 3)])
def test_index_case_3(shape, pool, target, rng):
    kernel = load(EXAMPLES / "index-case-3.py").tensor_maxpool_kernel_
    x = signed(rng, shape, "bfloat16")
    c, h, w = shape
    windows = x.astype("f8").reshape(c, h // pool, pool, w // pool, pool)
    check(kernel, (x, pool), windows.max(axis=(2, 4)), target=target)


# -- tutorials ---------------------------------------------------------------------------------------------------------


@on_all
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensor_addition(dtype, target, rng):
    kernel = load(EXAMPLES / "tensor_addition/tensor_addition_nki_kernels.py").nki_tensor_add
    a, b = signed(rng, (256, 1024), dtype), signed(rng, (256, 1024), dtype)
    check(kernel, (a, b), a.astype("f8") + b.astype("f8"), target=target)


@on_all
@pytest.mark.parametrize(("shape", "pool"), [((2, 6, 6), 2), ((17, 12, 8), 4)])
def test_average_pool2d(shape, pool, target, rng):
    module = load(EXAMPLES / "average_pool2d/average_pool2d_nki_kernels.py")
    x = signed(rng, shape, "float32")
    c, h, w = shape
    ours = x.astype("f8").reshape(c, h // pool, pool, w // pool, pool).mean(axis=(2, 4))
    assert np.allclose(module.np_average_pool_2D(x, pool), ours, rtol=1e-5, atol=1e-6)
    check(module.tensor_avgpool_kernel, (x, pool), ours, target=target)


@on_all
@pytest.mark.parametrize(("rows", "shape"), [(5, (3, 4)), (128, (7, 2))])
def test_transpose2d(rows, shape, target, rng):
    module = load(EXAMPLES / "transpose2d/transpose2d_nki_kernels.py")
    x = rng.integers(-128, 128, (rows, shape[0] * shape[1])).astype(np.int8)
    turned = x.reshape(rows, *shape).transpose(0, 2, 1).reshape(rows, -1)
    check(module.tensor_transpose2D_kernel_, (x, shape), turned, target=target)


MATMULS = {
    "basic_": (128, 64, 512),
    "tiled_": (256, 384, 1024),
    "hoist_load_": (256, 384, 1024),
    "block_free_dimension_": (384, 256, 2048),
    "fully_optimized_": (1024, 2048, 1024),
}


@on_all
@pytest.mark.parametrize("name", MATMULS)
def test_matrix_multiplication(name, target, rng):
    module = load(EXAMPLES / "matrix_multiplication/matrix_multiplication_nki_kernels.py")
    k, m, n = MATMULS[name]
    lhs, rhs = signed(rng, (k, m), "float32"), signed(rng, (k, n), "float32")
    expected = lhs.T.astype("f8") @ rhs.astype("f8")
    check(getattr(module, f"nki_matmul_{name}"), (lhs, rhs), expected, target=target)


@on_all
@pytest.mark.parametrize("version", ["mamba_v1", "mamba_v2", "mamba_v3"])
@pytest.mark.parametrize(
    ("batch", "channels", "states", "length"), [(1, 128, 16, 512), (2, 256, 3, 1024)]
)
def test_fused_mamba(version, batch, channels, states, length, target, rng):
    kernel = getattr(load(EXAMPLES / "fused_mamba/mamba_nki_kernels.py"), version)
    arguments, expected = selective_scan(rng, batch, channels, states, length)
    check(kernel, arguments, expected, target=target, rtol=1e-3, atol=1e-3)


# -- files that are programs -------------------------------------------------------------------------------------------


@on_all
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("simulate/nki_simulate_example.py", ""),
        ("getting_started_baremetal.py", "[[2. 2. 2.]"),
        ("average_pool2d/average_pool2d_nki_kernels.py", "NKI and NumPy match"),
        ("transpose2d/transpose2d_nki_kernels.py", "NKI and NumPy match"),
    ],
)
def test_programs_run_as_they_are(file, says, target, capsys):
    with use_target(target):
        runpy.run_path(str(EXAMPLES / file), run_name="__main__")
    assert says in capsys.readouterr().out


# -- MX matrix products, on trn3 --------------------------------------------------------------------------------------

MX = Path(CLONE or ".", "nki/deep-dives/src/mxfp-matmul")
MX_TYPES = ("float8_e5m2", "float8_e4m3fn", "float4_e2m1fn")
CLOSE = {"rtol": 5e-2, "atol": 5e-2}  # as the driver beside the kernels compares


@pytest.fixture
def mx(rng):
    """Return the MX kernels and the references beside them, whose inputs come from NumPy's global generator."""
    np.random.seed(int(rng.integers(2**31)))
    with official_names(MX):
        yield load(MX / "mx_kernels.py"), load(MX / "mx_cpu_utils.py")


def _packed(dtype):
    from nki_lab import language

    return getattr(language, f"{dtype}_x4")


@pytest.mark.parametrize("dtype", MX_TYPES)
def test_offline_quantized_mx_matmul(mx, dtype):
    kernels, host = mx
    number = getattr(ml_dtypes, dtype)
    _, _, left, left_scale = host.generate_stabilized_mx_data(number, (128, 512))
    _, _, right, right_scale = host.generate_stabilized_mx_data(number, (128, 2048))
    expected = host.nc_matmul_mx_golden(left, right, left_scale, right_scale, number, number)
    arguments = (left, left_scale, right, right_scale, _packed(dtype))
    check(kernels.kernel_offline_quantized_mx_matmul, arguments, expected, target="trn3", **CLOSE)


@pytest.mark.parametrize("moving", MX_TYPES[:2])
@pytest.mark.parametrize("stationary", MX_TYPES)
def test_on_device_quantize_matmul_mx(mx, stationary, moving):
    kernels, host = mx
    one, other = getattr(ml_dtypes, stationary), getattr(ml_dtypes, moving)
    _, _, left, left_scale = host.generate_stabilized_mx_data(one, (128, 512))
    values, _, _, _ = host.generate_stabilized_mx_data(other, (128, 2048))
    right, right_scale = host.quantize_mx_golden(values, other)
    expected = host.nc_matmul_mx_golden(left, right, left_scale, right_scale, one, other)
    given = values.astype(ml_dtypes.bfloat16)
    arguments = (left, left_scale, given, _packed(stationary), _packed(moving))
    check(kernels.kernel_on_device_quantize_matmul_mx, arguments, expected, target="trn3", **CLOSE)


@pytest.mark.parametrize("by_engine", [True, False])
@pytest.mark.parametrize("dtype", MX_TYPES[:2])
@pytest.mark.parametrize("packed", ["", "_packed_scale"])
def test_copy_strided_quantize_matmul_mx(mx, packed, dtype, by_engine):
    kernels, host = mx
    number = getattr(ml_dtypes, dtype)
    left = host.generate_stabilized_mx_data(number, (512, 128))[0]
    right = host.generate_stabilized_mx_data(number, (512, 512))[0]
    kernel = getattr(kernels, f"kernel_copy_strided_quantize_matmul_mx{packed}")
    given = (left.astype(ml_dtypes.bfloat16), right.astype(ml_dtypes.bfloat16))
    arguments = (*given, _packed(dtype), by_engine)
    check(kernel, arguments, left.T @ right, target="trn3", **CLOSE)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_mx_needs_trn3(mx, target):
    kernels, host = mx
    left = host.generate_stabilized_mx_data(ml_dtypes.float8_e5m2, (512, 128))[0]
    right = host.generate_stabilized_mx_data(ml_dtypes.float8_e5m2, (512, 512))[0]
    given = (left.astype(ml_dtypes.bfloat16), right.astype(ml_dtypes.bfloat16))
    with pytest.raises(NkiError, match="choose trn3"):
        run(
            kernels.kernel_copy_strided_quantize_matmul_mx,
            *given,
            _packed("float8_e5m2"),
            target=target,
        )
