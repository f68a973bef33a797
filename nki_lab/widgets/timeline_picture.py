"""What does a timeline look like as a picture: a row per engine and DMA queue, and what bounds the run?"""

from __future__ import annotations

import numpy as np

from nki_lab.profiler.report import badge, bound_sentence
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import ENGINE_COLOURS, FAINT, INK, RULE
from nki_lab.widgets.timeline_model import Timeline

_MARGIN = 12
_ROW = 26
_TRACKS_SHOWN = 24


def timeline_picture(
    timeline: Timeline, paper: type[Picture] | type[VectorPicture] = Picture, theme: str = "light"
) -> bytes:
    """Return the timeline of a run as a picture: a row per engine and DMA queue, and what bounds the run."""
    profile = timeline.profile
    tracks = timeline.tracks[:_TRACKS_SHOWN]
    left = _MARGIN + LETTER * min(
        24, max((len(t.label) for t in tracks), default=0) + 7 + 2 * (len(timeline.runs) > 1)
    )
    top = 3 * TEXT_HEIGHT + 3 * _MARGIN
    height = top + _ROW * len(tracks) + TEXT_HEIGHT + 2 * _MARGIN
    picture = paper(WIDTH, height, theme)
    compared = len(timeline.runs) > 1
    title = "; ".join(
        f"{'AB'[number] + ': ' if compared else ''}{run.name} on {run.profile.target.name}:"
        f" {run.profile.total_ns / 1000:,.3f} us"
        for number, run in enumerate(timeline.runs)
    )
    room = (WIDTH - 2 * _MARGIN) // LETTER
    picture.text(_MARGIN, _MARGIN, cut(title, room))
    picture.text(_MARGIN, _MARGIN + TEXT_HEIGHT + 4, cut(badge(profile), room), FAINT)
    sentence = f"{'B is ' if compared else ''}bound by {bound_sentence(profile)}"
    picture.text(_MARGIN, _MARGIN + 2 * TEXT_HEIGHT + 8, cut(sentence, room), FAINT)
    columns = WIDTH - left - _MARGIN
    _time_axis(picture, timeline, left, columns, top + _ROW * len(tracks))
    edges = np.linspace(timeline.first_ns, timeline.last_ns, columns + 1)
    for k, track in enumerate(tracks):
        y = top + k * _ROW
        whole = max(1, timeline.runs[track.run].profile.total_ns)
        share = f"{100 * track.busy_ns / whole:.0f}%" if len(track.rows) else "-"
        prefix = f"{'AB'[track.run]} " if compared else ""
        label = cut(prefix + track.label, (left - _MARGIN) // LETTER - 6)
        picture.text(_MARGIN, y + 4, label, INK if len(track.rows) else FAINT)
        picture.text(left - LETTER * (len(share) + 1), y + 4, share, FAINT)
        colour = ENGINE_COLOURS.get(track.engine, INK)
        picture.shade(left, y + 2, _ROW - 6, track.coverage(edges), colour)
        picture.fill(left, y + _ROW - 2, columns, 1, RULE)
    more = len(timeline.tracks) - len(tracks)
    if more:
        picture.text(_MARGIN, height - TEXT_HEIGHT, f"and {more} more", FAINT)
    return picture.done()


def _time_axis(picture: Paper, timeline: Timeline, left: int, columns: int, y: int) -> None:
    total = timeline.last_ns - timeline.first_ns
    step = _round_step(total / 5)
    for tick in range(0, total + 1, step):
        x = left + round(tick / total * (columns - 1))
        picture.fill(x, y, 1, 6, FAINT)
        text = f"{(tick + timeline.first_ns) / 1000:g} us"
        if x + LETTER * len(text) <= WIDTH:
            picture.text(x, y + 8, text, FAINT)


def _round_step(least: float) -> int:
    power = 1
    while True:
        for factor in (1, 2, 5):
            if power * factor >= least:
                return power * factor
        power *= 10
