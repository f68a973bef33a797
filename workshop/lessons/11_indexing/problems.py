"""Exercises of notebook 11, Indexing and access patterns."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.problem import Limits, Mistake, Task


def _by_groups(x: np.ndarray, groups: int) -> np.ndarray:
    """Return the columns in another order: the first of each group, the second of each, and so on."""
    return x.reshape(len(x), groups, -1).transpose(0, 2, 1).reshape(x.shape)


def _windows(x: np.ndarray, width: int, step: int = 1) -> np.ndarray:
    """Return a window of a row for each place where it fits."""
    found = np.lib.stride_tricks.sliding_window_view(x[0], width)
    return found[::step]


PROBLEMS = (
    Task(
        id="11.1",
        title="Two ragged edges",
        statement="""\
`triple_tiles(x)` returns `3 * x` for any number of rows and columns. A tile has at most 128 rows and,
so that several fit into SBUF at the same time, at most 256 columns.""",
        signature="triple_tiles(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: 3 * x,
        cases=(
            {"rows": 200, "columns": 700},
            {"rows": 128, "columns": 256},
            {"rows": 1, "columns": 257},
            {"rows": 129, "columns": 1},
        ),
        fresh={"rows": (1, 300), "columns": (1, 600)},
        limits=Limits(transfers=12, instructions={"vector": 6}, sbuf_bytes=8 * 1024),
        mistakes=(
            Mistake(lambda x: x, "the result is x: nothing was multiplied", "op0=nl.multiply"),
        ),
        hints=(
            "Two loops, one over the rows in steps of 128, one over the columns in steps of 256. Print where each"
            " tile of 200 x 700 begins and ends.",
            "Each loop needs its own min(): height = min(128, rows - top), width = min(256, columns - left).",
            "where = (slice(top, top + height), slice(left, left + width)); a tile of shape (height, width);"
            " nisa.dma_copy(dst=tile, src=x[where]), multiply, nisa.dma_copy(dst=out[where], src=tile)",
        ),
    ),
    Task(
        id="11.2",
        title="Only what is needed",
        statement="""\
`odd_rows(x, first)` returns the rows 1, 3, 5, ... of `x`, without the columns before `first`. It reads
from `x` only what it returns, with one transfer.""",
        signature="odd_rows(x, first)",
        inputs=lambda draw, rows, columns, first: (draw(rows, columns), first),
        reference=lambda x, first: x[1::2, first:],
        reads=lambda rows, columns, first: np.s_[1::2, first:],
        cases=(
            {"rows": 9, "columns": 14, "first": 3},
            {"rows": 2, "columns": 1, "first": 0},
            {"rows": 12, "columns": 10, "first": 9},
        ),
        fresh={"rows": (2, 16), "columns": (10, 40), "first": (0, 8)},
        limits=Limits(transfers=2),
        mistakes=(
            Mistake(
                lambda x, first: x[0 : 2 * (len(x) // 2) : 2, first:],
                "the result has the even rows: 0, 2, 4, ...",
                "a slice start:stop:step begins at start",
            ),
        ),
        hints=(
            "A slice has a step: start:stop:step. HBM can be sliced along both axes at the same time.",
            "How many rows does 1::2 have when `x` has 9? And when it has 12?",
            "A tile of shape (rows // 2, columns - first), and nisa.dma_copy(dst=tile, src=x[1::2, first:])",
        ),
    ),
    Task(
        id="11.3",
        title="A mask that follows the indices",
        statement="""\
`lower_triangle(x)` returns x[i, j] where j <= i, and 0 elsewhere, for at most 128 rows.""",
        signature="lower_triangle(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=np.tril,
        cases=(
            {"rows": 60, "columns": 100},
            {"rows": 128, "columns": 128},
            {"rows": 100, "columns": 9},
            {"rows": 2, "columns": 3},
        ),
        fresh={"rows": (2, 128), "columns": (2, 200)},
        limits=Limits(transfers=2, uses=("affine_select",)),
        mistakes=(
            Mistake(
                np.triu,
                "the result keeps j >= i: the upper triangle",
                "row 5: which columns are kept, and what is the position there?",
            ),
            Mistake(
                lambda x: np.tril(x, -1),
                "the result keeps j < i: the diagonal is missing",
                "greater, or greater or equal?",
            ),
        ),
        hints=(
            "The position of an element is offset + i * channel_multiplier + j * step, from pattern=[[step, count]].",
            "j <= i is the same as i - j >= 0. Which step makes the position i - j?",
            "nisa.affine_select(dst=result, pattern=[[-1, columns]], channel_multiplier=1, offset=0,"
            " cmp_op=nl.greater_equal, on_true_tile=tile, on_false_value=0.0)",
        ),
    ),
    Task(
        id="11.4",
        title="Sliding windows",
        statement="""\
