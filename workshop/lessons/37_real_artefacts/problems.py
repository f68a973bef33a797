"""Exercises of notebook 37, Files from a device."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.exercises.artefacts import write_files
from nki_lab.exercises.evidence import BOTTLENECKS, bottleneck, busy_shares
from nki_lab.exercises.problem import Question
from nki_lab.hardware.importers import load_profile
from nki_lab.hardware.neff import belongs, read_neff
from nki_lab.profiler.analyses.model_error import ModelErrors, model_errors
from nki_lab.runtime import jit, run


@jit
def gated_rows(x: Any, w: Any) -> Any:
    """Return exp(gelu(x)) * w."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    weight = nl.ndarray((128, x.shape[1]), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w.broadcast(0, 128))
    for start in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + 128])
        nisa.activation(dst=tile, op=nl.gelu, data=tile)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weight, op=nl.multiply)
        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


@cache
def _folder() -> Path:
    """Return a folder with the files of the notebook."""
    folder = Path(tempfile.mkdtemp())
    large, small = (
        run(
            gated_rows,
            np.ones((rows, 256), np.float32),
            np.ones((1, 256), np.float32),
            target="trn2",
        )
        for rows in (512, 128)
    )
    write_files(large, small, folder)
    return folder


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_folder() / "export.json").read_text())
    return document


def _errors() -> ModelErrors:
    modelled = load_profile(_folder() / "modelled.json")
    return model_errors(modelled, load_profile(_folder() / "export.json", target="trn2"))


_UNITS = {
    "ps": "then the last instruction would end a few microseconds after the first began",
    "ns": "then the run would take some milliseconds",
    "us": "then the run would take some seconds",
}
_PER_SECOND = {"ps": 1e12, "ns": 1e9, "us": 1e6}


def _span(document: dict[str, Any]) -> int:
    rows = document["instruction"]
    return max(r["timestamp"] + r["duration"] for r in rows) - min(r["timestamp"] for r in rows)


def _unit(document: dict[str, Any]) -> str:
    total = document["summary"][0]["total_time"]
    return min(_PER_SECOND, key=lambda unit: abs(_span(document) / _PER_SECOND[unit] / total - 1))


def _unit_evidence(document: dict[str, Any]) -> str:
    total = document["summary"][0]["total_time"]
    return f"the instructions span {_span(document):,}, and total_time is {total * 1e6:.3f} us"


def _between(document: dict[str, Any]) -> float:
    summary = document["summary"][0]
    return (summary["total_time"] - summary["total_exec_time"]) * 1e6


def _between_evidence(document: dict[str, Any]) -> str:
    first = document["instruction"][0]
    return f"{_between(document):.3f} us lie between them; {first['opcode']} takes {first['duration'] / 1e6:.3f} us"


def _worst_evidence(errors: ModelErrors) -> str:
    row = errors.classes[0]
    return f"{row.name} takes {row.ratio:.2f} times as long as the model says"


def _program(folder: Path) -> str:
    names = ("a.neff", "b.neff")
    return next(n for n in names if belongs(read_neff(folder / n).uuid, folder / "profile.ntff"))


PROBLEMS = (
    Question(
        id="37.1",
        title="The unit",
        statement="In which unit are `timestamp` and `duration` of the instructions in `export.json`?",
        run=_document,
        choices=_UNITS,
        truth=_unit,
        evidence=_unit_evidence,
        hints=(
            "The summary knows how long the run took, in seconds.",
            "From the first timestamp to the end of the last instruction should take about total_time.",
            "The instructions span 22 million units, and total_time is 26 us: a millionth of that.",
        ),
    ),
    Question(
        id="37.2",
        title="Two totals",
        statement="How many microseconds lie between `total_exec_time` and `total_time`?",
        run=_document,
        unit="us",
        truth=_between,
        evidence=_between_evidence,
        hints=(
            "Both are in the summary, in seconds.",
            "Subtract them, and multiply by a million.",
            "(summary['total_time'] - summary['total_exec_time']) * 1e6",
        ),
    ),
    Question(
        id="37.3",
        title="What bounds it",
        statement="Which engine, or the DMA, is busy for half of the measured time or longer?",
        choices=BOTTLENECKS,
        truth=bottleneck,
        evidence=busy_shares,
        hints=(
            "Look at the lanes of the timeline.",
            "The wait at the beginning is no instruction of the kernel.",
            "Which engine computes gelu and exp?",
        ),
    ),
    Question(
        id="37.4",
        title="Where the model is wrong",
        statement="Which class of instructions takes longer than modelled? Write it as the table does: engine, opcode.",
        run=_errors,
        choices={
            "scalar ACTIVATE": "activations would take longer than modelled",
            "scalar ACT_TABLE_LOAD": "loads of activation tables would take longer than modelled",
            "vector TENSOR_TENSOR": "the products on Vector would take longer than modelled",
            "sync PSEUDO_DMA_TRIGGER": "triggers of transfers would take longer than modelled",
        },
        truth=lambda errors: errors.classes[0].name,
        evidence=_worst_evidence,
        hints=(
            "Look at the second table, `class`, and at its ratios.",
            "All ratios but one are 1.",
            "It is on the engine whose ratio is not 1.",
        ),
    ),
    Question(
        id="37.5",
        title="Which program was captured",
        statement="Which of `a.neff` and `b.neff` does `profile.ntff` belong to?",
        run=_folder,
        choices={
            "a.neff": "its UUID would stand in profile.ntff",
            "b.neff": "its UUID would stand in profile.ntff",
        },
        truth=_program,
        evidence=lambda folder: f"the UUID in profile.ntff is that of {_program(folder)}",
        hints=(
            "Both files carry a UUID.",
            "from nki_lab.hardware.neff import read_neff, belongs",
            'belongs(read_neff("a.neff").uuid, "profile.ntff") is True or False',
        ),
    ),
)
