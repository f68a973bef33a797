"""Every prebuilt kernel against its reference, and what it says of shapes it does not take."""

import numpy as np
import pytest

from nki_lab import kernels
from nki_lab.errors import KernelArgument, UsageError
from nki_lab.kernels.prebuilt import Prebuilt


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_agrees_with_its_reference(name):
    kernel = kernels.get(name)
    assert kernel.name == name
    assert len(kernel.tested) >= 3
    for n, size in enumerate(kernel.tested):
        for dtype, allowed in kernel.tolerance.items():
            arguments = kernel.example(size, dtype, seed=n)
            result = kernel.run(size, dtype, seed=n, target=kernel.chips[n % len(kernel.chips)])
            error = kernel.error(result.value, arguments)
            assert error <= allowed, f"{name} {size} {dtype}: {error}"
            assert {f.kind for f in result.findings} <= {"portability", "advice"}, result.findings


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_says_what_it_does(name):
    kernel = kernels.get(name)
    text = kernel.explain()
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


def test_softmax_takes_masked_elements():
    x = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    x[1, 3:] = -np.inf
    x[2] = -np.inf
    kernel = kernels.get("softmax")
    assert kernel.error(kernel(x), {"x": x}) < 1e-6


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


def _zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


WRONG = {
    "rows": (
        lambda k: k("rmsnorm")(_zeros(2, 3, 4), _zeros(4)),
        "expected [rows, width]",
        "reshape",
    ),
    "wide": (lambda k: k("softmax")(_zeros(1, 9000)), "9000 elements; a tile holds 8192", "8192"),
    "gamma": (
        lambda k: k("rmsnorm")(_zeros(2, 4), _zeros(5)),
        "`gamma` has shape [5]",
        "4 columns",
    ),
    "lhs": (
        lambda k: k("matmul")(_zeros(8, 16), _zeros(16, 4)),
        "both begin with the depth",
        "transpose",
    ),
    "values": (
        lambda k: k("flash_attention")(
            _zeros(1, 2, 8, 32), _zeros(1, 2, 8, 32), _zeros(1, 2, 8, 32)
        ),
        "`v` has shape [1, 2, 8, 32]; expected [1, 2, 32, 8], with the keys before d",
        "transpose it: np.ascontiguousarray(v.swapaxes(2, 3))",
    ),
    "heads": (
        lambda k: k("flash_attention")(
            _zeros(1, 3, 8, 32), _zeros(1, 2, 8, 32), _zeros(1, 2, 32, 8)
        ),
        "3 heads of `q` do not share 2 heads",
        "a multiple",
    ),
    "wide heads": (
        lambda k: k("flash_attention")(
            _zeros(1, 1, 130, 2), _zeros(1, 1, 130, 2), _zeros(1, 1, 2, 130)
        ),
        "130 wide",
        "split the heads",
    ),
    "pairs": (
        lambda k: k("rope")(_zeros(4, 2, 7), _zeros(4, 3), _zeros(4, 3)),
        "an even d",
        "reshape",
    ),
    "angles": (
        lambda k: k("rope")(_zeros(4, 2, 8), _zeros(4, 8), _zeros(4, 8)),
        "`cos` has shape [4, 8]; expected [4, 4]",
        "both halves of a head share them",
    ),
    "targets": (
        lambda k: k("cross_entropy")(_zeros(4, 9), _zeros(4, dtype=np.int32)),
        "`targets` is [4] int32; expected [4, 1] int32",
        "reshape((-1, 1))",
    ),
    "gate": (
        lambda k: k("swiglu_mlp")(_zeros(4, 9), _zeros(5, 8), _zeros(5, 8), _zeros(8, 5)),
        "`gate` has shape [5, 8]; expected [4, 8]",
        "x_t is [hidden, tokens]",
    ),
    "inner": (
        lambda k: k("swiglu_mlp")(_zeros(4, 9), *[_zeros(4, 8192)] * 2, _zeros(8192, 4)),
        "8192 inner columns of float32 take 131072 bytes",
        "split `gate`",
    ),
    "causal": (
        lambda k: k("flash_attention")(
            _zeros(1, 1, 8, 3), _zeros(1, 1, 8, 4), _zeros(1, 1, 4, 8), causal=True
        ),
        "causal attention of 3 queries to 4 keys",
        "as many queries",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_shapes_are_named_with_what_is_allowed(case):
    call, message, help = WRONG[case]
    with pytest.raises(KernelArgument) as caught:
        call(kernels.get)
    assert message in caught.value.message
    assert help in caught.value.help


def test_wrong_names_sizes_and_dtypes_are_named():
    with pytest.raises(UsageError, match="no prebuilt kernel `sofmax`") as caught:
        kernels.get("sofmax")
    assert "did you mean `softmax`" in caught.value.help
    with pytest.raises(UsageError, match="the size names rows; expected rows, width"):
        kernels.get("softmax").example({"rows": 3})
    with pytest.raises(KernelArgument, match="softmax does not take int8"):
        kernels.get("softmax").example(dtype="int8")
    assert isinstance(kernels.get("softmax"), Prebuilt)
    assert kernels.softmax is kernels.get("softmax").kernel
    assert "softmax" in dir(kernels)
