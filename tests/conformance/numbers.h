// Numbers for conformance cases: a seeded generator, 16-bit floats and stored values, written from
// their definitions and apart from the library's own code.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "onepass/dtype.h"

namespace onepass::conformance {

using Bytes = std::vector<std::byte>;
using Doubles = std::vector<double>;

// Half the distance between 1 and the next larger number.
inline constexpr double f32_unit = 0x1p-24;
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // The same for the same text on every platform.
  explicit Random(std::string_view text);

  std::uint64_t next();
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() >> 33) % n; }
  double uniform(double lo, double hi);
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(static_cast<std::uint32_t>(list.size()))];
  }

 private:
  std::uint64_t state_;
};

std::uint64_t hash(std::string_view text);

// To nearest, ties to even; overflow gives infinity.
std::uint16_t to_f16(double x);
std::uint16_t to_bf16(double x);
double from_f16(std::uint16_t bits);
double from_bf16(std::uint16_t bits);

// Values as stored bytes of f32, f16, bf16, u32 or i32, and what those bytes mean.
struct Stored {
  Bytes bytes;
  Doubles values;
};
Stored store(DType type, const Doubles& values);
Doubles load(DType type, std::span<const std::byte> bytes);

// Largest error of one store of a number of this magnitude.
double store_error(DType type, double magnitude);

// n values in [-scale, scale]; a few runs of 32 are zero, a few values eight times as large.
Stored random_values(Random& random, DType type, std::size_t n, double scale = 1.0);
Bytes words(const std::vector<std::uint32_t>& values);

}  // namespace onepass::conformance
