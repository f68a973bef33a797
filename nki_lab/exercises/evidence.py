"""Reads a number off a profile, as the answer to a question and as a sentence."""

from __future__ import annotations

from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result
from nki_lab.targets.engines import ENGINE_LABELS

#: Answers of `bottleneck`.
BOTTLENECKS = {
    "tensor": "the Tensor engine would be busy half of the time, or longer",
    "vector": "the Vector engine would be busy half of the time, or longer",
    "scalar": "the Scalar engine would be busy half of the time, or longer",
    "gpsimd": "the GpSimd engine would be busy half of the time, or longer",
    "dma": "the transfers would take half of the time, or longer",
    "waiting": "nothing would be busy half of the time",
}


def profile_of_run(run: Result | Profile) -> Profile:
    """Return the profile of a run."""
    return run.profile if isinstance(run, Result) else run


def bottleneck(run: Result | Profile) -> str:
    """Return what bounds a run, a key of BOTTLENECKS."""
    bound = bound_by(profile_of_run(run))
    return bound.resource if bound.is_bound else "waiting"


def busy_shares(run: Result | Profile) -> str:
    """Return which share of the time the two busiest parts of a run work, as a sentence."""
    summary = profile_of_run(run).summary
    shares = {"DMA": summary.get("dma_active_time_percent", 0.0)}
    for engine in ("tensor", "vector", "scalar", "gpsimd"):
        shares[ENGINE_LABELS[engine]] = summary.get(f"{engine}_engine_active_time_percent", 0.0)
    first, second, *_ = sorted(shares, key=lambda name: -shares[name])
    return f"{first} is busy {shares[first]:.0%} of the time, {second} {shares[second]:.0%}"


def summary_value(field: str, run: Result | Profile, scale: float = 1.0) -> float:
    """Return a metric of a run by Neuron Explorer's name, times `scale`."""
    return float(profile_of_run(run).summary[field]) * scale
