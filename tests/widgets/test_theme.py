"""Tests that everybody can tell the colours from their background, and from each other."""

from itertools import combinations

import numpy as np
import pytest

from nki_lab.profiler.schema import ENGINES
from nki_lab.widgets import theme
from nki_lab.widgets.theme import Colour, contrast, rgb

THEMES = ("light", "dark")
FILLS = [*theme.ENGINE_COLOURS.values(), *theme.SERIES, *theme.LIFETIMES]

# Colour blindness of the severe kind as a matrix on linear RGB (Machado, Oliveira, Fernandes 2009, table 1).
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}  # fmt: skip


def lab(colour: str, blindness: str | None = None) -> np.ndarray:
    """Return a colour in CIE L*a*b*, where distances are what eyes see."""
    share = np.array(rgb(colour)) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    if blindness:
        linear = np.clip(np.array(BLINDNESS[blindness]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.array(to_xyz) @ linear / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_contrast_is_that_of_the_guideline() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
def test_surfaces_stand_out_and_carry_text(name) -> None:
    def of(colour: Colour) -> str:
        return getattr(colour, name)

    # JupyterLab's own backgrounds of cells and outputs.
    papers = {"light": ("#ffffff", "#eeeeee"), "dark": ("#111111", "#212121")}[name]
    for paper in papers:
        for colour in FILLS:
            assert contrast(of(colour), paper) >= 3, (of(colour), paper)
        assert contrast(of(theme.INK), paper) >= 7
    for colour in FILLS:
        assert contrast(of(theme.ON_FILL), of(colour)) >= 4.5, of(colour)
    assert contrast(of(theme.FAINT), of(theme.PAPER)) >= 4.5


@pytest.mark.parametrize("blindness", [None, *BLINDNESS])
@pytest.mark.parametrize("name", THEMES)
def test_colours_stay_apart_for_every_eye(name, blindness) -> None:
    for colours in (
        theme.ENGINE_COLOURS,
        dict(enumerate(theme.SERIES)),
        dict(enumerate(theme.LIFETIMES)),
    ):
        seen = {e: lab(getattr(c, name), blindness) for e, c in colours.items()}
        for (one, a), (other, b) in combinations(seen.items(), 2):
            assert np.linalg.norm(a - b) > 12, (one, other)


def test_charts_stand_out_from_either_theme() -> None:
    assert theme.ENGINE_ON_ANY.keys() == theme.ENGINE_COLOURS.keys()
    for colour in (*theme.ENGINE_ON_ANY.values(), theme.INK_ON_ANY):
        for paper in ("#ffffff", "#111111", "#212121"):
            assert contrast(colour, paper) >= 3, (colour, paper)


def test_every_engine_has_a_colour_and_a_name() -> None:
    assert set(theme.ENGINE_COLOURS) == set(theme.ENGINE_LABELS) == {"dma", *ENGINES}


def test_the_browsers_table_holds_both_themes() -> None:
    table = theme.theme_table()
    assert table["light"].keys() == table["dark"].keys()
    assert table["dark"]["engines"]["tensor"] == theme.ENGINE_COLOURS["tensor"].dark
    assert len(table["light"]["series"]) == len(theme.SERIES)
