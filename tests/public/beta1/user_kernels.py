"""Kernels that users of the older dialect have published: an assignment's solutions, course projects, studies."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from nki_lab.errors import NkiError
from tests.public.beta1 import references as r
from tests.public.beta1.kernels import Case, Placed, placed
from tests.public.beta1.trees import KERNELS_VARIABLE, Tree

#: Solutions of one assignment: a convolution with a maximum over windows, vector sums and a transpose.
SOLUTIONS = {
    "stanford-cs149+asst4-trainium": "859c0e3",
    "stanford-cs149+asst4-trainium2": "67a1f8b",
    "Ericcsr+asst4-trainium": "8969170",
    "EtashGuha+asst4-trainium2": "0451941",
    "Ni2002ka+asst4-trainium2": "2d6c725",
    "Pre1999+asst4-trainium": "778f429",
    "TomZelazny+asst4-trainium": "fed24bf",
    "Yousef02+149-asst4-trainium": "210bf38",
    "a-argy+asst4-trainium2": "f935d2d",
    "akjadhav+asst4-trainium": "cf87b8a",
    "chengli2003+asst4-trainium2": "a57e57b",
    "chenhzhu+asst4-trainium2": "fecd8c8",
    "ewang675+asst4-trainium": "9adaa1d",
    "ichuniq+asst4-trainium": "ba2c5b1",
    "juntongshi48+asst4-trainium2": "56cd353",
    "kenny1G+asst4-trainium": "b93c794",
    "msthaniana+asst4-trainium2": "ab4134c",
    "nriedman+asst4-trainium2": "0d08c00",
    "rishic3+asst4-trainium2": "e17b72e",
    "robertpare17+asst4-trainium": "8a1d41c",
    "rohanchanani+asst4-trainium": "372bc6e",
    "sahiljain01+asst4-trainium": "bc16755",
    "tianyeeT+cs149-asst4-trainium2": "5588fc6",
    "waahm7+asst4-trainium": "0243a24",
    "xaviergonzalez+asst4-trainium2": "d155261",
}
#: Those that are the assignment as it was given out, without a solution.
_EMPTY = ("stanford-cs149", "tianyeeT")
#: What a solution asserts of its matrix, where others take any of whole tiles.
_TRANSPOSED = {"a-argy+asst4-trainium2": "2048x2048"}
_F32 = {"rtol": 1e-4, "atol": 1e-3}
_BF16 = {"rtol": 1e-2, "atol": 1e-2}


def _convolution(channels: int, filters: int, pool: int, bias: bool) -> Case:
    shapes = (f"float32 2x{channels}x32x16", f"float32 {filters}x{channels}x3x3")
    offset = f"float32 {filters}" if bias else f"full float32 {filters} 0"
    return Case(
        "part2/conv2d.py",
        "fused_conv2d_maxpool",
        (*shapes, offset, pool),
        r.convolution,
        absent=("tqdm",),  # imported by one solution, used by none
        tolerance=_F32,
        label=f"{channels} to {filters}, pool {pool}",
    )


CONVOLUTIONS = (_convolution(128, 256, 1, False), _convolution(256, 128, 2, True))


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b


PART_1 = (
    Case("part1/kernels.py", "vector_add_naive", ("float32 128", "float32 128"), _sum),
    Case("part1/kernels.py", "vector_add_tiled", ("float32 1280", "float32 1280"), _sum),
    Case("part1/kernels.py", "vector_add_stream", ("float32 256000", "float32 256000"), _sum),
)
#: The first year's assignment places its tiles; a second kernel shows what comes of tiles in one place.
_VECTORS = ("float32 256000", "float32 256000")
ALLOCATED = (
    Case(
        "part1/kernels.py",
        "vector_add_direct_allocation",
        _VECTORS,
        lambda a, b: (a + b)[:, None],
    ),
    Case(
        "part1/kernels.py",
        "vector_add_direct_allocation_bad",
        _VECTORS,
        raises=(NkiError, r"overlaps `a_tile\[0\]`"),
    ),
)


def _transpose(shape: str) -> Case:
    return Case("part1/kernels.py", "matrix_transpose", (f"float32 {shape}",), np.transpose)


def _gelu(x: np.ndarray) -> np.ndarray:
    from math import erf

    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _dense(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return x.T @ w + bias


_QKV = ("float32 128x1024",) * 3
FUSION = (
    Case("kernels/baseline/attention.py", "baseline_attention", _QKV, r.attention, tolerance=_BF16),
    Case("kernels/fused/attention.py", "fused_attention", _QKV, r.attention, tolerance=_BF16),
    Case("kernels/baseline/softmax.py", "softmax_kernel", ("float32 256x1024",), r.softmax),
    Case(
        "kernels/baseline/mlp_gemm.py",
        "gemm_kernel",
        ("float32 256x128", "float32 256x512", "float32 1x512"),
        _dense,
        tolerance=_F32,
    ),
    Case(
        "kernels/baseline/mlp_gemm.py",
        "gelu_kernel",
        ("float32 128x512",),
        _gelu,
        tolerance=_F32,
    ),
    Case(
        "kernels/fused/mlp.py",
        "fused_mlp_pwl",
        ("float32 256x128", "float32 256x512", "float32 1x512"),
        lambda *given: _gelu(_dense(*given)),
        tolerance=_BF16,
    ),
)


def _heads(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return tuple((rng.standard_normal((2, 192, 128)) / 4).astype(np.float32) for _ in range(3))


def _taylor(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores = q @ k.transpose(0, 2, 1)
    weights = np.tril(1 + scores + scores**2 / 2)
    return weights @ v, weights.sum(axis=-1, keepdims=True)


def _linear(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.tril(q @ k.transpose(0, 2, 1)) @ v


def _windowed(window: int) -> Callable[[ModuleType], Any]:
    def check(module: ModuleType) -> bool:
        kernel, padded, _, keys, mask = module.get_sliding_window_kernel(192, 128, 2, window)
        q, k, v = _heads(np.random.default_rng(5))
        front = ((0, 0), (keys - padded, 0), (0, 0))
        found = kernel(q, np.pad(k, front), np.pad(v, front), mask)
        wide = [x.astype(np.float64) for x in (q, k, v)]
        scores = wide[0] @ wide[1].transpose(0, 2, 1)
        distance = np.arange(192)[:, None] - np.arange(192)[None, :]
        seen = (distance >= 0) & (distance < window)
        return np.allclose(found, r.softmax(np.where(seen, scores, -1e9)) @ wide[2], atol=1e-3)

    return check


LINEAR_ATTENTION = (
    Case(
        "kernels/nki_attention.py",
        "taylor",
        (_heads,),
        _taylor,
        made=lambda module: module.get_based_attn_kernel(192, 128, 2)[0],
        tolerance=_F32,
    ),
    Case(
        "kernels/nki_attention_chunked.py",
        "chunked",
        (_heads,),
        _linear,
        made=lambda module: module.get_chunked_attn_kernel(192, 128, 128, 2)[0],
        tolerance=_F32,
    ),
    Case("kernels/nki_attention_sliding.py", check=_windowed(64), label="window 64"),
    Case(
        "old/identity_linear_attn_nki_CHUNKED.py",
        "chunked",
        (lambda rng: [x[0] for x in _heads(rng)],),
        lambda q, k, v: np.tril(q @ k.T) @ v,
        made=lambda module: module.get_chunked_attn_kernel(192, 128)[0],
        tolerance=_F32,
    ),
)


def _gate(gate: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Multiply complex numbers; the kernel's first matrix is given transposed to the product."""
    product = (gate[0] + 1j * gate[1]) @ (state[0] + 1j * state[1])
    return np.stack([product.real, product.imag])


