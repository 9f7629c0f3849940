// Where the key of a position lies in a cache [slots or pages, kv heads, capacity, head_dim].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "onepass/dtype.h"

namespace onepass::ops {

inline constexpr std::uint32_t page_positions = 256;

// Rows are counted in heads: row r starts r * row_bytes after the cache.
struct CachePlaces {
  std::uint64_t slots = 0;  // or pages
  std::uint64_t kv_heads = 0;
  std::uint64_t capacity = 0;
  bool ring = false;
  const std::byte* pages = nullptr;  // list of u32, or null
  std::uint64_t n_pages = 0;         // entries of the list

  // Positions a slot can name.
  std::uint64_t reach(std::uint32_t page_offset) const noexcept {
    if (pages != nullptr) {
      return page_offset < n_pages ? (n_pages - page_offset) * page_positions : 0;
    }
    return ring ? ~std::uint64_t{0} : capacity;
  }
  // False where the cache has no such place.
  bool find(std::uint32_t slot, std::uint32_t page_offset, std::uint64_t head,
            std::uint64_t position, std::uint64_t& row) const noexcept {
    std::uint64_t block = slot, at = position;
    if (pages != nullptr) {
      const std::uint64_t entry = page_offset + position / page_positions;
      if (entry >= n_pages) return false;
      std::uint32_t page;
      std::memcpy(&page, pages + 4 * entry, 4);
      block = page;
      at = position % page_positions;
    } else if (ring) {
      at = position % capacity;
    }
    if (block >= slots || at >= capacity) return false;
    row = (block * kv_heads + head) * capacity + at;
    return true;
  }
};

inline std::uint64_t cache_row_bytes(DType type, std::uint64_t head_dim) noexcept {
  return type == DType::f32 ? 4 * head_dim : type == DType::f16 ? 2 * head_dim : head_dim / 32 * 34;
}

}  // namespace onepass::ops
