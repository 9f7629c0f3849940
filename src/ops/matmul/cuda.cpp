#include <algorithm>

#include "core/kernel_row.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#include "ops/matmul/params.h"
#include "quant/blocks.h"

namespace onepass::ops {
namespace {

// The weights that the kernels of matmul read before they wait.
constexpr std::uint32_t early_weights = 1u << 1 | 1u << 4 | 1u << 7;
constexpr std::uint32_t plain_forms =
    form_parts | form_bias | form_product | form_residual | form_quantized;

constexpr KernelRow row(Op op, Format format, const char* name, DType input, const char* symbol,
                        std::span<const char* const> variants, std::uint32_t reads_early) {
  KernelRow r = gpu_row(op, format, name, launch_matmul_cuda, {symbol, variants});
  r.input = input;
  r.convert = input == DType::q8a ? quantize_x : nullptr;
  r.start = {.waits_first = true, .reads_early = reads_early};
  if (op == Op::matmul) {
    r.forms = plain_forms;
    r.accepts = accepts_cuda_matmul;
  }
  if (op == Op::matmul_id) r.forms = form_parts;
  return r;
}
// Of a row of f32 that is normed first.
constexpr KernelRow normed_row(Format format, const char* name, const char* symbol,
                               std::span<const char* const> variants) {
  KernelRow r = row(Op::matmul, format, name, DType::f32, symbol, variants,
                    early_weights | 1u << matmul_norm);
  r.forms |= form_normed;
  r.forms_must = form_normed;
  r.accepts = accepts_normed_matmul;
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

// The experts of matmul_id are known after the wait only.
#define OP_ROWS(format, input)                                                           \
  row(Op::matmul, formats::format, "matmul_" #format "_" #input, DType::input,           \
      symbols_##format[0], std::span(symbols_##format).subspan(1), early_weights),       \
      row(Op::matmul_id, formats::format, "matmul_id_" #format "_" #input, DType::input, \
          symbols_##format[0], std::span(symbols_##format).subspan(1), 0)
#define OP_ROWS_plain(format) OP_ROWS(format, f32),
#define OP_ROWS_split(format)                                                         \
  OP_ROWS(format, q8a),                                                               \
      normed_row(formats::format, "norm_matmul_" #format "_f32", symbols_##format[0], \
                 std::span(symbols_##format).subspan(1)),

#define OP_ANY(op, format) \
  row(Op::op, formats::format, #op "_" #format "_f32", DType::f32, "matmul_" #format "_any", {}, 0)
#define OP_BLOCK_ROWS(format, Block) OP_ANY(matmul, format), OP_ANY(matmul_id, format),

#define OP_AFFINE(format)                                                              \
  row(Op::matmul_affine, formats::format, "matmul_affine_" #format "_f32", DType::f32, \
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

std::span<const KernelRow> matmul_cuda_kernels(Format format) noexcept {
  const auto is_format = [format](const KernelRow& r) { return r.format == format; };
  const auto* first = std::find_if(std::begin(kernels), std::end(kernels), is_format);
  return {first, std::find_if_not(first, std::end(kernels), is_format)};
}

std::span<const KernelRow> matmul_cuda_block_kernels() noexcept { return block_kernels; }

}  // namespace onepass::ops
