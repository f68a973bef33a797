"""Prebuilt kernels under their official names of Beta 1: kernels of the older dialect, launched on official grids."""

import pickle

import numpy as np
import pytest

import nki_lab
from nki_lab import kernels
from nki_lab.api.install import aliases
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import KernelArgument, MixedDialects, NotModelled

with aliases():
    import neuronxcc.nki as nki
    import neuronxcc.nki.language as nl
    from neuronxcc.nki.kernels.attention import FlashConfig, flash_fwd

OFFICIAL = [(name, official) for name in kernels.names() for official in kernels.get(name).official]


@pytest.mark.parametrize("case", OFFICIAL, ids=str)
def test_every_official_name_is_in_its_module_with_the_signature_of_the_kernel(case):
    name, official = case
    module, _, called = official.rpartition(".")
    with aliases():
        space = __import__(module, fromlist=[called])
    value = getattr(space, called)
    own = kernels.get(name).official[official]
    assert called in space.__all__ and value is not own
    if isinstance(own, type):
        assert issubclass(value, own) and value is not own
    else:
        assert value.source.dialect is BETA1 and value.__signature__ == own.__signature__


def _attention():
    rng = np.random.default_rng(3)
    q = rng.standard_normal((2, 4, 16, 128)).astype(np.float32)
    k = rng.standard_normal((2, 2, 16, 200)).astype(np.float32)
    v = rng.standard_normal((2, 2, 200, 16)).astype(np.float32)
    return q, k, v


OPTIONS = {"use_causal_mask": False, "mixed_precision": False}


def test_an_official_kernel_gives_the_values_of_todays_in_all_ways_to_launch_it():
    q, k, v = _attention()
    config = FlashConfig(seq_tile_size=512)
    out, lse = kernels.flash_fwd(q, k, v, None, config=config, **OPTIONS)
    found = {
        "call": flash_fwd[2, 2](q, k, v, None, config=config, **OPTIONS),
        "run": nki_lab.run(flash_fwd[2, 2], q, k, v, None, config=config, **OPTIONS).value,
        "simulate": nki.simulate_kernel(flash_fwd[2, 2], q, k, v, None, config=config, **OPTIONS),
        "baremetal": nki.baremetal(flash_fwd)[2, 2](q, k, v, None, config=config, **OPTIONS),
        "sent": pickle.loads(pickle.dumps(flash_fwd))[2, 2](
            q, k, v, None, config=config, **OPTIONS
        ),
    }
    for way, results in found.items():
        np.testing.assert_array_equal(results[0], out, err_msg=way)
        np.testing.assert_array_equal(results[1], lse, err_msg=way)
    timed = nki.benchmark(flash_fwd)[2, 2]
    timed(q, k, v, None, config=config, **OPTIONS)
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) > 1


def test_sums_that_are_not_exact_are_computed_again_under_the_official_name():
    kernel = kernels.get("flash_fwd")
    large = kernel.edges["large"](np.random.default_rng(1))
    # The first of two programs has sums that are not exact; the last one computes all again.
    given = {**large, **{name: np.concatenate([large[name], large[name] / 8]) for name in "qkv"}}
    config = FlashConfig(seq_tile_size=512)
    result = nki_lab.run(flash_fwd[2, 1], **{**given, "config": config})
    found = result.value
    assert not result.findings
    assert kernel.error(found, given) <= kernel.tolerance["float32"]


def test_a_kernel_of_the_older_dialect_calls_an_official_one():
    q, k, v = _attention()

    @nki.jit
    def twice(q, k, v):
        config = FlashConfig(training=False)
        attended = flash_fwd(q, k, v, None, config=config, **OPTIONS)
        out = nl.ndarray(attended.shape, dtype=attended.dtype, buffer=nl.shared_hbm)
        b, kv_head = nl.program_id(0), nl.program_id(1)
        for head in nl.affine_range(2):
            tile = nl.load(attended[b, kv_head * 2 + head])
            nl.store(out[b, kv_head * 2 + head], tile + tile)
        return out

    config = FlashConfig(training=False)
    want = kernels.flash_fwd(q, k, v, None, config=config, **OPTIONS)
    np.testing.assert_array_equal(twice[2, 2](q, k, v), want * 2)


@pytest.mark.parametrize(
    ("grid", "said"),
    [(None, "called without a launch grid"), ((2, 4), "launched on the grid [2, 4]")],
)
def test_a_wrong_grid_is_an_error_that_names_the_right_one(grid, said):
    kernel = flash_fwd if grid is None else flash_fwd[grid]
    with pytest.raises(KernelArgument) as caught:
        kernel(*_attention(), None)
    assert f"flash_fwd is {said}; expected the grid [2, 2]" in caught.value.message
    assert "write flash_fwd[2, 2](...)" in caught.value.help


