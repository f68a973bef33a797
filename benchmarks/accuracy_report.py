"""Summarises the answers of the model: tables per evidence class, and the bars they are held to.

Everything here is a function of published rows and answers, and returns Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.agreement import kendall, pair_orders, relative_errors, spearman
from benchmarks.published import TARGETS, Row
from benchmarks.scoring import Answer, busy_of, key_of, why_not
from nki_lab.targets import get_target

#: Rows whose errors are held to a separate bar: (kernel, metric), regular expressions.
NAMED = (
    ("kernel_optimization_v[23]_.*", "latency"),
    ("NKIBench (bmm|adamw|silu)", "latency_mean"),
    ("mamba_v[123]", "latency"),
)
MEDIAN_BAR, WORST_BAR, ORDER_BAR, APART = 0.20, 0.50, 0.90, 0.03
BOTTLENECKS_BAR, BOTTLENECKS_OF = 12, 14
#: How the published shares of engines are called in a run.
SHARES = {"pe_active": "tensor", "dve_active": "vector", "act_active": "scalar"}


@dataclass(frozen=True)
class Pair:
    """A published row with what the model says of it."""

    row: Row
    answer: Answer

    @property
    def error(self) -> float:
        """How much too large the model's number is, as a part of the published one."""
        return self.answer.value / self.row.number - 1


def pairs_of(rows: Iterable[Row], answers: Iterable[Answer]) -> list[Pair]:
    """Return the rows that have an answer, with it."""
    known = {answer.key: answer for answer in answers}
    return [Pair(row, known[key_of(row)]) for row in rows if key_of(row) in known]


def is_scored(row: Row) -> bool:
    """Tell whether a row is a time that counts: measured, or a target, and neither an upper bound nor context."""
    return row.is_time and row.score_use in ("primary", "secondary")


