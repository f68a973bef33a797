"""Names the abilities that differ between chips."""

from __future__ import annotations

#: Every name `Target.supports` accepts. A chip lists the ones it has, each with its page.
FEATURES: dict[str, str] = {
    # Tensor Engine
    "matmul_double_row": "FP8 pairs: contraction of up to 256 in the time of 128",
    "matmul_mx": "block-scaled (MX) matmul: contraction of up to 512 in the time of 128",
    "matmul_float8_e4m3fn": "float8_e4m3fn operands of a matmul",
    "matmul_bf16_psum": "results written to, and accumulated in, bfloat16 PSUM tiles",
    "matmul_onto_written_psum": "accumulation onto PSUM that another engine initialised",
    "tensor_transpose_mode": "bit-exact transpose; output has the type of the input",
    "background_transpose": "a transpose runs beside another matmul",
    # Vector Engine
    "range_select": "the range_select instruction",
    "quantize_mx": "the quantize_mx instruction",
    "vector_performance_mode": "Vector streams narrow tiles faster, whatever the operator",
    "exponential": "the exponential instruction",
    "rand2": "the rand2 instruction (XORWOW)",
    "rand_state": "loading and storing random states with GpSimd",
    "vector_rand_state": "loading and storing random states with Vector",
    # Scalar Engine
    "scalar_tensor_copy": "tensor_copy on Scalar",
    "scalar_tensor_scalar": "tensor_scalar on Scalar: multiply-add, multiply or add",
    "scalar_tensor_scalar_any": "tensor_scalar on Scalar with the operators of Vector",
    "scalar_reciprocal_bias": "a bias with the activation function nl.reciprocal",
    "scalar_activation_bias": "a compile-time number as `bias` of an activation",
    "scalar_reduce_any": "activation_reduce with another operator than add",
    "activate2": "the activate2 instruction",
    # GpSimd Engine
    "gpsimd_activation": "activation and activate2 on GpSimd",
    "gpsimd_rng": "the rng instruction on GpSimd",
    "nonzero_with_count": "the nonzero_with_count instruction",
    # Memory
    "tensor_indirection": "indirect (gather, scatter) operands along the free axis",
    "parallel_vector_gpsimd": "Vector and GpSimd use SBUF at the same time",
    "parallel_vector_scalar": "Vector and Scalar use PSUM at the same time (other banks)",
    "abs_max_abs_min": "nki.language.abs_max and abs_min as operators",
    "square_relu": "nki.language.square and relu as operators of tensor_scalar",
    # DMA
    "hwdge": "descriptors made by the hardware descriptor generation engine",
    "dma_indirect": "gather and scatter by an index tensor (software descriptors)",
    "dma_priority": "the `priority` argument of DMA instructions",
    # Two cores
    "lnc2": "two physical cores as one logical core: sendrecv, core_barrier, all_gather_v",
    # Several ranks
    "split_collectives": "all_to_all_v and all_gather_v in two parts: chips without a NeuronSwitch",
    "neuron_switch": "chips connected by switches: all_to_all_v between the ranks of a node",
}
