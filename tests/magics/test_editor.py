"""Tests that an editor learns what is wrong with its cells and which kernels ran, and nobody else anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.magics.editor_kernel import EditorKernel
from tests.magics.notebook import ADD, ARRAYS, cell

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

HELPER = """
def doubled(tile):
    return nl.add(tile, tile[0:2])
"""
CALLER = """
@nki.jit
def caller(a):
    t = nl.load(a)
    t = doubled(t)
    return t
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorKernel]:
    """Return a kernel with nki_lab loaded by cell `load` of an editor."""
    kernel = EditorKernel(tmp_path_factory.mktemp("ipython"))
    try:
        kernel.run(f"%load_ext nki_lab\n{ARRAYS}\nimport nki, nki.language as nl", "load")
        assert kernel.error == ""
        yield kernel
    finally:
        kernel.stop()


@pytest.fixture
def kernel(started: EditorKernel) -> EditorKernel:
    """Return the kernel after all marks of earlier tests have gone."""
    return started


def marks(message: dict[str, Any], cell: str) -> list[tuple[str, int, int, int, int]]:
    return [
        (m["code"], m["line"], m["column"], m["endLine"], m["endColumn"])
        for m in message["cells"].get(cell, [])
    ]


def of_kind(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [m for m in messages if m["kind"] == kind]


def test_a_comm_is_opened_by_the_first_cell_with_an_id_and_only_one(kernel: EditorKernel) -> None:
    assert len(kernel.opened) == 1
    kernel.run("1", "other")
    kernel.run("1")
    assert len(kernel.opened) == 1
    (first,) = (m for m in kernel.messages[:1])
    assert (first["kind"], first["backend"], first["target"]) == ("status", "simulator", "trn3")
    assert first["targets"] == ["trn1", "trn2", "trn3"]


NAMED = "%%nki --run 'f(a)' --show none\n@nki.jit\ndef f(a):\n    {}\n    return a\n"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (NAMED.format("s = '😀é'; t = nl.ad(a, a)"), (4, "nl.ad")),
        (NAMED.format("变量 = nl.ad(a, a)"), (4, "nl.ad")),
        (NAMED.format("s = 1; t = nl.ad(a, a)").replace("\n", "\r\n"), (4, "nl.ad")),
        # str.splitlines ends lines here, Python and editors do not.
        (NAMED.format("s = '\u2028\x0c'; # \x85\n    t = nl.ad(a, a)"), (5, "nl.ad")),
        # The compiler counts columns in bytes.
        (NAMED.format("pass") + "s = '😀é'; return 5", (6, "return 5")),
        (NAMED.format("s = '😀é'; break"), (4, "break")),
        ("\n%%nki --run 'f(a)'", (2, "%%nki --run 'f(a)'")),
    ],
)
def test_a_mark_covers_what_is_wrong_of_any_text(
    text: str, marked: tuple[int, str], kernel: EditorKernel
) -> None:
    """Both where the cell is run and where it is only read; the mark's line is one that the editor has."""
    (told,) = of_kind(kernel.run(text, "any"), "diagnostics")
    for message in (told, kernel.check(text, "any")):
        (mark,) = message["cells"]["any"]
        assert (mark["line"], mark["text"][mark["column"] : mark["endColumn"]]) == marked
        lines = text.replace("\r\n", "\n").split("\n")
        assert mark["text"] == lines[mark["line"] - 1]


def test_an_error_is_marked_where_it_is_and_gone_after_the_next_run(kernel: EditorKernel) -> None:
    wrong = "\n\n" + cell("--run 'add(a, b)'", ADD.replace("nl.add(", "nl.ad("))
    (told,) = of_kind(kernel.run(wrong, "c"), "diagnostics")
    assert told["origin"] == "c"
    assert marks(told, "c") == [("NKI108", 7, 18, 7, 23)]
    (mark,) = told["cells"]["c"]
    assert mark["text"][mark["column"] : mark["endColumn"]] == "nl.ad"
    assert (mark["severity"], mark["message"]) == ("error", "nki.language has no `ad`")
    fix = mark["fixes"][0]
    assert (fix["insert"], fix["line"], fix["column"], fix["endColumn"]) == ("add", 7, 21, 23)

    (told,) = of_kind(kernel.run(cell("--run 'add(a, b)' --show none"), "c"), "diagnostics")
    assert told["cells"] == {"c": []}
    assert of_kind(kernel.run(cell("--run 'add(a, b)' --show none"), "c"), "diagnostics") == []


