"""A picture that is filled line by line, for views that are mostly text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nki_lab.views.head import MARGIN, heading
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Picture, VectorPicture, wrapped
from nki_lab.widgets.theme import FAINT, INK, RULE, Colour

#: Units of a line, and letters in it.
LINE = TEXT_HEIGHT + 6
ROOM = (WIDTH - 2 * MARGIN) // LETTER
#: Entries of a list; the picture says how many more there are.
SHOWN = 5
_TOP = 2 * MARGIN + 2 * LINE
# Higher than a page of lists cut to SHOWN can be; what is not used is cut off.
_TALL = 4_000


class Page:
    """A picture that is filled from top to bottom.

    Args:
        data: the run; what it is stands at the top.
        paper: "png" or "svg" as a class.
        theme: "light" or "dark".

    Attributes:
        picture: what is drawn on.
        y: where the next line begins.
    """

    def __init__(
        self, data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str
    ) -> None:
        self.picture = paper(WIDTH, _TALL, theme)
        heading(self.picture, data, line=LINE)
        self.y: float = _TOP

    def done(self) -> bytes:
        """Return the picture as a file."""
        return self.picture.done(min(self.y + MARGIN, _TALL))

    def line(self, text: str, colour: Colour = INK, x: float = MARGIN) -> None:
        """Write a line."""
        self.picture.text(x, self.y, text, colour)
        self.y += LINE

    def title(self, text: str) -> None:
        """Write the title of what follows, below a rule."""
        if self.y > _TOP:
            self.y += MARGIN
            self.picture.fill(MARGIN, self.y, WIDTH - 2 * MARGIN, 1, RULE)
            self.y += MARGIN / 2
        self.line(text)

    def remarks(
        self,
        title: str,
        remarks: Sequence[Mapping[str, Any]],
        more: int = 0,
        colour: Colour = INK,
    ) -> None:
        """Write findings or advice: the place, what is said, and what to do about it."""
        if not remarks:
            return
        self.title(title)
        for number, remark in enumerate(remarks[:SHOWN], 1):
            kind = f"{remark['kind']}: " if remark.get("kind") else ""
            place = f"{remark['place']}: " if remark.get("place") else ""
            for k, line in enumerate(wrapped(place + kind + remark["message"], ROOM - 3, "")):
                if not k:
                    self.picture.text(MARGIN, self.y, f"{number}.", FAINT)
                self.line(line, colour, MARGIN + 3 * LETTER)
            for line in wrapped(f"help: {remark['help']}", ROOM - 3) if remark.get("help") else ():
                self.line(line, FAINT, MARGIN + 3 * LETTER)
        self.more(len(remarks) - SHOWN + more)

    def more(self, count: int) -> None:
        """Say how many entries are left out, where there are any."""
        if count > 0:
            self.line(f"and {count:,} more", FAINT, MARGIN + 3 * LETTER)
