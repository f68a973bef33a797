"""Tests that the IR view shows what each pass changed, and where each line came from."""

from itertools import pairwise

from nki_lab.ir.text.printer import print_kernel
from nki_lab.views.ir import model as ir_model
from nki_lab.views.ir.model import PassListings
from nki_lab.views.ir.view import PRINTED_OPERATIONS
from nki_lab.views.registry import Parts, view_names
from nki_lab.views.run import CodeLine, ProgramStage
from nki_lab.widgets.packing import unpack
from tests.views.runs import added, by_hand


def test_a_pass_that_changes_nothing_says_so() -> None:
    found = {entry["name"]: entry for entry in PassListings(by_hand()).list}
    assert [found[name]["changed"] for name in ("trace", "idle", "place")] == [True, False, True]
    assert [found["place"][count] for count in ("rewritten", "written", "taken")] == [1, 0, 0]


def test_a_large_program_is_not_printed_to_list_its_passes(monkeypatch) -> None:
    monkeypatch.setattr(ir_model, "COUNTED_OPERATIONS", 5)

    def refuse():
        raise AssertionError("printed")

    stages = [
        ProgramStage("trace", refuse),
        ProgramStage("idle", refuse, changed=False),
        ProgramStage("place", refuse),
    ]
    found = PassListings(by_hand(stages=stages)).list
    assert [entry["changed"] for entry in found] == [True, False, True]


def test_nothing_is_printed_before_somebody_looks() -> None:
    def refuse():
        raise AssertionError("printed")

    stages = [
        ProgramStage("trace", refuse),
        ProgramStage("idle", refuse, changed=False),
        ProgramStage("place", refuse),
    ]
    operations = by_hand().operations * PRINTED_OPERATIONS
    for tabs in (("ir",), view_names()):
        stored = Parts(by_hand(stages=stages, operations=operations)).stored(tabs)
        meta, _ = unpack(stored["ir"])
        assert [entry["changed"] for entry in meta["stages"]] == [True, False, True]
    found = added().view_data
    meta, _ = unpack(next(Parts(found).make("ir/counts")))
    assert meta["stages"] == PassListings(found).list


def test_what_a_real_pass_changed_is_what_its_text_says() -> None:
    stages = added().view_data.stages
    texts = [[line.text for line in stage.lines] for stage in stages]
    for (old, new), stage in zip(pairwise(texts), stages[1:], strict=True):
        # A pass may rebuild what reads alike; it never changes the text unnoticed.
        assert stage.changed or old == new
    assert [stage.changed for stage in stages].count(False) >= 2


def test_lines_that_are_new_are_marked() -> None:
    meta, arrays = unpack(PassListings(by_hand()).stage(2))
    assert meta["text"].split("\n") == ["kernel by_hand {", "  copy(%y, %x) on vector", "}"]
    assert arrays["fresh"].tolist() == [0, 1, 0]
    assert arrays["position"].tolist() == [-1, 0, -1]
    assert arrays["place"].tolist() == [0, 1, 0]
    assert meta["places"] == [["cell [3], line 4", "    y = nl.load(x)"]]


def test_a_line_that_is_written_twice_is_new_the_second_time() -> None:
    data = by_hand()
    twice = [*data.stages[0].lines[:2], *data.stages[0].lines[1:]]
    stage = type(data.stages[0])("twice", lambda: twice)
    passes = PassListings(by_hand(stages=[data.stages[0], stage]))
    assert (passes.list[1]["written"], passes.list[1]["taken"]) == (1, 0)
    assert unpack(passes.stage(1))[1]["fresh"].tolist() == [0, 0, 1, 0]


def test_a_rewritten_line_stands_for_the_line_before_with_the_same_tensors() -> None:
    old = [
        *("k {", "  storage %b: f32", "  copy(dst=%b, src=%a)"),
        *("  mm(dst=%c, x=%a)", "  mm(dst=%c, x=%b)", "  drop(%a)", "}"),
    ]
    new = [
        *("k {", "  storage %b: f32, at (0, 4)", "  mm(dst=%c, x=%b, add=1)"),
        *("  #7 mm(dst=%c, x=%a, add=0)", "  copy(dst=%b, src=%d)", "  set(%e)", "}"),
    ]
    stages = [
        ProgramStage(name, lambda texts=texts: [CodeLine(text, None, None) for text in texts])
        for name, texts in (("trace", old), ("pass", new))
    ]
    passes = PassListings(by_hand(stages=stages))
    meta, arrays = unpack(passes.stage(1))
    # The order does not pair lines, their tensors do; where these differ, the first one does.
    assert meta["rewritten"] == [[1, old[1]], [2, old[4]], [3, old[3]], [4, old[2]]]
    assert [text for _, text in meta["taken"]] == ["  drop(%a)"]
    assert arrays["fresh"].tolist() == [0, 1, 1, 1, 1, 1, 0]
    counts = passes.list[1]
    assert [counts[name] for name in ("rewritten", "written", "taken")] == [4, 1, 1]


def test_a_pass_that_adds_waits_rewrites_lines_and_takes_none_away() -> None:
    passes = PassListings(added().view_data)
    counts = {entry["name"]: entry for entry in passes.list}["insert_waits"]
    assert counts["rewritten"] > 0 and counts["written"] == counts["taken"] == 0


def test_text_of_a_real_kernel_is_the_programs() -> None:
    result = added()
    passes = PassListings(result.view_data)
    for number, (name, kernel) in enumerate(result.compiled.stages):
        meta, arrays = unpack(passes.stage(number))
        assert meta["name"] == name
        without_places = [line.split("  // ")[0] for line in print_kernel(kernel).splitlines()]
        assert meta["text"].split("\n") == without_places
        assert sorted(arrays["position"][arrays["position"] >= 0]) == list(
            range(len(kernel.instructions))
        )


def test_every_instruction_of_the_author_has_its_line() -> None:
    passes = PassListings(added().view_data)
    meta, arrays = unpack(passes.stage(passes.first_shown))
    lines = meta["text"].split("\n")
    loads = [
        k
        for k, line in enumerate(lines)
        if line.lstrip().startswith(("dma_copy", "#")) and "src=%x" in line
    ]
    assert len(loads) == 2
    for k in loads:
        _, text = meta["places"][arrays["place"][k] - 1]
        assert "nl.load(x[:, part])" in text
