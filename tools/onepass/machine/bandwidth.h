// How fast this machine reads memory: the one figure that every command measures speeds by.
#pragma once

#include <cstdint>
#include <string>

namespace onepass::tool {

// Bytes per second that so many threads read together from memory. Measured once for each number of
// threads since the machine was started, which takes about half a second, and kept in
// $XDG_CACHE_HOME/onepass/bandwidth, else below ~/.cache; `again` measures anew, and the better one
// is kept. 0: there is not enough memory to find out.
double memory_bandwidth(std::uint32_t threads, bool again = false);

// Part of what memory can give. What is faster than memory came from caches, or memory is faster
// than it was when it was measured: then it is measured again before it is called so.
struct MemoryShare {
  double roof = 0.0;      // bytes per second; 0: not known
  double share = 0.0;     // at most 1; 0 in a cache or where nothing is known
  bool in_cache = false;  // faster than memory
};
MemoryShare share_of_memory(double bytes_per_second, std::uint32_t threads);

// "71 % of 50.1 GB/s", or "in cache, memory gives 50.1 GB/s"; empty where nothing is known.
std::string to_string(const MemoryShare& share);

}  // namespace onepass::tool
