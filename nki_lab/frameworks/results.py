"""What an operator returns: the names of its results, and the form in which the kernel returns them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from nki_lab.errors import KernelArgument
from nki_lab.runtime import KernelFunction


class Results:
    """What a kernel returns.

    Attributes:
        names: of its results, in order: tensors, and what is none.
        form: as the kernel returns it, with the number of a result in the place of each; None for nothing.
        constants: names of those that the text of the kernel shows to be no tensors.
        make: puts a sequence of results into the form.
    """

    def __init__(self, names: Sequence[str], form: Any, constants: Sequence[str] = ()) -> None:
        self.names, self.form, self.constants = tuple(names), form, tuple(constants)
        numbers = range(len(self.names))
        self.make: Callable[[Sequence[Any]], Any] = partial(_filled, form)
        if form is None:
            self.make = _nothing
        elif form == 0:
            self.make = _single
        elif form in (tuple(numbers), list(numbers)) and type(form) in (tuple, list):
            self.make = type(form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and (self.names, repr(self.form), self.constants) == (
            other.names,
            repr(other.form),
            other.constants,
        )

    __hash__ = None  # type: ignore[assignment]


def _single(results: Sequence[Any]) -> Any:
    return results[0]


def _nothing(results: Sequence[Any]) -> None:
    return None


def _filled(form: Any, results: Sequence[Any]) -> Any:
    if isinstance(form, int):
        return results[form]
    if isinstance(form, dict):
        return {key: _filled(value, results) for key, value in form.items()}
    return _like(form, [_filled(value, results) for value in form])


def _like(form: Any, values: list[Any]) -> Any:
    """Return values in a tuple, list or NamedTuple, as `form` is."""
    return type(form)(values) if type(form) in (tuple, list) else type(form)._make(values)


def leaves_of(structure: Any) -> Iterator[Any]:
    """Yield what is in nested tuples, lists and dicts."""
    if isinstance(structure, dict):
        structure = tuple(structure.values())
    if isinstance(structure, (tuple, list)):
        for value in structure:
            yield from leaves_of(value)
    else:
        yield structure


def keys_in(structure: Any) -> list[list[Any]]:
    """Return the keys of each dict in a structure, from outside to inside."""
    inner: Iterable[Any] = ()
    found = []
    if isinstance(structure, dict):
        inner = structure.values()
        found.append(list(structure))
    elif isinstance(structure, (tuple, list)):
        inner = structure
    return found + [keys for value in inner for keys in keys_in(value)]


def numbered(count: int) -> tuple[str, ...]:
    """Return the names of results that have none of their own."""
    return tuple(f"out{n}" for n in range(count))


def results_of(kernel: KernelFunction, given: Any) -> Results:
    """Return what a kernel returns: `given`, or what its return statements say.

    Args:
        kernel: the kernel.
        given: a number of results, the class of a NamedTuple, or names in the form in which the kernel returns them,
            such as ("out", "lse") or {"out": "out"}; None to read the statements.
    """
    if given is None:
        return _written_results(kernel)
    if hasattr(given, "_fields") and isinstance(given, type):
        return Results(given._fields, given._make(range(len(given._fields))))  # type: ignore[attr-defined]
    if isinstance(given, int):
        given = numbered(given)
    names: list[str] = []
    form = _numbers(given, names)
    if isinstance(given, (tuple, list)) and len(names) == len(given) < 2:
        form = 0 if names else None
    return Results(names, form)


def _numbers(form: Any, names: list[str]) -> Any:
    """Return a form with numbers in place of the names, which are appended to `names`."""
    if isinstance(form, dict):
        return {key: _numbers(value, names) for key, value in form.items()}
    if isinstance(form, (tuple, list)):
        return _like(form, [_numbers(value, names) for value in form])
    if not isinstance(form, str):
        raise KernelArgument(
            f"results has {form!r} where the name of a result should be",
            help="give a number of results, or their names: results=('out', 'lse')",
        )
    names.append(form)
    return len(names) - 1


def _written_results(kernel: KernelFunction) -> Results:
    tree = ast.parse(kernel.source.text) if kernel.source.text else ast.Module([], [])
    statements = _statements(getattr(tree.body[0], "body", ()))
    values = [s.value for s in statements if s.value is not None and not _is_none(s.value)]
    forms = [_written(value, kernel) for value in values]
    if not forms:
        return Results((), None)
    if any(repr(form.form) != repr(forms[0].form) for form in forms):
        raise KernelArgument(
            f"the return statements of `{kernel.__name__}` return different results",
            stack=(kernel.source.place,),
            help="say how many an operator returns: results=2, or results=('out', 'lse')",
        )
    if all(form == forms[0] for form in forms):
        return forms[0]
    return Results(numbered(len(forms[0].names)), forms[0].form)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _statements(body: Iterable[ast.stmt]) -> list[ast.Return]:
    """Return the return statements of a function, without those of functions inside it."""
    found: list[ast.Return] = []
    for node in body:
        if isinstance(node, ast.Return):
            found.append(node)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [
                n
                for n in ast.iter_child_nodes(node)
                if isinstance(n, (ast.stmt, ast.ExceptHandler, ast.match_case))
            ]
            found += _statements(inner)  # type: ignore[arg-type]
    return found


def _written(value: ast.expr, kernel: KernelFunction) -> Results:
    leaves: list[tuple[str, ast.expr]] = []
    form = _form(value, "", kernel, leaves)
    names = [name or f"out{n}" for n, (name, _) in enumerate(leaves)]
    unnamed = any(not name and not isinstance(v, ast.Constant) for name, v in leaves)
    if unnamed or len(set(names)) < len(names):
        names = [*numbered(len(names))]
    pairs = zip(names, leaves, strict=True)
    return Results(names, form, [n for n, (_, v) in pairs if isinstance(v, ast.Constant)])


def _form(
    value: ast.expr, name: str, kernel: KernelFunction, leaves: list[tuple[str, ast.expr]]
) -> Any:
    """Return the form of a value that is returned, and append each result with its name to `leaves`."""
    if isinstance(value, (ast.Tuple, ast.List)):
        each = [_form(v, "", kernel, leaves) for v in value.elts]
        return tuple(each) if isinstance(value, ast.Tuple) else each
    if isinstance(value, ast.Dict) and all(isinstance(k, ast.Constant) for k in value.keys):
        keys = [key.value for key in value.keys if isinstance(key, ast.Constant)]
        pairs = zip(keys, value.values, strict=True)
        return {key: _form(v, str(key), kernel, leaves) for key, v in pairs}
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        made: Any = kernel.source.scope.get(value.func.id)
        if hasattr(made, "_fields"):
            start = len(leaves)
            leaves += [(field, value) for field in made._fields]
            return made._make(range(start, len(leaves)))
    leaves.append((value.id if isinstance(value, ast.Name) and not name else name, value))
    return len(leaves) - 1
