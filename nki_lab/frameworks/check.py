"""Compares an operator with its reference under every transform of its framework, by value.

A transform must give the values that plain calls give, or end in an error; what differs, or is silently zero, fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nki_lab.errors import CheckFailed, KernelArgument, NkiError, UnknownOption, close_matches
from nki_lab.frameworks.results import leaves_of
from nki_lab.runtime.arrays import library_of, to_numpy
from nki_lab.source import headline

#: Relative difference allowed, of the largest element: other orders of summation, and cubes of what is rounded.
_TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
#: Elements of all arguments with a gradient: the Jacobian of as many results has 64 Mi numbers.
_MOST_ELEMENTS = 1 << 13
MATCHES, REFUSED, DIFFERS = "matches", "loud error", "DIFFERS"


class Row(NamedTuple):
    """One transform.

    Attributes:
        name: as it is called in the framework.
        found: applies it to a function, with the arguments.
        wanted: computes the same with plain calls of a function.
        needs_reference: plain calls of the operator do not give what is wanted.
        required: an operator that refuses it is of no use.
        of: what its values are, one after the other and again from the first: "gradient of `x`"; nothing for results.
    """

    name: str
    found: Callable[[Any], Any]
    wanted: Callable[[Any], Any]
    needs_reference: bool = False
    required: bool = False
    of: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What a transform gave.

    Attributes:
        name: of the transform.
        verdict: "matches", "loud error" or "DIFFERS".
        text: how far from the reference, or the first line of the error.
    """

    name: str
    verdict: str
    text: str


