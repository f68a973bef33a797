"""Tests what a notebook gets of a run: every form of it is small, safe and the same each time."""

import base64
import html.parser
import json
import re

import numpy as np
import pytest

from nki_lab.errors import UsageError
from nki_lab.source import printable
from nki_lab.views.display import display
from nki_lab.views.head import view_head
from nki_lab.views.registry import STORED_BYTES, Parts, scripts, view_names
from nki_lab.views.run import (
    NoSteps,
    Place,
    Remark,
    Step,
    StepOperand,
    StepPass,
    Tensor,
    ViewData,
)
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE, live
from nki_lab.widgets.modules import module_text
from nki_lab.widgets.open_views import OpenViews, open_views
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.views.runs import added, by_hand, many_events

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "a\" onmouseover=\"alert(1)",
    "a' onclick='alert(1)",
    "javascript:alert(1)",
    "{{7*7}} ${7*7} %(name)s",
    "[red]markup[/red]",
    "/etc/passwd",
    "--><svg onload=alert(1)>",
    "\u202e\u0000\x1b[31m\n\ttwo lines",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_views_left():
    yield
    open_views.close_all()


def bundle_of(result, **options) -> dict:
    return display(result, **options)._repr_mimebundle_()[0]


class HostileSteps(NoSteps):
    """Two executed instructions in which everything a user names is `text`."""

    def __init__(self, text: str) -> None:
        super().__init__("")
        self.order = np.zeros(2, dtype=np.uint32)
        self.note = self._text = text

    def at(self, number: int) -> Step:
        text = self._text
        values = np.array([[1.0, np.nan]])
        operand = StepOperand(text, text, 0, "updates", (1, 2), text, "sbuf", values, values)
        passes = (StepPass(Place(text, text, text), 0, 2, text, None),)
        return Step(number, 0, (operand,), passes, {text: 1}, {text: 2}, printed=text, error=text)


def hostile_run(text: str) -> ViewData:
    """Return a run in which everything a user names is `text`."""
    place = Place(text, text, text)
    tensor = Tensor(text, "sbuf", (8, 4), "float32", 4, "input", True, (0, 0), (0, 5), place)
    remark = Remark("advice", text, text, place)
    return by_hand(
        text, make_steps=lambda: HostileSteps(text), tensors=[tensor] * 2, findings=[remark]
    )


class Markup(html.parser.HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data) -> None:
        self.text += data


def without_widget(monkeypatch) -> None:
    def refuse(*_):
        raise ImportError("No module named 'anywidget'")

    monkeypatch.setattr(live.LiveView, "__init__", refuse)


def test_a_run_comes_as_text_picture_and_widget() -> None:
    bundle = bundle_of(added())
    assert list(bundle) == ["text/plain", "image/png", "text/html", LIVE_TYPE, WIDGET_TYPE]
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert len(bundle[WIDGET_TYPE]["model_id"]) == 32


def test_text_alone_carries_the_result() -> None:
    text = bundle_of(added())["text/plain"]
    assert text.startswith("add_halves on trn2 (NeuronCore-v3): modelled from public documents")
    assert "total time" in text and "bound by" in text and "DMA" in text
    assert len(text.splitlines()) <= 40


def test_text_is_of_the_views_that_were_asked_for() -> None:
    text = bundle_of(added(), tabs=("memory", "ir"))["text/plain"]
    for tabs in (("ir", "memory"), ("memory", "ir"), ("findings",), ("charts", "timeline")):
        shown = display(added(), tabs)
        picture = base64.b64decode(shown._repr_mimebundle_()[0]["image/png"])
        assert picture == shown.to_image(view=tabs[0])  # that of the tab in front
    assert text.startswith("memory  tile")
    assert "nkir 1" in text and "total time" not in text


def test_forms_are_the_same_each_time() -> None:
    first, second = bundle_of(added()), bundle_of(added())
    for kind in ("text/plain", "image/png"):
        assert first[kind] == second[kind]
    stored = [Parts(added().view_data).stored(view_names()) for _ in range(2)]
    assert stored[0] == stored[1]


def test_a_display_is_made_once() -> None:
    shown = display(added())
    assert shown._repr_mimebundle_() == shown._repr_mimebundle_()
    assert open_views.count == 1


def test_a_result_shown_by_itself_is_its_display() -> None:
    assert repr(display(added())) == bundle_of(added())["text/plain"]


@pytest.mark.parametrize(
    ("ask", "message", "help"),
    [
        (
            lambda run: display(run, tabs=()),
            "no view is named",
            f"views: {', '.join(view_names())}",
        ),
        (lambda run: run.show("report", "sketch"), "unknown view `sketch`", "views: report, "),
        (lambda run: run.show("reprt"), "unknown view `reprt`", "did you mean `report`?"),
        (lambda run: run.show(3), "unknown view `3`", "views: report, "),
        (lambda run: run.show().to_image(view="tmeline"), "unknown view `tmeline`", "`timeline`"),
        (lambda run: run.show().to_image("gif"), "no picture of format `gif`", "formats: png, svg"),
        (lambda run: run.show().page("blue"), "unknown theme `blue`", "'light' or 'dark'"),
        (lambda run: run.chart("rofline"), "unknown chart `rofline`", "did you mean `roofline`?"),
        (lambda run: run.chart(3), "unknown chart `3`", "charts: roofline, "),
        (lambda run: run.show(compare=3), "found int, expected a run", "a Result or a Profile"),
        (lambda run: display("run.json"), "found str, expected a run", "a Result or a Profile"),
    ],
)
def test_what_cannot_be_shown_is_an_error_that_says_what_can(ask, message, help) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        ask(added())
    assert help in caught.value.help


