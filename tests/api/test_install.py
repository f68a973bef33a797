"""Tests that `import nki` finds nki_lab when asked to, and never where the official package is."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nki_lab.errors import NotModelled

ROOT = Path(__file__).parents[2]


def run_python(text, *paths, cwd=None):
    """Run a program in a process of its own and return what it prints."""
    setup = f"import sys; sys.path[:0] = {[*map(str, paths), str(ROOT)]!r}\n"
    outcome = subprocess.run(
        [sys.executable, "-c", setup + text], cwd=cwd, capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.splitlines()


@pytest.fixture
def official(tmp_path):
    """Return a folder with a package that is installed under the official name."""
    for name in ("nki", "neuronxcc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"who = 'the official {name}'\n")
        (tmp_path / name / "language.py").write_text("who = 'its language'\n")
    return tmp_path


def test_nothing_is_installed_unasked():
    assert run_python("""
import importlib.util, nki_lab.api.install
print(importlib.util.find_spec("nki"), importlib.util.find_spec("neuronxcc"))
""") == ["None None"]


def test_all_official_names_are_found():
    assert run_python("""
from nki_lab.api.install import install
print(install(), install())
import nki
import nki.language as nl
import nki.isa as nisa
from nki.isa.constants import dge_mode
from nki.typing import tensor
import nki.collectives, nki.compiler, nki.dtype as nt, nki.tensor
import nki_lab.language, nki_lab.api.isa
print(nl is nki_lab.language is nki.language, nisa is nki_lab.api.isa is nki.isa)
print(nl.__spec__.name, nki.__spec__.name, nisa.__spec__.name)
print(dge_mode is nisa.dge_mode, nt.float32, tensor[2].shape)
""") == [
        "True True",
        "True True",
        "nki_lab.language nki_lab.api.nki nki_lab.api.isa",
        "True float32 (2,)",
    ]


def test_the_kernel_builder_is_refused_by_name():
    assert run_python("""
from nki_lab.api.install import install
install()
try:
    from nki.compiler.kernel_builder import compile_kernel
except Exception as error:
    print(type(error).__name__, error.message, "|", error.help.partition(" and ")[0])
""") == [
        "NotModelled nki.compiler.kernel_builder.compile_kernel is for the official compiler, which nki_lab does"
        " not call | decorate the function with @nki.jit"
    ]


def test_other_submodules_do_not_exist():
    assert run_python("""
from nki_lab.api.install import install
install()
for name in ("nki.languge", "nki.language.creation", "nki.isa.registry"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        print(error)
""") == [
        "nki_lab has no module 'nki.languge'; did you mean `nki.language`?",
        "nki_lab has no module 'nki.language.creation'; did you mean `nki.language`?",
        "nki_lab has no module 'nki.isa.registry'; did you mean `nki.isa` or `nki.isa.constants`?",
    ]


def test_the_older_dialect_is_found_by_its_names():
    assert run_python("""
from nki_lab.api.install import install
install()
from neuronxcc import nki
import neuronxcc.nki.language as nl
from neuronxcc.nki import isa
import nki_lab.api.beta1.language
print(nl is nki.language is nki_lab.api.beta1.language, isa is nki.isa)
""") == ["True True"]


def test_uninstall_and_blocks():
    assert run_python("""
import sys
from nki_lab.api.install import aliases, install, uninstall
install()
import nki.isa
with aliases():
    import nki.language
uninstall()
uninstall()
print([n for n in sys.modules if n.split(".")[0] == "nki"])
with aliases():
    import nki.language as first
with aliases():
    with aliases():
        import nki.language as second
print(first is second)
try:
    import nki
except ModuleNotFoundError as error:
    print(error)
""") == ["[]", "True", "No module named 'nki'"]


def test_an_installed_package_is_not_hidden(official):
    text = """
from nki_lab.api.install import install
print(install())
import nki, nki.language, neuronxcc
print(nki.who, "|", nki.language.who, "|", neuronxcc.who)
"""
    assert run_python(text, official) == [
        "False",
        "the official nki | its language | the official neuronxcc",
    ]


@pytest.mark.parametrize("before", ["import nki.language", ""])
def test_an_installed_package_is_back_after_a_block(official, before):
    text = f"""
from nki_lab.api.install import aliases
{before}
try:
    with aliases():
        import nki, nki.language, neuronxcc
        print(nki.__name__, nki.language.__name__, neuronxcc.who)
        raise KeyError
except KeyError:
    import nki, nki.language
print(nki.who, "|", nki.language.who)
"""
    assert run_python(text, official) == [
        "nki_lab.api.nki nki_lab.language the official neuronxcc",
        "the official nki | its language",
    ]


def test_a_folder_of_that_name_is_no_package(tmp_path):
    (tmp_path / "nki").mkdir()
    text = (
        "from nki_lab.api.install import install; print(install()); import nki; print(nki.__name__)"
    )
    assert run_python(text, tmp_path) == ["True", "nki_lab.api.nki"]


@pytest.mark.parametrize("before", ["import nki.language", ""])
def test_without_a_block_the_aliases_hold_from_now_on(official, before):
    text = f"""
{before}
import nki_lab
nki_lab.aliases()
import nki.language
print(nki.language is __import__("nki_lab.language").language)
with nki_lab.aliases():
    pass
import nki.isa
print(nki.isa.__name__)
"""
    assert run_python(text, official) == ["True", "nki_lab.api.isa"]


def test_a_block_may_be_used_again():
    assert (
        run_python("""
import importlib.util, nki_lab
block = nki_lab.aliases()
for _ in range(2):
    with block:
        import nki.language
        print(nki.language.__name__)
    print(importlib.util.find_spec("nki"))
""")
        == ["nki_lab.language", "None"] * 2
    )


def test_a_framework_that_looks_through_all_modules_finds_no_names_of_its_own():
    """PyTorch's inductor asks every module for `torch`: an error would end its compilation."""
    names = {"module": importlib.import_module("nki_lab.api.compiler")}
    exec(compile("found = hasattr(module, 'torch')", np.__file__, "exec"), names)
    assert names["found"] is False
    with pytest.raises(NotModelled):
        exec(compile("module.torch", __file__, "exec"), names)
