"""Tests the pictures at the top of README.md without making them: they are there, small, and what the script makes."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from nki_lab.views.registry import view_names

ROOT = Path(__file__).parents[1]
pytest.importorskip("playwright")
from docs import pictures  # noqa: E402  # imports the driver of the browser

BYTES_MAX = 1_000_000


def test_the_readme_opens_with_them():
    before_any_paragraph = (ROOT / "README.md").read_text("utf-8").split("\n\n")[1:3]
    shown = [re.fullmatch(r"!\[.{40,}\]\((.*)\)", block)[1] for block in before_any_paragraph]
    assert [ROOT / name for name in shown] == [pictures.STILL, pictures.MOVING]


def test_together_they_are_small():
    assert sum(path.stat().st_size for path in (pictures.STILL, pictures.MOVING)) < BYTES_MAX


def test_they_were_made_by_the_script_as_it_is():
    """When this fails, run `python -m docs.pictures` and look at what it has written."""
    with Image.open(pictures.STILL) as still, Image.open(pictures.MOVING) as moving:
        assert still.info["recipe"] == pictures.RECIPE
        assert moving.info["comment"].decode() == pictures.RECIPE
        assert still.size == (2 * pictures.WIDTH, 2 * pictures.HEIGHT)
        assert moving.size == (pictures.WIDTH, pictures.HEIGHT)


def test_the_moving_one_shows_every_step_for_as_long_as_it_says():
    assert {view for view, _ in pictures.STEPS} | {pictures.STILL_VIEW} <= set(view_names())
    with Image.open(pictures.MOVING) as moving:
        frames = [
            (f.info["duration"], np.asarray(f.convert("L"))) for f in ImageSequence.Iterator(moving)
        ]
    assert [ms for ms, _ in frames] == [pictures.BEFORE_MS, *(ms for _, ms in pictures.STEPS)]
    for (_, one), (_, next) in pairwise(frames):
        assert (one != next).mean() > 0.02
    for _, frame in frames:
        assert frame.std() > 20  # not a blank page
