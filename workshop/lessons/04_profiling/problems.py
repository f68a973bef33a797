"""Exercises of notebook 04, Profiling."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.evidence import (
    BOTTLENECKS,
    bottleneck,
    busy_shares,
    profile_of_run,
    summary_value,
)
from nki_lab.exercises.problem import Cause, Limits, Mistake, Question, Task, Tiers
from nki_lab.profiler.analyses.what_if import WhatIf

_GAINS = {
    "free-loads": "loads that took no time would shorten it the most",
    "free-stores": "stores that took no time would shorten it the most",
    "free-vector": "an infinitely fast Vector engine would shorten it the most",
    "free-scalar": "an infinitely fast Scalar engine would shorten it the most",
}


def _traffic(run) -> float:
    """Return the bytes moved for each byte of the result."""
    return summary_value("dma_transfer_total_bytes", run) / summary_value("hbm_write_bytes", run)


def _gain(run, change: str) -> float:
    """Return the share of its time that a run would lose by a change."""
    answer = profile_of_run(run).what_if(change)
    assert isinstance(answer, WhatIf)
    return answer.gain_share


def _largest_gain(run) -> str:
    return max(_GAINS, key=lambda change: _gain(run, change))


def _gains(run) -> str:
    parts = [f"{change} {_gain(run, change):.0%}" for change in _GAINS]
    return "the run would become shorter by " + ", ".join(parts)


PROBLEMS = (
    Question(
        id="04.1",
        title="Bytes for a byte",
        statement="""\
How many bytes does `scaled_exp` move between HBM and SBUF for each byte of its result? Count from the
kernel first, with `x` [512, 1024] and `w` [1, 1024] in float32, then look at the report.""",
        unit="bytes",
        truth=_traffic,
        evidence=lambda run: f"{_traffic(run):.1f} bytes are moved for each byte of the result",
        hints=(
            "Each iteration loads a tile of x, fills a tile with w, and stores a tile. Are they equally large?",
            "The tile `weight` has as many elements as the tile of x: what is broadcast is moved for every partition.",
            "Three tiles of the same size are moved in each iteration, one of them is the result.",
        ),
    ),
    Question(
        id="04.2",
        title="What bounds it",
        statement="""\
Which engine, or the DMA, is busy for half of the time or longer, so that the kernel cannot become much
faster unless that one has less to do?""",
        choices=BOTTLENECKS,
        truth=bottleneck,
        evidence=busy_shares,
        hints=(
            "Look at the column `share` of the report, and at the lanes of the timeline.",
            "In the timeline one kind of lane has hardly any gaps.",
            "The report says it in its second line: bound by DMA.",
        ),
    ),
    Question(
        id="04.3",
        title="Where time could be won",
        statement="""\
Of four changes, which would shorten the run the most: loads that take no time (`free-loads`), stores
that take no time (`free-stores`), an infinitely fast Vector engine (`free-vector`), or Scalar engine
(`free-scalar`)? Guess first; `--what-if` of `%nki` computes it.""",
        choices=_GAINS,
        truth=_largest_gain,
        evidence=_gains,
        hints=(
            "What does not lie on the critical path can become faster without any effect.",
            'Ask the model: %nki --run "scaled_exp(x, w)" --show none --what-if free-loads,free-vector',
            "Two thirds of what is moved are loads.",
        ),
    ),
    Task(
        id="04.4",
        title="One change",
        statement="""\
`scaled_exp_once(x, w)` returns `exp(x) * w`, as `scaled_exp` does, for any number of rows, and moves the
row `w` into SBUF only once.""",
        signature="scaled_exp_once(x, w)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(1, columns)),
        reference=lambda x, w: np.exp(x) * w,
        cases=(
            {"rows": 512, "columns": 1024},
            {"rows": 1, "columns": 3},
            {"rows": 130, "columns": 8},
        ),
        fresh={"rows": (129, 300), "columns": (2, 64)},
        rtol=1e-4,
        mistakes=(
            Mistake(lambda x, w: np.exp(x * w), "the result is exp(x * w): w came too early"),
        ),
        limits=Limits(transfers=9, transfer_bytes=4_718_592),
        tiers={"trn2": Tiers(passes=18.0, star=15.0)},
        hints=(
            "Which statement of the loop does the same in every iteration?",
            "Move it before the loop, with a tile of 128 rows. The last tile of x may be smaller: slice.",
            "Before the loop: weight = nl.ndarray((128, columns), ...) and one dma_copy from"
            " w.broadcast(0, 128). In the loop: data2=weight[0 : stop - start].",
        ),
    ),
    Task(
        id="04.5",
        title="The early return",
        statement="""\
`squares(x)` is to return `x * x` for any number of rows. It does so for 128 rows, and for 512 rows its
time is suspiciously good. Name the cause, then mend it.""",
        signature="squares(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: x * x,
        cases=(
            {"rows": 512, "columns": 256},
            {"rows": 1, "columns": 4},
            {"rows": 128, "columns": 4},
        ),
        fresh={"rows": (129, 400), "columns": (2, 64)},
        cause=Cause(
            "return",
            {
                "return": "the kernel ends after the first iteration of its loop",
                "slice": "the slices of two iterations overlap",
                "race": "the store does not wait for the product",
                "rounding": "the product is rounded to a narrower dtype",
            },
        ),
        hints=(
            "How many transfers should there be with 512 rows, and how many does the report count?",
            "The finding says which part of the result is never written: everything behind the first tile.",
            "`return out` is indented by one level too much: it belongs to the loop. Move it to the left.",
        ),
    ),
)
