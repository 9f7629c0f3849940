#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/move/kernels.h"
#include "ops/move/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

void copy(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<CopyParams>();
  const auto [begin, end] = a.part(join(p.bytes_lo, p.bytes_hi));
  if (begin < end) std::memcpy(a.data[1] + begin, a.data[0] + begin, end - begin);
}

void gather(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<GatherParams>();
  const std::uint64_t bytes = p.row_bytes;
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    const std::uint64_t row = std::min(a.ptr<const std::uint32_t>(1)[r], p.source_rows - 1);
    const std::uint64_t from = row - p.first_row;
    if (from >= (p.bound_rows != 0 ? p.bound_rows : p.source_rows)) continue;
    std::memcpy(a.data[2] + r * bytes, a.data[0] + from * bytes, bytes);
  }
}

// Rows [begin, end) of one matrix, in squares that stay in the cache. A unit may be several
// elements, so that it need not be aligned to its size.
template <class T>
void transpose_rows(const std::byte* from, std::byte* to, std::uint64_t begin, std::uint64_t end,
                    std::uint64_t rows, std::uint64_t cols) noexcept {
  for (std::uint64_t c0 = 0; c0 < cols; c0 += transpose_strip) {
    const std::uint64_t c1 = std::min(c0 + transpose_strip, cols);
    for (std::uint64_t c = c0; c < c1; ++c) {
      for (std::uint64_t r = begin; r < end; ++r) {
        std::memcpy(to + (c * rows + r) * sizeof(T), from + (r * cols + c) * sizeof(T), sizeof(T));
      }
    }
  }
}

void transpose_units(const std::byte* from, std::byte* to, std::uint64_t begin, std::uint64_t end,
                     std::uint64_t rows, std::uint64_t cols, std::uint64_t unit) noexcept {
  for (std::uint64_t r = begin; r < end; ++r) {
    for (std::uint64_t c = 0; c < cols; ++c) {
      std::memcpy(to + (c * rows + r) * unit, from + (r * cols + c) * unit, unit);
    }
  }
}

void transpose(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<TransposeParams>();
  const std::uint64_t strips = (std::uint64_t{p.rows} + transpose_strip - 1) / transpose_strip;
  const std::uint64_t matrix_bytes = std::uint64_t{p.rows} * p.cols * p.unit;
  const auto [first, last] = a.part(p.batch * strips);
  for (std::uint64_t i = first; i < last; ++i) {
    const std::byte* from = a.data[0] + i / strips * matrix_bytes;
    std::byte* to = a.data[1] + i / strips * matrix_bytes;
    const std::uint64_t begin = i % strips * transpose_strip;
    const std::uint64_t end = std::min<std::uint64_t>(begin + transpose_strip, p.rows);
    switch (p.unit) {
      case 1:
        transpose_rows<std::uint8_t>(from, to, begin, end, p.rows, p.cols);
        break;
      case 2:
        transpose_rows<std::uint16_t>(from, to, begin, end, p.rows, p.cols);
        break;
      case 4:
        transpose_rows<std::uint32_t>(from, to, begin, end, p.rows, p.cols);
        break;
      default:
        transpose_units(from, to, begin, end, p.rows, p.cols, p.unit);
    }
  }
}

void columns(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ColumnsParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    std::memcpy(a.data[1] + r * p.to_stride + p.to, a.data[0] + r * p.from_stride + p.from,
                p.bytes);
  }
}

void concat(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ConcatParams>();
  const std::uint64_t a_bytes = p.a_bytes, b_bytes = p.b_bytes;
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    std::byte* out = a.data[2] + r * (a_bytes + b_bytes);
    std::memcpy(out, a.data[0] + r * a_bytes, a_bytes);
    std::memcpy(out + a_bytes, a.data[1] + r * b_bytes, b_bytes);
  }
}

#define ELEMENT_TYPES(op, launch, kernel)                        \
  cpu_row(Op::op, DType::f32, #op "_f32", launch, kernel),       \
      cpu_row(Op::op, DType::f16, #op "_f16", launch, kernel),   \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch, kernel), \
      cpu_row(Op::op, DType::u8, #op "_u8", launch, kernel),     \
      cpu_row(Op::op, DType::u16, #op "_u16", launch, kernel),   \
      cpu_row(Op::op, DType::u32, #op "_u32", launch, kernel),   \
      cpu_row(Op::op, DType::i32, #op "_i32", launch, kernel)

constexpr KernelRow gather_row(DType format, const char* name) noexcept {
  KernelRow row = cpu_row(Op::gather, format, name, launch_gather, gather);
  row.lower = lower_gather;
  return row;
}

constexpr KernelRow kernels[] = {
#define FORMAT(name, ggml_id, elements, bytes)                      \
  cpu_row(Op::copy, DType::name, "copy_" #name, launch_copy, copy), \
      gather_row(DType::name, "gather_" #name),
#define LAYOUT(type, layout, elements, bytes, Form) \
  cpu_row(Op::copy, formats::type##_##layout, "copy_" #type "_" #layout, launch_copy, copy),
#include "onepass/tables/formats.def"
    ELEMENT_TYPES(transpose, launch_transpose, transpose),
    ELEMENT_TYPES(slice, launch_columns, columns),
    ELEMENT_TYPES(put, launch_columns, columns),
    ELEMENT_TYPES(concat, launch_concat, concat),
};

#undef ELEMENT_TYPES

}  // namespace

std::span<const KernelRow> move_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
