// Ranges that NVIDIA's profilers show above what a thread calls, in the domain "onepass".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace onepass::cuda {

// True where a profiler listens; the first call looks for one. Without NVTX's headers: never.
bool nvtx_listens() noexcept;

// From construction to destruction, on the calling thread. Null or no listener: nothing.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) noexcept;
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool open_;
};

// From the groups of one launch to those of the next ("layer 3/attention"): how many ranges end,
// and which begin.
struct GroupStep {
  std::size_t ends = 0;
  std::vector<std::string> begins;

  static GroupStep between(std::string_view from, std::string_view to);
};

// The ranges of nested groups, on the calling thread; those left open end with it.
class NvtxGroups {
 public:
  NvtxGroups() = default;
  ~NvtxGroups();
  NvtxGroups(const NvtxGroups&) = delete;
  NvtxGroups& operator=(const NvtxGroups&) = delete;

  void take(const GroupStep& step) noexcept;

 private:
  std::size_t open_ = 0;
};

}  // namespace onepass::cuda
