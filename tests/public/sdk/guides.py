"""The guides and tutorials: what runs, and what cannot."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import KernelResult, TensorArgument, WrongCall
from tests.public.sdk.cases import Case

TRN1, TRN2, TRN3 = (
    f"guides/architecture/{n}_arch.rst" for n in ("trainium_inferentia2", "trainium2", "trainium3")
)
ORDER, SIMULATOR = "guides/how-to-scheduling-apis.rst", "guides/nki_simulator.rst"
CUSTOM, PROFILE = "guides/framework_custom_op.rst", "guides/use-neuron-profile.rst"
MATMUL, MAMBA = "guides/tutorials/kernel-optimization.rst", "guides/tutorials/fused_mamba.rst"

_RULE = (KernelResult, "(?s)must be in shared_hbm.*nki/migration/index.rst")
_SHARED = {"buffer=nl.hbm": "buffer=nl.shared_hbm"}
_OUT = (
    "out = nl.ndarray({0}.shape, {0}.dtype, buffer=nl.shared_hbm)\nnl.store(out, {0})\nreturn out"
)
_THREE = ("a float32 64x30", "b float32 128x5", "c float32 3x700")


@nki.jit
def _doubled(x, y=None):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    if y is not None:
        nisa.tensor_tensor(tile, tile, nl.load(y), op=nl.add)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def _added(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for row in range(0, a.shape[0], 128):
        rows = nl.ds(row, min(128, a.shape[0] - row))
        nl.store(out[rows], nl.add(nl.load(a[rows]), nl.load(b[rows])))
    return out


def _torch_cases() -> list[Case]:
    """Return the programs that call a kernel from PyTorch, on its CPU in place of a device."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    xla = SimpleNamespace(device=lambda: torch.device("cpu"), sync=lambda: None)
    known = {"torch": torch, "torch_xla": xla, "nki_tensor_add": _added}

    def products(names: dict[str, Any]) -> bool:
        a, b = names["a"], names["b"]
        return torch.allclose(names["out"], a * b * (a + b), rtol=1e-5, atol=1e-5)

    def gradients(names: dict[str, Any]) -> bool:
        a, b = names["a"], names["b"]
        return torch.allclose(a.grad, 2 * a * b + b * b, rtol=1e-4, atol=1e-4) and products(names)

    return [
        Case(
            "get-started/quickstart-implement-run-kernel.rst#9",
            program=True,
            known={
                "torch_neuronx": SimpleNamespace(trace=lambda kernel, _: kernel),
                "add_kernel": SimpleNamespace(nki_tensor_add_kernel=_added),
            },
            holds=lambda names: bool((names["c"] == 2).all()),
        ),
        Case(f"{CUSTOM}#102", program=True, known=known, holds=products),
        Case(f"{CUSTOM}#107", program=True, known=known, holds=gradients),
        Case(
            f"{PROFILE}#101",
            "nki_matmul",
            ("lhsT float32 1024x2048", "rhs float32 1024x1024"),
            _product,
            known={"torch_neuronx": SimpleNamespace()},
        ),
        Case(
            f"{SIMULATOR}#1",
            program=True,
            known={
                "torch": torch, "my_kernel": _doubled, "a_np": _ROWS, "b_np": _ROWS,
                "a_torch": torch.from_numpy(_ROWS), "b_torch": torch.from_numpy(_ROWS),
            },
            holds=lambda names: np.array_equal(names["sim_result_np"], 3 * _ROWS),
        ),
    ]  # fmt: skip


def _exponentials(*tiles: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.exp(tile) for tile in tiles)


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left.T @ right


def _matmuls() -> list[Case]:
    """Return the five kernels of the optimization tutorial, which return tensors in nl.hbm."""
    sizes = {
        1: "96x64 96x300",
        4: "256x384 256x1024",
        8: "384x256 384x512",
        9: "256x512 256x2048",
        10: "1024x2048 1024x1024",
    }
    cases = []
    for number, text in sizes.items():
        left, right = text.split()
        inputs = (f"lhsT float32 {left}", f"rhs float32 {right}")
        cases.append(Case(f"{MATMUL}#{number}", "matrix_multiply_kernel", inputs, raises=_RULE))
        cases.append(
            Case(
                f"{MATMUL}#{number}",
                "matrix_multiply_kernel",
                inputs,
                _product,
                changes={"nl.hbm": "nl.shared_hbm"},
            )
        )
    return cases


