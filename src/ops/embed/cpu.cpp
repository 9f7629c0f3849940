#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/embed/kernels.h"
#include "ops/embed/params.h"

namespace onepass::ops {
namespace {

// A token outside the table gives zeros.
template <class W>
void embed(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<EmbedParams>();
  const StepReader step(a.data[1], p.tokens_are_u32 != 0 ? 0 : a.bytes[1]);
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    if (p.tokens_are_u32 == 0 && r >= step.n_rows()) break;
    const std::uint32_t token = p.tokens_are_u32 != 0
                                    ? a.ptr<const std::uint32_t>(1)[r]
                                    : step.row(static_cast<std::uint32_t>(r)).token;
    float* out = a.ptr<float>(2) + r * p.dim;
    if (token >= p.vocab) {
      std::fill_n(out, p.dim, 0.0f);
      continue;
    }
    const float* row = load_row(row_of(a.ptr<const W>(0), token, p.dim), 0, p.dim, out);
    if (row != out) std::copy_n(row, p.dim, out);
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::embed, DType::f32, "embed_f32_f32", launch_embed, embed<float>),
    cpu_row(Op::embed, DType::f16, "embed_f16_f32", launch_embed, embed<F16>),
    cpu_row(Op::embed, DType::bf16, "embed_bf16_f32", launch_embed, embed<BF16>),
    cpu_row(Op::embed, DType::q4_0, "embed_q4_0_f32", launch_embed, embed<quant::BlockQ4_0>),
    cpu_row(Op::embed, DType::q8_0, "embed_q8_0_f32", launch_embed, embed<quant::BlockQ8_0>),
};

}  // namespace

std::span<const KernelRow> embed_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
