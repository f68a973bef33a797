"""A run as an object that a notebook shows, whatever shows the notebook.

One object in several forms, of which a front end takes the richest it knows:

    text/plain         the report (or the views that were asked for); the same on every run and machine
    image/png          the view of the first tab; also in notebooks nobody trusts
    widget view        the live views, where a person runs the cell, in a front end with widgets
    our own type       no data: JupyterLab with our extension shows the live views, and once their kernel has ended
                       the other forms, where the widget view alone would be an error
    text/html          the same picture with words for whoever does not see it, which exported notebooks need; tables
                       without a script where no live view can be made
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from nki_lab.errors import UnknownOption, UsageError
from nki_lab.profiler.analyses.report import badge
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.span import EVENTS, refuse_more
from nki_lab.profiler.text_table import VIEW_LINES
from nki_lab.progress import doing
from nki_lab.source import text_of
from nki_lab.views.head import summary, view_head
from nki_lab.views.pictures import picture_words, view_picture
from nki_lab.views.registry import Parts, check_view, scripts, view_names
from nki_lab.views.run import ViewData
from nki_lab.views.texts import comparison_lines, known_text, view_text
from nki_lab.widgets import LIVE_TYPE, WIDGET_TYPE
from nki_lab.widgets.modules import Script
from nki_lab.widgets.open_views import open_views
from nki_lab.widgets.packing import Blocks
from nki_lab.widgets.picture import SHOWN_WIDTH
from nki_lab.widgets.saved_page import saved_page
from nki_lab.widgets.static_page import picture_html, static_html

#: Lines of a view where nothing but text can be shown.
_LINES_SHOWN = 40


class Shown:
    """Something a notebook shows as tabs, in every form; what it is say those who inherit.

    Args:
        parts: its blocks of data.
        tabs: names of its views, from left to right.

    Attributes:
        problem: why there is no live view; empty where there is one.
    """

    def __init__(self, parts: Blocks, tabs: Sequence[str]) -> None:
        self._parts, self.tabs, self.problem = parts, tuple(tabs), ""

    @property
    def name(self) -> str:
        """What it is called."""
        raise NotImplementedError

    def _head(self) -> dict[str, Any]:
        """Return what stands above the tabs."""
        raise NotImplementedError

    def _scripts(self) -> tuple[Script, ...]:
        """Return the scripts of the views."""
        raise NotImplementedError

    def _tab_text(self, tab: str, limit: int) -> str:
        """Return the text of a view where nothing may be computed for it."""
        raise NotImplementedError

    def _summary(self) -> tuple[str, str]:
        """Return one line on it, and where its numbers come from."""
        raise NotImplementedError

    @property
    def _words(self) -> str:
        """What the picture shows."""
        raise NotImplementedError

    def to_image(self, format: str = "png", view: str | None = None, theme: str = "light") -> bytes:
        """Return a view as a picture, to be written to a file.

        Args:
            format: "png" or "svg".
            view: name of the view; by default the first tab.
            theme: "light" or "dark".
        """
        raise NotImplementedError

    @cached_property
    def widget(self) -> Any:
        """The live views, or None where they cannot be made."""
        try:
            from nki_lab.widgets.live import LiveView

            view = LiveView(self._parts, self._head(), self.tabs, self._scripts())
        except Exception as error:  # the static forms are there for this
            self.problem = f"no live view: {type(error).__name__}: {error}"
            return None
        open_views.add(self.name, view)
        return view

    @doing("drawing the page")
    def save_html(self, path: str | Path) -> Path:
        """Write the views to one page that opens without kernel and network, and return its path."""
        path = Path(path)
        path.write_text(self.page(), encoding="utf-8")
        return path

    def page(self, theme: str | None = None, note: str = "") -> str:
        """Return the views as one page that opens without kernel and network.

        Args:
            theme: "light" or "dark"; None follows the reader's system.
            note: what to say above the tabs.
        """
        if theme not in (None, "light", "dark"):
            raise UnknownOption(f"unknown theme `{theme}`", help="write 'light' or 'dark'")

        def text() -> str:
            return "\n\n".join(self._tab_text(tab, VIEW_LINES) for tab in self.tabs)

        head = self._head() | {"note": note}
        return saved_page(head, self.tabs, self._scripts(), self._parts.recorded, text, theme)

    @cached_property
    @doing("drawing")
    def _bundle(self) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        png, svg = (self.to_image(format) for format in ("png", "svg"))
        bundle["image/png"] = base64.b64encode(png).decode()
        kind, picture = min((("svg+xml", svg), ("png", png)), key=lambda form: len(form[1]))
        bundle["text/html"] = picture_html(self._words, picture, kind, SHOWN_WIDTH)
        if not open_views.are_watched():
            return bundle
        if self.widget is None:
            texts = {tab: self._tab_text(tab, _LINES_SHOWN) for tab in self.tabs}
            bundle["text/html"] = static_html(*self._summary(), texts, self.problem)
        else:
            bundle[LIVE_TYPE] = {}
            bundle[WIDGET_TYPE] = {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.widget.model_id,
            }
        return bundle

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return dict(self._bundle), {"image/png": {"width": SHOWN_WIDTH, "alt": self._words}}


class Display(Shown):
    """A run, ready to be shown.

    Args:
        data: the run.
        tabs: names of its views, from left to right.
        text: names of the views that the text form shows.
        other: a run whose timeline is shown with that of `data`.
        tells: with another run, the text says where both differ instead.
    """

    _parts: Parts

    def __init__(
        self,
        data: ViewData,
        tabs: Sequence[str],
        text: Sequence[str],
        other: ViewData | None = None,
        tells: bool = True,
    ) -> None:
        for name in (*tabs, *text):
            check_view(name)
        if not tabs:
            raise UnknownOption("no view is named", help=f"views: {', '.join(view_names())}")
        super().__init__(Parts(data, other), tabs)
        self.data = data
        self.text = tuple(text)
        self.other = other if tells else None

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.data.name

    def _head(self) -> dict[str, Any]:
        return view_head(self.data)

    def _scripts(self) -> tuple[Script, ...]:
        return scripts()

    def _tab_text(self, tab: str, limit: int) -> str:
        return known_text(self.data, tab, limit)

    def _summary(self) -> tuple[str, str]:
        return summary(self.data), badge(self.data.profile)

    def to_image(self, format: str = "png", view: str | None = None, theme: str = "light") -> bytes:
        """Return a view as a picture, to be written to a file.

        Args:
            format: "png" or "svg".
            view: name of the view; by default the first tab.
            theme: "light" or "dark".
        """
        view = self.tabs[0] if view is None else view
        check_view(view)
        return view_picture(self._parts, view, format, theme)

    def __repr__(self) -> str:
        if self.other is not None:
            return text_of(comparison_lines(self.other, self.data, VIEW_LINES))
        return "\n\n".join(view_text(self.data, name, VIEW_LINES) for name in self.text)

    @property
    def _words(self) -> str:
        return picture_words(self._parts, self.tabs[0])


def display(
    result: Any, tabs: Sequence[str] | None = None, compare: Any = None, tells: bool = True
) -> Display:
    """Return a run as an object that a notebook shows: the views as tabs.

    Args:
        result: a Result of `nki_lab.run`, a Profile, or a ViewData.
        tabs: names of views in the order of their tabs; the first is in front. By default all of
            them, told by the report in plain text.
        compare: another run: the timeline shows both, and stands in front where `tabs` does not say otherwise.
        tells: with another run, the text says where both differ.
    """
    data, other = _data(result), None if compare is None else _data(compare)
    for shown in filter(None, (data, other)):
        if (
            shown.profile.model is None
        ):  # of those that were modelled here the program was small enough
            refuse_more(sum(map(shown.profile.count, EVENTS)), shown.name)
    if tabs is None:
        tabs = view_names()
        text = tabs[:1]
        if other is not None and tells:
            tabs = ("timeline", *(name for name in tabs if name != "timeline"))
        return Display(data, tabs, text, other, tells)
    return Display(data, tabs, tabs, other, tells)


def _data(run: Any) -> ViewData:
    if isinstance(run, Profile):
        return ViewData(run.name or "profile", run)
    if isinstance(run, ViewData):
        return run
    if not hasattr(run, "view_data"):
        raise UsageError(
            f"found {type(run).__name__}, expected a run", help="give a Result or a Profile"
        )
    return run.view_data  # type: ignore[no-any-return]
