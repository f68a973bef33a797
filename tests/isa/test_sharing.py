"""Tests that a result is the same when dst lies in the memory of an operand that is read."""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

from nki_lab.ir.tensor.view import NkiTensor
from tests.isa.case import Case, Tile, Traced, check, empty, isa, nl, sample, tile
from tests.isa.cases import ALL
from tests.thorough import first


def shareable(case: Case):
    """Yield the tiles that the instruction reads and that could be its dst: of one dtype, shape and memory."""
    if case.breaks or case.tiles.get("dst") is None or case.tiles["dst"].view is not None:
        return
    traced = Traced(case, case.targets[-1])
    i = traced.subject
    if len(traced.own) != 1 or type(i.dst) is not NkiTensor or i.form.dynamic:
        return
    for position in i.form.reads:
        name, t = i.definition.params[position], i.args[position]
        if name == "dst" or name not in case.tiles or case.tiles[name].view is not None:
            continue
        if (t.dtype, t.shape, t.buffer) == (i.dst.dtype, i.dst.shape, i.dst.buffer):
            yield name


@cache
def shared() -> list[tuple[Case, str]]:
    """Return all cases with each tile that could be their dst; finding out traces every case, so no import does it."""
    return [(case, name) for case in ALL for name in shareable(case)]


def run(case: Case, tiles: dict[str, Tile], program, result: str) -> np.ndarray:
    made = Case(case.instruction, case.name, tiles, program, {result: 0}, cores=case.cores)
    traced = Traced(made, case.targets[-1])
    assert [str(e) for e in traced.errors] == []
    return traced.simulate()[result].astype(float)


def test_there_is_something_to_share():
    assert {c.instruction for c, _ in shared()} >= {"tensor_tensor", "tensor_scalar", "activation"}


@pytest.mark.parametrize("shift", first([1, 0]))
@pytest.mark.parametrize("instruction", sorted({case.instruction for case in ALL}))
def test_dst_over_an_operand(instruction: str, shift: int):
    for case, name in shared():
        if case.instruction != instruction:
            continue
        read = case.tiles[name]
        together = np.concatenate([read.data, read.data[..., :shift]], axis=-1)
        others = {k: v for k, v in case.tiles.items() if k not in ("dst", name)}
        over = partial(over_an_operand, case, name, shift, tuple(others))
        found = run(case, others | {"both": Tile(together, read.dtype, read.space)}, over, "both")
        copies = {
            name: read,
            "dst": Tile(np.ascontiguousarray(together[..., shift:]), read.dtype, read.space),
        }
        expected = together.astype(float)
        expected[..., shift:] = run(case, others | copies, case.run, "dst")
        np.testing.assert_array_equal(found, expected, err_msg=f"{case}: dst over {name}")


def over_an_operand(case: Case, name: str, shift: int, others: tuple[str, ...], t) -> None:
    """Run the case with its dst `shift` elements behind its operand `name`, both in the tile `both`."""
    size = case.tiles[name].data.shape[-1]
    views = {name: t.both[..., :size], "dst": t.both[..., shift:]}
    case.run(SimpleNamespace(core=t.core, **{k: getattr(t, k) for k in others}, **views))


def test_a_dst_that_is_one_element_per_partition():
    """Published kernels that want only the sum write the squares onto each other, with a step of 0."""
    x = sample(32, 12, seed=1)

    def program(t):
        isa.activation_reduce(
            t.dst.ap([[1, 32], [0, 12]]), nl.square, t.x, nl.add, t.sum, bias=t.zero
        )

    case = Case(
        "activation_reduce",
        "step of 0",
        {
            "dst": empty((32, 1)),
            "x": tile(x),
            "sum": empty((32, 1)),
            "zero": tile(np.zeros((32, 1))),
        },
        program,
        {"dst": x[:, -1:] ** 2, "sum": (x.astype(float) ** 2).sum(axis=1, keepdims=True)},
        rtol=1e-6,
    )
    for target in case.targets:
        traced = Traced(case, target)
        assert traced.errors == []
        check(case, traced.simulate())