`windows(x, width)` returns for a row `x` [1, n] all windows of `width` elements: row i of the result is
x[0, i : i + width]. There are n - width + 1, at most 128. One load, one store.""",
        signature="windows(x, width)",
        inputs=lambda draw, count, width: (draw(1, count + width - 1), width),
        reference=_windows,
        cases=(
            {"count": 94, "width": 7},
            {"count": 128, "width": 3},
            {"count": 1, "width": 5},
            {"count": 6, "width": 1},
        ),
        fresh={"count": (2, 128), "width": (2, 40)},
        limits=Limits(transfers=2),
        hints=(
            "Where does window i + 1 begin, counted from where window i begins?",
            "Two pairs: one from window to window, one from element to element. Both strides are the same.",
            "nisa.dma_copy(dst=tile, src=x.ap(pattern=[[1, count], [1, width]])) with a tile [count, width]",
        ),
    ),
    Task(
        id="11.5",
        title="Two arrays, taking turns",
        statement="""\
`interleaved(a, b)` returns [rows, 2 * columns]: columns 0, 2, 4, ... are those of `a`, the others those of
`b`. It has at most 128 rows. Store with one transfer.""",
        signature="interleaved(a, b)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        reference=lambda a, b: np.stack([a, b], axis=2).reshape(len(a), -1),
        cases=(
            {"rows": 60, "columns": 50},
            {"rows": 128, "columns": 2},
            {"rows": 1, "columns": 1},
        ),
        fresh={"rows": (2, 128), "columns": (2, 200)},
        limits=Limits(transfers=3, instructions={"vector": 2}),
        mistakes=(
            Mistake(
                lambda a, b: np.concatenate([a, b], axis=1),
                "the columns of `b` come after all of those of `a`",
                "slices with a step of 2",
            ),
            Mistake(
                lambda a, b: np.stack([b, a], axis=2).reshape(len(a), -1),
                "`b` comes first, then `a`",
                "column 0 of the result is column 0 of `a`",
            ),
        ),
        hints=(
            "A view can be written to as well: dst may be a slice with a step.",
            "Make a tile of the width of the result, and copy each array into every second column of it.",
            "nisa.tensor_copy(dst=result[:, 0::2], src=left), and 1::2 for the other",
        ),
    ),
    Task(
        id="11.6",
        title="One row for all partitions",
        statement="""\
`add_row(x, row)` returns x + row for `x` [rows, columns] with at most 128 rows, and `row` [1, columns].
Three transfers and one addition.""",
        signature="add_row(x, row)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(1, columns)),
        reference=lambda x, row: x + row,
        cases=(
            {"rows": 100, "columns": 50},
            {"rows": 128, "columns": 128},
            {"rows": 1, "columns": 3},
        ),
        fresh={"rows": (2, 128), "columns": (2, 300)},
        limits=Limits(transfers=3, instructions={"vector": 1, "scalar": 0, "gpsimd": 0}),
        hints=(
            "A partition sees only what lies in it. So the row must be in each of them before the addition.",
            "A transfer can read the same row again and again: a stride of 0 along the first axis.",
            "nisa.dma_copy(dst=copies, src=row.broadcast(0, rows)), or row.ap(pattern=[[0, rows], [1, columns]])",
        ),
    ),
    Task(
        id="11.7",
        title="Each column several times",
        statement="""\
`repeated(x, times)` returns each column `times` times, one after the other: [rows, columns * times], for at
most 128 rows. Two transfers, and one instruction that copies.""",
        signature="repeated(x, times)",
        inputs=lambda draw, rows, columns, times: (draw(rows, columns), times),
        reference=lambda x, times: np.repeat(x, times, axis=1),
        cases=(
            {"rows": 40, "columns": 30, "times": 3},
            {"rows": 128, "columns": 1, "times": 4},
            {"rows": 1, "columns": 7, "times": 2},
        ),
        fresh={"rows": (2, 128), "columns": (2, 40), "times": (2, 9)},
        limits=Limits(transfers=2, instructions={"vector": 1, "scalar": 0, "gpsimd": 0}),
        mistakes=(
            Mistake(
                lambda x, times: np.tile(x, (1, times)),
                "the whole row is repeated, not each column: 0 1 2 0 1 2 instead of 0 0 1 1 2 2",
                "the new axis runs faster than the columns: it is the last one",
            ),
        ),
        hints=(
            "See the result as [rows, columns, times]: along the last axis the same element again and again.",
            "tile.expand_dim(2) is [rows, columns, 1], and .broadcast(2, times) repeats the axis of size 1.",
            "nisa.tensor_copy(dst=result.reshape((rows, columns, times)), src=tile.expand_dim(2).broadcast(2, times))",
        ),
    ),
    Task(
        id="11.8",
        title="The largest of each group",
        statement="""\
