"""Names the unit tests of what changed: `python -m tests.quick` prints them, `make quick` runs them.

A change is what differs from where this branch left `main`, committed or not. The tests of a room stand in the folder
of its name; those of the repository as a whole stand beside these folders and are always named.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
# Folders outside the package, and the tests that look at them.
OTHERS = {"workshop": ["tests/exercises", "tests/notebooks"], "benchmarks": ["tests/benchmarks"]}


def changed_files() -> list[str]:
    """Return the files that differ from where this branch left `main`, and those git does not know yet."""
    names = ("refs/remotes/origin/main", "refs/heads/main")
    bases = _git("for-each-ref", "--sort=-refname", "--format=%(refname)", *names)
    (fork,) = _git("merge-base", "HEAD", (*bases, "HEAD")[0])
    return [
        *_git("diff", "--name-only", fork),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def unit_tests(changed: Iterable[str]) -> list[str]:
    """Return the folders and files with the tests of changed files, then those of the repository.

    Args:
        changed: paths from the root of the repository.
    """
    named = []
    for parts in (PurePosixPath(file).parts for file in changed):
        if parts[0] in ("nki_lab", "tests") and len(parts) > 1:
            room = parts[1].removesuffix(".py")
            named += [f"tests/{room}", f"tests/test_{room}.py"]
        elif parts[0] in OTHERS:
            named += OTHERS[parts[0]]
    always = sorted(file.relative_to(ROOT).as_posix() for file in ROOT.glob("tests/test_*.py"))
    return [name for name in dict.fromkeys((*named, *always)) if (ROOT / name).exists()]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.stdout.write("\n".join(unit_tests(changed_files())) + "\n")