@dataclass(frozen=True)
class OperatorCheck:
    """The outcomes of all transforms; a cell shows them as a table.

    Attributes:
        name: of the operator.
        outcomes: one for each transform.
        failed: those that differ, and those that must not be refused.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    failed: tuple[Outcome, ...]

    def __getitem__(self, name: str) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)

    def __repr__(self) -> str:
        names, verdicts = (max(len(o[k]) for o in self.outcomes) for k in (0, 1))
        rows = [
            f"{o.name:<{names}}  {o.verdict:<{verdicts}}  {o.text}".rstrip() for o in self.outcomes
        ]
        return "\n".join([self.name, *rows])


@dataclass(frozen=True)
class Case:
    """An operator with arguments, as a function of its tensors.

    Attributes:
        name: of the operator.
        operator: what was given.
        arguments: what it is called with, constants among them.
        names: of the arguments; empty where they have none.
        places: where the tensors are among the arguments.
        wrt: numbers of the tensors that have a gradient, among the tensors.
        kept: numbers of the results that have one; None for all.
    """

    name: str
    operator: Any
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    wrt: tuple[int, ...]
    kept: tuple[int, ...] | None

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The tensors among the arguments."""
        return tuple(self.arguments[place] for place in self.places)

    @property
    def gradients(self) -> tuple[str, ...]:
        """What gradients there are, in order."""
        at = [self.places[n] for n in self.wrt]
        return tuple(
            f"gradient of `{self.names[n] if self.names else f'argument {n}'}`" for n in at
        )

    def function(self, of: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """Return a function of the tensors that calls `of` with all arguments, and returns what has gradients."""

        def call(*tensors: Any) -> tuple[Any, ...]:
            arguments = list(self.arguments)
            for place, tensor in zip(self.places, tensors, strict=True):
                arguments[place] = tensor
            results = tuple(leaves_of(of(*arguments)))
            if self.kept is not None and len(results) != len(self.kept):
                results = tuple(results[n] for n in self.kept)
            return tuple(r for r in results if library_of(r))

        return call


def check_op(
    operator: Any,
    *args: Any,
    reference: Callable[..., Any] | None = None,
    only: str | Collection[str] | None = None,
    tolerance: float | None = None,
) -> OperatorCheck:
    """Compare an operator with its reference under every transform of PyTorch or JAX, by value.

    The gradients are also compared with differences of the values, and an operator of PyTorch passes
    `torch.library.opcheck`. Raises CheckFailed, with the table, where values differ; a transform that the operator
    refuses with an error is no failure, except for its values and, where it has a backward, its gradients.

    Args:
        operator: what `nki_lab.torch.custom_op` or `nki_lab.jax.custom_op` returned, or a function that calls it.
        args: arguments by position: tensors of the framework, and constants.
        reference: the same in the framework's own functions; without one, transforms are compared with plain calls of
            the operator, and transforms for which that tells nothing are left out.
        only: names of the transforms to try.
        tolerance: relative difference allowed, of the largest element; by default as the dtype asks for.
    """
    libraries = {library_of(a) for a in args} & {"torch", "jax"}
    if len(libraries) != 1:
        raise KernelArgument(
            f"the arguments are arrays of {' and '.join(sorted(libraries)) or 'neither PyTorch nor JAX'}",
            help="give check_op tensors of the operator's framework",
        )
    if libraries == {"torch"}:
        from nki_lab.frameworks.torch_transforms import rows_of
    else:
        from nki_lab.frameworks.jax_transforms import rows_of
    case = _case(operator, args)
    if only is None:
        _refuse_large(case)
    rows = [row for row in rows_of(case) if reference is not None or not row.needs_reference]
    rows = _chosen(rows, only)
    plain = case.function(reference or operator)
    outcomes = tuple(_outcome(row, case.function(operator), plain, tolerance) for row in rows)
    pairs = zip(rows, outcomes, strict=True)
    failed = tuple(
        o for row, o in pairs if o.verdict == DIFFERS or (row.required and o.verdict == REFUSED)
    )
    check = OperatorCheck(case.name, outcomes, failed)
    if failed:
        named = ", ".join(outcome.name for outcome in failed)
        raise CheckFailed(
            f"{case.name} is wrong under {named}\n{check!r}",
            help="correct the kernel where the values differ, and its backward where only gradients do",
        )
    return check


def _refuse_large(case: Case) -> None:
    """Raise KernelArgument for arguments whose Jacobians would fill the memory."""
    count = sum(math.prod(case.tensors[n].shape) for n in case.wrt)
    if count > _MOST_ELEMENTS:
        raise KernelArgument(
            f"the arguments that have a gradient hold {count:,} elements, and check_op computes the derivative of each"
            " result by each of them",
            help="give smaller arguments, of some hundred elements, or name transforms: only=['forward', 'backward']",
        )


def _case(operator: Any, args: tuple[Any, ...]) -> Case:
    places = tuple(n for n, a in enumerate(args) if library_of(a) in ("torch", "jax"))
    names = list(getattr(operator, "arguments", ()))
    wrt = getattr(operator, "wrt", None)
    floats = [n for n, place in enumerate(places) if "float" in str(args[place].dtype)]
    if wrt is not None:
        floats = [n for n in floats if names[places[n]] in wrt]
    kept = None
    if results := getattr(operator, "results", ()):
        kept = tuple(n for n, name in enumerate(results) if name not in operator.no_grad)
    name = getattr(operator, "name", None) or getattr(operator, "__name__", repr(operator))
    return Case(str(name), operator, args, tuple(names), places, tuple(floats), kept)


def _chosen(rows: Sequence[Row], only: str | Collection[str] | None) -> list[Row]:
    if only is None:
        return list(rows)
    names = [only] if isinstance(only, str) else list(only)
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            raise UnknownOption(
                f"there is no transform `{name}` to check",
                help=close_matches(name, known) or f"there are {', '.join(known)}",
            )
    return [known[name] for name in names]


def _outcome(row: Row, function: Any, plain: Any, tolerance: float | None) -> Outcome:
    wanted = _leaves(row.wanted(plain))
    try:
        found = _leaves(row.found(function))
    except Exception as error:  # whatever the framework raises: it is loud
        text = error.message if isinstance(error, NkiError) else headline(error)
        return Outcome(row.name, REFUSED, text)
    if len(found) != len(wanted):
        return Outcome(row.name, DIFFERS, f"{len(found)} results, {len(wanted)} expected")
    for n, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        of = f"{row.of[n % len(row.of)]}, " if row.of else ""
        if ours.shape != theirs.shape:
            return Outcome(row.name, DIFFERS, f"{of}shape {ours.shape}, {theirs.shape} expected")
        allowed = tolerance or _TOLERANCE.get(str(ours.dtype), 0.0)
        difference = _difference(ours, theirs)
        if not difference <= allowed:
            zero = ", and zero where it is not" * (not ours.any() and bool(theirs.any()))
            text = f"{of}by {difference:.1e} of the largest element{zero}"
            return Outcome(row.name, DIFFERS, text)
    return Outcome(row.name, MATCHES, "")


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest difference, as a part of the largest element; infinite where other elements are finite."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not (same | (np.isfinite(a) & np.isfinite(b))).all():
        return float("inf")
    difference = float(np.max(np.abs(a - b)[~same], initial=0.0))
    largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return difference / largest if largest else difference


def _leaves(values: Any) -> list[np.ndarray]:
    """Return the arrays in nested tuples, lists and dicts, as NumPy arrays."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (tuple, list)):
        return [leaf for value in values for leaf in _leaves(value)]
    if values is None:
        return []
    if library_of(values) == "torch":
        values = values.detach()
    return [to_numpy("result", values)]


def each(count: int, function: Callable[[int], Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Return what a function gives for 0, 1, ..., regrouped: for each of its results a tuple of all."""
    return list(zip(*(function(n) for n in range(count)), strict=True))