def test_an_option_is_marked_and_can_be_put_right(kernel: EditorKernel) -> None:
    (told,) = of_kind(kernel.run(cell("--shwo none --run 'add(a, b)'"), "o"), "diagnostics")
    assert marks(told, "o") == [("NKI603", 1, 6, 1, 12)]
    fix = told["cells"]["o"][0]["fixes"][0]
    assert (fix["insert"], fix["column"], fix["endColumn"]) == ("--show", 6, 12)
    kernel.run(cell(), "o")


def test_text_that_is_no_python_and_an_authors_own_exception_are_marked(
    kernel: EditorKernel,
) -> None:
    (told,) = of_kind(kernel.run("%%nki\ndef f(a:\n    return a", "s"), "diagnostics")
    assert [m[:2] for m in marks(told, "s")] == [("NKI116", 2)]
    (told,) = of_kind(kernel.run("%%nki\ndef f(a):\n    return a\n\n[][1]", "s"), "diagnostics")
    assert marks(told, "s") == [("IndexError", 5, 0, 5, 5)]
    kernel.run(cell(), "s")
    assert of_kind(kernel.run("[][1]", "plain"), "diagnostics") == []
    assert kernel.error == "list index out of range"


def test_an_error_in_a_helper_of_another_cell_is_marked_in_both(kernel: EditorKernel) -> None:
    kernel.run("\n" + HELPER.lstrip("\n"), "helper")
    assert kernel.error == ""
    (told,) = of_kind(kernel.run(cell("--run 'caller(a)'", CALLER), "caller"), "diagnostics")
    ((code, line, *_),) = marks(told, "helper")
    assert line == 3
    assert marks(told, "caller") == [(code, 5, 8, 5, 18)]
    mark = told["cells"]["helper"][0]
    assert mark["text"][mark["column"] : mark["endColumn"]] in mark["text"].partition("(")[2]

    # The mark in the helper goes with its own next run, though it was made by the other cell.
    (told,) = of_kind(kernel.run(HELPER.lstrip("\n"), "helper"), "diagnostics")
    assert (told["origin"], told["cells"]) == ("helper", {"helper": []})
    kernel.run(cell(), "caller")


def test_findings_are_marks_that_stop_nothing(kernel: EditorKernel) -> None:
    body = """
def half(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nl.store(out, t)
    return out
"""
    told = kernel.run(cell("--run 'half(a)' --show none", body), "f")
    (found,) = of_kind(told, "diagnostics")
    assert {m["severity"] for m in found["cells"]["f"]} == {"warning"}
    assert found["cells"]["f"][0]["code"] == "uninitialized"
    (status,) = of_kind(told, "status")
    assert status["runs"][0]["findings"]["f"] == found["cells"]["f"]
    kernel.run(cell(), "f")


def test_an_error_that_was_expected_is_marked_all_the_same(kernel: EditorKernel) -> None:
    wrong = cell("--expect NKI108 --run 'add(a, b)'", ADD.replace("nl.add(", "nl.ad("))
    (told,) = of_kind(kernel.run(wrong, "e"), "diagnostics")
    assert kernel.error == ""
    assert [m[0] for m in marks(told, "e")] == ["NKI108"]
    kernel.run(cell(), "e")


