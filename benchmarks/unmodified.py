"""Times published kernels of the older dialect, unchanged, and compares with the times published for them.

    NKI_KERNELS_ROOT=... NKI_SDK_ROOT=... python -m benchmarks.unmodified             # all that were measured on a chip
    ... python -m benchmarks.unmodified --only mamba                                  # those with this text in the name

`NKI_KERNELS_ROOT` names a folder of clones, each called OWNER+NAME; `NKI_SDK_ROOT` a clone of aws-neuron-sdk. The texts
are read from the commits that `measurements.csv` names. `benchmarks.timing_accuracy` has replays instead, programs of
ours in today's dialect; what is compared here is what a user sees who runs such a kernel as it was published.

Each kernel is timed in the order its author wrote, and as it is compiled by default. The ratios of modelled and
measured times are kept in `unmodified.csv`, from which reports of such kernels and docs/timing.md are held to account.
"""

from __future__ import annotations

import argparse
import csv
import linecache
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.published import MEASUREMENTS, TARGETS, Row, read
from benchmarks.running import Run
from benchmarks.scoring import PARTS
from benchmarks.stopwatch import quiet
from nki_lab.api.install import aliases
from nki_lab.choices import BETA1, Choices
from nki_lab.compiler.pipeline import compile_again
from nki_lab.compiler.trace import TensorSpec, trace
from nki_lab.dtypes import dtype_of
from nki_lab.errors import NkiError
from nki_lab.ir.program.execution import Execution
from nki_lab.targets import get_target
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule

_IMPORTS = """\
import math
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
"""


class Published(NamedTuple):
    """A kernel as it was published, and what it is called with."""

    kernel: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


def tensors(dtype: str, *shapes: tuple[int, ...]) -> tuple[TensorSpec, ...]:
    """Return arguments of one dtype."""
    return tuple(TensorSpec(shape, dtype_of(dtype)) for shape in shapes)


