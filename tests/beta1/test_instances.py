"""Tests that profiles say which program of a launch grid each event belongs to, also when they are read from a file."""

import re
from collections import Counter

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.profiler.profile import Profile
from nki_lab.views.timeline.model import TimelineModel
from nki_lab.views.timeline.relations import TimelineRelations
from nki_lab.widgets.packing import unpack


@nki.jit
def scaled(x):
    """Load, multiply and store a block; programs of the second row multiply twice more."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row, column = nl.program_id(0), nl.program_id(1)
    i, j = nl.mgrid[0:128, 0:32]
    t = nl.load(x[row * 128 + i, column * 32 + j])
    t = t * 2.0
    if row == 1:
        for _ in range(2):
            t[...] = t * 2.0
    nl.store(out[row * 128 + i, column * 32 + j], t)
    return out


X = np.random.default_rng(8).standard_normal((256, 96)).astype(np.float32)
#: Instructions of each program: a load, multiplications, a store.
EXPECTED = {(row, column): 3 + 2 * row for row in range(2) for column in range(3)}


@pytest.fixture(scope="module")
def result():
    result = scaled[2, 3].launch(X)
    assert np.array_equal(result.value, np.vstack([X[:128] * 2, X[128:] * 8]))
    return result


@pytest.fixture(scope="module", params=["now", "saved"])
def profile(request, result, tmp_path_factory):
    if request.param == "now":
        return result.profile
    return Profile.load(result.profile.save(tmp_path_factory.mktemp("run") / "run.json"))


def test_the_tables_number_the_programs(profile):
    counted = {
        (*(value for _, value in i.outer), i.value): i.instructions
        for i in profile.iterations().of("program_id(1)")
    }
    assert counted == EXPECTED
    assert "program_id(0) = 1, program_id(1) = 2" in str(profile.iterations().of("program_id(1)"))


def test_loops_of_a_program_are_inside_of_it(profile):
    (first, *_) = profile.iterations().of("_")
    assert first.outer == (("program_id(0)", 1), ("program_id(1)", 0))


def test_a_kernel_without_a_grid_has_no_programs():
    def doubled(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * 2.0)
        return out

    assert not nki.jit(doubled).launch(X[:128]).profile.iterations()
    assert not nki.jit(doubled)[1].launch(X[:128]).profile.iterations()


def test_the_timeline_knows_the_program_of_each_event(result):
    timeline = TimelineModel(result.view_data)
    relations = TimelineRelations(timeline)
    programs = Counter(relations.runs[0].programs())
    # Each load and store is an event of the engine that starts it, and one of the queue that moves the block.
    events = {f"program_id(0)={r}, program_id(1)={c}": n + 2 for (r, c), n in EXPECTED.items()}
    assert programs == events
    detail = [relations.event_relations(n)["loop"] for n in range(timeline.count)]
    assert Counter(re.sub(", _=.*", "", text) for text in detail) == events
    meta, arrays = unpack(relations.programs())
    assert Counter(meta["names"][code] for code in arrays["code"].tolist()) == events


def test_views_name_blocks_by_their_number_and_events_by_their_program(rng):
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        data = nl.ndarray((2, nl.par_dim(128), 4), x.dtype)
        for i in nl.affine_range(2):
            data[i] = nl.load(x) * float(i + 1)
        nl.store(out[nl.program_id(0)], data[0] + data[1])
        return out

    x = rng.standard_normal((128, 4)).astype(np.float32)
    result = nki_lab.run(kernel[2], x, target="trn2")
    np.testing.assert_allclose(result.value, [3 * x] * 2, rtol=1e-6)
    head, *events = str(result.show("timeline")).splitlines()[1:]
    assert head.endswith("program")
    programs = [event.split()[-1] for event in events]
    # Each loads, multiplies, adds and stores as much as the other.
    assert programs.count("program_id(0)=0") == programs.count("program_id(0)=1") == len(events) / 2
    assert _meta(result)["grid"]
    for view in ("memory", "layout"):
        text = str(result.show(view))
        assert all(name in text for name in ("data[0]", "data[1]", "data[1].1")), text

    alone = nki_lab.run(kernel[1], x, target="trn2")
    assert "program_id" not in str(alone.show("timeline"))
    assert not _meta(alone)["grid"]


def _meta(result):
    return unpack(TimelineModel(result.view_data).overview())[0]
