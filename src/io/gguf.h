// GGUF versions 2 and 3: metadata and tensor table of one file, as views into its bytes.
//
//   ONEPASS_ASSIGN(Gguf file, Gguf::parse(bytes));
//   ONEPASS_ASSIGN(std::uint64_t layers, file.integer("llama.block_count"));
//   const GgufTensor* t = file.find_tensor("token_embd.weight");
//   std::span<const std::byte> data = bytes.subspan(file.data_offset() + t->offset, t->bytes);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "io/limits.h"
#include "io/reader.h"

namespace onepass::io {

// Numbers as in the file.
enum class GgufType : std::uint8_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
const char* name(GgufType type) noexcept;

struct GgmlType {
  const char* name;
  std::uint32_t id;
  std::uint32_t block_elements;
  std::uint32_t block_bytes;
};
// Null for an id that is not known.
const GgmlType* ggml_type(std::uint32_t id) noexcept;

struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;   // of an array; else as type
  std::uint64_t count = 1;           // elements of an array
  std::span<const std::byte> bytes;  // a number, the text of a string, or elements as stored
  std::uint64_t at = 0;              // offset of bytes in the file
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  const GgmlType* type = nullptr;
  std::uint32_t n_dims = 0;
  std::array<std::uint64_t, max_dims> dims{1, 1, 1, 1};  // first one contiguous
  std::uint64_t offset = 0;                              // from the start of the data section
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;  // offset of its description in the file
};

// The strings of an array, one after the other.
class GgufStrings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string_view;
    using iterator_category = std::input_iterator_tag;
    Iterator() = default;
    explicit Iterator(const std::byte* at) noexcept : at_(at) {}
    std::string_view operator*() const noexcept {
      return {reinterpret_cast<const char*>(at_) + sizeof(std::uint64_t),
              static_cast<std::size_t>(length())};
    }
    Iterator& operator++() noexcept {
      at_ += sizeof(std::uint64_t) + length();
      return *this;
    }
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    std::uint64_t length() const noexcept {
      std::uint64_t n;
      std::memcpy(&n, at_, sizeof n);
      return n;
    }
    const std::byte* at_ = nullptr;
  };

  GgufStrings() = default;
  // A checked array of strings.
  explicit GgufStrings(const GgufValue& value) noexcept
      : bytes_(value.bytes), count_(value.count) {}
  Iterator begin() const noexcept { return Iterator(bytes_.data()); }
  Iterator end() const noexcept { return Iterator(bytes_.data() + bytes_.size()); }
  std::uint64_t size() const noexcept { return count_; }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t count_ = 0;
};

// The numbers of an array.
template <class T>
class GgufNumbers {
 public:
  GgufNumbers() = default;
  explicit GgufNumbers(const GgufValue& value) noexcept : bytes_(value.bytes) {}
  std::uint64_t size() const noexcept { return bytes_.size() / sizeof(T); }
  T operator[](std::uint64_t i) const noexcept {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Holds views: the bytes must outlive it. Heap: at most 35 MiB, whatever the file says.
class Gguf {
 public:
  static Result<Gguf> parse(std::span<const std::byte> bytes);
  // The start of a file; reader.needs_more() tells whether the error comes from too few bytes.
  static Result<Gguf> parse(Reader& reader);

  std::uint32_t version() const noexcept { return version_; }
  std::uint64_t alignment() const noexcept { return alignment_; }
  std::uint64_t data_offset() const noexcept { return data_offset_; }

  std::span<const GgufEntry> entries() const noexcept { return entries_; }   // sorted by key
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }  // in file order
  const GgufValue* find(std::string_view key) const noexcept;                // null: not there
  const GgufTensor* find_tensor(std::string_view tensor_name) const noexcept;

  // A missing key is not_found, another type parse. Integers may have any width and sign as long
  // as they are not negative; numbers may be f32 or f64.
  Result<std::uint64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> text(std::string_view key) const;
  Result<GgufStrings> strings(std::string_view key) const;
  // An array of exactly this element type.
  template <class T>
  Result<GgufNumbers<T>> numbers(std::string_view key) const {
    ONEPASS_ASSIGN(const GgufValue value, array(key, type_of<T>()));
    return GgufNumbers<T>(value);
  }
  Result<GgufValue> array(std::string_view key, GgufType element) const;

 private:
  template <class T>
  static constexpr GgufType type_of() noexcept {
    if constexpr (std::same_as<T, float>) return GgufType::f32;
    if constexpr (std::same_as<T, double>) return GgufType::f64;
    if constexpr (std::same_as<T, std::uint8_t>) return GgufType::u8;
    if constexpr (std::same_as<T, std::int8_t>) return GgufType::i8;
    if constexpr (std::same_as<T, std::uint16_t>) return GgufType::u16;
    if constexpr (std::same_as<T, std::int16_t>) return GgufType::i16;
    if constexpr (std::same_as<T, std::uint32_t>) return GgufType::u32;
    if constexpr (std::same_as<T, std::int32_t>) return GgufType::i32;
    if constexpr (std::same_as<T, std::uint64_t>) return GgufType::u64;
    if constexpr (std::same_as<T, std::int64_t>) return GgufType::i64;
    return GgufType::boolean;
  }

  Status read_entries(Reader& reader, std::uint64_t n);
  Status read_tensors(Reader& reader, std::uint64_t n);
  Status read_alignment();
  Status check_extents(const Reader& reader);
  Result<GgufValue> required(std::string_view key) const;

  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::uint64_t data_offset_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices of tensors_, sorted by name
};

// Value i of a checked array or value of integers as u64; parse when it is negative or no integer.
Result<std::uint64_t> integer_at(const GgufValue& value, std::uint64_t i, std::string_view key);

}  // namespace onepass::io
