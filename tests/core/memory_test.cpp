#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "core/os.h"

namespace onepass::test::memory_test {
namespace {

struct Piece {
  std::byte* p;
  std::uint64_t bytes;
};

bool holds(const Piece& piece, std::byte value) {
  return std::all_of(piece.p, piece.p + piece.bytes, [value](std::byte b) { return b == value; });
}

Piece allocate(std::uint64_t bytes) {
  return {static_cast<std::byte*>(os::allocate(bytes, true)), bytes};
}

TEST(Memory, PiecesOfAllSizesAreZeroAlignedAndApart) {
  const std::uint64_t sizes[] = {1,
                                 255,
                                 4096,
                                 (64 << 10) - 1,
                                 64 << 10,
                                 (64 << 10) + 1,
                                 1 << 20,
                                 (2 << 20) - 4096,
                                 (2 << 20) + 1,
                                 9 << 20,
                                 70 << 20};
  std::vector<Piece> pieces;
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t bytes : sizes) {
      pieces.push_back(allocate(bytes));
      ASSERT_NE(pieces.back().p, nullptr) << bytes;
      const auto address = reinterpret_cast<std::uintptr_t>(pieces.back().p);
      EXPECT_EQ(address % (bytes >= (64 << 10) ? os::page_bytes() : 256), 0u) << bytes;
      EXPECT_TRUE(holds(pieces.back(), std::byte{0})) << bytes;
      std::memset(pieces.back().p, static_cast<int>(pieces.size()), bytes);
    }
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_TRUE(holds(pieces[i], static_cast<std::byte>(i + 1))) << pieces[i].bytes;
    os::release(pieces[i].p, pieces[i].bytes);
  }
}

TEST(Memory, WhatIsReleasedIsGivenBack) {
  constexpr std::uint64_t bytes = 3 << 20;
  std::uint64_t most = 0;
  for (int i = 0; i < 400; ++i) {
    const Piece piece = allocate(bytes);
    ASSERT_NE(piece.p, nullptr);
    std::memset(piece.p, 1, bytes);
    os::release(piece.p, piece.bytes);
    if (i == 20) most = os::resident_memory_bytes();
  }
  if (os::sanitized) return;  // the instrumented heap keeps some
  EXPECT_LT(os::resident_memory_bytes(), most + (32 << 20)) << "400 pieces of 3 MiB";
}

TEST(Memory, ThreadsAllocateAndReleaseInAnyOrder) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::minstd_rand random(t + 1);
      std::vector<Piece> held;
      for (int i = 0; i < 300; ++i) {
        if (held.size() > 8 || (!held.empty() && random() % 3 == 0)) {
          const std::size_t at = random() % held.size();
          EXPECT_TRUE(holds(held[at], static_cast<std::byte>(t + 1)));
          os::release(held[at].p, held[at].bytes);
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          held.push_back(allocate(1 + random() % (300 << 10)));
          ASSERT_NE(held.back().p, nullptr);
          EXPECT_TRUE(holds(held.back(), std::byte{0}));
          std::memset(held.back().p, static_cast<int>(t + 1), held.back().bytes);
        }
      }
      for (const Piece& piece : held) os::release(piece.p, piece.bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Memory, MoreThanThereIsIsNull) {
  EXPECT_EQ(os::allocate(~std::uint64_t{0}, false), nullptr);
  const Piece after = allocate(1 << 20);
  ASSERT_NE(after.p, nullptr);
  os::release(after.p, after.bytes);
}

}  // namespace
}  // namespace onepass::test::memory_test
