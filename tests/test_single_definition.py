"""Tests that only the definitions, and what authors write with, know an instruction by its name.

Printer, verifier, passes, simulator, timing, profiler, views and tools work from what a definition declares. A name
there would be a second definition.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nki_lab.isa import registry
from nki_lab.targets.features import FEATURES

PACKAGE = Path(__file__).parents[1] / "nki_lab"
#: Rooms that use instructions by name: definitions, composites, kernels, official names, their history, the rules that
#: move a kernel from one version to another, and the backward kernels that are made.
MAY_NAME = {"autodiff", "beta1", "isa", "language", "kernels", "api", "versions", "migration"}
#: Exercises ask for instructions by name, as their texts do.
MAY_NAME_TOO = PACKAGE / "exercises" / "problems"
# Names that are also ordinary words of other fields ("activation", "iota"): only a call or a string can be told from
# those, so they are checked as attributes and strings and not as plain identifiers.
WORDS = {"activation", "dropout", "iota", "reciprocal", "exponential", "rng"}

FILES = sorted(
    f
    for f in PACKAGE.rglob("*.py")
    if f.relative_to(PACKAGE).parts[0] not in MAY_NAME and MAY_NAME_TOO not in f.parents
)


def named_instructions(source: str) -> list[tuple[int, str]]:
    """Return (line, name) of every instruction named by an identifier, attribute or whole string."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in WORDS:
            name = node.id
        elif isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.alias):
            name = node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            name = node.value
        else:
            continue
        if isinstance(name, str) and name in registry:
            found.append((node.lineno, name))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_no_instruction_is_named(file):
    found = named_instructions(file.read_text())
    if file.relative_to(PACKAGE).parts[0] == "targets":
        # Some abilities of a chip are "has this instruction" and carry its name.
        found = [(line, name) for line, name in found if name not in FEATURES]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "isa.tensor_tensor(a)",
        "if name == 'nc_matmul': pass",
        "from nki_lab.isa.x import tensor_copy",
        "memset = 1",
    ],
)
def test_a_name_is_found(line):
    assert len(named_instructions(line)) == 1
