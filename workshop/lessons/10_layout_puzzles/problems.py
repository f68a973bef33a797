"""Exercises of notebook 10, Layout puzzles."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.problem import Limits, Mistake, Places, Question, Task, Tiers
from nki_lab.profiler.analyses.report import psum_peak_banks

_BANK_BYTES = 2048  # of each partition (nki/guides/architecture/trainium2_arch.rst, "PSUM")


def _numbers(rows: int, columns: int) -> np.ndarray:
    """Return the number of each element, counted row by row."""
    return np.arange(rows * columns).reshape(rows, columns)


def _in_squares(x: np.ndarray, turn: bool, move: bool) -> np.ndarray:
    """Transpose the 32 x 32 squares of an array in themselves, or change their places, or both."""
    side = len(x) // 32
    squares = x.reshape(side, 32, side, 32)  # square row, row in it, square column, column in it
    order = (2, 1, 0, 3) if move else (0, 1, 2, 3)
    squares = squares.transpose(order)
    return (squares.transpose(0, 3, 2, 1) if turn else squares).reshape(x.shape)


def _summed_pieces(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply in pieces of 512 columns, each added to what the bank still holds from those before."""
    product = a.T @ b
    for start in range(512, b.shape[1], 512):
        width = min(512, b.shape[1] - start)
        product[:, start : start + width] += product[:, start - 512 : start - 512 + width]
    return product


