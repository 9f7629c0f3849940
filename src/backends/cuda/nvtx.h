// Ranges that NVIDIA's profilers show above what a thread calls, in the domain "onepass".
#pragma once

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

}  // namespace onepass::cuda
