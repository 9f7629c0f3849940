#include "quant/packed.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "quant/affine.h"
#include "quant/blocks.h"
#include "quant/floats.h"
#include "quant/split.h"

namespace onepass::quant {
namespace {

// One row of the table LAYOUT. Of affine types pack_affine is there, of others pack.
struct PackRow {
  Format format;
  void (*pack)(std::uint64_t rows, std::uint64_t cols, const std::byte* src, std::byte* dst);
  void (*pack_affine)(const AffineRows& from, std::uint64_t rows, std::uint64_t cols,
                      std::byte* dst);
  void (*unpack)(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out);
  // Null: rows have no scales.
  void (*set_scale)(std::byte* matrix, std::uint64_t rows, std::uint64_t cols, float scale);
};

// Where block b of a row is put, and where values of a row come from, in both layouts.
template <class Form>
struct R16 {
  template <class Byte>
  static Byte* group(Byte* matrix, std::uint64_t row, std::uint64_t cols) {
    return matrix + row / group_rows * r16::group_bytes<Form>(cols);
  }
  // Behind the blocks.
  template <class Byte>
  static Byte* scale(Byte* matrix, std::uint64_t row, std::uint64_t cols) {
    return group(matrix, row, cols) + cols / Form::elements * Form::bytes + 4 * (row % group_rows);
  }
  static void set_scale(std::byte* matrix, std::uint64_t rows, std::uint64_t cols, float value) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::memcpy(scale(matrix, row, cols), &value, sizeof(value));
    }
  }
  template <class... Native>
  static void put(std::byte* matrix, std::uint64_t row, std::uint64_t cols, std::uint64_t b,
                  const Native&... native) {
    Form::put(native..., row % group_rows, group(matrix, row, cols) + b * Form::bytes);
  }
  static void unpack(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out) {
    const std::byte* from = group(matrix, row, cols);
    for (std::uint64_t b = 0; b < cols / Form::elements; ++b) {
      Form::get(from + b * Form::bytes, row % group_rows, out + b * Form::elements);
    }
    if constexpr (r16::has_row_scales<Form>()) {
      float s;
      std::memcpy(&s, scale(matrix, row, cols), sizeof(s));
      for (std::uint64_t c = 0; c < cols; ++c) out[c] *= s;
    }
  }
};
template <class Form>
struct S16 {
  template <class... Native>
  static void put(std::byte* matrix, std::uint64_t row, std::uint64_t cols, std::uint64_t b,
                  const Native&... native) {
    auto* group =
        reinterpret_cast<std::uint8_t*>(matrix) + row / group_rows * split_group_bytes<Form>(cols);
    Form::put(native..., cols, row % group_rows, b, group);
  }
  static void unpack(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out) {
    for (std::uint64_t b = 0; b < cols / 32; ++b) {
      split_block<Form>(matrix, cols, row, b, out + 32 * b);
    }
  }
};

template <class Form, class Layout>
void pack_rows(std::uint64_t rows, std::uint64_t cols, const std::byte* src, std::byte* dst) {
  using Block = typename Form::Block;
  const std::uint64_t blocks = cols / Form::elements;
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t b = 0; b < blocks; ++b) {
      Block block;
      std::memcpy(&block, src + (row * blocks + b) * sizeof(Block), sizeof(Block));
      Layout::put(dst, row, cols, b, block);
    }
  }
}

template <class Form, class Layout>
void pack_affine_rows(const AffineRows& from, std::uint64_t rows, std::uint64_t cols,
                      std::byte* dst) {
  using Bits = typename Form::Number::Bits;
  const std::uint64_t row_bytes = cols * from.bits / 8, groups = cols / from.group_size;
  const auto number = [](std::span<const std::byte> numbers, std::uint64_t i) {
    Bits bits;
    std::memcpy(&bits, numbers.data() + sizeof(bits) * i, sizeof(bits));
    return bits;
  };
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t b = 0; b < cols / Form::elements; ++b) {
      const std::uint64_t g = row * groups + Form::elements * b / from.group_size;
      const auto* stream = reinterpret_cast<const std::uint8_t*>(from.weight.data()) +
                           row * row_bytes + b * Form::elements * from.bits / 8;
      Layout::put(dst, row, cols, b, stream, number(from.scales, g), number(from.biases, g));
    }
  }
}

template <class Form>
concept Affine = requires {
  typename Form::Number;
};

