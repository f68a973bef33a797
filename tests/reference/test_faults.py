"""Puts faults into what nki_lab computes and shows that random kernels find each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nki_lab.errors import NkiError
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import numerics, registry, xorwow
from nki_lab.isa.operators import ALU, OPS
from nki_lab.simulator import bind, late
from nki_lab.simulator.meetings import CoreMeeting
from tests.reference.compared import differences, written
from tests.reference.groups import cores_program, ranks_program
from tests.reference.tensors import Refused
from tests.reference.writing import Program

Change = Callable[[dict[str, Any]], None]


def _semantics(
    name: str, before: Change | None = None, after: Change | None = None
) -> Callable[[Any], None]:
    """Return what changes the arguments of an instruction's meaning, or its results."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = registry[name].facets["semantics"]

        @functools.wraps(right)
        def wrong(**given: Any) -> None:
            if before:
                before(given)
            right(**given)
            if after:
                after(given)

        monkeypatch.setitem(registry[name].facets, "semantics", wrong)

    return patch


def _swap(a: str, b: str) -> Change:
    def change(given: dict[str, Any]) -> None:
        given[a], given[b] = given[b], given[a]

    return change


def _set(**values: Any) -> Change:
    return lambda given: given.update(values)


def _with(name: str, change: Callable[[Any], Any]) -> Change:
    def apply(given: dict[str, Any]) -> None:
        given[name] = change(given[name])

    return apply


def _truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut narrow floats instead of rounding them."""
    right = numerics.store_cast

    def wrong(compute: Any, dtype: Any) -> Any:
        if (
            str(dtype) != "bfloat16"
            or compute is None
            or compute is numerics.BITS
            or np.dtype(compute) != np.float32
        ):
            return right(compute, dtype)
        return lambda source, out: np.copyto(
            out, (source.view(np.uint32) & 0xFFFF0000).view(np.float32), casting="unsafe"
        )

    monkeypatch.setattr(bind, "store_cast", wrong)


def _wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let integers wrap instead of saturating."""
    right = numerics.store_cast

    def wrong(compute: Any, dtype: Any) -> Any:
        if (
            not dtype.is_integer
            or compute is None
            or compute is numerics.BITS
            or np.dtype(compute) != np.float32
        ):
            return right(compute, dtype)
        return lambda source, out: np.copyto(
            out, np.rint(np.nan_to_num(source.astype(float))).astype(np.int64).astype(dtype.np)
        )

    monkeypatch.setattr(bind, "store_cast", wrong)


def _misplaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the step of a slice."""
    right = NkiTensor.__getitem__

    def wrong(self: NkiTensor, key: Any) -> NkiTensor:
        if isinstance(key, tuple):
            key = tuple(
                slice(k.start, k.start + len(range(k.start, k.stop, k.step)))
                if isinstance(k, slice) and (k.step or 1) > 1
                else k
                for k in key
            )
        return right(self, key)

    monkeypatch.setattr(NkiTensor, "__getitem__", wrong)


def _moves_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a register count one more than it holds."""
    right = late.RegisterFile.get
    monkeypatch.setattr(
        late.RegisterFile,
        "get",
        lambda self, register, at=None: min(right(self, register, at) + 1, 2),
    )


def _operator(name: str, apply: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what gives an ALU operator another meaning."""
    return lambda monkeypatch: monkeypatch.setattr(
        OPS[name], "alu", replace(ALU[name], apply=apply)
    )


def _no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cores meet without exchanging anything."""
    monkeypatch.setattr(CoreMeeting, "exchange", lambda self, calls: None)


def _backwards(values: Any) -> Any:
    return values[::-1]


def _all_reduced(given: dict[str, Any]) -> None:
    command = given["reduce_cmd"]
    given["reduce_cmd"] = type(command).reduce if command.name == "reset_reduce" else command


def _in(
    name: str, *change: Any, show: str = "", **values: Any
) -> tuple[Callable[[Any], None], str]:
    """Return a fault in the arguments of an instruction and the programs that are to show it."""
    before = (change[0] if len(change) == 1 else _with(*change)) if change else _set(**values)
    return _semantics(name, before), show or name


def _after(name: str, change: Change) -> tuple[Callable[[Any], None], str]:
    return _semantics(name, after=change), name


#: What is wrong: how it is put in, and which programs are to show it.
FAULTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "bfloat16 is cut": (_truncates, "tensor_tensor"),
    "integers wrap": (_wraps, "tensor_scalar"),
    "a step is forgotten": (_misplaces, "tensor_copy"),
    "a register counts one too many": (_moves_too_far, "dma_copy_register"),
    "less is less_equal": (_operator("less", np.less_equal), "affine_select"),
    "operands exchanged": _in("tensor_tensor", _swap("data1", "data2")),
    "reverse0 ignored": _in("tensor_scalar", reverse0=False),
    "a matmul always overwrites": _in("nc_matmul", accumulate=False),
    "negate ignored": _in("tensor_reduce", negate=False),
    "accumulators are not reset": _in("activation", _all_reduced),
    "an offset too far": _in("iota", "offset", lambda x: x + 1),
    "the affine value is negated": _in("affine_select", "channel_multiplier", lambda x: -x),
    "the next element gathered": _in("nc_n_gather", "indices", lambda x: np.minimum(x, 2)),
    "the scales of another tensor": _in("nc_matmul_mx", "moving_scale", lambda s: np.roll(s, 1, 0)),
    "a predicate reversed": _in("tensor_copy_predicated", "reverse_pred", lambda x: not x),
    "a source left out": _in("dma_compute", "srcs", lambda s: s[:1]),
    "ranks in the wrong order": _in("all_gather", "srcs", _backwards),
    "counts of the wrong rank": _in("all_to_all_v", "metadata_tensor", _backwards),
    "a window too far": _in("range_select", "range_start", lambda x: x + 1),
    "cores exchange nothing": (_no_exchange, "cores"),
    "the scale is half": _after(
        "quantize_mx", lambda g: g["out_dst_scale"].view(np.uint8).__isub__(1)
    ),
    "the variance is a little large": _after("bn_aggr", lambda g: g["out"][:, 1:].__imul__(1.001)),
}


def _programs(kind: str) -> Iterator[Program]:
    for seed in range(60):
        try:
            if kind == "cores":
                yield cores_program(seed)
            elif kind.startswith("all_"):
                yield ranks_program(seed, kind)
            else:
                yield written(
                    seed,
                    ("trn2", "trn3", "trn1")[seed % 3]
                    if kind in ("tensor_copy", "tensor_tensor", "tensor_scalar", "iota")
                    else "trn3",
                    kind,
                )
        except Refused:
            continue


def _shows(kind: str) -> bool:
    for program in _programs(kind):
        try:
            if differences(program):
                return True
        except (Refused, NkiError):
            continue
    return False


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in, kind = FAULTS[fault]
    put_in(monkeypatch)
    assert _shows(kind)


@pytest.mark.parametrize("kind", sorted({kind for _, kind in FAULTS.values()}))
def test_without_a_fault_nothing_is_found(kind: str) -> None:
    for program, _ in zip(_programs(kind), range(3), strict=False):
        try:
            assert differences(program) == []
        except Refused:
            continue


def test_random_streams_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a seed makes is compared with what it makes again."""
    count = iter(range(10**6))
    right = xorwow.seed
    monkeypatch.setattr(xorwow, "seed", lambda states, value: right(states, value + next(count)))
    assert _shows("set_rng_seed")
