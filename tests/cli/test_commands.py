"""Tests the other commands, and that all commands take their options from the table."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

import nki_lab
from nki_lab.api import isa
from nki_lab.api.official import COMPLETE, IN_PART, coverage, states
from nki_lab.cli import lab
from nki_lab.cli.main import app
from nki_lab.isa import registry
from nki_lab.session.questions import all_options, options_of
from nki_lab.versions import NEWEST

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["run", "profile", "compile"])
def test_commands_have_the_options_of_the_table(name: str):
    shown = {flag: p for p in COMMANDS[name].params for flag in p.opts}
    for option in options_of(name):
        assert shown[option.flag].help == option.help_text
    assert {o.flag for o in all_options() if o.flag in shown} == {o.flag for o in options_of(name)}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("run", "remove_dead find_reloads schedule simulator"),
        ("profile", "remove_dead simulator"),
        ("compile", "remove_dead"),
    ],
)
def test_help_lists_the_values_in_a_fresh_process(name: str, values: str):
    words = [sys.executable, "-m", "nki_lab", name, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [value for value in values.split() if value not in done.stdout] == []


def test_every_command_has_a_sentence(command):
    text = command("--help").stdout
    for name, found in COMMANDS.items():
        assert name in text
        assert found.help


def test_without_a_command_the_help_is_shown(command):
    done = command()
    assert "Usage:" in done.output
    assert "catalog" in done.output


def test_the_version_is_that_of_the_package(command):
    done = command("--version")
    assert (done.exit_code, done.stdout) == (0, f"nki-lab {nki_lab.__version__}\n")


#: Words that each command takes before one too many; lab and workshop hand theirs on to JupyterLab, which refuses it.
TAKEN = {
    "run": ["k.py"], "profile": ["k.py"], "compile": ["k.py"], "disasm": ["k.nkic"], "compare": ["a", "b"],
    "diff": ["a", "b"], "migrate": ["k.py"], "explain": ["psum"], "neff": ["k.neff", "k.py"],
    "catalog": [], "doctor": [],
}  # fmt: skip


def test_no_command_ignores_a_word_or_an_option(command):
    assert set(COMMANDS) - set(TAKEN) == {
        "bench", "calibrate", "execute", "validate", "lab", "workshop",
    }  # fmt: skip
    for name, words in TAKEN.items():
        done = command(name, *words, "surplus")
        assert done.exit_code == 2, (name, done.output)
        assert "surplus" in done.output
    for name in sorted(set(COMMANDS) - {"lab", "workshop", "explain"}):
        done = command(name, *TAKEN.get(name, ["x.ipynb"]), "--surplus")
        assert done.exit_code == 2, (name, done.output)
        assert "--surplus" in done.output


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("workshop", "w", "--check", "--update"), "--update"),
        (("workshop", "w", "--check", "--no-browser"), "--no-browser"),
        (("workshop", "w", "--copy-only", "more"), "more"),
        (("validate", "--github-actions", "lessons"), "lessons"),
        (("validate", "--github-actions", "--lax"), "--lax"),
    ],
)
def test_what_has_no_effect_is_refused(command, words, named, tmp_path: Path):
    done = command(*words)
    assert done.exit_code == 2, done.output
    assert f"`{named}` has no effect" in done.output
    assert list(tmp_path.iterdir()) == []


def test_explain_prints_pages(command):
    assert command("explain", "NKI203").stdout.startswith("NKI203 RuleBroken\n")
    page = command("explain", "nc_matmul", "--target", "trn2").stdout
    assert "modelled cost of one call on trn2" in page
    assert "--check EXPR" in command("explain", "check").stdout


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        (("--check",), "--check EXPR"),
        (("--target",), "--target NAME"),
        (("--show", "--target", "trn2"), "--show VIEWS"),
        (("--target", "trn2", "--show"), "--show VIEWS"),
        (("%%nki",), "%%nki"),
        (("psum",), "psum"),
    ],
)
def test_explain_takes_options_magics_and_words(command, words, heading):
    assert command("explain", *words).stdout.startswith(f"{heading}")


@pytest.mark.parametrize("topic", ["migrate", "nki-lab migrate", "lab"])
def test_explain_shows_the_help_of_a_command(command, topic):
    done = command("explain", topic)
    assert done.exit_code == 0, done.output
    assert f"{topic.removeprefix('nki-lab ')} [OPTIONS]" in done.stdout


def test_explain_fails_on_what_is_not_known(command):
    done = command("explain", "nc_matmull")
    assert done.exit_code == 1
    assert "did you mean `nc_matmul`" in done.stderr


def test_the_catalog_lists_every_instruction(command):
    text = command("catalog").stdout
    assert [name for name in registry if name not in text] == []


def test_the_names_of_a_version_are_listed_with_their_state(command):
    done = command("catalog", "--coverage", "--nki", "0.6.0")
    assert done.exit_code == 0
    assert any(
        line.split() == ["nki.language.fori_loop", "complete"] for line in done.stdout.splitlines()
    )
    assert done.stdout.splitlines()[-1].endswith("0 seen in part, 0 absent")
    early = command("catalog", "--coverage", "--nki", "0.2")
    assert early.exit_code == 1 and "absent" in early.stdout
    assert "fori_loop" not in early.stdout
    older = command("catalog", "--coverage", "--nki", "beta1")
    assert "neuronxcc.nki.language.mgrid" in older.stdout
    assert older.exit_code == 1 and "a prebuilt kernel" in older.stdout
    assert "`0.8` is not one of 0.1" in command("catalog", "--coverage", "--nki", "0.8").stderr
    assert "add --coverage" in command("catalog", "--nki", "0.6").stderr


def test_the_coverage_is_printed_per_module_and_decides_the_exit_code(command, monkeypatch):
    complete = all(not c.missing for c in coverage())
    done = command("catalog", "--coverage")
    assert done.exit_code == (0 if complete else 1)
    lines = [line.split() for line in done.stdout.splitlines()]
    total = next(c.total for c in coverage() if (c.module, c.kind) == ("nki.isa", "functions"))
    assert total >= 52  # as in NKI 0.6
    assert ["nki.isa", "functions", f"{total}/{total}", "100", "%"] in lines
    assert ["nki.language", "functions", "107/107", "100", "%"] in lines
    listed = [s.state for s in states(NEWEST)]
    share = f"{100 * listed.count(COMPLETE) // len(listed)} %"
    said = " ".join(done.stdout.split())
    assert f"of {len(listed)} names {listed.count(COMPLETE)} are complete ({share}), and" in said
    assert (
        f"and {listed.count(IN_PART)} more can be used, but their pages were seen only in part"
        in said
    )

    monkeypatch.delitem(vars(isa), "max8")
    done = command("catalog", "--coverage")
    assert done.exit_code == 1
    assert f"{total - 1}/{total}" in done.stdout
    assert "nki.isa.max8" in done.stdout.partition("missing:")[2]


def test_the_doctor_passes_here_and_fails_with_a_wrong_target(command, monkeypatch):
    assert command("doctor").exit_code == 0
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn0")
    done = command("doctor")
    assert done.exit_code == 1
    assert "FAILED  target" in done.stdout


def test_lab_opens_a_folder_on_this_machine_only(command, monkeypatch, tmp_path: Path):
    started = []
    monkeypatch.setattr(lab, "run_until_stopped", lambda words: started.append(words) or 7)
    done = command("lab", "--folder", tmp_path, "--no-browser", "--port=0")
    assert done.exit_code == 7
    (words,) = started
    assert words[:4] == [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1"]
    assert f"--ServerApp.root_dir={tmp_path}" in words
    assert words[-2:] == ["--no-browser", "--port=0"]
    assert ("--allow-root" in words) == (os.geteuid() == 0)


def test_lab_needs_a_folder_and_jupyterlab(command, monkeypatch):
    assert command("lab", "--folder", "nowhere").exit_code == 2
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    done = command("lab")
    assert done.exit_code == 1
    assert "JupyterLab is not installed" in done.stderr


def test_a_reader_that_has_enough_is_no_error():
    line = f"{sys.executable} -m nki_lab catalog"
    script = f"{line} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0" and done.stderr == ""


def test_what_ends_the_command_ends_what_it_started(tmp_path: Path):
    started = tmp_path / "pid"
    inner = f"import os, pathlib, time; pathlib.Path({str(started)!r}).write_text(str(os.getpid())); time.sleep(60)"
    outer = (
        "import sys; from nki_lab.cli.lab import run_until_stopped;"
        f" sys.exit(abs(run_until_stopped([sys.executable, '-c', {inner!r}])))"
    )
    with subprocess.Popen([sys.executable, "-c", outer]) as process:
        while not (started.exists() and started.read_text()):
            time.sleep(0.05)
        process.terminate()
        assert process.wait(20) == 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
