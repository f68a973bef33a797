"""Prints what every suite of the older dialect gives: `python -m tests.public.beta1 [words of suites]`."""

from __future__ import annotations

import sys
import time
import zlib
from collections import Counter, defaultdict

import numpy as np

from tests.public.beta1 import contributed, suites, tutorials, user_kernels
from tests.public.beta1.exceptions import reason_for, surprises
from tests.public.beta1.kernels import Placed, check
from tests.public.nki_library.suite import Outcome


def outcome_of(case: Placed) -> Outcome:
    """Run one kernel."""
    started = time.perf_counter()
    message = ""
    try:
        check(case, np.random.default_rng(zlib.crc32(str(case).encode())))
    except BaseException as error:  # pytest's outcomes are no exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        message = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    skipped = message.startswith("Skipped")
    outcome = "skipped" if skipped else "failed" if message else "passed"
    return Outcome(str(case.case), outcome, seconds, message)


def main(words: list[str]) -> int:
    """Print one row for each suite whose name holds one of the words, or for all; return 1 if there is a surprise."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for tree, file in suites.published():
        if _meant(f"{tree.name} tests {file}", words):
            found[f"{tree.name} tests"] += suites.outcomes(tree, file)
    for case in tutorials.cases() + contributed.cases() + user_kernels.cases():
        if _meant(str(case), words):
            found[case.tree.name] += [outcome_of(case)]
    print("| suite | passed | failed | exceptions | skipped | seconds |\n|---|---|---|---|---|---|")
    told: list[str] = []
    for suite, outcomes in found.items():
        known = [o for o in outcomes if o.outcome == "failed" and reason_for(suite, o)]
        count = Counter(o.outcome for o in outcomes)
        failed = count["failed"] - len(known)
        seconds = sum(o.seconds for o in outcomes)
        row = (suite, count["passed"], failed, len(known), count["skipped"], f"{seconds:.0f}")
        print(f"| {' | '.join(map(str, row))} |")
        told += surprises(suite, outcomes)
    print("\n".join(told), file=sys.stderr)
    return 1 if told else 0


def _meant(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
