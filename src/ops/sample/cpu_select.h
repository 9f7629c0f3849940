// The largest numbers of a row, sorted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "ops/sample/kernels.h"
#include "ops/shared/last_tile.h"
#include "ops/shared/scalar.h"

namespace onepass::ops {

// Keys sort as their numbers: the larger value is the larger key, of equal ones that with the
// lower index. What is not a number comes last; -0 is 0.
using SelectKey = std::uint64_t;

inline SelectKey select_key(float value, std::uint32_t id) noexcept {
  const std::uint32_t bits = op_to_bits(value + 0.0f);
  const std::uint32_t order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return SelectKey{value == value ? order : 0u} << 32 | ~id;
}
inline float key_value(SelectKey key) noexcept {
  const auto order = static_cast<std::uint32_t>(key >> 32);
  return op_from_bits((order & 0x80000000u) != 0 ? order ^ 0x80000000u : ~order);
}
inline std::uint32_t key_id(SelectKey key) noexcept { return ~static_cast<std::uint32_t>(key); }

// Sorted keys of the `keep` largest x[i] / divisor for i in [begin, end), at most select_chunk of
// them, in buffer. Returns how many there are.
inline std::uint32_t select_part(const float* x, std::uint32_t begin, std::uint32_t end,
                                 std::uint32_t keep, float divisor, SelectKey* buffer) noexcept {
  const std::uint32_t room = std::clamp(2 * std::min(keep, select_chunk), 256u, select_chunk);
  std::uint32_t count = 0;
  bool has_floor = false;
  float floor = 0.0f;  // before division; no later number up to it can be among the largest
  for (std::uint32_t i = begin; i < end;) {
    if (has_floor && i + 16 <= end) {
      bool any = false;
      for (std::uint32_t j = 0; j < 16; ++j) any |= x[i + j] > floor;
      if (!any) {
        i += 16;
        continue;
      }
    }
    const std::uint32_t stop = std::min(i + 16, end);
    for (; i < stop; ++i) {
      if (has_floor && !(x[i] > floor)) continue;
      if (count == room) {
        std::nth_element(buffer, buffer + (keep - 1), buffer + count, std::greater<>());
        count = keep;
        floor = x[key_id(buffer[keep - 1])];
        has_floor = floor == floor;
        if (has_floor && !(x[i] > floor)) continue;
      }
      buffer[count++] = select_key(x[i] / divisor, i);
    }
  }
  if (count > keep) {
    std::nth_element(buffer, buffer + (keep - 1), buffer + count, std::greater<>());
    count = keep;
  }
  std::sort(buffer, buffer + count, std::greater<>());
  return count;
}

// `runs` sorted runs of `length` keys each, merged in pairs between the two buffers. Returns the
// one with the result.
inline SelectKey* merge_runs(SelectKey* from, SelectKey* to, std::size_t runs,
                             std::size_t length) noexcept {
  const std::size_t n = runs * length;
  for (std::size_t width = length; width < n; width *= 2) {
    for (std::size_t i = 0; i < n; i += 2 * width) {
      const std::size_t middle = std::min(i + width, n), end = std::min(i + 2 * width, n);
      std::merge(from + i, from + middle, from + middle, from + end, to + i, std::greater<>());
    }
    std::swap(from, to);
  }
  return from;
}

// Calls done(row, keys, count) with the sorted keys of the k largest x / divisor of each row for
// which active(row); done may change the keys.
template <class Active, class Done>
inline void select_rows(const KernelArgs& a, const float* x, std::uint32_t rows, std::uint32_t cols,
                        std::uint32_t k, float divisor, const Active& active,
                        const Done& done) noexcept {
  SelectKey buffer[select_chunk];
  const std::uint32_t chunks = a.launch->grid[0];
  if (chunks == 1) {
    const auto [begin, end] = a.part(rows);
    for (std::uint64_t row = begin; row < end; ++row) {
      if (!active(static_cast<std::uint32_t>(row))) continue;
      const std::uint32_t count = select_part(x + row * cols, 0, cols, k, divisor, buffer);
      done(static_cast<std::uint32_t>(row), buffer, count);
    }
    return;
  }

  const std::uint32_t row = a.tile / chunks, chunk = a.tile % chunks;
  if (!active(row)) return;
  const std::uint32_t begin = chunk * select_chunk;
  const std::uint32_t end = chunk + 1 == chunks ? cols : begin + select_chunk;
  const std::uint32_t count =
      select_part(x + std::uint64_t{row} * cols, begin, end, k, divisor, buffer);

  // Unused places sort behind everything.
  const std::size_t keep = std::min(k, select_chunk), row_keys = chunks * keep;
  auto* keys = reinterpret_cast<SelectKey*>(a.scratch) + row * row_keys;
  SelectKey* mine = keys + chunk * keep;
  std::copy_n(buffer, count, mine);
  std::fill(mine + count, mine + keep, SelectKey{0});
  if (!last_tile(a.persistent + std::size_t{4} * row, chunks)) return;

  if (k > select_few) {
    SelectKey* other =
        reinterpret_cast<SelectKey*>(a.scratch) + (std::size_t{rows} + row) * row_keys;
    keys = merge_runs(keys, other, chunks, keep);
  } else {
    std::nth_element(keys, keys + (k - 1), keys + row_keys, std::greater<>());
    std::sort(keys, keys + k, std::greater<>());
  }
  done(row, keys, k);
}

}  // namespace onepass::ops
