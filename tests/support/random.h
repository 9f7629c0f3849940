// The random numbers of tests.
#pragma once

#include <cstdint>

namespace onepass::test {

// SplitMix64: the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [lo, hi].
  std::uint32_t in(std::uint32_t lo, std::uint32_t hi) {
    return lo + static_cast<std::uint32_t>(next() % (std::uint64_t{hi} - lo + 1));
  }
  bool percent(std::uint32_t p) { return in(1, 100) <= p; }

 private:
  std::uint64_t state_;
};

}  // namespace onepass::test
