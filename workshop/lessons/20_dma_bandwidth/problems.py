"""Exercises of notebook 20, DMA bandwidth."""

from __future__ import annotations

import json
import math

from nki_lab.exercises.evidence import profile_of_run, summary_value
from nki_lab.exercises.problem import Limits, Mistake, Question, Task, Tiers

_LENGTHS = ("64", "256", "1024", "2048", "8192")
_ENOUGH = 0.9


def _rate(run) -> float:
    """Return the bytes that a run moved by its whole time, in GB/s."""
    return summary_value("dma_transfer_total_bytes", run) / summary_value("total_time", run) / 1e9


def _shares(run) -> dict[str, float]:
    """Return which share of the peak the loads of a run reach, by the length of their descriptors."""
    profile = profile_of_run(run)
    transfers = profile.table("DmaPacketAggregated")
    found = {}
    for op, shape, moved, rate in zip(
        *(transfers[name] for name in ("op", "read_shape", "transfer_bytes", "throughput")),
        strict=True,
    ):
        descriptors = math.prod(json.loads(shape)[:-1])
        if op == "read":
            share = rate / 1e9 / profile.target.dma_bytes_per_ns_all_engines
            found[str(moved // descriptors)] = float(share)
    return found


def _about_loads(run) -> str:
    missing = set(_LENGTHS) - set(_shares(run))
    return f"it has no load with descriptors of {min(missing)} bytes" if missing else ""


def _shortest(run) -> str:
    shares = _shares(run)
    return next(length for length in _LENGTHS if shares[length] >= _ENOUGH)


def _reached(run) -> str:
    shares = _shares(run)
    return ", ".join(f"{length} bytes reach {shares[length]:.0%}" for length in _LENGTHS)


def _add(a, b):
    return a + b


PROBLEMS = (
    Question(
        id="20.1",
        title="The rate of a run",
        statement="""\
How many GB (10^9 bytes) per second did the run of `add_row` move, on average over its whole time? All
bytes count that a transfer moves, into SBUF and out of it.""",
        unit="GB/s",
        truth=_rate,
        evidence=lambda run: (
            f"{summary_value('dma_transfer_total_bytes', run, 1e-6):.2f} MB in"
            f" {summary_value('total_time', run, 1e6):.2f} us, and all engines together could move"
            f" {profile_of_run(run).target.dma_bytes_per_ns_all_engines:.0f} GB/s"
        ),
        hints=(
            "Bytes by seconds are bytes per second; 10^9 of them are one GB per second.",
            "summary = add_row_result.profile.summary has both numbers.",
            'summary["dma_transfer_total_bytes"] / summary["total_time"] / 1e9',
        ),
    ),
    Task(
        id="20.2",
        title="All partitions",
        statement="""\
`add_wide(a, b)` returns `a + b` for two vectors of the same length, a multiple of 128, and uses all 128
partitions.""",
        signature="add_wide(a, b)",
        inputs=lambda draw, columns: (draw(128 * columns), draw(128 * columns)),
        reference=_add,
        cases=({"columns": 512}, {"columns": 1}, {"columns": 600}),
        fresh={"columns": (2, 300)},
        limits=Limits(transfers=12, avoids=("dma_compute",)),
        tiers={"trn2": Tiers(passes=9.0, star=6.6)},
        mistakes=(
            Mistake(
                lambda a, b: a + b.reshape(-1, 128).T.ravel(),
                "the numbers of `b` came in another order than those of `a`",
                "cut both vectors, and the result, in the same way",
            ),
        ),
        hints=(
            "A vector of n numbers is also an array of 128 rows with n // 128 numbers each.",
            "a.reshape((128, n // 128)) is that array, as a view; the result has one, too.",
            "Tiles of (128, n // 128), loads from a.reshape(shape) and b.reshape(shape), one addition, and a"
            " store with dst=out.reshape(shape).",
        ),
    ),
    Question(
        id="20.3",
        title="Long enough",
        statement="""\
Of descriptors of 64, 256, 1024, 2048 and 8192 bytes, which are the shortest with which a load of 1 MiB into
128 partitions reaches nine tenths of what all DMA engines could move?""",
        choices={
            length: f"shorter ones do not reach nine tenths, those of {length} bytes do"
            for length in _LENGTHS
        },
        truth=_shortest,
        evidence=_reached,
        about=_about_loads,
        hints=(
            "The table above has all five lengths.",
            "Go up from the shortest one, and take the first that says 90 % or more.",
            "1024 bytes are still a little below, and 8192 are more than needed.",
        ),
    ),
    Task(
        id="20.4",
        title="Hidden descriptors",
        statement="""\
`every_other(x)` returns `x[:, ::2]` for at most 128 rows and an even number of columns, without a
transfer whose descriptors have the length of one element.""",
        signature="every_other(x)",
        inputs=lambda draw, rows, pairs, dtype: (draw(rows, 2 * pairs, dtype=dtype),),
        reference=lambda x: x[:, ::2],
        cases=(
            {"rows": 128, "pairs": 512, "dtype": "float32"},
            {"rows": 1, "pairs": 1, "dtype": "float32"},
            {"rows": 100, "pairs": 33, "dtype": "bfloat16"},
        ),
        fresh={"rows": (2, 127), "pairs": (2, 200)},
        mistakes=(
            Mistake(
                lambda x: x[:, 1::2],
                "these are the other columns, x[:, 1::2]",
                "the first one is column 0",
            ),
            Mistake(
                lambda x: x[:, : x.shape[1] // 2],
                "these are the first half of the columns: the step is missing",
                "a slice with a step: tile[:, 0:columns:2]",
            ),
        ),
        limits=Limits(transfers=4),
        tiers={"trn2": Tiers(passes=9.0, star=6.3)},
        hints=(
            "It may be faster to move twice as much, if it lies side by side.",
            "Load all of x into a tile, and let an engine read every other column of the tile.",
            "nisa.tensor_copy(dst=chosen, src=tile[:, 0:columns:2]) and then store `chosen`.",
        ),
    ),
    Task(
        id="20.5",
        title="The right size",
        statement="""\
`add_stream(a, b)` returns `a + b` for vectors whose length is any multiple of 128, in pieces along the free
axis that overlap. It is to be faster than one large piece, and than pieces that are too small.""",
        signature="add_stream(a, b)",
        inputs=lambda draw, columns, dtype: (
            draw(128 * columns, dtype=dtype),
            draw(128 * columns, dtype=dtype),
        ),
        reference=_add,
        cases=(
            {"columns": 2048, "dtype": "float32"},
            {"columns": 1, "dtype": "float32"},
            {"columns": 1100, "dtype": "bfloat16"},
        ),
        fresh={"columns": (2, 600)},
        limits=Limits(avoids=("dma_compute",)),
        tiers={"trn2": Tiers(passes=13.5, star=12.0)},
        hints=(
            "Which size was the fastest in the table? Take `add_columns` with it, and mind the last piece.",
            "stop = min(start + size, n // 128), and tiles of shape (128, stop - start).",
            "for start in range(0, n // 128, 1024): loads of [:, start:stop], the addition, and the store to the"
            " same columns of the result.",
        ),
    ),
    Task(
        id="20.6",
        title="Many small blocks",
        statement="""\
`add_blocks(p, q)` returns `p + q` for arrays of [blocks, rows, columns] with any number of blocks, and at most
128 rows. Starting the transfers is not to be what takes the time.""",
        signature="add_blocks(p, q)",
        inputs=lambda draw, blocks, rows, columns: (
            draw(blocks, rows, columns),
            draw(blocks, rows, columns),
        ),
        reference=lambda p, q: p + q,
        cases=(
            {"blocks": 24, "rows": 128, "columns": 64},
            {"blocks": 1, "rows": 1, "columns": 3},
            {"blocks": 7, "rows": 60, "columns": 9},
        ),
        fresh={"blocks": (2, 20), "rows": (2, 127), "columns": (2, 30)},
        mistakes=(
            Mistake(
                lambda p, q: p + q[::-1],
                "blocks of `p` were added to other blocks of `q`",
                "both loads of a step take the same blocks",
            ),
        ),
        tiers={"trn2": Tiers(passes=32.0, star=13.5)},
        hints=(
            "One transfer takes some 600 ns to be started, and there are three for each block.",
            "Either let Scalar start half of them (dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar), or"
            " move several blocks in one transfer: p[start:stop].permute((1, 0, 2)).",
            "for start in range(0, blocks, 6): stop = min(start + 6, blocks); tiles of (rows, stop - start,"
            " columns); dst=out[start:stop].permute((1, 0, 2)) for the store.",
        ),
    ),
)
