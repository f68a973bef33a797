"""Tests that a new lesson takes a folder in workshop/lessons, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "99_doubled"
FILES = {
    "lesson.py": """\
# %% [markdown] id="title"
# # 99 Doubled
#
# ![A tile](99_tile.svg)

# %% id="load"

# %% id="target"
# %nki_target trn2

# %% id="double" exercise="99.1"
import nki
import nki.isa as nisa
import nki.language as nl
from nki_lab.exercises import check

@nki.jit
def double(x):
    ...

# %% id="shown"
print("two tiles")

# %% id="double-check" check="99.1"
check("99.1", double)
""",
    "problems.py": '''\
"""Exercises of lesson 99."""

from nki_lab.exercises.problem import Task

PROBLEMS = (
    Task(
        id="99.1",
        title="Doubled",
        statement="`double(x)` returns `2 * x` for an array of at most 128 rows.",
        hints=("Which instruction adds?", "nl.add adds two tiles.", "tile = nl.load(x); nl.add(tile, tile)"),
        signature="double(x)",
        inputs=lambda draw, rows: (draw(rows, 8),),
        reference=lambda x: 2 * x,
        cases=({"rows": 16}, {"rows": 1}),
    ),
)
''',
    "solutions.py": '''\
"""Solutions of lesson 99."""

import nki
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out
''',
    "wrong.py": '''\
"""Wrong kernels of lesson 99."""

import nki
import nki.language as nl


@nki.jit
def zeros(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.subtract(nl.load(x), nl.load(x)))
    return out


WRONG = {"99.1": {"zeros": zeros}}
''',
}
TILE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with one lesson more: our files behind links, and the folder of that lesson."""
    for name in ("nki_lab", "tests", "docs", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    lessons = tmp_path / "workshop" / "lessons"
    lessons.mkdir(parents=True)
    (tmp_path / "workshop" / "solutions").mkdir()
    for path in (ROOT / "workshop").rglob("*"):
        if path.suffix in (".ipynb", ".py", ".svg"):
            link = tmp_path / path.relative_to(ROOT)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(path)
    (lessons / NAME).mkdir()
    for name, text in FILES.items():
        (lessons / NAME / name).write_text(text)
    (tmp_path / "workshop" / "pictures" / "99_tile.svg").write_text(TILE)
    return tmp_path


def run(checkout: Path, *words: str) -> str:
    """Run Python in the checkout, and return what it prints; pytest takes every test of the new lesson."""
    asked = {"PYTHONPATH": str(checkout), "NKI_LAB_PROGRESS": "none", "NKI_LAB_THOROUGH": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        env=os.environ | asked,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.thorough
@pytest.mark.notebook
@pytest.mark.slow
def test_generator_tests_catalogue_and_copy_find_a_new_lesson(checkout: Path):
    assert run(checkout, "-m", "workshop.generate", NAME).startswith(f"{NAME}: ")
    tested = run(
        checkout, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "99", "tests/exercises/test_every_exercise.py",
        "tests/notebooks/test_generated.py", "tests/notebooks/test_workshop.py",
    )  # fmt: skip
    for test in (
        f"test_its_text_is_that_of_its_lesson[{NAME}]",
        f"test_only_open_exercises_fail_and_say_so[{NAME}]",
        "test_an_answer_written_to_be_wrong_is_rejected_for_its_reason[99.1-zeros]",
        "test_the_solution_passes_with_a_star_on_every_chip_that_gives_one[0-99.1]",
        f"test_links_lead_to_files[solutions/{NAME}]",
    ):
        assert f"{test} PASSED" in tested
    asked = "from nki_lab.exercises import statement; print(statement('99.1'))"
    assert run(checkout, "-c", asked).startswith("99.1 Doubled\n")
    run(checkout, "-m", "nki_lab", "workshop", "mine", "--copy-only")
    mine = checkout / "mine"
    copied = [
        f.relative_to(mine).as_posix() for f in mine.rglob("*") if "99" in str(f.relative_to(mine))
    ]
    assert sorted(copied) == [f"{NAME}.ipynb", "pictures/99_tile.svg"]
