// Kernels: what runs a dispatch on a device, built-in or the caller's own.
//
//   const onepass::KernelDesc desc{
//       .name = "twice", .slots = "io", .cpu = [](const onepass::KernelArgs& a) noexcept {
//         a.ptr<float>(1)[a.tile] = 2 * a.ptr<float>(0)[a.tile];  // tiles run side by side
//       }};
//   ONEPASS_ASSIGN(const onepass::KernelId twice, device.kernels().add(desc));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/dispatch.h"

namespace onepass {

struct DeviceInfo;
class DeviceState;

inline constexpr std::size_t max_block_bytes = 4096;

// Arguments of a compat encode that a plain dispatch has no room for. Slots of views and blocks are
// distinct, and so are those of shared memory.
struct DispatchExtra {
  struct Block {
    std::uint32_t slot;
    std::vector<std::byte> bytes;  // at most max_block_bytes
  };
  struct Shared {
    std::uint32_t slot, bytes;
  };
  std::array<std::uint32_t, max_views> slots{};  // of view i; gaps are allowed
  std::vector<Block> blocks;
  std::vector<Shared> shared;
};

// A value fixed when a kernel is built: template argument, Vulkan specialization constant.
struct SpecValue {
  std::uint32_t index = 0;
  std::int32_t value = 0;
  friend bool operator==(const SpecValue&, const SpecValue&) = default;
};

inline constexpr std::size_t max_spec_values = 8;

// What a device makes of a dispatch. Filled by a launch function: plain arithmetic, no device.
struct Launch {
  std::uint16_t variant = 0;
  std::uint16_t n_spec = 0;
  std::array<SpecValue, max_spec_values> spec{};
  std::array<std::uint32_t, 3> grid{1, 1, 1};   // groups
  std::array<std::uint32_t, 3> group{1, 1, 1};  // threads
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster = 1;           // groups along y that the kernel is compiled to run together
  std::uint32_t tiles = 1;             // CPU: parts that may run on different workers
  std::uint64_t scratch_bytes = 0;     // garbage at start, may be aliased after the dispatch
  std::uint64_t persistent_bytes = 0;  // zero at first, the kernel leaves it zero; never aliased
  std::uint64_t bytes_moved = 0;       // for reports: memory traffic and arithmetic
  std::uint64_t flops = 0;
};

using LaunchFn = Status (*)(const DeviceInfo&, const Dispatch&, Launch&);

// Arguments of a CPU kernel. It is called once per tile; tiles may run at the same time and in any
// order, and together must write the same bytes for every order.
struct KernelArgs {
  std::byte* const* data = nullptr;      // by view index
  const std::uint64_t* bytes = nullptr;  // by view index
  std::uint32_t n_views = 0;
  std::uint32_t tile = 0;
  std::uint32_t tiles = 1;
  const void* params = nullptr;
  const Launch* launch = nullptr;
  const Grid* grid = nullptr;            // callers' kernels: as dispatched
  const DispatchExtra* extra = nullptr;  // callers' kernels: compat encodes only
  std::byte* scratch = nullptr;
  std::byte* persistent = nullptr;
  void* user = nullptr;  // KernelDesc::user

  template <class T>
  T* ptr(std::size_t view) const noexcept {
    return reinterpret_cast<T*>(data[view]);
  }
  template <class P>
  const P& params_as() const noexcept {
    return *static_cast<const P*>(params);
  }
  // Half-open part of [0, n) that this tile covers when the work is cut in equal pieces.
  struct Part {
    std::uint64_t begin, end;
  };
  Part part(std::uint64_t n) const noexcept { return {n * tile / tiles, n * (tile + 1) / tiles}; }
};

using CpuKernelFn = void (*)(const KernelArgs&) noexcept;

// A kernel of the caller's. Slots as in the op table; an empty string means that access comes from
// the encode call. Without a launch function the dispatch's grid is used, one tile per group in x.
struct KernelDesc {
  std::string name;
  std::string slots = {};
  std::uint32_t params_bytes = 0;
  LaunchFn launch = nullptr;
  CpuKernelFn cpu = nullptr;
  void* user = nullptr;  // must outlive the device's last pass with this kernel
  CapturedOpKind kind = CapturedOpKind::other;
};

// Built-in kernels and callers' own, looked up by name, built on first use, cached. Thread-safe.
// Building on the CPU only binds the specialization values.
class KernelRegistry {
 public:
  // Adds or replaces. Replacing drops every cached build of that name; dispatches already recorded
  // keep what they were recorded with.
  Result<KernelId> add(const KernelDesc& desc);
  // Finds a kernel by name ("rms_norm_f32" or a caller's) and builds it. The order of the values
  // does not matter; a name nobody added is not_found.
  Result<KernelId> get(std::string_view name, std::span<const SpecValue> spec = {});
  Status prewarm(std::span<const std::string_view> names);
  bool is_cached(std::string_view name) const;
  std::size_t cached_count() const;
  std::size_t source_count() const;
  // Name and specialization values, e.g. "tile|0:i4|1:i8".
  std::string label(KernelId id) const;

 private:
  friend class DeviceState;
  explicit KernelRegistry(DeviceState& device) noexcept : device_(&device) {}
  DeviceState* device_;
};

}  // namespace onepass
