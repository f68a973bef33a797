"""Target: the numbers of one chip that compiling, simulating and timing read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from nki_lab.targets.engines import Engine
from nki_lab.targets.facts import Fact
from nki_lab.targets.features import FEATURES


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """Hold the numbers of one NeuronCore generation; `sources` says where each came from.

    Instances are compared by identity; there is one per chip (see `nki_lab.targets`). Code asks for
    a number or for `supports(feature)` and never for the name of a chip. Sizes are bytes
    (`_bytes`), times nanoseconds (`_ns`), costs cycles of their engine (`_cycles`), clocks GHz.
    """

    # --- identity ---
    name: str
    aliases: tuple[str, ...]
    generation: int  # of `nki.isa.get_nc_version()`: 3 is gen3
    core_name: str  # "NeuronCore-v3"
    cores_per_chip: int
    lnc_max: int  # physical cores one logical core may have

    # --- on-chip memory ---
    partitions: int
    sbuf_bytes_per_partition: int  # physical
    sbuf_reserved_bytes_per_partition: int  # at the top of a partition, not for kernels
    sbuf_min_align_bytes: int
    psum_banks: int
    psum_bank_bytes: int  # per partition
    psum_min_align_bytes: int
    sbuf_free_max_elements: int  # of one operand, per partition
    psum_free_max_elements: int
    access_pattern_free_dims_max: int
    view_dims_max: int
    start_partitions: tuple[
        tuple[int, tuple[int, ...]], ...
    ]  # (up to this number of partitions, may start at)
    strided_access_bytes: int  # a larger stride of the fastest axis ...
    strided_access_factor: float  # ... multiplies the time of the access
    tensor_access_cycles: int

    # --- instructions of every engine ---
    core_ghz: float  # the base clock profilers count core cycles with
    min_interval_cycles: int  # floor of the initiation interval
    dynamic_address_min_cycles: int  # floor when an address is in a register
    dependent_overhead_cycles: int  # what the guide adds to short or dependent instructions
    registers_per_sequencer: int
    semaphore_hop_ns: int
    loop_trip_ns: int

    # --- Tensor Engine ---
    tensor_ghz: float
    pe_rows: int
    pe_columns: int
    pe_tile_rows: tuple[int, ...]
    pe_tile_columns: tuple[int, ...]
    matmul_stationary_free_max: int
    matmul_moving_free_max_fp32: int  # with a float32 destination
    matmul_moving_free_max_bf16: int  # with a 16-bit destination
    matmul_psum_dtypes: frozenset[str]
    matmul_min_cycles: int
    matmul_fp32_cycle_factor: int  # over all passes
    matmul_fp32_passes: int  # MATMUL instructions a profile shows per nc_matmul
    load_stationary_columns_per_cycle: int
    tensor_fixed_latency_ns: int  # end of streaming to results visible in PSUM
    pe_throttle_fraction: float | None  # of peak after idling; None: no such limit known
    pe_throttle_window_ns: int | None

    # --- Vector Engine; cycles per element and partition ---
    vector_ghz: float
    vector_issue_overhead_cycles: int
    vector_fixed_latency_ns: int
    vector_fast_bits: frozenset[int]  # element widths the performance mode knows
    vector_copy_cycles: float  # tensor_copy, tensor_scalar: the general case
    vector_copy_fast_sbuf_cycles: float  # narrow, SBUF to SBUF, contiguous
    vector_copy_fast_strided_cycles: float  # narrow, SBUF to SBUF, not contiguous
    vector_copy_fast_psum_cycles: float  # narrow, contiguous, one side in PSUM
    vector_copy_fast_to_8bit_cycles: float  # narrow to an 8-bit float, SBUF to SBUF
    vector_binary_cycles: float  # tensor_tensor, both operands in SBUF
    vector_binary_psum_cycles: float  # one operand in PSUM
    vector_binary_fast_cycles: float  # all narrow, both operands in SBUF
    vector_ternary_cycles: float  # scalar_tensor_tensor
    vector_ternary_fast_cycles: float  # ... all bfloat16, (subtract, multiply), even size
    vector_scan_cycles: float
    vector_exponential_cycles: float
    vector_random_cycles: float  # per random word
    vector_bn_aggr_cycles: float  # per count, mean and variance
    vector_reduce_cycles: float
    vector_reduce_fast_cycles: float  # narrow add or max
    vector_reciprocal_cycles: float
    vector_memset_fast_cycles: float  # zeros of a 16-bit type
    vector_predicated_sbuf_cycles: float  # tensor_copy_predicated, both operands in SBUF
    vector_transpose_max: int  # partitions and elements of a block

    # --- Scalar Engine ---
    scalar_ghz: float
    scalar_issue_overhead_cycles: int
    scalar_fixed_latency_ns: int
    scalar_copy_fast_cycles: float  # tensor_copy, tensor_scalar of narrow types
    scalar_read_accumulator_cycles: int
    scalar_table_load_ns: int

    # --- GpSimd Engine ---
    gpsimd_ghz: float
    gpsimd_start_cycles: int
    gpsimd_cycles: float  # per element and partition
    gpsimd_rsqrt_cycles: float  # per element and partition, of the operator rsqrt
    gpsimd_fixed_latency_ns: int

    # --- Sync Engine ---
    sync_ghz: float

    # --- limits of single instructions ---
    bn_stats_free_max: int
    max8_free_min: int
    max8_free_max: int

    # --- DMA ---
    dma_engines: int
    dma_rings_per_engine: int
    dma_bytes_per_ns: float  # one engine, practical
    dma_peak_bytes_per_ns: float  # one engine, theoretical
    dma_packet_bytes: int
    dma_descriptor_overhead_ns: float  # added to the bytes of each descriptor
    dma_static_issue_ns: int  # trigger of descriptors that lie ready in memory
    dma_software_issue_ns: int  # descriptors written by GpSimd
    dma_hardware_issue_ns: int | None  # by the hardware block; None: there is none
    dma_hardware_blocks: int
    dma_start_ns: int  # trigger to first byte
    dma_completion_ns: int  # last byte to the waiting engine
    dma_transpose_hbm_efficiency: float | None  # of the copy rate; None: not documented
    dma_transpose_sbuf_efficiency: float | None
    dma_efficient_bytes_per_partition: int  # the guide's recommended minimum

    # --- device memory ---
    hbm_bytes_per_chip: int
    hbm_stacks_per_chip: int
    hbm_bytes_per_ns: float  # share of one core
    hbm_bytes_per_ns_per_chip: float

    # --- the program around the kernel ---
    program_overhead_min_ns: int
    program_overhead_max_ns: int

    features: frozenset[str]
    sources: Mapping[str, Fact]  # field name -> where its value came from
    feature_sources: Mapping[str, Fact]

    @property
    def chip(self) -> str:
        """The name of the chip, without that of an overlay."""
        return self.name.partition("+")[0]

    @property
    def sbuf_usable_bytes_per_partition(self) -> int:
        """Bytes of one SBUF partition a kernel may use."""
        return self.sbuf_bytes_per_partition - self.sbuf_reserved_bytes_per_partition

    @property
    def sbuf_bytes(self) -> int:
        """Bytes of the whole SBUF, reserved ones included."""
        return self.partitions * self.sbuf_bytes_per_partition

    @property
    def psum_bytes_per_partition(self) -> int:
        """Bytes of one PSUM partition over all banks."""
        return self.psum_banks * self.psum_bank_bytes

    @property
    def hbm_stack_bytes_per_ns(self) -> float:
        """Bandwidth of one HBM stack, which the official profiler measures utilisation against."""
        return self.hbm_bytes_per_ns_per_chip / self.hbm_stacks_per_chip

    @property
    def dma_bytes_per_ns_all_engines(self) -> float:
        """Practical bandwidth of all DMA engines of one core, in bytes per nanosecond."""
        return self.dma_engines * self.dma_bytes_per_ns

    @property
    def tensor_peak_flops_per_ns(self) -> float:
        """Peak of the Tensor Engine for bfloat16, in floating-point operations per nanosecond."""
        return self.tensor_ghz * self.pe_rows * self.pe_columns * 2

    def supports(self, feature: str) -> bool:
        """Tell whether this chip has `feature`, one of `nki_lab.targets.features.FEATURES`."""
        assert feature in FEATURES, f"{feature!r} is not declared in nki_lab/targets/features.py"
        return feature in self.features

    def clock_ghz(self, engine: Engine) -> float:
        """Give the clock of a compute engine (or of the Sync sequencer) in GHz."""
        clocks = {
            Engine.tensor: self.tensor_ghz,
            Engine.vector: self.vector_ghz,
            Engine.scalar: self.scalar_ghz,
            Engine.gpsimd: self.gpsimd_ghz,
            Engine.sync: self.sync_ghz,
        }
        return clocks[engine]

    def __repr__(self) -> str:
        return f"<Target {self.name} ({self.core_name})>"


def build_target(facts: Mapping[str, Fact], features: Mapping[str, Fact]) -> Target:
    """Make a Target from one fact per field, plus one fact per feature it has.

    A missing or misspelled field or feature is an AssertionError when the module is imported.
    """
    given = set(facts)
    wanted = {f.name for f in fields(Target)} - {"features", "sources", "feature_sources"}
    assert given == wanted, f"missing {sorted(wanted - given)}, unknown {sorted(given - wanted)}"
    unknown = set(features) - set(FEATURES)
    assert not unknown, f"features not declared: {sorted(unknown)}"
    return Target(
        **{name: fact.value for name, fact in facts.items()},
        features=frozenset(features),
        sources=MappingProxyType(dict(facts)),
        feature_sources=MappingProxyType(dict(features)),
    )
