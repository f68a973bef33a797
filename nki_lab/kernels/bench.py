"""The benchmark of the prebuilt kernels: what the model says of each at its sizes, as a table, and against another."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Any

from nki_lab.choices import Choices
from nki_lab.errors import BadFile, UsageError
from nki_lab.kernels.prebuilt import Prebuilt, Size
from nki_lab.percent import percent
from nki_lab.profiler.analyses.report import sbuf_peak_bytes
from nki_lab.progress import phase
from nki_lab.targets import get_target


@dataclass(frozen=True)
class Row:
    """A kernel at one size, as it is modelled or measured.

    Attributes:
        kernel, size, dtype, target: what was run.
        time_us: time of one call.
        roof: the limit of the chip that allows the least.
        attained: part of the time that the kernel's least work takes under that roof.
        mfu: part of the bfloat16 peak of the Tensor engine; 0 for kernels that multiply no matrices.
        hbm_ratio: bytes moved from and to device memory, as a multiple of those of arguments and results.
        sbuf_bytes: most bytes of a partition that were in use.
        origin: where the time comes from: "modelled", or for example "measured on trn2, core 0".
        why: why it stays below 85 % of the roof, where it does.
        simulated_s, reference_s: time that the simulator took on this machine, and the reference in NumPy; 0 where
            nobody has measured them. They are neither kept nor compared.
    """

    kernel: str
    size: str
    dtype: str
    target: str
    time_us: float
    roof: str
    attained: float
    mfu: float
    hbm_ratio: float
    sbuf_bytes: int
    why: str = ""
    origin: str = field(default="modelled", compare=False)
    simulated_s: float = field(default=0.0, compare=False)
    reference_s: float = field(default=0.0, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells rows of two tables apart."""
        return self.kernel, self.size, self.dtype, self.target


_COLUMNS: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("kernel", "<", lambda r: r.kernel),
    ("size", "<", lambda r: r.size),
    ("dtype", "<", lambda r: r.dtype),
    ("chip", "<", lambda r: r.target),
    ("time us", ">", lambda r: f"{r.time_us:,.1f}"),
    ("of roof", ">", lambda r: percent(r.attained)),
    ("roof", "<", lambda r: r.roof),
    ("MFU", ">", lambda r: percent(r.mfu) if r.mfu else ""),
    ("HBM bytes", ">", lambda r: f"{r.hbm_ratio:.2f} x"),
    ("SBUF", ">", lambda r: f"{r.sbuf_bytes:,}"),
)
# Of the machine that the benchmark runs on; shown where they were measured.
_MEASURED: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("simulated s", ">", lambda r: f"{r.simulated_s:.2f}"),
    ("of NumPy", ">", lambda r: f"{r.simulated_s / r.reference_s:.1f} x" if r.reference_s else ""),
)


#: What is written of a row.
_KEPT = tuple(f.name for f in fields(Row) if f.compare)


def size_text(size: Size) -> str:
    """Return a size as one word: rows=512,width=2048."""
    return ",".join(f"{name}={value}" for name, value in size.items())


def measure(kernel: Prebuilt, size: Size, dtype: str, walls: bool = False, **choices: Any) -> Row:
    """Run a kernel on random arguments of a size, and return its row; with `walls` also what this machine took.

    A kernel that does not run on the chosen chip is timed on the first of its own.
    """
    arguments = kernel.example(size, dtype)
    given = kernel.given(arguments)
    chosen = Choices.current().replace(**choices)
    if get_target(chosen.target).chip not in kernel.chips:
        chosen = chosen.replace(target=kernel.chips[0])
    if kernel.ranks:
        choices["target"] = chosen.target
        simulated_s, result = _timed(lambda: kernel.launched(arguments, **choices)[1])
    else:
        compiled = kernel.kernel.compile_with(chosen, (), given)
        simulated_s, result = _timed(lambda: compiled.launch(**given))
    reference_s = _timed(lambda: kernel.reference(**arguments))[0] if walls else 0.0
    work = kernel.work(size, given, result.value)
    profile, roofline = result.profile, result.roofline()
    is_modelled = profile.is_simulation
    time_ns = profile.total_ns if is_modelled else result.benchmark().latency_ns
    peak = result.compiled.target.tensor_peak_flops_per_ns
    attained = roofline.attained
    return Row(
        kernel=kernel.name,
        size=size_text(size),
        dtype=dtype,
        target=result.compiled.target.name,
        time_us=round(time_ns / 1000, 3),
        roof=roofline.binds.name,
        attained=round(attained, 4),
        mfu=round(work.flops / peak / time_ns, 4),
        hbm_ratio=round(roofline.hbm_bytes / work.hbm_bytes, 3),
        sbuf_bytes=sbuf_peak_bytes(profile) or 0,
        why=kernel.falls_short.get(dtype, "") if attained < 0.85 else "",
        origin=result.origin,
        simulated_s=simulated_s if walls and is_modelled else 0.0,
        reference_s=reference_s,
    )


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    value = call()
    return perf_counter() - start, value


