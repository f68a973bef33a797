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
    notebook.shell.user_ns["x"] = x[None]
    text = notebook.good("%%nki --jax cells::twice --run 'twice(x)'\n" + BOTH)
    rows = [line.split()[2] for line in text.splitlines() if " * " in line]
    assert rows == ["cells::twice", "cells::twice_backward"]


def test_a_cell_shows_an_operator_beside_its_backward(notebook: Notebook):  # noqa: F811
    torch = pytest.importorskip("torch")
    notebook.shell.user_ns["x"] = x = torch.linspace(-1, 2, 6).reshape(2, 3)
    text = notebook.good(cell("--torch cells::both --run 'both(x)'", BOTH.replace("twice", "both")))
    rows = [line.split() for line in text.splitlines() if " * " in line]
    names = [row[2] for row in rows]
    assert names == ["cells::both", "cells::both_backward"]
    trace = notebook["both"].trace(x)
    assert [row.part for row in trace.kernels] == ["forward", "backward"]
    assert [float(row[3]) for row in rows] == pytest.approx(
        [row.us for row in trace.kernels], abs=1e-3
    )
    assert not x.requires_grad  # it stays as it is
    torch.testing.assert_close(trace.gradients["a"], torch.full((2, 3), 2.0))
    # As the run itself did both, where it did.
    x.requires_grad_()
    line = "--torch cells::both --run 'both(x).sum().backward()'"
    text = notebook.good(cell(line, BOTH.replace("twice", "both")))
    assert [line.split()[2] for line in text.splitlines() if " * " in line] == [
        "both",
        "both_backward",
    ]
    # An instruction without a rule of differentiation leaves the forward, and says why.
    shown = notebook.good(cell("--torch cells::top --run 'top(x.detach())'", TOP))
    assert "* cells::top" in shown and "backward: " in shown


TOP = """
@nki.jit
def top(a):
    out = nl.ndarray((a.shape[0], 8), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((a.shape[0], 8), dtype=a.dtype, buffer=nl.sbuf)
    wide = nl.ndarray((a.shape[0], 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=-1.0)
    nisa.dma_copy(dst=wide[:, : a.shape[1]], src=a)
    nisa.max8(dst=tile, src=wide)
    nl.store(out, tile)
    return out
"""
