// The most a chat template may do. Real ones stay far below each of these.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onepass::llm {

struct ChatLimits {
  std::size_t template_bytes = std::size_t{1} << 20;
  std::uint64_t steps = 10'000'000;
  std::size_t output_bytes = std::size_t{16} << 20;  // also of one text on the way
  // Of tags and expressions, of calls, of lists in lists. 100 need less than 1 MiB of stack.
  std::uint32_t depth = 100;
  std::uint32_t range = 1'000'000;
};

}  // namespace onepass::llm
