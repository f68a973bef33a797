"""Tests what is moved and proved: the doors, the proof, and what is told where something is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import nki_lab
import nki_lab.migration.moving as moving
from nki_lab.api.install import aliases
from nki_lab.cli.main import app
from nki_lab.errors import (
    BadSyntax,
    CheckFailed,
    MixedDialects,
    NkiError,
    NoKernel,
    UnknownOption,
)
from nki_lab.migration.facts import Facts
from nki_lab.migration.modules import Module
from nki_lab.migration.proof import Call, compared
from nki_lab.migration.rewriter import Moved, rewritten
from nki_lab.versions import NEWEST, version_named

OLD = """\
# nki: 0.2
# One kernel.
@nki.jit
def scale(a, factor=2.0):
    # what comes out
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)  # here
    t = nl.ndarray(a.shape, dtype=a.dtype)
    nisa.dma_copy(
        dst=t,  # on chip
        src=a,
        dge_mode=1,  # by software
    )
    nisa.tensor_scalar(t, t, nl.multiply, factor)
    nisa.dma_copy(dst=out, src=t)
    return out
"""
MAIN = """\


if __name__ == "__main__":
    print(scale(np.arange(48, dtype=np.float32).reshape(6, 8), factor=3.0)[0, 1])
"""


@pytest.fixture
def a(rng):
    return rng.standard_normal((40, 24)).astype(np.float32)


@pytest.fixture
def command():
    return lambda *words: CliRunner().invoke(app, ["migrate", *map(str, words)])


def test_every_comment_is_kept_but_that_of_the_version(module, a):
    moved = nki_lab.migrate(f"{module(OLD)}::scale", a)
    for comment in ("# One kernel.", "# what comes out", "# here", "# on chip", "# by software"):
        assert comment in moved.text
    assert "nki:" not in moved.text and "nki: 0.2" in moved.module.text
    assert (moved.since.name, moved.to.name) == ("0.2", "0.7")


def test_comments_of_an_argument_that_is_left_out_stand_above_the_statement():
    text = "import nki.isa as nisa\nnisa.tensor_copy(\n    t,\n    s,\n    dtype=x,  # wide\n)\n"
    moved = rewritten(text, Facts(), version_named("0.1"), NEWEST)
    assert moved.text == "import nki.isa as nisa\n# wide\nnisa.tensor_copy(\n    t,\n    s,\n)\n"


def test_a_version_behind_a_statement_is_left_out():
    text = "def kernel(a):\n    # NKI = 0.2\n    return a  # nki 0.2\n"
    moved = rewritten(text, Facts(), version_named("0.2"), NEWEST)
    assert moved.text == "def kernel(a):\n    return a\n"
    assert (
        "# nki: 0.5\n    return a  # nki: 0.5"
        in rewritten(text, Facts(), version_named("0.2"), version_named("0.5")).text
    )


def test_it_stops_at_the_version_that_is_asked_for(module, a):
    moved = nki_lab.migrate(f"{module(OLD)}::scale", a, to="0.4")
    assert "# nki: 0.4" in moved.text and "nisa.dge_mode.swdge" in moved.text
    assert moved.is_equal


def test_a_kernel_object_is_moved_with_its_file(module, a):
    path = module(OLD)
    with nki_lab.aliases():
        scope = moving.module_of(path).run(path.read_text(), str(path), "some_module")
    moved = nki_lab.migrate(scope["scale"], a, factor=-1.5)
    assert moved.is_equal and moved.module.path == path
    np.testing.assert_array_equal(moved.proof[0].after.outputs[0], a * np.float32(-1.5))


def test_the_calls_of_a_file_are_taken(module, command):
    done = command(module(OLD + MAIN))
    assert done.exit_code == 0, done.output
    assert "every bit of every result is equal" in done.output
    assert done.output.count(" equal\n") >= 3


def test_a_package_beside_it_and_a_name_that_is_needed_are_found(tmp_path, a):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").touch()
    (tmp_path / "parts" / "sizes.py").write_text("FACTOR = 4.0\n")
    (tmp_path / "above.py").write_text(
        "HALF = 0.5\n"
    )  # in a folder that does not say it is a package
    path = tmp_path / "parts" / "kernels.py"
    path.write_text(
        "import nki\nfrom nki.isa import dma_copy, tensor_scalar\nimport nki.language as nl\n"
        "from ..above import HALF\nfrom .sizes import FACTOR\n\n\n@nki.jit\ndef scale(a):\n"
        "    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n    t = nl.ndarray(a.shape, a.dtype)\n"
        "    dma_copy(t, a, dge_mode=2)\n    tensor_scalar(t, t, nl.multiply, FACTOR * HALF)\n"
        "    dma_copy(out, t)\n    return out\n"
    )
    moved = nki_lab.migrate(f"{path}::scale", a, nki="0.2")
    assert "dma_copy(t, a, dge_mode=nki.isa.dge_mode.hwdge)" in moved.text
    assert moved.is_equal


def test_the_command_shows_checks_and_writes(module, command):
    path = module(OLD)
    given = (f"{path}::scale", "--input", "a=randn:40x24", "--arg", "factor=0.5")
    shown = command(*given, "--diff", "--seed", "3")
    assert shown.exit_code == 0, shown.output
    assert "-        dge_mode=1,  # by software" in shown.output
    assert "+        dge_mode=nisa.dge_mode.swdge,  # by software" in shown.output
    assert "line 12: nl.ndarray: a result lies in nl.shared_hbm" in shown.output
    assert command(*given, "--check").exit_code == 1
    assert path.read_text().endswith(OLD), "neither wrote"
    called = command(path, "--call", "scale(rng.random((6, 8), np.float32))", "--write")
    assert called.exit_code == 0 and "written to" in called.output, called.output
    assert "dge_mode=nisa.dge_mode.swdge" in path.read_text()
    again = command(*given, "--check")
    assert (again.exit_code, again.output) == (
        0, "kernels.py: nothing to move, it is written for NKI 0.7\n",
    )  # fmt: skip


def test_values_that_differ_are_told_and_never_written(module, command, monkeypatch):
    path = module(OLD)

    def wrong(text, *more):
        moved = rewritten(text, *more)
        return Moved(moved.text.replace("nl.multiply", "nl.add"), moved.changes)

    monkeypatch.setattr(moving, "rewritten", wrong)
    done = command(f"{path}::scale", "--input", "a=randn:40x24", "--write")
    assert done.exit_code == 1
    assert "result 0: 960 of 960 elements differ, first [0, 0]:" in done.output
    assert "error[NKI601]: scale computes other values as a kernel for NKI 0.7" in done.output
    assert path.read_text().endswith(OLD)
    moved = nki_lab.migrate(f"{path}::scale", np.ones((4, 4), np.float32))
    with pytest.raises(CheckFailed):
        moved.write(path.parent / "new.py")
    assert not (path.parent / "new.py").exists()


def test_what_the_new_version_refuses_is_left_at_its_line(module, command, monkeypatch):
    monkeypatch.setattr(
        moving, "rewritten", lambda text, *more: Moved(text.replace("0.2", "0.7"), [])
    )
    path = module(OLD)
    done = command(f"{path}::scale", "--input", "a=randn:40x24", "--write")
    assert done.exit_code == 1
    assert "not proved" in done.output
    new = path.read_text()
    assert "    # migrate: dma_copy: dge_mode=1, a raw value of dge_mode" in new
    assert new.index("# migrate:") < new.index("nisa.dma_copy(")
    compile(new, "kernels.py", "exec")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--from", "0.9"], 2, "`0.9` is not one of 0.1, 0.2"),
        (["--to", "new"], 2, "`new` is not one of 0.1, 0.2"),
        (["--to", "beta1"], 2, "`beta1` is not one of 0.1, 0.2"),
        (["--from", "beta1"], 2, "`beta1` is neuronxcc.nki, which is not imported in kernels.py"),
        (["--from", "0.5", "--to", "0.4"], 2, "kernels are moved to a later version"),
        (["--from", "0.4", "--call", "scale(np.eye(4, dtype=np.float32))"], 2,
         "the text says of its kernels that they are written for NKI 0.2"),
        (["--call", "scale(1", ], 2, "--call"),
        (["--call", "a", "--arg", "factor=2"], 2, "both say what to compare by"),
        (["--call", "scale(nothing)"], 1, "nothing"),
        (["--call", "3"], 1, "nothing calls its kernels"),
        ([], 1, "nothing calls its kernels"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_an_error(words, code, says, module, command):
    done = command(module(OLD), *words)
    assert done.exit_code == code, done.output
    assert says in done.output


def test_a_version_of_nki_is_not_that_of_a_file_of_the_older_dialect(module, command):
    path = module("import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n")
    path.write_text(path.read_text().partition("import neuronxcc")[1] + ".nki.language as nl\n")
    done = command(path, "--from", "0.3")
    assert done.exit_code == 2, done.output
    assert "`0.3` is a version of nki, and kernels.py imports neuronxcc.nki" in done.output
    assert "write beta1 instead of 0.3" in done.output


def test_files_and_kernels_that_are_not_there_are_named(module, command, tmp_path):
    path = module(OLD)
    assert "did you mean `kernels.py`" in command(tmp_path / "kernel.py").output
    done = command(f"{path}::scal", "--input", "a=randn:40x24")
    assert "has no kernel `scal`" in done.output and "did you mean `scale`" in done.output
    bad = module("def scale(:\n", name="bad.py")
    done = command(bad)
    assert "error[NKI101]" in done.output or "this is not Python" in done.output
    assert "bad.py, line 7" in done.output
    with pytest.raises(BadSyntax):
        rewritten("x = (", Facts(), version_named("0.2"), NEWEST)
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    assert "not a text in UTF-8" in command(tmp_path / "latin.py").output


def test_a_kernel_that_no_version_takes_keeps_its_error(module, a):
    path = module(OLD.replace("nl.multiply", "nl.multipli").replace("# nki: 0.2\n", ""))
    with pytest.raises(NkiError, match="multipli"):
        nki_lab.migrate(f"{path}::scale", a)


def test_two_dialects_are_not_mixed_and_the_older_one_is_named(module, a):
    older = "import neuronxcc.nki.language as old\n\n\n"
    mixed = module(older + OLD.replace("nl.multiply", "old.multiply"))
    with pytest.raises(MixedDialects, match="two dialects"):
        nki_lab.migrate(f"{mixed}::scale", a)
    scope: dict[str, object] = {}
    path = module(
        "@nki.jit\ndef copied(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(a))\n    return out\n",
        head="",
    )
    with aliases():
        exec("import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl", scope)
    without = Module(path.read_text(), str(path), None, scope)
    with pytest.raises(MixedDialects, match=r"`copied` is written in the older dialect"):
        moving.migrated(without, lambda names: names["copied"](a))


def test_a_file_may_be_said_to_be_of_the_older_dialect_and_its_kernel_needs_no_decorator(module, a):
    path = module(
        "def negative(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, -nl.load(a))\n    return out\n",
        head="import neuronxcc.nki.language as nl\n\n",
    )
    moved = nki_lab.migrate(f"{path}::negative", a, nki="beta1")
    assert moved.is_equal and "nl.multiply(nl.load(a), -1.0)" in moved.text, moved.report()
    with pytest.raises(UnknownOption, match=r"to NKI 0\.6: .* are moved to NKI 0\.7 only"):
        nki_lab.migrate(f"{path}::negative", a, to="0.6")


def test_a_file_with_an_older_kernel_beside_is_moved_by_the_older_rules(module, a):
    other = OLD.replace("# nki: 0.2\n", "").replace("scale(", "other(")
    other = other.replace("factor)\n", "factor, dtype=nl.float32)\n")
    today = OLD.replace("# nki: 0.2\n", "").replace("nl.hbm", "nl.shared_hbm")
    today = today.replace("        dge_mode=1,  # by software\n", "")
    path = module(f"{other}\n\n{today}")
    moved = nki_lab.migrate(f"{path}::scale", a)
    assert moved.since.name == "0.1" and not moved.undecided, moved.report()
    assert "`dtype` was ignored" in moved.report() and moved.is_equal


def test_a_change_in_many_lines_is_told_once(module, a):
    loop = "    for k in nl.affine_range(2):\n        nisa.tensor_scalar(t, t, nl.add, 1.0)\n"
    old = OLD.replace(
        "    nisa.dma_copy(dst=out, src=t)\n", f"{loop}{loop}    nisa.dma_copy(dst=out, src=t)\n"
    )
    report = nki_lab.migrate(f"{module(old)}::scale", a).report()
    assert "  lines 20, 22: nl.affine_range: it is range\n" in report


def test_a_lambda_without_text_cannot_be_moved():
    scope: dict = {}
    exec("def f(a):\n    return a", scope)
    with pytest.raises(NoKernel, match="text of `f` cannot be found"):
        nki_lab.migrate(scope["f"], np.ones((2, 2), np.float32))
    with pytest.raises(UnknownOption, match="`9` is not one of"):
        nki_lab.migrate(nki_lab.jit(rewritten), nki="9")


def test_sets_of_inputs_keep_what_indices_are_and_draw_anew_what_is_constant(rng):
    arrays = (
        np.ones((5, 7), np.float32), rng.permutation(35).reshape(5, 7).astype(np.int32), np.zeros((7,), np.int32),
    )  # fmt: skip
    call = Call("k", (), {}, arrays, (), "trn2")
    sets = dict(call.sets(np.random.default_rng(0)))
    assert list(sets) == [
        "the inputs given", "other values", "6 in place of 7 elements", "4 in place of 5 elements", "another dtype",
    ]  # fmt: skip
    ones, indices, zeros = sets["other values"]
    assert np.unique(ones).size > 30 and (zeros == 0).all()
    assert sorted(indices.ravel()) == list(range(35)) and (indices != arrays[1]).any()
    assert [a.shape for a in sets["6 in place of 7 elements"]] == [(5, 6), (5, 6), (6,)]
    assert [str(a.dtype) for a in sets["another dtype"]] == ["bfloat16", "int32", "int32"]
    nothing = Call("k", (), {}, (np.full((1, 1), 3, np.int32),), (), "trn2")
    assert list(dict(nothing.sets(np.random.default_rng(0)))) == ["the inputs given"]


def test_every_bit_is_compared(module):
    path = module("""\
@nki.jit
def signs(a, value=0.0):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    nl.store(out, nl.multiply(t, value))
    return out
""")
    with nki_lab.aliases():
        scope = moving.module_of(path).run(path.read_text(), str(path), "some_module")
    a = np.array([[1.0, -1.0], [np.nan, 2.0]], np.float32)
    one, same, other = (nki_lab.run(scope["signs"], a, value=v) for v in (0.0, 0.0, -0.0))
    assert compared(one, same) == ""
    assert compared(one, other) == "result 0: 3 of 4 elements differ, first [0, 0]: 0.0 became -0.0"
    wide = nki_lab.run(scope["signs"], a.reshape(1, 4))
    assert compared(one, wide) == "result 0: float32[2, 2] became float32[1, 4]"
