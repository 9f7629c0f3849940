#include <algorithm>

#include "core/kernel_row.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#include "quant/blocks.h"

namespace onepass::ops {
namespace {

constexpr KernelRow row(Op op, DType format, const char* name, DType input, const char* symbol,
                        std::span<const char* const> variants, std::uint32_t reads_early) {
  KernelRow r = gpu_row(op, format, name, launch_matmul_cuda, {symbol, variants});
  r.input = input;
  r.convert = input == DType::q8a ? quantize_x : nullptr;
  r.start = {.waits_first = true, .reads_early = reads_early};
  return r;
}

// Entry points of one format in the order of MatmulVariant; only packed ones have those of lines.
#define OP_SYMBOLS_plain(format)                                                            \
  constexpr const char* symbols_##format[] = {"matmul_" #format, "matmul_" #format "_rows", \
                                              "matmul_" #format "_any",                     \
                                              "matmul_" #format "_tile"};
#define OP_SYMBOLS_split(format)               \
  constexpr const char* symbols_##format[] = { \
      "matmul_" #format,                       \
      "matmul_" #format "_rows",               \
      "matmul_" #format "_any",                \
      "matmul_" #format "_tile",               \
      "matmul_" #format "_line_1",             \
      "matmul_" #format "_line_2",             \
      "matmul_" #format "_line_2_deep",        \
      "matmul_" #format "_line_4",             \
      "matmul_" #format "_line_1_by_2",        \
      "matmul_" #format "_line_2_by_4",        \
      "matmul_" #format "_gate_1",             \
      "matmul_" #format "_gate_2",             \
      "matmul_" #format "_norm_1",             \
      "matmul_" #format "_norm_2",             \
      "matmul_" #format "_norm_4",             \
      "matmul_" #format "_norm_gate_1",        \
      "matmul_" #format "_norm_gate_2",        \
  };
#define CUDA_FORMAT(format, blocks, ...) OP_SYMBOLS_##blocks(format)
#include "ops/shared/cuda_formats.def"
#undef CUDA_FORMAT

// early: views of weights; the experts of matmul_id are known after the wait only.
#define OP_ROW(op, format, input, early)                                                    \
  row(Op::op, DType::format, #op "_" #format "_" #input, DType::input, symbols_##format[0], \
      std::span(symbols_##format).subspan(1), early)
#define OP_ROWS(format, input)                                                         \
  OP_ROW(matmul, format, input, 2), OP_ROW(matmul_bias, format, input, 2),             \
      OP_ROW(matmul_add, format, input, 2), OP_ROW(matmul_bias_add, format, input, 2), \
      OP_ROW(matmul_3, format, input, 14), OP_ROW(matmul_glu, format, input, 6),       \
      OP_ROW(matmul_glu_q, format, input, 6), OP_ROW(matmul_id, format, input, 0)
#define OP_ROWS_plain(format) OP_ROWS(format, f32),
#define OP_ROWS_split(format)                                         \
  OP_ROWS(format, q8a), OP_ROW(norm_matmul, format, f32, 2 | 1 << 3), \
      OP_ROW(norm_matmul_3, format, f32, 14 | 1 << 10),               \
      OP_ROW(norm_matmul_glu_q, format, f32, 6 | 1 << 4),

#define OP_ANY(op, format) \
  row(Op::op, DType::format, #op "_" #format "_f32", DType::f32, "matmul_" #format "_any", {}, 0)
#define OP_BLOCK_ROWS(format, Block)                                                         \
  OP_ANY(matmul, format), OP_ANY(matmul_bias, format), OP_ANY(matmul_add, format),           \
      OP_ANY(matmul_bias_add, format), OP_ANY(matmul_3, format), OP_ANY(matmul_glu, format), \
      OP_ANY(matmul_glu_q, format), OP_ANY(matmul_id, format),

#define OP_AFFINE(format)                                                            \
  row(Op::matmul_affine, DType::format, "matmul_affine_" #format "_f32", DType::f32, \
      "matmul_affine_" #format, {}, 0)

// The rows of a packed or plain format follow each other.
constexpr KernelRow kernels[] = {
#define CUDA_FORMAT(format, blocks, ...) OP_ROWS_##blocks(format)
#include "ops/shared/cuda_formats.def"
#undef CUDA_FORMAT
};
constexpr KernelRow block_kernels[] = {ONEPASS_BLOCK_FORMATS(OP_BLOCK_ROWS) OP_AFFINE(f32),
                                       OP_AFFINE(f16), OP_AFFINE(bf16)};

}  // namespace

std::span<const KernelRow> matmul_cuda_kernels(DType format) noexcept {
  const auto is_format = [format](const KernelRow& r) { return r.format == format; };
  const auto* first = std::find_if(std::begin(kernels), std::end(kernels), is_format);
  return {first, std::find_if_not(first, std::end(kernels), is_format)};
}

std::span<const KernelRow> matmul_cuda_block_kernels() noexcept { return block_kernels; }

}  // namespace onepass::ops