def test_runs_are_listed_with_what_bounds_them_and_the_variable_that_holds_them(
    kernel: EditorKernel,
) -> None:
    kernel.run("%nki_target trn2", "t")
    (status,) = of_kind(kernel.run(cell("--run 'add(a, b)' --show none --name one"), "r"), "status")
    run = status["runs"][0]
    assert (run["kernel"], run["target"], run["cell"], run["times"]) == ("add", "trn2", "r", 1)
    assert f"{run['ns'] / 1000:,.3f} us" in kernel.text
    assert run["bound"]
    assert run["variable"] == "one"
    memory = {m["memory"]: (m["peak"], m["limit"]) for m in run["memory"]}
    assert memory["sbuf"] == (24 * 4 * 3, 212_984)
    assert memory["psum"] == (0, 16 * 1024)

    (status,) = of_kind(kernel.run("for _ in range(3): add(a, b)", "direct"), "status")
    assert status["runs"][0]["times"] == 3
    assert status["runs"][0]["variable"] is None
    assert status["runs"][0]["ns"] == run["ns"]
    kernel.run("two = one; del one; one = 3", "rename")
    names = [r["variable"] for r in kernel.ask("status", kind="hello")["runs"]]
    assert names[:2] == [None, "two"]


def test_the_target_can_be_chosen(kernel: EditorKernel) -> None:
    status = kernel.ask("status", kind="target", name="trn1")
    assert status["target"] == "trn1"
    kernel.run("%nki_target", "t")
    assert kernel.text.startswith("target trn1 (NeuronCore-v2), chosen")
    (status,) = of_kind(kernel.run("%nki_target trn3", "t"), "status")
    assert status["target"] == "trn3"


def test_the_target_is_that_of_the_dialect_of_the_last_run_while_nobody_has_chosen(
    kernel: EditorKernel,
) -> None:
    kernel.run("import os; os.environ.pop('NEURON_PLATFORM_TARGET_OVERRIDE', None)", "forget")
    older = """
import neuronxcc.nki as old, neuronxcc.nki.language as ol
@old.jit
def kernel(a):
    out = ol.ndarray(a.shape, a.dtype, buffer=ol.shared_hbm)
    ol.store(out, ol.load(a))
    return out
kernel(a)
"""
    for text, target in ((older, "trn2"), (cell("--run 'add(a, b)'"), "trn3")):
        (status,) = of_kind(kernel.run(text, "older"), "status")
        assert (status["target"], status["runs"][0]["target"]) == (target, target)


# -- checks without running -------------------------------------------------------------------------------------------


def test_a_check_reads_the_text_alone_where_nothing_is_run(kernel: EditorKernel) -> None:
    body = """
def wrong(a):
    try:
        t = nl.lod(a)
    except ValueError:
        t = nowhere
    return t
"""
    answer = kernel.check(cell("--nki 0.6", body), "k")
    assert [m[:2] for m in marks(answer, "k")] == [("portability", 3), ("NKI108", 4), ("NKI108", 6)]
    for said in ("# nki: 0.5\n" + body, body.replace("\ndef", '\n@nki.jit(nki="0.3")\ndef')):
        answer = kernel.check(cell("", said), "k")
        assert "portability" in {m[0] for m in marks(answer, "k")}
    answer = kernel.check(cell("", body), "k")  # all of Python is NKI 0.7
    assert [m[:2] for m in marks(answer, "k")] == [("NKI108", 4), ("NKI108", 6)]
    answer = kernel.check(cell("", "# nki: 0.9" + body), "k")
    assert "NKI603" in {m[0] for m in marks(answer, "k")}
    assert not answer["compiled"]
    answer = kernel.check(cell("--targt trn2", "\ndef f(a:\n"), "k")
    assert {m[0] for m in marks(answer, "k")} == {"NKI603", "NKI116"}
    assert kernel.check("def f(a): pass", "k")["cells"] == {"k": []}


def test_a_check_compiles_the_call_that_run_names(kernel: EditorKernel) -> None:
    body = """
WIDTH = 1024

def widened(tile):
    out = nl.ndarray((128, WIDTH), dtype=tile.dtype)
    nisa.tensor_copy(out, tile)
    return out

@nki.jit
def wide(a):
    print("hello from the kernel")
    return widened(nl.load(a))
"""
    kernel.run("", "w")
    answer = kernel.check(cell("--run 'wide(a)'", body), "w")
    assert answer["compiled"]
    assert [m[1] for m in marks(answer, "w")] == [6]
    answer = kernel.check(cell("--run 'add(a, a[::-1].copy())' --check 'a'"), "w")
    assert (answer["compiled"], answer["cells"], answer["unseen"]) == (True, {"w": []}, "")
    answer = kernel.check(cell("--run 'add(a, missing)'"), "w")
    assert not answer["compiled"]
    assert "`missing`" in answer["unseen"]
    answer = kernel.check(cell("--run 'add(a, print(b))'"), "w")
    assert not answer["compiled"]
    assert kernel.text == ""


