"""Tests that races between two cores are reported exactly: each pair of lines that race, and no other.

`RACE_KERNELS=200` looks at more kernels of each sort, `RACE_SEED` at others.
"""

from __future__ import annotations

import os
import re

import pytest

from nki_lab.ir.program.logical_core import RACE
from nki_lab.runtime import jit, launch, run
from tests.fuzz.racing import DYNAMIC, STATIC, kernels

pytestmark = pytest.mark.usefixtures("nki_0_6")  # the kernels have loops of both forms
COUNT = int(os.environ.get("RACE_KERNELS", "25"))
SEED = int(os.environ.get("RACE_SEED", "1")) * 1_000_000
PLACE = re.compile(r"race: core 0 \w+ .*?, line (\d+) while core 1 \w+ .*?, line (\d+): ")


def told(result) -> set[tuple[int, int]]:
    messages = [f.message for f in result.findings if f.message.startswith(RACE)]
    pairs = [tuple(map(int, PLACE.match(m).groups())) for m in messages]
    assert len(set(pairs)) == len(pairs), "each once"
    return set(pairs)


def numbered(written) -> str:
    return "\n".join(f"{n:>3} {line}" for n, line in enumerate(written.text.split("\n"), 1))


@pytest.mark.parametrize("racy", [True, False], ids=["racy", "clean"])
@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_every_race_is_told_and_no_other(tmp_path, kind, racy):
    for n, written in enumerate(kernels(kind, lambda w: bool(w.races) is racy, COUNT, SEED)):
        kernel = written.kernel(tmp_path, n)
        arguments = {name: a.copy() for name, a in written.arguments.items()}
        result = run(jit(kernel)[2], target="trn2", **arguments)
        assert told(result) == written.races, numbered(written)


@pytest.mark.parametrize("racy", [True, False], ids=["racy", "clean"])
@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_races_of_several_ranks_with_two_cores(tmp_path, kind, racy):
    count = max(COUNT // 4, 4)
    taken = kernels(
        kind,
        lambda w: bool(w.races) is racy and w.counts.get("order: collective", 0),
        count,
        SEED,
        True,
    )
    for n, written in enumerate(taken):
        kernel = jit(written.kernel(tmp_path, n))[2]
        arguments = [{name: a.copy() for name, a in written.arguments.items()} for _ in range(2)]
        for result in launch(kernel, 2, arguments, target="trn2"):
            assert told(result) == written.races, numbered(written)
