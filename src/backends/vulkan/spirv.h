// What is done to a SPIR-V module before a driver sees it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace onepass::vulkan {

// The module with NoContraction on every product, sum, difference and quotient of floating-point
// numbers: a driver may not fuse two of them. Empty where the words are no module.
//
// It is done here and not in the sources, whose `precise` a translation to other languages turns
// into much slower code.
std::vector<std::uint32_t> without_contraction(std::span<const std::uint32_t> words);

}  // namespace onepass::vulkan
