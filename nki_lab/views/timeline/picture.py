"""Draws a timeline: a row per engine and DMA queue, curves, and what bounds the run."""

from __future__ import annotations

import numpy as np

from nki_lab.percent import percent
from nki_lab.profiler.analyses.critical_path import CriticalPath, critical_path
from nki_lab.profiler.analyses.curves import Curve, most_text
from nki_lab.profiler.analyses.report import badge, bound_sentence
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.views.registry import Parts, of_parts
from nki_lab.views.timeline.curves import CURVE_COLOURS, OTHER_CURVES, known_curves
from nki_lab.views.timeline.model import TimelineModel, timeline_of
from nki_lab.views.timeline.tracks import Track, shared_tracks
from nki_lab.widgets.picture import (
    FINE,
    LETTER,
    TEXT_HEIGHT,
    WIDTH,
    Paper,
    Picture,
    VectorPicture,
    cut,
)
from nki_lab.widgets.theme import ENGINE_COLOURS, FAINT, INK, LIMIT, RULE, SERIES

_MARGIN = 12
_ROW = 29
_CURVE = 48
_CURVE_LETTERS = 25
_TRACKS_SHOWN = 24
_CURVES_SHOWN = 16
#: Runs up to this size have their curves and their critical path drawn.
TOLD_EVENTS = 20_000