def test_a_check_changes_nothing(kernel: EditorKernel, tmp_path: Any) -> None:
    kernel.run("seen = []; import os; before = set(globals()) | {'before'}", "n")
    file = tmp_path / "written"
    body = f"""
open({str(file)!r}, "w").close()
seen.append("statement")

def default(x=seen.append("default")):
    return x

@seen.append
def decorated():
    pass

P = 128

@nki.jit
def harmless(a):
    seen.append("trace")
    print("printed")
    out = nl.ndarray((P, 24), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out
"""
    answer = kernel.check(cell("--run 'harmless(a)'", body), "n")
    assert answer["compiled"], answer
    text = "print(seen, set(globals()) - before - {'_i', '_ii', '_iii'}, a.sum())"
    kernel.run(text, "n2")
    assert kernel.text.startswith("[] ")
    assert "harmless" not in kernel.text
    assert not file.exists()


def test_a_check_has_a_time_limit_and_the_kernel_works_on(kernel: EditorKernel) -> None:
    body = "\ndef endless(a):\n    while True:\n        nl.load(a)\n"
    kernel.send(kind="check", id=1, cell="x", text=cell("--run 'endless(a)'", body))
    kernel.run("print('meanwhile')", "y")
    assert kernel.text == "meanwhile\n"
    answer = kernel.next("checked")
    assert not answer["compiled"]
    assert answer["unseen"] == "compiling was not finished after 2 seconds"


def test_messages_that_nobody_means_are_ignored(kernel: EditorKernel) -> None:
    kernel.send(kind="check", id=1, cell=3, text=None)
    kernel.send(kind="target", name="trn0")
    kernel.send(kind="what")
    kernel.send()
    assert kernel.ask("status", kind="hello")


def test_front_ends_without_ids_of_cells_are_told_nothing(tmp_path: Any) -> None:
    kernel = EditorKernel(tmp_path)
    try:
        kernel.run(f"%load_ext nki_lab\n{ARRAYS}")
        kernel.run(cell("--run 'add(a, b)' --show none"))
        kernel.run(cell("--shwo"))
        assert (kernel.opened, kernel.messages) == ([], [])
        kernel.run("1", "first")
        assert len(kernel.opened) == 1
    finally:
        kernel.stop()


def test_a_mistake_of_ours_ends_what_is_told_and_no_cell(tmp_path: Any) -> None:
    kernel = EditorKernel(tmp_path)
    try:
        kernel.run(f"%load_ext nki_lab\n{ARRAYS}", "load")
        kernel.run("import nki_lab.magics.editor as ours; del ours.diagnostics", "break")
        assert kernel.error == ""
        assert "because of a mistake in nki_lab: NameError" in kernel.text
        assert kernel.run(cell("--run 'add(a, b)' --show none"), "c") == []
        assert kernel.error == ""
        assert "mistake" not in kernel.text
    finally:
        kernel.stop()


def test_kernels_without_instructions_or_tiles_are_listed(kernel: EditorKernel) -> None:
    body = """
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out
"""
    (status,) = of_kind(kernel.run(cell("--run 'copied(a)' --show none", body), "e"), "status")
    assert [m["peak"] for m in status["runs"][0]["memory"]] == [0, 0]
    kernel.run(cell(), "e")


def test_a_check_that_fails_in_nki_lab_says_so(kernel: EditorKernel) -> None:
    """A fault of ours must not pass for a kernel that takes long to compile."""
    kernel.run("from nki_lab.magics.check_cell import Draft; compile_ = Draft.compile")
    kernel.run("def fault(self):\n    raise ZeroDivisionError('by a fault')\nDraft.compile = fault")
    try:
        answer = kernel.check(cell("--run 'add(a, a)'"), "w")
    finally:
        kernel.run("Draft.compile = compile_")
    assert not answer["compiled"]
    assert answer["unseen"].startswith("nki_lab failed while it compiled the cell: ")
    assert "by a fault" in answer["unseen"]
