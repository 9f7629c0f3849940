// Writes GGUF files for tests. Bytes puts anything after anything, also what no reader may accept;
// GgufWriter makes good files.
//
//   GgufWriter w;
//   w.set("general.architecture", "llama").set("llama.block_count", 2u);
//   w.tensor("output_norm.weight", 0, {64}, values);
//   std::vector<std::byte> file = w.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/gguf.h"

namespace onepass::test {

class Bytes {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> Bytes& put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    data_.insert(data_.end(), p, p + sizeof(T));
    return *this;
  }
  Bytes& u8(unsigned v) { return put(static_cast<std::uint8_t>(v)); }
  Bytes& u32(std::uint32_t v) { return put(v); }
  Bytes& u64(std::uint64_t v) { return put(v); }
  Bytes& raw(std::string_view text) {
    const auto bytes = std::as_bytes(std::span<const char>(text));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& append(std::span<const std::byte> bytes) {
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& string(std::string_view text) { return u64(text.size()).raw(text); }
  Bytes& zeros(std::size_t n) {
    data_.resize(data_.size() + n);
    return *this;
  }
  Bytes& pad(std::size_t alignment = 32) {
    while (data_.size() % alignment != 0) data_.push_back(std::byte{0});
    return *this;
  }

  // Parts of a GGUF file.
  Bytes& header(std::uint64_t n_tensors, std::uint64_t n_keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(n_tensors).u64(n_keys);
  }
  Bytes& key(std::string_view name, std::uint32_t type) { return string(name).u32(type); }
  Bytes& array(std::string_view name, std::uint32_t element, std::uint64_t n) {
    return key(name, 9).u32(element).u64(n);
  }
  Bytes& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }

  std::size_t size() const { return data_.size(); }
  const std::vector<std::byte>& data() const { return data_; }
  operator std::vector<std::byte>() const { return data_; }  // NOLINT: reads like a literal

 private:
  std::vector<std::byte> data_;
};

class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3, std::uint32_t alignment = 32)
      : version_(version), alignment_(alignment) {
    if (alignment != 32) set("general.alignment", alignment);
  }

  template <class T>
  GgufWriter& set(std::string_view key, const T& value) {
    Bytes b;
    b.key(key, type_of<T>());
    put(b, value);
    entries_.emplace_back(key, b.data());
    return *this;
  }
  template <class T>
  GgufWriter& set_array(std::string_view key, const std::vector<T>& values) {
    Bytes b;
    b.array(key, type_of<T>(), values.size());
    for (const T& v : values) put(b, v);
    entries_.emplace_back(key, b.data());
    return *this;
  }
  GgufWriter& erase(std::string_view key) {
    std::erase_if(entries_, [key](const auto& entry) { return entry.first == key; });
    return *this;
  }
  // dims as in the file: first one contiguous.
  GgufWriter& tensor(std::string_view name, std::uint32_t type, std::vector<std::uint64_t> dims,
                     std::span<const std::byte> data) {
    tensors_.push_back(
        {std::string(name), type, std::move(dims), std::vector(data.begin(), data.end())});
    return *this;
  }
  GgufWriter& tensor(std::string_view name, std::vector<std::uint64_t> dims,
                     const std::vector<float>& data) {
    return tensor(name, 0, std::move(dims), std::as_bytes(std::span(data)));
  }
  GgufWriter& erase_tensor(std::string_view name) {
    std::erase_if(tensors_, [name](const Tensor& t) { return t.name == name; });
    return *this;
  }

  std::vector<std::byte> finish() const {
    Bytes file;
    file.header(tensors_.size(), entries_.size(), version_);
    for (const auto& entry : entries_) file.append(entry.second);
    Bytes data;
    for (const Tensor& t : tensors_) {
      data.pad(alignment_);
      file.tensor(t.name, t.dims, t.type, data.size());
      data.append(t.data);
    }
    return file.pad(alignment_).append(data.data()).data();
  }

 private:
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dims;
    std::vector<std::byte> data;
  };

  template <class T>
  static constexpr std::uint32_t type_of() {
    if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
    if constexpr (std::is_same_v<T, std::int8_t>) return 1;
    if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
    if constexpr (std::is_same_v<T, std::int16_t>) return 3;
    if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
    if constexpr (std::is_same_v<T, std::int32_t>) return 5;
    if constexpr (std::is_same_v<T, float>) return 6;
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
    if constexpr (std::is_same_v<T, std::int64_t>) return 11;
    if constexpr (std::is_same_v<T, double>) return 12;
    return 8;
  }
  template <class T>
  static void put(Bytes& b, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      b.u8(value ? 1 : 0);
    } else if constexpr (std::is_arithmetic_v<T>) {
      b.put(value);
    } else {
      b.string(value);
    }
  }

  std::uint32_t version_;
  std::uint32_t alignment_;
  std::vector<std::pair<std::string, std::vector<std::byte>>> entries_;
  std::vector<Tensor> tensors_;
};

}  // namespace onepass::test
