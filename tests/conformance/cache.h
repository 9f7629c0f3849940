// Caches of keys and values in conformance cases: linear, rings and pages.
#pragma once

#include "conformance/case.h"

namespace onepass::conformance {

enum class CacheKind { linear, ring, paged };

struct Cache {
  CacheKind kind = CacheKind::linear;
  std::uint32_t blocks = 1;  // slots or pages
  std::uint32_t kv_heads = 1, capacity = 8, head_dim = 8;
  std::vector<std::uint32_t> pages{};    // the list
  std::vector<std::uint32_t> offsets{};  // where a slot's part of it starts

  Shape shape() const { return {blocks, kv_heads, capacity, head_dim}; }
  // Row of the cache in heads, if it has one for this position.
  std::optional<std::size_t> row(std::uint32_t slot, std::uint32_t head,
                                 std::uint32_t position) const {
    std::uint32_t block = slot, at = position;
    if (kind == CacheKind::ring) at = position % capacity;
    if (kind == CacheKind::paged) {
      const std::size_t entry = offsets[slot] + position / 256;
      if (entry >= pages.size()) return std::nullopt;
      block = pages[entry];
      at = position % 256;
    }
    if (block >= blocks || at >= capacity) return std::nullopt;
    return (std::size_t{block} * kv_heads + head) * capacity + at;
  }
};

// Gives each slot `per_slot` pages of its own in random order.
inline void deal_pages(Cache& cache, std::uint32_t slots, std::uint32_t per_slot, Random& random) {
  cache.kind = CacheKind::paged;
  cache.capacity = 256;
  cache.blocks = slots * per_slot + 1;
  cache.pages.clear();
  cache.offsets.clear();
  for (std::uint32_t i = 0; i < cache.blocks; ++i) cache.pages.push_back(i);
  for (std::uint32_t i = cache.blocks; i > 1; --i) {
    std::swap(cache.pages[i - 1], cache.pages[random.below(i)]);
  }
  cache.pages.pop_back();  // one page belongs to nobody
  for (std::uint32_t i = 0; i < slots; ++i) cache.offsets.push_back(i * per_slot);
}

inline const char* name(CacheKind kind) {
  return kind == CacheKind::linear ? "" : kind == CacheKind::ring ? " ring" : " paged";
}

}  // namespace onepass::conformance