QUANTUM = (
    Case(
        "nki_gate_apply.py",
        "nki_gate_apply",
        ("float32 2x64x64", "float32 2x64x1024"),
        _gate,
        tolerance=_F32,
    ),
)


def _circuit(module: ModuleType) -> bool:
    """Apply three random gates of 3 of 6 qubits to a state, and do the same with their product on permuted places."""
    nki, rng = import_module("neuronxcc.nki"), np.random.default_rng(1)
    qubits, size, tiles = 6, 8, 8
    gates = [[4, 1, 5], [0, 2, 3], [5, 0, 1]]
    moves = [module.QuantumCircuit.get_perm(qubits, gate) for gate in gates]
    complex_ones = rng.standard_normal((2, 3, size, size))
    unitaries = np.linalg.qr(complex_ones[0] + 1j * complex_ones[1])[0]
    base = np.arange(size * tiles, dtype=np.uint32).reshape(tiles, size).T.copy()
    parts = np.stack([unitaries.real, unitaries.imag], axis=1).astype(np.float32)
    kernel = module.QuantumCircuit.kernel
    found = nki.simulate_kernel(kernel, parts, np.stack(moves), 64, size, tiles, tiles, base)
    state = np.zeros(64, complex)
    state[0] = 1
    for unitary, pairs in zip(unitaries, moves, strict=True):
        places = sum(((base.astype(int) >> int(a)) & 1) << int(b) for a, b, _, _ in pairs)
        state[places] = unitary @ state[places]
    return np.allclose(found[0, :, 0] + 1j * found[1, :, 0], state, atol=1e-6)


