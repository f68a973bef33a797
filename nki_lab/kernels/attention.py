"""What attention kernels share: scores of 128 queries, what they may not see, their softmax, and sums of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.kernels.prebuilt import require
from nki_lab.kernels.rows import loaded

#: Keys of one step: two banks of PSUM hold their scores.
STEP = 1024
#: Keys whose weights are drawn for dropout at once, after one seed.
DRAWN = 512
#: Stands for the largest score before there is any: exp(-inf - LOWEST) is 0, exp(-inf - -inf) would be NaN.
LOWEST = -3e38
# Keys and values of a head stay in SBUF up to so many bytes of each partition; longer ones are read for every tile.
_RESIDENT_BYTES = 96 * 1024


class Mask:
    """Which keys queries see: all, those up to their own place, or the last `window` of those.

    Attributes:
        causal: query i sees no key after i.
        window: query i sees no key up to i - window; 0 for no limit.
        align: where the first key of a step may lie is a multiple of this.
    """

    def __init__(self, keys: int, causal: bool, window: int = 0, align: int = 128) -> None:
        self.keys, self.causal, self.window, self.align = keys, causal, window, align
        self._after = _below(128, 0, 1) if causal else None
        self._before = _below(128 + align, -1 - align, -1) if window else None

    def seen(self, first: int, rows: int) -> tuple[int, int]:
        """Return where the keys begin and end that some of `rows` queries from `first` see."""
        stop = min(self.keys, first + rows) if self.causal else self.keys
        start = max(0, first - self.window + 1) if self.window else 0
        return start // self.align * self.align, stop

    def hide(self, scores: Any, first: int, start: int) -> None:
        """Replace the scores [queries, keys] of pairs that are not seen by -inf; `first` and `start` are the first."""
        rows, width = scores.shape
        if self._after is not None and start + width > first:
            hidden = scores[:, first - start :]
            _hide(hidden, self._after[:rows, : hidden.shape[1]])
        shown = first + rows - self.window - start  # from this column on all rows see all keys
        if self._before is not None and shown > 0:
            hidden = scores[:, : min(width, shown)]
            left = start - first + self.window + self.align
            _hide(hidden, self._before[:rows, left : left + hidden.shape[1]])

    def span(self, key: int, first: int, count: int) -> tuple[int, int]:
        """Return which of `count` queries from `first` see some of 128 keys from `key`, rounded to tiles of 128."""
        begin = max(0, key - first) // 128 * 128 if self.causal else 0
        end = key + 127 + self.window - first if self.window else count
        return begin, min(count, -(-end // 128) * 128)

    def clear(self, weights: Any, key: int, query: int) -> None:
        """Replace the weights [keys, queries] of pairs that are not seen by 0; `key` and `query` are the first."""
        rows = weights.shape[1]
        limits = []
        if self.causal and key + weights.shape[0] - 1 > query:
            limits.append((query - key, -1))
        if self.window and key <= query + rows - 1 - self.window:
            limits.append((key - query + self.window - 1, 1))
        for offset, sign in limits:
            nisa.affine_select(
                dst=weights, pattern=[[-sign, rows]], offset=offset, channel_multiplier=sign,
                on_true_tile=weights, on_false_value=0.0, cmp_op=nl.greater_equal,
            )  # fmt: skip


def _hide(scores: Any, where: Any) -> None:
    nisa.tensor_copy_predicated(dst=scores, src=float("-inf"), predicate=where)


def _below(width: int, offset: int, sign: int) -> Any:
    """Return a tile [128, width] of 1 where `offset + sign * (row - column)` is below 0, and of 0 elsewhere."""
    where = tile((128, width), nl.uint8)
    nisa.memset(dst=where, value=0)
    nisa.affine_select(
        dst=where, pattern=[[-sign, width]], offset=offset, channel_multiplier=sign,
        on_true_tile=where, on_false_value=1.0, cmp_op=nl.greater_equal,
    )  # fmt: skip
    return where


def tile(shape: tuple[int, ...], dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    """Return a new tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def anywhere(use: str, *args: Any, **options: Any) -> Any:
    """Return a new tile, of the arguments of `tile`, that the compiler places; `use` says what it is for."""
    return tile(*args, **options)


def loaded_as(view: Any, dtype: Any, make: Callable[..., Any] = tile) -> Any:
    """Return a tile in SBUF with what a view of HBM holds, cast on its way; `make` makes it as `tile` does."""
    cast = make(tuple(view.shape), dtype)
    nisa.dma_copy(dst=cast, src=view)
    return cast


