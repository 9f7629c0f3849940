// What a device implements: memory, and recordings to run. No ops.
//
// Arguments are validated above this line: views lie inside their allocations, kernels exist for
// the device, launches fit its limits. Only out_of_memory, device_lost, kernel_build and
// submission_failed come back. All functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/kernel_row.h"
#include "core/order.h"
#include "onepass/device.h"
#include "onepass/dispatch.h"
#include "onepass/kernel.h"

namespace onepass {

struct Allocation {
  std::uint64_t handle = 0;   // the backend's: an address, an index, ...; 0 names nothing
  std::byte* host = nullptr;  // where the host may touch it directly
  std::uint64_t bytes = 0;
};

struct BoundView {
  Allocation memory;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  std::byte* host() const noexcept { return memory.host ? memory.host + offset : nullptr; }
};

// Bytes a launch touches. Two ranges conflict if their regions are equal, their half-open
// intervals overlap and one of them writes.
struct PhysicalRange {
  std::uint64_t region = 0;
  std::uint64_t lo = 0, hi = 0;
  bool write = false;
  bool early = false;  // read before the launch waits for the launches before it
};

struct RecordedLaunch {
  const KernelRow* kernel = nullptr;  // null: a fence, which runs nothing
  Launch launch;
  std::uint32_t index = 0;  // of the dispatch in the program: its order there
  std::uint32_t level = 0;
  std::uint8_t n_views = 0;
  std::array<BoundView, max_views> views;
  alignas(16) std::array<std::byte, 128> params;  // the last 16 bytes are the backend's
  BoundView scratch, persistent;
  Grid grid;
  const DispatchExtra* extra = nullptr;
  const char* label = nullptr;
  const char* group = nullptr;                  // "layer 3/attention"; null: in none
  CapturedOpKind kind = CapturedOpKind::other;  // for reports

  bool is_fence() const noexcept { return kernel == nullptr; }
};

// "matmul_q4_0_r16_avx512+bias+add", or "fence".
std::string kernel_text(const RecordedLaunch& l);
// Whether it runs nothing: a fence, or no groups.
inline bool is_empty(const RecordedLaunch& l) noexcept {
  const auto& grid = l.launch.grid;
  return l.is_fence() || grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}
// Whether it may take part in a programmatic edge (core/order.h).
inline bool waits_first(const RecordedLaunch& l) noexcept {
  return !is_empty(l) && l.kernel->start.waits_first;
}

// What a backend receives beside an Order: launches, sorted by level.
struct Recording {
  std::vector<RecordedLaunch> launches;
  // Exact accesses of launch i: ranges[range_offsets[i] .. range_offsets[i + 1]).
  std::vector<std::uint32_t> range_offsets;
  std::vector<PhysicalRange> ranges;

  BoundView step;         // StepState bytes written by submit, if any
  bool replayed = false;  // will be submitted many times
  bool timed = false;     // a time span per launch is wanted
  std::shared_ptr<void> keep_alive;

  std::span<const PhysicalRange> ranges_of(std::uint32_t i) const noexcept {
    return std::span(ranges).subspan(range_offsets[i], range_offsets[i + 1] - range_offsets[i]);
  }
};

struct TimeSpan {
  std::uint64_t start_ns = 0, end_ns = 0;
};

// Tiles of one launch that a worker ran one after the other. Slices of one worker never overlap.
struct WorkSlice {
  std::uint32_t worker = 0;  // 0: the thread that waits
  std::uint32_t launch = 0;
  TimeSpan span;
};

// The error of a device that finds no code it can use: what it takes ("a CPU function") and which
// kinds were given.
Error no_kernel_code(const KernelDesc& desc, const std::string& device, const char* takes);

// A backend's compiled form of a recording. Destroyed only when no submission of it is in flight.
class Recorded {
 public:
  virtual ~Recorded() = default;
};

// Filled by the backend when a submission ends; owned by the caller of submit, at a fixed address
// until done.
struct Completion {
  std::atomic<bool> done{false};
  std::atomic<bool> failed{false};
  ErrorCode code = ErrorCode::submission_failed;  // with failed
  char text[160] = {};                            // driver's words, with failed
  TimeSpan span;                                  // the device's clock
  std::uint64_t serial = 0;                       // the backend's
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& info() const noexcept = 0;
  // Rows in order of preference; the first whose needs the device has is used.
  virtual KernelTable kernels() const noexcept = 0;
  // Builds a caller's kernel, whose description is well formed, once; kernel_build with the
  // compiler's log. Other devices than those with CPU kernels override it.
  virtual Result<KernelCode> build(const KernelDesc& desc) {
    if (desc.cpu == nullptr) return no_kernel_code(desc, info().name, "a CPU function");
    return KernelCode(desc.cpu);
  }

  virtual Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) = 0;
  virtual void release(const Allocation& memory) noexcept = 0;
  // Called while nothing runs, and nothing is submitted until they return: the layer above has
  // waited, a backend waits for its own copies only.
  virtual Status write(const Allocation& memory, std::uint64_t offset,
                       std::span<const std::byte> bytes) = 0;
  virtual Status read(const Allocation& memory, std::uint64_t offset,
                      std::span<std::byte> bytes) = 0;
  // Host pointer of the allocation's start; unsupported where the host does not see the memory.
  // Waits for nothing.
  virtual Result<std::byte*> map(const Allocation& memory) = 0;

  // Keeps every order of `order` and adds none of its own choice.
  virtual Result<std::unique_ptr<Recorded>> record(const Recording& recording,
                                                   const Order& order) = 0;
  // Writes step_bytes (may be empty) to the recording's step view, then runs it, in the order of
  // submissions. Allocates nothing. An error means that nothing will run and done stays false.
  virtual Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                        Completion& completion) = 0;
  // Returns when the completion is done. May run tiles on the calling thread.
  virtual void wait(Completion& completion) = 0;
  // Makes progress where that needs a call; true when done.
  virtual bool poll(Completion& completion) = 0;
  // Spans of the launches in the last submission of a timed recording; after it is done.
  virtual Status timestamps(Recorded& recorded, std::span<TimeSpan> out) = 0;
  virtual void* native_handle(const Allocation* memory) noexcept = 0;  // null: the device's own
  // The driver's queue of submissions, and its object that signals the end of one (CUDA: CUstream,
  // CUevent). Null where the driver has none or may have reused it.
  virtual void* native_stream() noexcept { return nullptr; }
  virtual void* native_submission(const Completion&) noexcept { return nullptr; }
  // What each worker did in the last submission of a timed recording; after it is done. Nothing
  // where the backend does not know.
  virtual void append_slices(Recorded& recorded, std::vector<WorkSlice>& out) {
    static_cast<void>(recorded);
    static_cast<void>(out);
  }
};

// How many of a list's launches are dispatches rather than fences.
inline std::uint32_t count_dispatches(const Recording& r) noexcept {
  std::uint32_t n = 0;
  for (const RecordedLaunch& l : r.launches) n += l.is_fence() ? 0u : 1u;
  return n;
}

}  // namespace onepass
