#include "core/features.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_cuda.h"
#include "ops/kernel_row.h"

namespace onepass::ops {
namespace {

// In the order of AttentionVariant.
constexpr const char* f16_variants[] = {"attention_f16_64", "attention_f16_128",
                                        "attention_f16_256", "attention_rows_f16_64",
                                        "attention_rows_f16_128"};
constexpr const char* f16_q_variants[] = {"attention_q_f16_64", "attention_q_f16_128",
                                          "attention_q_f16_256", "attention_q_rows_f16_64",
                                          "attention_q_rows_f16_128"};

#define ATTENTION(op, type, ...)                                                \
  waiting_row(Op::op, DType::type, #op "_" #type "_f32", launch_attention_cuda, \
              {.symbol = #op "_" #type, __VA_ARGS__})

constexpr KernelRow kernels[] = {
    ATTENTION(attention, f32),
    ATTENTION(attention, f16, .variants = f16_variants),
    ATTENTION(attention, q8_0),
    ATTENTION(attention_q, f32),
    ATTENTION(attention_q, f16, .variants = f16_q_variants),
    ATTENTION(attention_q, q8_0),
};

#undef ATTENTION

constexpr const char* cluster_variants[] = {"rope_attention_q_128"};

constexpr KernelRow cluster_kernels[] = {
    waiting_row(
        Op::rope_attention_q, DType::f16, "rope_attention_q_f16", launch_rope_attention_cuda,
        {.symbol = "rope_attention_q_64",
         .variants = cluster_variants,
         .reads_early = 1u << 1 | 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 11,
         .needs = feature_bits(Feature::clusters),
         .cluster = cluster_blocks}),
};

}  // namespace

std::span<const KernelRow> attention_cuda_kernels() noexcept { return kernels; }
std::span<const KernelRow> attention_cluster_kernels() noexcept { return cluster_kernels; }

}  // namespace onepass::ops
