"""A new chip is one file in `targets/`: every list of chips follows from the folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nki_lab

PACKAGE = Path(nki_lab.__file__).parent
CHIP = """\
from nki_lab.targets.facts import ASSUMED, Fact
from nki_lab.targets.spec import build_target
from nki_lab.targets.trn3 import TRN3

IDENTITY = {"name": "trn9", "aliases": ("gen9",), "generation": 9, "core_name": "NeuronCore-v9"}
TRN9 = build_target(
    {**TRN3.sources, **{n: Fact(v, "", "", ASSUMED, "made up") for n, v in IDENTITY.items()}},
    TRN3.feature_sources,
)
"""
KERNEL = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    assert nisa.get_nc_version() == nisa.nc_version.gen9
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""
ANSWERS = """\
import copy, json, pickle
import numpy as np
import nki_lab
from docs.use_pages import target_page
from nki_lab.api import isa
from nki_lab.api.install import aliases
from nki_lab.magics.catalog import catalog, with_chips
from nki_lab.targets import ALL_TARGETS, get_target
from tests.test_readme import targets

with aliases():
    from kernel import kernel
x = np.ones((128, 4), dtype=np.float32)
result = nki_lab.run(kernel, x, target="gen9")
chip = get_target("trn9")
listed = catalog()
print(json.dumps({
    "chips": [target.name for target in ALL_TARGETS],
    "run": [result.compiled.target.name, bool((result.outputs[0] == x).all())],
    "one object": copy.deepcopy(chip) is chip and pickle.loads(pickle.dumps(chip)) is chip,
    "older": isa.nc_version.gen4 < isa.nc_version.gen9,
    "catalogue": [listed["targets"], "trn9" in listed["options"]["--target"]["values"]],
    "words": listed["magics"]["%nki_target"]["words"],
    "settings": with_chips({"properties": {"defaultTarget": {}}})["properties"]["defaultTarget"]["enum"],
    "readme": "| `trn9` | `gen9` | NeuronCore-v9 |" in targets(),
    "docs": "## trn9\\n" in target_page(),
}))
"""


@pytest.fixture
def python(tmp_path: Path):
    """Return a function that runs Python with a package that has the file of one more chip."""
    package = tmp_path / "nki_lab"
    (package / "targets").mkdir(parents=True)
    for source, copy in ((PACKAGE, package), (PACKAGE / "targets", package / "targets")):
        for path in source.iterdir():
            if path.name not in ("targets", "__pycache__"):
                (copy / path.name).symlink_to(path)
    (package / "targets" / "trn9.py").write_text(CHIP)
    (tmp_path / "kernel.py").write_text(KERNEL)
    path = os.pathsep.join((str(tmp_path), str(PACKAGE.parent)))

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_every_list_of_chips_has_it(python):
    chips = ["trn1", "trn2", "trn3", "trn9"]
    assert json.loads(python("-c", ANSWERS).splitlines()[-1]) == {
        "chips": chips,
        "run": ["trn9", True],
        "one object": True,
        "older": True,
        "catalogue": [chips, True],
        "words": chips,
        "settings": ["", *chips],
        "readme": True,
        "docs": True,
    }


def test_the_command_line_takes_it(python):
    run = ("run", "kernel.py", "--input", "x=ones:128x4", "--target", "trn9", "--show", "ir")
    assert "kernel kernel on trn9" in python("-m", "nki_lab", *run)
    assert "trn9 (NeuronCore-v9); also: gen9" in python("-m", "nki_lab", "explain", "gen9")
