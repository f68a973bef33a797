"""What tutorials and samples show: pooling, transposes, matrix products in five steps, a selective scan, attention."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, on_later, wide
from tests.official.test_get_started import stored
from tests.public.sdk.references import selective_scan, signed

SAMPLES = "samples:src/nki_samples/tutorials"
MATMUL = "guides/tutorials/matrix_multiplication.rst"
OPTIMIZED = "guides/tutorials/kernel-optimization.rst"


# -- one tile ----------------------------------------------------------------------------------------------------------


@shows("examples/layout-pass.py", "a function of one tile of 128 rows")
@shows("examples/layout-loop.py", "rows of a long tensor, tile by tile")
@shows("examples/tensor_addition/tensor_addition_nki_kernels.py", "a sum over a grid of tiles")
@shows(f"{SAMPLES}/tensor_addition", "a sum over a grid of tiles, on one core and on two")
@in_versions
@on_all
@pytest.mark.parametrize("cores", [1, 2])
def test_a_sum_over_a_grid_of_tiles(cores, target, nki, rng):
    if target == "trn1" and cores == 2:
        pytest.skip("a logical core of trn1 is one core")

    def added(a, b):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        tiles = [(r, c) for r in range(0, a.shape[0], 128) for c in range(0, a.shape[1], 256)]
        for number in range(nl.program_id(0), len(tiles), nl.num_programs()):
            part = tuple(
                nl.ds(start, size) for start, size in zip(tiles[number], (128, 256), strict=True)
            )
            nl.store(out[part], nl.add(nl.load(a[part]), nl.load(b[part])))
        return out

    a, b = signed(rng, (384, 512), "bfloat16"), signed(rng, (384, 512), "bfloat16")
    check(added, (a, b), wide(a) + wide(b), cores=cores, target=target, nki=nki)


@shows("examples/index-case-1.py", "even and odd columns, by a step")
@shows("examples/index-case-3.py", "windows of a picture, their largest number")
@shows("guides/tutorials/average_pool2d.rst", "windows of a picture, their mean")
@shows("examples/average_pool2d/average_pool2d_nki_kernels.py", "windows of a picture, their mean")
@shows("examples/average_pool2d/average_pool2d_jax.py", "the same kernel, called from a framework")
@shows(
    "examples/average_pool2d/average_pool2d_torch.py", "the same kernel, called from a framework"
)
@shows(f"{SAMPLES}/average_pool2d", "windows of a picture, their mean")
@shows("samples:contributed/maxpooling.py", "windows of a picture, their largest number")
@in_versions
@on_all
@pytest.mark.parametrize(("shape", "pool"), [((2, 6, 6), 2), ((100, 9, 12), 3)])
def test_windows_of_a_picture(shape, pool, target, nki, rng):
    def pooled(x, size):
        rows, height, width = x.shape
        tile = nl.load(x)
        down, across = height // size, width // size
        pattern = [
            [height * width, rows],
            [size * width, down],
            [size, across],
            [width, size],
            [1, size],
        ]
        windows = tile.ap(pattern=pattern, offset=0)
        mean = nl.ndarray((rows, down, across), nl.float32, buffer=nl.sbuf)
        most = nl.ndarray((rows, down, across), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=windows, axis=(3, 4))
        nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1.0 / size**2)
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=windows, axis=(3, 4))
        flat = tile.reshape((rows, height * width))
        return (
            stored(mean),
            stored(most),
            stored(nl.copy(flat[:, 0::2])),
            stored(nl.copy(flat[:, 1::2])),
        )

    x = signed(rng, shape, "float32")
    c, h, w = shape
    windows = wide(x).reshape(c, h // pool, pool, w // pool, pool)
    flat = x.reshape(c, -1)
    expected = windows.mean((2, 4)), windows.max((2, 4)), flat[:, ::2], flat[:, 1::2]
    check(pooled, (x, pool), *expected, target=target, nki=nki, close=1e-5)


@shows(
    "guides/tutorials/transpose2d.rst", "each row holds a matrix, which is turned within the row"
)
@shows(
    "examples/transpose2d/transpose2d_nki_kernels.py", "each row holds a matrix, which is turned"
)
@shows("examples/transpose2d/transpose2d_jax.py", "the same kernel, called from a framework")
@shows("examples/transpose2d/transpose2d_torch.py", "the same kernel, called from a framework")
@shows(f"{SAMPLES}/transpose2d", "each row holds a matrix, which is turned")
@in_versions
@on_all
@pytest.mark.parametrize(("rows", "shape"), [(5, (3, 4)), (128, (7, 2))])
def test_matrices_within_rows_are_turned(rows, shape, target, nki, rng):
    def turned(x, sizes):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        height, width = sizes
        for column in range(width):
            part = nl.ds(column * height, height)
            nisa.tensor_copy(dst=out[:, part], src=tile[:, column : height * width : width])
        return stored(out)

    x = rng.integers(-128, 128, (rows, shape[0] * shape[1])).astype(np.int8)
    expected = x.reshape(rows, *shape).transpose(0, 2, 1).reshape(rows, -1)
    check(turned, (x, shape), expected, target=target, nki=nki)


# -- matrix products ---------------------------------------------------------------------------------------------------


def _tile(left, right, out, m, n, k_tiles):
    """Write one tile of a product: 128 rows and 512 columns at most."""
    total = nl.ndarray((m.size, n.size), nl.float32, buffer=nl.psum)
    for k in range(k_tiles):
        rows = nl.ds(128 * k, 128)
        nisa.nc_matmul(total, nl.load(left[rows, m]), nl.load(right[rows, n]))
    tile = nl.ndarray(total.shape, out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nl.store(out[m, n], tile)


def one_tile(left, right):
    out = nl.ndarray((left.shape[1], right.shape[1]), left.dtype, buffer=nl.shared_hbm)
    _tile(left, right, out, nl.ds(0, left.shape[1]), nl.ds(0, right.shape[1]), 1)
    return out


def tile_by_tile(left, right):
    out = nl.ndarray((left.shape[1], right.shape[1]), left.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(left.shape[1] // 128):
        for n in nl.affine_range(right.shape[1] // 512):
            _tile(left, right, out, nl.ds(128 * m, 128), nl.ds(512 * n, 512), left.shape[0] // 128)
    return out


def with_loads_before_the_loop(left, right):
    out = nl.ndarray((left.shape[1], right.shape[1]), left.dtype, buffer=nl.shared_hbm)
    steps = left.shape[0] // 128
    for m in range(left.shape[1] // 128):
        kept = [nl.load(left[nl.ds(128 * k, 128), nl.ds(128 * m, 128)]) for k in range(steps)]
        for n in range(right.shape[1] // 512):
            columns = nl.ds(512 * n, 512)
            total = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
            for k in range(steps):
                nisa.nc_matmul(total, kept[k], nl.load(right[nl.ds(128 * k, 128), columns]))
            nl.store(out[nl.ds(128 * m, 128), columns], nl.copy(total))
    return out


def in_blocks(left, right, rows=2, columns=2, depth=1):
    """Multiply in blocks of tiles: each loaded tile serves a whole block, and depth blocks are added up in SBUF."""
    out = nl.ndarray((left.shape[1], right.shape[1]), left.dtype, buffer=nl.shared_hbm)
    steps = left.shape[0] // 128 // depth
    for m0 in range(0, left.shape[1] // 128, rows):
        for n0 in range(0, right.shape[1] // 512, columns):
            sums = {}
            for part in range(depth):
                ks = range(part * steps, (part + 1) * steps)
                lefts = {(k, m): nl.load(left[nl.ds(128 * k, 128), nl.ds(128 * (m0 + m), 128)])
                         for k in ks for m in range(rows)}  # fmt: skip
                rights = {(k, n): nl.load(right[nl.ds(128 * k, 128), nl.ds(512 * (n0 + n), 512)])
                          for k in ks for n in range(columns)}  # fmt: skip
                for m in range(rows):
                    for n in range(columns):
                        total = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
                        for k in ks:
                            nisa.nc_matmul(total, lefts[k, m], rights[k, n])
                        if part == 0:
                            sums[m, n] = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
                            nisa.tensor_copy(dst=sums[m, n], src=total)
                        else:
                            nisa.tensor_tensor(
                                dst=sums[m, n], data1=sums[m, n], data2=total, op=nl.add
                            )
            for (m, n), tile in sums.items():
                nl.store(out[nl.ds(128 * (m0 + m), 128), nl.ds(512 * (n0 + n), 512)], tile)
    return out


def in_deep_blocks(left, right):
    return in_blocks(left, right, rows=2, columns=1, depth=2)


@shows(
    MATMUL,
    "one tile",
    "tile by tile",
    "loads before the inner loop",
    "blocks of rows and columns",
    "blocks in depth",
)
@shows(OPTIMIZED, "five steps from one tile to blocks in all three directions")
@shows(
    "examples/matrix_multiplication/matrix_multiplication_nki_kernels.py", "the same five kernels"
)
@shows(
    "examples/matrix_multiplication/matrix_multiplication_torch.py",
    "the same kernels, called from a framework",
)
@shows(f"{SAMPLES}/matrix_multiplication", "the same five kernels")
@shows("samples:contributed/matmul.py", "a product in blocks")
@in_versions
@on_all
@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        (one_tile, (128, 64, 512)),
        (tile_by_tile, (256, 256, 1024)),
        (with_loads_before_the_loop, (256, 256, 1024)),
        (in_blocks, (256, 256, 1024)),
        (in_deep_blocks, (512, 256, 1024)),
    ],
)
def test_products_in_five_steps(kernel, sizes, target, nki, rng):
    k, m, n = sizes
    left, right = signed(rng, (k, m), "float32"), signed(rng, (k, n), "float32")
    check(kernel, (left, right), wide(left).T @ wide(right), target=target, nki=nki, close=1e-3)


@shows(OPTIMIZED, "each step moves fewer bytes or takes less time")
@shows(MATMUL, "each step moves fewer bytes or takes less time")
def test_each_step_moves_fewer_bytes(rng):
    left, right = signed(rng, (512, 512), "bfloat16"), signed(rng, (512, 2048), "bfloat16")
    moved = []
    for kernel in (tile_by_tile, with_loads_before_the_loop, in_blocks):
        result = check(kernel, (left, right), wide(left).T @ wide(right), target="trn2", close=1e-1)
        moved.append(result.profile.summary["hbm_read_bytes"])
    tiles = 4 * 4  # of 128 rows of the left factor by 512 columns of the right one
    assert moved[0] == tiles * 4 * 2 * (128 * 128 + 128 * 512)
    assert moved[1] == 4 * 4 * 2 * 128 * 128 + tiles * 4 * 2 * 128 * 512
    assert moved[2] == 2 * (2 * 512 * 512) + 2 * (2 * 512 * 2048)


@shows(
    "samples:test/unit/test_double_row_matmul.py",
    "a product of fp8 numbers, two rows at a time, over a grid",
)
@in_versions
@on_later
def test_a_product_of_two_rows_at_a_time(target, nki, rng):
    def product(left, right):
        out = nl.ndarray((left.shape[2], right.shape[2]), nl.float32, buffer=nl.shared_hbm)
        for m in range(0, left.shape[2], 128):
            total = nl.ndarray((128, right.shape[2]), nl.float32, buffer=nl.psum)
            for k in range(0, left.shape[0], 128):
                rows = nl.ds(k, 128)
                nisa.nc_matmul(
                    total, nl.load(left[rows, :, nl.ds(m, 128)]), nl.load(right[rows]),
                    perf_mode=nisa.matmul_perf_mode.double_row,
                )  # fmt: skip
            nl.store(out[nl.ds(m, 128)], nl.copy(total))
        return out

    left, right = (
        signed(rng, (256, 2, 256), "float8_e4m3"),
        signed(rng, (256, 2, 200), "float8_e4m3"),
    )
    expected = np.einsum("kpi,kpj->ij", wide(left), wide(right))
    check(product, (left, right), expected, target=target, nki=nki, close=1e-2)


# -- longer kernels ----------------------------------------------------------------------------------------------------


@shows(
    "guides/tutorials/fused_mamba.rst",
    "a selective scan over states, in one pass and in parts of the sequence",
)
@shows("examples/fused_mamba/mamba_nki_kernels.py", "a selective scan")
@shows("examples/fused_mamba/mamba_torch.py", "the same kernel, called from a framework")
@shows(f"{SAMPLES}/fused_mamba", "a selective scan")
@in_versions
@on_all
@pytest.mark.parametrize("part", [192, 64])
def test_a_selective_scan(part, target, nki, rng):
    def scanned(delta, u, a, b, c):
        batch, channels, length = delta.shape
        out = nl.ndarray(delta.shape, delta.dtype, buffer=nl.shared_hbm)
        for n in range(batch):
            for block in range(0, channels, 128):
                rows = nl.ds(block, 128)
                decay = nl.load(a[rows])
                carried = [
                    nl.zeros((128, 1), nl.float32, buffer=nl.sbuf) for _ in range(a.shape[1])
                ]
                for first in range(0, length, part):
                    times = nl.ds(first, part)
                    step, given = nl.load(delta[n, rows, times]), nl.load(u[n, rows, times])
                    product = nl.multiply(step, given)
                    total = nl.zeros((128, part), nl.float32, buffer=nl.sbuf)
                    for state in range(a.shape[1]):
                        kept = nl.ndarray((128, part), nl.float32, buffer=nl.sbuf)
                        nisa.activation(
                            dst=kept, op=nl.exp, data=step, scale=decay[:, state : state + 1]
                        )
                        weight = nl.broadcast_to(nl.load(b[n, nl.ds(state, 1), times]), (128, part))
                        added = nl.multiply(product, weight)
                        values = nl.ndarray((128, part), nl.float32, buffer=nl.sbuf)
                        nisa.tensor_tensor_scan(
                            dst=values,
                            data0=kept,
                            data1=added,
                            initial=carried[state],
                            op0=nl.multiply,
                            op1=nl.add,
                        )
                        nisa.tensor_copy(dst=carried[state], src=values[:, part - 1 : part])
                        seen = nl.broadcast_to(nl.load(c[n, nl.ds(state, 1), times]), (128, part))
                        nisa.tensor_tensor(
                            dst=total, data1=total, data2=nl.multiply(values, seen), op=nl.add
                        )
                    nl.store(out[n, rows, times], total)
        return out

    arguments, expected = selective_scan(rng, 2, 128, 3, 192)
    check(scanned, arguments, expected, target=target, nki=nki, close=1e-3)


def attention(q, k, v, tile=128, is_causal=False):
    """Attention of one head by parts of the keys: the largest score and the sum are corrected part by part."""
    width, rows = q.shape
    out = nl.ndarray((rows, v.shape[1]), q.dtype, buffer=nl.shared_hbm)
    unit = nl.shared_identity_matrix(n=128, dtype=nl.float32)
    for first in range(0, rows, 128):
        query = nl.load(q[:, nl.ds(first, 128)])
        most = nl.full((128, 1), -3e4, nl.float32, buffer=nl.sbuf)
        weight = nl.zeros((128, 1), nl.float32, buffer=nl.sbuf)
        total = nl.zeros((128, v.shape[1]), nl.float32, buffer=nl.sbuf)
        for start in range(0, first + 128 if is_causal else k.shape[1], tile):
            scores = nl.ndarray((128, tile), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(scores, query, nl.load(k[:, nl.ds(start, tile)]))
            scaled = nl.ndarray((128, tile), nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=scaled, data=scores, op0=nl.multiply, operand0=width**-0.5)
            if is_causal:
                nisa.affine_select(
                    dst=scaled, pattern=[[-1, tile]], channel_multiplier=1, on_true_tile=scaled,
                    on_false_value=-3e4, offset=first - start, cmp_op=nl.greater_equal,
                )  # fmt: skip
            larger = nl.maximum(most, nl.max(scaled, axis=1, keepdims=True))
            lower = nl.negative(larger)
            fix = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=fix, op=nl.exp, data=most, bias=lower)
            grown = nl.ndarray((128, tile), nl.float32, buffer=nl.sbuf)
            added = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(
                dst=grown, op=nl.exp, data=scaled, reduce_op=nl.add, reduce_res=added, bias=lower
            )
            nisa.tensor_copy(dst=most, src=larger)
            nisa.tensor_tensor(dst=weight, data1=nl.multiply(weight, fix), data2=added, op=nl.add)
            nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=fix)
            product = nl.ndarray((128, v.shape[1]), nl.float32, buffer=nl.psum)
            for part in range(0, tile, 128):
                turned = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
                nisa.nc_matmul(turned, grown[:, nl.ds(part, 128)], unit)
                nisa.nc_matmul(product, nl.copy(turned), nl.load(v[nl.ds(start + part, 128)]))
            nisa.tensor_tensor(dst=total, data1=total, data2=product, op=nl.add)
        nisa.reciprocal(dst=weight, data=weight)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=weight)
        nl.store(out[nl.ds(first, 128)], total)
    return out


@shows("samples:test/unit/test_flash_attn_fwd.py", "attention by parts of the keys, causal or not")
@shows("samples:test/unit/test_SD_attention_small_head.py", "attention with a small head")
@shows("samples:test/unit/test_allocated_SD_attention_small_head.py", "attention with a small head")
@shows("samples:test/integration/flash_attention", "attention by parts of the keys, causal or not")
@shows("samples:test/integration/fused_sd_attention_small_head", "attention with a small head")
@shows(f"{SAMPLES}/attention_fwd_performance", "attention in parts, with a running maximum")
@shows("samples:contributed/pipelined_attention.py", "attention in parts, with a running maximum")
@in_versions
@on_all
@pytest.mark.parametrize(
    ("width", "length", "tile", "is_causal"), [(64, 256, 128, True), (128, 512, 256, False)]
)
def test_attention_by_parts_of_the_keys(width, length, tile, is_causal, target, nki, rng):
    q, k = signed(rng, (width, 256), "float32"), signed(rng, (width, length), "float32")
    v = signed(rng, (length, 72), "float32")
    scores = wide(q).T @ wide(k) / np.sqrt(width)
    if is_causal:
        scores[np.triu_indices(256, 1)] = -np.inf
    grown = np.exp(scores - scores.max(1, keepdims=True))
    expected = grown / grown.sum(1, keepdims=True) @ wide(v)
    check(attention, (q, k, v, tile, is_causal), expected, target=target, nki=nki, close=1e-3)


@shows("samples:test/unit/test_flash_attn_bwd.py", "the gradients of attention")
@in_versions
@on_all
def test_gradients_of_attention(target, nki, rng):
    def gradients(q, k, v, grad):
        """Return the gradients to q, k and v of one tile of attention; all are [length, width]."""
        scale = q.shape[1] ** -0.5
        rows = {name: nl.load(x) for name, x in (("q", q), ("k", k), ("v", v), ("g", grad))}

        def turned(tile):
            part = nl.ndarray((tile.shape[1], tile.shape[0]), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=part, data=tile, engine=nisa.engine.tensor)
            return nl.copy(part)

        def product(left, right):
            part = nl.ndarray((left.shape[1], right.shape[1]), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(part, left, right)
            return nl.copy(part)

        scores = product(turned(rows["q"]), turned(rows["k"]))
        nisa.tensor_scalar(dst=scores, data=scores, op0=nl.multiply, operand0=scale)
        weights = nl.softmax(scores, axis=1)
        to_v = product(weights, rows["g"])
        to_weights = product(turned(rows["g"]), turned(rows["v"]))
        mean = nl.sum(nl.multiply(to_weights, weights), axis=1, keepdims=True)
        to_scores = nl.ndarray(scores.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=to_scores,
            data=to_weights,
            op0=nl.subtract,
            operand0=mean,
            op1=nl.multiply,
            operand1=scale,
        )
        nisa.tensor_tensor(dst=to_scores, data1=to_scores, data2=weights, op=nl.multiply)
        return (
            stored(product(turned(to_scores), rows["k"])),
            stored(product(to_scores, rows["q"])),
            stored(to_v),
        )

    q, k, v, grad = (signed(rng, (128, 64), "float32") for _ in range(4))
    a, b, c, g = wide(q, k, v, grad)
    scores = a @ b.T / 8
    grown = np.exp(scores - scores.max(1, keepdims=True))
    weights = grown / grown.sum(1, keepdims=True)
    to_weights = g @ c.T
    to_scores = weights * (to_weights - (to_weights * weights).sum(1, keepdims=True)) / 8
    check(gradients, (q, k, v, grad), to_scores @ b, to_scores.T @ a, weights.T @ g,
          target=target, nki=nki, close=1e-3)  # fmt: skip


@shows(
    "samples:test/unit/test_rmsnorm_qkv.py",
    "rows divided by their root mean square, times a matrix",
)
@in_versions
@on_all
def test_rows_are_normalized_and_multiplied(target, nki, rng):
    def projected(x, gain, weights):
        tile = nl.load(x)
        total = nl.ndarray((x.shape[0], 1), nl.float32, buffer=nl.sbuf)
        squares = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total
        )
        nisa.tensor_scalar(
            dst=total,
            data=total,
            op0=nl.multiply,
            operand0=1 / x.shape[1],
            op1=nl.add,
            operand1=1e-6,
        )
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        tile = nl.multiply(tile, nl.broadcast_to(nl.load(gain), x.shape))
        product = nl.ndarray((x.shape[0], weights.shape[1]), nl.float32, buffer=nl.psum)
        for part in range(0, x.shape[1], 128):
            turned = nl.ndarray((128, x.shape[0]), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile[:, nl.ds(part, 128)], engine=nisa.engine.tensor)
            nisa.nc_matmul(product, nl.copy(turned), nl.load(weights[nl.ds(part, 128)]))
        return stored(nl.copy(product))

    x, gain = signed(rng, (96, 256), "float32"), signed(rng, (1, 256), "float32")
    weights = signed(rng, (256, 180), "float32")
    a, g, w = wide(x, gain, weights)
    expected = (a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) * g) @ w
    check(projected, (x, gain, weights), expected, target=target, nki=nki, close=1e-3)


@shows(
    "samples:test/unit/test_resize_nearest.py",
    "a picture made larger by repeating the nearest pixel",
)
@shows(
    "samples:test/integration/resize_nearest_fixed_dma_kernel",
    "a picture made larger by repeating pixels",
)
@shows("samples:test/unit/test_adaptive_avg_pool2d.py", "means of windows of about the same size")
@shows(
    "samples:contributed/interpolate_bilinear_fwd.py",
    "a picture made larger by a mean of its neighbours",
)
@in_versions
@on_all
def test_pictures_of_another_size(target, nki, rng):
    def resized(x):
        tile = nl.load(x)
        rows, height, width = x.shape
        larger = nl.ndarray((rows, 7, 8), nl.float32, buffer=nl.sbuf)
        for y in range(7):
            for z in range(8):
                nisa.tensor_copy(
                    dst=larger[:, y, nl.ds(z, 1)],
                    src=tile[:, y * height // 7, nl.ds(z * width // 8, 1)],
                )
        means = nl.ndarray((rows, 3, 2), nl.float32, buffer=nl.sbuf)
        for y in range(3):
            top, below = y * height // 3, -(-(y + 1) * height // 3)
            for z in range(2):
                left, right = z * width // 2, -(-(z + 1) * width // 2)
                part = means[:, y, nl.ds(z, 1)]
                nisa.tensor_reduce(
                    dst=part, op=nl.add, data=tile[:, top:below, left:right], axis=(1, 2)
                )
                count = (below - top) * (right - left)
                nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=1.0 / count)
        between = nl.ndarray((rows, height, width - 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=between, data1=tile[:, :, 1:], data2=tile[:, :, : width - 1], op=nl.add
        )
        nisa.tensor_scalar(dst=between, data=between, op0=nl.multiply, operand0=0.5)
        return stored(larger), stored(means), stored(between)

    x = signed(rng, (60, 5, 3), "float32")
    a = wide(x)
    larger = a[:, np.arange(7) * 5 // 7][:, :, np.arange(8) * 3 // 8]
    means = np.stack(
        [[a[:, y * 5 // 3 : -(-(y + 1) * 5 // 3), z * 3 // 2 : -(-(z + 1) * 3 // 2)].mean((1, 2)) for z in range(2)]
         for y in range(3)]
    ).transpose(2, 0, 1)  # fmt: skip
    check(
        resized,
        (x,),
        larger,
        means,
        (a[:, :, 1:] + a[:, :, :-1]) / 2,
        target=target,
        nki=nki,
        close=1e-5,
    )
