"""The exports of one capture are read as the same events, whatever their format."""

import json

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import load_profile
from nki_lab.profiler.schema import TRANSFERS
from tests.hardware.standin import device, exports


def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for row in range(0, 256, 128):
        left = nl.multiply(nl.load(a[row : row + 128]), 3.0)
        nl.store(out[row : row + 128], nl.add(left, nl.load(b[row : row + 128])))
    return out


@pytest.fixture(scope="module")
def capture():
    """Measure a run, whose vector engine and transfers are slower than modelled."""
    rng = np.random.default_rng(31)
    a, b = (rng.standard_normal((256, 40)).astype(np.float32) for _ in range(2))
    model = nki_lab.run(scaled_sum, a, b, target="trn2").profile
    return device.measured(model, {"vector": 2.0, "dma": 1.5}, "trn2.3xlarge")


def export(profile, kind, folder):
    """Write a profile as the tools do, and return its path."""
    path = folder / {"parquet": "x@latest", "perfetto": "ntff.pftrace"}.get(kind, "ntff.json")
    if kind == "parquet":
        exports.parquet(profile, path)
    elif kind == "perfetto":
        exports.perfetto(profile, path)
    else:
        path.write_text(json.dumps(exports.document(profile, kind)))
    return path


def instructions(profile):
    rows = profile.records("Instruction")
    return sorted(
        (r["start_ts"], r["end_ts"], r["engine"], r["opcode"], r["nki_source_location"])
        for r in rows
    )


def transfers(profile):
    return sorted(
        (r["start_ts"], r["end_ts"], r["transfer_bytes"]) for r in profile.records(TRANSFERS)
    )


@pytest.mark.parametrize("kind", ["ns", "ps", "parquet", "perfetto"])
def test_events_are_those_of_the_capture(capture, tmp_path, kind):
    read = load_profile(export(capture, kind, tmp_path))
    assert instructions(read) == instructions(capture)
    assert transfers(read) == transfers(capture)
    assert not read.is_simulation
    assert read.target is capture.target
    assert read.total_ns == pytest.approx(capture.total_ns, abs=1)


def test_a_summary_is_read_as_metrics(capture, tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"n_0123456789ab": exports.summary(capture)}))
    read = load_profile(path, target="trn2")
    for name in ("total_time", "vector_engine_active_time_percent", "hbm_read_bytes"):
        assert read.summary[name] == pytest.approx(capture.summary[name])
