"""What does not pass of the published code of the older dialect, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.public.nki_library.suite import Outcome


@dataclass(frozen=True)
class Known:
    """Tests or kernels that fail, all for one reason.

    Attributes:
        names: regular expression that is found in "suite:name".
        message: regular expression that is found in what is reported.
        reason: what cannot work in the published code, or what nki_lab does not do; it says which.
    """

    names: str
    message: str
    reason: str


KNOWN: tuple[Known, ...] = (
    Known(
        "sdk 2.29 tests:.*test_activation",
        "False is not true",
        "upstream: the test compares an activation with dtype=bfloat16 with float32 to 1e-5. It passes with"
        " NKI_PRECISE_FP=0, with which test_range_select of the same folder, whose reference rounds, does not",
    ),
    Known(
        "tests:.*oob_err_negative",
        "IndexError",
        "nki_lab: the error is of a class below IndexError, and names index, partition and valid range; the test asks"
        " for NumPy's own, `type(exc) == IndexError`, with NumPy's text about an index into flattened memory",
    ),
    Known(
        "samples 2025-12 tests:.*test_double_row_matmul_numerical",
        "name 'warnings' is not defined",
        "upstream: the test warns where its machine is no instance of AWS, without importing `warnings`; its comparison"
        " runs in `contributed`, with the name of an instance given",
    ),
    Known(
        "(EtashGuha|TomZelazny|chenhzhu|ewang675|robertpare17|xaviergonzalez).*:vector_add_tiled",
        "256 partitions, but the memory has 128",
        "upstream: ROW_CHUNK is left at 256; the assignment asks what happens then, and there are 128 partitions",
    ),
    Known(
        "(EtashGuha|Pre1999|TomZelazny|Yousef02|akjadhav|chengli2003|kenny1G).*:fused_conv2d_maxpool:.*pool 2",
        "is needed|the result has shape|exceed dimension size of 7",
        "upstream: the solution does not take the maximum of windows, so its result is too large for the output",
    ),
    Known(
        "ewang675.*:fused_conv2d_maxpool",
        "partitions",
        "upstream: the solution is not finished; its tiles have one partition for each channel and each weight",
    ),
    Known(
        "waahm7.*:fused_conv2d_maxpool",
        "Please fill your implementation",
        "upstream: there is no solution yet",
    ),
    Known(
        "triton-viz:examples/nki/rmsnorm",
        "mask over a grid",
        "upstream: for an interpreter of that project in which sums lose their axis; `[:, None]` adds a third one",
    ),
    Known(
        r"sdk 2\.29:layout-(pass|dynamic-loop)",
        "SyntaxError",
        "upstream: a bracket is closed by none, or by one of another sort; the file is no Python",
    ),
    Known(
        r"sdk 2\.29:layout-loop",
        "i_f",
        "upstream: the kernel uses a name that it does not define",
    ),
    Known(
        "sdk .*:(prof-kernel|layout-dynamic-loop):",
        "",
        "upstream: `return` stands in the loop, so that only its first trip runs",
    ),
)


def reason_for(suite: str, outcome: Outcome) -> str:
    """Return why a test fails as it does; "" for one that should not."""
    for known in KNOWN:
        named = re.search(known.names, f"{suite}:{outcome.name}")
        if named and re.search(known.message, outcome.message, re.DOTALL):
            return known.reason
    return ""


def surprises(suite: str, outcomes: list[Outcome]) -> list[str]:
    """Return a line for everything that fails unlisted, or passes although it is listed."""
    found = []
    for outcome in outcomes:
        failed = outcome.outcome == "failed"
        if failed and not reason_for(suite, outcome):
            found.append(f"{suite}:{outcome.name}: {outcome.message[:600]}")
        listed = any(re.search(k.names, f"{suite}:{outcome.name}") for k in KNOWN)
        if listed and outcome.outcome == "passed":
            found.append(f"{suite}:{outcome.name}: passes, but is listed")
    return found
