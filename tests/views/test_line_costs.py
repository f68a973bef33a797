"""Tests that each line gets the time, bytes and waits of its own instructions and transfers."""

import numpy as np
import pytest

from nki_lab.profiler.schema import TRANSFERS
from nki_lab.views.run import Tensor, ViewData
from nki_lab.views.source.costs import line_costs
from nki_lab.views.texts import view_text
from tests.profiler import example
from tests.views.runs import added, by_hand


def test_costs_of_a_profile_alone_are_those_of_its_rows() -> None:
    found = {cost.place.label: cost for cost in line_costs(ViewData("x", example.profile()))}
    assert set(found) == {"cell, line 3", "cell, line 4", "cell, line 5", "add.py, line 12"}
    line = found["cell, line 5"]  # two copies, of 200 and 300 ns
    assert (line.executed, line.engine_ns, line.place.line) == (2, {"vector": 500}, 5)
    # The trigger of line 3 issued the first transfer only.
    trigger = found["cell, line 3"]
    assert (trigger.engine_ns, trigger.transfer_ns, trigger.bytes) == ({"sync": 50}, 800, 8000)
    assert found["cell, line 4"].wait_ns == 1000
    assert found["add.py, line 12"].wait_ns == 100


def test_costs_of_a_run_add_up_to_its_profile() -> None:
    data = added().view_data
    costs = line_costs(data)
    profile = data.profile
    total = int(profile.numbers("Instruction", "duration_ns").sum())
    assert sum(sum(cost.engine_ns.values()) for cost in costs) == total
    moved = profile.numbers(TRANSFERS, "transfer_bytes")
    assert sum(cost.bytes for cost in costs) == int(moved.sum()) == 3 * 96 * 600 * 4
    assert sum(cost.transfer_ns for cost in costs) == int(
        profile.numbers(TRANSFERS, "duration_ns").sum()
    )
    assert sum(cost.executed for cost in costs) == profile.count("Instruction")
    assert sum(cost.operations for cost in costs) == len(data.operations)
    assert [cost.place.line for cost in costs] == sorted(cost.place.line for cost in costs)


@pytest.mark.usefixtures("nki_0_6")
def test_a_loop_of_the_device_costs_every_pass() -> None:
    from nki_lab.runtime import run
    from tests.views.test_access_model import in_a_loop

    data = run(in_a_loop, np.ones((128, 64), np.float32), target="trn2").view_data
    by_text = {cost.place.text.strip(): cost for cost in line_costs(data)}
    copied = by_text["twice = nl.add(tile, tile)"]
    assert (copied.operations, copied.executed) == (1, 4)


def test_the_text_names_every_line_with_its_cost() -> None:
    lines = view_text(added().view_data, "source").splitlines()
    assert lines[0].split() == "line cost engine sum us DMA us wait us bytes moved text".split()
    costly = [line for line in lines if "#" in line]
    assert len(costly) == 2 and all(len(line) <= 110 for line in lines)
    assert "total = nl.add(nl.load(x[:, " in costly[0]
    assert any('"""Add two tensors in two halves' in line for line in lines)


@pytest.mark.parametrize("view", ["findings", "source", "array", "graph", "vary"])
def test_texts_stay_short_and_are_the_same_each_time(view) -> None:
    """Also where what stands in a column takes several lines."""
    long = by_hand(tensors=[Tensor("n" * 300, "sbuf", (8, 4), "float32", 4, "input", True)] * 90)
    assert len(view_text(long, "layout", 40).splitlines()) <= 40
    data = added().view_data
    assert len(view_text(data, view, 40).splitlines()) <= 40
    assert view_text(data, view) == view_text(data, view)
    assert view_text(ViewData("x", example.profile()), view, 40)
