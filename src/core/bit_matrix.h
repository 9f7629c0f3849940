// A square matrix of bits, and rows of bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace onepass {

inline bool test_bit(std::span<const std::uint64_t> row, std::size_t i) noexcept {
  return (row[i / 64] >> (i % 64) & 1u) != 0;
}
inline void set_bit(std::span<std::uint64_t> row, std::size_t i) noexcept {
  row[i / 64] |= std::uint64_t{1} << (i % 64);
}

class BitMatrix {
 public:
  BitMatrix() = default;
  explicit BitMatrix(std::size_t n) { reset(n); }  // all bits clear
  // Keeps storage: rows hold unspecified bits until written.
  void reset(std::size_t n) {
    words_ = (n + 63) / 64;
    bits_.resize(words_ * n);
  }
  bool empty() const noexcept { return bits_.empty(); }
  std::size_t words() const noexcept { return words_; }  // of a row
  bool test(std::size_t i, std::size_t bit) const noexcept { return test_bit(row(i), bit); }
  std::span<std::uint64_t> row(std::size_t i) noexcept {
    return {bits_.data() + words_ * i, words_};
  }
  std::span<const std::uint64_t> row(std::size_t i) const noexcept {
    return {bits_.data() + words_ * i, words_};
  }

 private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
};

}  // namespace onepass
