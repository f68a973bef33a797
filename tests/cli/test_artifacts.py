"""Tests `nki-lab compile`, `disasm` and `diff`, and runs of what they wrote."""

from __future__ import annotations

import json
import os

import pytest

from tests.cli.test_run import ADD, ARRAYS


def compiled(command, write, *more, file="add.nkic"):
    write("add.py", ADD)
    done = command("compile", "add.py:add", *ARRAYS, "-o", file, *more)
    assert done.exit_code == 0, done.output
    return done


def test_a_kernel_is_compiled_once_and_runs_without_its_source(command, write, tmp_path):
    done = compiled(command, write, "--target", "trn2")
    assert done.stdout.startswith("add for trn2: ")
    (tmp_path / "add.py").unlink()
    done = command("run", "add.nkic", *ARRAYS, "--check", "a + b", "--show", "none")
    assert done.exit_code == 0, done.output
    assert "add on trn2" in done.stdout and "matches: max abs error 0," in done.stdout
    done = command("profile", "add.nkic", *ARRAYS, "-o", "add.json")
    assert "bound by" in done.stdout
    assert json.loads((tmp_path / "add.json").read_text())["target"] == "trn2"


def test_the_name_of_the_kernel_is_the_default_for_the_file(command, write, tmp_path):
    write("add.py", ADD)
    command("compile", "add.py", *ARRAYS)
    assert (tmp_path / "add.nkic").is_file()


def test_what_a_compiled_kernel_cannot_do_is_said(command, write):
    compiled(command, write)
    done = command("run", "add.nkic", *ARRAYS, "--target", "trn1")
    assert done.exit_code == 1 and "compiled for trn3, not for trn1" in done.stderr
    done = command("run", "add.nkic", *ARRAYS, "--arg", "factor=2.0")
    assert done.exit_code == 1 and "compiled for 1.0" in done.stderr
    done = command("run", "add.nkic", *ARRAYS, "--input", "c=ones:2x2")
    assert done.exit_code == 2 and "has no parameter `c`" in done.stderr
    done = command("run", "add.nkic", *ARRAYS[:2])
    assert done.exit_code == 1 and "argument `b` is missing" in done.stderr
    done = command("compile", "add.nkic", *ARRAYS)
    assert done.exit_code == 1 and "already compiled" in done.stderr


def test_disasm_prints_the_program_with_the_authors_lines(command, write):
    compiled(command, write)
    done = command("disasm", "add.nkic")
    assert done.stdout.startswith("nkir 1\nkernel add on trn3 with addresses, engines, waits {\n")
    assert "// add.py, line 8" in done.stdout
    plain = command("disasm", "add.nkic", "--no-comments").stdout
    assert "//" not in plain
    write("add.nkir", plain)
    assert command("disasm", "add.nkir", "--no-comments").stdout == plain


def test_the_source_can_be_left_out(command, write, tmp_path):
    compiled(command, write, "--no-source")
    assert "nl.multiply(nl.add" not in (tmp_path / "add.nkic").read_text()


def test_diff_shows_what_differs_and_exits_like_diff(command, write):
    compiled(command, write)
    compiled(command, write, "--arg", "factor=3.0", file="other.nkic")
    done = command("diff", "add.nkic", "other.nkic", "--context", "0")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- add.nkic", "+++ other.nkic"]
    assert "-  param factor = 1.0" in lines and "+  param factor = 3.0" in lines
    assert len([line for line in lines if line[0] in "+-"]) == 6
    done = command("diff", "add.nkic", "add.nkic")
    assert (done.exit_code, done.stdout) == (0, "the programs are the same\n")


def test_files_of_another_kind_are_refused(command, write):
    write("add.py", ADD)
    for file, words in (("add.py", "neither a kernel"), ("none.nkic", "cannot be read")):
        done = command("disasm", file)
        assert done.exit_code == 1 and words in done.stderr, done.output
    write("odd.nkir", "nkir 1\nkernel odd on trn3 {\n  frobnicate()\n}\n")
    done = command("disasm", "odd.nkir")
    assert done.exit_code == 1 and "the name of an instruction" in done.stderr


@pytest.mark.parametrize("name", ["x.bin", "x", "x.nkir"])
def test_a_compiled_kernel_has_the_ending_of_one(command, name):
    done = command("compile", "add.py:add", *ARRAYS, "-o", name)
    assert done.exit_code == 2 and not os.path.exists(name)
    assert "a compiled kernel is not written as" in done.stderr
    assert "help: end the name with .nkic" in done.stderr


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (("compile", "add.py:add", *ARRAYS, "-o", "add.py"), "--output add.py is the kernel's own"),
        (("compile", "./add.py", *ARRAYS, "-o", "link.py"), "--output link.py is the kernel's own"),
        (("profile", "add.py", *ARRAYS, "--perfetto", "add.py"), "--perfetto add.py is the kernel"),
        (
            ("profile", "add.py", *ARRAYS, "-o", "a.json", "--perfetto", "a.json"),
            "--perfetto a.json is what --output writes",
        ),
    ],
)
def test_nothing_is_written_over_the_kernel_or_over_another_output(
    command, write, tmp_path, words, lost
):
    write("add.py", ADD)
    (tmp_path / "link.py").symlink_to(tmp_path / "add.py")
    done = command(*words)
    assert done.exit_code == 2 and lost in done.output + done.stderr
    assert (tmp_path / "add.py").read_text() == ADD
    assert not (tmp_path / "a.json").exists()