def loaded_rows(view: Any, dtype: Any, ones: int = 0, make: Callable[..., Any] = tile) -> list[Any]:
    """Return the rows of a view [rows, width] as tiles of up to 128 rows, with columns of ones behind them.

    They are parts of one tile, which `make` makes as `tile` does.
    """
    rows, width = view.shape
    both, full = make((128, -(-rows // 128), width + ones), dtype), rows // 128
    if ones:
        nisa.memset(dst=both[:, :, width:], value=1.0)
    if full:
        source = view[: full * 128].reshape((full, 128, width)).permute((1, 0, 2))
        nisa.dma_copy(dst=both[:, :full, :width], src=source)
    if rows % 128:
        nisa.dma_copy(dst=both[: rows % 128, full, :width], src=view[full * 128 :])
    return [both[: min(128, rows - n), n // 128] for n in range(0, rows, 128)]


def products(stationary: Any, moving: Any) -> Any:
    """Return stationary.T @ moving [rows, columns] in PSUM, float32."""
    scores = tile((stationary.shape[1], moving.shape[1]), buffer=nl.psum)
    for n in range(0, moving.shape[1], 512):
        part = slice(n, min(n + 512, moving.shape[1]))
        nisa.nc_matmul(dst=scores[:, part], stationary=stationary, moving=moving[:, part])
    return scores


def transposed(weights: Any, ones: int = 0) -> Iterator[Any]:
    """Yield weights [rows, keys] as tiles [up to 128 keys, rows + ones], copied from PSUM four at a time."""
    rows, keys = weights.shape
    for start in range(0, keys, 512):
        parts = [slice(n, min(n + 128, keys)) for n in range(start, min(start + 512, keys), 128)]
        full = [part for part in parts if part.stop - part.start == 128]
        for group in (full, parts[len(full) :]):
            if group:
                size = group[0].stop - group[0].start
                turned = tile((size, len(group), rows), weights.dtype, nl.psum)
                for n, part in enumerate(group):
                    nisa.nc_transpose(
                        dst=turned[:, n], data=weights[:, part], engine=nisa.engine.tensor
                    )
                copied = tile((size, len(group), rows + ones), weights.dtype)
                if ones:
                    nisa.memset(dst=copied[:, :, rows:], value=1.0)
                nisa.activation(dst=copied[:, :, :rows], op=nl.copy, data=turned)
                yield from (copied[:, n] for n in range(len(group)))


def joined(rows: list[Any], make: Callable[..., Any] = anywhere) -> Any:
    """Return tiles [up to 128, d] as one [d, all of their rows], transposed four at a time.

    `make` makes tiles as `anywhere` does: "joined", and "turned" in PSUM.
    """
    d, dtype = rows[0].shape[1], rows[0].dtype
    side = make("joined", (d, sum(part.shape[0] for part in rows)), dtype)
    for first in range(0, len(rows), 4):
        several = rows[first : first + 4]
        columns = slice(first * 128, first * 128 + sum(part.shape[0] for part in several))
        turned = make("turned", (d, columns.stop - columns.start), dtype, nl.psum)
        for n, part in enumerate(several):
            column = slice(n * 128, n * 128 + part.shape[0])
            nisa.nc_transpose(dst=turned[:, column], data=part, engine=nisa.engine.tensor)
        nisa.activation(dst=side[:, columns], op=nl.copy, data=turned)
    return side


class Running(NamedTuple):
    """The softmax of some queries over the keys so far.

    Attributes:
        lowest: the largest score times -1, [rows, 1].
        total: the sum of exp(score - largest), [rows, 1].
        output: the sum of these weights times values, [rows, d].
    """

    lowest: Any
    total: Any
    output: Any


def weighed(scores: Any, scale: float, before: Running | None, dtype: Any) -> tuple[Any, Any, Any]:
    """Return exp(score * scale - largest) in a dtype, the largest so far times -1, and the sum of each row."""
    lowest, total = tile((scores.shape[0], 1)), tile((scores.shape[0], 1))
    nisa.tensor_reduce(dst=lowest, op=nl.maximum, data=scores, axis=1, negate=True)
    if before is None:
        nisa.tensor_scalar(
            dst=lowest,
            data=lowest,
            op0=nl.multiply,
            operand0=scale,
            op1=nl.minimum,
            operand1=-LOWEST,
        )
    else:
        nisa.scalar_tensor_tensor(
            dst=lowest, data=lowest, op0=nl.multiply, operand0=scale, op1=nl.minimum,
            operand1=before.lowest,
        )  # fmt: skip
    weights = tile(scores.shape, dtype)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=scores, scale=scale, bias=lowest, reduce_op=nl.add,
        reduce_res=total,
    )  # fmt: skip
    return weights, lowest, total


def added(before: Running | None, lowest: Any, total: Any, product: Any) -> Running:
    """Return the state with a step added: its sums, and its weights times values in PSUM."""
    output = tile(product.shape)
    if before is None:
        nisa.tensor_copy(dst=output, src=product)
        return Running(lowest, total, output)
    fade, both = tile(lowest.shape), tile(lowest.shape)
    nisa.activation(dst=fade, op=nl.exp, data=before.lowest, scale=-1.0, bias=lowest)
    for dst, old, new in ((both, before.total, total), (output, before.output, product)):
        nisa.scalar_tensor_tensor(
            dst=dst, data=old, op0=nl.multiply, operand0=fade, op1=nl.add, operand1=new
        )
    return Running(lowest, both, output)


def times(weights: Any, values: list[Any]) -> Any:
    """Return weights [rows, keys] times values, tiles [up to 128 keys, d], in PSUM."""
    product = tile((weights.shape[0], values[0].shape[1]), buffer=nl.psum)
    for turned, value in zip(transposed(weights), values, strict=True):
        nisa.nc_matmul(dst=product, stationary=turned, moving=value)
    return product


def divided(state: Any, dtype: Any, kept: float = 1.0) -> Any:
    """Return the output divided by the sum of weights, and by the part of them that dropout keeps."""
    share = tile(state.total.shape)
    nisa.reciprocal(dst=share, data=state.total)
    out = tile(state.output.shape, dtype)
    nisa.tensor_scalar(
        dst=out, data=state.output, op0=nl.multiply, operand0=share, op1=nl.multiply,
        operand1=1.0 / kept,
    )  # fmt: skip
    return out


class LogSums:
    """The logarithms of the sums of exp(score) of all queries of a head, taken at once."""

    def __init__(self, queries: int) -> None:
        self._totals = tile((128, queries // 128))
        self._lowest: Any = None

    def note(self, first: int, total: Any, lowest: Any = None) -> None:
        """Take the sums of 128 queries from `first`, and the largest score times -1 if it was subtracted."""
        column = slice(first // 128, first // 128 + 1)
        nisa.tensor_copy(dst=self._totals[:, column], src=total)
        if lowest is not None:
            self._lowest = tile(self._totals.shape) if self._lowest is None else self._lowest
            nisa.tensor_copy(dst=self._lowest[:, column], src=lowest)

    def store(self, lse: Any) -> None:
        """Write them to HBM [128, queries / 128]."""
        logarithms = tile(self._totals.shape)
        if self._lowest is None:  # sums beyond what nl.log takes are computed again
            nisa.tensor_scalar(
                dst=self._totals, data=self._totals, op0=nl.maximum, operand0=2.0**-64,
                op1=nl.minimum, operand1=2.0**64,
            )  # fmt: skip
        nisa.activation(dst=logarithms, op=nl.log, data=self._totals)
        if self._lowest is not None:
            nisa.tensor_tensor(dst=logarithms, data1=logarithms, data2=self._lowest, op=nl.subtract)
        nisa.dma_copy(dst=lse, src=logarithms)


class Head:
    """Keys and values of one head, loaded in steps when they are first asked for.

    Attributes:
        dtype: of the tiles.
        step: how many keys a step has.
    """

    def __init__(
        self, k: Any, v: Any, dtype: Any, step: int, turn: str = "", ones: int = 0,
        make: Callable[..., Any] = anywhere,
    ) -> None:  # fmt: skip
        """Take keys and values in HBM.

        Args:
            k: [d, keys]; [keys, d] where `turn` is "k".
            v: [keys, d]; [d, keys] where `turn` is "v".
            dtype: of the tiles.
            step: keys of a step.
            turn: which of the two lies the other way, if any.
            ones: columns of ones after those of the values.
            make: makes tiles as `anywhere` does: "keys" and "values", as far as they are not turned.
        """
        self._k, self._v, self.dtype, self.step, self._turn = k, v, dtype, step, turn
        self._ones, self._make = ones, make
        self._count = k.shape[0 if turn == "k" else 1]
        itemsize = 4 if dtype == nl.float32 else 2
        self._stays = self._count * 2 * itemsize <= _RESIDENT_BYTES
        self._steps: dict[int, tuple[Any, list[Any]]] = {}

    def part(self, start: int, stop: int) -> tuple[Any, list[Any]]:
        """Return the keys [d, stop - start] of one step, and tiles [up to 128, d + ones] of its values."""
        number, first = start // self.step, start % self.step
        if number not in self._steps:
            if not self._stays:
                self._steps.clear()
            self._steps[number] = self._loaded(number * self.step)
        keys, values = self._steps[number]
        last = first + stop - start
        parts = [
            value[: min(128, last - n * 128)]
            for n, value in enumerate(values)
            if first <= n * 128 < last
        ]
        return keys[:, first:last], parts

    def _loaded(self, start: int) -> tuple[Any, list[Any]]:
        part = slice(start, min(start + self.step, self._count))
        if self._turn == "v":
            values = list(transposed(loaded_as(self._v[:, part], self.dtype), self._ones))
        else:
            make = partial(self._make, "values")
            values = loaded_rows(self._v[part], self.dtype, self._ones, make)
        if self._turn == "k":
            return joined(loaded_rows(self._k[part], self.dtype)), values
        return loaded_as(self._k[:, part], self.dtype, partial(self._make, "keys")), values


class Dropout:
    """Sets weights to 0 at random: which ones is decided by the seed and the place of a tile among all weights.

    Attributes:
        part: the probability of a 0.
    """

    def __init__(self, seed: Any, part: float, heads: int, queries: int, keys: int) -> None:
        """Take a seed [1] int32 in HBM, and the numbers that count the tiles."""
        self._seed, self.part = loaded(seed.reshape((1, 1))), part
        self._counts = heads, -(-queries // 128), -(-keys // DRAWN)

    @classmethod
    def of(
        cls, kernel: str, seed: Any, part: float, heads: int, queries: int, keys: int
    ) -> Dropout | None:
        """Return it for a kernel, or None without dropout; KernelArgument for a wrong probability or no seed."""
        require(
            0 <= part < 1,
            f"{kernel}: dropout_p is {part}; expected a probability from 0 to below 1",
            "write dropout_p=0.1 for one weight in ten",
        )
        require(
            not part or (seed is not None and tuple(seed.shape) == (1,)),
            f"{kernel}: dropout_p is {part}, and there is {'no seed' if seed is None else 'a seed of another shape'};"
            " expected a seed [1] int32",
            "give a seed: np.array([42], np.int32)",
        )
        return cls(seed, part, heads, queries, keys) if part else None

    def apply(self, weights: Any, batch: int, head: int, first: int, start: int) -> None:
        """Drop weights [rows, keys] of queries from `first` and keys from `start`, multiples of 128 and 512."""
        heads, tiles, draws = self._counts
        for n in range(0, weights.shape[1], DRAWN):
            part = weights[:, n : min(n + DRAWN, weights.shape[1])]
            number = ((batch * heads + head) * tiles + first // 128) * draws + (start + n) // DRAWN
            seed = tile((1, 1), self._seed.dtype)
            # By xor, which is exact in integers of any size; sums are not.
            nisa.tensor_scalar(dst=seed, data=self._seed, op0=nl.bitwise_xor, operand0=number)
            nisa.set_rng_seed(seed)
            nisa.dropout(dst=part, data=part, prob=self.part)


def tiles_of_queries(q: Any, dtype: Any) -> Iterator[tuple[int, Any]]:
    """Yield the first of up to 128 queries of q [d, queries] and a tile [d, rows], one after the other."""
    queries = q.shape[1]
    for first in range(0, queries, STEP):
        several = loaded_as(q[:, first : min(first + STEP, queries)], dtype)
        for n in range(0, several.shape[1], 128):
            yield first + n, several[:, n : min(n + 128, several.shape[1])]


def steps(seen: tuple[int, int], size: int) -> Iterator[tuple[int, int]]:
    """Yield where the steps of a size, counted from 0, begin and end between two keys."""
    start, stop = seen
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end


def biased(scores: Any, scale: float, bias: Any) -> Any:
    """Return scores * scale + bias in SBUF."""
    both = tile(scores.shape)
    nisa.scalar_tensor_tensor(
        dst=both, data=scores, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=bias
    )
    return both


def check_bias(kernel: str, name: str, bias: Any, sizes: tuple[int, int, int, int]) -> None:
    """Raise KernelArgument unless a bias is None or fits scores [batch, heads, queries, keys]."""
    if bias is None:
        return
    (batch, heads, queries, keys), shape = sizes, list(bias.shape)
    require(
        len(shape) == 4
        and shape[0] in (1, batch)
        and shape[1] in (1, heads)
        and shape[2:] == [queries, keys],
        f"{kernel}: `{name}` has shape {shape}; expected [1 or {batch}, 1 or {heads}, {queries}, {keys}]",
        "give one bias for each pair of a query and a key",
    )


def check_products(kernel: str, dtype: Any, help: str = "write mixed_precision=True") -> None:
    """Raise KernelArgument unless products may have operands of a dtype, which also holds exp(score)."""
    require(
        dtype in (nl.float32, nl.bfloat16),
        f"{kernel}: products of {dtype}; expected float32 or bfloat16, as exp(score) leaves the range of others",
        help,
    )


def softmax_of(scores: Any, bias: Any, causal: bool, window: int) -> tuple[Any, Any]:
    """Return the softmax of scores [..., queries, keys] as NumPy computes it, and the logarithm of its sums."""
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    query, key = np.ogrid[: scores.shape[2], : scores.shape[3]]
    if causal:
        scores = np.where(key <= query, scores, -np.inf)
    if window > 0:
        scores = np.where(key > query - window, scores, -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - largest)
        total = weights.sum(axis=-1, keepdims=True)
        return weights / total, (largest + np.log(total))[..., 0]
