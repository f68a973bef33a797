"""Which questions about the time of a run can be asked by name, and what is the answer in plain text?"""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.source_lines import by_line


def _of_slowest(profile: Profile, answer: object) -> str:
    """Return an answer about one core as text that says which, where there are several."""
    if len(profile.cores) == 1:
        return str(answer)
    return f"core {profile.slowest.cores[0]}, after which no other ends\n{answer}"


#: Name -> answer as text, the same on every run and machine, fewer than 40 lines.
ANALYSES: dict[str, Callable[[Profile], str]] = {
    "path": lambda profile: _of_slowest(profile, profile.critical_path()),
    "stalls": lambda profile: _of_slowest(profile, profile.stalls()),
    "lines": lambda profile: str(by_line(profile)),
    "iterations": lambda profile: _of_slowest(profile, profile.iterations()),
    "roofline": lambda profile: _of_slowest(profile, profile.roofline()),
    "advice": lambda profile: str(profile.advice()),
    "what-if": lambda profile: str(profile.what_if()),
}
