"""Tests that a Jupyter server shows the files of its folder, only those, and survives any of them."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import re
import shutil
import socket
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from nki_lab.profiler.formats.chrome import save_chrome_trace
from nki_lab.profiler.formats.files import save
from tests.server.running import ROOT, RunningServer
from tests.server.test_file_page import PROFILE_VIEWS, TIMED_VIEWS
from tests.views.runs import added
from tests.views.test_saved import state_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run in every form, below one with a run that nobody may see."""
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "shown"
    (folder / "of mine").mkdir(parents=True)
    profile = added().profile
    for name in ("run.json", "run.pftrace", "run.csv", "run.parquet", "of mine/run.json"):
        save(profile, folder / name)
    save_chrome_trace(profile, folder / "trace.json")
    added().compiled.save(folder / "add.nkic")
    save(profile, outside / "secret.json")
    (folder / "leads_out.json").symlink_to(outside / "secret.json")
    (folder / "leads_on.json").symlink_to(folder / "run.json")
    shutil.copytree(folder / "run.csv", folder / "borrowed.csv")
    (folder / "borrowed.csv" / "Instruction.csv").unlink()
    (folder / "borrowed.csv" / "Instruction.csv").symlink_to(outside / "secret.json")
    (folder / ".hidden.json").write_bytes((folder / "run.json").read_bytes())
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """Start a server that shows the folder."""
    with RunningServer(folder) as server:
        yield server


FORMS = {
    "run.json": PROFILE_VIEWS,
    "run.pftrace": PROFILE_VIEWS,
    "trace.json": PROFILE_VIEWS,
    "run.csv/profile.json": PROFILE_VIEWS,
    "run.csv/Instruction.csv": PROFILE_VIEWS,
    "run.parquet/profile.json": PROFILE_VIEWS,
    "run.parquet/Instruction.parquet": PROFILE_VIEWS,
    "of mine/run.json": PROFILE_VIEWS,
    "leads_on.json": PROFILE_VIEWS,
    "add.nkic": TIMED_VIEWS,
}


@pytest.mark.thorough
def test_every_form_of_a_run_is_shown_in_its_views(server: RunningServer) -> None:
    pages = {}
    for name, views in FORMS.items():
        answer = server.page(name)
        assert answer.status == 200, (name, answer.body)
        assert answer.headers["Content-Type"] == "text/html; charset=UTF-8"
        assert answer.headers["Content-Security-Policy"].endswith("sandbox allow-scripts")
        state = state_of(answer.body.decode())
        assert state["tabs"] == list(views)
        assert state["head"]["title"] == "add_halves"
        assert state["cut"] == []
        assert {"report", "timeline", "timeline/events"} <= set(state["parts"])
        pages[name] = answer.body
    assert len({page for name, page in pages.items() if FORMS[name] == PROFILE_VIEWS}) == 1


def test_a_page_has_the_theme_that_is_asked_for(server: RunningServer) -> None:
    body = re.compile(rb"<body(.*?)>")
    assert body.findall(server.page("run.json").body) == [b""]
    for theme, light in (("light", b"true"), ("dark", b"false")):
        page = server.page("run.json", theme=theme).body
        assert body.findall(page) == [b' data-jp-theme-light="' + light + b'"']
    wrong = server.page("run.json", theme="blue")
    assert (wrong.status, wrong.message) == (400, "themes are light and dark; found blue")


def test_only_who_has_logged_in_is_answered(server: RunningServer) -> None:
    for token, name in itertools.product(("", "another"), ("run.json", "nothing.json")):
        answer = server.page(name, token=token)
        assert (answer.status, answer.message) == (403, "not logged in")


OUTSIDE = {
    "../secret.json": "secret.json is outside of the folder that this server shows",
    "..%2Fsecret.json": "secret.json is outside of the folder that this server shows",
    "of%20mine/../../secret.json": "secret.json is outside of the folder that this server shows",
    "leads_out.json": "leads_out.json is outside of the folder that this server shows",
    "borrowed.csv/profile.json": "Instruction.csv is outside of the folder that this server shows",
    "%2Fetc/passwd": "there is no file passwd",
    ".hidden.json": "there is no file .hidden.json",
    "nothing.json": "there is no file nothing.json",
    "of%20mine": "there is no file of mine",
    "run.json%00.nkic": "run.json\0.nkic is outside of the folder that this server shows",
}


def test_a_file_outside_of_the_folder_is_not_there(server: RunningServer) -> None:
    for path, message in OUTSIDE.items():
        answer = server.page(path)
        assert (answer.status, answer.message) == (404, message)


