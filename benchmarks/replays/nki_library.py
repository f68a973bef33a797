"""Says why some of the goals that nki-library's tests name have no answer.

Their kernels need no replay: with a clone they are timed themselves (benchmarks/library), and the answers are kept.
"""

from __future__ import annotations

from benchmarks.replay import Replay

REPLAYS: tuple[Replay, ...] = ()

_TWICE = "the kernel takes the view of a view by the shape of the first one: its access pattern is refused"

NOT_REPLAYED = {
    ("rmsnorm_tkg", ".*", "nki-library @181b205"): (
        "numbers of an older commit, whose suite differs from the one that is run"
    ),
    (
        "rmsnorm_quant",
        ".*",
        "design-rmsnorm-quant.rst",
    ): "no configuration of the suite is this one",
    **{("mlp_tkg", ".*", f"test_mlp_tkg.py:{line}"): _TWICE for line in (240, 241, 243, 351)},
    (
        "mlp_cte",
        r".*ceilalign\(\).*",
        "nki-library",
    ): "a size is computed in the test and not told by the row",
    ("mlp_cte", "[^:]*: vnc_degree=1;.*", "nki-library"): "the suite runs it on two cores alone",
    (".*", ".*", "nki-library @d2ad3a5"): (
        "not reached in the time that each configuration is given, or another row has the same one"
    ),
}
