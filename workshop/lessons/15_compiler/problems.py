"""Exercises of notebook 15, What the compiler does."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from nki_lab.exercises.evidence import profile_of_run
from nki_lab.exercises.problem import Limits, Mistake, Question, Task
from nki_lab.profiler.analyses.report import sbuf_peak_bytes
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result

_LINES = {
    "a": "tensor_scalar(dst=%part, data=%tile, op0=nl.multiply, operand0=factor)",
    "b": "tensor_scalar(dst=%part.1, data=%tile.1, op0=nl.multiply, operand0=0.25)",
    "c": "scaled(dst=%part.1, src=%tile.1, factor=0.25)",
    "d": "tensor_scalar(dst=%part.1, data=%tile.1, op0=nl.multiply, operand0=0.5**2)",
}
_PASSES = {
    name: f"the program has fewer instructions after {name} than before it"
    for name in (
        "settle_accumulate",
        "find_uninitialized",
        "remove_dead",
        "place_engines",
        "allocate_sbuf",
        "schedule",
    )
}
_PLACES = {
    "first": "`fourth` begins where `first` begins",
    "second": "`fourth` begins where `second` begins",
    "third": "`fourth` begins where `third` begins",
    "own": "`fourth` begins where no other tile does",
}
_SECOND = {
    "load": "the load of the second part comes second",
    "exp": "exp of the first part comes second",
    "tanh": "tanh of the first part comes second",
    "store": "a store comes second",
}


def _instructions(run: Result, stage: str) -> list[str]:
    """Return the instructions of the program after a pass, without the lines they came from."""
    lines = [line.partition("  //")[0].strip() for line in run.ir[stage].splitlines()]
    return [line for line in lines if re.match(r"(#\d+ )?\w+\(", line)]


def _of(kernel: str) -> Callable[[Result | Profile], str]:
    """Return a function that says what is wrong with a run of another kernel, or with a saved one."""

    def about(run: Result | Profile) -> str:
        if not isinstance(run, Result):
            return "a profile has no program: name the run itself"
        return "" if run.name == kernel else f"this is about {kernel}, and the run is of {run.name}"

    return about


def _shortening(run: Result) -> str:
    """Return the first pass after which the program has fewer instructions."""
    for before, after in pairwise(run.ir):
        if len(_instructions(run, after)) < len(_instructions(run, before)):
            return after
    return ""


def _shortened(run: Result) -> str:
    after = _shortening(run)
    gone = set(_instructions(run, "trace")) - set(_instructions(run, after))
    return f"{after} leaves out {', '.join(sorted(gone))}"


def _places(run: Result) -> dict[str, int]:
    """Return the byte at which each tile begins."""
    found = re.findall(r"storage %(\S+): .* at \(\d+, (\d+)\)", run.ir["allocate_sbuf"])
    return {name: int(byte) for name, byte in found}


def _shared_place(run: Result) -> str:
    places = _places(run)
    shared = [name for name in _PLACES if places.get(name) == places["fourth"]]
    return shared[0] if shared else "own"


def _second(run: Result) -> str:
    line = _instructions(run, "schedule")[1]
    if line.startswith("dma_copy"):
        return "store" if "dst=%out" in line else "load"
    return "exp" if "nl.exp" in line else "tanh"


def _unwaiting(run: Result) -> list[str]:
    return [line for line in _instructions(run, "insert_waits") if " waits #" not in line]


def _peak(run: Result) -> int:
    return sbuf_peak_bytes(profile_of_run(run)) or 0


PROBLEMS = (
    Question(
        id="15.1",
        title="How long is the program?",
        statement="""\
How many instructions, transfers included, does the trace of `blend(x, 5)` have? `x` has 384 rows.""",
        unit="instructions",
        truth=lambda run: len(_instructions(run, "trace")),
        evidence=lambda run: f"the trace has {len(_instructions(run, 'trace'))} instructions",
        rtol=1e-6,
        about=_of("blend"),
        hints=(
            "Both loops are run while the kernel is compiled: each iteration writes its instructions down.",
            "A tile has a load, a memset and a store, and two instructions for each step.",
            "384 rows are three tiles, and each has 3 + 2 * 5 instructions.",
        ),
    ),
    Question(
        id="15.2",
        title="What becomes of a line?",
        statement="""\
Which of the four lines is in the trace of `blend(x[:256], 3)`, for the second tile and the second step?""",
        choices=_LINES,
        truth=lambda run: next(
            (key for key, line in _LINES.items() if line in _instructions(run, "trace")), ""
        ),
        evidence=lambda run: "Python has computed the factor, and the names are those of tensors",
        about=_of("blend"),
        hints=(
            "The program has instructions only. Is `scaled` one? Is ** known to an engine?",
            "When the instruction was written down, `factor` was a number already.",
            "Tensors of the second iteration end in .1, and 0.5 ** 2 is 0.25.",
        ),
    ),
    Question(
        id="15.3",
        title="Which pass leaves instructions out?",
        statement="""\
