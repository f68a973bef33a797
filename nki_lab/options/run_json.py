"""What is known about a run, as a document that another program reads?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.report import bound_sentence

if TYPE_CHECKING:
    from nki_lab.runtime import Comparison, Result


def run_json(result: Result, comparisons: Sequence[Comparison] = ()) -> str:
    """Return the kernel, chip, time, Summary metrics, findings, results and checks of a run as JSON.

    Times of the Summary are seconds and shares fractions of 1, as in Neuron Explorer's own files.
    """
    profile = result.profile
    bound = bound_by(profile)
    document = {
        "kernel": result.name,
        "target": profile.target.name,
        "is_simulation": profile.is_simulation,
        "total_ns": profile.total_ns,
        "bound": bound.resource if bound.is_bound else "latency",
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
            for comparison in comparisons
        ],
    }
    return json.dumps(document, indent=2, default=_plain, allow_nan=False)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # JSON has no infinity


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
