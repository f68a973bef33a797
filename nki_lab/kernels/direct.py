"""Attention from exp(score) as it is: scores lie as their product with values needs them, and nothing is transposed.

Without the largest score subtracted, a sum of weights may leave what float32 holds. `Exact` notes it, and the kernel
then computes everything again by the steps of `attention.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.ir.building.builder import current
from nki_lab.kernels.attention import Head, Mask, anywhere, loaded_as, tile
from nki_lab.kernels.launched import is_last_program, is_launched_program
from nki_lab.kernels.rows import register_of

#: Queries whose scores with 128 keys are one product, and keys whose weights one instruction computes.
_QUERIES, _KEYS = 512, 256
# Sums between these are exact: no term that counts is 0, and no product with values up to 1e20 is infinite.
_SMALLEST, _LARGEST = 1e-18, 1e18


# What programs of a launch have left to the last of them, by the builder of their trace.
_waiting: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()


class Exact:
    """Notes where a sum of weights was not exact."""

    def __init__(self) -> None:
        self._flags = tile((128, 1))
        nisa.memset(dst=self._flags, value=0.0)

    def check(self, total: Any, share: Any) -> None:
        """Note whether one of the sums [rows, 1] is too large, or too small by its reciprocal."""
        flags = self._flags[: total.shape[0]]
        for value, limit in ((total, _LARGEST), (share, 1 / _SMALLEST)):
            nisa.scalar_tensor_tensor(
                dst=flags, data=value, op0=nl.greater_equal, operand0=limit, op1=nl.maximum,
                operand1=flags,
            )  # fmt: skip

    def otherwise(self, compute: Callable[..., None], places: list[Any]) -> None:
        """Compute all places again, on the device and once, where a sum was not exact.

        Of the programs of an official grid the last one does so for all, so that none waits for the loop of another.
        """
        works = [partial(compute, *place) for place in places]
        if is_launched_program():
            waiting = _waiting.setdefault(current(), [])
            waiting.append((self._flags, works))
            if not is_last_program():
                return
            for flags, earlier in waiting[:-1]:
                self._join(flags)
                works += earlier
        register = register_of(self._flags)

        def again(_: Any) -> None:
            nisa.memset(dst=self._flags, value=0.0)  # a core without a place has the loop, too
            for work in works:
                work()

        nl.fori_loop(0, register, again)

    def _join(self, flags: Any) -> None:
        nisa.tensor_tensor(dst=self._flags, data1=self._flags, data2=flags, op=nl.maximum)


def attended(
    q: Any, held: Head, mask: Mask, scale: float, exact: Exact, make: Callable[..., Any] = anywhere
) -> Iterator[tuple[int, Any, Any]]:
    """Yield the first of up to 128 queries, the sums of their weights [rows, 1], and their output [rows, d].

    Args:
        q: [d, queries] in HBM.
        held: keys, and values with a column of ones.
        mask: which keys queries see.
        scale: of the scores.
        exact: notes sums that are not.
        make: makes tiles as `anywhere` does: "queries", "sums", "later sums", "scores", "weights", "share", "output".
    """
    d, queries = q.shape
    for first in range(0, queries, _QUERIES):
        part = loaded_as(
            q[:, first : min(first + _QUERIES, queries)], held.dtype, partial(make, "queries")
        )
        count = part.shape[1]
        # Two banks of PSUM hold the output of 512 queries and, in the column after it, the sums of their weights.
        uses = ("sums", "later sums")[: -(-count // 256)]
        sums = [make(use, (128, 2, 256), buffer=nl.psum) for use in uses]
        start, stop = mask.seen(first, count)
        for block in range(start // _KEYS * _KEYS, stop, _KEYS):
            _add(part, held, block, min(block + _KEYS, stop), first, mask, scale, sums, make)
        for n in range(0, count, 128):
            rows = min(128, count - n)
            both = sums[n // 256][:rows, n // 128 % 2]
            share, out = make("share", (rows, 1)), make("output", (rows, d), q.dtype)
            nisa.reciprocal(dst=share, data=both[:, d : d + 1])
            exact.check(both[:, d : d + 1], share)
            nisa.tensor_scalar(dst=out, data=both[:, :d], op0=nl.multiply, operand0=share)
            yield first + n, both[:, d : d + 1], out


def _add(
    queries: Any, held: Head, start: int, stop: int, first: int, mask: Mask, scale: float, sums: Any,
    make: Callable[..., Any],
) -> None:  # fmt: skip
    """Add to the sums what up to 256 keys give to up to 512 queries."""
    keys, values = held.part(start, stop)
    count = queries.shape[1]
    scores = make("scores", (128, 2, _QUERIES), buffer=nl.psum)
    weights = make("weights", (128, 2, _QUERIES), held.dtype)
    spans = [mask.span(start + n * 128, first, count) for n in range(len(values))]
    sizes = [value.shape[0] for value in values]
    for n, (begin, end) in enumerate(spans):
        if begin < end:
            nisa.nc_matmul(
                dst=scores[: sizes[n], n, begin:end],
                stationary=keys[:, n * 128 : n * 128 + sizes[n]], moving=queries[:, begin:end],
            )  # fmt: skip
    alike = len(values) == 2 and sizes[1] == 128 and spans[0] == spans[1]
    for n in range(1 if alike else len(values)):
        begin, end = spans[n]
        at = (slice(sizes[n]), slice(n, n + 1 + alike), slice(begin, end))
        if begin < end:
            nisa.activation(dst=weights[at], op=nl.exp, data=scores[at], scale=scale)
    for n, (begin, end) in enumerate(spans):
        for query in range(begin, end, 128):
            some = weights[: sizes[n], n, query : min(query + 128, end)]
            mask.clear(some, start + n * 128, first + query)
            nisa.nc_matmul(
                dst=sums[query // 256][: some.shape[1], query // 128 % 2, : values[n].shape[1]],
                stationary=some, moving=values[n],
            )  # fmt: skip
