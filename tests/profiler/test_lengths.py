"""Tests that every text about a run is as short as promised, whatever ran."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.profiler.answers import ANALYSES
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.text_table import ANSWER_LINES
from nki_lab.targets import TRN2
from nki_lab.views.registry import view_names
from nki_lab.views.texts import view_text
from tests.simulator.kernels import EXAMPLES


def many_loops(x):
    """Twelve nested and following loops, each of many passes, on every engine."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(2):
        for _ in range(3):
            tile = nl.load(x)
            for _ in range(2):
                tile = nl.exp(nl.add(tile, 1.0))
            for _ in range(2):
                tile = nl.multiply(tile, tile)
            nl.store(out, nl.gelu(nl.maximum(nl.reciprocal(tile), 0.5)))
    for _ in range(3):
        nl.store(out, nl.load(out))
    return out


@pytest.mark.parametrize("name", [*EXAMPLES, "many_loops"])
def test_answers_and_views_of_real_kernels_are_short(name: str):
    if name == "many_loops":
        kernel, arrays = many_loops, [np.ones((64, 96), np.float32)]
    else:
        kernel = EXAMPLES[name].kernel
        arrays = EXAMPLES[name].arrays(np.random.default_rng(3))
    result = nki_lab.run(kernel, *arrays, target="trn2")
    for question, answer in ANALYSES.items():
        assert len(answer(result.profile).split("\n")) < 40, question
    for limit in (40, 25):
        for view in view_names():
            lines = view_text(result.view_data, view, limit).split("\n")
            assert len(lines) <= limit, (view, limit, lines)


@pytest.mark.parametrize("cores", [1, 2])
def test_answers_about_a_profile_of_any_engines_and_loops_are_short(cores: int):
    """A profile of other tools may name fifty engines, each of which waits for all others in many ways."""
    rng = np.random.default_rng(cores)
    count = 3_000
    start = np.sort(rng.integers(0, 90_000, count))
    engines = [f"engine{n}" for n in rng.integers(0, 50, count)]
    instructions = {
        "start_ts": start,
        "end_ts": start + rng.integers(1, 300, count),
        "id": np.arange(count),
        "engine": engines,
        "opcode": [f"OP{n}" for n in rng.integers(0, 80, count)],
        "nki_source_location": [f"k.py:{n}" for n in rng.integers(1, 200, count)],
        "evt_wait_time_ns": rng.integers(0, 50, count),
        "pcore_idx": rng.integers(0, cores, count),
        "kernel_instruction_name": [f"inst.{n}:0" for n in range(count)],
    }
    edges = rng.integers(0, count, (2, 2_000))
    flow = {
        "in_id": edges.min(0),
        "out_id": edges.max(0),
        "in_table": "instruction",
        "out_table": "instruction",
    }
    variables = {
        "iteration_variable_id": np.arange(60),
        "variable_name": [f"i{n}" for n in range(60)],
        "variable_value": 0,
        "file_path": "k.py",
        "line_number": np.arange(60),
    }
    of_instruction = {
        "kernel_instruction_name": instructions["kernel_instruction_name"],
        "iteration_variables_id": np.arange(count) % 60,
        "iteration_variable_depth": 0,
        "pcore_idx": instructions["pcore_idx"],
    }
    run = Profile.from_tables(
        TRN2,
        {
            "Instruction": instructions,
            "Flow": flow,
            "KernelIterationVariables": variables,
            "KernelInstructions": of_instruction,
        },
        is_simulation=False,
    )
    told = {
        name: ANALYSES[name](run) for name in ("path", "stalls", "lines", "iterations", "roofline")
    }
    for name, text in told.items():
        assert len(text.split("\n")) < 40, name
    assert len(told["stalls"].split("\n")) == ANSWER_LINES  # all that there is room for
    assert told["stalls"].endswith(" more lines")
    assert len(str(run.stalls()).split("\n")) < 40
