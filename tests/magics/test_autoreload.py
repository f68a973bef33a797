"""Kernels follow the modules that `%autoreload 2` of IPython reloads, as functions do."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.magics.notebook import Notebook

_numbers = itertools.count()
HEAD = "import nki\nimport nki.language as nl\n"
KERNEL = """
@nki.jit
def {name}(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, {value})
    return out
"""


@pytest.fixture
def edit(notebook: Notebook, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return what writes a module, later than the last time; `notebook` reloads what has changed."""
    folder = tmp_path / "modules"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    number = next(_numbers)
    made: set[str] = set()
    times = itertools.count(1_700_000_000, 10)

    def write(name: str, text: str) -> str:
        """Write a module and return its name; `@` in names is a number that no other test has."""
        module = name.replace("@", str(number))
        path = folder / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("@", str(number)) if "nki.jit" not in text else text)
        made.add(module.partition(".")[0])
        when = next(times)
        os.utime(path, (when, when))
        return module

    notebook.good("%load_ext autoreload\n%autoreload 2")
    notebook.good("import numpy as np\nx = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)")
    yield write
    notebook.good("%autoreload 0")
    sys.path.remove(str(folder))
    for module in [m for m in sys.modules if m.partition(".")[0] in made]:
        del sys.modules[module]


def kernel(name: str, value: str) -> str:
    return KERNEL.format(name=name, value=value)


def value(notebook: Notebook, expression: str) -> np.ndarray:
    """Return what an expression gives in a cell, after the reload that a cell begins with."""
    notebook.good(f"found = {expression}")
    return notebook["found"]


def test_an_imported_kernel_is_the_edited_one(notebook, edit):
    module = edit("kernels@", HEAD + kernel("k", "nl.multiply(nl.load(x), 2.0)"))
    notebook.good(f"from {module} import k\nimport {module}")
    x = notebook["x"]
    np.testing.assert_array_equal(value(notebook, "k(x)"), 2 * x)
    for factor in (3.0, -5.0):
        edit("kernels@", HEAD + "\n\n" + kernel("k", f"nl.multiply(nl.load(x), {factor})"))
        np.testing.assert_array_equal(value(notebook, "k(x)"), np.float32(factor) * x)
        np.testing.assert_array_equal(value(notebook, f"{module}.k(x)"), np.float32(factor) * x)
    assert str(factor) in notebook["k"].source.text
    assert notebook["k"].source.first_line == 6


def test_copies_and_parameters_follow(notebook, edit):
    module = edit("copies@", HEAD + kernel("k", "nl.load(x)"))
    notebook.good(
        f"import nki\nfrom {module} import k\non_two, simulated = k[2], nki.simulate(k)\nkept = [k]"
    )
    notebook.good("k(x)")
    text = HEAD + kernel("k", "nl.add(nl.load(x), by)").replace("def k(x)", "def k(x, by=1.5)")
    edit("copies@", text.replace("@nki.jit", "@nki.jit(debug=True)"))
    x = notebook["x"]
    np.testing.assert_array_equal(value(notebook, "simulated(x)"), x + np.float32(1.5))
    np.testing.assert_array_equal(value(notebook, "kept[0](x, by=-2.0)"), x - 2)
    assert value(notebook, "on_two.grid") == 2
    assert value(notebook, "list(on_two.__signature__.parameters)") == ["x", "by"]
    assert value(notebook, "k.debug") is True


def test_errors_are_at_the_lines_of_the_edited_text(notebook, edit):
    module = edit("lines@", HEAD + kernel("k", "nl.load(x)"))
    notebook.good(f"from {module} import k\nk(x)")
    edit("lines@", HEAD + "# more\n# lines\n" + kernel("k", "nl.lod(x)"))
    outcome = notebook.bad("k(x)")
    assert f"{module}.py, line 9" in outcome.text
    assert "nl.store(out, nl.lod(x))" in outcome.text


