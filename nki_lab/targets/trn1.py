"""The numbers of trn1 and inf2 (NeuronCore-v2)."""

from __future__ import annotations

from nki_lab.targets.facts import (
    ASSUMED,
    COSTS,
    DGE,
    DIGITISED,
    DMA_BANDWIDTH,
    DMA_OVERVIEW,
    DOCUMENTED,
    EXPLORER_SCHEMA,
    ISA,
    PRINTED,
    SIMULATOR,
    TRN1_ARCH,
    Fact,
)
from nki_lab.targets.neuroncore import COMMON
from nki_lab.targets.spec import build_target

_VECTOR_ADD_TRACE = "github.com/stanford-cs149/asst4-trainium handout/profiler_GUI.gif"

TRN1 = build_target(
    COMMON
    | {
        # --- identity ---
        "name": Fact("trn1", "", f"{SIMULATOR}:112", DOCUMENTED),
        "aliases": Fact(("inf2", "gen2"), "", f"{ISA}:114", DOCUMENTED),
        "generation": Fact(2, "", f"{ISA}:114", DOCUMENTED),
        "core_name": Fact("NeuronCore-v2", "", f"{SIMULATOR}:112", DOCUMENTED),
        "cores_per_chip": Fact(2, "cores", f"{TRN1_ARCH}:20", DOCUMENTED),
        "lnc_max": Fact(1, "cores", f"{ISA}:2618", DOCUMENTED, "LNC2 needs NeuronCore-v3"),
        # --- on-chip memory ---
        "sbuf_bytes_per_partition": Fact(192 * 1024, "bytes", f"{TRN1_ARCH}:76", DOCUMENTED),
        "sbuf_reserved_bytes_per_partition": Fact(
            0,
            "bytes",
            "github.com/aws-neuron/aws-neuron-sdk/issues/1060",
            PRINTED,
            "the compiler's error counts against 196608 bytes; the direct allocation guide of 2024 "
            "keeps addresses from 176 KiB on for the compiler",
        ),
        "strided_access_bytes": Fact(16, "bytes", f"{TRN1_ARCH}:758", DOCUMENTED),
        "strided_access_factor": Fact(2.0, "", f"{TRN1_ARCH}:761", DOCUMENTED),
        "tensor_access_cycles": Fact(60, "cycles", f"{TRN1_ARCH}:774", DOCUMENTED),
        "core_ghz": Fact(1.4, "GHz", f"{EXPLORER_SCHEMA}:3364", DOCUMENTED),
        # --- Tensor Engine ---
        "tensor_ghz": Fact(2.8, "GHz", f"{TRN1_ARCH}:67", DOCUMENTED),
        "pe_tile_rows": Fact((128, 64), "rows", f"{ISA}:517", DOCUMENTED),
        "pe_tile_columns": Fact((128, 64), "columns", f"{ISA}:519", DOCUMENTED),
        "matmul_moving_free_max_fp32": Fact(512, "elements", f"{ISA}:612", DOCUMENTED),
        "matmul_moving_free_max_bf16": Fact(512, "elements", f"{ISA}:612", DOCUMENTED),
        "matmul_psum_dtypes": Fact(frozenset({"float32"}), "", f"{ISA}:588", DOCUMENTED),
        "matmul_fp32_passes": Fact(
            2, "passes", "", ASSUMED, "as a trn2 profile shows; the total of 4x is documented"
        ),
        "tensor_fixed_latency_ns": Fact(
            142,
            "ns",
            "nki/img/nki_perf_guide/fig20-21.png",
            DIGITISED,
            "a matmul of N=128 is shown as 188 ns, 128 cycles of it streaming",
            fitted=(("MultiplyMoving", 1),),
        ),
        "pe_throttle_fraction": Fact(None, "", "", ASSUMED, "the throttling text omits trn1"),
        "pe_throttle_window_ns": Fact(None, "ns", "", ASSUMED, "the throttling text omits trn1"),
        # --- Vector Engine ---
        "vector_ghz": Fact(1.12, "GHz", f"{TRN1_ARCH}:69", DOCUMENTED),
        "vector_issue_overhead_cycles": Fact(
            0,
            "cycles",
            "github.com/ucb-bar/autocomp examples/trn-advanced/4_conv1d_trace.py:116",
            DIGITISED,
            "131,072 instructions of 3 elements in 8.0 ms: hardly more than the minimum interval",
            fitted=(("Autocomp conv1d depthwise", 4), ("Autocomp attention", 9), ("mamba", 8)),
        ),
        "vector_fixed_latency_ns": Fact(
            229,
            "ns",
            _VECTOR_ADD_TRACE,
            DIGITISED,
            "float32 add of N=2000 takes 3800 ns",
            fitted=(("vector_add_stream", 1),),
        ),
        "vector_fast_bits": Fact(frozenset({16}), "bits", f"{COSTS}:1803", DOCUMENTED),
        "vector_copy_fast_sbuf_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
        "vector_copy_fast_strided_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
        "vector_copy_fast_psum_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
        "vector_copy_fast_to_8bit_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
        "vector_reciprocal_cycles": Fact(
            2.8,
            "cycles",
            "github.com/zhang677/AccelOpt experiments/full_complete_local/profile_results.csv",
            DIGITISED,
            "what the busy time of Vector in NKIBench silu leaves for it; the formula says 8",
            fitted=(("NKIBench silu", 1),),
        ),
        "vector_binary_cycles": Fact(
            2.0, "cycles", f"{COSTS}:1803", DOCUMENTED, "two profiles agree"
        ),
        "vector_binary_fast_cycles": Fact(
            1.0, "cycles", f"{COSTS}:1803", DOCUMENTED, "bfloat16 add, subtract, multiply"
        ),
        "vector_ternary_cycles": Fact(2.0, "cycles", f"{COSTS}:1221", DOCUMENTED),
        # --- Scalar Engine ---
        "scalar_ghz": Fact(1.4, "GHz", f"{TRN1_ARCH}:71", DOCUMENTED),
        "scalar_fixed_latency_ns": Fact(
            150,
            "ns",
            "nki/img/nki_perf_guide/fig16.png",
            DIGITISED,
            "159 ns at N=1",
            fitted=(("activation [128,1]", 1),),
        ),
        "scalar_copy_fast_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
        "scalar_table_load_ns": Fact(
            368, "ns", "nki/img/neuron-profile-instruction-hover.png", PRINTED
        ),
        # --- GpSimd and Sync Engines ---
        "gpsimd_ghz": Fact(1.4, "GHz", f"{TRN1_ARCH}:73", DOCUMENTED),
        "sync_ghz": Fact(1.4, "GHz", "", ASSUMED, "no page gives it; as Scalar and GpSimd"),
        # --- DMA ---
        "dma_bytes_per_ns": Fact(
            17.0,
            "B/ns",
            f"{DMA_BANDWIDTH}:61",
            DOCUMENTED,
            "typical, not a cap: published kernels reach 294 to 303 GB/s over 16 engines",
        ),
        "dma_peak_bytes_per_ns": Fact(27.2, "B/ns", f"{DMA_OVERVIEW}:16", DOCUMENTED),
        "dma_descriptor_overhead_ns": Fact(
            12.0,
            "ns",
            "nki/img/nki_perf_guide/fig29.png",
            DIGITISED,
            "there 4 bytes take an engine 7 ns; 10 to 20 fit kernels of 2025, none those of 2024, which were slower",
            fitted=(
                ("Autocomp gemm", 5),
                ("Autocomp attention", 2),
                ("nki_matmul", 3),
                ("NKIBench bmm", 1),
            ),
        ),
        "dma_software_issue_ns": Fact(
            600, "ns", "", ASSUMED, "as measured on trn2; trn1 kernels mostly use static DMA"
        ),
        "dma_hardware_issue_ns": Fact(
            None, "ns", f"{DGE}:176", DOCUMENTED, "NeuronCore-v3 and later"
        ),
        "dma_hardware_blocks": Fact(0, "blocks", f"{DGE}:176", DOCUMENTED),
        "dma_start_ns": Fact(
            284,
            "ns",
            _VECTOR_ADD_TRACE,
            DIGITISED,
            "static descriptors",
            fitted=(("vector_add_stream", 1),),
        ),
        "dma_transpose_hbm_efficiency": Fact(
            None, "", "", ASSUMED, "only trn2 and later document a DMA transpose rate"
        ),
        "dma_transpose_sbuf_efficiency": Fact(
            None, "", "", ASSUMED, "only trn2 and later document a DMA transpose rate"
        ),
        # --- device memory ---
        "hbm_bytes_per_chip": Fact(32 << 30, "bytes", f"{TRN1_ARCH}:21", DOCUMENTED),
        "hbm_stacks_per_chip": Fact(2, "stacks", f"{TRN1_ARCH}:21", DOCUMENTED),
        "hbm_bytes_per_ns": Fact(
            410.0, "B/ns", "nki/img/nki_perf_guide/fig27.png", DIGITISED, "130.46 GB/s is 31.82 %"
        ),
        "hbm_bytes_per_ns_per_chip": Fact(820.0, "B/ns", f"{TRN1_ARCH}:21", DOCUMENTED),
        # --- the program around the kernel ---
        "program_overhead_min_ns": Fact(
            12500, "ns", _VECTOR_ADD_TRACE, DIGITISED, "one trace", (("vector_add_stream", 1),)
        ),
        "program_overhead_max_ns": Fact(
            12500, "ns", _VECTOR_ADD_TRACE, DIGITISED, "one trace", (("vector_add_stream", 1),)
        ),
    },
    features={},
)
