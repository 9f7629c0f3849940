// Writes a GGUF file, tensor by tensor. It is there under its name only once it is complete.
//
//   GgufOutput out;
//   ONEPASS_TRY(out.set("general.architecture", "llama"));
//   ONEPASS_TRY(out.add_tensor("output_norm.weight", *ggml_type(0), dims));
//   ONEPASS_TRY(out.create("model.gguf"));
//   ONEPASS_TRY(out.write(bytes));                        // of the first tensor, in any pieces
//   ONEPASS_TRY(out.commit());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/os.h"
#include "io/gguf.h"

namespace onepass::io {

// Version 3. What it accepts, Gguf::parse accepts.
class GgufOutput {
 public:
  // alignment: a power of two within the limits.
  static Result<GgufOutput> make(std::uint64_t alignment);
  GgufOutput() = default;

  // Metadata in the order it is first set; a key that is there already gets the new value.
  Status set(std::string_view key, std::string_view text);
  Status set(std::string_view key, const char* text) { return set(key, std::string_view(text)); }
  template <class T>
  requires(std::is_arithmetic_v<T>) Status set(std::string_view key, T value) {
    return set_raw(key, gguf_type_of<T>(), std::as_bytes(std::span(&value, 1)));
  }
  Status set(std::string_view key, std::span<const std::string> texts);
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) Status
      set(std::string_view key, std::span<const T> values) {
    return set_array(key, gguf_type_of<T>(), values.size(), std::as_bytes(values));
  }
  Status set_flags(std::string_view key, std::span<const std::uint8_t> flags);  // 0 or 1 each
  // An entry of another file, which may go afterwards. The alignment is this file's own.
  Status copy(const GgufEntry& entry);

  // dims: the first one contiguous. Only before create().
  Status add_tensor(std::string_view name, const GgmlType& type,
                    std::span<const std::uint64_t> dims);
  // Of the whole file; not after create().
  Result<std::uint64_t> file_bytes() const;

  // Writes everything but the tensors' bytes.
  Status create(const std::string& path);
  // The next bytes of the tensors, in the order they were added. One call stays within one tensor.
  Status write(std::span<const std::byte> bytes);
  // All tensors were written.
  Status commit();

 private:
  struct Entry {
    std::string key;
    std::vector<std::byte> bytes;  // type and value
  };
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::uint64_t offset, bytes;
  };

  template <class T>
  static constexpr GgufType gguf_type_of() noexcept {
    if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
    if constexpr (std::is_same_v<T, float>) return GgufType::f32;
    if constexpr (std::is_same_v<T, double>) return GgufType::f64;
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? GgufType::i8 : GgufType::u8;
    if constexpr (sizeof(T) == 2) return is_signed ? GgufType::i16 : GgufType::u16;
    if constexpr (sizeof(T) == 8) return is_signed ? GgufType::i64 : GgufType::u64;
    return is_signed ? GgufType::i32 : GgufType::u32;
  }
  Status set_raw(std::string_view key, GgufType type, std::span<const std::byte> value);
  Status set_array(std::string_view key, GgufType element, std::uint64_t count,
                   std::span<const std::byte> values);
  Status put(std::string_view key, std::vector<std::byte> bytes);
  Result<std::vector<std::byte>> header() const;
  Status pad(std::uint64_t to);

  std::uint64_t alignment_ = 32;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
  std::uint64_t data_bytes_ = 0;  // of the tensors so far, padding included
  os::AtomicFile file_;
  bool created_ = false;
  std::size_t current_ = 0;    // tensor that is being written
  std::uint64_t written_ = 0;  // bytes of it
};

}  // namespace onepass::io
