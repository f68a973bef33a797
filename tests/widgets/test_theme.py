"""Tests that everybody can tell the colours from their background, and from each other.

Colours are looked at as they are, by the three kinds of colour blindness of the severe kind (Machado, Oliveira and
Fernandes 2009, table 1, as matrices on linear RGB), and without any colour. How far two colours are apart is
CIEDE2000 (Sharma, Wu and Dalal 2005): a difference of 1 is just seen side by side; small marks apart from each other
need several times that.
"""

from itertools import combinations

import numpy as np
import pytest

from nki_lab.profiler.schema import ENGINES
from nki_lab.widgets import theme
from nki_lab.widgets.theme import Colour, contrast, rgb

THEMES = ("light", "dark")
FILLS = [*theme.ENGINE_COLOURS.values(), *theme.SERIES, *theme.LIFETIMES]
# JupyterLab's own backgrounds of cells and outputs.
PAPERS = {"light": ("#ffffff", "#eeeeee"), "dark": ("#111111", "#212121")}

BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}  # fmt: skip
#: Least distances: of two of one kind, of an engine and a line (also without colour blindness), of two steps of a
#: scale, of two in grey.
APART, APART_KINDS, SEEN_KINDS, APART_STEPS, GREY = 9.0, 6.5, 10.0, 5.5, 3.0


def lab(colour: str, blindness: str | None = None) -> np.ndarray:
    """Return a colour in CIE L*a*b*."""
    share = np.array(rgb(colour)) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    if blindness:
        linear = np.clip(np.array(BLINDNESS[blindness]) @ linear, 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    white = np.array(to_xyz) @ linear / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(white > 216 / 24389, np.cbrt(white), (24389 / 27 * white + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def ciede2000(one: np.ndarray, other: np.ndarray) -> float:
    """Return the distance of two colours in L*a*b*."""
    chroma = np.mean([np.hypot(*one[1:]), np.hypot(*other[1:])])
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    (l1, c1, h1), (l2, c2, h2) = (
        (v[0], np.hypot(stretch * v[1], v[2]), np.degrees(np.arctan2(v[2], stretch * v[1])) % 360)
        for v in (one, other)
    )
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    t = 1.0 - 0.17 * np.cos(np.radians(hue - 30)) + 0.24 * np.cos(np.radians(2 * hue))
    t += 0.32 * np.cos(np.radians(3 * hue + 6)) - 0.20 * np.cos(np.radians(4 * hue - 63))
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2) / (1 + 0.015 * chroma * t)
    rotation = 2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    rotation *= -np.sin(np.radians(60 * np.exp(-(((hue - 275) / 25) ** 2))))
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh))


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        # Pairs 1, 7, 10, 17, 22 and 25 of the article's table 1.
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, -0.001, 2.49), (50.0, 0.0009, -2.49), 4.8045),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((50.0, 2.5, 0.0), (50.0, 3.2592, 0.335), 1.0),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)
def test_distances_are_those_of_the_article(one, other, distance) -> None:
    assert ciede2000(np.array(one), np.array(other)) == pytest.approx(distance, abs=1e-4)
    assert ciede2000(np.array(other), np.array(one)) == pytest.approx(distance, abs=1e-4)


def test_contrast_is_that_of_the_guideline() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
def test_surfaces_stand_out_and_carry_text(name) -> None:
    def of(colour: Colour) -> str:
        return getattr(colour, name)

    for paper in PAPERS[name]:
        for colour in FILLS:
            assert contrast(of(colour), paper) >= 3, (of(colour), paper)
        assert contrast(of(theme.INK), paper) >= 7
    for colour in FILLS:
        assert contrast(of(theme.ON_FILL), of(colour)) >= 4.5, of(colour)
    # Text of pictures stands on their own ground, in a node of a graph on RULE.
    assert contrast(of(theme.FAINT), of(theme.PAPER)) >= 7
    assert contrast(of(theme.LIMIT), of(theme.PAPER)) >= 4.5
    for text in (theme.INK, theme.FAINT):
        assert contrast(of(text), of(theme.RULE)) >= 4.5


@pytest.mark.parametrize("blindness", [None, *BLINDNESS])
@pytest.mark.parametrize("name", THEMES)
def test_colours_stay_apart_for_every_eye(name, blindness) -> None:
    engines, series = (
        {key: lab(getattr(c, name), blindness) for key, c in colours.items()}
        for colours in (theme.ENGINE_COLOURS, dict(enumerate(theme.SERIES)))
    )
    for seen in (engines, series):
        for (one, a), (other, b) in combinations(seen.items(), 2):
            assert ciede2000(a, b) >= APART, (one, other)
    for one, a in engines.items():
        for other, b in series.items():
            assert ciede2000(a, b) >= (APART_KINDS if blindness else SEEN_KINDS), (one, other)
    lifetimes = [lab(getattr(c, name), blindness) for c in theme.LIFETIMES]
    for a, b in combinations(lifetimes, 2):
        assert ciede2000(a, b) >= APART_STEPS


@pytest.mark.parametrize("name", THEMES)
def test_colours_of_one_kind_differ_in_lightness(name) -> None:
    for colours in (theme.ENGINE_COLOURS.values(), theme.SERIES):
        lightness = sorted(lab(getattr(c, name))[0] for c in colours)
        assert np.diff(lightness).min() >= GREY


def test_every_engine_has_a_colour_and_a_name() -> None:
    assert set(theme.ENGINE_COLOURS) == set(theme.ENGINE_LABELS) == {"dma", *ENGINES}


def test_the_browsers_table_holds_both_themes() -> None:
    table = theme.theme_table()
    assert table["light"].keys() == table["dark"].keys()
    assert table["dark"]["engines"]["tensor"] == theme.ENGINE_COLOURS["tensor"].dark
    assert len(table["light"]["series"]) == len(theme.SERIES)
