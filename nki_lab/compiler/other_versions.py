"""Says which version of NKI takes a kernel that its own version refuses, by tracing it again for others.

Where an error tells which versions take what it is about, these are tried, the nearest first. One that takes the whole
kernel is named; where none does, the forms are named that no version has together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.silence import silence
from nki_lab.errors import KernelErrors, MixedVersions, Needs, NkiError
from nki_lab.source import Span
from nki_lab.versions import VERSIONS, Version


class _Use(NamedTuple):
    """Something in a kernel that not every version takes, and the error that another version makes of it."""

    needs: Needs
    error: NkiError


def with_versions(
    error: NkiError,
    source: SourceKernel,
    version: Version,
    trace_for: Callable[[str], object],
) -> NkiError:
    """Return the error of a kernel with what it says of versions that take the kernel.

    Args:
        error: how tracing the kernel ended.
        source: the kernel.
        version: that the kernel is written for.
        trace_for: traces the kernel for a version, by its name.
    """
    errors = error.errors if isinstance(error, KernelErrors) else (error,)
    at = [v.name for v in VERSIONS].index(version.name)
    uses = [use for use in _uses(errors) if not _takes(use.needs, VERSIONS[at])]
    if not uses:
        return error
    own = len(uses)
    others = sorted(VERSIONS, key=lambda v: abs(VERSIONS.index(v) - at))
    while taking := [v for v in others if all(_takes(use.needs, v) for use in uses)]:
        left: tuple[NkiError, ...] = ()
        try:
            with silence():
                trace_for(taking[0].name)
        except NkiError as other:
            left = other.errors if isinstance(other, KernelErrors) else (other,)
        found = [use for use in _uses(left) if not _takes(use.needs, taking[0])]
        if not found:
            # What a version takes, and nki_lab has no model of, is an error there as well.
            fresh = [e for e in left if e.needs or _key(e) not in map(_key, errors)]
            place = source.version_place
            how = f"write {taking[0].name} at {place}" if place else ""
            _say_which(uses, taking[0], fresh, not left, how)
            return error
        uses += found
    return _none_takes(error, source.name, uses, own, at)


def _uses(errors: Iterable[NkiError]) -> list[_Use]:
    return [_Use(error.needs, error) for error in errors if error.needs is not None]


def _range(needs: Needs) -> tuple[int, int]:
    """Return the first and the last of the versions that take something, as indices in VERSIONS."""
    names = [version.name for version in VERSIONS]
    first = names.index(needs.since) if needs.since else 0
    return first, names.index(needs.until) if needs.until else len(names) - 1


def _takes(needs: Needs, version: Version) -> bool:
    first, last = _range(needs)
    return version in VERSIONS[first : last + 1]


def _key(error: NkiError) -> tuple[str, Span | None]:
    return error.message, error.span


def _say_which(
    uses: list[_Use], version: Version, left: list[NkiError], whole: bool, how: str
) -> None:
    """Say in each error which version takes the whole kernel, or all but what it makes the errors `left` of.

    What is wrong in both versions makes the kernel not `whole`, and is told beside. `how` says how the version is
    changed where the text of the kernel names one.
    """
    name = version.name
    takes = "takes the whole kernel" if whole else "takes this"
    advice = f"{takes}: {how or f'write `# nki: {name}` above the kernel, or --nki {name}'}"
    if left:
        where = f" ({left[0].span})" if left[0].span is not None else ""
        advice = f"takes this; the kernel ends there with: {left[0].message}{where}"
    if any(error.needs for error in left):
        return  # the version has it, and its error says that nki_lab does not
    for use in uses:
        if use.error.help.startswith("write `# nki"):
            use.error.help = f"{how or f'write `# nki: {name}` above the kernel'}, or do without it"
            if not left:
                continue
        *notes, last = use.error.notes or ("",)
        if last and last == use.needs.note and use.needs.until == name:
            use.error.notes = (*notes, f"{last}; it {advice}")
        else:
            use.error.notes += (f"NKI {name} {advice}",)


def _where(use: _Use) -> str:
    return f" ({use.error.span})" if use.error.span is not None else ""


def _none_takes(error: NkiError, name: str, uses: list[_Use], own: int, at: int) -> NkiError:
    """Return the error of a kernel with forms that no version has together.

    Where the version of the kernel, which is `at` in VERSIONS, refuses only what ended before it, these errors stay,
    with the newer forms; else the error is that versions are mixed.
    """
    newer = max(uses, key=lambda use: _range(use.needs)[0])
    former = min(uses, key=lambda use: _range(use.needs)[1])
    if isinstance(error, MixedVersions) or _range(newer.needs)[0] <= at:
        for use in uses[:own]:
            it = "it"
            if (
                _range(use.needs)[1] >= _range(newer.needs)[0]
            ):  # others of the kernel exclude each other
                it = f"{former.needs.what}{_where(former)}, which ended with NKI {former.needs.until},"
            new = f"{newer.needs.what}{_where(newer)}, which is new in NKI {newer.needs.since}"
            use.error.notes += (f"no version has {it} beside {new}",)
        return error
    notes = []
    if former.error.span is not None:
        notes.append(f"{former.needs.what} stands at {former.error.span}")
    if former.error.help:
        notes.append(f"for NKI {newer.needs.since}: {former.error.help}")
    return MixedVersions(
        f"{name} mixes two versions of NKI: {newer.needs.what} is new in {newer.needs.since}, and {former.needs.what}"
        f" ended with {former.needs.until}",
        stack=newer.error.stack,
        notes=notes,
        blame=newer.error.blame,
        help=f"write the whole kernel for NKI {newer.needs.since}, or for NKI {former.needs.until}",
    )