PROBLEMS = (
    Places(
        id="10.1",
        title="Two partitions",
        statement="""\
An array of `rows` x `columns` elements is loaded into one tile, as it is. Which elements lie in the
partitions 2 and 3? Answer with a slice of the array.""",
        sizes=({"rows": 8, "columns": 12}, {"rows": 5, "columns": 7}),
        shape=lambda rows, columns: (rows, columns),
        wanted=lambda rows, columns: np.s_[2:4],
        hints=(
            "The first axis of a tile is the partition axis: row i lies in partition i.",
            "A slice leaves out its stop: 0:2 are the elements 0 and 1.",
            "np.s_[2:4] takes the rows 2 and 3, with all of their columns.",
        ),
    ),
    Places(
        id="10.2",
        title="The odd columns",
        statement="""\
The Vector engine shall read the odd columns (1, 3, 5, ...) of a tile, in all partitions. Which slice
of the tile is that?""",
        sizes=({"rows": 6, "columns": 16}, {"rows": 3, "columns": 7}),
        shape=lambda rows, columns: (rows, columns),
        wanted=lambda rows, columns: np.s_[:, 1::2],
        hints=(
            "All partitions means `:` on the first axis; the columns are the second axis.",
            "start::step takes every step-th element from start on.",
            "np.s_[:, 1::2]: from column 1 on, every second one.",
        ),
    ),
    Places(
        id="10.3",
        title="One tile of a grid",
        statement="""\
An array is cut into a grid of tiles, each `height` x `width`; those at the lower and right edge have what is
left. Which elements does tile (i, j) have, in row i and column j of the grid? Answer with a function that
returns the slice.""",
        sizes=(
            {"rows": 8, "columns": 15, "height": 4, "width": 5, "i": 1, "j": 2},
            {"rows": 9, "columns": 8, "height": 3, "width": 2, "i": 2, "j": 0},
            {"rows": 4, "columns": 12, "height": 2, "width": 6, "i": 0, "j": 1},
            {"rows": 7, "columns": 13, "height": 3, "width": 5, "i": 2, "j": 2},
        ),
        shape=lambda rows, columns, **_: (rows, columns),
        wanted=lambda rows, columns, height, width, i, j: np.s_[
            i * height : (i + 1) * height, j * width : (j + 1) * width
        ],
        hints=(
            "Tile (1, 0) starts where tile (0, 0) ends: `height` rows further down.",
            "Tile number i of one axis covers i * size up to, not including, (i + 1) * size.",
            "return np.s_[i * height : min((i + 1) * height, rows), and the same with j, width and columns]",
        ),
    ),
    Places(
        id="10.4",
        title="One partition of a transposed tile",
        statement="""\
`a` has `m` rows and `k` columns. It is loaded transposed: `k` becomes the partition axis. Which
elements of `a` lie in partition `p`? Answer with a function that returns the slice.""",
        sizes=({"m": 6, "k": 10, "p": 3}, {"m": 4, "k": 5, "p": 0}, {"m": 3, "k": 9, "p": 8}),
        shape=lambda m, k, p: (m, k),
        wanted=lambda m, k, p: np.s_[:, p],
        hints=(
            "How many elements lie in one partition: m or k?",
            "Each of the k partitions has m elements, one from each row of `a`.",
            "return np.s_[:, p], which is column p of `a`.",
        ),
    ),
    Places(
        id="10.5",
        title="What some rows of a product need",
        statement="""\
`nc_matmul` computes `stationary.T @ moving`. Which elements of `stationary`, which is `k` x `m`, are
needed for `count` rows of the result, from row `start` on? Answer with a function.""",
        sizes=(
            {"k": 6, "m": 12, "start": 4, "count": 5},
            {"k": 9, "m": 4, "start": 0, "count": 1},
            {"k": 3, "m": 7, "start": 5, "count": 2},
        ),
        shape=lambda k, m, **_: (k, m),
        wanted=lambda k, m, start, count: np.s_[:, start : start + count],
        hints=(
            "result[i, j] = sum over p of stationary[p, i] * moving[p, j]: where does i stand?",
            "Row i of the result needs column i of `stationary`, in all partitions.",
            "return np.s_[:, start : start + count]",
        ),
    ),
    Task(
        id="10.6",
        title="A product without a transpose",
        statement="""\
`transposed_product(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n] in float32, with k and m at
most 128 and n at most 512. Load as the arrays are; no transpose is needed.""",
        signature="transposed_product(a, b)",
        inputs=lambda draw, k, m, n: (draw(k, m), draw(k, n)),
        reference=lambda a, b: a.T @ b,
        cases=(
            {"k": 48, "m": 80, "n": 200},
            {"k": 128, "m": 128, "n": 128},
            {"k": 5, "m": 1, "n": 3},
        ),
        fresh={"k": (2, 128), "m": (2, 128), "n": (2, 512)},
        limits=Limits(
            transfers=3, instructions={"tensor": 3}, avoids=("nc_transpose", "dma_transpose")
        ),
        hints=(
            "Which axis do `a` and `b` share? That one must be the partition axis of both.",
            "It already is: `a` is the stationary operand, `b` the moving one, and the result is [m, n].",
            "nisa.nc_matmul(dst=total, stationary=left, moving=right), total in nl.psum and float32; then"
            " nisa.tensor_copy(dst=result, src=total) into a tile in nl.sbuf, and store that.",
        ),
    ),
    Task(
        id="10.7",
        title="The same product, transposed",
        statement="""\
`turned_result(a, b)` returns `(a.T @ b).T`, which is [n, m], for `a` [k, m] and `b` [k, n] in float32
with all sizes at most 128. Again no transpose is needed.""",
        signature="turned_result(a, b)",
        inputs=lambda draw, k, m, n: (draw(k, m), draw(k, n)),
        reference=lambda a, b: b.T @ a,
        cases=(
            {"k": 48, "m": 80, "n": 100},
            {"k": 128, "m": 128, "n": 128},
            {"k": 4, "m": 3, "n": 1},
        ),
        fresh={"k": (2, 128), "m": (2, 128), "n": (2, 128)},
        limits=Limits(
            transfers=3, instructions={"tensor": 3}, avoids=("nc_transpose", "dma_transpose")
        ),
        tiers={"trn2": Tiers(passes=6.5, star=5.5)},
        hints=(
            "Write (a.T @ b).T without the outer transpose.",
            "(a.T @ b).T is b.T @ a: which operand is the stationary one now?",
            "nisa.nc_matmul(dst=total, stationary=right, moving=left), with total [n, m].",
        ),
    ),
    Task(
        id="10.8",
        title="A product with one transpose",
        statement="""\
`plain_product(a, b)` returns `a @ b` for `a` [m, k] and `b` [k, n] in float32, with m and k at most
128 and n at most 512. One of the two operands lies on its side: turn it on the chip, with the Tensor
engine.""",
        signature="plain_product(a, b)",
        inputs=lambda draw, m, k, n: (draw(m, k), draw(k, n)),
        reference=lambda a, b: a @ b,
        cases=(
            {"m": 80, "k": 48, "n": 200},
            {"m": 128, "k": 128, "n": 128},
            {"m": 1, "k": 5, "n": 2},
        ),
        fresh={"m": (2, 128), "k": (2, 128), "n": (2, 512)},
        limits=Limits(transfers=3, instructions={"tensor": 5}, uses=("nc_transpose",)),
        hints=(
            "The sum runs over k. In which of the two arrays is k not the first axis?",
            "nisa.nc_transpose(dst=turned, data=left) writes [k, m] into PSUM; operands come from SBUF, so copy"
            " it there.",
            "turned = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.psum); nisa.nc_transpose(dst=turned, data=left);"
            " nisa.tensor_copy(dst=left_t, src=turned); nisa.nc_matmul(dst=total, stationary=left_t, moving=right)",
        ),
    ),
    Task(
        id="10.9",
        title="All products of rows",
        statement="""\
`row_products(x)` returns `x @ x.T` for `x` [rows, columns] in float32, both at most 128: the product of
each row with each row. One load, one transpose, one product.""",
        signature="row_products(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: x @ x.T,
        cases=(
            {"rows": 40, "columns": 72},
            {"rows": 128, "columns": 128},
            {"rows": 3, "columns": 1},
        ),
        fresh={"rows": (2, 128), "columns": (2, 128)},
        limits=Limits(transfers=2, instructions={"tensor": 5}, uses=("nc_transpose",)),
        hints=(
            "The sum runs over the columns, so they must become the partition axis. Of which operand?",
            "Of both, and both are the same tile: stationary and moving may be one and the same.",
            "Transpose `x` once as in 10.8, then nisa.nc_matmul(dst=total, stationary=tile_t, moving=tile_t).",
        ),
    ),
    Task(
        id="10.10",
        title="A transpose made of squares",
        statement="""\
`turn_in_squares(x)` returns `x.T` for a square `x` in float32 whose size is 32, 64, 96 or 128. Use the
Vector engine alone, which transposes at most 32 x 32 at a time.""",
        signature="turn_in_squares(x)",
        inputs=lambda draw, squares: (draw(32 * squares, 32 * squares),),
        reference=lambda x: x.T,
        cases=({"squares": 2}, {"squares": 1}, {"squares": 4}),
        fresh={"squares": (1, 4)},
        limits=Limits(transfers=2, instructions={"tensor": 0, "vector": 4}, uses=("nc_transpose",)),
        mistakes=(
            Mistake(
                lambda x: _in_squares(x, turn=True, move=False),
                "each square is transposed, and all are where they were",
                "square (i, j) of the tile becomes square (j, i) of the result",
            ),
            Mistake(
                lambda x: _in_squares(x, turn=False, move=True),
                "the squares have changed places, and none is transposed in itself",
                "an element has to cross the diagonal of its square, too",
            ),
        ),
        hints=(
            "Draw 64 x 64 as four squares. Where does the upper right one go, and what happens inside of it?",
            "Two loops, over the rows and the columns of the squares: from [i : i + 32, j : j + 32]"
            " to [j : j + 32, i : i + 32].",
            "nisa.nc_transpose(dst=turned[j : j + 32, i : i + 32], data=tile[i : i + 32, j : j + 32],"
            " engine=nisa.engine.vector)",
        ),
    ),
    Question(
        id="10.11",
        title="How many banks?",
        statement="""\
How many banks of PSUM does `in_pieces` need for its tile `total` of 48 x 1200 float32 numbers?""",
        truth=lambda run: psum_peak_banks(run.profile),
        evidence=lambda run: (
            f"1200 x 4 = 4800 bytes of each partition, in banks of {_BANK_BYTES}, are"
            f" {psum_peak_banks(run.profile)} banks"
        ),
        unit="banks",
        hints=(
            "Only the free axis counts: the partitions lie beside each other, as in SBUF.",
            "How many bytes does one row of the tile take, and how many has a bank in a partition?",
            "1200 x 4 = 4800 bytes, a bank has 2048 of them in each partition, and a part of a bank takes a bank.",
        ),
    ),
    Places(
        id="10.12",
        title="What lies in one bank",
        statement="""\
A tile in PSUM has `rows` x `columns` elements of `itemsize` bytes, and begins at the start of bank 0.
Which of its elements lie in bank `bank`? Answer with a function; the last bank may be partly filled.""",
        sizes=(
            {"rows": 4, "columns": 1200, "itemsize": 4, "bank": 1},
            {"rows": 4, "columns": 1200, "itemsize": 4, "bank": 2},
            {"rows": 3, "columns": 1500, "itemsize": 2, "bank": 1},
            {"rows": 2, "columns": 100, "itemsize": 4, "bank": 0},
        ),
        shape=lambda rows, columns, **_: (rows, columns),
        wanted=lambda rows, columns, itemsize, bank: np.s_[
            :,
            bank * (_BANK_BYTES // itemsize) : min((bank + 1) * (_BANK_BYTES // itemsize), columns),
        ],
        hints=(
            "How many elements of 4 bytes fit into the 2048 bytes that a bank has in each partition? Of 2 bytes?",
            "Bank b begins at column b * (2048 // itemsize), and ends where the next one begins, or with the tile.",
            "return np.s_[:, bank * (2048 // itemsize) :"
            " min((bank + 1) * (2048 // itemsize), columns)]",
        ),
    ),
    Task(
        id="10.13",
        title="A wide product in one bank",
        statement="""\
`one_bank(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n] in float32, with k and m at most 128
and any n. It uses one bank of PSUM, and stores the result with one transfer.""",
        signature="one_bank(a, b)",
        inputs=lambda draw, k, m, n: (draw(k, m), draw(k, n)),
        reference=lambda a, b: a.T @ b,
        cases=(
            {"k": 64, "m": 48, "n": 1200},
            {"k": 5, "m": 7, "n": 512},
            {"k": 3, "m": 2, "n": 1},
        ),
        fresh={"k": (2, 128), "m": (2, 128), "n": (513, 1600)},
        limits=Limits(transfers=3, psum_banks=1, instructions={"tensor": 9}),
        mistakes=(
            Mistake(
                _summed_pieces,
                "each piece has been added to the one before, which was still in the bank",
                "accumulate=False forgets what the bank holds; None adds to what this kernel has written",
            ),
        ),
        hints=(
            "A bank holds 512 float32 numbers of each partition. Cut `b` along its free axis.",
            "Multiply one piece, copy it into its columns of a wide tile in SBUF, and use the same place of PSUM"
            " for the next piece.",
            "In the loop: size = min(512, n - start); nisa.nc_matmul(dst=total[:, 0:size], stationary=left,"
            " moving=right[:, start : start + size], accumulate=False); nisa.tensor_copy(dst=result[:, start :"
            " start + size], src=total[:, 0:size])",
        ),
    ),
    Places(
        id="10.14",
        title="Column by column",
        statement="""\
Which access pattern reads an array in HBM column by column: first all of column 0 from above, then
column 1, and so on? Answer with a function that returns the arguments of `.ap`.""",
        sizes=(
            {"rows": 4, "columns": 7},
            {"rows": 5, "columns": 3},
            {"rows": 1, "columns": 6},
        ),
        shape=lambda rows, columns: (rows, columns),
        wanted=lambda rows, columns: _numbers(rows, columns).T,
        hints=(
            "The last pair runs fastest. Which step leads from an element to the one below it?",
            "One row further down is `columns` elements further on in memory; the next column is 1 further on.",
            'return {"pattern": [[1, columns], [columns, rows]]}',
        ),
    ),
    Places(
        id="10.15",
        title="The diagonal",
        statement="""\
Which access pattern reads the diagonal of an array in HBM, [0, 0], [1, 1], [2, 2] and so on, until the
rows or the columns end? Answer with a function that returns the arguments of `.ap`.""",
        sizes=(
            {"rows": 4, "columns": 7},
            {"rows": 6, "columns": 3},
            {"rows": 5, "columns": 5},
        ),
        shape=lambda rows, columns: (rows, columns),
        wanted=lambda rows, columns: np.diagonal(_numbers(rows, columns)),
        hints=(
            "One pair is enough. How far is it in memory from [0, 0] to [1, 1]?",
            "One row further down is `columns` elements, one column further right is 1. How many steps are there?",
            'return {"pattern": [[columns + 1, min(rows, columns)]]}',
        ),
    ),
)
