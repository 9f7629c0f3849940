// The launches that one dispatch becomes where a single one cannot do it.
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
  // Adds a launch, described as a dispatch: a part of the one being lowered, or another op that
  // does some of its work. Its own kernel row gives the launch, its bytes give the order.
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