def text_of(clone: Path, commit: str, path: str) -> str:
    """Return a file of a commit; a clone may be a git directory without a work tree."""
    folder = clone / "repo" if (clone / "repo/objects").is_dir() else clone
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def names_in(text: str, name: str) -> dict[str, Any]:
    """Run a text and return its names; errors show its lines."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "published", "__file__": name}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


# -- where the texts are -----------------------------------------------------------------------------------------------

_SDK = "general/nki/examples"


def tutorial_matmul(row: Row, clones: Mapping[str, Path]) -> Published:
    """Return a matmul of the tutorial."""
    path = f"{_SDK}/matrix_multiplication/matrix_multiplication_nki_kernels.py"
    space = names_in(text_of(clones["sdk"], "752349fd", path), path)
    name = {"nki_matmul_block_free": "nki_matmul_block_free_dimension"}.get(row.kernel, row.kernel)
    return Published(space[f"{name}_"], tensors(row.dtype, (8192, 4096), (8192, 8192)))


def mamba(row: Row, clones: Mapping[str, Path]) -> Published:
    """Return a version of the mamba tutorial."""
    path = f"{_SDK}/fused_mamba/mamba_nki_kernels.py"
    space = names_in(text_of(clones["sdk"], "752349fd", path), path)
    found = re.fullmatch(r"batch 1, seq (\d+), channels (\d+), state 16", row.shapes)
    assert found is not None
    steps, channels = map(int, found.groups())
    streams, rows = (1, channels, steps), (1, 16, steps)
    shapes = streams, streams, (channels, 16), rows, rows
    return Published(space[row.kernel], tensors(row.dtype, *shapes))


def nkibench(row: Row, clones: Mapping[str, Path]) -> Published:
    """Return a kernel of NKIBench with the inputs of its reference."""
    word = row.kernel.split()[1]
    clone = clones["zhang677+AccelOpt"]
    paths = files_of(clone, "47e29a7c", "NKIBench")
    (kernel,) = (p for p in paths if re.fullmatch(rf"NKIBench/kernels/{word}_[A-Z]+\d.*\.py", p))
    (reference,) = (p for p in paths if re.fullmatch(rf"NKIBench/reference/{word}_[A-Z]+\d.*", p))
    space = names_in(text_of(clone, "47e29a7c", reference), reference)
    given = space["transform_to_nki_inputs"](space["get_inputs"]())
    args = [TensorSpec(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in given]
    return Published(names_in(text_of(clone, "47e29a7c", kernel), kernel)["kernel"], tuple(args))


def files_of(clone: Path, commit: str, folder: str) -> list[str]:
    """Return the files of a folder at a commit."""
    place = clone / "repo" if (clone / "repo/objects").is_dir() else clone
    command = ["git", "-c", "safe.directory=*", "-C", str(place), "ls-tree", "-r", "--name-only"]
    found = subprocess.run([*command, commit, folder], capture_output=True, check=True, text=True)
    return found.stdout.splitlines()


def autocomp(row: Row, clones: Mapping[str, Path]) -> Published:
    """Return the kernel that stands above a score in a trace of a search."""
    found = re.search(r"(examples/\S+):(\d+)", row.source)
    assert found is not None
    path, line = found[1], int(found[2])
    lines = text_of(clones["ucb-bar+autocomp"], "dd26a565", path).splitlines(keepends=True)
    assert lines[line - 1].startswith("score="), lines[line - 1]
    above = "".join(lines[: line - 1])
    code = above[above.rindex("\ncode='''") + len("\ncode=") :].rstrip().removesuffix(",")
    space = names_in(_IMPORTS + eval(code), f"{path}:{line}")
    kernel = space.get("test") or space["solution"]
    if "gemm" in row.kernel:
        return Published(kernel, tensors("bfloat16", (8192, 4096), (8192, 8192)))
    if "attention" in row.kernel:
        return Published(kernel, tensors("bfloat16", *[(128, 4096)] * 3))
    shapes = (8, 512, 1, 2048), (512, 1, 1, 3)
    return Published(kernel, tensors("float32", *shapes), {"padding": ((0, 0), (1, 1))})


_FAMILIES: tuple[tuple[str, Callable[[Row, Mapping[str, Path]], Published]], ...] = (
    (r"nki_matmul_.*", tutorial_matmul),
    (r"mamba_v\d", mamba),
    (r"NKIBench (?!best).*", nkibench),
    (r"Autocomp .*", autocomp),
)


def rows_with_texts(rows: Sequence[Row]) -> Iterator[tuple[Row, Callable[..., Published]]]:
    """Yield the times measured on trn1 whose kernels can be had, with what gets them."""
    for row in rows:
        if not row.is_time or row.generation != "v2" or row.enough_to_replay != "yes":
            continue
        for pattern, family in _FAMILIES:
            if re.fullmatch(pattern, row.kernel):
                yield row, family


# -- times -------------------------------------------------------------------------------------------------------------

#: What the last runs gave.
KEPT = Path(__file__).with_name("unmodified.csv")
Key = tuple[str, str, str]  # source, kernel, shapes
Ratios = tuple[float, ...]

#: What is compared: name -> passes that are left out.
WAYS = {"as written": ("schedule", "balance_engines"), "scheduled": ()}


def timed(published: Published, arch: str) -> Iterator[Run]:
    """Compile a published kernel for a chip and time it, as a whole program, in each way."""
    source = published.kernel.source
    options = Choices(record=False, nki=BETA1).with_standard(source.dialect.standard)
    target = get_target(TARGETS[arch])
    traced = trace(source, published.args, dict(published.kwargs), target, options)
    for skipped in WAYS.values():
        (kernel,) = compile_again([traced], options.replace(skip_passes=skipped))
        execution = Execution.in_program_order(kernel)
        yield Run(schedule(execution, TimingOptions(program_overhead=True)))


def kept() -> dict[Key, Ratios]:
    """Return what the last runs gave: modelled by measured time of each row, as written and scheduled."""
    with KEPT.open(encoding="utf-8", newline="") as file:
        return {
            (row["source"], row["kernel"], row["shapes"]): tuple(float(row[way]) for way in WAYS)
            for row in csv.DictReader(file)
        }


def keep(ratios: Mapping[Key, Ratios]) -> None:
    """Write the ratios of some rows to the file."""
    with KEPT.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["source", "kernel", "shapes", *WAYS])
        writer.writerows([*key, *(f"{r:.3f}" for r in row)] for key, row in sorted(ratios.items()))


def told() -> str:
    """Return what reports say of the ratios of kernels as they are compiled by default."""
    ratios = sorted(row[-1] for row in kept().values())
    return (
        f"For {len(ratios)} published times of such kernels on trn1, modelled by measured time is {ratios[0]:.2f} to"
        f" {ratios[-1]:.2f}, in the middle {median(ratios):.2f}"
    )


def table() -> str:
    """Return the Markdown table of the ratios that were kept."""
    lines = [
        f"| {kernel} [{shapes}] | {place_of(source)} | "
        + " | ".join(f"{r:.2f}" for r in row)
        + " |"
        for (source, kernel, shapes), row in kept().items()
    ]
    head = [
        "| kernel | where | " + " | ".join(WAYS) + " |",
        "| --- | --- |" + " ---: |" * len(WAYS),
    ]
    note = '`python -m benchmarks.unmodified` compiles the published texts; "as written" leaves out the passes '
    note += "that choose engines and order. All rows are from trn1.\n"
    return "\n".join([note, *head, *lines])


def place_of(source: str) -> str:
    """Return file and line of a source."""
    return source.rsplit("/", 1)[-1]


def main(words: Sequence[str] | None = None) -> None:
    """Time the published kernels, print a line for each, and keep what came out."""
    parser = argparse.ArgumentParser(prog="benchmarks.unmodified")
    parser.add_argument("--only", default="", help="part of the names of kernels")
    asked = parser.parse_args(words)
    kernels = Path(os.environ["NKI_KERNELS_ROOT"])
    clones = {path.name: path for path in kernels.iterdir()}
    clones["sdk"] = Path(os.environ["NKI_SDK_ROOT"])
    rows = [row for row in read(MEASUREMENTS) if asked.only in row.name]
    with quiet(), aliases():
        for row, family in rows_with_texts(rows):
            begun = time.perf_counter()
            try:
                runs = list(timed(family(row, clones), row.generation))
            except NkiError as error:
                print(f"{row.name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
                continue
            key = row.source, row.kernel, row.shapes
            keep({**kept(), key: tuple(run.total_ns / row.number for run in runs)})
            cells = "; ".join(
                f"{way} {run.total_ns / row.number:.2f} (busy "
                + " ".join(f"{part} {run.active_percent(part):.0f}" for part in PARTS)
                + f", {run.hbm_bytes / 1e6:.0f} MB)"
                for way, run in zip(WAYS, runs, strict=True)
            )
            took = time.perf_counter() - begun
            print(f"{row.name}, {row.number / 1e3:.0f} us: {cells}; {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
