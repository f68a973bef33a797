"""Flash attention: dropout, its seeds, the backward kernel that draws the same weights, and long sequences."""

from collections import defaultdict

import numpy as np
import pytest

from nki_lab import kernels
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.kernels import attention
from nki_lab.kernels.library import flash_attn_bwd
from nki_lab.kernels.library.flash_fwd import FlashConfig
from nki_lab.runtime import run
from nki_lab.runtime.jit import jit

QUERIES, KEYS, D = 256, 640, 128
SHARE = 0.3


@pytest.fixture(scope="module")
def heads():
    rng = np.random.default_rng(11)
    return {
        "q": rng.standard_normal((1, 1, D, QUERIES)).astype(np.float32),
        "k": rng.standard_normal((1, 1, D, KEYS)).astype(np.float32),
        "dy": rng.standard_normal((1, 1, D, QUERIES)).astype(np.float32),
        "v": rng.standard_normal((1, 1, KEYS, D)).astype(np.float32),
    }


def forward(heads, v, seed, window=-1, dropout=SHARE):
    return kernels.flash_fwd(
        heads["q"], heads["k"], v, np.array([seed], np.int32), use_causal_mask=False,
        sliding_window=window, mixed_precision=False, dropout_p=dropout, config=FlashConfig(seq_tile_size=512),
    )  # fmt: skip


def weights_of(heads, seed, window=-1, dropout=SHARE):
    """Return the weights after dropout [queries, keys]: what a value of one in one place brings out."""
    parts = []
    for first in range(0, KEYS, D):
        v = np.zeros((1, 1, KEYS, D), np.float32)
        v[0, 0, first : first + D] = np.eye(D)
        parts.append(forward(heads, v, seed, window, dropout)[0][0, 0])
    return np.concatenate(parts, axis=1)


@pytest.fixture(scope="module")
def dropped(heads):
    return weights_of(heads, 2_000_000_011)


def test_dropout_takes_its_share_and_scales_the_others(heads, dropped):
    kept = dropped != 0
    assert abs(kept.mean() - (1 - SHARE)) < 0.005  # a standard deviation is 0.0011
    assert (
        np.abs(kept.mean(axis=0) - 0.7).max() < 0.16 and np.abs(kept.mean(axis=1) - 0.7).max() < 0.1
    )
    whole = weights_of(heads, 1, dropout=0.0)
    np.testing.assert_allclose(dropped[kept], whole[kept] / (1 - SHARE), rtol=1e-4)
    # Tiles, which have seeds of their own, do not repeat each other.
    tiles = [kept[:128, :128], kept[128:, :128], kept[:128, 512:]]
    for n in range(3):
        assert abs((tiles[n] == tiles[n - 1]).mean() - (0.7**2 + 0.3**2)) < 0.02


def test_seeds_decide_what_is_dropped(heads, dropped):
    v = heads["v"]
    first = forward(heads, v, 2_000_000_011)[0]
    np.testing.assert_array_equal(forward(heads, v, 2_000_000_011)[0], first)
    np.testing.assert_allclose(first[0, 0], dropped @ v[0, 0], atol=1e-4)
    assert (forward(heads, v, 2_000_000_012)[0] != first).any()


@pytest.mark.parametrize("window", [-1, 300])
def test_backward_draws_the_same_weights(heads, window):
    seed = 77
    v, dy = heads["v"][0, 0].astype(np.float64), heads["dy"][0, 0].astype(np.float64)
    o, lse = forward(heads, heads["v"], seed, window)
    found = kernels.flash_attn_bwd(
        heads["q"], heads["k"], heads["v"].swapaxes(2, 3).copy(), o.swapaxes(2, 3).copy(), heads["dy"], lse,
        np.array([seed], np.int32), dropout_p=SHARE, sliding_window=window,
    )  # fmt: skip
    after = weights_of(heads, seed, window).astype(np.float64)
    # What is not drawn and what is not seen has no weight; the others are known from a run without dropout.
    whole = weights_of(heads, seed, window, dropout=0.0).astype(np.float64)
    by_weights = np.where(after != 0, dy.T @ v.T / (1 - SHARE), 0)
    by_scores = whole * (by_weights - (by_weights * whole).sum(axis=1, keepdims=True)) * D**-0.5
    q, k = (heads[name][0, 0].astype(np.float64) for name in "qk")
    for gradient, want in zip(found, (k @ by_scores.T, q @ by_scores, dy @ after), strict=True):
        np.testing.assert_allclose(gradient[0, 0], want, atol=2e-4 * np.abs(want).max())


