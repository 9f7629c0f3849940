// What the CPU kernels share: element types, loads of every weight format, reductions in a fixed
// order, and the rows of a StepState.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "onepass/kernel.h"
#include "onepass/step_state.h"
#include "ops/shared/scalar.h"
#include "quant/blocks.h"

namespace onepass::ops {

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

inline float to_float(float x) noexcept { return x; }
inline float to_float(F16 x) noexcept { return op_f16_to_f32(x.bits); }
inline float to_float(BF16 x) noexcept { return op_bf16_to_f32(x.bits); }

template <class T>
T from_float(float x) noexcept;
template <>
inline float from_float<float>(float x) noexcept {
  return x;
}
template <>
inline F16 from_float<F16>(float x) noexcept {
  return F16{static_cast<std::uint16_t>(op_f32_to_f16(x))};
}
template <>
inline BF16 from_float<BF16>(float x) noexcept {
  return BF16{static_cast<std::uint16_t>(op_f32_to_bf16(x))};
}

// Element i of a sum goes to lane i % 16, and lanes are added in one fixed tree: the bits depend
// on the numbers alone.
inline constexpr std::size_t n_lanes = 16;
using Lanes = std::array<float, n_lanes>;

inline float sum(Lanes lanes) noexcept {
  for (std::size_t width = n_lanes / 2; width > 0; width /= 2) {
    for (std::size_t j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

// Adds f(i) for i in [0, n).
template <class F>
inline void accumulate(Lanes& lanes, std::size_t n, F&& f) noexcept {
  std::size_t i = 0;
  for (; i + n_lanes <= n; i += n_lanes) {
    for (std::size_t j = 0; j < n_lanes; ++j) lanes[j] += f(i + j);
  }
  for (std::size_t j = 0; i + j < n; ++j) lanes[j] += f(i + j);
}

// Elements [begin, begin + n) of a row as f32: the row itself or a copy in buffer. Block formats
// need begin and n to be multiples of the block.
inline const float* load_row(const float* row, std::size_t begin, std::size_t, float*) noexcept {
  return row + begin;
}
template <class T>
inline const float* load_row(const T* row, std::size_t begin, std::size_t n,
                             float* buffer) noexcept {
  if constexpr (requires { T::elements; }) {
    constexpr std::size_t block = T::elements;
    for (std::size_t i = 0; i < n; i += block) {
      dequantize(row[(begin + i) / block], buffer + i);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) buffer[i] = to_float(row[begin + i]);
  }
  return buffer;
}

// Start of row r of a [rows, cols] matrix.
template <class T>
inline const T* row_of(const T* matrix, std::size_t r, std::size_t cols) noexcept {
  if constexpr (requires { T::elements; }) {
    return matrix + r * (cols / T::elements);
  } else {
    return matrix + r * cols;
  }
}

// Reads a StepState; whatever the bytes are, nothing outside them is read.
class StepReader {
 public:
  StepReader(const std::byte* data, std::uint64_t bytes) noexcept : data_(data) {
    if (bytes < sizeof(StepHeader)) return;
    StepHeader& header = header_;
    std::memcpy(&header, data, sizeof(header));
    const std::uint64_t rows_end = StepState::size_bytes(header.max_rows, 0);
    if (rows_end > bytes) return;
    n_rows_ = header.n_rows < header.max_rows ? header.n_rows : header.max_rows;
    slots_at_ = rows_end;
    const std::uint64_t room = (bytes - rows_end) / sizeof(StepSlot);
    n_slots_ = header.max_slots < room ? header.max_slots : static_cast<std::uint32_t>(room);
  }

  const StepHeader& header() const noexcept { return header_; }  // as it is in memory
  std::uint32_t n_rows() const noexcept { return n_rows_; }
  std::uint32_t n_slots() const noexcept { return n_slots_; }
  std::uint64_t row_offset(std::uint32_t r) const noexcept { return StepState::size_bytes(r, 0); }
  std::uint64_t slot_offset(std::uint32_t i) const noexcept {
    return slots_at_ + sizeof(StepSlot) * std::uint64_t{i};
  }
  StepRow row(std::uint32_t r) const noexcept {
    StepRow row;
    std::memcpy(&row, data_ + row_offset(r), sizeof(row));
    return row;
  }
  StepSlot slot(std::uint32_t i) const noexcept {
    StepSlot slot;
    std::memcpy(&slot, data_ + slot_offset(i), sizeof(slot));
    return slot;
  }

 private:
  const std::byte* data_;
  StepHeader header_{};
  std::uint64_t slots_at_ = 0;
  std::uint32_t n_rows_ = 0;
  std::uint32_t n_slots_ = 0;
};

}  // namespace onepass::ops
