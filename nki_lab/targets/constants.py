"""The constants of a target that times follow from: what each governs, and between which values it may lie."""

from __future__ import annotations

from typing import NamedTuple

#: Values that a constant may have, by its unit.
_RANGES: dict[str, tuple[float, float]] = {
    "ns": (0, 1_000_000),
    "cycles": (0, 100_000),
    "GHz": (0.1, 10),
    "B/ns": (0.1, 100_000),
    "columns": (1, 128),
}
_SHARE = (0.01, 1.0)


class Constant(NamedTuple):
    """What a constant is about.

    Attributes:
        governs: the instructions or transfers whose times follow from it.
        range: the least and the greatest value; None for that of its unit.
    """

    governs: str
    range: tuple[float, float] | None = None

    def between(self, unit: str) -> tuple[float, float]:
        """Return the least and the greatest value, where the constant has this unit."""
        return self.range or _RANGES[unit]


#: Every constant of `Target` that changes a modelled time and no program.
TIMING: dict[str, Constant] = {
    # --- every engine ---
    "strided_access_factor": Constant("instructions with a wide stride", (1, 100)),
    "min_interval_cycles": Constant("the shortest instructions"),
    "dynamic_address_min_cycles": Constant("instructions with an address in a register"),
    "semaphore_hop_ns": Constant("signals between engines"),
    "loop_trip_ns": Constant("trips of device loops"),
    # --- Tensor Engine ---
    "tensor_ghz": Constant("Tensor: all instructions"),
    "matmul_min_cycles": Constant("Tensor: products of few columns"),
    "matmul_fp32_cycle_factor": Constant("Tensor: products of float32", (1, 100)),
    "load_stationary_columns_per_cycle": Constant("Tensor: loads of weights"),
    "tensor_fixed_latency_ns": Constant("Tensor: results of every product"),
    "pe_throttle_fraction": Constant("Tensor: products after idling", (0.01, 0.99)),
    "pe_throttle_window_ns": Constant("Tensor: products after idling", (1, 1_000_000)),
    # --- Vector Engine ---
    "vector_ghz": Constant("Vector: all instructions"),
    "vector_issue_overhead_cycles": Constant("Vector: all instructions"),
    "vector_fixed_latency_ns": Constant("Vector: results of every instruction"),
    "vector_copy_cycles": Constant("Vector: copies and tensor_scalar"),
    "vector_copy_fast_sbuf_cycles": Constant("Vector: copies of 16 bits, SBUF to SBUF"),
    "vector_copy_fast_strided_cycles": Constant("Vector: copies of 16 bits, not contiguous"),
    "vector_copy_fast_psum_cycles": Constant("Vector: copies of 16 bits from or to PSUM"),
    "vector_copy_fast_to_8bit_cycles": Constant("Vector: copies of 16 bits to an 8-bit float"),
    "vector_binary_cycles": Constant("Vector: tensor_tensor in SBUF"),
    "vector_binary_psum_cycles": Constant("Vector: tensor_tensor with PSUM"),
    "vector_binary_fast_cycles": Constant("Vector: tensor_tensor of 16 bits in SBUF"),
    "vector_ternary_cycles": Constant("Vector: scalar_tensor_tensor"),
    "vector_ternary_fast_cycles": Constant("Vector: scalar_tensor_tensor of bfloat16"),
    "vector_scan_cycles": Constant("Vector: scans"),
    "vector_exponential_cycles": Constant("Vector: exponential"),
    "vector_random_cycles": Constant("Vector: random words"),
    "vector_bn_aggr_cycles": Constant("Vector: bn_aggr"),
    "vector_reduce_cycles": Constant("Vector: reductions"),
    "vector_reduce_fast_cycles": Constant("Vector: reductions of bfloat16"),
    "vector_reciprocal_cycles": Constant("Vector: reciprocal"),
    "vector_memset_fast_cycles": Constant("Vector: memset of 16 bits"),
    "vector_predicated_sbuf_cycles": Constant("Vector: predicated copies in SBUF"),
    # --- Scalar Engine ---
    "scalar_ghz": Constant("Scalar: all instructions"),
    "scalar_issue_overhead_cycles": Constant("Scalar: all instructions"),
    "scalar_fixed_latency_ns": Constant("Scalar: results of every instruction"),
    "scalar_copy_fast_cycles": Constant("Scalar: copies of narrow types"),
    "scalar_read_accumulator_cycles": Constant("Scalar: reductions beside an activation"),
    "scalar_table_load_ns": Constant("Scalar: loads of activation tables"),
    # --- GpSimd and Sync Engines ---
    "gpsimd_ghz": Constant("GpSimd: all instructions"),
    "gpsimd_start_cycles": Constant("GpSimd: all instructions"),
    "gpsimd_cycles": Constant("GpSimd: elements"),
    "gpsimd_rsqrt_cycles": Constant("GpSimd: rsqrt"),
    "gpsimd_fixed_latency_ns": Constant("GpSimd: results of every instruction"),
    "sync_ghz": Constant("Sync: all instructions"),
    # --- transfers ---
    "dma_bytes_per_ns": Constant("transfers: bytes"),
    "dma_descriptor_overhead_ns": Constant("transfers: descriptors"),
    "dma_static_issue_ns": Constant("transfers: triggers of descriptors that lie ready"),
    "dma_software_issue_ns": Constant("transfers: descriptors written by GpSimd"),
    "dma_hardware_issue_ns": Constant("transfers: descriptors made by hardware"),
    "dma_start_ns": Constant("transfers: trigger to first byte"),
    "dma_completion_ns": Constant("transfers: last byte to the waiting engine"),
    "dma_transpose_hbm_efficiency": Constant("transfers: transposes from HBM", _SHARE),
    "dma_transpose_sbuf_efficiency": Constant("transfers: transposes within SBUF", _SHARE),
    "hbm_bytes_per_ns": Constant("transfers that HBM limits"),
    # --- the program around the kernel ---
    "program_overhead_min_ns": Constant("time before the kernel"),
    "program_overhead_max_ns": Constant("time before the kernel"),
}
