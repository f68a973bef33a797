"""What keeps configurations of nki-library's suite from passing, each cause once, whatever configurations meet it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.public.nki_library.suite import Outcome, Run


@dataclass(frozen=True)
class Cause:
    """One reason for which configurations fail.

    Attributes:
        file: of the suite, or its beginning; empty where the message tells the cause in any file.
        message: part of what is reported.
        reason: what cannot work in the published files, or what nki_lab does not model; it says which.
        among: part of the names of the configurations that can meet it, where the message does not tell causes apart.
    """

    file: str
    message: str
    reason: str
    among: str = ""

    def covers(self, run: Run, outcome: Outcome) -> bool:
        """Tell whether a configuration failed for this cause."""
        return (
            run.file.startswith(self.file)
            and outcome.outcome == "failed"
            and self.message in outcome.message
            and self.among in outcome.name
        )


CAUSES: tuple[Cause, ...] = (
    Cause(
        "",
        "IndentationError",
        "upstream: core/mlp/mlp.py repeats half a docstring and is no Python",
    ),
    Cause(
        "core/mlp/test_mlp_tkg",
        "the partition stride is",
        "upstream: gives half a tile the partition stride of the half, NKI demands that of the storage"
        " (nki/get-started/nki-language-guide.rst)",
    ),
    Cause(
        "core/max/test_cascaded_max_utils",
        "race: core",
        "upstream: both cores fill the whole result with zeros, and nothing orders that before the other's rows",
    ),
    Cause(
        "core/attention/test_gen_mask_tkg",
        "'mask_out_hbm'",
        "upstream: the test looks for an input under a name that it did not give it",
    ),
    Cause(
        "",
        "memset: `value` must be a number",
        "upstream: fills integers with 0.0, which NKI has refused since 0.3 (nki/migration/index.rst)",
    ),
    Cause(
        "core/moe_block/test_moe_block_tkg",
        "'NoneType' object has no attribute 'dtype'",
        "upstream: asks for the dtype of a bias that the configuration does not have",
    ),
    Cause(
        "core/moe_block/test_moe_block_tkg",
        "Validation failed for ['out']",
        "upstream: for one token two experts lie closer than bfloat16 tells apart; the reference takes the other one",
        among="float8_e4m3fn_x4",
    ),
    Cause(
        "",
        "core_barrier: `data` must be in shared_hbm",
        "upstream: core_barrier on a tile in SBUF; its documentation demands shared HBM",
    ),
    Cause(
        "core/qkv/test_qkv_cte",
        "'module' object is not callable",
        "upstream: calls a module in place of the function in it",
    ),
    Cause(
        "core/qkv/test_qkv_cte",
        "is_input_swizzled",
        "upstream: passes a parameter that the kernel does not have",
    ),
    Cause(
        "experimental/mxfp_subkernels/test_mxfp_load",
        "out_data_hbm",
        "upstream: the suite casts packed words to float32, the reference has their bits as float32",
    ),
    Cause(
        "",
        "nkilib.experimental.subkernels",
        "upstream: the package of the kernel is not published",
    ),
    Cause(
        "experimental/transformer/test_attention_block_tkg",
        "Incorrect shape for qkv weight scale",
        "upstream: gives scales of a shape that the kernel refuses by its own check",
    ),
    Cause(
        "core/attention/test_attention_cte",
        "range_select: `bound0` must be one value per partition",
        "upstream: gives bounds of 128 partitions to a last tile with fewer, and the stub demands as many",
    ),
    Cause(
        "core/moe/moe_cte/test_moe_cte",
        "tensor_copy: got an unexpected keyword argument 'dtype'",
        "upstream, at 2.28: a keyword that NKI refuses since 0.2 (release-notes/components/nki.rst)",
    ),
    Cause(
        "core/mlp/test_mlp_cte",
        "name `up_scales_sbuf` is not defined",
        "upstream, at 2.28: hands on a name that no line gives a value",
    ),
    Cause(
        "core/topk/test_topk",
        "a nki.language function was called outside a kernel",
        "nki_lab: at 2.28 the test asks for the launch grid outside a kernel; no page says what it gives there",
    ),
    Cause(
        "core/embeddings/test_rope",
        "sbuf of trn2 holds",
        "nki_lab: two tiles of 64 partitions do not share the bytes of one of 128",
    ),
    Cause(
        "experimental/loss/test_cross_entropy_forward",
        "nl.ds of 0 elements",
        "upstream: gives one of two cores no rows, and NKI has no empty tensors",
    ),
)


def cause_of(run: Run, outcome: Outcome) -> Cause | None:
    """Return why a configuration failed, if the cause is known."""
    return next((cause for cause in CAUSES if cause.covers(run, outcome)), None)


def surprises(run: Run, outcomes: list[Outcome]) -> list[str]:
    """Return the failures that have no known cause."""
    return [
        f"{run}: {o.name} fails, for no known cause: {o.message}"
        for o in outcomes
        if o.outcome == "failed" and cause_of(run, o) is None
    ]


def ended(seen: list[tuple[Run, Outcome]]) -> list[str]:
    """Return the causes that no configuration of a whole run met."""
    met = {cause_of(run, outcome) for run, outcome in seen}
    return [f"no configuration met: {c.file}: {c.reason}" for c in CAUSES if c not in met]
