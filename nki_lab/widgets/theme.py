"""The colours of the views, in light and dark.

One table for pictures and live views. Every colour of a surface stands out from the background by at least 3:1 and
carries the text colour of its theme at 4.5:1; text has at least 7:1 (WCAG 2.2, 1.4.3, 1.4.6 and 1.4.11). Colours of
engines, and colours of lines, tiles and slices, differ from each other and from those of the other kind for every eye
(tests/widgets/test_theme.py says by how much). An engine is always named beside its colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_lab.targets.engines import ENGINE_LABELS


@dataclass(frozen=True)
class Colour:
    """One colour in both themes, as #rrggbb."""

    light: str
    dark: str


#: Background and text of pictures and of fallbacks; live views take JupyterLab's own.
PAPER = Colour("#ffffff", "#111111")
INK = Colour("#1f2328", "#e6e6e6")
FAINT = Colour("#4b545d", "#b3bbc4")
RULE = Colour("#d8dee4", "#3a4149")
#: Text on a coloured surface.
ON_FILL = Colour("#ffffff", "#111111")

#: Engine, as the profile names it -> its colour.
ENGINE_COLOURS = {
    "dma": Colour("#754f00", "#ffbd0b"),
    "sync": Colour("#646c6f", "#6c7e97"),
    "tensor": Colour("#0847ff", "#a9b6fe"),
    "vector": Colour("#6b1800", "#fe6a2c"),
    "scalar": Colour("#075837", "#0fffae"),
    "gpsimd": Colour("#ab55a2", "#d835ff"),
}

#: Colours of things of one kind (source lines, tiles, slices), used in turn.
SERIES = (
    Colour("#1a18d4", "#418bc8"),
    Colour("#a70446", "#eb3529"),
    Colour("#1d872e", "#16a859"),
    Colour("#6b53bf", "#ab93ff"),
    Colour("#ce2268", "#edf800"),
    Colour("#571b80", "#7ac45f"),
)
#: A limit that is drawn as a line, and what lies past it.
LIMIT = Colour("#b00020", "#ff7b8b")

#: How long a tile is in use, from the shortest to the longest.
LIFETIMES = (
    Colour("#055cbd", "#d1fffa"),
    Colour("#0b0898", "#a2bcfb"),
    Colour("#3f0a73", "#ba75f6"),
    Colour("#4e094e", "#f24ab8"),
    Colour("#290618", "#ee4120"),
)

#: Values from the lowest over zero to the highest: from blue to orange, which colour-blind eyes tell apart.
HEAT = (
    Colour("#1557d6", "#75b1f5"),
    Colour("#9db9ef", "#36588a"),
    Colour("#f3f4f6", "#26292e"),
    Colour("#f0b48f", "#84481f"),
    Colour("#b3450f", "#f0a062"),
)


def theme_table() -> dict[str, Any]:
    """Return the colours as the live views read them: per theme, names and lists of #rrggbb."""

    def table(theme: str) -> dict[str, Any]:
        def one(colour: Colour) -> str:
            return getattr(colour, theme)

        return {
            "paper": one(PAPER),
            "ink": one(INK),
            "faint": one(FAINT),
            "rule": one(RULE),
            "onFill": one(ON_FILL),
            "limit": one(LIMIT),
            "engines": {name: one(colour) for name, colour in ENGINE_COLOURS.items()},
            "series": [one(colour) for colour in SERIES],
            "lifetimes": [one(colour) for colour in LIFETIMES],
            "heat": [one(colour) for colour in HEAT],
        }

    return {"light": table("light"), "dark": table("dark"), "labels": ENGINE_LABELS}


def rgb(colour: str) -> tuple[int, int, int]:
    """Turn #rrggbb into three numbers from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as WCAG 2.2 defines it, from 1 to 21."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    shares = (part / 255 for part in rgb(colour))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
