"""Declares the choices about compiling and running, one block each.

    CAPACITY = Choice("capacity", "WHAT", "When SBUF or PSUM overflows: ...", COMPILES, one_of, ("error", "finding"))

To add a choice, write a block here, or in `session.questions` if it asks something about a run, and read
`choices.<name>` where it acts.
"""

from __future__ import annotations

from collections.abc import Iterable

from nki_lab.choices.choice import COMPILE, RUN, BadValue, Choice, Standard, names, one_of
from nki_lab.errors import UnknownOption, close_matches
from nki_lab.targets import get_target, target_names
from nki_lab.versions import FORMS, FRONTENDS, NEWEST, VERSIONS, Form

CELL, LINE = "%%nki", "%nki"
NOTEBOOK = (CELL, LINE)
#: Commands that run a kernel.
RUNS = (*NOTEBOOK, "run", "profile")
#: Functions of nki_lab that run or compile a kernel.
FUNCTIONS = ("nki_lab.run", "nki_lab.benchmark", "nki_lab.launch", "nki_lab.step")
COMPILES = (*RUNS, "compile", "pytest", *FUNCTIONS, "nki_lab.vary")


def _switch(text: str, choice: Choice) -> bool:
    if text not in ("0", "1"):
        raise BadValue(f"`{text}` is neither 0 nor 1")
    return text == "1"


def _target(text: str, choice: Choice) -> str:
    chip, plus, overlay = text.strip().partition("+")
    return chip.lower() + plus + overlay


def _cores(text: str, choice: Choice) -> int:
    return int(one_of(text, choice))


def _count(text: str, choice: Choice) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadValue(f"`{text}` is not a whole number above 0", "write for example 100")
    return int(text)


def _seed(text: str, choice: Choice) -> int:
    if not (text.isascii() and text.isdigit()):
        raise BadValue(f"`{text}` is not a whole number from 0 on", "write for example 7")
    return int(text)


def _seconds(text: str, choice: Choice) -> float:
    seconds = number(text)
    if not 0 < seconds <= 1e6:
        raise BadValue(f"`{text}` is not a positive number of seconds", "write for example 2.5")
    return seconds


