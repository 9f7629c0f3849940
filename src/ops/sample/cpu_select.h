// The largest numbers of a row, sorted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

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

// Sorts keys whose ids rise, largest first, with three passes over the values: the order of equal
// ones stays. other holds n keys too. Returns the one of the two with the result.
inline SelectKey* sort_all(SelectKey* keys, SelectKey* other, std::size_t n) noexcept {
  constexpr unsigned bits = 11, digits = 1u << bits, passes = 3;
  std::uint32_t place[passes][digits] = {};
  for (std::size_t i = 0; i < n; ++i) {
    for (unsigned p = 0; p < passes; ++p) ++place[p][keys[i] >> (32 + bits * p) & (digits - 1)];
  }
  for (auto& counts : place) {
    std::uint32_t before = 0;
    for (unsigned d = digits; d-- > 0;) before += std::exchange(counts[d], before);
  }
  for (unsigned p = 0; p < passes; ++p) {
    for (std::size_t i = 0; i < n; ++i) {
      other[place[p][keys[i] >> (32 + bits * p) & (digits - 1)]++] = keys[i];
    }
    std::swap(keys, other);
  }
  return keys;
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
  const float* from = x + std::uint64_t{row} * cols;
  std::byte* counter = a.persistent + std::size_t{4} * row;
  if (k > select_few) {
    auto* keys = reinterpret_cast<SelectKey*>(a.scratch) + std::size_t{2} * row * cols;
    for (std::uint32_t i = begin; i < end; ++i) keys[i] = select_key(from[i] / divisor, i);
    if (last_tile(counter, chunks)) done(row, sort_all(keys, keys + cols, cols), k);
    return;
  }
  // Unused places sort behind everything.
  auto* keys = reinterpret_cast<SelectKey*>(a.scratch) + std::size_t{row} * chunks * k;
  const std::uint32_t count = select_part(from, begin, end, k, divisor, buffer);
  SelectKey* mine = keys + std::size_t{chunk} * k;
  std::copy_n(buffer, count, mine);
  std::fill(mine + count, mine + k, SelectKey{0});
  if (!last_tile(counter, chunks)) return;
  std::nth_element(keys, keys + (k - 1), keys + std::size_t{chunks} * k, std::greater<>());
  std::sort(keys, keys + k, std::greater<>());
  done(row, keys, k);
}

}  // namespace onepass::ops
