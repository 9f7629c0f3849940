// How fast this machine reads memory, and a model's weights.
#pragma once

#include <cstdint>

#include "model/weights.h"

namespace onepass::tool {

// Bytes per second that so many threads read together from memory: the best of some passes over
// more than any cache holds. 0: there is not enough memory to find out. Takes about half a second.
double memory_bandwidth(std::uint32_t threads, std::uint64_t bytes = std::uint64_t{512} << 20,
                        std::uint32_t passes = 4);

// For a figure in 0.3 s.
inline constexpr std::uint64_t quick_bandwidth_bytes = std::uint64_t{256} << 20;
inline constexpr std::uint32_t quick_bandwidth_passes = 3;

// Bytes per second that the device's threads read from the weights when they do nothing else,
// over about 20 ms. 0: not known, the device is not the CPU.
double read_bandwidth(const llm::Model& model);

}  // namespace onepass::tool
