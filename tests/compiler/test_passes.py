"""Each pass turns the program above the line of a case in `passes/` into the program below it.

To add a case, write the program above the line and run with `--update-golden`.
"""

import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from nki_lab.choices import Choices
from nki_lab.compiler import passes
from nki_lab.compiler.passes import Pass
from nki_lab.compiler.pipeline import PASSES
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from tests.golden import Golden

CASES = sorted((Path(__file__).parent / "passes").glob("*.txt"))
LINE = "\n----\n\n"


def test_every_pass_is_in_the_pipeline():
    modules = [
        import_module(m.name) for m in pkgutil.iter_modules(passes.__path__, f"{passes.__name__}.")
    ]
    declared = {v.name for module in modules for v in vars(module).values() if isinstance(v, Pass)}
    assert sorted(declared) == sorted(each.name for each in PASSES)


def test_every_pass_has_a_case():
    assert {case.stem.partition(".")[0] for case in CASES} == {each.name for each in PASSES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_pass_turns_one_program_into_another(case: Path, golden: Golden):
    before = case.read_text("utf-8").partition(LINE)[0]
    kernel = read_kernel(before)
    assert print_kernel(kernel) == before
    [run] = [each for each in PASSES if each.name == case.stem.partition(".")[0]]
    after = print_kernel(run(kernel, Choices()))
    assert after != before
    golden(before + LINE + after, f"passes/{case.name}")
