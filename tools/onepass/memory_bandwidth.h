// What the memory gives.
#pragma once

#include <cstdint>

namespace onepass::tool {

// Bytes per second that so many threads read together from memory: the best of some passes over
// more than any cache holds. 0: there is not enough memory to find out. Takes about half a second.
double memory_bandwidth(std::uint32_t threads);

}  // namespace onepass::tool