`largest_of(x, count)` returns the largest of every `count` adjacent columns: [rows, columns // count], for
at most 128 rows and a number of columns that `count` divides. One reduction.""",
        signature="largest_of(x, count)",
        inputs=lambda draw, rows, groups, count: (draw(rows, groups * count), count),
        reference=lambda x, count: x.reshape(len(x), -1, count).max(axis=2),
        cases=(
            {"rows": 40, "groups": 6, "count": 5},
            {"rows": 128, "groups": 2, "count": 2},
            {"rows": 1, "groups": 1, "count": 8},
        ),
        fresh={"rows": (2, 128), "groups": (2, 30), "count": (2, 9)},
        limits=Limits(transfers=2, instructions={"vector": 1}),
        mistakes=(
            Mistake(
                lambda x, count: x.reshape(len(x), count, -1).max(axis=1),
                "the groups are columns that lie far apart, not adjacent ones",
                "which of the two new axes runs faster: the group, or the place in it?",
            ),
        ),
        hints=(
            "See the columns as two axes, and reduce one of them.",
            "tile.reshape((rows, groups, count)): the last axis runs fastest, so it holds adjacent columns.",
            "nisa.tensor_reduce(dst=result, data=tile.reshape((rows, groups, count)), op=nl.maximum, axis=2)",
        ),
    ),
    Task(
        id="11.9",
        title="Regrouped columns",
        statement="""\
The columns of `x` come in `groups` groups of equal size. `regrouped(x, groups)` returns them in another
order: the first of each group, then the second of each, and so on. At most 128 rows, one copy on the chip.""",
        signature="regrouped(x, groups)",
        inputs=lambda draw, rows, groups, size: (draw(rows, groups * size), groups),
        reference=_by_groups,
        cases=(
            {"rows": 40, "groups": 5, "size": 6},
            {"rows": 128, "groups": 4, "size": 4},
            {"rows": 2, "groups": 3, "size": 2},
        ),
        fresh={"rows": (2, 128), "groups": (2, 12), "size": (2, 12)},
        limits=Limits(
            transfers=2, transfer_bytes=2 * 40 * 30 * 4, instructions={"vector": 1, "scalar": 0}
        ),
        mistakes=(
            Mistake(
                lambda x, groups: x.reshape(len(x), -1, groups).transpose(0, 2, 1).reshape(x.shape),
                "that is the way back: it puts regrouped columns into groups again",
                "which of the two sizes comes first when you split the columns?",
            ),
        ),
        hints=(
            "Split the columns into two axes, [groups, size], and read them in the other order.",
            "A permuted view cannot be flattened, since its elements do not follow each other. But the result's tile"
            " can be split in the other order, [size, groups], and written.",
            "nisa.tensor_copy(dst=result.reshape((rows, size, groups)),"
            " src=tile.reshape((rows, groups, size)).permute((0, 2, 1)))",
        ),
    ),
    Task(
        id="11.10",
        title="One long row on all partitions",
        statement="""\
`triple_flat(x)` returns `3 * x` for one long row `x` [1, n], where n is a multiple of 128. All 128 partitions
take part: one instruction, and only n / 128 elements in each partition.""",
        signature="triple_flat(x)",
        inputs=lambda draw, size: (draw(1, 128 * size),),
        reference=lambda x: 3 * x,
        cases=({"size": 20}, {"size": 1}, {"size": 3}),
        fresh={"size": (1, 60)},
        limits=Limits(transfers=2, sbuf_bytes=2 * 20 * 4, instructions={"vector": 1}),
        mistakes=(
            Mistake(lambda x: x, "the result is x: nothing was multiplied", "op0=nl.multiply"),
        ),
        hints=(
            "On the chip the partition axis is fixed. In HBM there are no partitions, so any split is a view.",
            "x.reshape((128, n // 128)): partition i gets piece number i of the row.",
            "Load x.reshape(shape) into a tile of shape (128, n // 128), multiply, and store it to"
            " out.reshape(shape).",
        ),
    ),
)
