"""The numbers that are the same on every NeuronCore generation."""

from __future__ import annotations

from nki_lab.targets.facts import (
    ASSUMED,
    COSTS,
    DIGITISED,
    DMA_BANDWIDTH,
    DMA_OVERVIEW,
    DOCUMENTED,
    ISA,
    SHARED_API,
    TRN1_ARCH,
    TRN3_ARCH,
    Fact,
)

_START_PARTITIONS = ((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,)))
_NO_TEXT = "no page names a value; the published examples never need another one"

COMMON: dict[str, Fact] = {
    # --- on-chip memory ---
    "partitions": Fact(128, "partitions", f"{TRN1_ARCH}:78", DOCUMENTED, "SBUF and PSUM"),
    "psum_banks": Fact(8, "banks", f"{TRN1_ARCH}:790", DOCUMENTED),
    "psum_bank_bytes": Fact(2048, "bytes", f"{TRN1_ARCH}:790", DOCUMENTED, "512 float32 values"),
    "sbuf_min_align_bytes": Fact(1, "bytes", "", ASSUMED, _NO_TEXT),
    "psum_min_align_bytes": Fact(4, "bytes", "", ASSUMED, f"{_NO_TEXT}; PSUM adds 4-byte words"),
    "sbuf_free_max_elements": Fact(65536, "elements", f"{TRN1_ARCH}:336", DOCUMENTED),
    "psum_free_max_elements": Fact(4096, "elements", f"{TRN1_ARCH}:336", DOCUMENTED),
    "access_pattern_free_dims_max": Fact(4, "", "nki/deep-dives/nki-aps.rst:36", DOCUMENTED),
    "view_dims_max": Fact(5, "", "nki/get-started/nki-language-guide.rst:208", DOCUMENTED),
    "start_partitions": Fact(_START_PARTITIONS, "", f"{TRN1_ARCH}:711", DOCUMENTED),
    # --- instructions of every engine ---
    "min_interval_cycles": Fact(64, "cycles", f"{COSTS}:171", DOCUMENTED),
    "dynamic_address_min_cycles": Fact(600, "cycles", f"{COSTS}:1438", DOCUMENTED),
    "dependent_overhead_cycles": Fact(100, "cycles", f"{TRN1_ARCH}:403", DOCUMENTED),
    "registers_per_sequencer": Fact(64, "registers", f"{ISA}:3053", DOCUMENTED),
    "semaphore_hop_ns": Fact(
        40,
        "ns",
        "nki/img/overviews/nki-dma-intro-3.png",
        DIGITISED,
        "31 ns read off, +-20 ns",
        fitted=(("tensor_exp ex1", 1),),
    ),
    "loop_trip_ns": Fact(50, "ns", "", ASSUMED, "branch and register update: tens of ns"),
    # --- Tensor Engine ---
    "pe_rows": Fact(128, "rows", f"{TRN1_ARCH}:99", DOCUMENTED),
    "pe_columns": Fact(128, "columns", f"{TRN1_ARCH}:99", DOCUMENTED),
    "matmul_stationary_free_max": Fact(128, "elements", f"{TRN1_ARCH}:166", DOCUMENTED),
    "matmul_min_cycles": Fact(64, "cycles", f"{TRN1_ARCH}:267", DOCUMENTED),
    "matmul_fp32_cycle_factor": Fact(4, "", f"{COSTS}:906", DOCUMENTED),
    "load_stationary_columns_per_cycle": Fact(4, "columns", f"{TRN1_ARCH}:299", DOCUMENTED),
    # --- Vector Engine ---
    "vector_copy_cycles": Fact(1.0, "cycles", f"{COSTS}:1398", DOCUMENTED),
    "vector_binary_psum_cycles": Fact(1.0, "cycles", f"{COSTS}:1803", DOCUMENTED),
    "vector_ternary_fast_cycles": Fact(1.0, "cycles", f"{COSTS}:1221", DOCUMENTED),
    "vector_scan_cycles": Fact(2.0, "cycles", f"{COSTS}:1888", DOCUMENTED),
    "vector_exponential_cycles": Fact(
        0.25, "cycles", f"{TRN3_ARCH}:179", DOCUMENTED, "4x Scalar's rate; only trn3 has it"
    ),
    "vector_random_cycles": Fact(
        1.0, "cycles", "", ASSUMED, "no page gives the rate before trn3; as one element is copied"
    ),
    "vector_bn_aggr_cycles": Fact(13.0, "cycles", f"{COSTS}:337", DOCUMENTED),
    "vector_reduce_cycles": Fact(1.0, "cycles", f"{TRN1_ARCH}:393", DOCUMENTED),
    "vector_reduce_fast_cycles": Fact(
        0.5, "cycles", COSTS, DOCUMENTED, "bfloat16 add or max; no newer page repeats it"
    ),
    "vector_reciprocal_cycles": Fact(
        8.0,
        "cycles",
        f"{SHARED_API}:230",
        DOCUMENTED,
        "low confidence: a published trn1 run was faster",
    ),
    "vector_memset_fast_cycles": Fact(0.5, "cycles", f"{COSTS}:714", DOCUMENTED),
    "vector_predicated_sbuf_cycles": Fact(2.0, "cycles", COSTS, DOCUMENTED),
    "vector_transpose_max": Fact(32, "", f"{ISA}:858", DOCUMENTED),
    # --- Scalar Engine ---
    "scalar_issue_overhead_cycles": Fact(
        0, "cycles", "", ASSUMED, "no published run separates it from the data cycles"
    ),
    "scalar_read_accumulator_cycles": Fact(64, "cycles", f"{TRN1_ARCH}:492", DOCUMENTED),
    # --- GpSimd Engine ---
    "gpsimd_start_cycles": Fact(150, "cycles", f"{COSTS}:292", DOCUMENTED),
    "gpsimd_cycles": Fact(
        1.0, "cycles", f"{COSTS}:291", DOCUMENTED, "iota and affine_select; assumed for the rest"
    ),
    "gpsimd_rsqrt_cycles": Fact(
        4.0,
        "cycles",
        f"{SHARED_API}:262",
        DOCUMENTED,
        "four times Scalar's; their clocks are equal",
    ),
    "gpsimd_fixed_latency_ns": Fact(
        0, "ns", "", ASSUMED, "the documented start cycles are taken to cover it"
    ),
    # --- limits of single instructions ---
    "bn_stats_free_max": Fact(512, "elements", f"{ISA}:1961", DOCUMENTED),
    "max8_free_min": Fact(8, "elements", f"{ISA}:2423", DOCUMENTED),
    "max8_free_max": Fact(16384, "elements", f"{ISA}:2423", DOCUMENTED),
    # --- DMA ---
    "dma_engines": Fact(16, "engines", f"{DMA_BANDWIDTH}:39", DOCUMENTED, "of one core"),
    "dma_rings_per_engine": Fact(16, "rings", f"{DMA_OVERVIEW}:29", DOCUMENTED),
    "dma_packet_bytes": Fact(
        4096, "bytes", "neuron-runtime/explore/compute-comm-overlap.rst:83", DOCUMENTED
    ),
    "dma_static_issue_ns": Fact(
        46, "ns", "", ASSUMED, "a trigger is an instruction: 64 cycles at 1.4 GHz"
    ),
    "dma_completion_ns": Fact(
        310,
        "ns",
        "nki/img/overviews/nki-dma-intro-3.png",
        DIGITISED,
        "295 to 320 ns in three traces of trn1 and trn2",
        fitted=(("tensor_exp ex1", 1), ("tensor_exp ex2", 1), ("vector_add_stream", 1)),
    ),
    "dma_efficient_bytes_per_partition": Fact(2048, "bytes", f"{DMA_BANDWIDTH}:81", DOCUMENTED),
}
