"""Wrong kernels of notebook 14: the ones it shows, as they stand there."""

import linecache
import re

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab.exercises.catalog import all_problems
from workshop.generate import learner

_SHOWN = re.compile(r"%%nki .*\n((?:@.*\n)*def (\w+)\(.*)", re.DOTALL)


def shown() -> dict:
    """Return the kernels of the notebook's `%%nki` cells, by name."""
    found = {"nki": nki, "nisa": nisa, "nl": nl}
    for cell in learner("14_debugging_clinic").cells:
        match = _SHOWN.match(cell.source)
        if match is not None:
            filename = f"<clinic {match[2]}>"
            linecache.cache[filename] = (len(match[1]), None, match[1].splitlines(True), filename)
            exec(compile(match[1], filename, "exec"), found)
    return found


KINDS = {
    "14.1": "error",
    "14.2": "unwritten",
    "14.3": "error",
    "14.4": "part",
    "14.5": "rounded",
    "14.6": "nan",
    "14.7": "error",
    "14.8": "error",
    "14.9": "mistake",
    "14.10": "finding",
}
_KERNELS = shown()
WRONG = {id: {kind: _KERNELS[all_problems()[id].name]} for id, kind in KINDS.items()}
