"""What is known about a run, as a document that another program reads?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import bound_sentence
from nki_lab.profiler.answers import analysis_data, plain
from nki_lab.profiler.metrics import bound_by

if TYPE_CHECKING:
    from nki_lab.errors import CheckFailed
    from nki_lab.profiler.profile import Profile
    from nki_lab.runtime import Comparison, Result


def run_json(
    result: Result,
    comparisons: Sequence[Comparison] = (),
    analyse: Sequence[str] | None = None,
    what_if: Sequence[str] | None = None,
    bench: bool = False,
    compare: Profile | None = None,
    saved: Sequence[Path] | None = None,
    failed: CheckFailed | None = None,
) -> str:
    """Return the kernel, chip, time, Summary metrics, findings, results and checks of a run as JSON.

    Times of the Summary are seconds and shares fractions of 1, as in Neuron Explorer's own files. What else was asked
    about the run is in the document only then: `analyses`, `what_if`, `benchmark`, `comparison` and `saved`;
    and so is `check_failed`.

    Args:
        result: the run.
        comparisons: how its results compare with the reference.
        analyse: names of `ANALYSES`.
        what_if: costs to time the program again without.
        bench: tell the time of one call and of one of many.
        compare: the profile of an earlier run.
        saved: files that the run was written to.
        failed: why its results are not what they should be; it has the comparisons then.
    """
    profile = result.profile
    bound = bound_by(profile)
    document: dict[str, Any] = {
        "kernel": result.name,
        "target": profile.target.name,
        "is_simulation": profile.is_simulation,
        "total_ns": profile.total_ns,
        "bound": bound.resource if bound.is_bound else "latency",
        "bound_also": [name for name, _ in bound.others],
        "bound_sentence": bound_sentence(profile),
        "summary": profile.summary,
        "findings": [
            {
                "kind": remark.kind,
                "message": remark.message,
                "help": remark.help,
                "place": remark.place.label if remark.place else None,
                "is_serious": remark.is_serious,
            }
            for remark in result.view_data.findings
        ],
        "outputs": [{"shape": list(o.shape), "dtype": o.dtype.name} for o in result.outputs],
        "checks": [
            {
                "matches": comparison.ok,
                "max_abs_error": _finite(comparison.max_abs_error),
                "max_rel_error": _finite(comparison.max_rel_error),
            }
            for comparison in (failed.comparisons if failed else comparisons)
        ],
    }
    if failed:
        document["check_failed"] = failed.message
    if analyse:
        document["analyses"] = {name: analysis_data(name, profile) for name in analyse}
    if what_if:
        document["what_if"] = plain(profile.what_if(*what_if))
    if bench:
        document["benchmark"] = plain(result.benchmark())
    if compare is not None:
        document["comparison"] = plain(compare_profiles(compare, profile))
    if saved:
        document["saved"] = [str(path) for path in saved]
    return json.dumps(document, indent=2, default=_plain, allow_nan=False)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # JSON has no infinity


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
