"""The numbers of trn3 (NeuronCore-v4). None of its latencies has been published."""

from __future__ import annotations

from nki_lab.targets.facts import (
    ASSUMED,
    COLLECTIVES,
    DGE,
    DIGITISED,
    DMA_BANDWIDTH,
    DMA_OVERVIEW,
    DOCUMENTED,
    EXPLORER_SUMMARY,
    GENERATED,
    ISA,
    LANGUAGE,
    NKI_RELEASES,
    SIMULATOR,
    TRN3_ARCH,
    Fact,
)
from nki_lab.targets.neuroncore import COMMON
from nki_lab.targets.spec import build_target
from nki_lab.targets.trn2 import TRN2

_AS_TRN2 = "no measurement of trn3 is published; the trn2 value"
_CHIP = "about-neuron/arch/neuron-hardware/trainium3.rst:35"


def _as_trn2(field: str) -> Fact:
    """Carry a trn2 number over as an assumption."""
    return Fact(getattr(TRN2, field), TRN2.sources[field].unit, "", ASSUMED, _AS_TRN2)


_CARRIED_OVER = (
    "sbuf_reserved_bytes_per_partition",
    "strided_access_bytes",
    "strided_access_factor",
    "tensor_access_cycles",
    "matmul_fp32_passes",
    "tensor_fixed_latency_ns",
    "vector_issue_overhead_cycles",
    "vector_fixed_latency_ns",
    "vector_binary_cycles",
    "vector_binary_fast_cycles",
    "vector_ternary_cycles",
    "vector_copy_fast_sbuf_cycles",
    "vector_copy_fast_strided_cycles",
    "vector_copy_fast_psum_cycles",
    "vector_copy_fast_to_8bit_cycles",
    "scalar_fixed_latency_ns",
    "scalar_table_load_ns",
    "dma_descriptor_overhead_ns",
    "dma_software_issue_ns",
    "dma_hardware_blocks",
    "dma_start_ns",
    "dma_transpose_hbm_efficiency",
    "dma_transpose_sbuf_efficiency",
    "program_overhead_min_ns",
    "program_overhead_max_ns",
)

