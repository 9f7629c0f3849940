#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/embed/kernels.h"
#include "ops/embed/params.h"
#include "quant/affine.h"
#include "quant/packed.h"

namespace onepass::ops {
namespace {

// Calls load(token, out) for every active row. tokens_view holds the tokens.
template <class Params, class Load>
void embed_rows(const KernelArgs& a, const Params& p, std::size_t tokens_view, float* out,
                const Load& load) noexcept {
  const bool plain = p.index == embed_by_u32;
  const StepReader step(a.data[tokens_view], plain ? 0 : a.bytes[tokens_view]);
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    if (!plain && r >= step.n_rows()) break;
    const StepRow row = plain ? StepRow{} : step.row(static_cast<std::uint32_t>(r));
    const std::uint32_t token = plain ? a.ptr<const std::uint32_t>(tokens_view)[r]
                                : p.index == embed_by_position ? row.position
                                                               : row.token;
    float* to = out + r * p.dim;
    if (token >= p.vocab) {
      if (p.first_row == 0) std::fill_n(to, p.dim, 0.0f);
      continue;
    }
    if (token - p.first_row >= (p.bound_rows != 0 ? p.bound_rows : p.vocab)) continue;
    load(token - p.first_row, to);
    if (p.scale != 1.0f) {
      for (std::uint32_t i = 0; i < p.dim; ++i) to[i] *= p.scale;
    }
  }
}

template <class W>
void embed(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<EmbedParams>();
  embed_rows(a, p, 1, a.ptr<float>(2), [&](std::uint32_t token, float* out) {
    const float* row = load_row(row_of(a.ptr<const W>(0), token, p.dim), 0, p.dim, out);
    if (row != out) std::copy_n(row, p.dim, out);
  });
}

template <DType Type>
void embed_packed(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<EmbedParams>();
  embed_rows(a, p, 1, a.ptr<float>(2), [&](std::uint32_t token, float* out) {
    quant::unpack_row({Type, Layout::r16}, a.data[0], token, p.dim, out);
  });
}

template <class S>
void embed_affine(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<EmbedAffineParams>();
  const std::size_t row_bytes = std::size_t{p.dim} * p.bits / 8, groups = p.dim / p.group_size;
  const std::size_t group_bytes = std::size_t{p.group_size} * p.bits / 8;
  embed_rows(a, p, 3, a.ptr<float>(4), [&](std::uint32_t token, float* out) {
    const auto* stream = a.ptr<const std::uint8_t>(0) + token * row_bytes;
    const S* scales = a.ptr<const S>(1) + token * groups;
    const S* biases = a.ptr<const S>(2) + token * groups;
    for (std::size_t g = 0; g < groups; ++g) {
      quant::affine_dequantize(static_cast<int>(p.bits), stream + g * group_bytes,
                               static_cast<int>(p.group_size), to_float(scales[g]),
                               to_float(biases[g]), out + g * p.group_size);
    }
  });
}

constexpr KernelRow table_row(Op op, Format format, const char* name, LaunchFn launch,
                              CpuKernelFn cpu) noexcept {
  KernelRow row = cpu_row(op, format, name, launch, cpu);
  row.lower = op == Op::embed ? lower_embed : lower_embed_affine;
  return row;
}

#define PACKED(type)                                                                 \
  table_row(Op::embed, formats::type##_r16, "embed_" #type "_r16_f32", launch_embed, \
            embed_packed<DType::type>)

constexpr KernelRow kernels[] = {
    table_row(Op::embed, DType::f32, "embed_f32_f32", launch_embed, embed<float>),
    table_row(Op::embed, DType::f16, "embed_f16_f32", launch_embed, embed<F16>),
    table_row(Op::embed, DType::bf16, "embed_bf16_f32", launch_embed, embed<BF16>),
#define BLOCK(format, Block) \
  table_row(Op::embed, formats::format, "embed_" #format "_f32", launch_embed, embed<quant::Block>),
    ONEPASS_BLOCK_FORMATS(BLOCK)
#undef BLOCK
#define LAYOUT_r16(type) PACKED(type),
#define LAYOUT_s16(type)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
        table_row(Op::embed_affine, DType::f32, "embed_affine_f32", launch_embed_affine,
                  embed_affine<float>),
    table_row(Op::embed_affine, DType::f16, "embed_affine_f16", launch_embed_affine,
              embed_affine<F16>),
    table_row(Op::embed_affine, DType::bf16, "embed_affine_bf16", launch_embed_affine,
              embed_affine<BF16>),
};

#undef PACKED

}  // namespace

std::span<const KernelRow> embed_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
