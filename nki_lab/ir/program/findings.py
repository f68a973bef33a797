"""Reports a fact that holds in every trip of a loop once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

from nki_lab.ir.program.nodes import Finding
from nki_lab.source import Stack


class FindingsByPlace:
    """Findings of which, about one thing at one place, the first is kept, and how many there were."""

    def __init__(self, known: Iterable[Finding]) -> None:
        self._known = tuple(known)
        self._first: dict[tuple[Hashable, Stack], Finding] = {}
        self._times: dict[tuple[Hashable, Stack], int] = {}

    def add(self, about: Hashable, stack: Stack, make: Callable[[], Finding]) -> None:
        """Note a finding about `about`; `make` is called for the first one at its place."""
        key = about, stack
        times = self._times[key] = self._times.get(key, 0) + 1
        if times == 1:
            self._first[key] = make()

    def by_key(self) -> list[tuple[Any, Finding]]:
        """Return the findings added, in order, each with what it is about."""
        return [
            (about, _counted(f, self._times[about, stack]))
            for (about, stack), f in self._first.items()
        ]

    def all(self) -> tuple[Finding, ...]:
        """Return the findings known before and those added, in order."""
        return (*self._known, *(finding for _, finding in self.by_key()))


def _counted(finding: Finding, times: int) -> Finding:
    if times == 1:
        return finding
    return replace(
        finding, message=f"{finding.message} (and {times - 1:,} more times at this line)"
    )