def table(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; numbers stand right."""
    lines = [[str(cell) for cell in line] for line in lines]
    numeric = [
        bool(lines) and all(re.fullmatch(r"[-+]?[\d,.]*\s?%?|-", line[k]) for line in lines)
        for k in range(len(heads))
    ]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(heads), rule, *lines])


def _percent(value: float, sign: bool = False) -> str:
    return f"{100 * value:+.1f} %" if sign else f"{100 * value:.1f} %"


def _optional(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


# -- times, per evidence class and target --------------------------------------------------------------------------


def _classes(pairs: Iterable[Pair]) -> dict[tuple[str, str], list[Pair]]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if is_scored(pair.row):
            found.setdefault((pair.row.evidence, TARGETS[pair.row.generation]), []).append(pair)
    return dict(sorted(found.items()))


def _figures(pairs: Sequence[Pair], value: Callable[[Pair], float]) -> list[str]:
    published = [p.row.number for p in pairs]
    modelled = [value(p) for p in pairs]
    errors = relative_errors(published, modelled)
    worst = int(np.abs(errors).argmax())
    return [
        str(len(pairs)),
        _optional(spearman(published, modelled)),
        _optional(_kendall_within(pairs, value)),
        _percent(float(np.median(np.abs(errors)))),
        _percent(float(np.quantile(np.abs(errors), 0.9))),
        _percent(float(np.median(errors)), sign=True),
        f"{pairs[worst].row.name} {_percent(float(errors[worst]), sign=True)}",
    ]


def family_pairs(pairs: Sequence[Pair], value: Callable[[Pair], float]) -> list[tuple[float, int]]:
    """Return distance and order of every two rows of one family, target, problem and metric."""
    families: dict[tuple[str, ...], list[Pair]] = {}
    for p in pairs:
        if p.answer.family:
            key = p.answer.family, p.row.arch, p.row.shapes, p.row.metric
            families.setdefault(key, []).append(p)
    return [
        order
        for members in families.values()
        for order in pair_orders([p.row.number for p in members], [value(p) for p in members])
    ]


def _kendall_within(pairs: Sequence[Pair], value: Callable[[Pair], float]) -> float | None:
    return kendall([order for apart, order in family_pairs(pairs, value) if apart > 0])


def _model(pair: Pair) -> float:
    return pair.answer.value


def _roofline(pair: Pair) -> float:
    return float(pair.answer.roofline_ns)


def _bytes(pair: Pair) -> float:
    return float(pair.answer.bytes_ns)


def times_table(pairs: Iterable[Pair]) -> str:
    """Return the table of times: the model, and on the same rows the roofline and the bytes alone."""
    lines = []
    for (evidence, target), members in _classes(pairs).items():
        lines.append([evidence, target, "model", *_figures(members, _model)])
        comparable = [p for p in members if p.answer.roofline_ns != ""]
        if comparable and len(comparable) < len(members):
            lines.append(
                [evidence, target, "model, rows with a roofline", *_figures(comparable, _model)]
            )
        if comparable:
            lines.append([evidence, target, "roofline only", *_figures(comparable, _roofline)])
        whole = [p for p in members if p.answer.bytes_ns != ""]
        if whole:
            rate = get_target(target).dma_bytes_per_ns_all_engines
            lines.append([evidence, target, f"bytes / {rate:.0f} GB/s", *_figures(whole, _bytes)])
    heads = "evidence", "target", "by", "n", "Spearman", "Kendall", "median", "P90", "bias", "worst"
    return table(heads, lines)


def bounds_table(pairs: Iterable[Pair]) -> str:
    """Return the table of upper bounds: a model that says more than a bound contradicts it."""
    lines = []
    for arch in sorted({p.row.generation for p in pairs}):
        members = [p for p in pairs if p.row.score_use == "bound" and p.row.generation == arch]
        if members:
            ratios = [p.answer.value / p.row.number for p in members]
            above = sum(ratio > 1 for ratio in ratios)
            lines.append([TARGETS[arch], len(members), above, f"{np.median(ratios):.2f}"])
    return table(
        ("target", "n", "predicted above the bound", "median of prediction / bound"), lines
    )


# -- rows one by one -----------------------------------------------------------------------------------------------


def rows_table(pairs: Iterable[Pair]) -> str:
    """Return every scored time with what the model says."""
    lines = [
        [
            TARGETS[p.row.generation],
            p.row.name,
            _time(p.row.number),
            _time(p.answer.value),
            _percent(p.error, sign=True),
            "-" if p.answer.roofline_ns == "" else _time(_roofline(p)),
            p.answer.bottleneck or "-",
        ]
        for p in pairs
        if is_scored(p.row)
    ]
    return table(("target", "row", "published", "model", "error", "roofline", "busiest"), lines)


def _time(ns: float) -> str:
    if ns >= 1e6:
        return f"{ns / 1e6:,.3f} ms"
    return f"{ns / 1e3:,.2f} us" if ns >= 1e4 else f"{ns:,.0f} ns"


def shares_table(pairs: Iterable[Pair]) -> str:
    """Return the published byte counts and shares of engines beside those of the replays."""
    lines = []
    for p in pairs:
        if p.row.is_time or p.row.score_use not in ("primary", "secondary"):
            continue
        show = (lambda v: f"{v / 1e6:,.1f} MB") if p.row.unit == "B" else (lambda v: f"{v:.1f} %")
        name = f"{p.row.kernel} [{p.row.shapes}]"
        target = TARGETS[p.row.generation]
        lines.append([target, name, p.row.metric, show(p.row.number), show(p.answer.value)])
    return table(("target", "kernel", "metric", "published", "model"), lines)


def unanswered_table(rows: Iterable[Row], pairs: Iterable[Pair]) -> str:
    """Return the rows without an answer, by reason and kernel, with how many they are."""
    answered = {key_of(p.row) for p in pairs}
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        if key_of(row) not in answered:
            key = why_not(row), row.kernel
            found[key] = found.get(key, 0) + 1
    grouped: dict[str, list[str]] = {}
    for (reason, kernel), count in sorted(found.items()):
        grouped.setdefault(reason, []).append(f"{kernel} ({count})")
    lines = [[reason, ", ".join(kernels)] for reason, kernels in grouped.items()]
    return table(("reason", "kernels (rows)"), lines)


# -- bottlenecks ---------------------------------------------------------------------------------------------------


def published_shares(rows: Iterable[Row], kernel: str) -> dict[str, float]:
    """Return how busy each part of the core was in a run of NKIBench, in percent, as far as it was published.

    The share of the Tensor engine is taken from `hfu`: the profiler counts a float32 operation twice, and the array
    takes four times as long for it, so that it works twice as long as `hfu` says. The share of the DMA engines is that
    of moving the published bytes at their practical rate.
    """
    found: dict[str, float] = {}
    mine = {row.metric: row for row in rows if row.kernel == kernel}
    for metric, part in SHARES.items():
        if metric in mine:
            found[part] = mine[metric].number
    if "hfu" in mine and "tensor" not in found:
        found["tensor"] = 2 * mine["hfu"].number
    if "hbm_bytes" in mine and "latency_mean" in mine:
        latency = mine["latency_mean"]
        rate = get_target(TARGETS[latency.generation]).dma_bytes_per_ns_all_engines
        found["dma"] = 100 * mine["hbm_bytes"].number / rate / latency.number
    return found


def bottlenecks(rows: Sequence[Row], pairs: Iterable[Pair]) -> list[tuple[str, str, str, str, str]]:
    """Return (kernel, busiest part as published, as modelled, published shares, modelled ones) per NKIBench kernel."""
    found = []
    for p in pairs:
        if not p.row.kernel.startswith("NKIBench") or p.row.metric != "latency_mean":
            continue
        shares = published_shares(rows, p.row.kernel)
        if not shares:
            continue
        modelled = {part: busy_of(p.answer).get(part, 0.0) for part in shares}
        found.append(
            (
                p.row.kernel,
                max(shares, key=lambda part: shares[part]),
                max(modelled, key=lambda part: modelled[part]),
                ", ".join(f"{part} {share:.0f}" for part, share in shares.items()),
                ", ".join(f"{part} {share:.0f}" for part, share in modelled.items()),
            )
        )
    return found


def bottlenecks_table(rows: Sequence[Row], pairs: Iterable[Pair]) -> str:
    """Return the busiest part of the core per NKIBench kernel, published and modelled."""
    heads = "kernel", "published", "model", "published shares (%)", "modelled shares (%)"
    return table(heads, bottlenecks(rows, pairs))


# -- bars ----------------------------------------------------------------------------------------------------------


def bars_table(rows: Sequence[Row], pairs: Sequence[Pair]) -> str:
    """Return what the model is held to, with the number and the names of the rows behind each figure."""
    lines = [_bottleneck_bar(rows, pairs), *_named_bars(pairs), _order_bar(pairs)]
    lines += _baseline_bars(pairs)
    return table(("bar", "found", "n", "met", "rows"), lines)


def _bottleneck_bar(rows: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    found = bottlenecks(rows, pairs)
    right = sum(published == modelled for _, published, modelled, *_ in found)
    least = BOTTLENECKS_BAR * len(found) / BOTTLENECKS_OF
    missing = BOTTLENECKS_OF - len(found)
    without = f"; {missing} kernels have no published share here" if missing else ""
    return [
        f"busiest part = largest published share, {BOTTLENECKS_BAR} of {BOTTLENECKS_OF}",
        f"{right} of {len(found)}",
        str(len(found)),
        "yes" if found and right >= least else "no",
        ", ".join(kernel.removeprefix("NKIBench ") for kernel, *_ in found) + without,
    ]


def _named_bars(pairs: Sequence[Pair]) -> list[list[str]]:
    named = [
        p
        for p in pairs
        if is_scored(p.row)
        and any(re.fullmatch(k, p.row.kernel) and re.fullmatch(m, p.row.metric) for k, m in NAMED)
    ]
    if not named:
        return []
    errors = [abs(p.error) for p in named]
    median, worst = float(np.median(errors)), max(errors)
    names = ", ".join(f"{p.row.name} {_percent(p.error, sign=True)}" for p in named)
    return [
        [f"median error at most {MEDIAN_BAR:.0%}", _percent(median), str(len(named)),
         _yes(median <= MEDIAN_BAR), names],
        [f"no error above {WORST_BAR:.0%}", _percent(worst), str(len(named)),
         _yes(worst <= WORST_BAR), "the same"],
    ]  # fmt: skip


def _order_bar(pairs: Sequence[Pair]) -> list[str]:
    scored = [p for p in pairs if is_scored(p.row)]
    orders = [order for apart, order in family_pairs(scored, _model) if apart > APART]
    right = sum(order > 0 for order in orders)
    families = sorted({p.answer.family for p in scored if p.answer.family})
    return [
        f"pairs of a family more than {APART:.0%} apart in the right order: {ORDER_BAR:.0%}",
        f"{right} of {len(orders)}",
        str(len(orders)),
        _yes(bool(orders) and right >= ORDER_BAR * len(orders)),
        ", ".join(families),
    ]


def _baseline_bars(pairs: Sequence[Pair]) -> list[list[str]]:
    lines = []
    for (evidence, target), members in _classes(pairs).items():
        comparable = [p for p in members if p.answer.roofline_ns != ""]
        if len(comparable) < 5:
            continue
        model, roofline = (
            float(np.median([abs(value(p) / p.row.number - 1) for p in comparable]))
            for value in (_model, _roofline)
        )
        lines.append(
            [
                f"{evidence} on {target}: lower median error than the roofline",
                f"{_percent(model)} against {_percent(roofline)}",
                str(len(comparable)),
                _yes(model < roofline),
                "all rows of the class with a roofline",
            ]
        )
    return lines


def _yes(met: bool) -> str:
    return "yes" if met else "no"
