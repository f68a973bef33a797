"""A child process is followed, limited and ended with all it has started, and nothing else is."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from nki_lab.errors import DeviceTimedOut, DiskFull, ToolchainError
from nki_lab.hardware import child, run_folder
from nki_lab.hardware.child import run_child, unwritable
from nki_lab.hardware.run_folder import KEPT, RunFolder, compiled_before, core_lock


def run(folder, script, seconds=20.0, say=None, **more):
    return run_child(
        ["/bin/sh", "-c", script],
        folder=folder,
        environment={"PATH": os.environ["PATH"]},
        seconds=seconds,
        say=say,
        **more,
    )


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def gone(pid):
    limit = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < limit:
        time.sleep(0.02)
    return not is_alive(pid)


def test_lines_are_told_as_they_come_and_kept(tmp_path):
    lines = []
    ended = run(tmp_path, "echo one; echo two >&2; printf three; exit 3", say=lines.append)
    assert (ended.code, lines) == (3, ["one", "two", "three"])
    assert ended.output == (tmp_path / "output.txt").read_text() == "one\ntwo\nthree"


def test_much_output_is_cut_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "KEPT_BYTES", 1000)
    monkeypatch.setattr(child, "FILE_BYTES", 5000)
    ended = run(tmp_path, "seq 1 20000")
    assert ended.code == 0 and len(ended.output) == 1000 and ended.output.endswith("20000\n")
    assert (tmp_path / "output.txt").stat().st_size < 5000 + (1 << 16)


def test_what_a_child_has_started_ends_with_it(tmp_path):
    started = time.monotonic()
    run(tmp_path, "sleep 300 & echo $! > pid; echo done")
    assert time.monotonic() - started < 10
    assert gone(int((tmp_path / "pid").read_text()))


def test_one_that_hangs_is_ended_and_others_are_not(tmp_path):
    with subprocess.Popen(["sleep", "300"]) as other:
        script = "trap '' TERM; sleep 300 & echo $! > pid; echo waiting; wait; sleep 300"
        child_grace, child.GRACE_S = child.GRACE_S, 0.2
        try:
            with pytest.raises(
                DeviceTimedOut, match=r"(?s)sh was ended after 1.5 seconds.*'waiting'.*output.txt"
            ):
                run(tmp_path, script, seconds=1.5)
        finally:
            child.GRACE_S = child_grace
        assert gone(int((tmp_path / "pid").read_text()))
        assert other.poll() is None
        other.kill()


def test_an_interrupt_ends_the_child_first(tmp_path):
    script = "trap 'echo given up > up; exit' TERM; echo $$ > pid; sleep 300 & wait"

    def interrupt():
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, script)
    assert gone(int((tmp_path / "pid").read_text())) and (tmp_path / "up").exists()
    assert run(tmp_path, "echo again").output == "again\n"  # this process goes on


def test_one_that_was_killed_says_by_what(tmp_path):
    assert run(tmp_path, "kill -9 $$").code == -signal.SIGKILL


def test_a_program_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ToolchainError, match="neuron-none cannot be started: FileNotFoundError"):
        run_child(["/nowhere/neuron-none"], folder=tmp_path, environment={}, seconds=1.0)


# -- folders and locks -----------------------------------------------------------------------------------------------


def test_old_folders_go_and_those_in_use_stay(tmp_path):
    used = RunFolder.new(tmp_path, "first")
    for number in range(KEPT + 4):
        folder = RunFolder.new(tmp_path, f"k{number}")
        folder.note(key=number % 3, neff="a.neff")
        folder.release()
    assert len(list(tmp_path.glob("run_*"))) == KEPT
    assert used.path.is_dir() and compiled_before(tmp_path, 1) is None
    folder.write("a.neff", b"program")
    assert compiled_before(tmp_path, folder.described["key"]) == folder.path / "a.neff"
    used.release()
    RunFolder.new(tmp_path, "last").release()
    assert not used.path.exists()


def test_a_folder_that_is_gone_says_so(tmp_path):
    folder = RunFolder.new(tmp_path, "k")
    folder.release()
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()
    assert folder.described == {}
    with pytest.raises(ToolchainError, match=r"result\.json is not in the run folder"):
        folder.read("result.json")
    with pytest.raises(ToolchainError, match="cannot be written: No such file"):
        folder.write("a", b"")
    with pytest.raises(DiskFull, match="cannot be written: No space left"):
        raise unwritable(tmp_path, OSError(28, "No space left on device"))
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match="cannot be written"):
        RunFolder.new(tmp_path / "file", "k")


HOLDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from nki_lab.hardware.run_folder import core_lock
with core_lock(Path({base!r}), 1, "softmax", print):
    print("has it", flush=True)
    time.sleep(300)
"""


def test_two_runs_wait_for_each_other_and_a_dead_one_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "_WAIT_S", 0.02)
    script = HOLDER.format(root=os.getcwd(), base=str(tmp_path))
    told = []
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "has it\n"
        with core_lock(tmp_path, 0, "k", told.append):  # another core
            assert told == []

        def say(line):
            told.append(line)
            holder.kill()

        with core_lock(tmp_path, 1, "k", say):
            assert told == [
                f"core 1 is used by process {holder.pid}, which runs softmax: waiting until that run has ended"
            ]


def test_a_child_that_runs_on_keeps_the_core(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "_WAIT_S", 0.02)
    told = []
    with core_lock(tmp_path, 0, "k", told.append) as lock:
        orphan = subprocess.Popen(["sleep", "300"], pass_fds=(lock,))

    def say(line):
        told.append(line)
        orphan.kill()

    with core_lock(tmp_path, 0, "next", say):
        assert len(told) == 1 and "which runs k" in told[0]
    orphan.wait()


def test_nothing_is_started_where_its_output_cannot_be_kept(tmp_path):
    (tmp_path / "output.txt").mkdir()
    with pytest.raises(ToolchainError, match="cannot be written"):
        run(tmp_path, "touch started; sleep 1")
    assert not (tmp_path / "started").exists()