After which pass does the program of `blend` have fewer instructions than before it?""",
        choices=_PASSES,
        truth=_shortening,
        evidence=_shortened,
        about=_of("blend"),
        hints=(
            "Which instruction of the kernel writes something that nobody reads?",
            'Compare blend_result.ir["trace"] with later programs: where is the memset gone?',
            "An instruction whose result nobody needs is called dead.",
        ),
    ),
    Question(
        id="15.4",
        title="How much of a partition?",
        statement="""\
How many bytes of each partition of SBUF are in use at most, while `blend(x[:256], 3)` runs? A tile takes 2048.""",
        unit="bytes",
        truth=_peak,
        evidence=lambda run: f"{_peak(run):,} bytes: {_peak(run) // 2048} tiles of 2048",
        rtol=1e-6,
        about=_of("blend"),
        hints=(
            "Six tiles are made. Does the program still use all of them?",
            "The memsets are gone, so nobody uses `spare`, and it gets no place.",
            "Two tiles in each of two iterations, 2048 bytes each.",
        ),
    ),
    Question(
        id="15.5",
        title="Whose place?",
        statement="""\
In `chain(long)` three tiles fit into SBUF and four are made. At the byte of which tile does `fourth` begin?""",
        choices=_PLACES,
        truth=_shared_place,
        evidence=lambda run: ", ".join(f"{name} at {byte}" for name, byte in _places(run).items()),
        about=_of("chain"),
        hints=(
            "When `fourth` is written, which tiles will nobody read any more?",
            "`third` is read by the same instruction. `first` and `second` are both free by then.",
            'print(chain_result.ir["allocate_sbuf"]) shows `at (partition, byte)` for each tile.',
        ),
    ),
    Question(
        id="15.6",
        title="What comes second?",
        statement="""\
Which instruction is the second one in the program of `waves` after the pass `schedule`?""",
        choices=_SECOND,
        truth=_second,
        evidence=lambda run: f"the second line is {_instructions(run, 'schedule')[1]}",
        about=_of("waves"),
        hints=(
            "What could begin at once, without waiting for anything?",
            "The four parts do not need each other, so all four of their first steps could begin at once.",
            "A load takes long and needs nothing: the sooner it starts, the better.",
        ),
    ),
    Question(
        id="15.7",
        title="Who waits for nothing?",
        statement="""\
How many instructions of the final program of `blend(x[:256], 3)` wait for no other instruction?""",
        unit="instructions",
        truth=lambda run: len(_unwaiting(run)),
        evidence=lambda run: "; ".join(_unwaiting(run)),
        rtol=1e-6,
        about=_of("blend"),
        hints=(
            "Everything that computes reads a tile, and somebody has to have written it.",
            'Lines without `waits #` in blend_result.ir["insert_waits"], below the storages.',
            "The loads wait for nobody: one for each of the two tiles.",
        ),
    ),
    Task(
        id="15.8",
        title="A kernel that writes itself",
        statement="""\
`power(x, n)` returns `x**n` for at most 128 rows in float32 and a whole number `n >= 1`, with as few multiplications as
repeated squaring needs: five for n = 13.""",
        signature="power(x, n)",
        inputs=lambda draw, rows, columns, n: (draw(rows, columns), n),
        reference=lambda x, n: x**n,
        cases=(
            {"rows": 128, "columns": 256, "n": 13},
            {"rows": 128, "columns": 4, "n": 1},
            {"rows": 3, "columns": 5, "n": 2},
            {"rows": 127, "columns": 3, "n": 6},
        ),
        fresh={"rows": (2, 127), "columns": (2, 100), "n": (3, 12)},
        rtol=1e-4,
        limits=Limits(
            transfers=2, instructions={"vector": 5, "scalar": 0, "gpsimd": 0, "tensor": 0}
        ),
        mistakes=(
            Mistake(
                lambda x, n: x ** (n + 1),
                "the result is x to the power of n + 1: one multiplication too many",
            ),
            Mistake(
                lambda x, n: x ** (n - 1),
                "the result is x to the power of n - 1: one multiplication is missing",
            ),
            Mistake(
                lambda x, n: x ** (1 << (n.bit_length() - 1)),
                "the result is the largest square only: the other digits of n are missing",
                "where a digit is 1, the square belongs into the product",
            ),
        ),
        hints=(
            "13 is 8 + 4 + 1. Which squares do you need on the way to x⁸, and which belong into the product?",
            "while n > 0: where n % 2 is 1, multiply the result so far by `square`; then n = n // 2, and square"
            " again if anything is left. The first factor needs no multiplication.",
            "Begin with result = None. At the first digit 1: result = square. Later ones: a new tile `product`, one"
            " tensor_tensor of result and square into it, result = product. A square gets a new tile, too.",
        ),
    ),
)
