"""Tests that a check without running says of every construct and mistake what a run says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nki_lab.dialects import NKI
from nki_lab.errors import error_classes
from tests.magics.editor_kernel import EditorKernel

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

# What the kernel needs is made by more than imports, definitions and constants.
NOT_COMPILED = {"decorator", "class body", "number argument", "object argument"}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorKernel]:
    kernel = EditorKernel(tmp_path_factory.mktemp("ipython"))
    try:
        kernel.run("%load_ext nki_lab\nimport numpy as np", "load")
        yield kernel
    finally:
        kernel.stop()


def errors(told: dict) -> set[tuple[str, int]]:
    marks = [mark for marks in told["cells"].values() for mark in marks]
    return {(mark["code"], mark["line"]) for mark in marks if mark["severity"] == "error"}


def agree(kernel: EditorKernel, text: str) -> bool:
    """Compare check and run of a module with `kernel`; tell whether the check compiled it, or said what is wrong."""
    cell = f'%%nki --show none --run "kernel(x)"\n{NKI.subset.module_of(text)}'
    checked = kernel.check(cell, "c")
    told = [m for m in kernel.run(cell, "c") if m["kind"] == "diagnostics"]
    ran = set().union(*map(errors, told))
    found = errors(checked)
    if not checked["compiled"] and not found:
        assert checked["unseen"], cell
        return False
    assert found == ran, (cell, kernel.error)
    return True


@pytest.mark.thorough
def test_of_every_construct(kernel: EditorKernel) -> None:
    kernel.run("x = np.ones((128, 512), np.float32)", "x")
    missed = {
        key
        for key, row in NKI.subset.rows.items()
        for text in (row.example, row.better)
        if text and not agree(kernel, text)
    }
    assert missed == NOT_COMPILED


def test_of_every_mistake(kernel: EditorKernel) -> None:
    kernel.run("x = np.arange(512, dtype=np.float32).reshape(128, 4)", "x")
    texts = [
        text for kind in error_classes() if kind.code < "NKI4" for text in (kind.wrong, kind.right)
    ]
    modules = [t for t in texts if t and not t.startswith(("%%nki", "$ ", "nkir", "import "))]
    assert len(modules) > 20
    missed = [text for text in modules if not agree(kernel, text)]
    assert missed == []
