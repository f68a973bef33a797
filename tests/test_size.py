"""Holds how large files and rooms may be, and how a room may be cut into files.

`python -m tests.test_size` prints the table of budgets for the tree as it is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
LIMIT = 700
SOURCES = {
    "nki_lab": {".py", ".js", ".css"},
    "tests": {".py", ".nkir"},
    "benchmarks": {".py"},
    "extension/src": {".ts", ".tsx"},
    "extension/style": {".css"},
    "extension/ui-tests": {".ts", ".py"},
}
BUILT = ROOT / "nki_lab" / "labextension"

#: The most lines of a room, and of all tests; "" are the modules beside the rooms. A change that needs more raises its
#: row, and its message says what the lines are for; a change that needs fewer lowers it.
BUDGETS = {
    "": 1_350,
    "api": 1_200,
    "autodiff": 1_600,
    "backends": 720,
    "beta1": 8_700,
    "choices": 960,
    "cli": 3_060,
    "compiler": 9_150,
    "dialects": 1_500,
    "errors": 2_150,
    "exercises": 2_300,
    "explain": 1_010,
    "frameworks": 4_400,
    "hardware": 3_800,
    "ir": 10_050,
    "isa": 11_750,
    "kernels": 12_400,
    "language": 2_600,
    "magics": 3_100,
    "migration": 5_600,
    "profiler": 8_700,
    "runtime": 4_800,
    "server": 500,
    "session": 1_300,
    "simulator": 4_050,
    "targets": 1_600,
    "tests": 104_400,
    "timing": 6_150,
    "versions": 750,
    "views": 14_550,
    "widgets": 2_400,
}

#: A module with fewer lines than this and one importer belongs into that importer, where both stand in one folder.
SPLINTER = 60
#: Modules that list what their folder has, one file each: commands, magics, and the block of a view.
LISTS = re.compile(r"nki_lab\.(cli\.main|magics\.extension|views\.\w+\.view)")
#: Splinters that stay, and why.
KEPT = {
    "nki_lab.api.isa_constants": "the official module nki.isa.constants",
    "nki_lab.server.file_page": "loaded only in the process that makes pages",
}
#: The most modules that may import each other in a circle.
CIRCLE = 3


def source_files(root: Path, sources: dict[str, set[str]]) -> list[Path]:
    return sorted(
        file
        for folder, suffixes in sources.items()
        for file in (root / folder).rglob("*")
        if file.suffix in suffixes and BUILT not in file.parents
    )


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def too_long(files: list[Path]) -> dict[str, int]:
    lines = {str(file): lines_of(file) for file in files}
    return {name: count for name, count in lines.items() if count > LIMIT}


def test_no_file_is_over_700_lines() -> None:
    files = source_files(ROOT, SOURCES)
    assert Path(__file__) in files
    assert too_long(files) == {}, "split these by what they are about"


@pytest.mark.parametrize(("lines", "refused"), [(700, False), (701, True)])
def test_the_limit_is_700(tmp_path: Path, lines: int, refused: bool) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n" * lines)
    assert bool(too_long(source_files(tmp_path, {".": {".py"}}))) == refused


# -- rooms -----------------------------------------------------------------------------------------------------------


def lines_of_rooms(root: Path) -> Counter[str]:
    """Return the lines of each room of the package, and of all tests."""
    lines: Counter[str] = Counter()
    for file in source_files(root, {name: SOURCES[name] for name in ("nki_lab", "tests")}):
        top, *inside = file.relative_to(root).parts
        room = top if top == "tests" else inside[0] if len(inside) > 1 else ""
        lines[room] += lines_of(file)
    return lines


def over_budget(lines: Mapping[str, int], budgets: Mapping[str, int]) -> dict[str, str]:
    """Return the rooms that have no budget, or more lines than it."""
    return {
        room: f"{count} lines, {budgets.get(room, 0)} allowed"
        for room, count in lines.items()
        if count > budgets.get(room, 0)
    }


def budget_for(lines: int) -> int:
    """Return the budget of a room: its lines and one in a hundred more, in whole fifties."""
    return -(-lines * 101 // 5000) * 50


def test_no_room_is_over_its_budget() -> None:
    assert over_budget(lines_of_rooms(ROOT), BUDGETS) == {}


def test_every_budget_is_that_of_a_room() -> None:
    assert set(BUDGETS) == set(lines_of_rooms(ROOT))


def test_a_room_over_its_budget_or_without_one_is_refused(tmp_path: Path) -> None:
    for name, count in {"nki_lab/a.py": 3, "nki_lab/room/b.js": 4, "tests/x/c.py": 5}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text("x\n" * count)
    lines = lines_of_rooms(tmp_path)
    assert lines == {"": 3, "room": 4, "tests": 5}
    assert over_budget(lines, {"": 3, "room": 3}) == {
        "room": "4 lines, 3 allowed",
        "tests": "5 lines, 0 allowed",
    }


@pytest.mark.parametrize(("lines", "budget"), [(3, 50), (1000, 1050), (4950, 5000), (4951, 5050)])
def test_a_budget_is_rounded_up_a_little(lines: int, budget: int) -> None:
    assert budget_for(lines) == budget


# -- modules ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("nki_lab", cache_dir=None)


def lines_of_modules() -> dict[str, int]:
    """Return the lines of every module that is not a package."""
    files = (f for f in source_files(ROOT, {"nki_lab": {".py"}}) if f.name != "__init__.py")
    return {".".join(f.relative_to(ROOT).with_suffix("").parts): lines_of(f) for f in files}


def splinters(graph: grimp.ImportGraph, lines: Mapping[str, int]) -> dict[str, str]:
    """Return the short modules that only one module of their folder imports, and that module."""
    importer_of = {}
    for module, count in lines.items():
        importers = graph.find_modules_that_directly_import(module)
        if count >= SPLINTER or len(importers) != 1:
            continue
        (importer,) = importers
        same_folder = importer.rpartition(".")[0] == module.rpartition(".")[0]
        if same_folder and importer in lines and not LISTS.fullmatch(importer):
            importer_of[module] = importer
    return importer_of


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the groups of modules that import each other: imports in functions and for types count, too."""
    reached = {
        module: graph.find_downstream_modules(module) & graph.find_upstream_modules(module)
        for module in graph.modules
    }
    groups = {tuple(sorted({module, *others})) for module, others in reached.items() if others}
    return [list(group) for group in sorted(groups)]


