"""Operators that cells define."""

from __future__ import annotations

import numpy as np
import pytest

from tests.magics.notebook import Notebook, bare, cell, notebook, shell  # noqa: F401

FORWARD = """
@nki.jit
def twice(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 2.0))
    return out
"""
BOTH = f"""{FORWARD}
@nki.jit
def twice_backward(dout):
    din = nl.ndarray(dout.shape, dtype=dout.dtype, buffer=nl.shared_hbm)
    nl.store(din, nl.multiply(nl.load(dout), 2.0))
    return din
"""


def test_a_cell_makes_an_operator_of_torch(notebook: Notebook):  # noqa: F811
    torch = pytest.importorskip("torch")
    text = notebook.good(cell("--torch cells::twice", BOTH))
    assert "<operator cells::twice of the NKI kernel twice>" in text
    x = torch.linspace(-1, 2, 6).reshape(2, 3).requires_grad_()
    notebook.shell.user_ns["x"] = x
    shown = notebook.good("%nki --run '(twice(x) ** 3).sum().backward()' --show none --name last")
    assert "twice" in shown or not shown
    torch.testing.assert_close(x.grad, 24 * x.detach() ** 2)
    assert notebook["last"].name == "twice_backward"
    x.grad = None
    notebook.good(
        cell(
            "--torch cells::made --run '(made(x) ** 2).sum().backward()' --show none",
            FORWARD.replace("twice", "made"),
        )
    )
    torch.testing.assert_close(x.grad, 8 * x.detach())
    np.testing.assert_array_equal(notebook["twice"](np.ones((2, 3), np.float32)), 2)
    first = notebook["twice"]
    assert "cells::twice__v2" in notebook.good(cell("--torch cells::twice", BOTH))
    assert first.name == "cells::twice"
    outcome = notebook.bad(cell("--torch cells::other", BOTH + FORWARD.replace("twice", "again")))
    assert "has 2 kernels that it could mean" in outcome.text
    decorated = "@nki_lab.torch.custom_op('cells::decorated')" + FORWARD
    assert "kernel twice(a)" in notebook.good(cell("", "import nki_lab\n" + decorated))


def test_a_cell_makes_an_operator_of_jax(notebook: Notebook):  # noqa: F811
    jax = pytest.importorskip("jax")
    notebook.good(cell("--jax cells::twice", BOTH))
    x = jax.numpy.linspace(-1, 2, 6)
    grad = jax.grad(lambda x: (notebook["twice"](x[None]) ** 3).sum())(x)
    np.testing.assert_allclose(grad, 24 * x**2, rtol=1e-5)
