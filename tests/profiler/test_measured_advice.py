"""Tests that a measured run is given advice from its tables alone, with numbers that a formula gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import nki
from nki_lab.profiler.intervals import covered_ns
from nki_lab.profiler.profile import Profile
from tests.profiler.captures import explorer_folder

X = np.random.default_rng(2).standard_normal((128, 512)).astype(np.float32)


@nki.jit
def narrow(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for column in range(0, 512, 32):
        nl.store(out[:, column : column + 32], nl.load(x[:, column : column + 32]))
    return out


@nki.jit
def again(x):
    out = nl.ndarray((4, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    for turn in range(4):
        nl.store(out[turn], nl.load(x))
    return out


def measured(kernel, folder: Path) -> Profile:
    modelled = nki_lab.run(kernel, X, target="trn2").profile
    return nki_lab.load_profile(explorer_folder(modelled, folder / "export"))


def test_small_transfers_are_told_with_what_they_leave_idle(tmp_path: Path) -> None:
    profile = measured(narrow, tmp_path)
    advice = profile.advice().of("small DMAs")
    rows = list(profile.records("DmaPacketAggregated"))
    assert {row["transfer_bytes"] for row in rows} == {128 * 32 * 4}
    busy = covered_ns(*(np.array([row[name] for row in rows]) for name in ("start_ts", "end_ts")))
    data = len(rows) * 128 * 32 * 4 / profile.target.dma_bytes_per_ns_all_engines
    assert [a.gain_ns for a in advice] == [pytest.approx(busy - data, abs=1)]
    assert "32 transfers with a median of 128 B per partition" in advice[0].message
    assert advice[0].places[0].endswith(f"{Path(__file__).name}:24")
    assert "a measured run is not timed again" in advice[0].bound


def test_a_tensor_that_is_loaded_four_times_is_told(tmp_path: Path) -> None:
    profile = measured(again, tmp_path)
    [advice] = profile.advice().of("reloaded input")
    saved = 3 * X.nbytes / profile.target.dma_bytes_per_ns_all_engines
    assert advice.gain_ns == pytest.approx(saved, abs=1)
    assert "`x` is loaded 4.0 times over" in advice.message
    assert not profile.advice().of("small DMAs")