def test_sizes_stay_within_what_a_notebook_should_hold() -> None:
    for data, limit in (
        (added().view_data, 100_000),
        (ViewData("many", many_events(60_000)), 100_000),
    ):
        assert len(json.dumps(bundle_of(data))) < limit
        stored = Parts(data).stored(view_names())
        assert sum(map(len, stored.values())) <= STORED_BYTES
        state = display(data).widget.get_state()
        saved = sum(len(v) for v in stored.values()) * 4 / 3
        saved += len(json.dumps({k: v for k, v in state.items() if k != "parts"}))
        assert saved < 300_000


def test_what_is_large_waits_until_it_is_asked_for() -> None:
    parts = Parts(ViewData("many", many_events(60_000)))
    assert "timeline" in parts.stored(view_names())
    assert "timeline/events" not in parts.stored(view_names())
    assert len(list(parts.make("timeline/events"))) == 1


@pytest.mark.parametrize(
    "name", ["", "reports", "ir/99", "ir/-1", "ir/x", "layout/4", "timeline/event/8", "timeline/event/", "layout/²"]
)  # fmt: skip
def test_an_unknown_part_is_refused(name) -> None:
    with pytest.raises(UnknownPart):
        list(Parts(by_hand()).make(name))


def test_every_part_a_view_asks_for_exists() -> None:
    parts = Parts(by_hand())
    for name in (
        "report",
        "ir",
        "ir/2",
        "layout",
        "layout/3",
        "memory",
        "timeline",
        "timeline/event/7",
    ):
        assert len([unpack(block) for block in parts.make(name)]) == 1


class Sent(live.LiveView):
    """A live view that keeps what it sends."""

    def send(self, content, buffers=None) -> None:
        self.__dict__.setdefault("sent", []).append((content, buffers))


def test_the_widget_answers_with_blocks_and_with_errors() -> None:
    view = Sent(Parts(by_hand()), view_head(by_hand()), view_names(), scripts())
    for message in ({"want": "memory"}, {"want": "nothing"}, {"want": 7}, "noise", {}):
        view._answer(view, message, [])
    (first, blocks), (second, _) = view.sent
    assert first == {"part": "memory", "last": True}
    assert unpack(blocks[0])[0]["operations"] == 6
    assert second == {"part": "nothing", "error": "there is no data called 'nothing'"}
    view.close()


def test_without_a_widget_there_are_tables_that_say_why(monkeypatch) -> None:
    without_widget(monkeypatch)
    bundle = bundle_of(added())
    assert list(bundle) == ["text/plain", "image/png", "text/html"]
    assert "no live view: ImportError: No module named" in Markup(bundle["text/html"]).text


@pytest.mark.parametrize("text", HOSTILE)
def test_names_from_users_stay_text(text, monkeypatch) -> None:
    without_widget(monkeypatch)
    bundle = bundle_of(hostile_run(text))
    page = Markup(bundle["text/html"])
    assert page.tags <= {"div", "h4", "p", "em", "details", "summary", "pre"}
    assert page.attributes <= {"open"}
    assert "".join(printable(text).split()) in "".join(page.text.split())
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")


@pytest.mark.parametrize("text", HOSTILE)
def test_names_from_users_arrive_unchanged_in_the_browser(text) -> None:
    data = hostile_run(text)
    parts = Parts(data)
    memory = unpack(next(parts.make("memory")))[0]
    assert text in memory["names"]
    report = unpack(next(parts.make("report")))[0]
    assert report["findings"][0]["message"] == report["name"] == text
    assert (
        live.LiveView(parts, view_head(parts.data), view_names(), scripts()).head["title"] == text
    )


def test_a_name_that_is_a_path_reads_no_file(tmp_path) -> None:
    file = tmp_path / "kernel"
    file.write_text("secret contents")
    bundle = bundle_of(hostile_run(str(file)))
    assert "secret contents" not in json.dumps(bundle)


def test_nothing_comes_from_another_host(monkeypatch) -> None:
    sources = module_text(scripts()) + live.LiveView._css
    without_widget(monkeypatch)
    page = bundle_of(added())["text/html"]
    sources = sources.replace("http://www.w3.org/2000/svg", "")  # a name of SVG that nobody fetches
    for text in (sources, page):
        assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+|\bimport\(|@import|url\((?!#)", text) == []


class View:
    """Something that can be closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_running_a_cell_again_closes_what_it_had_shown() -> None:
    where = [("cell-1", "run-1")]
    views = OpenViews(lambda: where[0])
    first, second, elsewhere, again = View(), View(), View(), View()
    views.add("k", first)
    views.add("k", second)  # two displays of one run of a cell stand side by side
    where[0] = ("cell-2", "run-2")
    views.add("k", elsewhere)
    assert [v.closed for v in (first, second, elsewhere)] == [False, False, False]
    where[0] = ("cell-1", "run-3")
    views.add("k", again)
    assert [v.closed for v in (first, second, elsewhere, again)] == [True, True, False, False]
    assert views.count == 2


def test_outside_notebooks_a_view_replaces_the_one_of_its_name() -> None:
    views = OpenViews()
    first, other, again = View(), View(), View()
    views.add("a", first)
    views.add("b", other)
    views.add("a", again)
    assert [v.closed for v in (first, other, again)] == [True, False, False]


def test_thirty_reruns_leave_one_widget() -> None:
    from ipywidgets.widgets import widget as ipywidgets_state

    before = len(ipywidgets_state._instances)
    for _ in range(30):
        bundle_of(by_hand())
    # The last one, with the layout that ipywidgets makes for each.
    assert len(ipywidgets_state._instances) - before == 2
