// The examples of the public headers, compiled and run. Lines between two marks [HEADER] are those
// of the header's file comment; scripts/checks/check_docs.py compares them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

namespace snippets {

struct Snippet {
  const char* header;  // below include/onepass
  onepass::Status (*run)(const onepass::Device&);
};

std::span<const Snippet> core();
std::span<const Snippet> graph();
std::span<const Snippet> ops();
std::span<const Snippet> compat();

inline onepass::Status check(bool right, const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
  if (right) return {};
  return onepass::fail(onepass::ErrorCode::internal, "wrong result", file, line);
}

// Tensors with values, each in a buffer of its own. The first error sticks.
class Arrays {
 public:
  explicit Arrays(const onepass::Device& device) : device_(device) {}

  onepass::Tensor empty(onepass::DType type, onepass::Shape shape) {
    onepass::Result<onepass::Buffer> made =
        device_.allocate(onepass::storage_bytes(type, shape).value_or(0));
    if (!made) {
      if (status_) status_ = made.error();
      return {};
    }
    buffers_.push_back(std::move(*made));
    return buffers_.back().tensor(type, shape);
  }
  template <class T>
  onepass::Tensor of(onepass::DType type, onepass::Shape shape, const std::vector<T>& values) {
    const onepass::Tensor t = empty(type, shape);
    if (status_) status_ = device_.write_as<T>(t.view, values);
    return t;
  }
  onepass::Tensor f32(onepass::Shape shape, const std::vector<float>& values) {
    return of(onepass::DType::f32, shape, values);
  }
  onepass::Tensor fill(onepass::Shape shape, float value) {
    return f32(shape, std::vector<float>(shape.elements(), value));
  }
  onepass::Tensor zeros(onepass::Shape shape) { return empty(onepass::DType::f32, shape); }
  onepass::Tensor u32(onepass::Shape shape, const std::vector<std::uint32_t>& values) {
    return of(onepass::DType::u32, shape, values);
  }

  template <class T = float>
  onepass::Result<std::vector<T>> read(const onepass::Tensor& t) const {
    ONEPASS_TRY(status_);
    std::vector<T> values(t.shape.elements());
    ONEPASS_TRY(device_.read_as<T>(t.view, values));
    return values;
  }
  onepass::Status status() const { return status_; }

 private:
  onepass::Device device_;
  std::vector<onepass::Buffer> buffers_;
  onepass::Status status_;
};

}  // namespace snippets
