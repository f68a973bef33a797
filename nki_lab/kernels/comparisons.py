"""Kernels of the library that compute the same, compared over one number of their size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any

from nki_lab.errors import UsageError, close_matches
from nki_lab.kernels.prebuilt import get
from nki_lab.profiler.analyses.report import badge, sbuf_peak_bytes
from nki_lab.progress import phase
from nki_lab.views.charts.sizes import SizeChart, SizeRow


@dataclass(frozen=True)
class Comparison:
    """Kernels that compute the same.

    Attributes:
        kernels: their names; all take the same size.
        over: the number of a size that grows.
        sizes: what it is where nobody says.
        others: the other numbers of a size.
    """

    kernels: tuple[str, ...]
    over: str
    sizes: tuple[int, ...]
    others: Mapping[str, int]


#: What can be compared, by name.
COMPARISONS = {
    "attention": Comparison(
        ("standard_attention", "flash_attention"),
        "keys",
        (128, 256, 512, 1024, 2048),
        {"heads": 1, "kv_heads": 1, "d": 128, "causal": 0},
    ),
}


def compare(
    name: str, sizes: Iterable[int] | None = None, dtype: str = "bfloat16", **choices: Any
) -> SizeChart:
    """Return the modelled time, HBM bytes and SBUF of kernels that compute the same, as charts and a table.

    Args:
        name: what they compute, such as "attention".
        sizes: values of the number that grows; those of the comparison where none are given.
        dtype: of the arguments.
        choices: those of `nki_lab.run`, such as target="trn2".
    """
    if name not in COMPARISONS:
        raise UsageError(
            f"there is no comparison `{name}`",
            help=close_matches(str(name), COMPARISONS) or f"comparisons: {', '.join(COMPARISONS)}",
        )
    chosen = COMPARISONS[name]
    given = chosen.sizes if sizes is None else sizes
    try:
        values = sorted({index(value) for value in given})
    except TypeError:
        values = []
    if not values or values[0] < 1:
        raise UsageError(
            f"compare: `sizes` is {given!r}; expected numbers of {chosen.over} above 0",
            help=f"write sizes={list(chosen.sizes)}",
        )
    rows: list[SizeRow] = []
    where = ""
    with phase("comparing kernels", lambda: len(rows), len(values) * len(chosen.kernels)):
        for value in values:
            for kernel in chosen.kernels:
                size = {**chosen.others, chosen.over: value}
                result = get(kernel).run(size, dtype, **choices)
                profile = result.profile
                time_us, moved = profile.total_ns / 1000, result.roofline().hbm_bytes
                rows.append(SizeRow(kernel, value, time_us, moved, sbuf_peak_bytes(profile) or 0))
                where = f"{result.compiled.target.name} ({badge(profile)})"
    return SizeChart(f"{name} of {dtype} on {where}", chosen.over, tuple(rows))
