"""Tests that the columns of a program agree with its instructions one by one."""

import random
from functools import cache

import pytest

from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.touches import NEVER, Touches
from tests.compiler.programs import random_program
from tests.fuzz.kernels import Recipe, written

STEPS = ("instruction",) * 12
LOOPING = (("loop", 3), *((kind, n) for n, kind in enumerate(STEPS)), ("end", 1), ("transfer", 4))


@cache
def programs() -> list[Kernel]:
    """Return programs without loops, then with loops, lists of tensors and addresses that the device computes."""
    recipes = [Recipe("trn2", n, tuple((k, m + 100 * n) for k, m in LOOPING)) for n in range(8)]
    straight = [random_program(random.Random(n)) for n in range(4)]
    return [*straight, *(written(recipe).kernel for recipe in recipes)]


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return programs()[request.param]


@pytest.mark.parametrize("kernel", range(12), indirect=True)
def test_each_access_is_there_once(kernel):
    touches = Touches(kernel.instructions)
    for n, i in enumerate(kernel.instructions):
        here = [k for k in range(len(touches.views)) if touches.at[k] == n]
        assert touches.forms[touches.form[n]] is i.form
        assert {id(touches.views[k]) for k in here if touches.reads[k]} == set(map(id, i.read()))
        assert {id(touches.views[k]) for k in here if touches.writes[k]} == set(
            map(id, i.written())
        )
        assert all(touches.views[k].storage.id == touches.storage[k] for k in here)


@pytest.mark.parametrize("kernel", range(4), indirect=True)
def test_first_and_last(kernel):
    touches = Touches(kernel.instructions)
    first, last = touches.first(touches.reads), touches.last(touches.writes)
    read = [{view.storage.id for view in i.read()} for i in kernel.instructions]
    wrote = [{view.storage.id for view in i.written()} for i in kernel.instructions]
    for key in range(touches.storages):
        assert first[key] == min((n for n, keys in enumerate(read) if key in keys), default=NEVER)
        assert last[key] == max((n for n, keys in enumerate(wrote) if key in keys), default=-1)


@pytest.mark.parametrize("kernel", range(4), indirect=True)
def test_repeated(kernel):
    def several(i):
        keys = [v.storage.id for v in {id(v): v for v in (*i.read(), *i.written())}.values()]
        return len(set(keys)) < len(keys)

    found = Touches(kernel.instructions).repeated()
    assert found == [n for n, i in enumerate(kernel.instructions) if several(i)] and found
