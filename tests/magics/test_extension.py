"""Tests that loading gives the magics, and that unloading takes away everything that loading brought."""

import os
import sys

import pytest

from nki_lab.api import install
from tests.magics.notebook import Notebook, cell

TARGET = "NEURON_PLATFORM_TARGET_OVERRIDE"


def test_the_extension_loads_under_the_name_of_the_package(bare: Notebook):
    assert bare.good("%load_ext nki_lab") == ""
    assert bare.good(cell()) == "kernel add(a, b) for trn3\n"


def test_plain_cells_can_import_nki(notebook: Notebook):
    notebook.good("import nki, nki.language as nl, nki.isa as nisa")
    assert notebook["nki"].__name__ == "nki_lab.api.nki"


def test_unloading_takes_everything_away(bare: Notebook, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(TARGET, "trn1")
    magics = bare.shell.magics_manager.magics
    before = {kind: set(names) for kind, names in magics.items()}
    matchers = list(bare.shell.Completer.custom_matchers)
    finders = list(sys.meta_path)
    bare.good("%load_ext nki_lab")
    bare.good("%nki_target trn2")
    assert {kind: set(names) for kind, names in magics.items()} != before
    bare.good("%unload_ext nki_lab")
    assert {kind: set(names) for kind, names in magics.items()} == before
    assert bare.shell.Completer.custom_matchers == matchers
    assert sys.meta_path == finders
    assert os.environ[TARGET] == "trn1"


def test_it_loads_again_after_unloading_and_reloading(bare: Notebook):
    for command in (
        "%load_ext nki_lab",
        "%unload_ext nki_lab",
        "%load_ext nki_lab",
        "%reload_ext nki_lab",
    ):
        bare.good(command)
    assert bare.good(cell()) == "kernel add(a, b) for trn3\n"


def test_aliases_that_were_installed_before_stay(bare: Notebook):
    install.install()
    try:
        bare.good("%load_ext nki_lab")
        bare.good("%unload_ext nki_lab")
        assert install.is_installed()
    finally:
        install.uninstall()
