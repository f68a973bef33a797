"""Prints which test shows what of which page: `python -m tests.official`."""

from tests.official.pages import WITHOUT, rows

print("| page | what it shows | test |\n|---|---|---|")
for row in [*rows(), *((page, "-", reason) for page, reason in sorted(WITHOUT.items()))]:
    print(f"| {' | '.join(row)} |")
