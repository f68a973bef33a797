"""Calibration by recovery: constants of a chip are changed, and found again in what that chip would have measured."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

import nki_lab
from nki_lab.cli.main import app
from nki_lab.errors import UsageError
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN1, TRN2, get_target
from nki_lab.targets.constants import TIMING
from tests.hardware.standin.exports import document
from tests.timing.calibrated import device, measured, runs, transfers

#: Of every engine and of transfers; as a device may differ from what documents say.
TRUE = {
    "dma_start_ns": 950, "dma_bytes_per_ns": 20.0, "dma_completion_ns": 400, "dma_descriptor_overhead_ns": 10.0,
    "semaphore_hop_ns": 70, "tensor_fixed_latency_ns": 220, "matmul_fp32_cycle_factor": 5,
    "load_stationary_columns_per_cycle": 3, "vector_binary_cycles": 1.3, "vector_fixed_latency_ns": 110,
    "vector_issue_overhead_cycles": 60, "scalar_fixed_latency_ns": 380, "scalar_ghz": 1.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def modelled():
    return runs(TRN2)


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    return runs(device(tmp_path_factory.mktemp("device"), **TRUE))


@pytest.fixture(scope="module")
def found(modelled, there):
    captures = [measured(run.profile, noise=0.02, seed=n) for n, run in enumerate(there)]
    return nki_lab.calibrate(*zip(modelled, captures, strict=True))


def test_changed_constants_are_found_again_and_the_others_stay(found) -> None:
    assert set(found.values) == set(TRUE)
    off = {name: found.values[name] / value - 1 for name, value in TRUE.items()}
    assert max(map(abs, off.values())) < 0.05, off
    # Times are off by 2 %, half of them by less than 1.35 %.
    assert found.fit.before > 0.15 and found.fit.after < 0.015


def test_errors_cover_what_is_off(found) -> None:
    for name, value in TRUE.items():
        constant = found.fit.named(name)
        assert abs(constant.value - value) <= max(4 * constant.error, 0.02 * value), constant


def test_what_no_sample_follows_from_is_not_seen(found) -> None:
    unseen = {c.name for c in found.fit.constants if c.remark == "not seen"}
    assert {n for n in TIMING if n.startswith(("gpsimd", "program", "dma_transpose"))} <= unseen
    assert {"loop_trip_ns", "vector_scan_cycles", "dma_software_issue_ns", "sync_ghz"} <= unseen
    assert not unseen & {*TRUE, "vector_ghz", "vector_copy_cycles", "dma_hardware_issue_ns"}
    assert "not seen: " in str(found) and "loop_trip_ns" in str(found).split("not seen: ")[1]
    # One table was loaded.
    assert found.fit.named("scalar_table_load_ns").remark.startswith("few samples (1)")


def test_classes_name_the_constants_that_their_times_follow_from(found) -> None:
    follows = found.fit.follows
    assert "scalar_fixed_latency_ns" in follows["scalar ACTIVATE"]
    assert "vector_binary_cycles" in follows["vector TENSOR_TENSOR"]
    assert follows["sync PSEUDO_DMA_TRIGGER"] == ("dma_hardware_issue_ns",)
    assert follows["transfers"][0] == "dma_bytes_per_ns"
    for name, constants in follows.items():
        engine = "dma" if name in ("transfers", "sync PSEUDO_DMA_TRIGGER") else name.split()[0]
        own = [c for c in constants if c.split("_")[0] == engine]
        assert own, (name, constants)


def test_ratios_are_added_up_over_all_profiles(found, modelled, there) -> None:
    scalar = next(row for row in found.errors.engines if row.name == "scalar")
    rows = [
        (row["end_ts"] - row["start_ts"])
        for run in modelled
        for row in run.profile.records("Instruction")
        if row["engine"] == "scalar"
    ]
    assert (scalar.count, scalar.modelled_ns) == (len(rows), sum(rows))
    assert 1.1 < scalar.ratio < 1.3


def test_constants_that_cannot_be_told_apart_are_named_together(modelled, there) -> None:
    # Without independent instructions an interval is only seen together with the latency behind it.
    some = [(m, measured(t.profile)) for m, t in zip(modelled[2:3], there[2:3], strict=True)]
    fit = nki_lab.calibrate(*some).fit
    assert "vector_fixed_latency_ns" in fit.named("vector_issue_overhead_cycles").alike
    assert "mixed with" in fit.named("vector_fixed_latency_ns").remark


def test_a_device_as_it_is_modelled_moves_nothing(modelled) -> None:
    captures = [measured(run.profile, noise=0.02, seed=5) for run in modelled]
    found = nki_lab.calibrate(*zip(modelled, captures, strict=True))
    assert found.values == {}
    assert tomllib.loads(found.overlay()) == {"base": "trn2", "constants": {}}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "factor"),
    [
        *((name, factor) for name in TRUE for factor in (0.8, 1.2)),
        *((f"{engine}_ghz", factor) for engine in ("vector", "tensor") for factor in (0.9, 1.1)),
        ("dma_hardware_issue_ns", 0.7),
        ("dma_hardware_issue_ns", 1.4),
    ],
)
def test_one_changed_constant_is_found_alone(modelled, tmp_path, name, factor) -> None:
    value = getattr(TRN2, name) * factor
    value = max(round(value), 1) if type(getattr(TRN2, name)) is int else value
    there = runs(device(tmp_path, **{name: value}))
    found = nki_lab.calibrate(
        *((m, measured(t.profile)) for m, t in zip(modelled, there, strict=True))
    )
    assert found.values == {name: pytest.approx(value, rel=0.03)}


def test_an_overlay_makes_the_model_say_what_was_measured(
    found, modelled, there, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found.save("mine.toml")
    target = get_target("trn2+mine.toml")
    assert {n: getattr(target, n) for n in found.values} == found.values
    calibrated = runs(target)
    for before, then, now in zip(modelled, there, calibrated, strict=True):
        assert now.profile.total_ns == pytest.approx(then.profile.total_ns, rel=0.02)
        assert abs(before.profile.total_ns / then.profile.total_ns - 1) > 0.05
    # Calibrated again from there, the file keeps what it has.
    again = nki_lab.calibrate((calibrated[0], measured(there[0].profile)))
    assert again.values.keys() >= found.values.keys()


def test_the_command_reads_what_the_official_tool_exports(
    modelled, there, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = []
    for run in (modelled[0], modelled[3]):
        run.compiled.save(f"{run.name}.nkic")
    for run in (there[0], there[3]):
        names.append(f"{run.name}.json")
        capture = measured(run.profile)
        (tmp_path / names[-1]).write_text(json.dumps(document(capture, "ps")))
    kernels = ["--kernel", "transfers.nkic", "--kernel", "independent.nkic"]
    done = CliRunner().invoke(
        app, ["calibrate", *names, *kernels, "--target", "trn2", "-o", "mine.toml"]
    )
    assert done.exit_code == 0, done.output
    assert "trn2 against 2 measured profiles" in done.output
    constants = tomllib.loads((tmp_path / "mine.toml").read_text())["constants"]
    for name in ("dma_start_ns", "dma_bytes_per_ns"):
        assert constants[name] == pytest.approx(TRUE[name], rel=0.03)
    done = CliRunner().invoke(app, ["calibrate", *names, "a.json", *kernels])
    assert done.exit_code == 2 and "3 profiles are given, and 2 kernels" in done.output


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (lambda run: (run, run), "was modelled, not measured"),
        (lambda run: (measured(run.profile), measured(run.profile)), "cannot be timed again"),
        (
            lambda run: (run, Profile.from_tables(TRN1, {}, is_simulation=False, name="k")),
            "k was measured on trn1, the model is of trn2",
        ),
        (
            lambda run: (run, Profile.from_tables(TRN2, {}, is_simulation=False)),
            "no event in common",
        ),
    ],
)
def test_what_cannot_be_calibrated(modelled, pair, said) -> None:
    with pytest.raises(UsageError, match=said) as error:
        nki_lab.calibrate(pair(modelled[0]))
    assert error.value.help


def test_two_cores_and_two_chips_are_refused(modelled, there) -> None:
    x = np.ones((128, 2048), dtype=np.float32)
    both = nki_lab.run(transfers, x, target="trn2", lnc=2)
    with pytest.raises(UsageError, match="needs the program of one core"):
        nki_lab.calibrate((both, measured(both.profile)))
    capture = measured(there[0].profile)
    with pytest.raises(UsageError, match="a calibration is of one chip"):
        nki_lab.calibrate((modelled[0], capture), (there[0], capture))
    with pytest.raises(UsageError, match="needs a modelled run"):
        nki_lab.calibrate()
