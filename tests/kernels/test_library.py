"""Every prebuilt kernel against its reference, and what it says of shapes it does not take."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nki_lab import kernels
from nki_lab.errors import AddressOutOfRange, KernelArgument, UsageError
from nki_lab.kernels.prebuilt import Prebuilt
from nki_lab.runtime import run
from tests.thorough import THOROUGH


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_agrees_with_its_reference(name):
    kernel = kernels.get(name)
    assert kernel.name == name
    assert len(kernel.tested) >= 3
    for n, size in enumerate(kernel.tested):
        for dtype, allowed in kernel.tolerance.items():
            arguments = kernel.example(size, dtype, seed=n)
            chip = kernel.chips[n % len(kernel.chips)]
            value, result = kernel.launched(arguments, target=chip)
            error = kernel.error(value, arguments)
            assert error <= allowed, f"{name} {size} {dtype}: {error}"
            assert {f.kind for f in result.findings} <= {"portability", "advice"}, result.findings


def _sizes(kernel):
    numbers = {name: st.sampled_from(values) for name, values in kernel.ranges.items()}
    return st.fixed_dictionaries(numbers).filter(lambda size: kernel.legal(**size))


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_agrees_at_random_sizes(name):
    kernel = kernels.get(name)
    assert sorted(kernel.ranges) == sorted(kernel.tested[0])

    @settings(
        max_examples=30 if THOROUGH else 1, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate],
    )  # fmt: skip
    @given(_sizes(kernel), st.sampled_from(kernel.dtypes), st.sampled_from(kernel.chips))
    def agrees(size, dtype, chip):
        arguments = kernel.example(size, dtype, seed=1)
        error = kernel.error(kernel.launched(arguments, target=chip)[0], arguments)
        assert error <= kernel.tolerance[dtype], f"{size} {dtype} {chip}: {error}"

    agrees()


EDGES = [(name, edge) for name in kernels.names() for edge in kernels.get(name).edges]


@pytest.mark.parametrize("case", EDGES, ids=str)
def test_numbers_that_are_not_finite_give_what_the_reference_gives(case):
    kernel = kernels.get(case[0])
    arguments = kernel.edges[case[1]](np.random.default_rng(1))
    value = kernel.launched(arguments, target=kernel.chips[-1])[0]
    assert kernel.error(value, arguments) <= max(kernel.tolerance.values())


SPLIT = [name for name in kernels.names() if len(kernels.get(name).cores) > 1]


@pytest.mark.parametrize("name", SPLIT)
def test_two_cores_give_the_same(name):
    kernel = kernels.get(name)
    cases = {str(size): kernel.example(size, seed=n) for n, size in enumerate(kernel.tested[:2])}
    edges = list(kernel.edges.items())[:2]
    cases |= {edge: make(np.random.default_rng(2)) for edge, make in edges}
    for case, arguments in cases.items():
        dtypes = {str(a.dtype) for a in arguments.values() if isinstance(a, np.ndarray)}
        allowed = max(kernel.tolerance[name] for name in kernel.dtypes if name in dtypes)
        for cores in kernel.cores[1:]:
            value = run(kernel.kernel[cores], **arguments, target="trn2").value
            assert kernel.error(value, arguments) <= allowed, case


BACKWARD = [name for name in kernels.names() if kernels.get(name).loss is not None]


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients_are_those_of_the_loss(name):
    kernel, rng = kernels.get(name), np.random.default_rng(5)
    arguments = {
        key: value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value
        for key, value in kernel.example(kernel.tested[0], "float32", seed=5).items()
    }
    found = kernel.reference(**arguments)
    found = found if isinstance(found, tuple) else (found,)
    for key, gradient in zip(kernel.gradients, found, strict=True):
        for _ in range(4):
            place = tuple(int(rng.integers(size)) for size in arguments[key].shape)
            losses = []
            for step in (1e-5, -1e-5):
                moved = arguments[key].copy()
                moved[place] += step
                losses.append(kernel.loss(**{**arguments, key: moved}))
            slope = (losses[0] - losses[1]) / 2e-5
            scale = np.abs(gradient).max()
            assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-6 * scale), (key, place)


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_says_what_it_does(name):
    kernel = kernels.get(name)
    explained = kernel.explain(kernel.tested[0], target=kernel.chips[-1])
    text = str(explained)
    assert any(step.place for step in explained.steps), "no step says which lines it speaks of"
    assert kernel.summary in text
    assert all(step in text for step in kernel.steps)
    assert len(kernel.summary) < 120


def test_a_difference_is_measured_against_the_largest_element():
    kernel = kernels.get("softmax")
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    right = kernel.reference(x)
    wrong = right.copy()
    wrong[1, 2] += 0.25 * right.max()
    assert kernel.error(right, {"x": x}) == 0
    assert kernel.error(wrong, {"x": x}) == pytest.approx(0.25)
    wrong[0, 0] = np.nan
    assert kernel.error(wrong, {"x": x}) == np.inf
    assert kernel.error(right[:2], {"x": x}) == np.inf


def test_causal_attention_is_that_of_earlier_keys_alone():
    kernel = kernels.get("flash_attention")
    arguments = kernel.example({"heads": 1, "kv_heads": 1, "keys": 200, "d": 16, "causal": 1})
    out = kernel(**arguments)
    last = {name: arguments[name].copy() for name in "kv"}
    last["k"][..., 150:] = 7
    last["v"][:, :, 150:] = -3
    changed = kernel(arguments["q"], last["k"], last["v"], causal=True)
    np.testing.assert_array_equal(out[:, :, :150], changed[:, :, :150])
    assert (out[:, :, 150:] != changed[:, :, 150:]).any()


def test_decoding_token_by_token_is_causal_attention():
    whole = kernels.get("flash_attention").example(
        {"heads": 4, "kv_heads": 2, "keys": 5, "d": 16, "causal": 1}
    )
    q, k, v = whole["q"], whole["k"], whole["v"]
    keys, values = np.zeros((1, 2, 16, 8), np.float32), np.zeros((1, 2, 8, 16), np.float32)
    steps = []
    for n in range(5):
        new = (
            q[..., n : n + 1].swapaxes(1, 2).copy(),
            k[..., n : n + 1].copy(),
            v[:, :, n : n + 1].copy(),
        )
        used = np.array([n], np.int32)
        out, *_ = kernels.attention_decode(*new, keys, values, used, update_cache=True)
        steps.append(out)
    expected = kernels.get("flash_attention").reference(**whole)
    np.testing.assert_allclose(np.concatenate(steps, axis=2), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(keys[..., :5], k)
    np.testing.assert_array_equal(values[:, :, :5], v)
    assert not keys[..., 5:].any()
    assert not values[:, :, 5:].any()
    with pytest.raises(AddressOutOfRange, match=r"index 8 is out of range for `[kv]_prior`"):
        kernels.attention_decode(*new, keys, values, np.array([8], np.int32), update_cache=True)


REFUSED = [(name, n) for name in kernels.names() for n in range(len(kernels.get(name).refused))]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_wrong_arguments_are_named_with_what_is_allowed(case):
    name, n = case
    kernel = kernels.get(name)
    refused = kernel.refused[n]
    with pytest.raises(KernelArgument) as caught:
        kernel(**refused.arguments)
    assert refused.message in caught.value.message
    assert refused.help in caught.value.help
    assert caught.value.span.filename == __file__
    assert "kernel(**refused.arguments)" in str(caught.value)


def test_chips_and_values_that_a_kernel_is_not_made_for_are_named():
    gather = kernels.get("gather")
    with pytest.raises(KernelArgument, match="gather does not run on trn1") as caught:
        gather.run(target="trn1")
    assert "target='trn2'" in caught.value.help
    with pytest.raises(KernelArgument, match="flash_attention: `k` is None; expected an array"):
        kernels.flash_attention(np.zeros((1, 1, 8, 8), np.float32), None, None)
    with pytest.raises(KernelArgument, match=r"topk: `k` is 2\.5; expected an integer"):
        kernels.topk(np.zeros((4, 9), np.float32), 2.5)


def test_wrong_names_sizes_and_dtypes_are_named():
    with pytest.raises(UsageError, match="no prebuilt kernel `sofmax`") as caught:
        kernels.get("sofmax")
    assert "did you mean `softmax`" in caught.value.help
    with pytest.raises(UsageError, match="the size names rows; expected rows, width"):
        kernels.get("softmax").example({"rows": 3})
    for wrong in (
        {"rows": -1, "width": 3},
        {"rows": 2.5, "width": 3},
        {"rows": 2**40, "width": 2**20},
    ):
        with pytest.raises(
            UsageError, match="softmax: no arguments can be made of rows="
        ) as caught:
            kernels.get("softmax").example(wrong)
        assert "rows" in caught.value.help
    with pytest.raises(UsageError, match="the size names 5; expected rows, width"):
        kernels.get("softmax").run(size=5)
    with pytest.raises(UsageError, match="no prebuilt kernel `None`"):
        kernels.get(None)
    with pytest.raises(KernelArgument, match="softmax does not take int8"):
        kernels.get("softmax").example(dtype="int8")
    assert isinstance(kernels.get("softmax"), Prebuilt)
    assert kernels.softmax is kernels.get("softmax").kernel
    assert "softmax" in dir(kernels)
