"""Tests the page that a file becomes, and the message for a file that cannot become one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import nki_lab.widgets.saved_page as saved_page
from nki_lab.profiler.formats.files import save
from nki_lab.profiler.formats.profile_json import dump
from nki_lab.server.file_page import file_page
from nki_lab.server.page_process import answer_for
from tests.hardware.neffs import write_neff
from tests.profiler import captures
from tests.server.kernels import looped, of_two_cores
from tests.views.runs import added
from tests.views.test_saved import state_of

PROFILE_VIEWS = ["report", "source", "timeline", "charts"]
KERNEL_VIEWS = ["ir", "findings", "source", "layout", "array", "memory", "graph"]
TIMED_VIEWS = [
    "report",
    "findings",
    "source",
    "ir",
    "layout",
    "array",
    "memory",
    "timeline",
    "charts",
    "graph",
]


def test_a_kernel_that_has_not_run_has_the_times_of_its_run(tmp_path: Path) -> None:
    added().compiled.save(tmp_path / "add.nkic")
    state = state_of(file_page(tmp_path / "add.nkic"))
    assert state["tabs"] == TIMED_VIEWS
    assert state["head"]["note"] == "a compiled kernel, not run: values are not known"
    save(added().profile, tmp_path / "run.json")
    ran = state_of(file_page(tmp_path / "run.json"))
    assert ran["tabs"] == PROFILE_VIEWS
    for fact in ("title", "target", "modelled", "badge"):
        assert ran["head"][fact] == state["head"][fact]
    assert state["parts"]["timeline"] == ran["parts"]["timeline"]


@pytest.mark.usefixtures("nki_0_6")
def test_a_kernel_whose_loops_the_device_counts_has_no_times(tmp_path: Path) -> None:
    looped().save(tmp_path / "looped.nkic")
    state = state_of(file_page(tmp_path / "looped.nkic"))
    assert state["tabs"] == KERNEL_VIEWS
    assert state["head"]["note"].endswith("neither are times, since it has device loops")
    assert {"ir", "ir/0", "layout", "memory", "source", "findings"} <= set(state["parts"])


def test_a_kernel_of_two_cores_has_times_of_both(tmp_path: Path) -> None:
    of_two_cores().save(tmp_path / "two.nkic")
    page = file_page(tmp_path / "two.nkic")
    assert state_of(page)["tabs"] == TIMED_VIEWS
    assert ", 2 cores: modelled from public documents" in page


def test_a_measured_profile_and_a_neff_have_pages(tmp_path: Path) -> None:
    (tmp_path / "ntff.pftrace").write_bytes(captures.trace(added().profile))
    state = state_of(file_page(tmp_path / "ntff.pftrace"))
    assert state["tabs"] == PROFILE_VIEWS and not state["head"]["modelled"]
    assert "does not say which chip" in state["head"]["note"]
    shown = state_of(file_page(write_neff(tmp_path / "k.neff")))
    assert shown["tabs"] == ["memory", "ir"] and "not run" in shown["head"]["note"]
    assert shown["head"]["title"] == "file.neff"


def test_a_page_without_room_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(added().profile, tmp_path / "run.json")
    whole = state_of(file_page(tmp_path / "run.json"))
    assert whole["cut"] == [] and whole["head"]["note"] == ""
    monkeypatch.setattr(saved_page, "PAGE_BYTES", 3000)
    state = state_of(file_page(tmp_path / "run.json"))
    assert (
        state["head"]["note"]
        == "this page holds at most 3,000 bytes and leaves out parts of timeline, charts"
    )
    assert set(state["cut"]) == set(whole["parts"]) - set(state["parts"]) != set()


class _Mischief:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("import pathlib; pathlib.Path('executed').touch()",))


def test_a_file_that_is_no_run_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run.json", "run.pftrace", "run.parquet"):
        save(added().profile, tmp_path / name)
    added().compiled.save(tmp_path / "add.nkic")
    run, kernel = Path("run.json").read_text(), Path("add.nkic").read_text()
    text = json.loads(run)
    bad: dict[str, bytes] = {
        "empty.json": b"",
        "text.json": b"{}",
        "cut.json": run[: len(run) // 2].encode(),
        "nested.json": run.split(',"tables"')[0].encode() + b',"tables":' + b"[" * 200_000,
        "newer.json": dump(text | {"version": 999}).encode(),
        "other.json": dump(text | {"tables": {"Instruction": {"no_such_column": [1]}}}).encode(),
        "pickled.json": pickle.dumps(_Mischief()),
        "pickled.nkic": pickle.dumps(_Mischief()),
        "changed.nkic": kernel.replace("trn2", "trn1", 1).encode(),
        "cut.nkic": kernel[:-40].encode(),
        "renamed.nkic": run.encode(),
        "cut.pftrace": Path("run.pftrace").read_bytes()[:-900],
        "alone.parquet": Path("run.parquet/Instruction.parquet").read_bytes(),
        "latin.json": b'{"format":"nki_lab profile","version":2,"name":"\xff"}',
    }
    said = {}
    for name, content in bad.items():
        Path(name).write_bytes(content)
        answer = answer_for(tmp_path / name, None)
        assert (answer.status, answer.page) == (422, b""), name
        assert answer.message.startswith(name) and "\n" not in answer.message
        said[name] = answer.message
    assert said["pickled.json"] == "pickled.json is not a profile saved by nki_lab"
    assert said["pickled.nkic"] == "pickled.nkic is not a kernel saved by nki_lab"
    assert said["newer.json"].endswith("this nki_lab reads versions up to 2")
    assert said["changed.nkic"] == "changed.nkic is damaged: it is not as it was saved"
    assert said["nested.json"].endswith("the JSON is damaged or cut off")
    assert not Path("executed").exists()


def test_a_server_learns_of_the_routes_without_loading_them() -> None:
    """Installing the package must not slow servers down, nor need one."""
    code = (
        "import sys, nki_lab.server as s; print(s._jupyter_server_extension_points());"
        "print([m for m in ('jupyter_server', 'numpy', 'tornado', 'traitlets') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told == ["[{'module': 'nki_lab.server'}]", "[]"]
