"""Tests that the scripts of the live views compute what they should, and fit into the one module a widget has."""

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nki_lab.views.models.display import trace_scripts
from nki_lab.views.registry import scripts
from nki_lab.widgets import modules
from nki_lab.widgets.packing import pack, unpack

TESTS = sorted(Path(__file__).parents[1].glob("*/js/*.test.mjs"))
STATIC = sorted(modules.FOLDER.glob("*.js")) + sorted(
    modules.FOLDER.parents[1].glob("views/*/*.js")
)

EVERYTHING = (
    {"text": "<b>ä\u202e</b>", "list": [1, None, -2.5]},
    {
        "u1": np.array([1, 255], "u1"),
        "u2": np.array([65535], "u2"),
        "u4": np.array([2**32 - 1, 7, 8], "u4"),
        "i4": np.array([-5], "i4"),
        "f4": np.array([0.5], "f4"),
        "f8": np.array([2.0**53, -0.25], "f8"),
        "none": np.array([], "u2"),
    },
)


@pytest.fixture(scope="module")
def node() -> str:
    path = shutil.which("node")
    if path is None:
        pytest.skip("no node on PATH; the scripts are also run by the browser tests")
    version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    if int(re.match(r"v(\d+)", version)[1]) < 20:
        pytest.skip(
            f"node {version.strip()} has no test runner with mocked timers; 20 or newer has"
        )
    return path


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name)
def test_script(node: str, file: Path) -> None:
    blocks = {
        "NKI_PACKED_ALL": pack(*EVERYTHING),
        "NKI_PACKED_ONE": pack({}, {"k": np.array([1], "u1")}),
        "NKI_PACKED_TWO": pack({}, {"k": np.array([2], "u1")}),
    }
    environment = os.environ | {k: base64.b64encode(v).decode() for k, v in blocks.items()}
    outcome = subprocess.run(
        [node, "--test", "--experimental-default-type=module", str(file)],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-2000:]


def test_there_are_scripts_to_test() -> None:
    assert len(TESTS) >= 4 and len(STATIC) >= 10


def test_packed_data_is_read_back_and_is_the_same_each_time() -> None:
    meta, arrays = unpack(pack(*EVERYTHING))
    assert meta == EVERYTHING[0]
    for name, array in EVERYTHING[1].items():
        assert arrays[name].dtype == array.dtype and (arrays[name] == array).all()
    assert pack(*EVERYTHING) == pack(*EVERYTHING)


def test_the_widgets_module_is_valid(node: str, tmp_path: Path) -> None:
    file = tmp_path / "view.mjs"
    file.write_text(modules.module_text(scripts()))
    outcome = subprocess.run([node, "--check", str(file)], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr


def test_every_script_is_part_of_the_widget() -> None:
    """The page that is saved holds the widget, and one script more that takes the place of a kernel."""
    shown = trace_scripts()  # those of runs among them
    parts, of_page = (
        set(re.findall(r"^const _(\w+) = \(\(\) => \{$", text, re.MULTILINE))
        for text in (modules.module_text(shown), modules.page_text(shown))
    )
    assert of_page - parts == {"page"}
    assert len(of_page) == len(STATIC)


def test_a_module_comes_after_what_it_imports() -> None:
    text = modules.module_text(scripts())
    for user, used in re.findall(r"const _(\w+) = |= _(\w+);", text):
        if used:
            assert f"const _{used} = " in text[: text.index(f"= _{used};")], (user, used)
    assert text.rstrip().endswith("export default { render };")


def test_no_text_becomes_markup_and_nothing_is_evaluated() -> None:
    for file in STATIC:
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|import\(",
            file.read_text(),
        )
        assert found == [], file.name


def test_stripping_comments_takes_no_text() -> None:
    """Lines inside a template literal must not look like a comment or depend on their indent."""
    for file in STATIC:
        for line in file.read_text().splitlines():
            assert len(re.findall(r"(?<!\\)`", line)) % 2 == 0, f"{file.name}: {line}"