def number(text: str) -> float:
    """Read a number; what is not one is NaN, which no comparison lets pass."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


#: What `--backend` calls a Neuron device.
DEVICE = "neuron"
#: What `--nki` and `--dialect` call the older dialect, neuronxcc.nki; it is older than all versions.
BETA1 = "beta1"


def _version(text: str, choice: Choice) -> str:
    return one_of(".".join(text.strip().split(".")[:2]), choice)


def allowable() -> dict[str, Form]:
    """Return the forms of an older NKI that kernels may be allowed, by the code of their error."""
    return {form.code: form for form in FORMS.values() if form.code}


def check_allowed(codes: Iterable[str]) -> None:
    """Raise UnknownOption for a code that cannot be allowed."""
    permitted = allowable()
    for code in codes:
        if code not in permitted:
            raise UnknownOption(
                f"`{code}` cannot be allowed: only rules that an older NKI did not have can be",
                help=close_matches(code, permitted) or f"allow some of {', '.join(permitted)}",
            )


TARGET = Choice(
    "target",
    "NAME",
    "Chip to compile for: {values}; trn2+FILE replaces timing constants by those of an overlay file. Where"
    " nobody chooses, kernels of neuronxcc.nki are compiled for trn2.",
    (*COMPILES, "migrate", "explain", "bench", "calibrate"),
    _target,
    target_names(),
    default=Standard("trn3"),
    env="NEURON_PLATFORM_TARGET_OVERRIDE",
    acts=COMPILE,
    check=get_target,
)
NKI = Choice(
    "nki",
    "VERSION",
    "Version of NKI that kernels are written for, where they do not say it themselves: {values}; `beta1` is"
    " neuronxcc.nki.",
    COMPILES,
    _version,
    (*(version.name for version in VERSIONS), BETA1),
    default=Standard(NEWEST.name),
    env="NKI_LAB_NKI",
    acts=COMPILE,
)
DIALECT = Choice(
    "dialect",
    "NAME",
    "Dialect of kernels: {values}. Imports tell it, so it is only needed in cells without them.",
    COMPILES,
    one_of,
    ("nki", BETA1),
    acts=COMPILE,
    meanings={"nki": "today's, `import nki`", BETA1: "the older one, `import neuronxcc.nki`"},
)
FRONTEND = Choice(
    "frontend",
    "NAME",
    "Front end of NKI 0.7: {values}; `custom` and `parser` accept only the Python of earlier versions.",
    read=one_of,
    values=tuple(FRONTENDS),
    default="tracer",
    env="NKI_COMPILER_FRONTEND",
    acts=COMPILE,
)
LNC = Choice(
    "lnc",
    "CORES",
    "Number of physical cores to launch on (LNC): 1 or 2.",
    (*COMPILES, "migrate"),
    _cores,
    ("1", "2"),
    acts=COMPILE,
)
LOGICAL_CORE = Choice(
    "logical_core",
    "",
    "Number of physical cores in a logical core (LNC), {values}, for kernels launched without `[n]`.",
    read=_cores,
    values=("1", "2"),
    env="NEURON_LOGICAL_NC_CONFIG",
    acts=COMPILE,
)
TIMEOUT = Choice(
    "timeout", "SECONDS", "Fail after this many seconds.", (*RUNS, "migrate"), _seconds, acts=RUN
)
SEED = Choice(
    "seed",
    "NUMBER",
    "Seed of the random inputs.",
    ("run", "profile", "compile", "migrate"),
    _seed,
    acts=RUN,
)
CAPACITY = Choice(
    "capacity",
    "WHAT",
    "When SBUF or PSUM overflows: stop with an error, or report a finding and run anyway, as kernels of neuronxcc.nki"
    " do where nobody chooses.",
    COMPILES,
    one_of,
    ("error", "finding"),
    default=Standard("error"),
    env="NKI_LAB_CAPACITY",
    acts=COMPILE,
)
SKIP_PASSES = Choice(
    "skip_passes",
    "PASSES",
    "Compiler passes to leave out, separated by commas: {values}.",
    COMPILES,
    names,
    default=(),
    env="NKI_LAB_SKIP_PASSES",
    acts=COMPILE,
    typed="skip",
)
STRICT = Choice(
    "strict",
    "",
    "Treat findings (memory read before it is written, code that another compiler refuses) as errors.",
    COMPILES,
    _switch,
    default=False,
    env="NKI_LAB_STRICT",
    acts=COMPILE,
)
ALLOW = Choice(
    "allow",
    "CODES",
    "Errors to report as findings, separated by commas, so that a kernel written for an older NKI still runs: "
    + ", ".join(
        f"{code} (refused since NKI {form.refused_since})" for code, form in allowable().items()
    )
    + ".",
    COMPILES,
    names,
    tuple(allowable()),
    default=(),
    env="NKI_LAB_ALLOW",
    acts=COMPILE,
    check=check_allowed,
)
MAX_TRIPS = Choice(
    "max_trips",
    "COUNT",
    "Fail when the device loops of a run have made more trips than this in total; the default is 10,000,000.",
    (*RUNS, "pytest", *FUNCTIONS),
    _count,
    default=10_000_000,
    env="NKI_LAB_MAX_TRIPS",
    acts=RUN,
)
DEBUG = Choice(
    "debug",
    "",
    "Run instructions while they are traced, so that print(tile) and breakpoint() in the kernel see values.",
    (*RUNS, "pytest", "nki_lab.run"),
    _switch,
    default=False,
    env="NKI_LAB_DEBUG",
    acts=RUN,
)
BACKEND = Choice(
    "backend",
    "NAME",
    "What runs the kernel: {values}.",
    (*RUNS, *FUNCTIONS, "bench"),
    default=Standard("simulator"),
    env="NKI_LAB_BACKEND",
    acts=RUN,
)
Choice(
    "core",
    "NUMBER",
    "Logical core of the device to run on; the first is 0.",
    (*RUNS, *FUNCTIONS, "bench"),
    _seed,
    default=0,
    env="NKI_LAB_CORE",
    acts=RUN,
)
Choice(
    "warmup",
    "COUNT",
    "Executions on a device before those that are timed.",
    (*RUNS, *FUNCTIONS, "bench"),
    _seed,
    default=10,
    acts=RUN,
)
Choice(
    "iters",
    "COUNT",
    "Executions that are timed on a device.",
    (*RUNS, *FUNCTIONS, "bench"),
    _count,
    default=100,
    acts=RUN,
)
Choice(
    "device_runs",
    "FOLDER",
    "Folder where runs on a device are kept, each with its text, NEFF and profile; `user` is one in the user's cache.",
    default="user",
    env="NKI_LAB_DEVICE_RUNS",
    acts=RUN,
)
PRECISE_FP = Choice(
    "precise_fp",
    "",
    "1 rounds results to the tile's dtype on every write; 0 keeps floats in float32.",
    read=_switch,
    default=True,
    env="NKI_PRECISE_FP",
    acts=RUN,
)
SIMULATOR = Choice(
    "simulator",
    "",
    "Where a kernel runs when you call it and no backend is chosen: 1 for the simulator; 0 for a device, as"
    f" --backend {DEVICE}.",
    read=_switch,
    default=True,
    env="NKI_SIMULATOR",
    acts=RUN,
)
PROGRESS = Choice(
    "progress",
    "FILE",
    "File where solved exercises are kept: `user` is a file in the user's data folder, `none` keeps them until the"
    " kernel ends.",
    default="user",
    env="NKI_LAB_PROGRESS",
)
NEURON_PYTHON = Choice(
    "neuron_python",
    "FILE",
    "Python interpreter that has the Neuron packages; by default the one that runs nki_lab.",
    env="NKI_LAB_NEURON_PYTHON",
    acts=RUN,
)
RUNNER_PYTHON = Choice(
    "runner_python",
    "FILE",
    "Python interpreter that has nrtpy or spike, which cannot be installed beside nki.",
    env="NKI_LAB_RUNNER_PYTHON",
    acts=RUN,
)
# What only code chooses.
Choice("record", "", "Keep the program after each pass.", read=None, default=True, acts=COMPILE)
_HELP = "Shape of the launch grid, `(2,)` for `kernel[2]`; `()` for a kernel called without one."
Choice("grid", "", _HELP, read=None, default=(), acts=COMPILE)
_HELP = "(name, names it waits for) of instructions, from `kernel.with_schedule`."
Choice("schedule", "", _HELP, read=None, default=(), acts=COMPILE)
_HELP = (
    "Put on-chip tensors into one byte array per memory, as on the chip: slower, the same values."
)
Choice("shared_bytes", "", _HELP, read=None, default=False, acts=RUN)
