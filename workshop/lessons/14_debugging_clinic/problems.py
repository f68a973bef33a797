"""Exercises of notebook 14, Debugging clinic: ten kernels to mend, each with another cause."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.problem import Cause, Limits, Mistake, Task

_CAUSES = {
    "bounds": "a slice reaches past the end of its tensor",
    "unwritten": "a tile is read before anything has written it",
    "bank": "one product is larger than a bank of PSUM",
    "accumulate": "a product is added to one that should have been forgotten",
    "rounding": "a tile on the way has a narrower dtype than the result needs",
    "overflow": "numbers on the way are too large for their dtype",
    "address": "two tiles that are in use at the same time share bytes",
    "capacity": "the tiles in use at the same time do not fit into SBUF",
    "transposed": "an operand lies on its side: its axes are swapped",
    "race": "one core reads what the other may not have written yet",
}


def _cause(right: str) -> Cause:
    assert right in _CAUSES
    return Cause(right, _CAUSES)


def _shifted(x):
    out = np.zeros_like(x)
    out[:, :-1] = x[:, 1:]
    return out


def _softmax(x):
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _swapped(x):
    left, right = np.split(2 * x, 2, axis=1)
    return np.concatenate([right, left], axis=1)


PROBLEMS = (
    Task(
        id="14.1",
        title="One column to the left",
        statement="""\
`shifted(x)` moves every column one place to the left and fills the last one with 0:
`out[:, j] = x[:, j + 1]`. Name the cause of the error, and mend it.""",
        signature="shifted(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=_shifted,
        cases=({"rows": 128, "columns": 256}, {"rows": 3, "columns": 2}),
        fresh={"rows": (1, 127), "columns": (3, 200)},
        cause=_cause("bounds"),
        hints=(
            "Read the first line of the error: which slice, of which axis, how long is that axis?",
            "Only columns - 1 columns are there to be loaded. The last column of the tile needs a value, too.",
            "nisa.memset(dst=tile, value=0.0), then load x[:, 1:columns] into tile[:, 0 : columns - 1].",
        ),
    ),
    Task(
        id="14.2",
        title="Sums of nothing",
        statement="""\
`row_sums(x)` returns the sum of each row, [rows, 1]. It goes through the columns in tiles of 64 and adds
up what they give, and every result is NaN. Name the cause, and mend it.""",
        signature="row_sums(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns, shift=0.5),),
        reference=lambda x: x.sum(axis=1, keepdims=True),
        cases=(
            {"rows": 128, "columns": 256},
            {"rows": 1, "columns": 65},
            {"rows": 4, "columns": 64},
        ),
        fresh={"rows": (2, 127), "columns": (66, 300)},
        rtol=1e-4,
        cause=_cause("unwritten"),
        hints=(
            "Under the result stands a finding: which operand of which instruction does it name?",
            "The sum starts from what was in that memory before. From which number should it start?",
            "nisa.memset(dst=total, value=0.0), before the loop.",
        ),
    ),
    Task(
        id="14.3",
        title="A wide product",
        statement="""\
