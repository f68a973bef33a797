"""Which line of one version of a kernel is which line of another, where their texts or files differ?

Two lines are taken for the same where they stand in loops over the same variables and have the same opcodes executed.
Of several that are alike the first is the first, the second the second, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nki_lab.profiler.iterations import loop_values

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile

_Likeness = tuple[tuple[str, ...], tuple[str, ...]]


def same_lines(
    profiles: tuple[Profile, Profile],
    left: tuple[Collection[str], Collection[str]],
    named: Callable[[int, str], str],
) -> dict[str, str]:
    """Return for lines of the second run the line of the first that they are.

    Args:
        profiles: the runs.
        left: names of the lines of each run that the other one does not have.
        named: the name of a line of the first (0) or second (1) run, by its place in the profile.
    """
    if not all(left):
        return {}
    alike: list[dict[_Likeness, list[str]]] = [{}, {}]
    for run, profile in enumerate(profiles):
        for name, likeness in _likenesses(profile, partial(named, run)).items():
            if name in left[run]:
                alike[run].setdefault(likeness, []).append(name)
    return {
        theirs: mine
        for likeness, names in alike[1].items()
        for mine, theirs in zip(alike[0].get(likeness, ()), names, strict=False)
    }


def _likenesses(profile: Profile, named: Callable[[str], str]) -> dict[str, _Likeness]:
    """Return the variables of the loops around every line, and its opcodes, in the order of the program."""
    line = profile.strings("Instruction", "nki_source_location")
    opcode, loops = profile.strings("Instruction", "opcode"), loop_values(profile)
    variables = [tuple(re.findall(r"(\w+)=", text)) for text in loops.values]
    codes = np.stack([line.codes, opcode.codes, loops.codes], axis=1)
    kinds, first = np.unique(codes, axis=0, return_index=True)
    found: dict[str, tuple[set[tuple[str, ...]], set[str]]] = {}
    for place, what, around in kinds[np.argsort(first, kind="stable")].tolist():
        if place < 0:
            continue
        entry = found.setdefault(named(line.values[place]), (set(), set()))
        entry[0].add(variables[around] if around >= 0 else ())
        entry[1].add(opcode.values[what] if what >= 0 else "")
    # A pass may move work out of its loop; the deepest place says where the line stands.
    return {
        name: (max(where, key=len), tuple(sorted(what))) for name, (where, what) in found.items()
    }
