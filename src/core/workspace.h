// Temporary memory that is kept from one use to the next.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace onepass {

// Grows, never shrinks, and sets nothing to zero. std::bad_alloc where there is no memory.
class Workspace {
 public:
  // n bytes of unspecified contents. Ends the validity of what earlier calls returned.
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
