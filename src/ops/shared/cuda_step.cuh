// What kernels read of a StepState, and where the key of a position lies in a cache.
#ifndef ONEPASS_OPS_SHARED_CUDA_STEP_CUH_
#define ONEPASS_OPS_SHARED_CUDA_STEP_CUH_

#include <cstdint>

namespace onepass::ops {

// Reads a StepState (onepass/step_state.h) by words; whatever they are, nothing outside the view
// is read. Only after the wait for the kernels before.
struct DeviceStep {
  const std::uint32_t* words;
  std::uint32_t n_rows = 0, n_slots = 0;
  std::uint64_t slots_at = 0;  // in words

  static constexpr std::uint32_t header_words = 8, row_words = 4, slot_words = 4;

  __device__ DeviceStep(const void* data, std::uint64_t bytes)
      : words(static_cast<const std::uint32_t*>(data)) {
    if (bytes < 4 * header_words) return;
    const std::uint32_t max_rows = words[2], max_slots = words[3];
    const std::uint64_t rows_end = header_words + std::uint64_t{row_words} * max_rows;
    if (4 * rows_end > bytes) return;
    n_rows = min(words[0], max_rows);
    slots_at = rows_end;
    const std::uint64_t room = (bytes / 4 - rows_end) / slot_words;
    n_slots = max_slots < room ? max_slots : static_cast<std::uint32_t>(room);
  }
  __device__ std::uint32_t seed_lo() const { return words[4]; }
  __device__ std::uint32_t seed_hi() const { return words[5]; }

  __device__ std::uint64_t row_at(std::uint32_t r) const {
    return header_words + std::uint64_t{row_words} * r;
  }
  __device__ std::uint64_t slot_at(std::uint32_t i) const {
    return slots_at + std::uint64_t{slot_words} * i;
  }
  __device__ std::uint32_t token(std::uint32_t r) const { return words[row_at(r)]; }
  __device__ std::uint32_t position(std::uint32_t r) const { return words[row_at(r) + 1]; }
  __device__ std::uint32_t slot(std::uint32_t r) const { return words[row_at(r) + 2]; }
  __device__ std::uint32_t kv_length(std::uint32_t i) const { return words[slot_at(i)]; }
  __device__ std::uint32_t page_offset(std::uint32_t i) const { return words[slot_at(i) + 1]; }
};

// What a StepState says about one row.
struct StepEntry {
  bool active = false;  // else nothing else counts
  std::uint32_t token = 0, position = 0, slot = 0;
  bool has_slot = false;
  std::uint32_t kv_length = 0, page_offset = 0;
};

// Four words from word `at`, past L1: what was read before a wait is not found there after it.
__device__ inline uint4 load_words_4(const std::uint32_t* words, std::uint64_t at, bool wide) {
  if (wide) return __ldcg(reinterpret_cast<const uint4*>(words + at));
  return make_uint4(__ldcg(words + at), __ldcg(words + at + 1), __ldcg(words + at + 2),
                    __ldcg(words + at + 3));
}

// As DeviceStep, but without waiting for one load before the next is asked for: slot 0 behind
// `rows` rows is loaded ahead. Before the wait the result is a guess.
__device__ inline StepEntry read_step(const void* data, std::uint64_t bytes, std::uint32_t rows,
                                      std::uint32_t row) {
  const auto* words = static_cast<const std::uint32_t*>(data);
  const bool wide = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  StepEntry e;
  constexpr std::uint64_t header = DeviceStep::header_words;
  const std::uint64_t row_at = header + std::uint64_t{DeviceStep::row_words} * row;
  const std::uint64_t ahead_at = header + std::uint64_t{DeviceStep::row_words} * rows;
  const bool ahead = 4 * (ahead_at + DeviceStep::slot_words) <= bytes;
  if (4 * (row_at + DeviceStep::row_words) > bytes) return e;
  const uint4 head = load_words_4(words, 0, wide), mine = load_words_4(words, row_at, wide);
  const uint4 first = ahead ? load_words_4(words, ahead_at, wide) : make_uint4(0, 0, 0, 0);
  const std::uint32_t max_rows = head.z;
  const std::uint64_t slots_at = header + std::uint64_t{DeviceStep::row_words} * max_rows;
  if (row >= head.x || row >= max_rows || 4 * slots_at > bytes) return e;
  e.active = true;
  e.token = mine.x;
  e.position = mine.y;
  e.slot = mine.z;
  const std::uint64_t room = (bytes / 4 - slots_at) / DeviceStep::slot_words;
  e.has_slot = e.slot < head.w && e.slot < room;
  if (!e.has_slot) return e;
  if (ahead && max_rows == rows && e.slot == 0) {
    e.kv_length = first.x;
    e.page_offset = first.y;
  } else {
    const std::uint64_t at = slots_at + std::uint64_t{DeviceStep::slot_words} * e.slot;
    e.kv_length = __ldcg(words + at);
    e.page_offset = __ldcg(words + at + 1);
  }
  return e;
}

inline constexpr std::uint32_t device_page_positions = 256;

// As CachePlaces of cache.h.
struct DevicePlaces {
  std::uint32_t slots = 0;  // or pages
  std::uint32_t kv_heads = 0;
  std::uint32_t capacity = 0;
  bool ring = false;
  const std::uint32_t* pages = nullptr;
  std::uint64_t n_pages = 0;

  __device__ std::uint64_t reach(std::uint32_t page_offset) const {
    if (pages != nullptr) {
      return page_offset < n_pages ? (n_pages - page_offset) * device_page_positions : 0;
    }
    return ring ? ~std::uint64_t{0} : capacity;
  }
  // Row of the cache, counted in heads; false where it has no such place.
  __device__ bool find(std::uint32_t slot, std::uint32_t page_offset, std::uint32_t head,
                       std::uint64_t position, std::uint64_t& row) const {
    std::uint64_t block = slot, at = position;
    if (pages != nullptr) {
      const std::uint64_t entry = page_offset + position / device_page_positions;
      if (entry >= n_pages) return false;
      block = pages[entry];
      at = position % device_page_positions;
    } else if (ring) {
      at = position % capacity;
    }
    if (block >= slots || at >= capacity) return false;
    row = (block * kv_heads + head) * capacity + at;
    return true;
  }
};

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_STEP_CUH_
