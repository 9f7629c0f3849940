// Kernels: what runs a dispatch on a device, built-in or the caller's own.
//
//   const onepass::KernelDesc desc{
//       .name = "twice", .slots = "io", .cpu = [](const onepass::KernelArgs& a) noexcept {
//         a.ptr<float>(1)[a.tile] = 2 * a.ptr<float>(0)[a.tile];  // tiles run side by side
//       }};
//   ONEPASS_ASSIGN(const onepass::KernelId twice, device.kernels().add(desc));
#pragma once

#include <algorithm>
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
inline constexpr std::uint32_t max_kernel_slots = 31;  // numbers 0 to 30
inline constexpr std::uint32_t group_memory_alignment = 16;

// Arguments of a caller's kernel that a plain dispatch has no room for (docs/callers-kernels.md).
// Slots of views and blocks are distinct, and so are those of group memory.
struct DispatchExtra {
  // Constant bytes, copied by encode.
  struct Block {
    std::uint32_t slot;
    std::vector<std::byte> bytes;  // at most max_block_bytes
  };
  // Memory that the threads of one group share; garbage at start.
  struct Shared {
    std::uint32_t slot, bytes;
  };
  std::array<std::uint32_t, max_views> slots{};  // of view i; gaps are allowed
  std::vector<Block> blocks;
  std::vector<Shared> shared;

  // Where shared[i] begins in the memory of a group; i == shared.size(): the bytes of all.
  std::uint64_t group_offset(std::size_t i) const noexcept {
    std::uint64_t at = 0;
    for (std::size_t k = 0; k < i; ++k) {
      at += (std::uint64_t{shared[k].bytes} + group_memory_alignment - 1) / group_memory_alignment *
            group_memory_alignment;
    }
    return at;
  }
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
  const DispatchExtra* extra = nullptr;  // callers' kernels: null unless dispatched with one
  std::byte* group_memory = nullptr;     // callers' kernels: Launch::shared_bytes for this tile
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

  // Callers' kernels: what has a slot number, or null. Without DispatchExtra view i has slot i.
  template <class T>
  T* view_at(std::uint32_t slot) const noexcept {
    for (std::uint32_t i = 0; i < n_views; ++i) {
      if ((extra ? extra->slots[i] : i) == slot) return ptr<T>(i);
    }
    return nullptr;
  }
  template <class T>
  const T* block_at(std::uint32_t slot) const noexcept {
    for (std::size_t i = 0; extra && i < extra->blocks.size(); ++i) {
      const DispatchExtra::Block& b = extra->blocks[i];
      if (b.slot != slot || b.bytes.size() < sizeof(T)) continue;
      return reinterpret_cast<const T*>(b.bytes.data());
    }
    return nullptr;
  }
  template <class T>
  T* group_at(std::uint32_t slot) const noexcept {
    for (std::size_t i = 0; extra && i < extra->shared.size(); ++i) {
      if (extra->shared[i].slot != slot) continue;
      return reinterpret_cast<T*>(group_memory + extra->group_offset(i));
    }
    return nullptr;
  }

  // Callers' kernels without a launch function: the threads of the group that this tile is, begin
  // to end in each dimension. Of a grid of threads the last group may have fewer.
  struct Threads {
    std::array<std::uint32_t, 3> begin, end;
  };
  Threads threads() const noexcept {
    Threads t{};
    std::uint32_t rest = tile;
    const auto groups = grid->group_counts();
    for (std::size_t i = 0; i < 3; ++i) {
      const std::uint64_t group = rest % groups[i], all = std::uint64_t{groups[i]} * grid->group[i];
      const std::uint64_t n = grid->kind == DispatchKind::threads ? grid->grid[i] : all;
      rest /= groups[i];
      t.begin[i] = static_cast<std::uint32_t>(group * grid->group[i]);
      t.end[i] = static_cast<std::uint32_t>(std::min((group + 1) * grid->group[i], n));
    }
    return t;
  }
};

using CpuKernelFn = void (*)(const KernelArgs&) noexcept;

// Code for cards; docs/callers-kernels.md says what arguments it gets. An empty entry is the name
// of the kernel.
struct CudaCode {
  std::string image = {};  // PTX text, a cubin or a fatbin: what onepass/cuda_kernel.h is for
  std::string entry = {};
};
struct SpirvCode {
  std::vector<std::uint32_t> words = {};
  std::string entry = {};
};
struct MslCode {
  std::string source = {};
  std::string entry = {};
};

// A kernel of the caller's, with code for as many kinds of devices as it is to run on; a device
// takes its own. Slots as in the op table; an empty string means that access comes from the encode
// call. Without a launch function the dispatch's grid is used, on the CPU with one tile per group.
struct KernelDesc {
  std::string name;
  std::string slots = {};
  std::uint32_t params_bytes = 0;
  LaunchFn launch = nullptr;
  CpuKernelFn cpu = nullptr;
  CudaCode cuda = {};
  SpirvCode spirv = {};
  MslCode msl = {};
  void* user = nullptr;  // must outlive the device's last pass with this kernel
  CapturedOpKind kind = CapturedOpKind::other;
};

// Built-in kernels, built on first use, and callers' own, looked up by name, cached. Thread-safe.
// Building on the CPU only binds the specialization values.
class KernelRegistry {
 public:
  // Builds the code for this device and adds or replaces the kernel. Replacing drops every cached
  // build of that name; dispatches already recorded keep what they were recorded with. kernel_build
  // where there is no code for this device, and with the compiler's log where code does not build.
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
