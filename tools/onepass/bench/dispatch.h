// One model decoded greedily in ways that differ only in how the ops of a token reach the device.
//
//   ONEPASS_ASSIGN(const std::vector<DispatchTimes> times, time_tokens(decoder, ways, test, 5));
//   ONEPASS_ASSIGN(const std::vector<KernelShare> shares, time_kernels(timed_decoder, ways, test));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/onepass.hpp"
#include "run/decoder.h"

namespace onepass::tool {

enum class DispatchMode : std::uint8_t {
  per_op,       // every op is submitted and waited for by itself
  session,      // a direct session for every token
  two_buffers,  // a recorded session for every token, its first tenth submitted early
  recorded,     // a recorded session for every token
  plan          // recorded and compiled once, run for every token
};
enum class FuseLevel : std::uint8_t { off, exact, all };

inline constexpr const char* dispatch_modes[] = {"per-op", "session", "two-buffers", "recorded",
                                                 "plan"};
inline constexpr const char* fuse_levels[] = {"off", "exact", "all"};
inline constexpr const char* order_policies[] = {"exact", "greedy", "recorded"};  // by Policy

struct DispatchWay {
  DispatchMode mode = DispatchMode::plan;
  FuseLevel fuse = FuseLevel::exact;
  Policy policy = Policy::exact;

  bool operator==(const DispatchWay&) const = default;
  std::string_view mode_name() const { return dispatch_modes[static_cast<std::size_t>(mode)]; }
  std::string_view fuse_name() const { return fuse_levels[static_cast<std::size_t>(fuse)]; }
  std::string_view policy_name() const { return order_policies[static_cast<std::size_t>(policy)]; }
};

// The combinations by mode. per-op and session take the ops as they were recorded: one way each.
std::vector<DispatchWay> dispatch_ways(const std::vector<std::string>& modes,
                                       const std::vector<std::string>& fuse,
                                       const std::vector<std::string>& policies);

struct DispatchTest {
  std::uint32_t tokens = 0, depth = 0;  // decoded behind so many others
};

struct DispatchTimes {
  std::vector<double> ns;  // of each repetition
  // Of one token. Below 0: the device gets none of the kind.
  double submissions = 0.0, waits = 0.0, barriers = -1.0, edges = -1.0;
  std::vector<std::uint32_t> tokens;  // that were chosen
};

// In the order of the ways, which take turns. Ways of one fuse level, and off and exact together,
// must choose the same tokens: an error says which did not.
Result<std::vector<DispatchTimes>> time_tokens(llm::Decoder& decoder,
                                               const std::vector<DispatchWay>& ways,
                                               const DispatchTest& test, std::uint32_t repetitions);
// Of the median token with every dispatch timed: µs in all, which timing makes a little more, and
// µs in which no dispatch ran; and the dispatches that ran. Below 0: the device reports no times.
struct KernelShare {
  double us = -1.0, outside_us = -1.0, dispatches = -1.0;
};
// The device of the model must have been opened with Profile::dispatches.
Result<std::vector<KernelShare>> time_kernels(llm::Decoder& decoder,
                                              const std::vector<DispatchWay>& ways,
                                              const DispatchTest& test);

// How many tokens of `of` differ from those the first way without close fusions chose; 0 where
// there is none.
std::size_t count_other_tokens(const std::vector<DispatchWay>& ways,
                               const std::vector<DispatchTimes>& times, std::size_t of);

}  // namespace onepass::tool