def test_a_kernel_of_the_older_dialect_does_not_call_one_by_its_name_of_today():
    @nki.jit
    def mixed(q, k, v):
        return kernels.flash_fwd(q, k, v, None)

    with pytest.raises(MixedDialects, match="`flash_fwd` is written in today's NKI"):
        mixed[2, 2](*_attention())


def test_a_name_that_no_kernel_has_is_an_error_in_every_module():
    with aliases():
        import neuronxcc.nki.kernels as package
        from neuronxcc.nki.kernels import vision
    for space in (package, vision):
        with pytest.raises(NotModelled, match="there is no prebuilt kernel `flash_fwd`"):
            _ = space.flash_fwd


@pytest.mark.parametrize(
    ("official", "kernel", "grid"),
    [
        ("tutorial.add_kernel_nx8x128x512", "add_kernel_nx8x128x512", "n"),
        ("vision.resize_nearest_fixed_dma_kernel", "resize_nearest", "batch"),
        ("vision.resize_nearest_fixed_dma_kernel", "resize_nearest", None),
        ("vision.select_and_scatter_kernel", "select_and_scatter", None),
        ("vision.adaptive_avg_pool2d_kernel", "adaptive_avg_pool2d", None),
    ],
)
def test_kernels_of_images_give_their_reference_on_the_official_grid(official, kernel, grid):
    module, _, called = f"neuronxcc.nki.kernels.{official}".rpartition(".")
    with aliases():
        launched = getattr(__import__(module, fromlist=[called]), called)
    prebuilt = kernels.get(kernel)
    size = prebuilt.tested[1]
    arguments = prebuilt.example(size, seed=4)
    value = nki.simulate_kernel(launched[size[grid]] if grid else launched, **arguments)
    assert prebuilt.error(value, arguments) <= prebuilt.tolerance["float32"]


CALLED = {
    "allocated_fused_rms_norm_qkv": (
        {"batch": 1, "tokens": 140, "dim": 256, "columns": 30},
        "allocated_fused_linear.allocated_fused_rms_norm_qkv",
    ),
    "quantized_double_row_matmul": (
        {"rows": 128, "depth": 256, "columns": 512, "m": 1, "n": 1, "k": 2},
        "double_row_matmul.quantized_double_row_matmul",
    ),
    "rmsnorm_quant": (
        {"rows": 5, "width": 64, "norm": 1, "bound": 0},
        "rmsnorm_quant.rmsnorm_quant.rmsnorm_quant_kernel",
    ),
}


@pytest.mark.parametrize("name", CALLED)
def test_an_official_kernel_without_a_grid_gives_the_values_of_todays(name):
    kernel, (size, official) = kernels.get(name), CALLED[name]
    module, _, called = official.rpartition(".")
    with aliases():
        space = __import__(f"neuronxcc.nki.kernels.{module}", fromlist=[called])
    arguments = kernel.example(size, "bfloat16", seed=4)
    result = nki.simulate_kernel(getattr(space, called), **arguments)
    assert kernel.error(result, arguments) <= kernel.tolerance["bfloat16"]
    expected = nki_lab.run(kernel.kernel, **arguments, target="trn2").value
    found, wanted = (kernel.decoded(value, arguments)[0] for value in (result, expected))
    np.testing.assert_array_equal(found, wanted)


def test_an_official_kernel_with_addresses_may_be_called_where_the_compiler_places_tiles():
    kernel = kernels.get("allocated_fused_self_attn_for_SD_small_head_size")
    with aliases():
        from neuronxcc.nki.kernels.allocated_attention import (
            allocated_fused_self_attn_for_SD_small_head_size as attention,
        )

    @nki.jit
    def twice(q, k, v):
        attended = attention(q, k, v, mixed_precision=False)
        out = nl.ndarray(attended.shape, dtype=attended.dtype, buffer=nl.shared_hbm)
        b = nl.program_id(0)
        tile = nl.load(attended[b])
        nl.store(out[b], tile + tile)
        return out

    given = kernel.edges["large"](np.random.default_rng(1))  # computed again by the last program
    result = nki_lab.run(attention[2], **given)
    assert not result.findings
    assert kernel.error(result.value, given) <= kernel.tolerance["float32"]
    given = kernel.example({"batch": 2, "sequence": 160, "d": 24, "causal": 0})
    want = nki_lab.run(attention[2], **given).value
    np.testing.assert_array_equal(
        twice[2](given["q_ref"], given["k_ref"], given["v_ref"]), want * 2
    )
