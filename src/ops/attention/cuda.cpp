#include "core/features.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_cuda.h"
#include "ops/attention/params.h"
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

#define ATTENTION(type, ...)                                                                \
  waiting_row(Op::attention, DType::type, "attention_" #type "_f32", launch_attention_cuda, \
              {.symbol = "attention_" #type, __VA_ARGS__})
#define ATTENTION_Q(type, ...)                                                   \
  quantized(waiting_row(Op::attention, DType::type, "attention_q_" #type "_f32", \
                        launch_attention_cuda, {.symbol = "attention_q_" #type, __VA_ARGS__}))

constexpr KernelRow quantized(KernelRow row) noexcept {
  row.forms = row.forms_must = form_quantized;
  return row;
}

constexpr KernelRow kernels[] = {
    ATTENTION(f32),   ATTENTION(f16, .variants = f16_variants),     ATTENTION(q8_0),
    ATTENTION_Q(f32), ATTENTION_Q(f16, .variants = f16_q_variants), ATTENTION_Q(q8_0),
};

#undef ATTENTION
#undef ATTENTION_Q

constexpr const char* cluster_variants[] = {"rope_attention_128"};

constexpr KernelRow cluster_row() noexcept {
  KernelRow row = waiting_row(
      Op::rope_attention, DType::f16, "rope_attention_f16", launch_rope_attention_cuda,
      {.symbol = "rope_attention_64",
       .variants = cluster_variants,
       .reads_early = 1u << 1 | 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 11,
       .needs = feature_bits(Feature::clusters),
       .cluster = cluster_blocks});
  row.accepts = accepts_rope_attention;
  return row;
}
constexpr KernelRow cluster_kernels[] = {cluster_row()};

}  // namespace

std::span<const KernelRow> attention_cuda_kernels() noexcept { return kernels; }
std::span<const KernelRow> attention_cluster_kernels() noexcept { return cluster_kernels; }

}  // namespace onepass::ops
