"""The configurations of nki-library's suite that do not pass, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.public.nki_library.suite import Outcome, Run


@dataclass(frozen=True)
class Known:
    """Configurations that fail, all for one reason.

    Attributes:
        file: of the suite, or its beginning.
        names: regular expression found in the names of the configurations.
        message: part of what is reported.
        reason: what cannot work in the published files, or what nki_lab does not model; it says which.
    """

    file: str
    names: str
    message: str
    reason: str

    def lists(self, run: Run, outcome: Outcome) -> bool:
        """Tell whether a configuration is one of these."""
        named = re.search(self.names, outcome.name) is not None
        return named and run.file.startswith(self.file)

    def covers(self, run: Run, outcome: Outcome) -> bool:
        """Tell whether a configuration is one of these, and failed like these."""
        return (
            self.lists(run, outcome)
            and outcome.outcome == "failed"
            and self.message in outcome.message
        )


_NO_PYTHON = "upstream: core/mlp/mlp.py repeats half a docstring and is no Python"

KNOWN: tuple[Known, ...] = (
    Known("core/mlp/test_mlp_cte", "import", "IndentationError", _NO_PYTHON),
    Known("core/mlp/test_mlp_tkg", "import", "IndentationError", _NO_PYTHON),
    Known("experimental/transformer/test_transformer", "import", "IndentationError", _NO_PYTHON),
    Known(
        "core/attention/test_gen_mask_tkg",
        "_mask_generation|_kv_with_active_mask",
        "'mask_out_hbm'",
        "upstream: the test looks for an input under a name that it did not give it",
    ),
    Known(
        "core/moe_block/test_moe_block_tkg",
        "unit.*_ba-1_sq-5_hi-3072.*_wd-float16",
        "memset: `value` must be a number",
        "upstream: fills integers with 0.0, which NKI has refused since 0.3 (nki/migration/index.rst)",
    ),
    Known(
        "core/moe_block/test_moe_block_tkg",
        "model.*_ba-1_sq-1_hi-7168.*_wd-float8_e4m3fn_x4",
        "'NoneType' object has no attribute 'dtype'",
        "upstream: asks for the dtype of a bias that the configuration does not have",
    ),
    Known(
        "core/moe_block/test_moe_block_tkg",
        "model.*_ba-64_sq-1_hi-7168.*_wd-float8_e4m3fn_x4",
        "Validation failed for ['out']",
        "upstream: for one token two experts lie closer than bfloat16 tells apart; the reference takes the other one",
    ),
    Known(
        "core/moe/moe_cte/test_moe_cte_unified",
        "impl-2_fn-5",
        "core_barrier: `data` must be in shared_hbm",
        "upstream: core_barrier on a tile in SBUF; its documentation demands shared HBM",
    ),
    Known(
        "core/qkv/test_qkv_cte",
        "mxfp8_static_dequant",
        "'module' object is not callable",
        "upstream: calls a module in place of the function in it",
    ),
    Known(
        "core/qkv/test_qkv_cte",
        "mx_bf16_static_dequant",
        "is_input_swizzled",
        "upstream: passes a parameter that the kernel does not have",
    ),
    Known(
        "experimental/mxfp_subkernels/test_mxfp_load",
        "performance",
        "out_data_hbm",
        "upstream: the suite casts packed words to float32, the reference has their bits as float32",
    ),
    Known(
        "experimental/subkernels/test_topk_reduce",
        "import",
        "nkilib.experimental.subkernels",
        "upstream: the package of the kernel is not published",
    ),
    Known(
        "experimental/transformer/test_attention_block_tkg",
        "_1-1-128-7168",
        "reaches elements 28 to 3584",
        "upstream: reads an element past the end of a tile",
    ),
    Known(
        "experimental/loss/test_cross_entropy_forward",
        "B-1_T-1_",
        "slice 0:0",
        "upstream: gives one of two cores no rows, and NKI has no empty tensors",
    ),
)


def reason_for(run: Run, outcome: Outcome) -> Known | None:
    """Return why a configuration is known to fail, if it is."""
    return next((known for known in KNOWN if known.covers(run, outcome)), None)


def surprises(run: Run, outcomes: list[Outcome]) -> list[str]:
    """Return what is not as listed: other failures, and configurations that pass now."""
    found = []
    for o in outcomes:
        if o.outcome == "failed" and reason_for(run, o) is None:
            found.append(f"{run}: {o.name} fails, and is no known exception: {o.message}")
        if o.outcome == "passed" and any(known.lists(run, o) for known in KNOWN):
            found.append(f"{run}: {o.name} passes: take it out of the exceptions")
    return found
