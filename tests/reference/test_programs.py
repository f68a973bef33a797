"""Compares random kernels with the reference, bit for bit where the pages fix the bits, else within a tolerance.

`make fuzz` compares many more: FUZZ_EXAMPLES says how many, FUZZ_SEED which. A difference is shown as the smallest
kernel that still has it; `random_program(seed)` writes the whole one again.
"""

from __future__ import annotations

import ast
import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from nki_lab.errors import NkiError
from nki_lab.isa import registry
from tests.reference.compared import differences, random_program, shown, shrunk, written
from tests.reference.groups import COLLECTIVES, VARIABLE, cores_program, ranks_program
from tests.reference.recipes import RECIPES
from tests.reference.tensors import Refused

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "50"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
CHUNK = 250
COUNTS: Counter[str] = Counter()
BEGIN = time.monotonic()


@pytest.fixture(autouse=True)
def statistics(pytestconfig):
    """In a long run tell now and then what was compared so far."""
    yield
    if "FUZZ_EXAMPLES" in os.environ:
        text = ", ".join(f"{name} {count:,}" for name, count in COUNTS.most_common(12))
        with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\nafter {time.monotonic() - BEGIN:.0f} s: {text}")


@pytest.mark.parametrize("first", range(0, EXAMPLES, CHUNK))
def test_random_programs(first: int) -> None:
    refused = 0
    count = min(CHUNK, EXAMPLES - first)
    for seed in range(SEED * 1_000_003 + first, SEED * 1_000_003 + first + count):
        try:
            program = random_program(seed)
            found = differences(program, COUNTS)
        except Refused:  # nothing to return, or a choice that only values decide
            refused += 1
            COUNTS["without a program"] += 1
            continue
        except NkiError as error:
            refused += 1
            COUNTS[f"refused: {type(error).__name__}: {str(error.message)[:60]}"] += 1
            continue
        COUNTS["programs"] += 1
        if found:
            small = shrunk(program, lambda p: bool(differences(p)))
            pytest.fail(shown(small, differences(small)), pytrace=False)
    assert refused <= count // 10, COUNTS


def test_every_instruction_takes_part():
    used: set[str] = set()
    for k, name in enumerate(n for n in RECIPES if RECIPES[n][2]):
        for seed in range(6):
            try:
                used.update(
                    re.findall(r"(?:nisa|ncc)\.(\w+)\(", written(100 * k + seed, "trn3", name).text)
                )
            except Refused:
                continue
    for name in (*COLLECTIVES, *VARIABLE):
        for seed in range(1, 6 if name in VARIABLE else 2):
            used.update(re.findall(r"ncc\.(\w+)\(", ranks_program(seed, name).text))
    for seed in range(8):
        used.update(re.findall(r"nisa\.(\w+)\(", cores_program(seed).text))
    # `+ - *` of scalars are written as such; the recipe of scalars has each.
    assert set(registry) - used == {"scalar_arithmetic"}


def test_a_seed_writes_one_program():
    assert random_program(7).text == random_program(7).text


def test_the_reference_knows_nothing_of_nki_lab():
    folder = Path(__file__).parent
    tools = {"compared.py", "test_faults.py", "test_programs.py"}
    for file in folder.glob("*.py"):
        if file.name not in tools:
            imports = [
                k
                for k in ast.walk(ast.parse(file.read_text()))
                if isinstance(k, ast.Import | ast.ImportFrom)
            ]
            names = {getattr(k, "module", None) or k.names[0].name for k in imports}
            assert not [name for name in names if name.split(".")[0] in ("nki_lab", "nki")], (
                file.name
            )
