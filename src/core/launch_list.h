// What a kernel row makes of one dispatch that a single launch of it cannot do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "onepass/dispatch.h"

namespace onepass {

// Views of scratch between the launches of one dispatch have this generation; the slot counts them.
inline constexpr std::uint32_t between_launches = ~std::uint32_t{0};

class LaunchList {
 public:
  // One launch more: a part of the dispatch, or another op on its behalf. Views and params say all
  // of it; the row that fits it gives the launch. Order follows from the bytes, as everywhere.
  void add(const Dispatch& part) { parts_.push_back(part); }
  // Memory for launches of this dispatch alone.
  View scratch(std::uint64_t bytes) {
    scratch_.push_back(bytes);
    return {BufferId{static_cast<std::uint32_t>(scratch_.size() - 1), between_launches}, 0, bytes};
  }

  std::span<const Dispatch> parts() const noexcept { return parts_; }
  std::span<const std::uint64_t> scratch_bytes() const noexcept { return scratch_; }

 private:
  std::vector<Dispatch> parts_;
  std::vector<std::uint64_t> scratch_;
};

}  // namespace onepass
