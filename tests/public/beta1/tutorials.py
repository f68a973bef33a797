"""The examples and tutorials of the documentation and of nki-samples, which are the same kernels at several commits."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from nki_lab.errors import NkiError
from tests.public.beta1 import references as r
from tests.public.beta1.kernels import Case, Placed, placed
from tests.public.beta1.trees import DOCUMENTATION, FIRST_SAMPLES, SAMPLES
from tests.public.sdk.references import selective_scan

_MATMUL = "matrix_multiplication/matrix_multiplication_nki_kernels.py"
_MATMULS = {
    "basic_": ("float32 128x64", "float32 128x512"),
    "tiled_": ("float32 256x384", "float32 256x1024"),
    "hoist_load_": ("float32 256x384", "float32 256x1024"),
    "block_free_dimension_": ("float32 384x256", "float32 384x2048"),
    "fully_optimized_": ("float32 1024x2048", "float32 1024x1024"),
}
_OUTPUT = {"tiled_": "384x1024", "hoist_load_": "384x1024", "basic_": "64x512"}
_OUTPUT |= {"block_free_dimension_": "256x2048", "fully_optimized_": "2048x1024"}
_F32 = {"rtol": 1e-4, "atol": 1e-2}  # as the driver beside the products compares
_NORM = {"rtol": 1e-3, "atol": 1e-3}
_BF16 = {"rtol": 1e-2, "atol": 1e-2}


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.T @ b


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b


def _scan(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return selective_scan(rng, 1, 128, 16, 512)[0]


def _scanned(*inputs: np.ndarray) -> np.ndarray:
    delta, u, a, b, c = inputs
    state, y = np.zeros((*u.shape[:2], a.shape[1])), np.empty(u.shape)
    for t in range(u.shape[2]):
        step, given = delta[:, :, t, None], u[:, :, t, None]
        state = np.exp(step * a) * state + step * given * b[:, None, :, t]
        y[:, :, t] = (state * c[:, None, :, t]).sum(axis=-1)
    return y


def _pairs(shape: str) -> tuple[str, str]:
    return f"float16 {shape}", f"float16 {shape}"


def _attention(version: str) -> Case:
    """Run their own comparison, of 4,096 positions where the kernel has tiles."""

    def check(module: ModuleType) -> None:
        kernel = getattr(module, f"attn_fwd_{version}")
        length = 128 if version in ("v1", "v2") else 4096
        inputs = [np.random.uniform(-1, 1, (128, length)).astype(np.float32) for _ in range(3)]
        expected = r.attention(*(x.astype(np.float64) for x in inputs))
        assert np.allclose(kernel(*inputs), expected, atol=1e-2)

    return Case("attention_kernels.py", check=check, label=version)


VERSIONS = ("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v8a", "v9", "v10", "v11")
ATTENTION = tuple(_attention(version) for version in VERSIONS)
_ADD = "spmd_tensor_addition_nki_kernels.py"

EXAMPLES: tuple[Case, ...] = (
    *(
        Case(f"getting_started_{how}.py", "nki_tensor_add_kernel", _pairs("4x3"), _sum)
        for how in ("baremetal", "torch", "jax")
    ),
    Case("getting_started_baremetal.py", program=()),
    Case("layout-pass.py", "tensor_exp_kernel_", ("bfloat16 128x512",), np.exp),
    Case(
        "layout-violation.py",
        "tensor_exp_kernel_",
        ("bfloat16 256x512",),
        raises=(NkiError, "(?s)256.*128"),
    ),
    Case("layout-dynamic-loop.py", "tensor_exp_kernel_", ("float32 250x512",), np.exp),
    Case(
        "layout-loop.py",
        "tensor_exp_kernel_",
        ("bfloat16 256x512",),
        np.exp,
        absent=("torch_neuronx",),
    ),
    Case(
        "index-case-1.py",
        "tensor_split_kernel_",
        ("bfloat16 4x6",),
        lambda x: (x[:, ::2], x[:, 1::2]),
    ),
    Case(
        "index-case-3.py",
        "tensor_maxpool_kernel_",
        ("bfloat16 2x6x9", 3),
        lambda x, n: r.square_windows(x, n).max(axis=(3, 4)),
    ),
    *(
        Case(file, "tensor_exp_kernel_", ("float32 250x512",), np.exp)
        for file in ("prof-kernel.py", "prof-kernel-profile.py")
    ),
    Case("prof-kernel-benchmark.py", program=()),
    Case(
        "mm-nl-spmd.py",
        "matmul_128x128x512_spmd",
        ("bfloat16 512x128", "bfloat16 128x1024"),
        lambda a, b: a @ b,
        grid=(4, 2),
        tolerance=_BF16,
    ),
    Case(
        "mm-nisa-spmd.py",
        "matmul_128x128x512_spmd",
        ("bfloat16 128x512", "bfloat16 128x1024"),
        _product,
        grid=(4, 2),
        tolerance=_BF16,
    ),
)

TUTORIALS: tuple[Case, ...] = (
    Case(
        "average_pool2d/average_pool2d_nki_kernels.py",
        "tensor_avgpool_kernel",
        ("float32 17x12x8", 4),
        lambda x, n: r.square_windows(x, n).mean(axis=(3, 4)),
    ),
    Case("average_pool2d/average_pool2d_nki_kernels.py", program=()),
    Case(
        "transpose2d/transpose2d_nki_kernels.py",
        "tensor_transpose2D_kernel_",
        ("int8 5x12", (3, 4)),
        r.transposed_images,
    ),
    Case("transpose2d/transpose2d_nki_kernels.py", program=()),
    *(
        Case(_MATMUL, f"nki_matmul_{name}", sizes, _product, tolerance=_F32)
        for name, sizes in _MATMULS.items()
    ),
    *(
        Case(
            "fused_mamba/mamba_nki_kernels.py",
            f"mamba_{version}",
            (_scan,),
            _scanned,
            tolerance=_NORM,
        )
        for version in ("v1", "v2", "v3")
    ),
    Case(
        "rmsnorm/rmsnorm_nki_kernels.py",
        "nki_rmsnorm_kernel",
        ("float32 250x512", "float32 512"),
        r.rms_norm,
        tolerance=_NORM,
    ),
    Case("rmsnorm/rmsnorm_nki_kernels.py", program=()),
    *(
        Case(
            "layernorm/layernorm_nki_kernel.py",
            f"nki_layernorm_kernel_{version}",
            ("float32 300x1000", 1e-5, "float32 1000", "float32 1000"),
            r.layer_norm,
            tolerance=_NORM,
        )
        for version in ("v1", "v2")
    ),
    Case(
        "sd_attention/sd_attention_nki_kernels.py",
        "fused_self_attn_for_SD_small_head_size",
        ("float32 4096x64", "float32 4096x64", "float32 4096x64"),
        r.small_head_attention,
        needs=("scipy",),
        tolerance=_BF16,
    ),
    Case(
        "softmax/softmax_nki_kernels.py",
        "nki_softmax_kernel",
        ("float32 300x512",),
        r.softmax,
        absent=("torch_xla.core.xla_model",),
        tolerance=_NORM,
    ),
    Case(f"tensor_addition/{_ADD}", "nki_tensor_add", _pairs("256x1024"), _sum, host=True),
    Case(f"tensor_addition/{_ADD}", program=()),
    Case(
        "tensor_addition/tensor_addition_nki_kernels.py",
        "nki_tensor_add",
        _pairs("256x1024"),
        _sum,
        host=True,
    ),
    *(
        Case(
            "tensor_addition/spmd_multiple_nc_tensor_addition_nki_kernels.py",
            name,
            _pairs("512x2048"),
            _sum if name else None,
            program=None if name else (),
            host=True,
        )
        for name in ("nki_tensor_add_nc2", "")
    ),
    Case(
        "rotary/rotary_nki_kernels.py",
        "nki_apply_rotary_embedding",
        ("float32 2x3x200x64", "float32 2x3x200x64", "float32 2x200x64", "float32 2x200x64"),
        lambda q, k, cos, sin: np.stack([_turned(q, cos, sin), _turned(k, cos, sin)]),
        grid=(2, 3),
        needs=("torch",),
        absent=(
            "torch_neuronx",
            "loguru",
            "torch_xla.core.xla_model",
            "transformers.models.llama.modeling_llama",
        ),
        tolerance=_NORM,
    ),
)


def _turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    halves = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * cos[:, None] + halves * sin[:, None]


#: The first release: kernels write to their last arguments.
WRITING: tuple[Case, ...] = (
    Case(
        "average_pool2d/average_pool2d_nki_kernels.py",
        "tensor_avgpool_kernel_",
        ("float32 17x12x8", "out float32 17x3x2", 4),
        lambda x, n: r.square_windows(x, n).mean(axis=(3, 4)),
    ),
    Case(
        "transpose2d/transpose2d_nki_kernels.py",
        "tensor_transpose2D_kernel_",
        ("int8 5x12", "out int8 5x12", (3, 4)),
        r.transposed_images,
    ),
    *(
        Case(
            _MATMUL,
            f"nki_matmul_{name}",
            (*sizes, f"out float32 {_OUTPUT[name]}"),
            _product,
            tolerance=_F32,
        )
        for name, sizes in _MATMULS.items()
    ),
    *(
        Case(
            "fused_mamba/mamba_nki_kernels.py",
            f"mamba_{version}",
            (_scan, "out float32 1x128x512"),
            _scanned,
            tolerance=_NORM,
        )
        for version in ("v1", "v2", "v3")
    ),
    Case(
        "rmsnorm/rmsnorm_nki_kernels.py",
        "nki_rmsnorm_kernel",
        ("float32 250x512", "float32 512", "out float32 250x512"),
        r.rms_norm,
        tolerance=_NORM,
    ),
    *(
        Case(
            "layernorm/layernorm_nki_kernel.py",
            f"nki_layernorm_kernel_{version}",
            ("float32 300x1000", 1e-5, "float32 1000", "float32 1000", "out float32 300x1000"),
            r.layer_norm,
            tolerance=_NORM,
        )
        for version in ("v1", "v2")
    ),
    Case(
        "sd_attention/sd_attention_nki_kernels.py",
        "fused_self_attn_for_SD_small_head_size",
        ("float32 4096x64", "float32 4096x64", "float32 4096x64", "out float32 4096x64"),
        r.small_head_attention,
        needs=("scipy",),
        tolerance=_BF16,
    ),
    Case(
        "tensor_addition/tensor_addition_nki_kernels.py",
        "nki_tensor_add_kernel_",
        (*_pairs("256x1024"), "out float16 256x1024"),
        _sum,
        grid=(2, 2),
    ),
)


def cases() -> list[Placed]:
    """Return all of them, at every commit that has them."""
    found: list[Placed] = []
    for tree in DOCUMENTATION:
        found += placed(tree, "examples", EXAMPLES + TUTORIALS)
        found += placed(tree, "examples/attention", ATTENTION)
    folder = "src/nki_samples/tutorials"
    found += placed(SAMPLES, folder, TUTORIALS)
    found += placed(SAMPLES, f"{folder}/attention_fwd_performance", ATTENTION)
    return found + placed(FIRST_SAMPLES, "src/tutorials", WRITING)