def _schedules() -> list[Case]:
    """Return the kernels of the scheduling guide, as they are and with their results in shared HBM."""
    cases = []
    for number, name, inputs, expected in (
        (1, "kernel", ("t float32 64x300 +",), lambda t: 1 / t + t + 1),
        (1, "scheduled", ("t float32 64x300 +",), lambda t: 1 / t + t + 1),
        (2, "kernel", _THREE, _exponentials),
        (2, "scheduled", _THREE, _exponentials),
        (3, "loop", _THREE, _exponentials),
        (4, "loop", _THREE, _exponentials),
    ):
        cases.append(Case(f"{ORDER}#{number}", name, inputs, raises=_RULE))
        cases.append(Case(f"{ORDER}#{number}", name, inputs, expected, changes=_SHARED))
    return cases


_ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) - 5

CASES = [
    *_torch_cases(),
    *_matmuls(),
    *_schedules(),
    Case(
        f"{TRN1}#3",
        inputs=("in_tensor float32 128x512",),
        after=_OUT.format("tile"),
        expected=lambda x: x,
    ),
    Case(
        f"{TRN1}#4",
        inputs=("s float32 128x128", "m float32 128x128"),
        before="N = 3\nstationary_tile, moving_tile = nl.load(s), nl.load(m)",
        after="tile = nl.copy(psum_buf)\n" + _OUT.format("tile"),
        expected=lambda s, m: 3 * s.T @ m,
    ),
    Case(
        f"{TRN2}#4",
        inputs=("hbm_src bfloat16 512x128",),
        after=_OUT.format("sbuf_dst"),
        expected=lambda x: x.T,
    ),
    Case(
        f"{TRN2}#5",
        inputs=("x bfloat16 128x128",),
        before="sbuf_src = nl.load(x)",
        after=_OUT.format("sbuf_dst"),
        expected=lambda x: x.T,
    ),
    Case(
        f"{TRN3}#1",
        inputs=("s bfloat16 128x512", "m bfloat16 128x1024"),
        before="dst = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)\n"
        "def quantized(x, n):\n"
        "    data = nl.ndarray((128, n), nl.float8_e5m2_x4, buffer=nl.sbuf)\n"
        "    scale = nl.ndarray((128, n), nl.uint8, buffer=nl.sbuf)\n"
        "    nisa.quantize_mx(dst=data, src=nl.load(x), dst_scale=scale)\n"
        "    return data, scale\n"
        "stationary, stationary_scale = quantized(s, 128)\nmoving, moving_scale = quantized(m, 256)",
        after="tile = nl.copy(dst)\n" + _OUT.format("tile"),
        # Four numbers of one partition are contracted together; two bits of mantissa stay of each number.
        expected=lambda s, m: np.einsum(
            "kiq,kjq->ij", s.reshape(128, 128, 4), m.reshape(128, 256, 4)
        ),
        tolerance={"rtol": 0.2, "atol": 12.0},
        targets=("trn3",),
    ),
    Case(
        f"{SIMULATOR}#2",
        program=True,
        known={"data": _ROWS},
        changes={"breakpoint()": "pass"},
        raises=(WrongCall, "store"),
    ),
    Case(
        f"{SIMULATOR}#3", "my_kernel", ("x float32 4x4",), raises=(KernelResult, "returns nothing")
    ),
    Case(f"{SIMULATOR}#4", program=True, known={"my_kernel": _doubled, "inputs": _ROWS}),
    Case(
        f"{SIMULATOR}#5",
        program=True,
        known={"data": _ROWS},
        raises=(TensorArgument, "256 partitions, but the memory has 128"),
    ),
]

_OLDER = "instructions without dst, of the older dialect"
_PSEUDO = "pseudo-code of what an instruction computes"
FRAGMENTS = {
    TRN1: {1: _PSEUDO, 2: _PSEUDO},
    TRN2: {
        1: "dots after keyword arguments",
        2: "an instruction that NKI does not have",
        3: "dots in place of arguments",
    },
    TRN3: {2: _PSEUDO},
    CUSTOM: {2: "a module of HLO", **dict.fromkeys((104, 105, 106, 108), "JAX")},
    MAMBA: {
        **dict.fromkeys((2, 3, 5, 7, 9, 10, 11, 13, 15, 20), _OLDER),
        8: "PyTorch",
        **dict.fromkeys((16, 17, 18, 19), "loops without bodies"),
        21: "dots in place of code",
    },
    "guides/tutorials/matrix_multiplication.rst": {
        1: "dots in place of a shape",
        101: "pseudo-code of tiles",
        102: "what a program prints",
    },
}
