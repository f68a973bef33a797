"""Tests that every view of the registry has a text, a picture, data, a script, a place in saved pages, and
documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import nki_lab.language as nl
from docs.generate import pages
from nki_lab.api import isa as nisa
from nki_lab.runtime import Result, run
from nki_lab.views.display import display
from nki_lab.views.pictures import picture_words
from nki_lab.views.registry import _NAME, Parts, scripts, view_names, views
from nki_lab.views.texts import view_text
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.views.test_saved import state_of
from tests.widgets.test_scripts import node  # noqa: F401

ROOT = Path(__file__).parents[2]


def scaled_product(a, b, tile_n=512):
    """Multiply, with everything that views show: tiles, a product, a sum, and a parameter to change."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for j in range(0, b.shape[1], tile_n):
        psum = nl.ndarray((a.shape[1], tile_n), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=psum, stationary=nl.load(a), moving=nl.load(b[:, j : j + tile_n]))
        nl.store(out[:, j : j + tile_n], nl.add(nl.copy(psum, dtype=nl.float32), 1.0))
    return out


@cache
def product() -> Result:
    ones = np.ones((128, 1024), dtype=np.float32)
    return run(scaled_product, ones[:, :128] / 4, ones * 3, target="trn2")


@cache
def page() -> dict:
    return state_of(display(product()).page())


def shape_of(pattern: str) -> str:
    return _NAME.sub(lambda match: ".+" if match[1] else "[^/]+", pattern)


def test_names_stand_in_the_order_of_their_places() -> None:
    assert view_names()[0] == "report"
    assert list(views()) == list(view_names()) == [view.name for view in views().values()]


@pytest.mark.parametrize("name", view_names())
def test_a_view_has_text_and_words(name: str) -> None:
    view, data = views()[name], product().view_data
    assert view.title and view.words and view.needs
    text = view_text(data, name)
    assert text.strip() and "None" not in text
    assert view_text(data, name) == text
    assert len(view_text(data, name, 12).splitlines()) <= 12 or name == "report"
    assert view.words in picture_words(Parts(data), name)


@pytest.mark.parametrize("name", view_names())
def test_every_part_of_a_view_is_answered(name: str) -> None:
    """With a name that a saved page has, else with the numbers 0, 1, 2, ... in its place."""
    parts = Parts(product().view_data)
    names = [*page()["parts"]]
    assert views()[name].parts
    for pattern in views()[name].parts:
        part = next((n for n in names if re.fullmatch(shape_of(pattern), n)), None)
        if part is None:
            first = "-".join("0" for _ in product().view_data.variants.parameters)
            words = {"variant": first, "part": "timeline"}
            numbers = iter(range(9))
            part = _NAME.sub(lambda m: words.get(m[2]) or str(next(numbers)), pattern)  # noqa: B023
        blocks = list(parts.make(part))
        assert blocks, part
        for block in blocks:
            unpack(block)


@pytest.mark.parametrize("name", view_names())
def test_a_number_past_the_end_is_refused(name: str) -> None:
    parts = Parts(product().view_data)
    for pattern in views()[name].parts:
        if _NAME.search(pattern):
            with pytest.raises(UnknownPart):
                list(parts.make(_NAME.sub(str(1 << 60), pattern)))
    with pytest.raises(UnknownPart, match="no data called"):
        list(parts.make(f"{name}/there/is/no/such/part/of/a/view"))


@pytest.mark.parametrize("name", view_names())
def test_a_saved_page_holds_every_part_but_those_of_a_kernel(name: str) -> None:
    view, names = views()[name], [*page()["parts"]]
    assert name in page()["tabs"]
    assert set(view.live) <= set(view.parts)
    for pattern in view.parts:
        held = [n for n in names if re.fullmatch(shape_of(pattern), n)]
        assert held or pattern in view.live, f"no saved page holds {pattern}"


def test_every_script_of_a_view_is_a_module_that_mounts_it(node: str) -> None:  # noqa: F811
    files = [str(script.file) for script in scripts()]
    code = (
        "for (const file of process.argv.slice(1)) {"
        " const { mount } = await import(file);"
        " if (mount?.constructor.name !== 'AsyncFunction') throw new Error(file); }"
    )
    outcome = subprocess.run(
        [node, "--experimental-default-type=module", "--input-type=module", "-e", code, *files],
        capture_output=True, text=True,
    )  # fmt: skip
    assert outcome.returncode == 0 and len(files) == len(view_names()), outcome.stderr


@pytest.mark.parametrize("name", view_names())
def test_a_view_is_documented(name: str) -> None:
    assert f"`--show {name}`" in pages()["views.md"]


NEW = {
    "__init__.py": 'PLACE = 35\n',
    "view.py": """
from nki_lab.views.registry import Needs, View
from nki_lab.widgets.packing import pack

def hello_text(data, limit):
    return [f"hello {data.name}"]

def hello(data):
    return pack({"hello": data.name})

VIEW = View("hello", "Hello", Needs.TIMES, hello_text, "A greeting", {"hello": hello}, first=("hello",))
""",
    "view.js": """
import { fill, make } from "../../widgets/static/elements.js";

export async function mount(panel, context) {
  fill(panel, make("p", {}, (await context.source.get("hello")).meta.hello));
  return { refresh() {}, close() {} };
}
""",
}  # fmt: skip

USE = """
import sys
import nki_lab.views
nki_lab.views.__path__.append(sys.argv[1])
from IPython.core.completer import CompletionContext
from nki_lab.cli.main import app
from nki_lab.magics.completions import complete_options
from nki_lab.views.display import display
from tests.views.runs import added
line = "%%nki --show ir,he"
context = CompletionContext("he", line, len(line), 0, 10)
print([match.text for match in complete_options(context)["completions"]])
shown = display(added(), ("hello", "ir"))
state = shown.widget.get_state()
print(repr(shown).splitlines()[0], "hello" in state["parts"], "Hello" in state["_esm"])
print("A greeting" in shown._words, '"hello"' in shown.page(), shown.to_image()[:4])
app(["run", sys.argv[2], "--input", "x=ones:2x3", "--show", "hello"])
"""

KERNEL = """
import nki
import nki.language as nl

@nki.jit
def greet(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


def test_a_view_is_added_by_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    folder.mkdir()
    for name, text in NEW.items():
        text = text.replace("../../widgets", os.path.relpath(ROOT / "nki_lab/widgets", folder))
        (folder / name).write_text(text)
    file = tmp_path / "greet.py"
    file.write_text(KERNEL)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path), f"{file}:greet"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "['hello']",
        "hello add_halves True True",
        "True True b'\\x89PNG'",
    ], done.stderr
    assert lines[-1] == "hello greet", done.stdout + done.stderr