def test_helpers_and_kernels_of_other_modules_follow(notebook, edit):
    helper = "import nki.language as nl\ndef scaled(t):\n    return nl.multiply(t, {factor})\n"
    helpers = edit("helpers@", helper.format(factor=2.0))
    edit("package@.__init__", "")
    inner = edit("package@.inner", HEAD + kernel("inner", "nl.load(x)"))
    users = edit(
        "users@",
        f"from {helpers} import scaled\nfrom {inner} import inner\n"
        + HEAD
        + kernel("uses_helper", "scaled(nl.load(x))")
        + kernel("uses_kernel", "nl.add(nl.load(inner(x)), 1.0)"),
    )
    notebook.good(f"from {users} import uses_helper, uses_kernel\nfrom {inner} import inner")
    x = notebook["x"]
    np.testing.assert_array_equal(value(notebook, "uses_helper(x)"), 2 * x)
    np.testing.assert_array_equal(value(notebook, "uses_kernel(x)"), x + 1)
    edit("helpers@", helper.format(factor=-4.0))
    np.testing.assert_array_equal(value(notebook, "uses_helper(x)"), -4 * x)
    edit("package@.inner", HEAD + kernel("inner", "nl.negative(nl.load(x))"))
    np.testing.assert_array_equal(value(notebook, "uses_kernel(x)"), 1 - x)
    np.testing.assert_array_equal(value(notebook, "inner(x)"), -x)


CLASS = """
class Layer:
    def __init__(self, factor):
        self.factor = factor

    @nki.jit
    def forward(self, x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, self.scaled(nl.load(x)))
        return out

    def scaled(self, tile):
        return nl.multiply(tile, {factor})

    @staticmethod
    @nki.jit
    def shifted(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), {shift}))
        return out
"""


def test_methods_follow(notebook, edit):
    module = edit("layers@", HEAD + CLASS.format(factor="self.factor", shift=1.0))
    notebook.good(f"from {module} import Layer\nlayer = Layer(3.0)\nforward = layer.forward")
    x = notebook["x"]
    np.testing.assert_array_equal(value(notebook, "layer.forward(x)"), 3 * x)
    edit("layers@", HEAD + CLASS.format(factor="-self.factor", shift=1.0))
    np.testing.assert_array_equal(value(notebook, "layer.forward(x)"), -3 * x)
    np.testing.assert_array_equal(value(notebook, "forward(x)"), -3 * x)
    edit("layers@", HEAD + CLASS.format(factor="-self.factor", shift=2.0))
    np.testing.assert_array_equal(value(notebook, "Layer.shifted(x)"), x + 2)
    text = CLASS.format(factor="self.factor", shift=2.0)
    edit("layers@", HEAD + text.replace("self.scaled(nl.load(x))", "nl.add(nl.load(x), 8.0)"))
    np.testing.assert_array_equal(value(notebook, "layer.forward(x)"), x + 8)
    np.testing.assert_array_equal(value(notebook, "forward(x)"), x + 8)


def test_a_kernel_without_its_decorator_is_the_new_function_still(notebook, edit):
    module = edit("plain@", HEAD + kernel("k", "nl.load(x)"))
    notebook.good(f"from {module} import k\nk(x)")
    edit("plain@", HEAD + kernel("k", "nl.negative(nl.load(x))").replace("@nki.jit\n", ""))
    np.testing.assert_array_equal(value(notebook, "k(x)"), -notebook["x"])


def test_a_module_that_fails_to_load_leaves_the_kernel(notebook, edit):
    module = edit("broken@", HEAD + kernel("k", "nl.load(x)"))
    notebook.good(f"from {module} import k\nk(x)")
    edit("broken@", HEAD + "def k(x:\n")
    notebook.run("pass")
    np.testing.assert_array_equal(value(notebook, "k(x)"), notebook["x"])


def test_what_is_reloaded_by_hand_stays_as_python_has_it(notebook, edit):
    """`importlib.reload` leaves what was imported, also functions; nki_lab changes that for nobody."""
    notebook.good("%autoreload 0")
    module = edit("hand@", HEAD + kernel("k", "nl.load(x)"))
    notebook.good(f"import importlib, {module}\nfrom {module} import k")
    edit("hand@", HEAD + kernel("k", "nl.negative(nl.load(x))"))
    notebook.good(f"importlib.reload({module})")
    np.testing.assert_array_equal(value(notebook, "k(x)"), notebook["x"])
    np.testing.assert_array_equal(value(notebook, f"{module}.k(x)"), -notebook["x"])
