// Safetensors: the tensor table of one file, as views into its bytes.
//
//   ONEPASS_ASSIGN(Safetensors file, Safetensors::parse(bytes));
//   const Safetensor* t = file.find("model.norm.weight");
//   std::span<const std::byte> data = bytes.subspan(file.data_offset() + t->offset, t->bytes);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/limits.h"
#include "io/reader.h"

namespace onepass::io {

struct SafetensorsType {
  std::string_view name;  // as in the file: "F16"
  std::uint32_t bytes;    // of one element
};
// Null for a name that is not known.
const SafetensorsType* safetensors_type(std::string_view name) noexcept;

struct Safetensor {
  std::string_view name;
  const SafetensorsType* type = nullptr;
  std::uint32_t n_dims = 0;                                                      // 0: one element
  std::array<std::uint64_t, max_safetensors_dims> dims{1, 1, 1, 1, 1, 1, 1, 1};  // last contiguous
  std::uint64_t offset = 0;  // from the start of the data section
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;  // offset of its description in the file
};

// Holds views: the bytes must outlive it. The tensors tile the data section exactly.
class Safetensors {
 public:
  static Result<Safetensors> parse(std::span<const std::byte> bytes);
  // The start of a file; reader.needs_more() tells whether the error comes from too few bytes.
  static Result<Safetensors> parse(Reader& reader);

  std::uint64_t data_offset() const noexcept { return data_offset_; }
  std::span<const Safetensor> tensors() const noexcept { return tensors_; }  // in header order
  const Safetensor* find(std::string_view tensor_name) const noexcept;       // null: not there
  // The strings of `__metadata__`.
  std::span<const std::pair<std::string_view, std::string_view>> metadata() const noexcept {
    return metadata_;
  }

 private:
  Status read_header(std::string_view header, std::uint64_t data_bytes);
  Status check_names() const;
  Status check_extents(std::uint64_t data_bytes) const;

  std::uint64_t data_offset_ = 0;
  std::vector<Safetensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors_, sorted by name
  std::vector<std::pair<std::string_view, std::string_view>> metadata_;
  std::forward_list<std::string> decoded_;  // names that had escapes
};

}  // namespace onepass::io
