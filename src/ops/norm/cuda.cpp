#include "ops/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"

namespace onepass::ops {
namespace {

// Weights are read before the wait.
#define NORM_ROW(op, type, weights) \
  waiting_row(Op::op, DType::type, #op "_" #type, launch_norm_cuda, {.reads_early = weights})
#define NORM_ROWS(op, weights) \
  NORM_ROW(op, f32, weights), NORM_ROW(op, f16, weights), NORM_ROW(op, bf16, weights)

constexpr KernelRow rms_row(Format format, const char* name, std::uint32_t forms,
                            std::uint32_t must = 0) noexcept {
  KernelRow row =
      waiting_row(Op::rms_norm, format, name, launch_norm_cuda, {.reads_early = 1u << 1});
  row.forms = forms | must;
  row.forms_must = must;
  row.accepts = accepts_norm;
  return row;
}

constexpr std::uint32_t stored_forms = norm_forms & ~form_quantized;

constexpr KernelRow kernels[] = {
    rms_row(DType::f32, "rms_norm_f32", stored_forms),
    rms_row(DType::f16, "rms_norm_f16", stored_forms),
    rms_row(DType::bf16, "rms_norm_bf16", stored_forms),
    rms_row(DType::f32, "rms_norm_q_f32", form_sum, form_quantized),
    NORM_ROWS(l2_norm, 0),
    NORM_ROWS(layer_norm, 1u << 1),
};

#undef NORM_ROWS
#undef NORM_ROW

}  // namespace

std::span<const KernelRow> norm_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
