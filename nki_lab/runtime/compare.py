"""`nki_lab.compare`: compares results with a reference, or two runs with each other."""

from __future__ import annotations

from typing import Any, overload

from nki_lab.errors import UsageError
from nki_lab.profiler.analyses.compare import ProfileComparison, compare_profiles
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.check import Comparison, compare_arrays
from nki_lab.runtime.result import Result

_RUN = (Result, Profile)


@overload
def compare(found: Result | Profile, expected: Result | Profile) -> ProfileComparison: ...
@overload
def compare(
    found: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> Comparison: ...
def compare(
    found: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> Comparison | ProfileComparison:
    """Compare a result with a reference, or the times of two runs.

    Two Results or Profiles are laid side by side by engine, line and opcode; lines of two Results are matched by
    their text, so that two versions of a kernel line up. Anything else is compared as arrays, with a tolerance that
    follows from the result's dtype: NaN and infinities must stand at the same places.

    Raises CheckFailed when the shapes of arrays differ, and UsageError when both are the same array, which would
    compare a result with itself, or when a run is compared with an array.
    """
    runs = [isinstance(value, _RUN) for value in (found, expected)]
    if not any(runs):
        return compare_arrays(found, expected, rtol=rtol, atol=atol)
    if not all(runs):
        raise UsageError(
            "a run can be compared with a run, and an array with an array",
            help="compare result.value with the reference",
        )
    texts = [value.line_texts if isinstance(value, Result) else {} for value in (found, expected)]
    first, second = (v.profile if isinstance(v, Result) else v for v in (found, expected))
    return compare_profiles(first, second, lambda run, place: texts[run].get(place, ""))
