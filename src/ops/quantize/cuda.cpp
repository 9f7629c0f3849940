#include "ops/kernel_row.h"
#include "ops/quantize/kernels.h"
#include "quant/blocks.h"
#include "quant/split.h"

namespace onepass::ops {
namespace {

#define BLOCK(format, Block)                                                               \
  waiting_row(Op::quantize, DType::format, "quantize_f32_" #format, launch_quantize_cuda), \
      waiting_row(Op::dequantize, DType::format, "dequantize_" #format "_f32",             \
                  launch_dequantize_cuda),

#define SPLIT(format, Form) \
  waiting_row(Op::dequantize, DType::format, "dequantize_" #format "_f32", launch_dequantize_cuda),

constexpr KernelRow kernels[] = {
    waiting_row(Op::quantize, DType::q8a, "quantize_f32_q8a", launch_quantize_cuda),
    waiting_row(Op::dequantize, DType::q8a, "dequantize_q8a_f32", launch_dequantize_cuda),
    ONEPASS_BLOCK_FORMATS(BLOCK)  // two rows each
    ONEPASS_SPLIT_FORMATS(SPLIT)  // a row each
};

#undef SPLIT
#undef BLOCK

}  // namespace

std::span<const KernelRow> quantize_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
