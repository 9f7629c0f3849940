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
