"""The numbers of trn2 (NeuronCore-v3)."""

from __future__ import annotations

from nki_lab.targets.facts import (
    ASSUMED,
    DGE,
    DIGITISED,
    DMA_BANDWIDTH,
    DMA_OVERVIEW,
    DOCUMENTED,
    EXPLORER_SCHEMA,
    EXPLORER_SUMMARY,
    GENERATED,
    ISA,
    PRINTED,
    SHARED_API,
    SIMULATOR,
    TRN1_ARCH,
    TRN2_ARCH,
    Fact,
)
from nki_lab.targets.neuroncore import COMMON
from nki_lab.targets.spec import build_target

_NKI_LIBRARY = "github.com/aws-neuron/nki-library src/nkilib_src/nkilib"
_DMA_TRACE = "nki/img/overviews/nki-dma-intro-3.png"
_VECTOR_ADD_TRACE = "github.com/stanford-cs149/asst4-trainium2 handout/profiler_gui.png"
_NORM_TRACE = "nki/library/specs/images/profile_phase_2.png"
_QUANTIZE_TRACE = "nki/library/specs/images/profile_phase_3.png"
_COPY_RUN = "nki/guides/tutorials/kernel-optimization.rst:337"

TRN2 = build_target(
    COMMON
    | {
        # --- identity ---
        "name": Fact("trn2", "", f"{SIMULATOR}:114", DOCUMENTED),
        "aliases": Fact(("gen3",), "", f"{ISA}:117", DOCUMENTED),
        "generation": Fact(3, "", f"{ISA}:117", DOCUMENTED),
        "core_name": Fact("NeuronCore-v3", "", f"{SIMULATOR}:114", DOCUMENTED),
        "cores_per_chip": Fact(8, "cores", f"{TRN2_ARCH}:15", DOCUMENTED),
        "lnc_max": Fact(2, "cores", f"{ISA}:2618", DOCUMENTED),
        # --- on-chip memory ---
        "sbuf_bytes_per_partition": Fact(224 * 1024, "bytes", f"{TRN2_ARCH}:39", DOCUMENTED),
        "sbuf_reserved_bytes_per_partition": Fact(
            16384 + 8,
            "bytes",
            f"{_NKI_LIBRARY}/core/mlp/mlp_cte/mlp_cte_constants.py:46",
            DOCUMENTED,
            "16 KiB for descriptors written at run time and 8 for evaluation; the library's "
            "further 256 or 520 bytes are its own identity matrix",
        ),
        "strided_access_bytes": Fact(
            16, "bytes", f"{TRN1_ARCH}:758", DOCUMENTED, "stated for NeuronCore-v2"
        ),
        "strided_access_factor": Fact(
            2.0, "", f"{TRN1_ARCH}:761", DOCUMENTED, "stated for NeuronCore-v2"
        ),
        "tensor_access_cycles": Fact(
            60, "cycles", f"{TRN1_ARCH}:774", DOCUMENTED, "stated for NeuronCore-v2"
        ),
        "core_ghz": Fact(1.2, "GHz", f"{EXPLORER_SCHEMA}:3364", DOCUMENTED),
        # --- Tensor Engine ---
        "tensor_ghz": Fact(2.4, "GHz", f"{TRN2_ARCH}:52", DOCUMENTED),
        "pe_tile_rows": Fact((128, 64, 32), "rows", f"{ISA}:518", DOCUMENTED),
        "pe_tile_columns": Fact((128, 64, 32), "columns", f"{ISA}:519", DOCUMENTED),
        "matmul_moving_free_max_fp32": Fact(512, "elements", f"{ISA}:612", DOCUMENTED),
        "matmul_moving_free_max_bf16": Fact(512, "elements", f"{ISA}:612", DOCUMENTED),
        "matmul_psum_dtypes": Fact(frozenset({"float32"}), "", f"{ISA}:588", DOCUMENTED),
        "matmul_fp32_passes": Fact(
            2, "passes", _COPY_RUN, PRINTED, "65,536 MATMULs for 32,768 calls, 427 to 430 ns each"
        ),
        "tensor_fixed_latency_ns": Fact(
            166, "ns", "", ASSUMED, "the trn1 value in cycles at the trn2 clock"
        ),
        "pe_throttle_fraction": Fact(0.5, "", f"{EXPLORER_SUMMARY}:131", DOCUMENTED),
        "pe_throttle_window_ns": Fact(3000, "ns", f"{EXPLORER_SUMMARY}:131", DOCUMENTED),
        # --- Vector Engine ---
        "vector_ghz": Fact(0.96, "GHz", f"{TRN2_ARCH}:56", DOCUMENTED),
        "vector_issue_overhead_cycles": Fact(
            80,
            "cycles",
            _NORM_TRACE,
            DIGITISED,
            "661 ns from one scalar_tensor_tensor of N=512 to the next are 122 cycles more than N; 80 of them are "
            "taken to be the engine's own",
            fitted=(("rmsnorm_quant", 1),),
        ),
        "vector_fixed_latency_ns": Fact(
            148,
            "ns",
            _NORM_TRACE,
            DIGITISED,
            "128 to 167 ns in three traces",
            fitted=(("rmsnorm_quant", 2), ("vector_add_stream", 1)),
        ),
        "vector_fast_bits": Fact(frozenset({16}), "bits", f"{TRN2_ARCH}:228", DOCUMENTED),
        "vector_copy_fast_sbuf_cycles": Fact(0.25, "cycles", f"{TRN2_ARCH}:226", DOCUMENTED),
        "vector_copy_fast_strided_cycles": Fact(0.5, "cycles", f"{TRN2_ARCH}:234", DOCUMENTED),
        "vector_copy_fast_psum_cycles": Fact(0.5, "cycles", f"{TRN2_ARCH}:235", DOCUMENTED),
        "vector_copy_fast_to_8bit_cycles": Fact(
            0.5,
            "cycles",
            _QUANTIZE_TRACE,
            DIGITISED,
            "bfloat16 to FP8, N=16384, takes 8810 ns",
            fitted=(("rmsnorm_quant", 1),),
        ),
        "vector_binary_cycles": Fact(
            1.0,
            "cycles",
            _VECTOR_ADD_TRACE,
            DIGITISED,
            "float32 add of N=2000 takes 2250 ns; the older formula says 2",
            fitted=(("vector_add_stream", 1),),
        ),
        "vector_binary_fast_cycles": Fact(
            0.5, "cycles", f"{TRN2_ARCH}:237", DOCUMENTED, "taken as half of one cycle"
        ),
        "vector_ternary_cycles": Fact(
            1.0,
            "cycles",
            _NORM_TRACE,
            DIGITISED,
            "661 ns at N=512; the older formula says 2",
            fitted=(("rmsnorm_quant", 1),),
        ),
        # --- Scalar Engine ---
        "scalar_ghz": Fact(1.2, "GHz", f"{TRN2_ARCH}:60", DOCUMENTED),
        "scalar_fixed_latency_ns": Fact(
            300,
            "ns",
            _DMA_TRACE,
            DIGITISED,
            "400, 3710, 13960 ns at N=128, 4096, 16384",
            fitted=(("tensor_exp ex1", 1), ("tensor_exp ex2", 1), ("rmsnorm_quant", 1)),
        ),
        "scalar_copy_fast_cycles": Fact(1.0, "cycles", f"{TRN2_ARCH}:59", DOCUMENTED),
        "scalar_table_load_ns": Fact(
            1280,
            "ns",
            _DMA_TRACE,
            DIGITISED,
            "two traces",
            fitted=(("tensor_exp ex1", 1), ("rmsnorm_quant", 1)),
        ),
        # --- GpSimd and Sync Engines ---
        "gpsimd_ghz": Fact(1.2, "GHz", f"{TRN2_ARCH}:64", DOCUMENTED),
        "sync_ghz": Fact(1.2, "GHz", "", ASSUMED, "no page gives it; as Scalar and GpSimd"),
        # --- DMA ---
        "dma_bytes_per_ns": Fact(23.0, "B/ns", f"{DMA_BANDWIDTH}:62", DOCUMENTED),
        "dma_peak_bytes_per_ns": Fact(27.2, "B/ns", f"{DMA_OVERVIEW}:16", DOCUMENTED),
        "dma_descriptor_overhead_ns": Fact(
            6.0,
            "ns",
            _DMA_TRACE,
            DIGITISED,
            "2 KiB move at 22 B/ns instead of 23",
            fitted=(("tensor_exp ex2", 1),),
        ),
        "dma_software_issue_ns": Fact(
            604,
            "ns",
            _COPY_RUN,
            DIGITISED,
            "66,048 copies fill a run of 39.89 ms",
            fitted=(("kernel_optimization_v2_tiled", 1),),
        ),
        "dma_hardware_issue_ns": Fact(600, "ns", f"{DGE}:124", DOCUMENTED),
        "dma_hardware_blocks": Fact(2, "blocks", f"{TRN2_ARCH}:347", DOCUMENTED),
        "dma_start_ns": Fact(
            745,
            "ns",
            _DMA_TRACE,
            DIGITISED,
            "760 ns from Sync, 731 from GpSimd",
            fitted=(("tensor_exp ex1", 1), ("tensor_exp ex2", 1)),
        ),
        "dma_transpose_hbm_efficiency": Fact(0.9, "", f"{TRN2_ARCH}:321", DOCUMENTED),
        "dma_transpose_sbuf_efficiency": Fact(0.5, "", f"{TRN2_ARCH}:340", DOCUMENTED),
        # --- device memory ---
        "hbm_bytes_per_chip": Fact(96 << 30, "bytes", f"{TRN2_ARCH}:16", DOCUMENTED),
        "hbm_stacks_per_chip": Fact(4, "stacks", f"{TRN2_ARCH}:16", DOCUMENTED),
        "hbm_bytes_per_ns": Fact(
            362.5,
            "B/ns",
            "about-neuron/arch/neuron-hardware/trainium2.rst:30",
            DIGITISED,
            "an eighth of 2.9 TB/s; the profiler counts with 358, the architecture guide with 375",
        ),
        "hbm_bytes_per_ns_per_chip": Fact(
            2900.0,
            "B/ns",
            "about-neuron/arch/neuron-hardware/trainium2.rst:30",
            DOCUMENTED,
            "the architecture guide says 3 TB/s",
        ),
        # --- the program around the kernel ---
        "program_overhead_min_ns": Fact(
            13000, "ns", _DMA_TRACE, DIGITISED, "three traces", (("vector_add_stream", 1),)
        ),
        "program_overhead_max_ns": Fact(
            27000, "ns", _DMA_TRACE, DIGITISED, "three traces", (("tensor_exp ex1", 1),)
        ),
    },
    features={
        "matmul_double_row": Fact(True, "", f"{ISA}:507", DOCUMENTED),
        "tensor_transpose_mode": Fact(True, "", f"{ISA}:561", DOCUMENTED),
        "range_select": Fact(True, "", f"{ISA}:2824", DOCUMENTED),
        "rand_state": Fact(True, "", f"{ISA}:2201", DOCUMENTED),
        "gpsimd_rng": Fact(True, "", f"{ISA}:2115", DOCUMENTED),
        "scalar_tensor_copy": Fact(True, "", f"{ISA}:403", DOCUMENTED),
        "scalar_tensor_scalar": Fact(True, "", f"{ISA}:1106", DOCUMENTED),
        "scalar_reciprocal_bias": Fact(
            True, "", f"{SHARED_API}:256", DOCUMENTED, "only v2 lacks it"
        ),
        "vector_performance_mode": Fact(True, "", f"{TRN2_ARCH}:222", DOCUMENTED),
        "scalar_activation_bias": Fact(True, "", f"{ISA}:1406", DOCUMENTED),
        "scalar_reduce_any": Fact(True, "", f"{ISA}:1476", DOCUMENTED),
        "nonzero_with_count": Fact(True, "", f"{ISA}:3226", DOCUMENTED),
        "parallel_vector_gpsimd": Fact(True, "", f"{TRN2_ARCH}:268", DOCUMENTED),
        "parallel_vector_scalar": Fact(True, "", f"{TRN2_ARCH}:271", DOCUMENTED),
        "hwdge": Fact(True, "", f"{DGE}:176", DOCUMENTED),
        "dma_indirect": Fact(True, "", f"{DGE}:102", DOCUMENTED),
        "split_collectives": Fact(
            True, "", f"{GENERATED}/nki.collectives.all_to_all_v_prepare.html", DOCUMENTED
        ),
        "lnc2": Fact(True, "", f"{ISA}:2618", DOCUMENTED),
    },
)
