"""Draws the text of the program after the last pass, each line with the author's line it comes from."""

from __future__ import annotations

from nki_lab.views.head import MARGIN
from nki_lab.views.page import LINE, ROOM, Page
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, WIDTH, Picture, VectorPicture, cut, wrapped
from nki_lab.widgets.theme import FAINT

#: Lines of the text; the picture says how many more there are.
_SHOWN = 48
_NUMBER, _PLACE = 4, 28  # letters for the number of a line, and for the author's line


def ir_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the program after the last pass as a picture."""
    page = Page(data, paper, theme)
    if not data.stages:
        page.line("no program is known", FAINT)
        return page.done()
    last = data.stages[-1]
    passes = ", ".join(stage.name for stage in data.stages)
    for part in wrapped(f"after {last.name}, the last of: {passes}", ROOM):
        page.line(part, FAINT)
    for number, line in enumerate(last.lines[:_SHOWN], 1):
        page.picture.text(MARGIN + _NUMBER * LETTER, page.y, str(number), FAINT, end=True)
        if line.place:
            place = cut(line.place.label, _PLACE)
            page.picture.text(WIDTH - MARGIN, page.y, place, FAINT, end=True)
        for part in wrapped(line.text, ROOM - _NUMBER - _PLACE - 2):
            page.picture.text(MARGIN + (_NUMBER + 1) * LETTER, page.y, part)
            page.y += LINE
    page.more(len(last.lines) - _SHOWN)
    return page.done()
