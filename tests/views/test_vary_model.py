"""Tests that the sliders get from the kernel what they show, also where it does not compile, and on a page
without one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.views.display import display
from nki_lab.views.head import view_head
from nki_lab.views.registry import Parts, scripts
from nki_lab.views.run import ViewData
from nki_lab.views.texts import known_text, view_text
from nki_lab.widgets.live import LiveView
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.profiler import example
from tests.views.runs import by_hand

X = np.random.default_rng(3).standard_normal((256, 512)).astype(np.float32)


def doubled(x, rows=128, name="<b>plain</b>"):
    """Double an array, some rows at a time."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[0] // rows):
        part = nl.ds(r * rows, rows)
        tile = nl.load(x[part])
        nl.store(out[part], nl.add(tile, tile))
    return out


@pytest.fixture
def parts() -> Parts:
    return Parts(nki_lab.run(doubled, X, target="trn2").view_data)


def meta(parts: Parts, name: str):
    (block,) = parts.make(name)
    return unpack(block)[0]


def test_the_overview_names_parameters_values_and_start(parts: Parts):
    found = meta(parts, "vary")
    assert [(p["name"], p["kind"], p["start"], p["ordered"]) for p in found["parameters"]] == [
        ("rows", "argument", 2, True), ("dtype", "dtype", 0, False), ("target", "target", 1, False)
    ]  # fmt: skip
    assert found["parameters"][0]["values"] == ["32", "64", "128", "256", "512"]
    assert found["fixed"] == [["name", "<b>plain</b>"]]
    assert found["combinations"] == 30 and found["problem"] == ""
    (start,) = found["visited"]
    assert start["numbers"] == [2, 0, 1] and start["change"] == "start" and start["ratio"] == 1


def test_a_variant_has_figures_or_its_error(parts: Parts):
    start = parts.data.profile.total_ns
    found = meta(parts, "vary/at/1-0-1")
    smaller = nki_lab.run(doubled, X, 64, target="trn2").profile.total_ns
    assert found["total"] == smaller and found["ratio"] == smaller / start
    assert found["change"] == f"{smaller / start - 1:+.1%}"
    broken = meta(parts, "vary/at/3-0-1")
    assert broken["total"] is None and "256 partitions, but the memory has 128" in broken["problem"]
    assert "computes nothing" in meta(parts, "vary/at/4-0-1")["problem"]
    assert [v["numbers"] for v in meta(parts, "vary")["visited"]] == [
        [2, 0, 1], [1, 0, 1], [3, 0, 1], [4, 0, 1]
    ]  # fmt: skip


def test_the_timeline_of_a_variant_is_that_of_its_run(parts: Parts):
    ran = Parts(nki_lab.run(doubled, X, 64, target="trn1").view_data)
    for name in ("timeline", "timeline/events", "timeline/event/3", "timeline/curves"):
        assert list(parts.make(f"vary/run/1-0-0/{name}")) == list(ran.make(name))
    both = meta(parts, "vary/both/1-0-0/timeline")
    assert [run["target"] for run in both["runs"]] == ["trn2", "trn1"]


@pytest.mark.parametrize(
    "name",
    ["vary/at", "vary/at/9-0-1", "vary/at/1-0", "vary/at/x-0-1", "vary/at/-1-0-1", "vary/run/1-0-1",
     "vary/run/1-0-1/report", "vary/run/3-0-1/timeline", "vary/else/1-0-1", "vary/at/1-0-1/timeline"],
)  # fmt: skip
def test_other_names_are_refused(parts: Parts, name: str):
    with pytest.raises(UnknownPart):
        list(parts.make(name))


def test_a_profile_alone_has_no_variants():
    for data in (ViewData("x", example.profile()), by_hand()):
        assert "only the profile" in meta(Parts(data), "vary")["problem"]
        assert "only the profile" in view_text(data, "vary")
        assert display(data, ("vary",)).to_image("svg")
        with pytest.raises(UnknownPart, match="only the profile"):
            list(Parts(data).make("vary/at/0"))


def test_the_browser_is_answered_while_it_asks_for_what_fails(parts: Parts):
    class Sent(LiveView):
        def send(self, content, buffers=None):
            sent.append((content, buffers))

    sent: list = []
    view = Sent(parts, view_head(parts.data), ("vary",), scripts())
    try:
        assert set(view.parts) == {"vary", "timeline", "timeline/events"}
        view._answer(view, {"want": "vary/at/0-0-2"}, [])
        view._answer(view, {"want": "vary/run/3-0-1/timeline"}, [])
    finally:
        view.close()
    (content, (block,)), (error, _) = sent
    assert content["last"] and unpack(block)[0]["total"] > 0
    assert "256 partitions" in error["error"]


def test_text_picture_and_page_carry_the_combinations(tmp_path):
    chosen = nki_lab.vary(doubled, X, rows=[128, 64, 256], target=["trn2", "trn1"])
    shown = chosen.show()
    bundle, _ = shown._repr_mimebundle_()
    lines = bundle["text/plain"].splitlines()
    assert len(lines) < 40 and lines[0].split()[:2] == ["rows", "target"]
    assert sum("error (1)" in line for line in lines) == 2
    assert f"{chosen.at(rows=64).total_ns / 1000:,.3f}" in bundle["text/plain"]
    assert bundle["image/png"] and len(json.dumps(bundle)) < 300_000
    svg = shown.to_image("svg", theme="dark").decode()
    assert "256 partitions" in svg and "start" in svg
    page = shown.save_html(tmp_path / "page.html").read_text()
    state = json.loads(page.partition('id="state">')[2].partition("</script>")[0])
    assert {"vary/at/2-0", "vary/at/1-1", "vary/run/1-1/timeline/events"} <= set(state["parts"])
    assert "vary/run/2-0/timeline" not in state["parts"]


def test_a_large_kernel_is_not_timed_again_and_again_for_a_text():
    rows = np.zeros((128 * 64, 64), np.float32)
    data = nki_lab.run(doubled, rows, 16, target="trn2").view_data
    before = len(data.variants.visited)
    assert known_text(data, "vary") and len(data.variants.visited) <= max(1, before)
    instructions = data.profile.count("Instruction")
    assert len(data.variants.sweep(instructions * 3)) == 3
    assert len(data.variants.sweep(1)) == 1
