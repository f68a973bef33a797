"""Exercises of notebook 31, Dynamic loops."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.evidence import BOTTLENECKS, bottleneck, busy_shares
from nki_lab.exercises.problem import Limits, Mistake, Question, Task, Tiers


def _tiles(x):
    return x.reshape(-1, 128, x.shape[1])


def _doubled(x, size, limit, first=False):
    """Double `x` while size(x) < limit; `first` doubles before the first test."""
    x = 2 * x if first else x
    while size(x) < limit.item():
        x = 2 * x
    return x


def _row(draw, columns):
    """Return a row whose largest element by magnitude is negative, and whose last one is positive."""
    row = 0.1 * draw(1, columns)
    row[0, 0], row[0, -1] = -3.0, 0.5
    return row


def _same_part(table, ids):
    """Return the rows that come out if each part of 128 takes the indices of the first part."""
    return table[ids[np.arange(len(ids)) % 128, 0]]


PROBLEMS = (
    Task(
        id="31.1",
        title="From here to there",
        statement="""\
`sum_between(x, bounds)` returns the sum of the tiles first, first + 1, ..., last - 1 of `x`, as [128, columns]. A
tile is 128 rows of `x`; `bounds` is an array [[first, last]] of int32. Where first is last, the sum is zero. Tiles
that are not asked for are not loaded.""",
        signature="sum_between(x, bounds)",
        inputs=lambda draw, tiles, columns, first, last: (
            draw(128 * tiles, columns),
            np.array([[first, last]], np.int32),
        ),
        reference=lambda x, bounds: _tiles(x)[bounds[0, 0] : bounds[0, 1]].sum(axis=0),
        cases=(
            {"tiles": 8, "columns": 256, "first": 2, "last": 5},
            {"tiles": 3, "columns": 4, "first": 0, "last": 3},
            {"tiles": 3, "columns": 4, "first": 2, "last": 2},
        ),
        fresh={"tiles": (6, 8), "columns": (2, 60), "first": (1, 2), "last": (3, 5)},
        rtol=1e-4,
        limits=Limits(transfers=6, uses=("register_load",)),
        mistakes=(
            Mistake(
                lambda x, bounds: _tiles(x)[: bounds[0, 1]].sum(axis=0),
                "the sum begins with tile 0, not with tile `first`",
                "both bounds of nl.fori_loop may be registers",
            ),
            Mistake(
                lambda x, bounds: _tiles(x)[bounds[0, 0] : bounds[0, 1] + 1].sum(axis=0),
                "tile `last` is in the sum",
                "as with range, the upper bound is the first one that is left out",
            ),
        ),
        hints=(
            "`largest` in the notebook goes from 0 to a register. Here the lower bound is a register, too.",
            "Load `bounds` into one tile of (1, 2), and a register from each of its columns. Begin the sum with"
            " nisa.memset(dst=total, value=0.0).",
            "nisa.register_load(dst=first, src=held[:, 0:1]), the same for last with held[:, 1:2], then"
            " nl.fori_loop(first, last, body), whose body loads blocks[i] and adds it to `total`.",
        ),
    ),
    Question(
        id="31.2",
        title="What a pass waits for",
        statement="""\
Of which engine, or of the transfers, would the loop of `largest` become much faster, if that one alone became twice as
fast? `%nki_profile largest_result` shows who is busy.""",
        choices=BOTTLENECKS,
        truth=bottleneck,
        evidence=busy_shares,
        about=lambda run: "" if run.execution.trips else "this run has no loop on the device",
        hints=(
            "Look at the line `bound by` of the report, and at the shares of the engines and of DMA.",
            "Within a pass the maximum waits for the load, and the next load waits for the next pass.",
            'Nothing is busy half of the time, so the answer is "waiting".',
        ),
    ),
    Task(
        id="31.3",
        title="Four tiles in a pass",
        statement="""\
`sum_by_four(x, tiles)` returns the sum of the first n tiles of 128 rows of `x`, as [128, columns]. `tiles` is
[[n]] of int32, and n is a multiple of four. Each pass of the loop takes four tiles, whose loads overlap.""",
        signature="sum_by_four(x, tiles)",
        inputs=lambda draw, tiles, fours, columns: (
            draw(128 * tiles, columns),
            np.array([[4 * fours]], np.int32),
        ),
        reference=lambda x, tiles: _tiles(x)[: tiles.item()].sum(axis=0),
        cases=(
            {"tiles": 12, "fours": 2, "columns": 256},
            {"tiles": 4, "fours": 1, "columns": 3},
            {"tiles": 4, "fours": 0, "columns": 3},
        ),
        fresh={"tiles": (12, 13), "fours": (1, 3), "columns": (2, 60)},
        rtol=1e-4,
        limits=Limits(transfers=10, uses=("register_load",)),
        tiers={"trn2": Tiers(passes=15.0, star=11.6)},
        mistakes=(
            Mistake(
                lambda x, tiles: sum(
                    (_tiles(x)[i : i + 4].sum(axis=0) for i in range(tiles.item())),
                    np.zeros((128, x.shape[1])),
                ),
                "tiles are added several times: the loop goes on by one, and each pass takes four",
                "nl.fori_loop(lower, upper, body, step=4)",
            ),
            Mistake(
                lambda x, tiles: _tiles(x)[: tiles.item() : 4].sum(axis=0),
                "only one tile of every four is in the sum",
                "the tiles of a pass are i, i + 1, i + 2 and i + 3",
            ),
        ),
        hints=(
            "Start from the loop of one tile per pass. What do the four tiles of a pass need to be independent of?",
            "step=4, and in the body an ordinary `for k in range(4)`, which is unrolled. blocks[nl.ds(i, 4)] are the"
            " four tiles beginning with number i.",
            "four = blocks[nl.ds(i, 4)]; for k in range(4): a new tile, nisa.dma_copy(dst=tile, src=four[k]), and"
            " the addition to `total`.",
        ),
    ),
    Task(
        id="31.4",
        title="Double until it is enough",
        statement="""\
