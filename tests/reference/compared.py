"""Runs a program on the reference and on nki_lab and tells where they differ."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

import nki_lab
from nki_lab.dtypes import DTYPES
from nki_lab.errors import NkiError
from tests.reference import recipes_arithmetic, recipes_copies, recipes_forms, recipes_special  # noqa: F401
from tests.reference.groups import cores_program, ranks_program
from tests.reference.language import NAMES
from tests.reference.machine import Machine, argument
from tests.reference.numbers import NAN, Array
from tests.reference.recipes import RECIPES
from tests.reference.tensors import Refused, Tensor
from tests.reference.writing import Program, Writer

_numbers = count()


def _lab_names() -> dict[str, Any]:
    nki_lab.install()
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl

    return {"nl": nl, "nisa": nisa, "ncc": ncc, "np": np}


def function(text: str, names: dict[str, Any], with_source: bool = False) -> Callable[..., Any]:
    """Return the kernel of a text; with its source, nki_lab checks the language as well."""
    file = f"<random kernel {next(_numbers)}>"
    if with_source:
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    env = dict(names)
    exec(compile(text, file, "exec"), env)
    return env["kernel"]  # type: ignore[no-any-return]


def lab(program: Program) -> tuple[list[list[Array]], list[list[Array]]]:
    """Return results and arguments afterwards, of each rank."""
    kernel = nki_lab.jit(function(program.text, _lab_names(), program.seed % 8 == 0))
    if program.cores > 1:
        kernel = kernel[program.cores]
    arguments = [
        [_host(a[r] if program.ranks > 1 else a, d.name) for _, d, a in program.inputs]
        for r in range(program.ranks)
    ]
    if program.ranks > 1:
        results = nki_lab.launch(
            kernel, program.ranks, [tuple(a) for a in arguments], target=program.target
        )
    else:
        # Tiles over each other are what some programs are about.
        run = nki_lab.run(kernel, *arguments[0], target=program.target, capacity="finding")
        results = [run]
    linecache.cache.clear()
    return [[np.asarray(o) for o in r.outputs] for r in results], arguments


def _host(array: Array, name: str) -> Array:
    wanted = DTYPES[name].host
    array = np.ascontiguousarray(array).copy()
    return array if array.dtype == wanted else array.view(wanted)


def reference(program: Program) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    """Return results and arguments afterwards, of each rank, as tensors of the reference."""
    machine = Machine(program.target, program.cores, program.ranks)
    machine.begin()
    kernel = function(program.text, NAMES)
    arguments = [
        [argument(a[r] if program.ranks > 1 else a, d) for _, d, a in program.inputs]
        for r in range(program.ranks)
    ]
    results = machine.run(kernel, [list(a) for a in arguments])
    return [list(r) if isinstance(r, tuple) else [r] for r in results], arguments


def differences(program: Program, counts: dict[str, int] | None = None) -> list[str]:
    """Return a sentence for each tensor that differs."""
    theirs, theirs_after = (
        reference(program) if program.ran is None else ([program.ran[0]], [program.ran[1]])
    )
    ours, ours_after = lab(program)
    found = []
    names = [name for name in program.results if f"\n    {name} = " in program.text]
    for rank in range(program.ranks):
        pairs = [*zip(names, theirs[rank], ours[rank], [counts] * len(names), strict=True)]
        inputs = [name for name, _, _ in program.inputs]
        pairs += zip(
            inputs, theirs_after[rank], ours_after[rank], [None] * len(inputs), strict=True
        )
        for name, right, array, counted in pairs:
            text = _compare(right, array, counted)
            if text:
                found.append(
                    f"{name} of rank {rank}: {text}" if program.ranks > 1 else f"{name}: {text}"
                )
        by_name = dict(zip(names, ours[rank], strict=True))
        for a, b in program.equal:
            if a in by_name and b in by_name and not np.array_equal(by_name[a], by_name[b]):
                found.append(f"{a} and {b} are not equal")
        for a, low, high in program.between:
            if (
                a in by_name
                and not (
                    (by_name[a].astype(float) >= low) & (by_name[a].astype(float) <= high)
                ).all()
            ):
                found.append(f"{a} is not between {low} and {high}")
    return found


def _compare(right: Tensor, array: Array, counts: dict[str, int] | None) -> str:
    wanted = (
        right.memory.data[: right.size * right.dtype.size].view(right.dtype.np).reshape(right.shape)
    )
    if array.shape != wanted.shape:
        return f"shape {array.shape}, expected {wanted.shape}"
    word = f"u{right.dtype.size}"
    bits = np.ascontiguousarray(array).view(word), wanted.view(word)
    same = bits[0] == bits[1]
    if counts is None and same.all():
        return ""
    error = right.error(np.arange(right.size).reshape(right.shape))
    if counts is not None:
        counts["fixed"] = counts.get("fixed", 0) + int((error <= 0).sum())
        counts["near"] = counts.get("near", 0) + int(((error > 0) & np.isfinite(error)).sum())
        counts["open"] = counts.get("open", 0) + int(np.isinf(error).sum())
    if right.dtype.kind == "p":
        a, b = bits[0].astype(float), bits[1].astype(float)
    else:
        with np.errstate(all="ignore"):
            a, b = (x.view(right.dtype.np).astype(np.float64) for x in bits)
    with np.errstate(all="ignore"):
        near = (np.abs(a - b) <= np.maximum(error, 0)) & (error > 0)
    fine = (
        same
        | np.isinf(error)
        | near
        | (error == NAN) & np.isnan(a) & np.isnan(b)
        | (error > 0) & (a == b)
    )
    if fine.all():
        return ""
    where = tuple(int(k) for k in np.argwhere(~fine)[0])
    pair = f"{a[where]!r}, expected {b[where]!r} within {error[where]:.3g}"
    return (
        f"{int((~fine).sum())} of {fine.size} {right.dtype.name} differ, first at {where}: {pair}"
    )


# -- programs ------------------------------------------------------------------------------------------------------


def written(seed: int, target: str | None = None, only: str | None = None) -> Program:
    """Write the program of a seed; `only` names the recipe of its steps."""
    pick = random.Random(seed)
    target = target or pick.choice(("trn1", "trn2", "trn2", "trn3", "trn3"))
    w = Writer(target, seed)
    names = [
        name for name, (_, chip, weight) in RECIPES.items() if chip <= w.chip for _ in range(weight)
    ]
    for _ in range(pick.choice((1, 1, 2, 2, 3, 4))):
        try:
            RECIPES[only or pick.choice(names)][0](w)
        except Refused:
            continue
    return w.finish()


def random_program(seed: int) -> Program:
    """Write the program of a seed, of one core, two cores or several ranks."""
    kind = seed % 20
    if kind < 17:
        return written(seed)
    return cores_program(seed) if kind == 17 else ranks_program(seed)


def shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Leave out statements as long as the program fails."""
    smaller = True
    while smaller:
        smaller = False
        for k in range(len(program.lines) - 1, -1, -1):
            fewer = replace(program, lines=[*program.lines[:k], *program.lines[k + 1 :]], ran=None)
            try:
                if fails(fewer):
                    program, smaller = fewer, True
            except (
                Refused,
                NkiError,
                NameError,
                AssertionError,
                AttributeError,
                ValueError,
                SyntaxError,
            ):
                continue
    used = program.text.split("\n", 1)[1]
    kept = [
        x
        for x in program.inputs
        if x[0]
        in used.replace("(", " ")
        .replace(",", " ")
        .replace(".", " ")
        .replace("[", " ")
        .replace("=", " ")
        .replace(")", " ")
        .split()
    ]
    return replace(program, inputs=kept)


def shown(program: Program, found: list[str]) -> str:
    """Return what a person needs to see a difference again."""
    facts = f"seed {program.seed}, {program.target}, {program.cores} cores, {program.ranks} ranks"
    return "\n".join([f"# {facts}", program.text, *found])
