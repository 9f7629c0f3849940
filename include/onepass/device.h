// A device: an opened backend with its memory, kernels and counters.
//
//   ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("cpu"));
//   ONEPASS_ASSIGN(const onepass::Buffer b, device.allocate(1 << 20));  // zero-filled
//   ONEPASS_TRY(device.write(b.view(), bytes));                         // waits for the last pass
//   for (const auto& l : onepass::Device::list()) std::puts((l.name + ' ' + l.reason).c_str());
#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/buffer.h"
#include "onepass/kernel.h"

namespace onepass {

// How a device orders the launches of one pass: barriers between levels, edges between launches, or
// one after the other.
enum class OrderKind : std::uint8_t { levels, edges, in_order };

struct DeviceInfo {
  std::string name;         // "cpu", "cuda:0"
  std::string description;  // what the vendor calls it
  std::uint64_t memory_bytes = 0;
  std::uint64_t max_buffer_bytes = ~std::uint64_t{0};
  std::uint64_t max_binding_bytes = ~std::uint64_t{0};
  std::uint32_t view_alignment = 1;
  std::uint32_t max_group_threads = 1024;
  std::array<std::uint32_t, 3> max_groups{0xffffffffu, 0xffffffffu, 0xffffffffu};
  std::uint32_t max_shared_bytes = 1u << 20;
  std::uint32_t max_params_bytes = 128;
  std::uint32_t compute_units = 1;  // CPU: worker threads
  std::uint32_t features = 0;       // bits, see feature_names()
  std::vector<std::uint32_t> subgroup_sizes{1};
  bool unified_memory = true;  // map() works
  OrderKind order = OrderKind::edges;
  bool programmatic_edges = false;   // launches can start before those they wait for have ended
  bool paces_full_launches = false;  // launches that fill the device gain nothing side by side
};

// What kernels may use of the device: "f16", "tensor_cores".
std::vector<std::string> feature_names(const DeviceInfo& info);

enum class Profile : std::uint8_t { none, submissions, dispatches };
enum class Barriers : std::uint8_t { automatic, manual };
enum class Retain : std::uint8_t { submission, caller };

struct DeviceOptions {
  // Options of single backends (backends/*.h), at most one struct for each. A backend takes its own
  // and ignores those of others, so "auto" can be opened with options for several.
  std::vector<std::any> backend = {};
  std::uint32_t command_buffers = 64;  // in flight or open at the same time
  bool serial = false;                 // each dispatch waits for the one before; same bits
  Retain retain = Retain::submission;
  Barriers barriers = Barriers::automatic;
  Profile profile = Profile::none;
  bool time_barriers = false;
  // Called from any thread with errors nobody waited for and other remarks.
  std::function<void(std::string_view category, std::string_view text)> log = nullptr;
};

// A backend's own options: those in DeviceOptions::backend, else the defaults.
template <class Own>
Own backend_options(const DeviceOptions& options) {
  for (const std::any& given : options.backend) {
    if (const Own* own = std::any_cast<Own>(&given)) return *own;
  }
  return Own{};
}

struct DeviceListing {
  std::string name;
  std::string description;
  bool available = false;
  std::string reason;  // why not, where it is not available
};

struct AllocateOptions {
  MemoryKind kind = MemoryKind::device;
  bool zero = true;
};

// Totals since the device was opened or reset_counters().
struct Counters {
  std::uint64_t syncs = 0;                // blocking waits
  std::uint64_t dispatches = 0;           // encode calls, also while capturing
  std::uint64_t replayed_dispatches = 0;  // by replay_dispatch, encode_* of a graph, plans
  std::uint64_t command_buffers = 0;
  std::uint64_t barriers = 0;  // given to the backend; plans on devices with edges give none
  std::uint64_t automatic_barriers = 0;
  std::uint64_t elided_barriers = 0;
  std::uint64_t barrier_ns = 0;  // host time to list barriers; with time_barriers only

