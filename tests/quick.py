"""Names the test files nearest to a change: `python -m tests.quick` prints them, `make quick` runs them.

A change is what differs from the branch `main`, committed or not. To a changed module belong the test files that import it,
straight or through other files of the tests; to a module that no test imports, those of the modules that import it, and so on.
A test file that changed belongs to the change, and the tests of the repository as a whole always do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Set
from pathlib import Path

from grimp import ImportGraph, build_graph

ROOT = Path(__file__).parents[1]
ALWAYS = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").glob("test_*.py"))


def changed_files(base: str = "main") -> list[str]:
    """Return the files that differ from where this branch left `base`, and those git does not know yet."""
    fork = _git("merge-base", "HEAD", base)[0]
    return [
        *_git("diff", "--name-only", "--diff-filter=d", fork),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def nearest_tests(changed: Iterable[str], graph: ImportGraph) -> list[str]:
    """Return the test files that are nearest to changed files, by imports.

    Args:
        changed: paths from the root of the repository; those of no module count for nothing.
        graph: the imports of `nki_lab` and `tests`.
    """
    tests: set[str] = set()
    for file in changed:
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if file.endswith(".py") and module in graph.modules:
            tests |= _nearest(module, graph)
    return sorted(f"{name.replace('.', '/')}.py" for name in tests)


def _nearest(module: str, graph: ImportGraph) -> set[str]:
    """Return the modules of tests that reach `module` by the fewest imports of the package."""
    seen, ring = {module}, {module}
    while ring:
        tests = {name for name in _through_tests(ring, graph) if _is_test(name)}
        if tests:
            return tests
        ring = _importers(ring, graph) - seen
        seen |= ring
    return set()


def _through_tests(modules: Set[str], graph: ImportGraph) -> set[str]:
    """Return `modules` and what imports them by way of modules of the tests alone."""
    reached, ring = set(modules), set(modules)
    while ring:
        ring = {name for name in _importers(ring, graph) if _of_tests(name)} - reached
        reached |= ring
    return reached


def _importers(modules: Iterable[str], graph: ImportGraph) -> set[str]:
    return {name for m in modules for name in graph.find_modules_that_directly_import(m)}


def _of_tests(name: str) -> bool:
    return name.partition(".")[0] == "tests"


def _is_test(name: str) -> bool:
    return _of_tests(name) and name.rpartition(".")[2].startswith("test_")


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    files = nearest_tests(changed_files(), build_graph("nki_lab", "tests", cache_dir=None))
    sys.stdout.write("\n".join(dict.fromkeys([*files, *ALWAYS])) + "\n")
