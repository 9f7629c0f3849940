// The bound on memory while a bad file is refused: live heap at most twice the file and 64 MiB more
// (or less, where a test asks for it).
// A program that uses it links heap.cpp, and prints the worst of its files at the end.
//
//   const BadFileHeap heap(bytes.size());
//   const auto result = Gguf::parse(bytes);
//   heap.check();
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "support/heap.h"

namespace onepass::test {

class BadFileHeap {
 public:
  explicit BadFileHeap(std::size_t file_bytes, std::int64_t more_bytes = 64 << 20)
      : file_bytes_(static_cast<std::int64_t>(file_bytes)),
        more_bytes_(more_bytes),
        before_(heap_live_bytes()) {
    reset_heap_peak();
  }
  void check() const {
    const std::int64_t peak = heap_peak_bytes() - before_;
    EXPECT_LE(peak, 2 * file_bytes_ + more_bytes_) << "file of " << file_bytes_;
    Worst& worst = Worst::of_program();
    ++worst.files;
    worst.peak = std::max(worst.peak, peak);
    worst.beyond_twice_file = std::max(worst.beyond_twice_file, peak - 2 * file_bytes_);
  }

 private:
  struct Worst : testing::Environment {
    static Worst& of_program() {
      static Worst* const worst = new Worst;  // googletest deletes it, at the end of all tests
      return *worst;
    }
    void TearDown() override {
      if (files == 0) return;
      std::printf("%d bad files read: live heap at most %.1f KiB, %.1f KiB above twice the file\n",
                  files, static_cast<double>(peak) / 1024,
                  static_cast<double>(std::max(beyond_twice_file, std::int64_t{0})) / 1024);
    }
    int files = 0;
    std::int64_t peak = 0, beyond_twice_file = INT64_MIN;
  };
  inline static testing::Environment* const environment_ =
      testing::AddGlobalTestEnvironment(&Worst::of_program());

  std::int64_t file_bytes_, more_bytes_, before_;
};

}  // namespace onepass::test