CIRCUITS = (
    Case(
        "src/circuit.py",
        check=_circuit,
        needs=("torch",),
        absent=(
            "torch_circuit",
            "torch_xla.core.xla_model",
            "qiskit.circuit.library",
            "qiskit.quantum_info",
        ),
    ),
)


def _whole(*shape: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    """Return what makes an array of whole numbers."""
    return lambda rng: [rng.integers(-9, 9, shape).astype(np.float32)]


_TRITON_VIZ = ("triton_viz.clients", "triton_viz.core.trace")
VISUALIZED = (
    Case(
        "examples/nki/softmax.py",
        "softmax_kernel",
        ("float32 200x32", "out float32 200x32"),
        r.softmax,
        made=lambda module: module.nki.jit(module.softmax_kernel, kernel_return=False),
        absent=_TRITON_VIZ,
        tolerance=_F32,
    ),
    *(
        Case(
            "examples/nki/matmul.py",
            name,
            (_whole(*shape), _whole(8, 16), "out float32 4x16"),  # they are added up in int32
            product,
            made=lambda module, name=name: module.nki.jit(
                getattr(module, name), kernel_return=False
            ),
            absent=_TRITON_VIZ,
            tolerance=_F32,
        )
        for name, shape, product in (
            ("matmul_kernel", (4, 8), lambda a, b: a @ b),
            ("matmul_kernel_lhsT", (8, 4), lambda a, b: a.T @ b),
        )
    ),
    Case(
        "examples/nki/rmsnorm.py",
        "nki_rmsnorm_kernel",
        ("float32 29x32", "float32 32", "out float32 29x32"),
        r.rms_norm,
        made=lambda module: module.nki.jit(module.nki_rmsnorm_kernel, kernel_return=False),
        absent=_TRITON_VIZ,
        needs=("torch",),
        tolerance=_F32,
    ),
)
OTHERS: dict[str, tuple[str, tuple[Case, ...]]] = {
    "allenkchau+trainium-kernel-fusion": ("d709ddf", FUSION),
    "Willy-Chan+trainium-linear-attention": ("acd2573", LINEAR_ATTENTION),
    "RichardYin21+Trainium-Quantum-Simulator": ("08f427b", QUANTUM),
    "biquando+trainium-quantum-sim": ("750a5a7", CIRCUITS),
    "Deep-Learning-Profiling-Tools+triton-viz": ("203b0c7", VISUALIZED),
}


def cases() -> list[Placed]:
    """Return all of them whose clone is there."""
    found: list[Placed] = []
    for clone, commit in SOLUTIONS.items():
        tree = Tree(clone, KERNELS_VARIABLE, commit, clone=clone)
        solved = not clone.startswith(_EMPTY)
        listed = PART_1 + CONVOLUTIONS * solved
        if not clone.endswith("2"):
            listed += ALLOCATED
        elif solved:
            listed += (_transpose(_TRANSPOSED.get(clone, "256x384")),)
        found += placed(tree, ".", listed)
    for clone, (commit, listed) in OTHERS.items():
        found += placed(Tree(clone, KERNELS_VARIABLE, commit, clone=clone), ".", listed)
    return found
