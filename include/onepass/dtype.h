// Element types and block formats, and how weights of them lie in memory: one table row each
// (tables/formats.def).
//
//   const onepass::DType t = onepass::DType::q8_0;
//   const std::uint32_t block = onepass::info(t).block_elements;               // 32
//   const std::optional<std::uint64_t> row = onepass::storage_bytes(t, 4096);  // 4352
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace onepass {

// What the numbers are: what a file or a caller can hold.
enum class DType : std::uint8_t {
#define FORMAT(name, ggml_id, elements, bytes) name,
#define PACKED_ONLY(name, elements, bytes) name,
#include "onepass/tables/formats.def"
  count_,
};

// How the rows of a matrix lie: one after the other, or packed in groups of 16 for the kernels of
// the CPU (r16, src/quant/r16.h) or of GPUs (s16, src/quant/split.h).
enum class Layout : std::uint8_t { rows, r16, s16, count_ };

// A type in a layout; a type alone means rows.
struct Format {
  DType type = DType::f32;
  Layout layout = Layout::rows;

  constexpr Format() = default;
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Format(DType t, Layout l = Layout::rows) noexcept : type(t), layout(l) {}
  friend constexpr auto operator<=>(const Format&, const Format&) = default;
};

// Every row of the table by its name: formats::q4_0, formats::q4_0_r16.
namespace formats {
#define FORMAT(name, ggml_id, elements, bytes) inline constexpr Format name{DType::name};
#define LAYOUT(type, layout, elements, bytes, Form) \
  inline constexpr Format type##_##layout{DType::type, Layout::layout};
#include "onepass/tables/formats.def"
}  // namespace formats

struct DTypeInfo {
  const char* name;
  int ggml_id;                   // -1: not a GGUF tensor type
  std::uint32_t block_elements;  // 1 for plain element types
  std::uint32_t block_bytes;
};

struct FormatInfo {
  const char* name;  // "q4_0", "q4_0_r16"
  std::uint32_t block_elements;
  std::uint32_t block_bytes;  // of one row's share
  std::uint32_t group_rows;   // rows that lie together: 1, or 16 where packed; 0: no such format
  std::uint32_t row_scale_bytes;  // of a scale that each row has besides its blocks; 0: none
};

const DTypeInfo& info(DType type) noexcept;
const FormatInfo& info(Format format) noexcept;
inline const char* name(DType type) noexcept { return info(type).name; }
inline const char* name(Format format) noexcept { return info(format).name; }
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
std::optional<DType> dtype_from_ggml_id(std::uint32_t id) noexcept;
inline bool is_block_format(DType type) noexcept { return info(type).block_elements > 1; }

constexpr bool is_packed(Format format) noexcept { return format.layout != Layout::rows; }

// Bytes of n elements; nullopt when n is no multiple of the block, the format is packed or the
// product overflows.
std::optional<std::uint64_t> storage_bytes(Format format, std::uint64_t n) noexcept;
// Bytes of a matrix, padding rows of packed formats included.
std::optional<std::uint64_t> storage_bytes(Format format, std::uint64_t rows,
                                           std::uint64_t cols) noexcept;

}  // namespace onepass
