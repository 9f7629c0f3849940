#include "ops/embed/kernels.h"
#include "ops/kernel_row.h"
#include "quant/blocks.h"

namespace onepass::ops {
namespace {

#define EMBED(format) \
  waiting_row(Op::embed, formats::format, "embed_" #format "_f32", launch_embed_cuda)
#define BLOCK(format, Block) EMBED(format),

constexpr KernelRow kernels[] = {
    EMBED(f32),
    EMBED(f16),
    EMBED(bf16),
    ONEPASS_BLOCK_FORMATS(BLOCK)
#define LAYOUT_r16(type)
#define LAYOUT_s16(type) EMBED(type##_s16),
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
        waiting_row(Op::embed_affine, DType::f32, "embed_affine_f32", launch_embed_affine_cuda),
    waiting_row(Op::embed_affine, DType::f16, "embed_affine_f16", launch_embed_affine_cuda),
    waiting_row(Op::embed_affine, DType::bf16, "embed_affine_bf16", launch_embed_affine_cuda),
};

#undef BLOCK
#undef EMBED

}  // namespace

std::span<const KernelRow> embed_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