def measure_all(
    kernels: Sequence[Prebuilt], large: bool = True, dtypes: Sequence[str] = (), **choices: Any
) -> list[Row]:
    """Return the rows of some kernels at the sizes they are timed at; without `large`, at all but the last.

    UsageError where none takes these dtypes.
    """
    jobs = [
        (kernel, size, dtype)
        for kernel in kernels
        for size in (kernel.timed if large else kernel.timed[:-1])
        for dtype in kernel.dtypes
        if not dtypes or dtype in dtypes
    ]
    if not jobs:
        taken = dict.fromkeys(dtype for kernel in kernels for dtype in kernel.dtypes)
        raise UsageError(
            f"no kernel that was named takes {' or '.join(dtypes)}",
            help=f"{'it takes' if len(kernels) == 1 else 'they take'} {', '.join(taken)}",
        )
    rows: list[Row] = []
    with phase("timing kernels", lambda: len(rows), len(jobs)):
        for kernel, size, dtype in jobs:
            rows.append(measure(kernel, size, dtype, walls=True, **choices))
    return rows


def table(rows: Sequence[Row], markdown: bool = False) -> str:
    """Return rows as a table with aligned columns."""
    columns = (*_COLUMNS, *(_MEASURED if any(row.simulated_s for row in rows) else ()))
    cells = [[text(row) for _, _, text in columns] for row in rows]
    heads = [head for head, _, _ in columns]
    if markdown:
        rule = ["---:" if side == ">" else "---" for _, side, _ in columns]
        return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *cells))
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    sides = [side for _, side, _ in columns]
    lines = [
        "  ".join(f"{c:{s}{w}}" for c, s, w in zip(line, sides, widths, strict=True)).rstrip()
        for line in (heads, *cells)
    ]
    origins = dict.fromkeys(f"times are {row.origin}" for row in rows)
    measured = [origin for origin in origins if origin != f"times are {Row.origin}"]
    whys = dict.fromkeys(f"{r.kernel}, {r.dtype}: {r.why}" for r in rows if r.why)
    return "\n".join([*lines, *measured, *whys])


def save_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as JSON, which `changes` compares with; into a folder, or a path without suffix, a file per kernel.

    BadFile where they cannot be written.
    """
    files = {path: list(rows)}
    try:
        if path.is_dir() or not path.suffix:
            path.mkdir(parents=True, exist_ok=True)
            names = dict.fromkeys(row.kernel for row in rows)
            files = {path / f"{name}.json": [r for r in rows if r.kernel == name] for name in names}
        for file, part in files.items():
            text = json.dumps([{n: getattr(row, n) for n in _KEPT} for row in part], indent=1)
            file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadFile.unwritable(path, error) from None


def load_rows(path: Path) -> list[Row]:
    """Read what `save_rows` wrote, a file or a folder; BadFile where it is anything else."""
    if path.is_dir():
        return [row for file in sorted(path.glob("*.json")) for row in load_rows(file)]
    try:
        return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise BadFile(
            f"{path.name} is not a table of the benchmark: {error}",
            help="write one with nki-lab bench --write FILE",
        ) from None


def changes(rows: Sequence[Row], before: Sequence[Row], tolerance: float) -> tuple[str, bool]:
    """Return how the times differ from an earlier table, and whether one is slower by more than `tolerance`."""
    earlier = {row.key: row for row in before}
    lines, slower = [], False
    for row in rows:
        name = " ".join(row.key)
        if row.key not in earlier:
            lines.append(f"{name}: new, {row.time_us:,.1f} us")
            continue
        was = earlier[row.key].time_us
        change = row.time_us / was - 1 if was else 0.0
        beyond = change > tolerance
        slower |= beyond
        if beyond or abs(change) > 0.0005:
            mark = f", more than {percent(tolerance)} slower" if beyond else ""
            lines.append(f"{name}: {was:,.1f} -> {row.time_us:,.1f} us, {change:+.1%}{mark}")
    return "\n".join(lines) or "no time has changed", slower
