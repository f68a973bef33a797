"""What does every kernel of a clone of nki-library give?  `python -m tests.public.nki_library [words]`"""

import sys

from tests.public.nki_library import suite, table


def main(words: list[str]) -> int:
    """Print the table of the files whose path contains one of the words, or of all."""
    clone = suite.root()
    if clone is None:
        print(f"{suite.ROOT_VARIABLE} names no clone of nki-library", file=sys.stderr)
        return 2
    print(table.HEAD)
    for run in suite.runs(clone):
        if not words or any(word in str(run) for word in words):
            found = suite.outcomes(clone, run)
            if found:
                print(table.row(run, found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