template <class Form, class Layout>
constexpr PackRow pack_row(Format format) {
  if constexpr (Affine<Form>) {
    return {format, nullptr, pack_affine_rows<Form, Layout>, Layout::unpack, nullptr};
  } else if constexpr (r16::has_row_scales<Form>()) {
    return {format, pack_rows<Form, Layout>, nullptr, Layout::unpack, Layout::set_scale};
  } else {
    return {format, pack_rows<Form, Layout>, nullptr, Layout::unpack, nullptr};
  }
}
constexpr PackRow pack_table[] = {
#define ROW_r16(Form) R16<Form>
#define ROW_s16(Form) S16<Form>
#define LAYOUT(type, layout, elements, bytes, Form) \
  pack_row<Form, ROW_##layout(Form)>(formats::type##_##layout),
#include "onepass/tables/formats.def"
#undef ROW_r16
#undef ROW_s16
};

const PackRow* find(Format format) noexcept {
  for (const PackRow& row : pack_table) {
    if (row.format == format) return &row;
  }
  return nullptr;
}

Status expect_bytes(const char* what, std::uint64_t got, std::optional<std::uint64_t> need,
                    Format format, std::uint64_t rows, std::uint64_t cols) {
  if (need && got >= *need) return {};
  return fail(
      ErrorCode::invalid_argument,
      std::string("pack: ") + what + " has " + std::to_string(got) + " bytes, " +
          std::to_string(rows) + " x " + std::to_string(cols) + " of " + name(format) +
          (need ? " need " + std::to_string(*need) : " is no whole number of blocks or too large"));
}

}  // namespace

std::optional<DType> affine_type(std::uint32_t bits, std::uint32_t group_size, DType scale_type) {
  if (!is_affine_group(group_size)) return std::nullopt;
  for (const std::uint32_t elements : {128u, 64u, 32u}) {
    if (group_size % elements != 0) continue;
    std::string text = "a" + std::to_string(bits) + "_" + name(scale_type);
    if (elements != 64) text += "_g" + std::to_string(elements);
    if (const std::optional<DType> type = dtype_from_name(text)) return type;
  }
  return std::nullopt;
}

Status pack(Format to, std::uint64_t rows, std::uint64_t cols, std::span<const std::byte> src,
            std::span<std::byte> dst, float scale) {
  const PackRow* r = find(to);
  if (!r || !r->pack) {
    return fail(ErrorCode::unsupported,
                std::string("pack: no way from ") + name(to.type) + " to " + name(to));
  }
  if (scale != 1.0f && !r->set_scale) {
    return fail(ErrorCode::unsupported, std::string("pack: rows of ") + name(to) +
                                            " have no scale, got " + std::to_string(scale));
  }
  const std::optional<std::uint64_t> need = storage_bytes(to, rows, cols);
  ONEPASS_TRY(expect_bytes("dst", dst.size(), need, to, rows, cols));
  ONEPASS_TRY(
      expect_bytes("src", src.size(), storage_bytes(to.type, rows, cols), to.type, rows, cols));
  std::fill_n(dst.begin(), static_cast<std::ptrdiff_t>(*need), std::byte{0});
  r->pack(rows, cols, src.data(), dst.data());
  if (r->set_scale) r->set_scale(dst.data(), rows, cols, scale);
  return {};
}

Status pack_affine(const AffineRows& from, Format to, std::uint64_t rows, std::uint64_t cols,
                   std::span<std::byte> dst) {
  const PackRow* r = find(to);
  if (!r || affine_type(from.bits, from.group_size, from.scale_type) != to.type) {
    return fail(ErrorCode::unsupported, "pack: no way from " + std::to_string(from.bits) +
                                            " bits in groups of " +
                                            std::to_string(from.group_size) + " with " +
                                            name(from.scale_type) + " scales to " + name(to));
  }
  const std::optional<std::uint64_t> need = storage_bytes(to, rows, cols);
  ONEPASS_TRY(expect_bytes("dst", dst.size(), need, to, rows, cols));
  if (cols % from.group_size != 0) {
    return fail(ErrorCode::invalid_argument, "pack: rows of " + std::to_string(cols) +
                                                 " values, expected a multiple of the group " +
                                                 std::to_string(from.group_size));
  }
  // dst has that many bytes, so these products are small.
  ONEPASS_TRY(expect_bytes("weight", from.weight.size(), rows * (cols * from.bits / 8), DType::u32,
                           rows, cols * from.bits / 32));
  const std::uint64_t groups = cols / from.group_size;
  for (std::span<const std::byte> part : {from.scales, from.biases}) {
    ONEPASS_TRY(expect_bytes("scales or biases", part.size(),
                             rows * groups * info(from.scale_type).block_bytes, from.scale_type,
                             rows, groups));
  }
  std::fill_n(dst.begin(), static_cast<std::ptrdiff_t>(*need), std::byte{0});
  r->pack_affine(from, rows, cols, dst.data());
  return {};
}

void unpack_row(Format format, const std::byte* matrix, std::uint64_t row, std::uint64_t cols,
                float* out) noexcept {
  if (const PackRow* r = find(format)) r->unpack(matrix, row, cols, out);
}

}  // namespace onepass::quant
