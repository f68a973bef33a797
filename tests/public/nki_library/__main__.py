"""Prints what every kernel of a clone of nki-library gives: `python -m tests.public.nki_library [words]`."""

from __future__ import annotations

import argparse
import sys

from tests.public.nki_library import suite, table
from tests.public.nki_library.exceptions import ended, surprises


def main(arguments: list[str]) -> int:
    """Print the table of the files whose path contains one of the words, or of all; return 1 if it is a surprise."""
    parser = argparse.ArgumentParser(prog="python -m tests.public.nki_library")
    parser.add_argument("words", nargs="*", help="parts of paths of files; all files without one")
    parser.add_argument("--pick", type=int, default=2, help="configurations of each test function")
    parser.add_argument("--draw", type=int, metavar="SEED", help="draw them by chance, of any size")
    parser.add_argument("--target", default="trn2", help="chip of the configurations without MX")
    parser.add_argument("--without-mx", action="store_true", help="leave out those with MX")
    chosen = parser.parse_args(arguments)
    clone = suite.root()
    if clone is None:
        print(f"{suite.ROOT_VARIABLE} names no clone of nki-library", file=sys.stderr)
        return 2
    if suite.commit(clone) not in suite.COMMITS:
        print("the causes of failures were found with other commits", file=sys.stderr)
    print(table.HEAD)
    told: list[str] = []
    seen: list[tuple[suite.Run, suite.Outcome]] = []
    for run in suite.runs(clone, chosen.target):
        wanted = not chosen.words or any(word in str(run) for word in chosen.words)
        if wanted and not (chosen.without_mx and run.is_mx):
            outcomes = suite.outcomes(clone, run, chosen.pick, chosen.draw)
            if outcomes:
                print(table.row(run, outcomes), flush=True)
                told += surprises(run, outcomes)
                seen += [(run, outcome) for outcome in outcomes]
    print(table.FOOT)
    print("\n".join(told + ([] if chosen.words else ended(seen))), file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