`doubled(x, limit)` doubles the row `x` [1, columns] as often as needed until its largest magnitude is at least
`limit` [1, 1]; that may be no time at all. No row is all zeros.""",
        signature="doubled(x, limit)",
        inputs=lambda draw, columns, limit: (
            _row(draw, columns),
            np.array([[limit]], np.float32),
        ),
        reference=lambda x, limit: _doubled(x, lambda t: abs(t).max(), limit),
        cases=(
            {"columns": 64, "limit": 80},
            {"columns": 2, "limit": 0.25},
            {"columns": 30, "limit": 6},
            {"columns": 500, "limit": 4},
        ),
        fresh={"columns": (3, 90), "limit": (7, 900)},
        limits=Limits(uses=("register_load",)),
        mistakes=(
            Mistake(
                lambda x, limit: _doubled(x, lambda t: t.max(), limit),
                "the loop looks at the largest element, not at the largest magnitude",
                "the magnitude of -3 is 3: nl.abs, before the maximum",
            ),
            Mistake(
                lambda x, limit: _doubled(x, lambda t: abs(t).max(), limit, first=True),
                "the row is doubled at least once, even where it is large enough already",
                "compute the first condition from the row as it was loaded, before nl.while_loop",
            ),
            Mistake(
                lambda x, limit: 2 * _doubled(x, lambda t: abs(t).max(), limit),
                "the row is doubled once too often",
                "is a magnitude that equals `limit` enough? The condition is `less`",
            ),
        ),
        hints=(
            "`halved` in the notebook has this form: a test before the loop, the same test at the end of its body.",
            "The magnitudes: nisa.activation(dst=size, op=nl.abs, data=row). The condition: nl.less instead of"
            " nl.greater, with the tile of `limit` as operand0.",
            "nisa.tensor_reduce(dst=most, data=size, op=nl.maximum, axis=1), nisa.tensor_scalar(dst=again, data=most,"
            " op0=nl.less, operand0=least), nisa.register_load(dst=more, src=again).",
        ),
    ),
    Task(
        id="31.5",
        title="Around the corner",
        statement="""\
`rolled(x, shift)` moves the columns of `x` to the left by the number in `shift`, [[s]] of int32, and those that
fall off come back on the right: `out[:, j] = x[:, (j + s) % columns]`. `x` has at most 128 rows, 0 <= s < columns.""",
        signature="rolled(x, shift)",
        inputs=lambda draw, rows, columns, share: (
            draw(rows, columns),
            np.array([[columns * share // 100]], np.int32),
        ),
        reference=lambda x, shift: np.roll(x, -shift.item(), axis=1),
        cases=(
            {"rows": 128, "columns": 256, "share": 30},
            {"rows": 1, "columns": 5, "share": 0},
            {"rows": 3, "columns": 40, "share": 99},
        ),
        fresh={"rows": (2, 127), "columns": (7, 90), "share": (20, 90)},
        limits=Limits(transfers=4),
        mistakes=(
            Mistake(
                lambda x, shift: np.roll(x, shift.item(), axis=1),
                "the columns moved to the right, not to the left",
                "column 0 of the result is column s of x: the window begins at s",
            ),
        ),
        hints=(
            "A window of fixed length may begin anywhere. In which tile would the window [s, s + columns) always be"
            " inside?",
            "Write the columns of x twice into one tile of (rows, 2 * columns), side by side.",
            "twice[:, nl.ds(at, columns)] is the result, `at` being the register with s.",
        ),
    ),
    Task(
        id="31.6",
        title="Rows by number",
        statement="""\
`embed(table, ids)` returns `table[ids[:, 0]]`: row ids[k, 0] of the table as row k of the result. `ids` is
[n, 1] of int32, for any n, and each row of the table may be asked for several times, or never.""",
        signature="embed(table, ids)",
        inputs=lambda draw, n, rows, columns: (
            draw(rows, columns),
            draw.integers(n, 1, low=0, high=rows),
        ),
        reference=lambda table, ids: table[ids[:, 0]],
        cases=(
            {"n": 200, "rows": 1000, "columns": 64},
            {"n": 1, "rows": 3, "columns": 2},
            {"n": 128, "rows": 40, "columns": 5},
            {"n": 300, "rows": 7, "columns": 3},
        ),
        fresh={"n": (129, 400), "rows": (5, 300), "columns": (2, 40)},
        limits=Limits(transfers=6),
        tiers={"trn2": Tiers(passes=8.0, star=5.9)},
        mistakes=(
            Mistake(
                _same_part,
                "every part of 128 rows takes the indices of the first part",
                "load ids[start:stop] anew for each part",
            ),
        ),
        hints=(
            "One transfer with a tile of indices moves up to 128 rows. More of them need several.",
            "An ordinary loop over parts of 128: indices [stop - start, 1] into a tile, rows by"
            " table.vector_select(0, index), and a store.",
            "for start in range(0, n, 128): stop = min(start + 128, n), index from ids[start:stop],"
            " nisa.dma_copy(dst=rows, src=table.vector_select(0, index)), store to out[start:stop].",
        ),
    ),
)
