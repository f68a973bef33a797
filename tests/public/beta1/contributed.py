"""Kernels of nki-samples that have no unit test: reference kernels, contributed ones, and those of the Neuron team."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from tests.public.beta1.kernels import Case, Placed, placed
from tests.public.beta1.trees import SAMPLES

_TEAM = "contributed/neuron-team-kernels"


def _printed(name: str) -> Callable[[ModuleType], Any]:
    """Return a check that runs a comparison which prints whether it holds."""

    def check(module: ModuleType) -> bool:
        lines: list[str] = []
        vars(module)["print"] = lambda *words: lines.append(" ".join(map(str, words)))
        getattr(module, name)()
        return any("lose" in line and "True" in line for line in lines)

    return check


def _tiles(rng: np.random.Generator) -> tuple[Any, ...]:
    tiles = [rng.standard_normal((2, 8, 128, 512)).astype(np.float32) for _ in range(2)]
    return (*tiles, 9 * 128 * 512 + 700)  # the tail is left as it was


def _double_row(module: ModuleType) -> None:
    """Run their comparison, which is skipped where the machine is no trn2."""
    vars(module)["get_target_string"] = lambda: "trn2"
    tests = module.TestDoubleRowMatmul()
    tests.test_double_row_matmul_numerical(True, 512, 16384, 1024, module.nl.bfloat16, 2, 2, 16)


def _quantized(normalized: bool, programs: int | None) -> Case:
    """Normalize rows and quantize them to fp8, each with its scale in the 4 bytes that follow it."""

    def check(module: ModuleType) -> bool:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((2, 90, 1024)).astype(ml_dtypes.bfloat16)
        weights = rng.uniform(0.5, 1.5, (1, 1024)).astype(ml_dtypes.bfloat16)
        kind = module.NormType.RMS_NORM if normalized else module.NormType.NO_NORM
        kernel = module.rmsnorm_quant_kernel
        kernel = kernel if programs is None else kernel[programs]
        nki = import_module("neuronxcc.nki")
        out = nki.simulate_kernel(kernel, x, weights, module.RmsNormQuantKernelArgs(0.0, kind))
        scale = np.ascontiguousarray(out[..., 1024:]).view(np.float32)
        wide = x.astype(np.float64)
        if normalized:
            mean = (wide**2).mean(axis=-1, keepdims=True)
            wide = wide / np.sqrt(mean + 1e-6) * weights.astype(np.float64)
        largest = np.abs(wide).max(axis=-1, keepdims=True)
        found = out[..., :1024].astype(np.float64) * scale
        # fp8_e4m3 has 3 bits after the point: it is wrong by a sixteenth at most.
        return np.allclose(scale, largest / 240, rtol=1e-2) and bool(
            (np.abs(found - wide) <= np.abs(wide) / 14 + largest / 240).all()
        )

    return Case(
        "src/nki_samples/reference/rmsnorm_quant/rmsnorm_quant.py",
        check=check,
        label=("normalized" if normalized else "quantized") + f", {programs or 'no'} programs",
        path="src",
        name="nki_samples.reference.rmsnorm_quant.rmsnorm_quant",
        absent=(
            "neuronxcc.nki.compiler.backends.neuron.tensor",
            "neuronxcc.nki.compiler.backends.neuron.indexing",
        ),
    )


CASES: tuple[Case, ...] = (
    _quantized(True, None),
    _quantized(True, 2),
    _quantized(False, None),
    Case(
        "src/nki_samples/reference/tutorial.py",
        "add_kernel_nx8x128x512",
        (lambda rng: _tiles(rng)[:2], 2 * 8 * 128 * 512),
        lambda a, b, n: a + b,
        grid=(2,),
    ),
    Case("test/unit/test_double_row_matmul.py", check=_double_row, label="numerical", path="src"),
    Case("contributed/matmul.py", check=_printed("check_correct"), label="check_correct"),
    Case(
        "contributed/maxpooling.py",
        check=_printed("check_correct"),
        label="check_correct",
        needs=("torch",),
    ),
    Case(
        "contributed/interpolate_bilinear_fwd.py",
        check=_printed("check_correct"),
        label="check_correct",
        needs=("torch",),
    ),
    Case(
        "contributed/interpolate_trilinear_fwd.py",
        check=_printed("check_correct"),
        label="check_correct",
        needs=("torch",),
        absent=("torch_xla.core.xla_model",),
    ),
    Case(
        f"{_TEAM}/cumsum.py",
        "cumsum",
        ("float32 300x5000", "out float32 300x5000"),
        lambda x: np.cumsum(x, axis=1),
        made=lambda module: import_module("neuronxcc.nki").jit(module.cumsum),
        tolerance={"rtol": 1e-3, "atol": 1e-2},
    ),
    *(
        Case(
            f"{_TEAM}/RoPE.py",
            "RoPE",
            ("float32 64x512", "float32 32x512", "float32 32x512", "out float32 64x512"),
            lambda x, cos, sin, halves=halves: _rotated(x, cos, sin, halves),
            made=lambda module: import_module("neuronxcc.nki").jit(module.RoPE),
            keywords={"first_second_half_impl": halves},
            label="halves" if halves else "pairs",
        )
        for halves in (True, False)
    ),
)


def _rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, halves: bool) -> np.ndarray:
    even, odd = (x[:32], x[32:]) if halves else (x[::2], x[1::2])
    a, b = even * cos - odd * sin, odd * cos + even * sin
    return np.concatenate([a, b]) if halves else np.stack([a, b], axis=1).reshape(x.shape)


def cases() -> list[Placed]:
    """Return all of them."""
    return placed(SAMPLES, ".", CASES)
