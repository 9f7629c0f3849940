// Bytes that are written before they are read, again and again.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace onepass {

// Grows, never shrinks, and sets nothing to zero. std::bad_alloc where there is no memory.
class Workspace {
 public:
  // n bytes of any value. What an earlier call gave is the same memory, or gone.
  std::span<std::byte> take(std::size_t n) {
    if (n > size_) {
      size_ = 0;
      memory_.reset();
      memory_.reset(new std::byte[n]);
      size_ = n;
    }
    return {memory_.get(), n};
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace onepass
