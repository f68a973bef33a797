"""Every format: whatever a profile holds comes back, and damage is told in one sentence."""

from __future__ import annotations

import builtins
import csv
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nki_lab.errors import BadFile, NkiError, UnknownOption, UsageError
from nki_lab.profiler.formats import files, tables_folder
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES, TRANSFERS, Field
from nki_lab.targets import ALL_TARGETS, TRN2

from .example import profile

ENDINGS = files.ENDINGS
TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "\r", "\n", "a\r\nb", '"', ",", "NaN", "null", "\x00", "é\u2028😀", "-1"]),
)
BITS = {"int64": 63, "int32": 31}


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Return what a column may hold."""
    if field.type == "float":
        return st.floats(field.least, field.most)
    if field.type not in BITS:
        return TEXTS if field.type == "string" else st.booleans()
    most = 2 ** BITS[field.type]
    if field.least is None or field.most is None:
        return st.integers(-most, most - 1)
    return st.integers(int(field.least), min(int(field.most), most - 1))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Make some tables with some columns of any values; times end after they start."""
    made: dict[str, dict[str, Any]] = {}
    names = ["Instruction", TRANSFERS, "Warning", "SbufUsage", "Flow", "CcOp", "DmaPacket"]
    for name in draw(st.sets(st.sampled_from(names))):
        rows = draw(st.integers(0, 4))
        fields = list(TABLES[name].values())
        chosen = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=6, unique=True))
        made[name] = {f.name: draw(column(f, rows)) for f in chosen if not f.name.endswith("_ts")}
        if "start_ts" in TABLES[name]:
            starts = draw(st.lists(st.integers(0, 2**61), min_size=rows, max_size=rows))
            lengths = draw(st.lists(st.integers(0, 2**40), min_size=rows, max_size=rows))
            made[name] |= {
                "start_ts": starts,
                "end_ts": [s + n for s, n in zip(starts, lengths, strict=True)],
            }
    return made


