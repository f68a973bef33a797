"""Is what the store gives back what was put there, whatever happens to its file?"""

import hashlib
import os
import random
import sqlite3
import subprocess
import sys
import threading
import zlib

import pytest

from nki_lab.compiler import store as module
from nki_lab.compiler.store import FILE_NAME, Store, store_of

PLAN = {"order": [3, 1], "text": "\udcff \u00e9 %"}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "a" / "b")


def test_what_was_put_is_found(store):
    assert store.get("x") is None
    assert not store.folder.exists(), "looking leaves nothing behind"
    store.put("x", PLAN)
    store.put("y", [1.5, None])
    store.put("y", [2.5, None])
    assert (store.get("x"), store.get("y"), store.get("z")) == (PLAN, [2.5, None], None)
    assert 0 < store.size() < 100_000


def test_the_least_recently_used_go_first(tmp_path, monkeypatch):
    store = Store(tmp_path, limit=40_000)
    clock = iter(range(1_000))
    monkeypatch.setattr(module.time, "time", lambda: float(next(clock)))
    noise = [os.urandom(5_000).hex() for _ in range(12)]  # 5,000 bytes and a little packed
    for n in range(6):
        store.put(str(n), noise[n])
    assert store.get("0") == noise[0]
    for n in range(6, 9):
        store.put(str(n), noise[n])
    kept = [n for n in range(9) if store.get(str(n)) is not None]
    assert {0, 6, 7, 8} <= {*kept} and not {1, 2} & {*kept}
    assert 5 <= len(kept) <= 7
    assert store.size() < 2 * 40_000, "the file shrinks"
    store.put("large", os.urandom(100_000).hex())
    assert store.get("large") is None and store.get("8") == noise[8]


@pytest.mark.parametrize(
    "damage",
    [b"", b"no database at all " * 500, None, 3_000],
    ids=["empty", "other file", "zeros", "cut off"],
)
def test_a_damaged_file_is_made_anew(store, damage):
    store.put("x", PLAN)
    whole = store.path.read_bytes()
    if damage is None:
        damage = bytes(len(whole))
    elif isinstance(damage, int):
        damage = whole[:damage]
    store.path.write_bytes(damage)
    assert store.get("x") is None
    for _ in range(2):  # the first may only notice
        store.put("x", PLAN)
    assert store.get("x") == PLAN


def test_a_changed_plan_is_not_given_back(store):
    store.put("x", PLAN)
    with sqlite3.connect(store.path) as file:
        (plan,) = file.execute("SELECT plan FROM plans").fetchone()
        for changed in (plan[:-1], plan[:9] + bytes([plan[9] ^ 1]) + plan[10:], "text", 7):
            file.execute("UPDATE plans SET plan = ?", (changed,))
            file.commit()
            assert store.get("x") is None
    store.put("x", PLAN)
    assert store.get("x") == PLAN


def _nested(depth):
    return zlib.compress(b"[" * depth)


@pytest.mark.parametrize("packed", [b"not packed", zlib.compress(b"not JSON"), _nested(200_000)])
def test_what_something_else_has_put_there_is_not_given_back(store, packed):
    store.put("x", PLAN)
    with sqlite3.connect(store.path) as file:
        row = packed, hashlib.sha256(packed).hexdigest()
        file.execute("UPDATE plans SET plan = ?, sha256 = ?", row)
    assert store.get("x") is None
    store.put("x", PLAN)
    assert store.get("x") == PLAN


def test_no_damaged_byte_is_an_error(store):
    store.put("x", PLAN)
    whole = store.path.read_bytes()
    pick = random.Random(3)
    used = [at for at, byte in enumerate(whole) if byte]
    for _ in range(60):
        damaged = bytearray(whole)
        for at in pick.sample(used, pick.choice((1, 3, 20))):
            damaged[at] = pick.randrange(256)
        store.path.write_bytes(damaged[: pick.choice((len(whole), pick.randrange(len(whole))))])
        assert store.get("x") in (None, PLAN)
        store.put("y", 1)


def test_a_folder_that_cannot_be_looked_at_is_no_error(tmp_path):
    store = Store(tmp_path / ("a" * 300))
    store.put("x", PLAN)
    assert store.get("x") is None and store.size() == 0
    assert store_of("~there_is_no_such_user/plans") is None


def test_a_place_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file")
    store.put("x", PLAN)
    assert store.get("x") is None and store.size() == 0
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_file_that_another_one_holds_is_no_error(store, monkeypatch):
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
    store.put("x", PLAN)
    with sqlite3.connect(store.path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert store.get("x") is None
        store.put("y", PLAN)
        other.execute("ROLLBACK")
    assert store.get("x") == PLAN and store.get("y") is None


_WRITER = """
import sys
from pathlib import Path
from nki_lab.compiler.store import Store
store = Store(Path(sys.argv[1]))
for n in range(60):
    key = str(n % 20)
    store.put(key, [key] * 2000)
    found = store.get(key)
    assert found in (None, [key] * 2000), found
"""


def test_two_processes_and_threads_at_a_time(tmp_path):
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    running = [subprocess.Popen(command) for _ in range(2)]
    store = Store(tmp_path)
    wrong = []

    def read():
        for n in range(100):
            found = store.get(str(n % 20))
            if found not in (None, [str(n % 20)] * 2000):
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert not wrong
    assert sum(store.get(str(n)) == [str(n)] * 2000 for n in range(20)) == 20


def test_where_the_setting_puts_it(tmp_path):
    assert store_of("none") is store_of("") is None
    assert store_of(str(tmp_path)).path == tmp_path / FILE_NAME
    assert store_of("~/plans").folder.name == "plans" and "~" not in str(store_of("~/plans").folder)
    assert "nki_lab" in str(store_of("cache").folder)
