"""Instructions that compute mean and variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import Order, Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import REDUCED, over_free_axes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.arrays import scratch
from nki_lab.isa.operators import total
from nki_lab.isa.rules import at_most, not_packed, same_partitions
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

# -- bn_stats -----------------------------------------------------------------------------------------


@rule(
    "`dst` must have 6 elements per partition",
    "dst",
    help="slice six columns of a larger tile: stats[:, 6 * k : 6 * k + 6]",
    source=f"{ISA}:1943",
)
def _six_results(i, hw):
    return i.dst.free_size == 6


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT),
    data=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(REDUCED)),
    rules=(
        same_partitions("dst", "data"),
        not_packed("dst", "data"),
        _six_results,
        at_most(
            "data", "free_size", "bn_stats_free_max", "nl.tile_size.bn_stats_fmax (512 elements)"
        ),
    ),
    order=Order.LAST,
)
def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Any:
    """Compute count, mean and variance * count of even and of odd elements.

    `dst` gets six values per partition: count, mean and variance * count of the elements at even positions, then of
    those at odd positions. All is computed in float32. nisa.bn_aggr makes mean and variance of them; for more than
    512 elements write the results of several bn_stats side by side first. Without odd elements their mean is 0 (no
    page says; a count of 0 takes it out of any aggregate).

    Source: nki/api/nki/isa/__init__.py:1939.
    """


@bn_stats.semantics
def _(out, data):
    for k in (0, 1):
        part = data[:, k::2]
        count = part.shape[1]
        mean, spread = out[:, 3 * k + 1 : 3 * k + 2], out[:, 3 * k + 2]
        out[:, 3 * k] = count
        if count == 0:
            out[:, 1 + 3 * k :] = 0
            continue
        total(part, 1, mean[:, 0])
        np.divide(mean, count, out=mean)
        deviation = scratch(part.shape, part.dtype, "deviation")
        np.subtract(part, mean, out=deviation)
        np.square(deviation, out=deviation)
        total(deviation, 1, spread)


@bn_stats.backward
def _(i, step):
    # mean = sum(x) / count and spread = sum((x - mean)^2), for the elements of either parity.
    gradient, result, data = step.gradient(), step.result(), step.value("data")
    for k in (0, 1):
        count = len(range(k, i.data.free_size, 2))
        if count:
            mean, of_mean, of_spread = (
                t.columns(3 * k + n, 3 * k + n + 1)
                for t, n in ((result, 1), (gradient, 1), (gradient, 2))
            )
            distance = data.every(2, k) - mean
            step.add_every("data", 2, k, distance * (of_spread * 2.0) + of_mean * (1 / count))


@bn_stats.cost
def _(i, hw):
    yield stream(i, hw, "BN_STATS", hw.vector_copy_cycles, i.data.free_size)


# -- bn_aggr ------------------------------------------------------------------------------------------


@rule(
    "`data` must have triples of count, mean and variance * count: a multiple of 3 elements per partition",
    "data",
    help="pass whole results of nisa.bn_stats",
    source=f"{ISA}:1982",
)
def _triples(i, hw):
    return i.data.free_size % 3 == 0


@rule(
    "`dst` must have 2 elements per partition",
    "dst",
    help="they are the mean and the variance",
    source=f"{ISA}:1993",
)
def _two_results(i, hw):
    return i.dst.free_size == 2


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT),
    data=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(REDUCED)),
    rules=(
        same_partitions("dst", "data"),
        not_packed("dst", "data"),
        _triples,
        _two_results,
    ),
    order=Order.LAST,
)
def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Any:
    """Merge results of bn_stats into mean and variance.

    `data` holds triples of count, mean and variance * count; `dst` gets the mean and the variance per partition of
    all elements counted (divided by their number, not by one less). Computed in float32; keep `data` in float32 too,
    since counts above 256 do not fit a bfloat16.

    Source: nki/api/nki/isa/__init__.py:1975.
    """


@bn_aggr.semantics
def _(out, data):
    count, mean, spread = data[:, 0::3], data[:, 1::3], data[:, 2::3]
    counts = scratch((len(data), 1), data.dtype, "counts")
    total(count, 1, counts[:, 0])
    counted = (
        count != 0
    )  # the others hold a mean of nothing, whose distance from the merged one may overflow
    work = scratch(count.shape, data.dtype, "merge")
    work[...] = 0
    np.multiply(count, mean, out=work, where=counted)
    merged, variance = out[:, 0:1], out[:, 1:2]
    total(work, 1, merged[:, 0])
    np.divide(merged, counts, out=merged)
    np.subtract(mean, merged, out=work, where=counted)
    np.square(work, out=work, where=counted)
    np.multiply(work, count, out=work, where=counted)
    np.add(work, spread, out=work, where=counted)
    total(work, 1, variance[:, 0])
    np.divide(variance, counts, out=variance)


@bn_aggr.backward
def _(i, step):
    # With n = sum(count): mean = sum(count m) / n, variance = sum(spread + count (m - mean)^2) / n.
    gradient, data, result = step.gradient(), step.value("data"), step.result()
    count, mean = data.every(3, 0), data.every(3, 1)
    each = count.sums().reciprocal()
    of_mean, of_variance = gradient.columns(0, 1) * each, gradient.columns(1, 2) * each
    distance = mean - result.columns(0, 1)
    step.add_every("data", 3, 1, count * (distance * (of_variance * 2.0) + of_mean))
    step.add_every("data", 3, 2, of_variance.repeated(i.data.free_size // 3))


@bn_aggr.cost
def _(i, hw):
    yield stream(i, hw, "BN_AGGR", hw.vector_bn_aggr_cycles, i.data.free_size // 3)
