"""Kernels of the kinds that public code of the older dialect has, against NumPy; written here, small and fast."""

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import compiler as ncc
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki


def drawn(rng, *shape, dtype=np.float32):
    return rng.uniform(-2, 2, shape).astype(dtype)


@pytest.mark.parametrize("n", [100, 300])
def test_a_row_that_is_reshaped_to_a_vector_is_stored_into_a_column(rng, n):
    """A vector in one partition stays a row, however many elements it has."""
    x = drawn(rng, 3, n)

    @nki.jit
    def kernel(x):
        out = nl.ndarray((n, 3), dtype=x.dtype, buffer=nl.shared_hbm)
        for p in nl.affine_range(3):
            nl.store(out[:, p], value=nl.load(x[p : p + 1, :]).reshape((n,)))
        return out

    result = nki_lab.run(kernel, x)
    np.testing.assert_array_equal(result.value, x.T)
    assert result.compiled.kernel.instructions[-1].src.shape == (1, n)


@pytest.mark.parametrize("pool", [1, 2])
def test_a_convolution_with_bias_and_a_maximum_over_windows(rng, pool):
    """Shifted products are added in PSUM; windows are axes 3 and 5 of a tile with six."""
    channels, filters, size, side = 128, 128, 6, 3
    x = rng.integers(-3, 4, (1, channels, size, size)).astype(np.float32)
    w = rng.integers(-3, 4, (filters, channels, side, side)).astype(np.float32)
    bias = rng.integers(-9, 9, filters).astype(np.float32)
    out_size = size - side + 1

    @nki.compiler.skip_middle_end_transformations
    @nki.jit
    def kernel(x, w, bias):
        half = out_size // pool
        out = nl.ndarray((1, filters, half, half), dtype=x.dtype, buffer=nl.hbm)
        w_sbuf = nl.ndarray((filters, channels, side, side), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(src=w, dst=w_sbuf)
        column = nl.ndarray((filters, 1), dtype=bias.dtype, buffer=nl.sbuf)
        nisa.dma_copy(src=bias.reshape((filters, 1)), dst=column)
        w_t = nl.ndarray((channels, side, side, filters), dtype=w.dtype, buffer=nl.sbuf)
        for i in nl.affine_range(side):
            for j in nl.affine_range(side):
                w_t[:, i, j, :] = nisa.tensor_copy(nisa.nc_transpose(w_sbuf[:, :, i, j]))
        for b in nl.affine_range(1):
            image = nl.load(x[b])
            rows = nl.ndarray((filters, 1, out_size, out_size), dtype=x.dtype, buffer=nl.sbuf)
            for r in nl.affine_range(out_size):
                total = nl.zeros((filters, out_size), nl.float32, buffer=nl.psum)
                for i in nl.affine_range(side):
                    for j in nl.affine_range(side):
                        moving = nisa.tensor_copy(image[:, r + i, j : j + out_size])
                        total += nisa.nc_matmul(w_t[:, i, j, :], moving)
                rows[:, 0, r, :] = nisa.tensor_tensor(total, column[:, 0], op=nl.add)
            windows = rows.reshape((filters, 1, half, pool, half, pool))
            nisa.dma_copy(
                src=nisa.tensor_reduce(nl.max, windows, axis=[3, 5]),
                dst=out.reshape((1, filters, 1, half, half))[b],
            )
        return out

    patches = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))
    full = np.einsum("bchwij,fcij->bfhw", patches, w) + bias[None, :, None, None]
    half = out_size // pool
    expected = full.reshape(1, filters, half, pool, half, pool).max(axis=(3, 5))
    np.testing.assert_array_equal(kernel(x, w, bias), expected)


class Allocator:
    """Gives the next bytes of each partition, for tiles with and without blocks."""

    def __init__(self):
        self.offset = 0

    def allocate(self, size, blocks=1):
        """Return a buffer for blocks of `size` float32 elements in each partition."""
        start, self.offset = self.offset, self.offset + 4 * size * blocks
        return ncc.sbuf.mod_alloc(base_addr=start, num_free_tiles=(blocks,))