@pytest.mark.parametrize("name", ["flash_fwd", "flash_attn_bwd"])
def test_what_does_not_stay_in_sbuf_is_read_again(monkeypatch, name):
    kernel = kernels.get(name)
    size = {**kernel.tested[1], "queries": 640, "keys": 1300, "d": 16}
    arguments = kernel.example(size, seed=3)
    usual = run(kernel.kernel, **arguments)
    monkeypatch.setattr(attention, "_RESIDENT_BYTES", 0)
    monkeypatch.setattr(flash_attn_bwd, "_RESIDENT_BYTES", 0)
    again = run(jit(kernel.kernel.func), **arguments)  # a new kernel has compiled nothing yet
    assert kernel.error(again.value, arguments) <= kernel.tolerance["float32"]
    reads = [result.profile.hbm_bytes("read").sum() for result in (usual, again)]
    assert reads[1] > reads[0]


def test_seq_tile_size_and_the_layout_of_values_do_not_change_the_result(heads):
    q, k, v = heads["q"], heads["k"], heads["v"]
    bias = np.random.default_rng(2).standard_normal((1, 1, QUERIES, KEYS)).astype(np.float32)
    options = {"use_causal_mask": False, "mixed_precision": False, "logit_bias": bias}
    want, lse = kernels.flash_fwd(q, k, v, None, config=FlashConfig(), **options)
    turned = FlashConfig(seq_tile_size=512, should_transpose_v=True, lse_dtype="bfloat16")
    found = kernels.flash_fwd(q, k, v.swapaxes(2, 3).copy(), None, config=turned, **options)
    np.testing.assert_allclose(found[0], want, atol=1e-5)
    assert found[1].dtype.name == "bfloat16"
    np.testing.assert_allclose(found[1].astype(np.float32), lse, rtol=2**-8)
    plain = {**options, "logit_bias": None}
    want = kernels.flash_fwd(q, k, v, None, **plain)[0]
    found = kernels.flash_fwd(q, k, v.swapaxes(2, 3).copy(), None, config=turned, **plain)[0]
    np.testing.assert_allclose(found, want, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tiles_of_the_allocated_kernel_have_addresses_and_take_turns(dtype):
    prebuilt = kernels.get("allocated_fused_self_attn_for_SD_small_head_size")
    arguments = prebuilt.example({"batch": 2, "sequence": 1100, "d": 24, "causal": 1}, dtype)
    result = run(jit(prebuilt.kernel.func), **arguments, strict=True)
    assert not result.findings and not result.kernel.overlaps
    body = result.kernel.body
    again = next(n for n, item in enumerate(body) if isinstance(item, Loop))
    places = defaultdict(set)
    for instruction in body[:again]:
        for view in instruction.args:
            if isinstance(view, NkiTensor) and view.storage.on_chip:
                storage = view.storage
                places[storage.name.partition(".")[0], *storage.shape].add(storage.address)
    # What notes sums that are not exact, the mask and the number of loops of the second computation.
    left = [("_flags", 128, 1), ("where", 128, 128), ("most", 1, 1), ("number", 1, 1)]
    assert [places.pop(name) for name in left] == [{None}] * 4
    assert all(None not in found for found in places.values())
    turns = {
        ("tile", 128, 8, 25): 2, ("cast", 24, 1024): 2, ("cast", 24, 512): 2, ("scores", 128, 2, 512): 3,
        ("weights", 128, 2, 512): 8, ("tile", 128, 2, 256): 2, ("out", 128, 24): 8, ("side", 24, 512): 2,
    }  # fmt: skip
    assert {name: len(places[name]) for name in turns} == turns
