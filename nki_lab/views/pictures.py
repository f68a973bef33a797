"""Which picture stands for each view where nothing is alive?"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Sequence

from nki_lab.profiler.analyses.report import badge, bound_sentence
from nki_lab.views.array.picture import array_picture
from nki_lab.views.graph.picture import graph_picture
from nki_lab.views.head import summary
from nki_lab.views.layout.picture import layout_picture
from nki_lab.views.memory.picture import memory_picture
from nki_lab.views.parts import Parts
from nki_lab.views.run import ViewData
from nki_lab.views.source.picture import source_picture
from nki_lab.views.stepper.picture import stepper_picture
from nki_lab.views.texts import view_text
from nki_lab.views.timeline.picture import timeline_picture
from nki_lab.views.vary.picture import vary_picture
from nki_lab.widgets.picture import LETTER, PAPERS, TEXT_HEIGHT, WIDTH, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, INK

_MARGIN = 12
_LINES_SHOWN = 60
_THEMES = ("light", "dark")

PaperKind = type[Picture] | type[VectorPicture]


def view_picture(parts: Parts, view: str, format: str = "png", theme: str = "light") -> bytes:
    """Return a view as a picture; one without a drawing of its own is its text.

    Args:
        parts: the run.
        view: name of the view.
        format: "png" or "svg".
        theme: "light" or "dark".
    """
    if format not in PAPERS or theme not in _THEMES:
        raise ValueError(
            f"pictures are {' or '.join(PAPERS)}, {' or '.join(_THEMES)}; found {format}, {theme}"
        )
    picture = _DRAWINGS.get(view, _text)(parts, view, PAPERS[format], theme)
    if format == "svg":
        title = html.escape(picture_words(parts, view))
        picture = picture.replace(b">", f' role="img">\n<title>{title}</title>'.encode(), 1)
    return picture


def picture_words(parts: Parts, view: str) -> str:
    """Return what the picture of a view shows, in words for whoever does not see it."""
    data, other = parts.data, parts.other
    with_another = other is not None and _DRAWINGS.get(view) is _timeline
    beside = f", beside that of {summary(other)}" if other is not None and with_another else ""
    return f"{_WORDS[view]} of {summary(data)}{beside}; bound by {bound_sentence(data.profile)}"


def _timeline(parts: Parts, view: str, paper: PaperKind, theme: str) -> bytes:
    return timeline_picture(parts.timeline, paper, theme)


def _of_data(
    draw: Callable[[ViewData, PaperKind, str], bytes],
) -> Callable[[Parts, str, PaperKind, str], bytes]:
    return lambda parts, view, paper, theme: draw(parts.data, paper, theme)


def _text(parts: Parts, view: str, paper: PaperKind, theme: str) -> bytes:
    data = parts.data
    room = (WIDTH - 2 * _MARGIN) // LETTER
    told = view_text(data, view, _LINES_SHOWN).split("\n")
    lines = [part for line in told for part in _wrapped(line, room)]
    line_height = TEXT_HEIGHT + 4
    picture = paper(WIDTH, 2 * _MARGIN + line_height * (len(lines) + 3), theme)
    heads = [(summary(data), INK), (badge(data.profile), FAINT), ("", INK)]
    for k, (line, colour) in enumerate([*heads, *((line, INK) for line in lines)]):
        picture.text(_MARGIN, _MARGIN + k * line_height, cut(line, room), colour)
    return picture.done()


def _wrapped(line: str, letters: int) -> list[str]:
    """Return a line as several of at most so many letters, the later ones further to the right."""
    margin = " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.wrap(
        line.strip(" "), letters, initial_indent=margin, subsequent_indent=f"{margin}    ", replace_whitespace=False,
        drop_whitespace=False, break_on_hyphens=False,
    ) or [""]  # fmt: skip


#: View -> what its picture shows.
_WORDS = {
    "report": "Timeline of the engines and DMA queues",
    "findings": "Text with the findings",
    "source": "Lines of the kernel, each with a bar of its time by engine,",
    "ir": "Text of the compiled program",
    "layout": "Places of the tensors in memory",
    "array": "Multiplier array of the Tensor engine during a product",
    "memory": "Tiles in SBUF and PSUM over the program",
    "stepper": "Values of operands, instruction by instruction,",
    "timeline": "Timeline of the engines and DMA queues",
    "graph": "Flow of data between the lines",
    "vary": "Times with other values of the parameters",
}
#: View -> what draws it; the others are shown as text.
_DRAWINGS: dict[str, Callable[[Parts, str, PaperKind, str], bytes]] = {
    "array": _of_data(array_picture),
    "graph": _of_data(graph_picture),
    "layout": _of_data(layout_picture),
    "memory": _of_data(memory_picture),
    "report": _timeline,
    "source": _of_data(source_picture),
    "stepper": _of_data(stepper_picture),
    "timeline": _timeline,
    "vary": _of_data(vary_picture),
}


def drawn_view(tabs: Sequence[str]) -> str:
    """Return which of some views stands for all where nothing is alive: the first that is drawn, else the first."""
    return next((tab for tab in tabs if tab in _DRAWINGS), tabs[0])