def test_an_allocated_attention_with_tiles_in_turn(rng):
    """A tile without block axes is given `num_free_tiles=(1,)`."""
    d, keys = 64, 256
    q, k, v = drawn(rng, d, 128), drawn(rng, d, keys), drawn(rng, d, keys)
    banks = iter(range(8))

    @nki.compiler.skip_middle_end_transformations
    @nki.jit
    def attention(q, k, v):
        memory = Allocator()

        def tile(rows, columns, blocks=0):
            shape = (blocks, nl.par_dim(rows), columns) if blocks else (nl.par_dim(rows), columns)
            return nl.ndarray(shape, nl.float32, buffer=memory.allocate(columns, blocks or 1))

        def product(rows, columns):
            buffer = ncc.psum.mod_alloc(base_bank=next(banks))
            return nl.ndarray((nl.par_dim(rows), columns), nl.float32, buffer=buffer)

        out = nl.ndarray((128, d), q.dtype, buffer=nl.shared_hbm)
        q_sbuf, k_sbuf, v_sbuf = tile(d, 128), tile(d, keys), tile(d, keys)
        for t, source in ((q_sbuf, q), (k_sbuf, k), (v_sbuf, v)):
            t[...] = nl.load(source)
        identity = tile(128, 128)
        identity[...] = nl.load(nl.shared_constant(np.identity(128, np.float32)))
        scores = product(128, keys)
        scores[...] = nisa.nc_matmul(q_sbuf, k_sbuf)
        largest, weights, total, inverse = tile(128, 1), tile(128, keys), tile(128, 1), tile(128, 1)
        largest[...] = nisa.tensor_reduce(np.max, scores, axis=(1,), negate=True)
        weights[...] = nisa.activation(np.exp, data=scores, bias=largest, scale=1.0)
        total[...] = nisa.tensor_reduce(np.add, weights, axis=(1,))
        inverse[...] = nisa.reciprocal(total)
        turned, values = tile(128, 128, blocks=2), tile(128, d, blocks=2)
        result_psum = product(128, d)
        for i in nl.affine_range(2):
            part = slice(i * 128, (i + 1) * 128)
            for target, source, rows in ((turned, weights, 128), (values, v_sbuf, d)):
                transposed = product(128, rows)
                transposed[...] = nisa.nc_matmul(
                    source[:, part], identity[0:rows, 0:rows], is_moving_onezero=True
                )
                target[i] = nisa.tensor_copy(transposed)
            result_psum[...] += nisa.nc_matmul(turned[i], values[i])
        result = tile(128, d)
        result[...] = nisa.tensor_scalar(result_psum, np.multiply, inverse)
        nl.store(out, result)
        return out

    scores = q.T.astype(np.float64) @ k
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.T
    np.testing.assert_allclose(attention(q, k, v), expected, rtol=1e-4, atol=1e-5)


