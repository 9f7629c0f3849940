#include "ops/kernel_row.h"
#include "ops/moe/kernels.h"
#include "ops/moe/params.h"

namespace onepass::ops {
namespace {

constexpr KernelRow gated_row(const char* name, std::uint32_t must) noexcept {
  KernelRow row = waiting_row(Op::gated, DType::f32, name, launch_gated_cuda);
  row.forms = row.forms_must = must;
  row.accepts = accepts_gated;
  return row;
}

constexpr KernelRow kernels[] = {
    waiting_row(Op::moe_gate, DType::f32, "moe_gate_f32", launch_moe_gate_cuda),
    waiting_row(Op::moe_reduce, DType::f32, "moe_reduce_f32", launch_moe_reduce_cuda),
    gated_row("gated_f32", 0),
    gated_row("gated_q_f32", form_quantized),
};

}  // namespace

std::span<const KernelRow> moe_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
