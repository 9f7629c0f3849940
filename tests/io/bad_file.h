// Files that a reader must refuse, and how it refuses them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "onepass/result.h"
#include "support/bad_file_heap.h"

namespace onepass::test {

struct BadFile {
  const char* name;
  ErrorCode code;
  std::string field;
  std::function<std::vector<std::byte>()> make;
};
inline void PrintTo(const BadFile& file, std::ostream* out) { *out << file.name; }

// With the code and field, at an offset inside the file, and with little heap.
template <class Reader>
void expect_refused(const BadFile& bad) {
  const std::vector<std::byte> bytes = bad.make();
  const BadFileHeap heap(bytes.size(), 1 << 20);
  const Result<Reader> result = Reader::parse(bytes);
  heap.check();
  ASSERT_FALSE(result);
  const Error& error = result.error();
  EXPECT_EQ(name(error.code), std::string(name(bad.code))) << error.to_string();
  EXPECT_EQ(error.field, bad.field) << error.to_string();
  EXPECT_LE(error.byte_offset, bytes.size()) << error.to_string();
  EXPECT_FALSE(error.message.empty());
}

// Whichever allocation fails while a good file is read.
template <class Reader>
void expect_out_of_memory_is_an_error(std::span<const std::byte> bytes) {
  std::uint64_t n = 1;
  for (;; ++n) {
    fail_heap_allocation(n);
    const Result<Reader> file = Reader::parse(bytes);
    const bool fired = heap_failure_fired();
    fail_heap_allocation(0);
    if (!fired) {
      EXPECT_TRUE(file);
      break;
    }
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ErrorCode::out_of_memory);
  }
  EXPECT_GT(n, 3u);
}

}  // namespace onepass::test
