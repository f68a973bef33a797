"""Exercises of notebook 30, Two cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.exercises.evidence import BOTTLENECKS, bottleneck, busy_shares
from nki_lab.exercises.problem import Cause, Limits, Mistake, Question, Task, Tiers

_TARGETS = ("trn2", "trn3")

_CAUSES = {
    "missing": "no barrier stands between a core's write and the other's read of it",
    "reuse": "the next round writes over what the other core may still be reading",
    "private": "each core has a `staged` of its own, and never sees the other's",
    "partner": "one core waits at a barrier that the other never comes to",
}


def _shares(x):
    return x / x.sum(axis=1, keepdims=True)


def _own_shares(x):
    left, right = np.split(x, 2, axis=1)
    return np.concatenate([_shares(left), _shares(right)], axis=1)


def _crossed_shares(x):
    """Return each half divided by the sum of the other half."""
    left, right = (half.sum(axis=1, keepdims=True) for half in np.split(x, 2, axis=1))
    first, second = np.split(x, 2, axis=1)
    return np.concatenate([first / right, second / left], axis=1)


def _two_sums(x, y):
    return np.stack([x.sum(axis=1), y.sum(axis=1)], axis=1)


_SHARES: dict[str, Any] = {
    "inputs": lambda draw, rows, half: (2 + abs(draw(rows, 2 * half)),),
    "reference": _shares,
    "cases": ({"rows": 128, "half": 1024}, {"rows": 1, "half": 1}, {"rows": 7, "half": 20}),
    "fresh": {"rows": (2, 127), "half": (2, 90)},
    "rtol": 1e-4,
    "cores": 2,
    "targets": _TARGETS,
    "mistakes": (
        Mistake(
            _own_shares,
            "each core divides by the sum of its own half",
            "the sum of a row needs both halves: who tells a core the other's part?",
        ),
        Mistake(
            _crossed_shares,
            "each core divides by the sum of the other half alone",
            "the sum of a row is the sum of both parts",
        ),
    ),
}

PROBLEMS = (
    Task(
        id="30.1",
        title="A tile for you, a tile for me",
        statement="""\
`exponentials(x)` returns exp(x) for any number of rows. It is launched on two cores, which share the tiles of 128
rows between them, and it is also right on one core.""",
        signature="exponentials(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=np.exp,
        cases=(
            {"rows": 1024, "columns": 512},
            {"rows": 129, "columns": 3},
            {"rows": 1, "columns": 5},
            {"rows": 640, "columns": 2},
        ),
        fresh={"rows": (2, 700), "columns": (2, 40)},
        rtol=1e-4,
        cores=2,
        targets=_TARGETS,
        limits=Limits(transfers=16),
        tiers={"trn2": Tiers(passes=9.5, star=7.8)},
        hints=(
            "nl.program_id(0) is 0 or 1 here: which tiles should this core take? Think of dealing cards.",
            "Core c of n takes the tiles c, c + n, c + 2 * n, ...: range(core * 128, rows, cores * 128).",
            "for start in range(core * 128, rows, nl.num_programs() * 128): stop = min(start + 128, rows), a tile"
            " of (stop - start, columns), load, nisa.activation(op=nl.exp), store.",
        ),
    ),
    Question(
        id="30.2",
        title="Two cores for two tiles",
        statement="""\
For 256 rows, a tile for each core, the second core brought little. What bounds that run?
`%nki_profile two_tiles_result` shows who is busy.""",
        choices=BOTTLENECKS,
        truth=bottleneck,
        evidence=busy_shares,
        about=lambda run: "" if run.others else "this run has one core",
        hints=(
            "Look at the line `bound by`: is anything busy half of the time?",
            "Each core has one load, one exponential and one store, and each of them waits for the one before.",
            'Nothing is busy half of the time: "waiting".',
        ),
    ),
    Task(
        id="30.3",
        title="A sum over both cores",
        statement="""\
`shares(x)` returns each element divided by the sum of its row, for at most 128 rows and an even number of columns.
Core 0 loads the left half of the columns and core 1 the right half; each tells the other the sums of its half through
shared HBM.""",
        signature="shares(x)",
        limits=Limits(transfers=8, transfer_bytes=2_110_000, uses=("core_barrier",)),
        hints=(
            "Each core can sum up its own half. What must be known before both parts can be added?",
            "`sums`, [rows, 2] in shared HBM: core c stores its part to column c, then"
            " nisa.core_barrier(data=sums, cores=(0, 1)), then both load all of it.",
            "nisa.tensor_reduce of the loaded [rows, 2] gives the sums; nisa.reciprocal, and nisa.tensor_scalar with"
            " op0=nl.multiply and operand0=total.",
        ),
        **_SHARES,
    ),
    Task(
        id="30.4",
        title="From core to core",
        statement="""\
`shares_direct(x)` returns the same as `shares`, and the cores exchange their sums from SBUF to SBUF. No barrier is
needed: both are there when a sendrecv is complete.""",
        signature="shares_direct(x)",
        limits=Limits(uses=("sendrecv",), avoids=("core_barrier",), transfer_bytes=2_110_000),
        tiers={"trn2": Tiers(passes=11.5, star=10.5)},
        hints=(
            "`swap` in the notebook sends a tile and receives one. Which tile is it here?",
            "Send your column of sums, receive the other's into a second tile, and add the two.",
            "nisa.sendrecv(src=part, dst=others, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0), then"
            " nisa.tensor_tensor(dst=part, data1=part, data2=others, op=nl.add).",
        ),
        **_SHARES,
    ),
    Task(
        id="30.5",
        title="The second round",
        statement="""\
`two_sums(x, y)` returns the sums of the rows of `x` as column 0 and those of `y` as column 1, and both cores share the
work. There is a barrier, and still it is a race. Name the cause, and mend it.""",
        signature="two_sums(x, y)",
        inputs=lambda draw, rows, half: (
            draw(2 * rows, 2 * half, shift=0.5),
            draw(2 * rows, 2 * half, shift=0.5),
        ),
        reference=_two_sums,
        cases=({"rows": 64, "half": 128}, {"rows": 1, "half": 1}),
        fresh={"rows": (2, 63), "half": (2, 60)},
        rtol=1e-4,
        cores=2,
        targets=_TARGETS,
        limits=Limits(uses=("core_barrier",)),
        cause=Cause("reuse", _CAUSES),
        mistakes=(
            Mistake(
                lambda x, y: np.stack([x.sum(axis=1)] * 2, axis=1),
                "column 1 has the sums of x as well",
                "the second round takes y",
            ),
            Mistake(
                lambda x, y: _two_sums(*(t[:, : t.shape[1] // 2] for t in (x, y))),
                "the sums are those of the left half of the columns",
                "a row's sum needs the part of either core",
            ),
        ),
        hints=(
            "Which two lines does the finding name, and in which round is each of them?",
            "Core 0 may begin its second round while core 1 still loads from `staged` in the first.",
            "Make `staged` anew in each round (move nl.ndarray into the loop), or put a second barrier behind the"
            " load from it.",
        ),
    ),
)