NOT_THERE = [
    "loop.json", "loop.json/run.json", "circle/run.json", "dangling.json", "pipe.json", "run.json/run.json",
    "x" * 256, "x" * 4000 + ".json", "y/" * 3000 + "run.json", ("y" * 200 + "/") * 30 + "run.json",
    "%F0%9F%98%80" * 80, "a%0Ab.json", "%1B%5B31m.json", "%E2%80%AE.json", "run.json%20", "~root", "%25", "%zz", "[a]",
    "C:%5Crun.json", "..%00/x", "%2F", "con", "run.json;a", "run.json%3Fa",
]  # fmt: skip


def test_odd_paths_are_not_there(server: RunningServer, folder: Path) -> None:
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "circle").symlink_to("round")
    (folder / "round").symlink_to("circle")
    (folder / "dangling.json").symlink_to("nothing.json")
    os.mkfifo(folder / "pipe.json")
    try:
        for path in NOT_THERE:
            answer = server.page(path)
            assert answer.status == 404, (path[:60], answer.status, answer.body[:200])
            assert len(answer.message) < 200
        for path in ("%FF%FE.json", "%C3", "%ED%A0%80.json"):  # no text of UTF-8
            assert server.page(path).status == 400
    finally:
        for name in ("loop.json", "circle", "round", "dangling.json", "pipe.json"):
            (folder / name).unlink()


@pytest.mark.thorough
def test_paths_of_random_bytes_are_never_a_fault_of_the_server(server: RunningServer) -> None:
    chance = random.Random(7)
    parts = [
        *"abc/.~%:;\\",
        "..",
        "run.json",
        "run.csv",
        "leads_on.json",
        "\0",
        "\x1b",
        "\u202e",
        "\n",
        "e" * 250,
    ]
    for _ in range(150):
        path = "".join(chance.choices(parts, k=chance.randint(1, 8)))
        answer = server.page(urllib.parse.quote(path, safe="/.~"))
        assert answer.status in (200, 404), (path, answer.status, answer.body[:200])


SAID = {
    "pickled.json": "pickled.json is not a profile saved by nki_lab",
    "pickled.nkic": "pickled.nkic is not a kernel saved by nki_lab",
    "nested.json": "nested.json is not a readable profile: the JSON is damaged or cut off",
}


class _Mischief:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("import pathlib; pathlib.Path('executed').touch()",))


def test_a_file_that_is_not_what_it_seems_is_one_sentence(
    server: RunningServer, folder: Path
) -> None:
    for name, content in {
        "pickled.json": pickle.dumps(_Mischief()),
        "pickled.nkic": pickle.dumps(_Mischief()),
        "nested.json": (folder / "run.json").read_bytes().split(b',"tables"')[0] + b',"tables":' + b"[" * 200_000,
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
        answer = server.page(name)
        (folder / name).unlink()
        assert (answer.status, answer.message) == (422, SAID[name])
    assert server.page("run.json").status == 200
    assert not list(folder.rglob("executed"))


@pytest.mark.thorough
def test_parquet_without_pyarrow_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')")
    with RunningServer(
        folder, environment={"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ) as server:
        answer = server.page("run.parquet/profile.json")
        assert (answer.status, answer.message) == (
            501,
            "Parquet files need pyarrow, which is not installed",
        )
        assert "pip install pyarrow" in answer.help
        assert server.page("run.json").status == 200


def test_limits_end_the_work_and_not_the_server(folder: Path) -> None:
    options = ("--PageLimits.memory_bytes=20000000", "--PageLimits.at_once=1")
    with RunningServer(folder, *options) as server:
        answer = server.page("run.json")
        assert answer.status in (500, 507), answer.body
        assert "run.json" in answer.message
    options = ("--PageLimits.seconds=0.05", "--PageLimits.file_bytes=1000")
    with RunningServer(folder, *options) as server:
        answer = server.page("run.json")
        assert answer.status == 413
        assert answer.message.endswith("files of at most 1,000 are shown")
        (folder / "short.json").write_text("{}")
        answer = server.page("short.json")
        assert (answer.status, answer.message) == (504, "short.json was not read within 0.05 s")
        assert server.get("api").status == 200


@pytest.mark.thorough
def test_the_server_answers_while_a_page_is_made_and_when_nobody_waits(
    server: RunningServer, folder: Path
) -> None:
    # A long list, so that reading it takes a while.
    begun = (folder / "run.json").read_text().split(',"tables"')[0]
    (folder / "long.json").write_text(
        f'{begun},"tables":{{"Instruction":{{"id":[{"1," * 20_000_000}1]}}}}}}'
    )
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        head = f"GET /nki-lab/page/long.json HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: token"
        caller.sendall(f"{head} secret-of-the-tests\r\n\r\n".encode())
        time.sleep(1)
        started = time.monotonic()
        assert server.get("api").status == 200
        assert time.monotonic() - started < 5
    assert server.page("run.json").status == 200
    (folder / "long.json").unlink()
    assert "Traceback" not in server.log()
