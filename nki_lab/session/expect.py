"""Decides whether a cell that ends with an error was meant to."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.errors import ErrorNotRaised, KernelErrors, NkiError
from nki_lab.session.reading import Locate


@contextmanager
def expected(options: Namespace, locate: Locate) -> Iterator[list[NkiError]]:
    """Print the error that `--expect` names instead of letting it out of the `with` block.

    Without `--expect` nothing is changed. An error of another kind goes on, with a note. What was printed is in the
    list that the block is given, once it has ended.

    Raises:
        ErrorNotRaised: the block ended well.
    """
    kind: type[NkiError] | None = options.expect
    printed: list[NkiError] = []
    if kind is None:
        yield printed
        return
    named = f"{kind.code} {kind.__name__}"
    try:
        yield printed
    except NkiError as error:
        if not _is(error, kind):
            error.notes += (f"{named} was expected here",)
            raise
        printed.append(error)
        if not options.quiet:
            print(error)
        return
    raise ErrorNotRaised(
        f"{named} was expected, but the cell ended without an error",
        stack=locate("--expect", 0, 0),
        help="put the mistake back, or remove --expect",
    )


def _is(error: NkiError, kind: type[NkiError]) -> bool:
    """Return whether an error, or each one of several, is of the kind."""
    if isinstance(error, KernelErrors) and not issubclass(kind, KernelErrors):
        return all(isinstance(each, kind) for each in error.errors)
    return isinstance(error, kind)
