"""Prints what every kernel of a clone of nki-library gives: `python -m tests.public.nki_library [words]`."""

from __future__ import annotations

import sys

from tests.public.nki_library import suite, table
from tests.public.nki_library.exceptions import surprises


def main(words: list[str]) -> int:
    """Print the table of the files whose path contains one of the words, or of all; return 1 if it is a surprise."""
    clone = suite.root()
    if clone is None:
        print(f"{suite.ROOT_VARIABLE} names no clone of nki-library", file=sys.stderr)
        return 2
    if suite.commit(clone) != suite.COMMIT:
        print(f"another commit than {suite.COMMIT}, with which the exceptions were found", file=sys.stderr)  # fmt: skip
    print(table.HEAD)
    found: list[str] = []
    for run in suite.runs(clone):
        if not words or any(word in str(run) for word in words):
            outcomes = suite.outcomes(clone, run)
            if outcomes:
                print(table.row(run, outcomes), flush=True)
                found += surprises(run, outcomes)
    print(table.FOOT)
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
