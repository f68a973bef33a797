"""Tests `%%nki --migrate`: the new cell is inserted below, where every value is equal."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.migration.moving as moving
from nki_lab.migration.rewriter import Moved
from tests.magics.notebook import Notebook, bare, notebook, shell

__all__ = ["bare", "notebook", "shell"]

BODY = """
@nki.jit
def halves(a):
    # one result
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    t = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(dst=t, src=a, dge_mode=2)
    nisa.tensor_scalar(t, t, nl.multiply, FACTOR)
    nisa.dma_copy(dst=out, src=t)
    return out
"""


@pytest.fixture
def inserted(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Collect the cells that are inserted, with whether they replace this one."""
    cells: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        notebook.shell, "set_next_input", lambda text, replace=False: cells.append((text, replace))
    )
    notebook.good(
        "import numpy as np\nFACTOR = -0.5\na = np.arange(24, dtype=np.float32).reshape(4, 6)"
    )
    return cells


@pytest.mark.parametrize("option", ["", " --nki 0.2", " --nki=0.2"])
def test_the_new_cell_is_inserted_below(notebook: Notebook, inserted, option):
    before = notebook.names
    text = notebook.good(f"%%nki --migrate{option} --run 'halves(a)' --target trn2{BODY}")
    assert "every bit of every result is equal" in text
    assert "cell: NKI 0.2 -> NKI 0.7, 2 changes" in text
    assert notebook.names == before, "nothing is bound"
    ((new, replaces),) = inserted
    assert not replaces
    moved = BODY.replace("nl.hbm", "nl.shared_hbm")
    moved = moved.replace("dge_mode=2", "dge_mode=nisa.dge_mode.hwdge").rstrip("\n")
    assert new == "%%nki --run 'halves(a)' --target trn2" + moved
    notebook.good(new.replace("--target", "--show none --target"))
    np.testing.assert_array_equal(notebook["halves_result"].value, notebook["a"] * -0.5)


OLDER = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def thirds(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ip, jf = nl.mgrid[0:4, 0:3]
    nl.store(out[ip, 2 * jf], nl.load(a[ip, 2 * jf + 1]) DIVIDED)  # every other one
    nl.store(out[ip, 2 * jf + 1], nl.load(a[ip, 2 * jf]))
    return out
"""


def test_a_cell_of_the_older_dialect_is_moved(notebook: Notebook, inserted):
    run = "--run 'thirds(a)' --target trn2"
    text = notebook.good(f"%%nki --migrate {run}{OLDER.replace('DIVIDED', '/ 4.0')}")
    assert "cell: NKI Beta 1 -> NKI 0.7" in text and "every bit of every result is equal" in text
    ((new, replaces),) = inserted
    assert not replaces and new.startswith(f"%%nki {run}\nimport nki\n") and "neuronxcc" not in new
    assert "out[0:4, 0:5:2], nl.multiply(nl.load(a[0:4, 1:6:2]), 1.0 / 4.0," in new
    notebook.good(new.replace("--target", "--show none --target"))
    a, result = notebook["a"], notebook["thirds_result"].value
    np.testing.assert_array_equal(result[:, ::2], a[:, 1::2] / 4)
    np.testing.assert_array_equal(result[:, 1::2], a[:, ::2])
    outcome = notebook.bad(f"%%nki --migrate {run}{OLDER.replace('DIVIDED', '/ 3.0')}")
    assert "thirds computes other values as a kernel for NKI 0.7" in outcome.text
    assert len(inserted) == 1
    accepting = f"%%nki --migrate --accept division {run}{OLDER.replace('DIVIDED', '/ 3.0')}"
    assert "every bit is equal; it is accepted" in notebook.good(accepting)
    assert inserted[1][0].startswith(f"%%nki {run}\nimport nki\n")
    assert "# migrate" not in inserted[1][0]


def test_a_cell_of_today_stays(notebook: Notebook, inserted):
    body = BODY.replace("nl.hbm", "nl.shared_hbm").replace(", dge_mode=2", "")
    assert "cell: nothing to move" in notebook.good(f"%%nki --migrate --run 'halves(a)'{body}")
    assert inserted == []


def test_a_cell_whose_values_differ_is_not_inserted(notebook: Notebook, inserted, monkeypatch):
    real = moving.rewritten

    def wrong(text, *more):
        return Moved(real(text, *more).text.replace("FACTOR", "0.5"), [])

    monkeypatch.setattr(moving, "rewritten", wrong)
    outcome = notebook.bad(f"%%nki --migrate --run 'halves(a)'{BODY}")
    assert "halves computes other values as a kernel for NKI 0.7" in outcome.text
    assert inserted == []


def test_a_cell_with_one_function_needs_no_decorator_and_takes_its_own_dialect(
    notebook: Notebook, inserted
):
    body = "\ndef halves(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
    body += "    nl.store(out, nl.load(a) * FACTOR)\n    return out\n"
    older = "\nimport neuronxcc.nki.language as nl" + body
    notebook.good(f"%%nki --run 'halves(a)' --quiet{older}")
    text = notebook.good(f"%%nki --migrate --run 'halves(a)' --dialect beta1{older}")
    assert inserted[0][0].startswith("%%nki --run 'halves(a)'\n")
    assert "every bit of every result is equal" in text
    assert "nl.multiply(nl.load(a), FACTOR" in inserted[0][0]
    today = body.replace("nl.load(a) * FACTOR", "nl.multiply(nl.load(a), FACTOR)")
    today = today.replace(
        "    return", "    for _ in nl.affine_range(1):\n        pass\n    return"
    )
    text = notebook.good(f"%%nki --migrate --run 'halves(a)' --nki 0.3{today}")
    assert "cell: NKI 0.3 -> NKI 0.7, 1 change" in text and len(inserted) == 2
    for option in ("--nki", "--dialect"):
        outcome = notebook.bad(f"%%nki --migrate --run 'halves(a)' {option} beta1{body}")
        assert "`beta1` is neuronxcc.nki, which is not imported in the cell" in outcome.text


@pytest.mark.parametrize(
    ("line", "body", "says"),
    [
        ("--run 'halves(a)'", "x = 1\n", "defines no function"),
        ("--run 'halves(a)'", BODY.replace("(a):", "(a:"), "this is not Python"),
        ("--run 'halfs(a)'", BODY, "name 'halfs' is not defined"),
        ("--run '3'", BODY, "nothing calls its kernels"),
        ("--run 'halves(a)' --nki 0.9", BODY, "`0.9` is not one of"),
        ("--run 'halves(a)' --show ir", BODY, "--show cannot be combined with --migrate"),
        ("--run 'halves(a)' --nki 0.4", BODY, "NKI 0.3"),
    ],
)
def test_what_is_wrong_is_told(notebook: Notebook, inserted, line, body, says):
    outcome = notebook.bad(f"%%nki --migrate {line}\n{body}")
    assert says in outcome.text
    assert inserted == []