def column(field: Field, rows: int) -> st.SearchStrategy[list[Any]]:
    values = st.one_of(st.none(), values_of(field))
    return st.lists(values, min_size=rows, max_size=rows)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    found = draw(tables())
    if "pcore_idx" in found.get("Instruction", {}):  # a number of cores, which other tables follow
        del found["Instruction"]["pcore_idx"]
    rows = len(found.get(TRANSFERS, {}).get("start_ts", ()))
    deals = None
    if "DmaPacket" not in found and draw(st.booleans()):
        forms = [[[1, 1, 5, 7]], [[2, 3, 10, 0], [1, 4, 3, 3]]]
        codes = st.lists(st.integers(0, 1), min_size=rows, max_size=rows)
        deals = Deals(draw(codes), forms)
    metrics = {
        "mbu_estimated_percent": draw(st.floats(0, 1)),
        "event_count": draw(st.integers(0, 9)),
    }
    return Profile.from_tables(
        draw(st.sampled_from(ALL_TARGETS)),
        found,
        is_simulation=draw(st.booleans()),
        name=draw(TEXTS),
        metrics=draw(st.sampled_from([{}, metrics])),
        deals=deals,
    )


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(p=profiles(), ending=st.sampled_from(ENDINGS))
def test_whatever_a_profile_holds_comes_back(p: Profile, ending: str, tmp_path: Path) -> None:
    again = Profile.load(p.save(tmp_path / f"run{ending}"))
    assert again == p
    assert (again.target, again.name, again.is_simulation) == (p.target, p.name, p.is_simulation)
    for table in (*p.stored, "DmaPacket"):  # and to the same rows, looked at one by one
        for one, other in zip(p.records(table), again.records(table), strict=True):
            assert list(map(repr, one.values())) == list(map(repr, other.values()))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_profile_of_nothing_comes_back(ending: str, tmp_path: Path) -> None:
    empty = Profile.from_tables(TRN2, {"Instruction": {}}, is_simulation=False, name="")
    assert Profile.load(empty.save(tmp_path / f"run{ending}")) == empty


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_written_can_be_written_again_and_again(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{ending}"
    profile(Warning={"message": "other", "category": "x"}).save(path)
    profile().save(path)
    assert Profile.load(path) == profile()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # nothing is left beside it


# -- what other programs find ----------------------------------------------------------------------------------------


def test_parquet_has_the_types_and_columns_of_the_schema(tmp_path: Path) -> None:
    folder = profile().save(tmp_path / "run.parquet")
    found = pyarrow.parquet.read_table(folder / "Instruction.parquet", partitioning=None)
    assert found.column_names == list(TABLES["Instruction"])
    assert [str(found.schema.field(n).type) for n in ("start_ts", "engine")] == ["int64", "string"]
    assert found["duration_ns"].to_pylist() == [50, 1100, 200, 300, 400, 300]
    assert found["evt_wait_time_ns"].to_pylist() == [0, 1000, None, None, 100, 450]
    assert found["crc_in"].null_count == 6
    about = json.loads(found.schema.metadata[b"nki_lab"])
    assert about == {"profile": "add_kernel", "target": "trn2", "is_simulation": True}
    assert found.schema.field("duration_ns").metadata[b"unit"] == b"ns"
    names = {file.name for file in folder.iterdir()}
    assert {"Summary.parquet", "ActiveTime.parquet", "Metadata.parquet"} <= names
    summary = pyarrow.parquet.read_table(folder / "Summary.parquet").to_pylist()[0]
    assert summary["total_time"] == pytest.approx(3100e-9)
    assert summary["model_flops"] is None
    metadata = pyarrow.parquet.read_table(folder / "Metadata.parquet")
    assert str(metadata.schema.field("num_physical_cores").type) == "int32"
    assert metadata["is_simulation"].to_pylist() == [True]


def test_csv_has_the_columns_of_the_schema(tmp_path: Path) -> None:
    folder = profile().save(tmp_path / "run.csv")
    with (folder / "Instruction.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(TABLES["Instruction"])
    assert [row["evt_wait_time_ns"] for row in rows] == ["0", "1000", "", "", "100", "450"]
    with (folder / "Metadata.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["is_simulation"] == "true"


def test_packets_are_written_for_others_and_made_again_by_us(tmp_path: Path, monkeypatch) -> None:
    deals = Deals([0, 1], [[[1, 1, 8000, 8000]], [[2, 3, 40000, 40000]]])
    p = Profile.from_tables(TRN2, profile().stored, is_simulation=True, name="a", deals=deals)
    folder = p.save(tmp_path / "run.parquet")
    written = pyarrow.parquet.read_table(folder / "DmaPacket.parquet").to_pylist()
    assert written == list(Profile.load(folder).records("DmaPacket"))
    assert [row["read_bytes"] for row in written] == [8000, 13333, 13334, 13333]
    monkeypatch.setattr(tables_folder, "MOST_PACKETS", 3)
    few = p.save(tmp_path / "few.parquet")
    assert not (few / "DmaPacket.parquet").exists()
    assert list(Profile.load(few).records("DmaPacket")) == written


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_without_pyarrow_the_command_that_installs_it_is_told(tmp_path: Path, monkeypatch) -> None:
    path = profile().save(tmp_path / "run.parquet")
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    for act in (lambda: profile().save(tmp_path / "b.parquet"), lambda: Profile.load(path)):
        with pytest.raises(UsageError, match="need pyarrow, which is not installed") as error:
            act()
        assert error.value.help.endswith("-m pip install pyarrow")


@pytest.mark.parametrize("name", ["run", "run.txt", "run.parquet.gz"])
def test_an_ending_that_tells_no_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownOption, match=r"end the name with one of \.json, \.parquet"):
        profile().save(tmp_path / name)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "data.csv"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(BadFile, match="is not a folder of tables that nki_lab wrote"):
        profile().save(other)
    with pytest.raises(BadFile, match=r"data\.csv is not a profile saved by nki_lab"):
        Profile.load(other)
    assert [entry.name for entry in other.iterdir()] == ["mine.txt"]
    file = tmp_path / "data.parquet"
    file.write_text("mine")
    with pytest.raises(BadFile, match="is not a folder of tables that nki_lab wrote"):
        profile().save(file)


def test_where_nothing_can_be_written_that_is_told(tmp_path: Path) -> None:
    for ending in ENDINGS:
        with pytest.raises(BadFile, match="cannot be written: No such file or directory"):
            profile().save(tmp_path / "none" / f"run{ending}")


def test_names_that_are_no_unicode_are_kept_in_json_and_refused_in_tables(tmp_path: Path) -> None:
    odd = profile(Warning={"message": "\ud800", "category": "x"})
    for ending in (".json", ".pftrace"):
        assert Profile.load(odd.save(tmp_path / f"a{ending}")) == odd
    for ending in (".csv", ".parquet"):
        with pytest.raises(BadFile, match="is not valid Unicode"):
            odd.save(tmp_path / f"a{ending}")
        assert not (tmp_path / f"a{ending}").exists()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_that_is_missing_or_not_as_it_was_is_named(ending: str, tmp_path: Path) -> None:
    def damaged(change: Any) -> str:
        folder = profile().save(tmp_path / f"run{ending}")
        change(folder)
        with pytest.raises(BadFile) as error:
            Profile.load(folder)
        shutil.rmtree(folder)
        assert "\n" not in error.value.message
        return error.value.message

    table = f"Flow{ending}"
    assert damaged(lambda f: (f / table).unlink()).endswith(f"{table} is missing")
    assert damaged(lambda f: (f / table).write_text("")).endswith(f"{table} is damaged")
    swapped = damaged(lambda f: shutil.copy(f / f"Warning{ending}", f / table))
    assert swapped.endswith(f"{table} is damaged")
    index = tables_folder.INDEX
    lost = damaged(lambda f: (f / index).unlink())  # Parquet tables alone may be Neuron Explorer's
    other = (
        "does not say which chip it is of"
        if ending == ".parquet"
        else "not a profile saved by nki_lab"
    )
    assert lost.endswith(other)
    assert damaged(lambda f: (f / index).write_text("{}")).endswith(
        "not a profile saved by nki_lab"
    )
    text = (profile().save(tmp_path / f"run{ending}") / index).read_text()
    for old, new in (
        ('"rows":2', '"rows":3'), ('"Flow"', '"../Flow"'), ('"Flow"', '"Flaw"'),
        ('"gap_time"', '"gap"'), (f'"kind":"{ending[1:]}"', '"kind":"pickle"'), ("}", ""),
    ):  # fmt: skip
        assert old in text
        damaged(lambda f, old=old, new=new: (f / index).write_text(text.replace(old, new)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_damage_gives_one_sentence(ending: str, tmp_path: Path) -> None:
    """Bytes are cut off, changed or put in at random: what is read is a profile, or an error of ours."""
    rng = random.Random(7)
    path = profile().save(tmp_path / f"run{ending}")
    parts = [path] if path.is_file() else sorted(path.iterdir())
    whole = {part: part.read_bytes() for part in parts}
    told = []
    for _ in range(120):
        part = rng.choice(parts)
        data = bytearray(whole[part])
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at:at] = rng.randbytes(3)
        part.write_bytes(data)
        try:
            Profile.load(path)
        except NkiError as error:
            told.append(error.message)
        part.write_bytes(whole[part])
    assert len(told) > 20 and not any("\n" in message for message in told)
    assert Profile.load(path) == profile()


def test_ints_that_a_column_cannot_hold_are_refused() -> None:
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="column id must hold int64"):
            Profile.from_tables(TRN2, {"Instruction": {"id": [value]}}, is_simulation=True)
    for value in (2**31, -(2**31) - 1):
        table = {"DmaPacket": {"packet_idx": np.array([value])}}
        with pytest.raises(ValueError, match="column packet_idx must hold int32"):
            Profile.from_tables(TRN2, table, is_simulation=True)


def test_floats_come_back_to_the_last_bit(tmp_path: Path) -> None:
    values = [-0.0, None, 5e-324, 1 / 3]
    table = {"SbufUsage": {"timestamp": range(4), "avg_util_percent": values}}
    for ending in ENDINGS:
        p = Profile.from_tables(TRN2, table, is_simulation=True)
        again = Profile.load(p.save(tmp_path / f"a{ending}"))
        read = [row["avg_util_percent"] for row in again.records("SbufUsage")]
        assert list(map(repr, read)) == list(map(repr, values))


def test_no_table_of_packets_is_made_that_memory_cannot_hold(tmp_path: Path) -> None:
    deals = Deals([0, 1], [[[1, 1, 8, 8]], [[4, 1 << 38, 40, 40]]])
    p = Profile.from_tables(TRN2, profile().stored, is_simulation=True, name="a", deals=deals)
    for kept in (p, Profile.load(p.save(tmp_path / "a.json"))):
        with pytest.raises(UsageError, match="DmaPacket would have 274,877,906,945 rows"):
            kept.table("DmaPacket")
        assert kept.total_ns == p.total_ns and "DMA" in str(kept.roofline()).upper()
    with pytest.raises(ValueError, match="that many packets or bytes"):
        Deals([0], [[[1, 1, 1 << 60, 8]]])
