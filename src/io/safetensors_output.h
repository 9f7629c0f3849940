// Writes a safetensors file, tensor by tensor. It is there under its name only once it is complete.
//
//   SafetensorsOutput out;
//   ONEPASS_TRY(out.add_tensor("model.norm.weight", *safetensors_type("F16"), dims));
//   ONEPASS_TRY(out.create("model.safetensors"));
//   ONEPASS_TRY(out.write(bytes));                        // of the first tensor, in any pieces
//   ONEPASS_TRY(out.commit());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/os.h"
#include "io/safetensors.h"

namespace onepass::io {

class SafetensorsOutput {
 public:
  // dims: the last one contiguous. Only before create().
  Status add_tensor(std::string_view name, const SafetensorsType& type,
                    std::span<const std::uint64_t> dims);
  // Writes the header.
  Status create(const std::string& path);
  // The next bytes of the tensors, in the order they were added.
  Status write(std::span<const std::byte> bytes);
  // All bytes were written.
  Status commit();

 private:
  std::vector<std::string> names_;
  std::string entries_;           // of the header
  std::uint64_t data_bytes_ = 0;  // of all tensors
  std::uint64_t written_ = 0;
  os::AtomicFile file_;
  bool created_ = false;
};

}  // namespace onepass::io
