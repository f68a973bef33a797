"""Tests that the script that documentation shows for an instruction runs, without a finding, and uses the
instruction."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from docs.example_script import example_script
from nki_lab.api.install import aliases
from nki_lab.isa import registry
from nki_lab.isa.catalog import targets_of
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.spec import Target

PAIRS = [
    pytest.param(name, target, id=f"{name}-{target.name}")
    for name, definition in registry.items()
    for target in ALL_TARGETS
    if target.name in targets_of(definition)
]


def run(text: str, folder: Path) -> dict[str, Any]:
    """Run a script as a file, and return its names."""
    file = folder / "example.py"
    file.write_text(text)
    names: dict[str, Any] = {"__name__": "example"}
    with aliases():
        exec(compile(text, str(file), "exec"), names)
    return names


@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_the_script_runs_and_uses_the_instruction(name: str, target: Target, tmp_path: Path):
    text = example_script(registry[name], target)
    assert text is not None
    assert max(map(len, text.splitlines())) <= 100
    names = run(text, tmp_path)
    for result in names.get("results", [names.get("result")]):
        assert f" on {target.name}" in result.ir["trace"].splitlines()[1]
        assert [f.message for f in result.findings if f.kind != "portability"] == []
        assert f" {name}(" in result.ir["trace"]
        assert len(result.outputs) >= 1


@pytest.mark.parametrize(
    "name", [n for n, d in registry.items() if d.module != "nki.isa.NkiScalar"]
)
def test_arguments_that_have_their_default_are_left_out(name: str):
    definition = registry[name]
    (target,) = [t for t in ALL_TARGETS if t.name in targets_of(definition)][-1:]
    calls = [
        node
        for node in ast.walk(ast.parse(example_script(definition, target) or ""))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == name
    ]
    parameters = definition.signature.parameters
    assert calls
    for keyword in (k for call in calls for k in call.keywords):
        if keyword.arg in parameters and isinstance(keyword.value, ast.Constant):
            assert keyword.value.value != parameters[keyword.arg].default, keyword.arg


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tensor_tensor", lambda n: n["data1"].astype(float) + n["data2"].astype(float)),
        ("nc_matmul", lambda n: n["stationary"].astype(float).T @ n["moving"].astype(float)),
        ("tensor_scalar", lambda n: n["data"].astype(float) + n["operand0"]),
        ("tensor_copy", lambda n: n["src"].astype(float)),
    ],
)
def test_what_it_computes_comes_out(name: str, expected: Any, tmp_path: Path):
    names = run(example_script(registry[name], ALL_TARGETS[-1]), tmp_path)
    output = names["result"].outputs[0]
    tolerance = 1e-5 if output.dtype == np.float32 else float(ml_dtypes.finfo(output.dtype).eps)
    np.testing.assert_allclose(output.astype(float), expected(names), rtol=tolerance)