def test_a_running_softmax_over_blocks_of_keys(rng):
    """The largest score, the sum and the result are corrected for each block, as in flash attention."""
    d, rows, keys, block = 32, 96, 384, 128
    q, k, v = drawn(rng, d, rows), drawn(rng, d, keys), drawn(rng, keys, d)

    @nki.jit
    def kernel(q, k, v):
        out = nl.ndarray((rows, d), dtype=q.dtype, buffer=nl.shared_hbm)
        i_d, i_k = nl.arange(d)[:, None], nl.arange(block)[None, :]
        queries = nl.load(q)
        largest = nl.full((nl.par_dim(rows), 1), -1e9, dtype=nl.float32)
        total = nl.zeros((nl.par_dim(rows), 1), dtype=nl.float32)
        result = nl.zeros((nl.par_dim(rows), d), dtype=nl.float32)
        for j in nl.sequential_range(keys // block):
            scores = nl.matmul(queries, nl.load(k[i_d, j * block + i_k]), transpose_x=True)
            i_q, i_s = nl.arange(rows)[:, None], nl.arange(block)[None, :]
            scores = nisa.affine_select(
                pred=(i_q >= i_s - 31), on_true_tile=scores, on_false_value=-1e9
            )
            now = nl.maximum(largest, nisa.tensor_reduce(np.max, scores, axis=(1,)))
            factor = nl.exp(largest - now)
            weights = nisa.activation(np.exp, scores, bias=-1.0 * now, scale=1.0)
            total[...] = total * factor + nl.sum(weights, axis=1, keepdims=True)
            values = nl.load(v[j * block + nl.arange(block)[:, None], nl.arange(d)[None, :]])
            result[...] = nl.multiply(result, factor) + nl.matmul(weights, values)
            largest[...] = now
        nl.store(out, nl.divide(result, total))
        return out

    scores = q.T.astype(np.float64) @ k
    seen = np.arange(rows)[:, None] >= np.arange(block)[None, :] - 31
    scores = np.where(np.tile(seen, keys // block), scores, -1e9)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v
    np.testing.assert_allclose(kernel(q, k, v), expected, rtol=1e-4, atol=1e-5)


def test_a_scan_over_time_as_in_a_state_space_model(rng):
    channels, states, time = 128, 3, 40
    delta, u = rng.uniform(0.1, 1, (2, channels, time)).astype(np.float32)
    a, b, c = drawn(rng, channels, states), drawn(rng, states, time), drawn(rng, states, time)

    @nki.jit
    def kernel(delta, u, a, b, c, out):
        i_p, i_t = nl.mgrid[0:channels, 0:time]
        step = nl.load(delta[i_p, i_t])
        given = nisa.tensor_tensor(step, nl.load(u[i_p, i_t]), op=nl.multiply)
        total = nl.zeros((nl.par_dim(channels), time), dtype=nl.float32)
        rates = nl.load(a)
        for s in nl.affine_range(states):
            decay = nisa.activation(op=nl.exp, data=step, scale=rates[i_p, s][:, 0:1])
            b_s = nl.load(b[s : s + 1, 0:time]).broadcast_to((channels, time))
            state = nisa.tensor_tensor_scan(
                decay, nl.multiply(given, b_s), initial=0.0, op0=np.multiply, op1=np.add
            )
            c_s = nl.load(c[s : s + 1, 0:time]).broadcast_to((channels, time))
            total += nl.multiply(state, c_s)
        nl.store(out[i_p, i_t], total[i_p, i_t])

    a = -np.abs(a)
    out = np.zeros((channels, time), np.float32)
    assert kernel(delta, u, a, b, c, out) is None
    state, expected = np.zeros((channels, states)), np.zeros((channels, time))
    for t in range(time):
        state = np.exp(delta[:, t, None] * a) * state + (delta * u)[:, t, None] * b[:, t]
        expected[:, t] = (state * c[:, t]).sum(axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_rows_of_a_tensor_with_three_axes_are_chosen_and_transposed(rng):
    """The tile of indices has two axes and the index tensors three: its rows are the first axis."""
    x = rng.integers(0, 2**16, (64, 4, 96)).astype(np.uint16)
    rows = rng.permutation(64)[:32].astype(np.uint32).reshape(32, 1)

    @nki.jit(platform_target="trn2")
    def kernel(x, rows):
        index = nl.load(rows)
        i_y, i_z = nl.arange(4)[None, :, None], nl.arange(96)[None, None, :]
        chosen = nl.load(x[index[nl.arange(32)[:, None], 0], i_y, i_z])
        turned = nisa.dma_transpose(x[index[nl.arange(32)[:, None], 0], i_y, i_z], axes=(2, 1, 0))
        return chosen, turned

    chosen, turned = kernel(x, rows)
    np.testing.assert_array_equal(chosen, x[rows[:, 0]])
    np.testing.assert_array_equal(turned, x[rows[:, 0]].transpose(2, 1, 0))


def test_integers_of_32_bits_are_repeated_over_partitions_with_every_bit(rng):
    """A product with ones would round those that float32 does not hold."""
    row = rng.integers(0, 2**32, (1, 20), dtype=np.uint32)
    signed = row.view(np.int32)
    x = rng.integers(0, 2**32, (70, 20), dtype=np.uint32)

    @nki.jit
    def kernel(x, row, signed):
        mask = nl.invert(nl.load(row))
        return nl.bitwise_and(nl.load(x), mask), nl.load(signed).broadcast_to((70, 20))

    kept, repeated = kernel(x, row, signed)
    np.testing.assert_array_equal(kept, x & ~row)
    np.testing.assert_array_equal(repeated, np.broadcast_to(signed, (70, 20)))


def test_parts_are_chosen_and_written_by_computed_indices_in_a_parallel_loop(rng):
    """Bits of a position are permuted; what a tile of indices chooses is no place that trips share."""
    rows, columns = 8, 4
    state = drawn(rng, 2, rows * columns, 1)
    moves = np.array([[0, 3], [3, 4], [1, 0], [4, 1], [2, 2]], np.uint32)
    pairs = np.concatenate([moves, 1 << moves], axis=1).astype(np.uint32)
    base = np.arange(rows * columns, dtype=np.uint32).reshape(columns, rows).T.copy()

    @nki.jit
    def kernel(state, base, pairs):
        out = nl.ndarray(state.shape, dtype=state.dtype, buffer=nl.shared_hbm)
        positions = nl.load(base)
        y = nl.copy(positions)
        for i in nl.sequential_range(pairs.shape[0]):
            a, b, bit, other = [nl.load(pairs[i][k]) for k in range(4)]
            y[:] = nl.bitwise_and(y, nl.invert(other))
            chosen = nl.bitwise_and(positions, bit)
            y[:] = nl.bitwise_or(y, nl.left_shift(chosen, b - a))
            y[:] = nl.bitwise_or(y, nl.right_shift(chosen, a - b))
        for k in nl.affine_range(2):
            tile = nl.ndarray((rows, columns), dtype=state.dtype, buffer=nl.sbuf)
            for i in nl.affine_range(columns):
                tile[:, i] = nl.load(state[k, y[:, i].as_tile()])
            for i in nl.affine_range(columns):
                nl.store(out[k, y[:, i].as_tile()], value=nl.multiply(tile[:, i], 2.0))
        return out

    result = nki_lab.run(kernel, state, base, pairs)
    np.testing.assert_array_equal(result.value, 2 * state)
    gathered = [i for i in result.compiled.kernel.body if any(t.dynamic for t in i.read())]
    assert len(gathered) == 2 * columns
    assert not [f for f in result.findings if f.kind == "hazard"]


def test_a_grid_of_programs_normalizes_rows_with_a_tail(rng):
    x, weights = drawn(rng, 300, 48), drawn(rng, 48)

    @nki.jit
    def kernel(x, weights):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i_p = nl.program_id(axis=0) * 128 + nl.arange(128)[:, None]
        i_f = nl.arange(x.shape[1])[None, :]
        row = nl.load(weights.reshape((1, x.shape[1]))[nl.arange(1)[:, None], i_f])
        t = nl.load(x[i_p, i_f], mask=i_p < x.shape[0])
        mean = nl.sum(nl.square(t), axis=[1]) / x.shape[1]
        scaled = nl.multiply(t, nl.rsqrt(mean + 1e-3).broadcast_to((128, x.shape[1])))
        nl.store(out[i_p, i_f], scaled * row.broadcast_to((128, x.shape[1])), mask=i_p < x.shape[0])
        return out

    result = nki_lab.run(kernel[3], x, weights)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-3) * weights
    np.testing.assert_allclose(result.value, expected, rtol=1e-4, atol=1e-5)
    assert not [f for f in result.findings if f.kind in ("uninitialized", "hazard")]