def timeline_picture(
    timeline: TimelineModel,
    paper: type[Picture] | type[VectorPicture] = Picture,
    theme: str = "light",
) -> bytes:
    """Return the timeline of a run as a picture: a row per engine and DMA queue, the critical path, and curves.

    Path and curves of a run of more than `TOLD_EVENTS` events are left out: they would take longer than a cell should.
    """
    profile = timeline.profile
    tracks = timeline.tracks[:_TRACKS_SHOWN]
    told = timeline.count <= TOLD_EVENTS
    path = [critical_path(run.profile) for run in timeline.runs] if told else []
    curves = known_curves(timeline)[:_CURVES_SHOWN] if told else []
    left = _MARGIN + LETTER * min(
        24, max((len(t.label) for t in tracks), default=0) + 7 + 2 * (len(timeline.runs) > 1)
    )
    if curves:
        left = max(left, _MARGIN + LETTER * (_CURVE_LETTERS + 1))
    top = 3 * TEXT_HEIGHT + 3 * _MARGIN
    floor = top + _ROW * len(tracks) + _CURVE * len(curves)
    shared = shared_tracks(tracks).values()
    height = floor + 2 * TEXT_HEIGHT + 3 * _MARGIN + len(shared) * (TEXT_HEIGHT + 4)
    picture = paper(WIDTH, height, theme)
    compared = len(timeline.runs) > 1
    title = "; ".join(
        f"{'AB'[number] + ': ' if compared else ''}{run.name} on {run.profile.target.name}:"
        f" {run.profile.total_ns / 1000:,.3f} us"
        for number, run in enumerate(timeline.runs)
    )
    room = (WIDTH - 2 * _MARGIN) // LETTER
    picture.text(_MARGIN, _MARGIN, cut(title, room))
    note = timeline.missing or badge(profile)
    picture.text(_MARGIN, _MARGIN + TEXT_HEIGHT + 4, cut(note, room), FAINT)
    sentence = f"{'B is ' if compared else ''}bound by {bound_sentence(profile)}"
    picture.text(_MARGIN, _MARGIN + 2 * TEXT_HEIGHT + 8, cut(sentence, room), FAINT)
    columns = WIDTH - left - _MARGIN
    _time_axis(picture, timeline, left, columns, top, floor)
    edges = np.linspace(timeline.first_ns, timeline.last_ns, round(FINE * columns) + 1)
    idle = "?" if timeline.missing else "idle"
    for k, track in enumerate(tracks):
        y = top + k * _ROW
        whole = max(1, timeline.runs[track.run].profile.total_ns)
        share = percent(track.busy_ns / whole, 0) if len(track.rows) else idle
        prefix = f"{'AB'[track.run]} " if compared else ""
        label = cut(prefix + track.label, (left - _MARGIN) // LETTER - 6)
        picture.text(_MARGIN, y + 4, label, INK if len(track.rows) else FAINT)
        picture.text(left - LETTER * (len(share) + 1), y + 4, share, FAINT)
        colour = ENGINE_COLOURS.get(track.engine, INK)
        picture.shade(left, y + 2, columns, _ROW - 9, track.coverage(edges), colour)
        picture.fill(left, y + _ROW - 2, columns, 1, RULE)
    on_path = _path(picture, timeline, path, tracks, left, columns, top)
    for k, (run, curve) in enumerate(curves):
        y = top + len(tracks) * _ROW + k * _CURVE
        _curve(picture, timeline, run, curve, left, columns, y)
    more = len(timeline.tracks) - len(tracks)
    notes = [
        f"and {more} more tracks" if more else "",
        "underlined: the critical path, which took the whole time" if on_path else "",
    ]
    below = ["; ".join(filter(None, notes)), *shared]
    for k, note in enumerate(filter(None, below)):
        picture.text(_MARGIN, floor + TEXT_HEIGHT + 18 + k * (TEXT_HEIGHT + 4), note, FAINT)
    return picture.done()


@of_parts
def timeline_view_picture(
    parts: Parts, paper: type[Picture] | type[VectorPicture], theme: str
) -> bytes:
    """Return the timeline of a run, beside that of the run it is compared with."""
    return timeline_picture(parts.kept(timeline_of), paper, theme)


def _path(
    picture: Paper,
    timeline: TimelineModel,
    paths: list[CriticalPath],
    tracks: list[Track],
    left: int,
    columns: int,
    top: int,
) -> bool:
    """Underline the spans of each run's critical path; tells whether there are any."""
    total = timeline.last_ns - timeline.first_ns
    drawn = False
    for run, path in enumerate(paths):
        instructions = timeline.runs[run].profile.count("Instruction")
        place: dict[tuple[str, int], int] = {}
        for k, track in enumerate(tracks):
            if track.run == run:
                place.update(((track.table, row), k) for row in track.rows.tolist())
        for step in path.steps:
            transfer = step.event >= instructions
            key = (TRANSFERS if transfer else "Instruction", step.event - instructions * transfer)
            if key not in place:
                continue
            start = step.start_ns + timeline.shifts[run] - timeline.first_ns
            x, width = left + columns * start / total, columns * step.span_ns / total
            picture.fill(x, top + place[key] * _ROW + _ROW - 7, max(width, 2), 3, LIMIT)
            drawn = True
    return drawn


def _curve(
    picture: Paper, timeline: TimelineModel, run: int, curve: Curve, left: int, columns: int, y: int
) -> None:
    """Draw one curve: the most it is in each column, as a share of what it can be."""
    several = len({track.core for track in timeline.tracks}) > 1
    prefix = f"{'AB'[run]} " if len(timeline.runs) > 1 else ""
    title = f"{prefix}{f'nc{curve.core} ' if several else ''}{curve.title}"
    most = float(curve.values.max(initial=0.0))
    picture.text(_MARGIN, y + 2, cut(title, _CURVE_LETTERS))
    picture.text(_MARGIN, y + 4 + TEXT_HEIGHT, cut(most_text(curve, most), _CURVE_LETTERS), FAINT)
    times = curve.times + timeline.shifts[run] - timeline.first_ns
    edges = np.linspace(0, timeline.last_ns - timeline.first_ns, round(FINE * columns) + 1)
    # A curve begins at zero: what holds before its first change.
    values = np.concatenate(([0.0], curve.values))
    first = np.searchsorted(times, edges[:-1], "right")
    end = np.maximum(np.searchsorted(times, edges[1:], "left") + 1, first + 1)
    spans = np.stack((first, np.minimum(end, len(values))), axis=1).reshape(-1)
    high = np.maximum.reduceat(np.append(values, 0.0), spans)[::2]
    colour = SERIES[CURVE_COLOURS.get(curve.title, OTHER_CURVES)]
    picture.area(left, y + 4, columns, _CURVE - 8, high / (curve.limit or most or 1.0), colour)
    picture.fill(left, y + _CURVE - 4, columns, 1, RULE)


def _time_axis(
    picture: Paper, timeline: TimelineModel, left: int, columns: int, top: int, y: int
) -> None:
    total = timeline.last_ns - timeline.first_ns
    step = _round_step(total / 5)
    for tick in range(0, total + 1, step):
        x = left + round(tick / total * (columns - 1))
        picture.fill(x, top, 1, y - top, RULE)
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