TRN3 = build_target(
    COMMON
    | {field: _as_trn2(field) for field in _CARRIED_OVER}
    | {
        # --- identity ---
        "name": Fact("trn3", "", f"{SIMULATOR}:116", DOCUMENTED),
        "aliases": Fact(("gen4",), "", f"{ISA}:120", DOCUMENTED),
        "generation": Fact(4, "", f"{ISA}:120", DOCUMENTED),
        "core_name": Fact("NeuronCore-v4", "", f"{SIMULATOR}:116", DOCUMENTED),
        "cores_per_chip": Fact(8, "cores", f"{TRN3_ARCH}:15", DOCUMENTED),
        "lnc_max": Fact(2, "cores", f"{ISA}:2618", DOCUMENTED),
        # --- on-chip memory ---
        "sbuf_bytes_per_partition": Fact(
            256 * 1024, "bytes", f"{TRN3_ARCH}:36", DOCUMENTED, "32 MiB over 128 partitions"
        ),
        "core_ghz": Fact(1.2, "GHz", "", ASSUMED, "the clock of Scalar and GpSimd, as on trn2"),
        # --- Tensor Engine ---
        "tensor_ghz": Fact(2.4, "GHz", f"{TRN3_ARCH}:49", DOCUMENTED),
        "pe_tile_rows": Fact((128, 64, 32), "rows", f"{ISA}:518", DOCUMENTED),
        "pe_tile_columns": Fact((128, 64, 32), "columns", f"{ISA}:519", DOCUMENTED),
        "matmul_moving_free_max_fp32": Fact(4096, "elements", f"{ISA}:613", DOCUMENTED),
        "matmul_moving_free_max_bf16": Fact(8192, "elements", f"{ISA}:614", DOCUMENTED),
        "matmul_psum_dtypes": Fact(
            frozenset({"float32", "bfloat16"}), "", f"{ISA}:588", DOCUMENTED
        ),
        "pe_throttle_fraction": Fact(0.5, "", f"{EXPLORER_SUMMARY}:131", DOCUMENTED),
        "pe_throttle_window_ns": Fact(3000, "ns", f"{EXPLORER_SUMMARY}:131", DOCUMENTED),
        # --- Vector Engine ---
        "vector_ghz": Fact(1.2, "GHz", f"{TRN3_ARCH}:53", DOCUMENTED),
        "vector_fast_bits": Fact(
            frozenset({8, 16}),
            "bits",
            f"{TRN3_ARCH}:52",
            DIGITISED,
            "FP8 shares the wide data path",
        ),
        "vector_random_cycles": Fact(
            0.25, "cycles", f"{TRN3_ARCH}:206", DOCUMENTED, "4 words per lane and cycle"
        ),
        # --- Scalar Engine ---
        "scalar_ghz": Fact(1.2, "GHz", f"{TRN3_ARCH}:57", DOCUMENTED),
        "scalar_copy_fast_cycles": Fact(0.5, "cycles", f"{TRN3_ARCH}:218", DOCUMENTED),
        # --- GpSimd and Sync Engines ---
        "gpsimd_ghz": Fact(1.2, "GHz", f"{TRN3_ARCH}:61", DOCUMENTED),
        "sync_ghz": Fact(1.2, "GHz", "", ASSUMED, "no page gives it; as Scalar and GpSimd"),
        # --- DMA ---
        "dma_bytes_per_ns": Fact(33.0, "B/ns", f"{DMA_BANDWIDTH}:63", DOCUMENTED),
        "dma_peak_bytes_per_ns": Fact(38.4, "B/ns", f"{DMA_OVERVIEW}:16", DOCUMENTED),
        "dma_hardware_issue_ns": Fact(
            600, "ns", f"{DGE}:124", DOCUMENTED, "stated for NeuronCore-v3 and later"
        ),
        # --- device memory ---
        "hbm_bytes_per_chip": Fact(144 << 30, "bytes", f"{TRN3_ARCH}:16", DOCUMENTED),
        "hbm_stacks_per_chip": Fact(4, "stacks", f"{TRN3_ARCH}:16", DOCUMENTED),
        "hbm_bytes_per_ns": Fact(
            587.5, "B/ns", f"{TRN3_ARCH}:16", DIGITISED, f"an eighth of 4.7 TB/s; 4.9 in {_CHIP}"
        ),
        "hbm_bytes_per_ns_per_chip": Fact(
            4700.0, "B/ns", f"{TRN3_ARCH}:16", DOCUMENTED, f"4.9 TB/s in {_CHIP}"
        ),
    },
    # A NeuronSwitch takes no collectives in two parts (nki/api/generated/nki.collectives.all_to_all_v_prepare.html).
    features={n: f for n, f in TRN2.feature_sources.items() if n != "split_collectives"}
    | {
        "matmul_mx": Fact(True, "", f"{ISA}:719", DOCUMENTED),
        "matmul_float8_e4m3fn": Fact(True, "", f"{ISA}:578", DOCUMENTED),
        "matmul_bf16_psum": Fact(True, "", f"{ISA}:588", DOCUMENTED),
        "matmul_onto_written_psum": Fact(
            True, "", f"{ISA}:553", DIGITISED, "the warning names only v2 and v3"
        ),
        "background_transpose": Fact(True, "", f"{TRN3_ARCH}:148", DOCUMENTED),
        "quantize_mx": Fact(True, "", f"{ISA}:2746", DOCUMENTED),
        "exponential": Fact(True, "", f"{ISA}:2287", DOCUMENTED),
        "rand2": Fact(True, "", f"{ISA}:2247", DOCUMENTED),
        "vector_rand_state": Fact(True, "", f"{ISA}:2202", DOCUMENTED),
        "scalar_tensor_scalar_any": Fact(
            True,
            "",
            f"{TRN3_ARCH}:218",
            DIGITISED,
            "same instruction as on Vector; limits for trn2",
        ),
        "gpsimd_activation": Fact(True, "", f"{GENERATED}/nki.isa.activation.html", DOCUMENTED),
        "activate2": Fact(True, "", f"{ISA}:1548", DOCUMENTED),
        "tensor_indirection": Fact(True, "", f"{LANGUAGE}:549", DOCUMENTED),
        "abs_max_abs_min": Fact(True, "", f"{LANGUAGE}:846", DOCUMENTED),
        "square_relu": Fact(True, "", f"{NKI_RELEASES}:228", DOCUMENTED),
        "dma_priority": Fact(True, "", f"{ISA}:371", DOCUMENTED),
        "neuron_switch": Fact(True, "", f"{COLLECTIVES}:254", DOCUMENTED),
    },
)
