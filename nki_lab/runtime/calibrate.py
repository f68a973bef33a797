"""`nki_lab.calibrate`: compares the model with measured profiles, and finds the constants they speak for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nki_lab.errors import BadFile, UsageError
from nki_lab.profiler.analyses.model_error import ModelErrors, errors_of_runs
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.result import Result
from nki_lab.source import text_of
from nki_lab.targets.overlay import replaced_constants
from nki_lab.timing.calibration import TRANSFERS_CLASS, Calibrated, Fit, fit_constants

_WIDTH = 78


@dataclass(frozen=True)
class Calibration:
    """What measured profiles say of the model.

    Attributes:
        errors: measured time as a multiple of the modelled one: per engine, class, size of transfers and line.
        fit: the constants they speak for, and how well each is determined.
        profiles: how many profiles they are.
    """

    errors: ModelErrors
    fit: Fit
    profiles: int

    @property
    def values(self) -> dict[str, float]:
        """The constants of an overlay: those that were found, and those that the target's own overlay has."""
        target = self.fit.target
        return replaced_constants(target) | {n: _short(v) for n, v in self.fit.values.items()}

    def save(self, path: str | Path) -> Path:
        """Write the overlay that `--target trn2+FILE` uses, and return its path.

        Raises BadFile where it cannot be written.
        """
        path = Path(path)
        try:
            path.write_text(self.overlay(), encoding="utf-8")
        except OSError as error:
            raise BadFile.unwritable(path, error) from None
        return path

    def overlay(self) -> str:
        """Return the text of the overlay."""
        fit = self.fit
        lines = [
            f"# Found by nki-lab calibrate from {_profiles(self.profiles)}: {fit.samples:,} measured times.",
            f"# Median error of the model: {fit.before:.1%} before, {fit.after:.1%} with these constants.",
            f'base = "{fit.target.chip}"',
            "",
            "[constants]",
        ]
        for name, value in self.values.items():
            found = fit.named(name)
            how = f"{_number(found.before)} before; +- {found.error:.2g} {found.unit}".rstrip()
            lines.append(
                f"{name} = {value!r}"
                + (f"  # {how}, {found.samples:,} times, {found.remark}" if found.moved else "")
            )
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        fit = self.fit
        lines = [
            f"{fit.target.name} against {_profiles(self.profiles)}: {fit.samples:,} measured times, median error of "
            f"the model {fit.before:.1%}, {fit.after:.1%} with the constants below",
            *self.errors.lines_of_text(),
            "",
            "times follow from",
            *(f"  {name}: {', '.join(names)}" for name, names in self._follows()),
            "",
            _ROW.format("constant", "before", "measured", "+-", "unit", "times", ""),
        ]
        seen = [c for c in fit.constants if c.samples]
        lines += [_row(c) for c in sorted(seen, key=lambda c: not c.moved)]
        unseen = [c.name for c in fit.constants if not c.samples]
        lines += ["", *_wrapped("not seen: ", unseen)] if unseen else []
        return text_of(line.rstrip() for line in lines)

    __repr__ = __str__

    def _follows(self) -> list[tuple[str, tuple[str, ...]]]:
        follows = self.fit.follows
        order = [row.name for row in self.errors.classes] + [TRANSFERS_CLASS]
        return [(name, follows[name]) for name in order if follows.get(name)]


_ROW = "{:<36}{:>10}{:>10}{:>9} {:<8}{:>6}  {}"


def _row(found: Calibrated) -> str:
    return _ROW.format(
        found.name,
        _number(found.before),
        _number(found.value) if found.moved else "same",
        f"{found.error:.2g}" if found.error < 1e6 else "?",
        found.unit,
        f"{found.samples:,}",
        found.remark,
    )


def _number(value: float) -> str:
    return f"{_short(value):,g}"


def _short(value: float) -> float:
    """Return a number with the digits that a calibration can have."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


def _profiles(count: int) -> str:
    return f"{count} measured profile{'s' if count > 1 else ''}"


def _wrapped(head: str, names: Sequence[str]) -> list[str]:
    lines = [head]
    for name in names:
        if len(lines[-1]) + len(name) > _WIDTH:
            lines.append("  ")
        lines[-1] += f"{name}, " if name != names[-1] else name
    return lines


def calibrate(*runs: tuple[Result | Profile, Result | Profile | str | Path]) -> Calibration:
    """Compare the model with what was measured, and find the timing constants that the measured times speak for.

    Args:
        runs: pairs of a modelled run and what was measured of the same kernel: a Result, a Profile, or a file with one.

    Raises UsageError where nothing was modelled or measured, where two chips are compared, or where the runs have no
    event in common.
    """
    if not runs:
        raise UsageError(
            "calibrate needs a modelled run and what was measured of it",
            help="write for example nki_lab.calibrate((result, 'profile.json'))",
        )
    pairs = [_pair(modelled, measured) for modelled, measured in runs]
    return Calibration(errors_of_runs(pairs), fit_constants(pairs), len(pairs))


def _pair(
    modelled: Result | Profile, measured: Result | Profile | str | Path
) -> tuple[Profile, Profile]:
    model = modelled.profile if isinstance(modelled, Result) else modelled
    if isinstance(measured, Result):
        measured = measured.profile
    elif not isinstance(measured, Profile):
        measured = Profile.load(measured, model.target.chip)
    name = measured.name or "the profile"
    if measured.is_simulation:
        raise UsageError(
            f"{name} was modelled, not measured: it says nothing about the model",
            help="name a profile that a device made",
        )
    if measured.target.chip != model.target.chip:
        raise UsageError(
            f"{name} was measured on {measured.target.chip}, the model is of {model.target.name}",
            help=f"run the kernel with target={measured.target.chip!r}",
        )
    return model, measured
