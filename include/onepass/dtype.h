// Element types and block formats: one enum, one table row each (tables/formats.def).
//
//   const onepass::DType t = onepass::DType::q8_0;
//   const std::uint32_t block = onepass::info(t).block_elements;               // 32
//   const std::optional<std::uint64_t> row = onepass::storage_bytes(t, 4096);  // 4352
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace onepass {

enum class DType : std::uint8_t {
#define FORMAT(name, ggml_id, elements, bytes, rows) name,
#include "onepass/tables/formats.def"
#undef FORMAT
  count_,
};

struct DTypeInfo {
  const char* name;
  int ggml_id;                   // -1: not a GGUF tensor type
  std::uint32_t block_elements;  // 1 for plain element types
  std::uint32_t block_bytes;
  std::uint32_t group_rows;  // 16 for packed weights: their rows are interleaved
};

const DTypeInfo& info(DType type) noexcept;
inline const char* name(DType type) noexcept { return info(type).name; }
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
std::optional<DType> dtype_from_ggml_id(std::uint32_t id) noexcept;
inline bool is_block_format(DType type) noexcept { return info(type).block_elements > 1; }

inline bool is_packed(DType type) noexcept { return info(type).group_rows > 1; }

// Bytes of n elements; nullopt when n is no multiple of the block, the type is packed or the
// product overflows.
std::optional<std::uint64_t> storage_bytes(DType type, std::uint64_t n) noexcept;
// Bytes of a matrix, padding rows of packed types included.
std::optional<std::uint64_t> storage_bytes(DType type, std::uint64_t rows,
                                           std::uint64_t cols) noexcept;

}  // namespace onepass