def test_no_module_is_a_splinter(graph: grimp.ImportGraph) -> None:
    importer_of = splinters(graph, lines_of_modules())
    assert importer_of.keys() == KEPT.keys(), "merge it into its importer, or say in KEPT why not"


def test_no_circle_has_more_than_three_modules(graph: grimp.ImportGraph) -> None:
    assert [circle for circle in circles(graph) if len(circle) > CIRCLE] == []


def test_a_circle_and_a_splinter_are_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in ("ab", "bc", "ca", "cd"):
        graph.add_import(importer=f"p.{importer}", imported=f"p.{imported}")
    assert circles(graph) == [["p.a", "p.b", "p.c"]]
    short = {"p.a": 60, "p.b": 59, "p.c": 300, "p.d": 59}
    assert splinters(graph, short) == {"p.b": "p.a", "p.d": "p.c"}
    assert splinters(graph, {"p.d": 59}) == {}  # its importer is a package


# -- imports by name -------------------------------------------------------------------------------------------------


def hidden_imports(source: str) -> list[int]:
    """Return the lines that import a module of this package by a constant name, which no contract sees."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and n.args]
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in ("import_module", "__import__")
        and isinstance(name := call.args[0], ast.Constant)
        and str(name.value).startswith(("nki_lab", "."))
    ]


def test_no_import_is_hidden_in_a_string() -> None:
    files = source_files(ROOT, {"nki_lab": {".py"}})
    lines = {str(f): hidden_imports(f.read_text(encoding="utf-8")) for f in files}
    assert {file: where for file, where in lines.items() if where} == {}


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("importlib.import_module('nki_lab.widgets')", True),
        ("import_module('.widgets', __package__)", True),
        ("__import__('nki_lab.widgets')", True),
        ("import_module('numpy')", False),
        ("import_module(_PUBLIC[name])", False),
    ],
)
def test_a_hidden_import_is_found(line: str, hidden: bool) -> None:
    assert bool(hidden_imports(line)) == hidden


if __name__ == "__main__":
    for room, count in sorted(lines_of_rooms(ROOT).items()):
        print(f'    "{room}": {budget_for(count):_},')
