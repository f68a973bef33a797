"""Advice on a measured run: what its tables show by themselves, since no program is there to be timed again.

Neuron Explorer marks the same two: small transfers (tools/neuron-explorer/overview-device-profiles.rst) and tensors
that are loaded more than once (overview-tensor-viewer.rst). What a change saves is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.profiler.analyses.advice import LEAST_GAIN, Advice, Advices
from nki_lab.profiler.analyses.source_lines import transfer_lines
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.intervals import covered_ns
from nki_lab.profiler.schema import TRANSFERS

#: Loads of a tensor from which on it is told, as in Neuron Explorer.
_MOST_LOADS = 2
_BOUND = "what the change takes away by itself; a measured run is not timed again"


def measured_advice(profile: ProfileData) -> Advices:
    """Return advice on a measured run, the largest gain first."""
    found = [*_small_transfers(profile), *_reloads(profile)]
    worth = [advice for advice in found if advice.gain_share > LEAST_GAIN]
    return Advices(sorted(worth, key=lambda advice: -advice.gain_ns))


def _small_transfers(profile: ProfileData) -> Iterator[Advice]:
    """Yield advice on the transfers of a line that move less per partition than DMA is efficient with."""
    moved = profile.numbers(TRANSFERS, "transfer_bytes")
    sides = [profile.numbers(TRANSFERS, f"{w}_num_sbuf_partitions") for w in ("read", "write")]
    per_partition = moved / np.maximum(np.maximum(*sides), 1)
    enough = profile.target.dma_efficient_bytes_per_partition
    start, end = (profile.numbers(TRANSFERS, f"{name}_ts") for name in ("start", "end"))
    lines = transfer_lines(profile)
    small = (per_partition < enough) & (moved > 0)
    for code in np.unique(lines.codes[small]).tolist():
        rows = np.flatnonzero(small & (lines.codes == code))
        if len(rows) < 2:
            continue
        data_ns = moved[rows].sum() / profile.target.dma_bytes_per_ns_all_engines
        busy_ns = covered_ns(start[rows], end[rows])
        yield _advice(
            profile,
            "small DMAs",
            f"{len(rows):,} transfers with a median of {np.median(per_partition[rows]):,.0f} B per partition are under"
            f" way for {busy_ns:,} ns, in which {data_ns:,.0f} ns of data are moved",
            f"move several of these tiles with one transfer, at least {enough:,} B per partition",
            busy_ns - data_ns,
            (lines.values[code],) if code >= 0 else (),
        )


def _reloads(profile: ProfileData) -> Iterator[Advice]:
    """Yield advice on tensors that are loaded into SBUF more often than twice."""
    for row in profile.records("TensorInfo"):
        loads, moved = row["load_to_sbuf_repeat_factor"], row["load_to_sbuf_total_size_bytes"]
        if loads and moved and loads > _MOST_LOADS:
            again = moved * (1 - 1 / loads)
            yield _advice(
                profile,
                "reloaded input",
                f"`{row['variable_name']}` is loaded {loads:.1f} times over: {moved:,} B for {moved / loads:,.0f} B",
                "load each part before the loop that uses it again, and keep its tile in SBUF",
                again / profile.target.dma_bytes_per_ns_all_engines,
            )


def _advice(
    profile: ProfileData,
    rule: str,
    message: str,
    help: str,
    gain_ns: float,
    places: tuple[str, ...] = (),
) -> Advice:
    return Advice(rule, message, help, places, round(gain_ns), profile.total_ns, _BOUND)