`product(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n], with k and m up to 128 and any n. The
compiler refuses it for n = 1024. Name the cause, and mend it.""",
        signature="product(a, b)",
        inputs=lambda draw, k, m, n: (draw(k, m), draw(k, n)),
        reference=lambda a, b: a.T @ b,
        cases=(
            {"k": 128, "m": 64, "n": 1024},
            {"k": 3, "m": 2, "n": 5},
            {"k": 16, "m": 8, "n": 513},
        ),
        fresh={"k": (2, 128), "m": (2, 100), "n": (514, 700)},
        rtol=1e-4,
        limits=Limits(uses=("nc_matmul",)),
        cause=_cause("bank"),
        targets=("trn1", "trn2"),
        hints=(
            "The message is the rule that is broken: which size is limited, and to how many elements?",
            "A bank of PSUM holds 2,048 bytes in each partition: 512 numbers of float32.",
            "for start in range(0, n, 512): stop = min(start + 512, n), a tile in PSUM of (m, stop - start),"
            " one nc_matmul with right[:, start:stop], one copy to the result's columns.",
        ),
    ),
    Task(
        id="14.4",
        title="The second half is wrong",
        statement="""\
`products(a, b)` returns `a.T @ b` too, and goes through `b` in tiles of 512 columns. The first 512
columns of the result are right, all others are wrong. Name the cause, and mend it.""",
        signature="products(a, b)",
        inputs=lambda draw, k, m, tiles: (draw(k, m), draw(k, 512 * tiles)),
        reference=lambda a, b: a.T @ b,
        cases=(
            {"k": 128, "m": 64, "tiles": 2},
            {"k": 5, "m": 3, "tiles": 1},
            {"k": 7, "m": 9, "tiles": 3},
        ),
        fresh={"k": (2, 128), "m": (2, 100)},
        rtol=1e-4,
        limits=Limits(uses=("nc_matmul",)),
        cause=_cause("accumulate"),
        hints=(
            "Compute the wrong part by hand: is it perhaps the sum of two tiles of the right result?",
            "PSUM adds a product to what was written there before, within one tensor. A new nl.ndarray starts anew.",
            "Move `total = nl.ndarray(...)` into the loop, or pass accumulate=False to nc_matmul.",
        ),
    ),
    Task(
        id="14.5",
        title="Four digits of seven",
        statement="""\
`mean_square(x)` returns the mean of the squares of each row, [rows, 1] in float32. It is right to three or
four digits, where float32 has seven. Name the cause, and mend it.""",
        signature="mean_square(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: (x * x).mean(axis=1, keepdims=True),
        cases=({"rows": 128, "columns": 2048}, {"rows": 1, "columns": 3}),
        fresh={"rows": (2, 127), "columns": (100, 900)},
        cause=_cause("rounding"),
        hints=(
            "Which tiles does a number pass on its way from x to the result, and what is the dtype of each?",
            "bfloat16 has 8 bits for the digits, so each square is off by up to 0.4 %.",
            "Make `square` in float32: dtype=nl.float32.",
        ),
    ),
    Task(
        id="14.6",
        title="Not a number",
        statement="""\
`softmax(x)` returns `exp(x) / sum(exp(x))` of each row. It is right for small numbers, and has NaN in it as
soon as one is larger than about 88. Name the cause, and mend it.""",
        signature="softmax(x)",
        inputs=lambda draw, rows, columns, scale: (draw(rows, columns, scale=scale),),
        reference=_softmax,
        cases=(
            {"rows": 128, "columns": 64, "scale": 100.0},
            {"rows": 5, "columns": 1, "scale": 100.0},
            {"rows": 16, "columns": 30, "scale": 1.0},
            {"rows": 16, "columns": 30, "scale": 3000.0},
        ),
        fresh={"rows": (2, 127), "columns": (2, 90)},
        rtol=1e-4,
        cause=_cause("overflow"),
        hints=(
            "What is exp(100) in float32, and what is that divided by itself?",
            "exp(x - c) / sum(exp(x - c)) is the same for any c: choose one for which no exponential is large.",
            "nisa.tensor_reduce(..., op=nl.maximum, axis=1), then subtract it with nisa.tensor_scalar before exp.",
        ),
    ),
    Task(
        id="14.7",
        title="Two tiles, one place",
        statement="""\
`difference(a, b)` returns `a - b`. Its author wanted to choose the addresses of the tiles and was wrong by
a factor. Name the cause, and mend it, for up to 256 columns.""",
        signature="difference(a, b)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        reference=lambda a, b: a - b,
        cases=({"rows": 128, "columns": 256}, {"rows": 2, "columns": 1}),
        fresh={"rows": (2, 127), "columns": (2, 256)},
        cause=_cause("address"),
        hints=(
            "The notes list the bytes that each tile takes in a partition.",
            "An address counts bytes, not elements. How many bytes are 256 numbers of float32?",
            "address=(0, 1024) for the second tile, or no address at all: then the compiler finds a place.",
        ),
    ),
    Task(
        id="14.8",
        title="Too much at once",
        statement="""\
`halved(x)` returns `x / 2`. For 65,536 columns its tiles do not fit. Name the cause, and mend it, so that it
works for any number of columns.""",
        signature="halved(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: x / 2,
        cases=(
            {"rows": 8, "columns": 65536},
            {"rows": 1, "columns": 1},
            {"rows": 4, "columns": 70_001},
        ),
        fresh={"rows": (2, 16), "columns": (2, 9000)},
        cause=_cause("capacity"),
        hints=(
            "How many bytes does one row of x take, and how many bytes has a partition?",
            "Cut the columns into tiles, as rows are cut into tiles of 128: a few thousand columns each.",
            "for start in range(0, columns, 4096): a tile of (rows, stop - start), load, halve, store.",
        ),
    ),
    Task(
        id="14.9",
        title="Square and wrong",
        statement="""\
`matmul(a, b)` returns `a @ b` for `a` [m, k] and `b` [k, n], none larger than 128. With square arrays it runs,
and nearly every element is wrong. Name the cause, and mend it.""",
        signature="matmul(a, b)",
        inputs=lambda draw, m, k, n: (draw(m, k), draw(k, n)),
        reference=lambda a, b: a @ b,
        cases=(
            {"m": 128, "k": 128, "n": 128},
            {"m": 32, "k": 64, "n": 96},
            {"m": 1, "k": 2, "n": 3},
        ),
        rtol=1e-4,
        limits=Limits(uses=("nc_matmul",)),
        cause=_cause("transposed"),
        mistakes=(
            Mistake(
                lambda a, b: a.T @ b if a.shape[0] == b.shape[0] else np.zeros((0, 0)),
                "the result is a.T @ b: the axis that is summed over is the wrong one",
                "nc_matmul sums over the partition axis of both operands",
            ),
        ),
        hints=(
            "nc_matmul sums over the partition axis of both operands. Which axis of `a` lies there?",
            "The stationary must be [k, m]: a transposed. nisa.dma_transpose and nisa.nc_transpose can do it.",
            "turned = nl.ndarray((k, m), ..., buffer=nl.sbuf), nisa.dma_transpose(dst=turned, src=left), and"
            " stationary=turned. Or load it transposed.",
        ),
    ),
    Task(
        id="14.10",
        title="Two cores, no agreement",
        statement="""\
`swapped(x)` runs on two cores. Each doubles one half of the columns and leaves it in `staged`, then takes
the *other* half from there for its part of the result. Sometimes that is not there yet. Name the cause, and
mend it; `staged` stays.""",
        signature="swapped(x)",
        inputs=lambda draw, rows, half: (draw(rows, 2 * half),),
        reference=_swapped,
        cases=({"rows": 128, "half": 128}, {"rows": 1, "half": 2}),
        fresh={"rows": (2, 127), "half": (2, 60)},
        cores=2,
        targets=("trn2", "trn3"),
        limits=Limits(uses=("core_barrier",)),
        cause=_cause("race"),
        hints=(
            "The finding names two instructions on two cores, and says that nothing orders them.",
            "A core must know that the other has written before it reads. %nki_explain core_barrier",
            "nisa.core_barrier(data=staged, cores=(0, 1)), between the store to `staged` and the load from it.",
        ),
    ),
)
