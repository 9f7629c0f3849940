// Entries for the last few submissions, by serial number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace onepass {

// Serial s has entry s % size(), so at most size() consecutive serials are alive at a time.
template <class T>
class SerialRing {
 public:
  explicit SerialRing(std::size_t size) : entries_(std::max<std::size_t>(size, 1)) {}

  std::size_t size() const noexcept { return entries_.size(); }
  std::size_t place(std::uint64_t serial) const noexcept {
    return static_cast<std::size_t>(serial % entries_.size());
  }
  T& operator[](std::uint64_t serial) noexcept { return entries_[place(serial)]; }
  auto begin() noexcept { return entries_.begin(); }
  auto end() noexcept { return entries_.end(); }

 private:
  std::vector<T> entries_;
};

}  // namespace onepass
