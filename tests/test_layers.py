"""Tests that imports follow the architecture, and that the contracts would notice if they did not."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)

ROOMS = (
    "api autodiff backends beta1 choices cli compat compiler dialects dtypes errors exercises explain frameworks "
    "hardware ir isa jax kernels language magics migration percent profiler progress rewrite runtime server session "
    "simulator source targets timing torch versions views widgets"
).split()


def check_contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def build_package(folder: Path, modules: dict[str, str]) -> None:
    """Write an nki_lab that has every room, all empty but for `modules`, under our contracts."""
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (folder / "nki_lab").mkdir()
    sources = {"__init__": ""} | {f"{room}/__init__": "" for room in ROOMS} | modules
    for name, source in sources.items():
        file = folder / "nki_lab" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)


def test_contracts_hold() -> None:
    outcome = check_contracts(ROOT)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


ALLOWED = {
    "cli/main": "import rich, typer, nki_lab.session, nki_lab.runtime",
    "frameworks/torch_op": "import torch, nki_lab.api",
    "isa/matmul": "import numpy, ml_dtypes, functools, nki_lab.ir, nki_lab.targets",
    "magics/cells": "import IPython.core.magic, nki_lab.views",
    "simulator/machine": "import nki_lab.isa, nki_lab.errors",
    "views/memory": "import anywidget, plotly.graph_objects, nki_lab.profiler, nki_lab.widgets",
    "runtime/result": "import nki_lab.views",
}

BROKEN = {
    "upward": ({"isa/matmul": "import nki_lab.compiler"}, "nki_lab.isa is not allowed"),
    "inside a function": (
        {"ir/__init__": "def f():\n    from nki_lab.isa import x"},
        "nki_lab.ir is not allowed",
    ),
    "tensor knows instructions": (
        {
            "ir/tensor/__init__": "",
            "ir/definition/__init__": "",
            "ir/tensor/view": "def f():\n    from nki_lab.ir.definition import x",
        },
        "nki_lab.ir.tensor is not allowed",
    ),
    "data of a profile asks an analysis": (
        {"profiler/analyses/__init__": "", "profiler/data": "import nki_lab.profiler.analyses"},
        "nki_lab.profiler.data is not allowed",
    ),
    "siblings": ({"timing/model": "import nki_lab.simulator"}, "nki_lab.timing is not allowed"),
    "unlisted room": ({"helpers": ""}, "- nki_lab.helpers"),
    "view runs": ({"views/x": "import nki_lab.compiler"}, "nki_lab.views is not allowed"),
    "view runs through another": (
        {"widgets/__init__": "import nki_lab.profiler.x", "profiler/x": "import nki_lab.ir"},
        "nki_lab.widgets is not allowed to import nki_lab.ir",
    ),
    "definition draws": ({"isa/x": "import plotly.io"}, "nki_lab.isa is not allowed"),
    "IR needs IPython through errors": (
        {"ir/__init__": "import nki_lab.errors", "errors/__init__": "import IPython"},
        "nki_lab.ir is not allowed to import IPython",
    ),
    "torch outside frameworks": ({"runtime/x": "import torch"}, "nki_lab.runtime is not allowed"),
    "IPython outside magics": ({"cli/x": "import IPython"}, "nki_lab.cli is not allowed"),
    "plotly outside views": (
        {"exercises/x": "import plotly.graph_objects"},
        "nki_lab.exercises is not allowed",
    ),
}


def test_contracts_allow_what_the_architecture_allows(tmp_path: Path) -> None:
    build_package(tmp_path, ALLOWED)
    outcome = check_contracts(tmp_path)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(("modules", "complaint"), BROKEN.values(), ids=BROKEN.keys())
def test_contracts_refuse(tmp_path: Path, modules: dict[str, str], complaint: str) -> None:
    build_package(tmp_path, modules)
    outcome = check_contracts(tmp_path)
    assert outcome.returncode == 1
    assert complaint in outcome.stdout


def test_definitions_import_only_numpy_and_ml_dtypes() -> None:
    """The contract names the packages it forbids; this also finds a package it does not name."""
    graph = grimp.build_graph("nki_lab", include_external_packages=True, cache_dir=None)
    allowed = {"ml_dtypes", "numpy", *sys.stdlib_module_names}
    for module in sorted(graph.modules):
        if module.split(".")[:2] in (["nki_lab", "isa"], ["nki_lab", "ir"]):
            imported = {
                name
                for name in graph.find_modules_directly_imported_by(module)
                if not name.startswith("nki_lab")
            }
            assert imported <= allowed, module


def test_rooms_are_not_reached_through_the_package_root() -> None:
    """`from nki_lab import run` would go round the contracts: rooms name rooms."""
    graph = grimp.build_graph("nki_lab", cache_dir=None)
    for importer in sorted(graph.find_modules_that_directly_import("nki_lab")):
        for detail in graph.get_import_details(importer=importer, imported="nki_lab"):
            assert detail["line_contents"] == "from nki_lab import __version__", importer


def test_contract_knows_every_room() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms = next(c for c in contracts["contracts"] if c["id"] == "rooms")
    named = [name.strip("() ") for line in rooms["layers"] for name in line.split("|")]
    assert sorted(named) == ROOMS
