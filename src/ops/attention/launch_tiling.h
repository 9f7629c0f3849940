// How attention is cut: a tile is a block of rows, one kv head, and a share of the chunks of keys.
// Chunks start at absolute positions, and a row's chunks are combined in order, so no bit of the
// result depends on any number here but key_chunk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/attention/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"

namespace onepass::ops {

inline constexpr std::uint32_t key_chunk = 256;
static_assert(key_chunk == page_positions);
inline constexpr std::uint32_t max_head_dim = 512;

struct AttentionTiling {
  std::uint64_t block_rows;  // rows that share the keys they load
  std::uint64_t row_blocks;
  std::uint64_t max_chunks;   // that one row can see
  std::uint64_t part_floats;  // of one chunk's result: maximum, sum, padding to 16, values

  AttentionTiling(const AttentionParams& p, std::uint64_t n_pages) noexcept {
    const std::uint64_t group = p.heads / p.kv_heads;
    block_rows = std::clamp<std::uint64_t>(64 / group, 1, std::max(p.rows, 1u));
    row_blocks = (p.rows + block_rows - 1) / block_rows;
    const std::uint64_t positions = n_pages != 0      ? n_pages * page_positions
                                    : p.has_step == 0 ? p.kv_len
                                                      : p.capacity;
    max_chunks = p.ring != 0 ? ~std::uint64_t{0} : (positions + key_chunk - 1) / key_chunk;
    std::uint64_t seen = p.ring != 0 ? p.capacity : positions;
    if (p.causal != 0 && p.window != 0) seen = std::min<std::uint64_t>(seen, p.window);
    max_chunks = std::min(max_chunks, (seen + key_chunk - 2) / key_chunk + 1);
    max_chunks = std::max<std::uint64_t>(max_chunks, 1);
    part_floats = 16 + (p.head_dim + 15) / 16 * 16;
  }
};

// The keys a row sees: positions [begin, end) of a slot.
struct AttentionKeys {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t slot = 0, page_offset = 0;
  bool active = true;  // false: the row is not part of this pass

  bool same_slot(const AttentionKeys& b) const noexcept {
    return slot == b.slot && page_offset == b.page_offset;
  }
  std::uint64_t first_chunk() const noexcept { return begin / key_chunk; }
  std::uint64_t end_chunk() const noexcept { return (end + key_chunk - 1) / key_chunk; }
};

inline AttentionKeys visible_keys(const AttentionParams& p, const CachePlaces& places,
                                  const StepReader& step, std::uint32_t row) noexcept {
  AttentionKeys keys;
  std::uint64_t position = 0, length = p.kv_len;
  if (p.has_step != 0) {
    if (row >= step.n_rows()) {
      keys.active = false;
      return keys;
    }
    const StepRow r = step.row(row);
    if (r.slot >= step.n_slots() || (places.pages == nullptr && r.slot >= p.slots)) return keys;
    const StepSlot slot = step.slot(r.slot);
    keys.slot = r.slot;
    keys.page_offset = slot.page_offset;
    position = r.position;
    length = slot.kv_length;
  } else {
    position = std::uint64_t{p.kv_len} - p.rows + row;
  }
  length = std::min(length, places.reach(keys.page_offset));
  keys.end = p.causal != 0 ? std::min(position + 1, length) : length;
  if (p.window != 0 && position + 1 > p.window) keys.begin = position + 1 - p.window;
  // A ring has forgotten what lies further back.
  if (p.ring != 0 && length > p.capacity) keys.begin = std::max(keys.begin, length - p.capacity);
  keys.begin = std::min(keys.begin, keys.end);
  return keys;
}

}  // namespace onepass::ops
