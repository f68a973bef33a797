"""What the guides show: an order of instructions, the simulator, kernels as operators, the chips' own instructions."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.choices import use_target
from nki_lab.errors import KernelResult, TensorArgument
from nki_lab.runtime import run
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, wide
from tests.official.test_get_started import stored
from tests.public.sdk.references import signed

ORDER = "guides/how-to-scheduling-apis.rst"
SIMULATOR = "guides/nki_simulator.rst"


# -- an order of instructions ------------------------------------------------------------------------------------------


@nki.jit
def three_ways(x):
    tile = nl.load(x)
    one, two, three = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.activation(dst=one, op=nl.exp, data=tile, name="grown")
    nisa.activation(dst=two, op=nl.tanh, data=tile, name="bent")
    nisa.activation(dst=three, op=nl.sigmoid, data=tile, name="pressed")
    return stored(one), stored(two), stored(three)


def _starts(result) -> list[str]:
    """Return the named instructions of a run, the first to start first."""
    names = {"exp": "grown", "tanh": "bent", "sigmoid": "pressed"}
    rows = [row for row in result.profile.records("Instruction") if row["scalar_activation_fn"]]
    rows.sort(key=lambda row: row["start_ts"])
    return [names[row["scalar_activation_fn"]] for row in rows]


@shows(
    ORDER,
    "pairs of names order instructions",
    "a name before a list of names",
    "a chain over a loop",
)
@in_versions
@pytest.mark.parametrize(
    ("pairs", "order"),
    [
        ([("grown", "bent"), ("bent", "pressed")], ["pressed", "bent", "grown"]),
        ([("grown", ["pressed"]), ("bent", ["grown", "pressed"])], ["pressed", "grown", "bent"]),
        ([("pressed", ["bent", "grown"]), ("grown", "bent")], ["bent", "grown", "pressed"]),
    ],
)
def test_pairs_of_names_order_instructions(pairs, order, nki, rng):
    x = signed(rng, (64, 50), "float32")
    expected = np.exp(wide(x)), np.tanh(wide(x)), 1 / (1 + np.exp(-wide(x)))
    result = check(three_ways.with_schedule(pairs), (x,), *expected, nki=nki, close=1e-3)
    assert _starts(result) == order


@shows(ORDER, "no_reorder keeps the order of a loop and of functions it calls")
@in_versions
@on_all
def test_no_reorder_keeps_the_order_of_what_it_holds(target, nki, rng):
    def applied(dst, src, op):
        nisa.activation(dst=dst, op=op, data=src)

    def kernel(x):
        tile, outs = nl.load(x), []
        with nl.no_reorder():
            for op in (nl.sigmoid, nl.exp, nl.tanh):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
                applied(out, tile, op)
                outs.append(out)
        return tuple(stored(out) for out in outs)

    x = signed(rng, (64, 50), "float32")
    expected = 1 / (1 + np.exp(-wide(x))), np.exp(wide(x)), np.tanh(wide(x))
    result = check(kernel, (x,), *expected, target=target, nki=nki, close=1e-3)
    assert _starts(result) == ["pressed", "grown", "bent"]


@shows(ORDER, "a result in nl.hbm is refused since 0.3")
@shows("migration/index.rst", "a result in nl.hbm is refused since 0.3")
@pytest.mark.parametrize("nki", ["0.2", "0.3", "0.6", "0.7"])
def test_a_result_in_private_memory(nki, rng):
    def doubled(x):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = signed(rng, (6, 4), "float32")
    if nki == "0.2":
        check(doubled, (x,), 2 * wide(x), nki=nki)
    else:
        with pytest.raises(KernelResult, match=r"(?s)must be in shared_hbm"):
            run(doubled, x, nki=nki)


# -- the simulator -----------------------------------------------------------------------------------------------------


@nki.jit
def combined(x, y):
    tile = nl.load(x)
    nl.device_print("tile", tile)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(y), op=nl.subtract)
    return stored(tile)


@shows(
    SIMULATOR, "a kernel of NumPy arrays, called through nki.simulate", "values printed from a tile"
)
@shows(
    "examples/simulate/nki_simulate_example.py",
    "a kernel of NumPy arrays, called through nki.simulate",
)
@shows("guides/framework_custom_op.rst", "a kernel called with arrays of a framework")
@on_all
def test_a_kernel_is_simulated(target, rng, capsys):
    x, y = signed(rng, (3, 4), "float32"), signed(rng, (3, 4), "float32")
    with use_target(target):
        out = nki.simulate(combined)(x, y)
    np.testing.assert_array_equal(np.asarray(out), x - y)
    assert "tile" in capsys.readouterr().out


@shows(SIMULATOR, "what was never written is NaN and is found")
@in_versions
@on_all
def test_what_was_never_written_is_found(target, nki, rng):
    def forgot(x):
        tile = nl.ndarray((4, 8), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[:, 0:6], src=x)
        return stored(tile)

    x = signed(rng, (4, 6), "float32")
    result = run(forgot, x, target=target, nki=nki)
    np.testing.assert_array_equal(result.outputs[0][:, :6], x)
    assert np.isnan(result.outputs[0][:, 6:]).all()
    assert any(finding.is_serious for finding in result.findings)


@shows(SIMULATOR, "a tile of more partitions than there are is refused")
@shows("examples/layout-violation.py", "a tile of more partitions than there are is refused")
@in_versions
@on_all
def test_a_tile_of_too_many_partitions_is_refused(target, nki, rng):
    def whole(x):
        return stored(nl.load(x))

    with pytest.raises(TensorArgument, match="256 partitions, but the memory has 128"):
        run(whole, signed(rng, (256, 8), "float32"), target=target, nki=nki)


# -- the chips' own instructions ---------------------------------------------------------------------------------------


@shows(
    "guides/architecture/trainium_inferentia2_arch.rst",
    "products of a loop are added up in PSUM",
)
@in_versions
@on_all
def test_products_of_a_loop_are_added_up(target, nki, rng):
    def repeated(left, right):
        total = nl.zeros((left.shape[1], right.shape[1]), nl.float32, buffer=nl.psum)
        one, other = nl.load(left), nl.load(right)
        for _ in nl.affine_range(3):
            nisa.nc_matmul(dst=total, stationary=one, moving=other)
        return stored(nl.copy(total))

    left, right = signed(rng, (100, 64), "float32"), signed(rng, (100, 70), "float32")
    # On chips before trn3, what another instruction wrote is not added to: a finding says so.
    told = {} if target == "trn3" else {"finding": f"undefined on {target}"}
    check(repeated, (left, right), 3 * wide(left).T @ wide(right), target=target, nki=nki, **told)


@shows(
    "guides/architecture/trainium_inferentia2_arch.rst",
    "an activation that also adds up its results",
)
@in_versions
@on_all
def test_an_activation_that_adds_up_its_results(target, nki, rng):
    def summed(x, bias):
        tile = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=tile, op=nl.exp, data=nl.load(x), reduce_op=nl.add, reduce_res=total,
            bias=nl.load(bias), scale=-0.5,
        )  # fmt: skip
        return stored(tile), stored(total)

    x, bias = signed(rng, (90, 40), "float32"), signed(rng, (90, 1), "float32")
    grown = np.exp(-0.5 * wide(x) + wide(bias))
    check(summed, (x, bias), grown, grown.sum(1, keepdims=True), target=target, nki=nki, close=1e-3)


@shows("guides/architecture/trainium2_arch.rst", "two rows at a time in fp8")
@in_versions
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_two_rows_at_a_time(target, nki, rng):
    def product(left, right):
        total = nl.ndarray((64, 96), nl.float32, buffer=nl.psum)
        one, other = nl.load(left), nl.load(right)
        nisa.nc_matmul(
            dst=total, stationary=one, moving=other, perf_mode=nisa.matmul_perf_mode.double_row
        )
        return stored(nl.copy(total))

    left, right = signed(rng, (128, 2, 64), "float8_e5m2"), signed(rng, (128, 2, 96), "float8_e5m2")
    expected = np.einsum("kpi,kpj->ij", wide(left), wide(right))
    check(product, (left, right), expected, target=target, nki=nki, close=1e-3)


@shows(
    "guides/architecture/trainium3_arch.rst",
    "numbers quantized on the device and multiplied with their scales",
)
@shows("samples:src/nki_samples/tutorials/mxfp-matmul", "numbers quantized and multiplied")
@shows(
    "deep-dives/mxfp-matmul.rst", "numbers quantized on the device and multiplied with their scales"
)
@in_versions
def test_numbers_are_quantized_and_multiplied(nki, rng):
    def product(left, right):
        operands = []
        for x in (left, right):
            tile = nl.load(x)
            width = x.shape[1] // 4
            data = nl.ndarray((x.shape[0], width), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
            scale = nl.ndarray((x.shape[0], width), nl.uint8, buffer=nl.sbuf)
            nisa.quantize_mx(dst=data, src=tile, dst_scale=scale)
            operands.append((data, scale))
        (one, one_scale), (other, other_scale) = operands
        total = nl.ndarray((one.shape[1], other.shape[1]), nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(
            dst=total,
            stationary=one,
            moving=other,
            stationary_scale=one_scale,
            moving_scale=other_scale,
        )
        return stored(nl.copy(total))

    # Powers of two within four octaves of the largest of a group keep every bit in fp8.
    def powers(shape):
        signs = rng.choice([-1.0, 1.0], shape)
        return (signs * 2.0 ** rng.integers(-2, 3, shape)).astype("float32")

    left, right = signed(rng, (128, 256), "bfloat16"), signed(rng, (128, 512), "bfloat16")
    left, right = powers(left.shape).astype(left.dtype), powers(right.shape).astype(right.dtype)
    # Four numbers of one partition are contracted together.
    expected = np.einsum(
        "kiq,kjq->ij", wide(left).reshape(128, 64, 4), wide(right).reshape(128, 128, 4)
    )
    check(product, (left, right), expected, target="trn3", nki=nki)
