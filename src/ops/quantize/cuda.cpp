#include "ops/kernel_row.h"
#include "ops/quantize/kernels.h"
#include "quant/blocks.h"

namespace onepass::ops {
namespace {

#define BLOCK(format, Block)                                                                 \
  waiting_row(Op::quantize, formats::format, "quantize_f32_" #format, launch_quantize_cuda), \
      waiting_row(Op::dequantize, formats::format, "dequantize_" #format "_f32",             \
                  launch_dequantize_cuda),

#define SPLIT(format)                                                        \
  waiting_row(Op::dequantize, formats::format, "dequantize_" #format "_f32", \
              launch_dequantize_cuda),

constexpr KernelRow kernels[] = {
    waiting_row(Op::quantize, DType::q8a, "quantize_f32_q8a", launch_quantize_cuda),
    waiting_row(Op::dequantize, DType::q8a, "dequantize_q8a_f32", launch_dequantize_cuda),
    ONEPASS_BLOCK_FORMATS(BLOCK)  // two rows each
#define LAYOUT_r16(type)
#define LAYOUT_s16(type) SPLIT(type##_s16)
#define LAYOUT(type, layout, elements, bytes, Form) LAYOUT_##layout(type)
#include "onepass/tables/formats.def"
#undef LAYOUT_r16
#undef LAYOUT_s16
};

#undef SPLIT
#undef BLOCK

}  // namespace

std::span<const KernelRow> quantize_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
