"""Cases of bn_stats and bn_aggr, against NumPy's mean and variance in float64."""

from __future__ import annotations

import numpy as np

from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, one_call, rounded, sample, tile

X = sample(128, 37, seed=60) * 3 + 10  # far from 0: a sum of squares would lose digits
LONG = sample(128, 1200, seed=61) * 2 - 5
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def statistics(rows):
    """Return the six results per row."""
    found = []
    for row in np.asarray(rows, float).reshape(len(rows), -1):
        for part in (row[0::2], row[1::2]):
            found += [part.size, part.mean(), part.var() * part.size] if part.size else [0, 0, 0]
    return np.reshape(found, (len(rows), 6))


def moments(rows):
    rows = np.asarray(rows, float)
    return np.stack([rows.mean(axis=1), rows.var(axis=1)], axis=1)


def stats(name, data, expected=None, dst=None, **facts):
    given = {"dst": dst or empty((data.data.shape[0], 6)), "data": data}
    return one_call("bn_stats", name, given, {} if expected is None else {"dst": expected}, **facts)


def merge(name, data, expected=None, dst=None, **facts):
    given = {"dst": dst or empty((data.data.shape[0], 2)), "data": data}
    return one_call("bn_aggr", name, given, {} if expected is None else {"dst": expected}, **facts)


def _run_in_parts(t):
    """Take statistics of 1200 elements in three tiles side by side, then merge them: the official example's way."""
    for k, (first, last) in enumerate(((0, 512), (512, 1001), (1001, 1200))):
        isa.bn_stats(t.stats[:, 6 * k : 6 * k + 6], t.data[:, first:last])
    isa.bn_aggr(t.dst, t.stats)


# Three groups of unlike sizes with known moments, one of them empty.
COUNTS, MEANS, VARIANCES = (4, 0, 12), (1.0, 77.0, -3.0), (2.0, 5.0, 0.5)
TRIPLES = np.array(
    [[v for n, m, s in zip(COUNTS, MEANS, VARIANCES, strict=True) for v in (n, m, s * n)]]
)
MEAN = (4 * 1 + 12 * -3) / 16
VARIANCE = (4 * (2 + (1 - MEAN) ** 2) + 12 * (0.5 + (-3 - MEAN) ** 2)) / 16

CASES = [
    stats("odd number of elements", tile(X), statistics(X), **NEAR),
    stats("even number of elements, several axes", tile(X[:, :36].reshape(128, 4, 9)), statistics(X[:, :36]), **NEAR),
    stats("512 elements", tile(LONG[:, :512]), statistics(LONG[:, :512]), **NEAR),
    stats("one element", tile(X[:, :1]), statistics(X[:, :1])),
    stats("two elements", tile(X[:, :2]), statistics(X[:, :2])),
    stats("bfloat16 in PSUM", tile(X, "bfloat16", space=PSUM), statistics(rounded(X, "bfloat16").astype(float)),
          empty((128, 6), space=PSUM), **NEAR),
    stats("every third element", tile(X, view=lambda t: t[:, 0:37:3]), statistics(X[:, ::3]), **NEAR),
    stats("rows from partition 32", tile(X, view=lambda t: t[32:50]), statistics(X[32:50]), empty((18, 6)), **NEAR),
    stats("into bfloat16", tile(X), rounded(statistics(X), "bfloat16"), empty((128, 6), "bfloat16"), rtol=2.0**-8),
    stats("five results", tile(X), dst=empty((128, 5)), breaks="`dst` must have 6 elements"),
    stats("513 elements", tile(LONG[:, :513]), breaks="must not exceed nl.tile_size.bn_stats_fmax"),
    stats("packed", tile(X, "float8_e5m2_x4"), breaks="packed (x4)"),
    stats("partitions", tile(X), dst=empty((64, 6)), breaks="number of partitions"),
    Case("bn_aggr", "in parts", {"data": tile(LONG), "stats": empty((128, 18)), "dst": empty((128, 2))},
         _run_in_parts, {"dst": moments(LONG)}, **NEAR),
    merge("groups of unlike sizes", tile(TRIPLES), [[MEAN, VARIANCE]], rtol=1e-6),
    merge("one element, whose square overflows", tile([[1, 2e19, 0, 0, 0, 0], [1, -3e38, 0, 0, np.inf, np.nan]]),
          [[np.float32(2e19), 0], [np.float32(-3e38), 0]]),
    merge("one group", tile([[5, 2.5, 10]]), [[2.5, 2]]),
    merge("nothing counted", tile([[0.0, 1, 2]]), [[np.nan, np.nan]]),
    merge("in PSUM, two axes, int32", tile(TRIPLES.reshape(1, 3, 3), space=PSUM), np.rint([[MEAN, VARIANCE]]),
          empty((1, 2), "int32", PSUM)),
    merge("four elements", tile([[1.0, 2, 3, 4]]), breaks="multiple of 3"),
    merge("three results", tile(TRIPLES), dst=empty((1, 3)), breaks="`dst` must have 2 elements"),
    merge("packed", tile(TRIPLES, "float8_e5m2_x4"), breaks="packed (x4)"),
    merge("partitions", tile(TRIPLES), dst=empty((2, 2)), breaks="number of partitions"),
]  # fmt: skip
