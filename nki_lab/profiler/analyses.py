"""Which questions about the time of a run can be asked by name, and what is the answer in plain text?"""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.source_lines import by_line

#: Name -> answer as text, the same on every run and machine, fewer than 40 lines.
ANALYSES: dict[str, Callable[[Profile], str]] = {
    "path": lambda profile: str(profile.critical_path()),
    "stalls": lambda profile: str(profile.stalls()),
    "lines": lambda profile: str(by_line(profile)),
    "iterations": lambda profile: str(profile.iterations()),
    "roofline": lambda profile: str(profile.roofline()),
    "advice": lambda profile: str(profile.advice()),
    "what-if": lambda profile: str(profile.what_if()),
}