  double elision_rate() const noexcept {
    const std::uint64_t all = automatic_barriers + elided_barriers;
    return all == 0 ? 0.0 : static_cast<double>(elided_barriers) / static_cast<double>(all);
  }
};

// Totals over all devices of the process, those closed included, since reset_process_counters().
Counters process_counters() noexcept;
void reset_process_counters() noexcept;

// One dispatch of a profiled pass. Times in ns on the device's clock.
struct DispatchSample {
  std::string label;  // of the submission
  std::string name;   // of the dispatch: its label, else the op
  std::string group;  // "layer 3/attention": the groups of GraphSession::begin_group around it
  CapturedOpKind kind = CapturedOpKind::other;
  std::uint32_t index = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t pass = 0;  // number of the submission on its device
};
// What one worker did without a pause: tiles of one dispatch. Those of one worker never overlap.
struct WorkerSlice {
  std::string label;         // of the submission
  std::uint64_t pass = 0;    // and its number
  std::uint32_t index = 0;   // of the dispatch, as in its sample
  std::uint32_t worker = 0;  // 0: the thread that waits
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};
struct LabelTimes {
  std::string label;
  std::uint64_t count = 0, total_ns = 0, min_ns = 0, max_ns = 0;
};
struct ProfileReport {
  std::vector<LabelTimes> submissions;  // by total, largest first
  std::vector<LabelTimes> dispatches;   // by name, largest total first
  std::vector<DispatchSample> samples;  // grouped by label, in order of first appearance
  std::vector<WorkerSlice> slices;      // oldest pass first; empty where workers are not known
  std::uint64_t dropped = 0;            // dispatches that were not sampled
};

// A handle; copies share the device. Thread-safe.
class Device {
 public:
  // "cpu", "cuda:0", "null", or "auto": the first card that can be opened, else the CPU;
  // DeviceOptions::log is told of cards that were passed over. An unknown or unavailable name is an
  // error, never a fallback.
  static Result<Device> open(std::string_view name, const DeviceOptions& options = {});
  static std::vector<DeviceListing> list();

  const DeviceInfo& info() const noexcept;
  const DeviceOptions& options() const noexcept;

  Result<Buffer> allocate(std::uint64_t bytes, const AllocateOptions& options = {}) const;
  // The caller's memory as a buffer; it must outlive the buffer and every pass that uses it.
  // Overlapping imports are known to overlap. Unified-memory devices only.
  Result<Buffer> import_host(std::span<std::byte> memory) const;

  // Host access honours the view's offset and length and waits for the last submission. Nothing
  // runs while write and read copy; accesses through mapped memory are for the caller to order. To
  // read what one submission wrote while later ones run, use Submission::read.
  Status write(const View& view, std::span<const std::byte> bytes) const;
  Status read(const View& view, std::span<std::byte> bytes) const;
  Result<std::span<std::byte>> map(const View& view) const;
  template <class T>
  Status write_as(const View& view, std::span<const T> values) const {
    return write(view, std::as_bytes(values));
  }
  template <class T>
  Status read_as(const View& view, std::span<T> values) const {
    return read(view, std::as_writable_bytes(values));
  }

  KernelRegistry& kernels() const noexcept;
  // Waits until everything submitted so far has completed.
  Status fence() const;

  Counters counters() const noexcept;
  void reset_counters() const noexcept;
  // Errors of submissions nobody waited for, oldest first; empties the list.
  std::vector<Error> take_errors() const;
  ProfileReport profile() const;
  void reset_profile() const;
  std::uint64_t live_bytes() const noexcept;  // allocated and not yet given back
  // The driver's: the device (CUDA: CUcontext), and the queue that submissions run on (CUstream).
  // Null on the CPU.
  void* native_handle() const noexcept;
  void* native_stream() const noexcept;

  DeviceState& state() const noexcept { return *state_; }
  explicit Device(std::shared_ptr<DeviceState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<DeviceState> state_;
};

}  // namespace onepass
