"""Overlays: a chip with some timing constants replaced by those of a file."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nki_lab
from nki_lab.api.install import aliases
from nki_lab.cli.kernel_file import load_file
from nki_lab.cli.main import app
from nki_lab.errors import BadFile, NkiError
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN1, TRN2, Status, Target, get_target
from nki_lab.targets.constants import TIMING

KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    u = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(u, nl.copy, t, scale=2.0)
    nl.store(out, u)
    return out
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "double.py").write_text(KERNEL)
    write("mine.toml", "scalar_fixed_latency_ns = 1300")
    return tmp_path


@pytest.fixture
def double(here):
    with aliases():
        return load_file(here / "double.py").double


def write(name: str, *lines: str) -> None:
    Path(name).write_text("\n".join(('base = "trn2"', "", "[constants]", *lines)) + "\n")


def x() -> np.ndarray:
    return np.arange(128 * 48, dtype=np.float32).reshape(128, 48) - 1000


def test_a_constant_is_replaced_and_says_so(here) -> None:
    target = get_target("TRN2+mine.toml")
    assert target.name == "trn2+mine.toml" and target.chip == "trn2"
    assert (target.scalar_fixed_latency_ns, target.generation) == (1300, 3)
    assert target.sources["scalar_fixed_latency_ns"].status is Status.REPLACED
    assert target.sources["scalar_fixed_latency_ns"].page == "mine.toml"
    assert target.sources["dma_start_ns"] is TRN2.sources["dma_start_ns"]
    assert get_target("trn2+mine.toml") is target and get_target("trn2") is TRN2


def test_times_follow_and_values_do_not(double) -> None:
    plain = nki_lab.run(double, x(), target="trn2")
    mine = nki_lab.run(double, x(), target="trn2+mine.toml")
    # One activation stands between load and store: 1300 - 300 ns.
    assert mine.profile.total_ns - plain.profile.total_ns == 1000
    assert np.array_equal(mine.value, 2 * x()) and np.array_equal(plain.value, mine.value)
    assert "trn2+mine.toml" in str(mine) and "trn2+mine.toml" in str(mine.profile)


def test_a_changed_file_is_another_chip(double) -> None:
    first = nki_lab.run(double, x(), target="trn2+mine.toml")
    write("mine.toml", "scalar_fixed_latency_ns = 2300")
    second = nki_lab.run(double, x(), target="trn2+mine.toml")
    assert second.profile.total_ns - first.profile.total_ns == 1000
    assert first.compiled.target is not second.compiled.target


def test_the_environment_and_the_process_choose_it(double, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2+mine.toml")
    assert nki_lab.run(double, x()).compiled.target.name == "trn2+mine.toml"
    with nki_lab.use(target="trn1"):
        assert nki_lab.run(double, x()).compiled.target is TRN1
        with nki_lab.use(target="trn2+mine.toml"):
            assert nki_lab.run(double, x()).compiled.target.scalar_fixed_latency_ns == 1300


def test_copies_and_files_do_not_need_the_overlay(double) -> None:
    result = nki_lab.run(double, x(), target="trn2+mine.toml")
    target, total = result.compiled.target, result.profile.total_ns
    saved = [result.profile.save(name) for name in ("a.json", "b.parquet", "c.csv", "d.pftrace")]
    compiled = result.compiled.save("double.nkic")
    pickled = pickle.dumps(target)
    Path("mine.toml").unlink()
    assert pickle.loads(pickled) is target
    for path in saved:
        profile = Profile.load(path)
        assert profile.target is target and profile.total_ns == total, path
    again = nki_lab.load(compiled)(x())
    assert np.array_equal(again, 2 * x())


def test_a_file_that_was_sent_reads_no_other(here, double) -> None:
    path = nki_lab.run(double, x(), target="trn2").profile.save("a.json")
    path.write_text(path.read_text().replace('"trn2"', '"trn2+mine.toml"', 1))
    with pytest.raises(BadFile, match="an overlay is given with its constants"):
        Profile.load(path)


@pytest.mark.parametrize(
    ("lines", "said", "help"),
    [
        (["", "dma_strat_ns = 800"], r"line 5: there is no constant `dma_strat_ns`", "dma_start_ns"),
        (["dma_start_ns = 800.5"], r"line 4: dma_start_ns is a whole number; found 800.5", ""),
        (["dma_start_ns = true"], r"line 4: dma_start_ns is a whole number; found True", ""),
        (['vector_ghz = "1.1"'], r"line 4: vector_ghz is a number; found '1.1'", ""),
        (["# faster", "vector_ghz = 0"], r"line 5: vector_ghz lies between 0.1 and 10 GHz; found 0", ""),
        (["vector_ghz = nan"], r"line 4: vector_ghz lies between", ""),
        (["dma_start_ns = -5"], r"line 4: dma_start_ns lies between 0 and 1e\+06 ns; found -5", ""),
        (["partitions = 64"], r"line 4: `partitions` is no time but a size or a limit", ""),
        (["dma_start_ns 800"], r"is not TOML: .*line 4", "dma_start_ns = 812"),
        (["dma_start_ns = 8", "dma_start_ns = 9"], r"is not TOML: .*line 5", ""),
        (["[constant]"], r"line 4: an overlay has no `constant`", "constants"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(here, lines, said, help) -> None:
    write("mine.toml", *lines)
    with pytest.raises(BadFile, match=said) as error:
        get_target("trn2+mine.toml")
    assert help in error.value.help and error.value.help


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trn2+other.toml", "other.toml cannot be read: No such file"),
        ("trn2+", "the overlay has no name"),
        ("trn2+.", "is not a file"),
        ("trn1+mine.toml", "line 1: this overlay is of 'trn2', not of trn1"),
        ("trn0+mine.toml", "there is no target `trn0`"),
    ],
)
def test_a_name_that_is_none(here, name, said) -> None:
    with pytest.raises(NkiError, match=said):
        get_target(name)


def test_a_constant_that_the_chip_does_not_have(here) -> None:
    Path("mine.toml").write_text("[constants]\ndma_hardware_issue_ns = 500\n")
    assert get_target("trn2+mine.toml").dma_hardware_issue_ns == 500
    with pytest.raises(BadFile, match="line 2: trn1 has no `dma_hardware_issue_ns`"):
        get_target("trn1+mine.toml")


def test_the_command_line_takes_it(here) -> None:
    run = ["run", "double.py", "--input", "x=randn:128x64", "--target"]
    assert "trn2+mine.toml" in CliRunner().invoke(app, [*run, "trn2+mine.toml"]).output
    done = CliRunner().invoke(app, [*run, "trn2+nowhere.toml"])
    assert done.exit_code and "overlay nowhere.toml cannot be read" in done.output


def test_every_timing_constant_is_a_number_within_its_range() -> None:
    names = {field.name for field in fields(Target)}
    for target in (TRN1, TRN2, get_target("trn3")):
        for name, constant in TIMING.items():
            assert name in names
            value = getattr(target, name)
            if value is not None:
                least, most = constant.between(target.sources[name].unit)
                assert type(value) in (int, float) and least <= value <= most, (target, name)


def test_times_follow_from_no_other_constant() -> None:
    """What is named in clocks, times and rates and is not listed says why."""
    timed = ("_ns", "_cycles", "_ghz", "per_ns", "_factor", "_fraction", "_efficiency")
    others = {
        name
        for name, fact in TRN2.sources.items()
        if name.endswith(timed) and type(fact.value) in (int, float) and name not in TIMING
    }
    assert others == {
        "core_ghz",  # profilers count with it; nothing runs at it
        "tensor_access_cycles",  # part of the documented intervals
        "dependent_overhead_cycles",  # documented; the model's latencies stand for it
        "dma_peak_bytes_per_ns",  # theoretical
    }
