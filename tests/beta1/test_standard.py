"""Tests what kernels of the older dialect are compiled with where nobody chooses: chip, and full memory."""

import pickle

import numpy as np
import pytest

import nki_lab
import nki_lab.api.beta1.isa as nisa
import nki_lab.api.beta1.language as nl
from nki_lab.api.beta1 import nki
from nki_lab.choices import Choices
from nki_lab.errors import NkiError
from tests.cli.conftest import command, write  # noqa: F401

# Fixtures are parameters of tests.
# ruff: noqa: F811

KERNEL = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def large(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t, u = nl.load(x), nl.load(x)
    nl.store(out, t + u)
    return out
"""


@nki.jit
def chip_of(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + float(nisa.get_nc_version()))
    return out


X = np.zeros((128, 4), np.float32)


def _chip(**choices):
    return chip_of.launch_with(Choices.current().replace(**choices), (X,), {})


def test_the_chip_is_the_newest_that_the_documentation_is_about():
    run = _chip()
    assert run.compiled.kernel.target.name == run.options.target == "trn2"
    assert run.value[0, 0] == 3
    # Also outside kernels.
    assert nisa.get_nc_version() == 3
    assert repr(nl.tile_size) == "nl.tile_size of trn2"


@pytest.mark.parametrize(("chip", "generation"), [("trn3", 4), ("trn1", 2)])
def test_whoever_chooses_gets_the_chip_that_was_chosen(chip, generation, monkeypatch):
    assert _chip(target=chip).value[0, 0] == generation
    with nki_lab.use(target=chip) as choices:
        assert _chip().value[0, 0] == generation
        assert nisa.get_nc_version() == generation
        assert pickle.loads(pickle.dumps(choices)).call(chip_of, X)[0, 0] == generation
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    assert _chip().value[0, 0] == generation


def test_another_process_and_thread_have_the_same_standard():
    choices = pickle.loads(pickle.dumps(Choices.current()))
    assert choices.call(chip_of, X)[0, 0] == 3


def test_what_overflows_is_a_finding_unless_an_error_is_asked_for(command, write):
    write("large.py", KERNEL)
    sizes = ("large.py:large", "--input", "x=ones:128x30000", "--show", "none")
    assert command("run", *sizes).exit_code == 0
    assert "error[NKI301]" in command("run", *sizes, "--capacity", "error").stderr
    with nki_lab.use(capacity="error"), pytest.raises(NkiError):
        chip_of(np.zeros((128, 60000), np.float32))
