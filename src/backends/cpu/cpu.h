// The CPU backend, and the parts of it that other backends on host memory share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend.h"
#include "onepass/backends/cpu.h"

namespace onepass {

// CpuOptions::threads - 1 background workers; the thread that waits is the last one. With one
// thread submit() runs the recording before it returns. At most options.command_buffers submissions
// are queued: submit() blocks while there are more.
std::unique_ptr<Backend> make_cpu_backend(const DeviceOptions& options);

// CPU kernels of all op families, in order of preference. Valid as long as the process.
KernelTable cpu_kernel_rows() noexcept;

// Bits of Feature that this machine has.
std::uint32_t cpu_features() noexcept;

// Name, memory and features of this machine, for `threads` workers.
DeviceInfo host_device_info(const char* name, std::uint32_t threads);

// Memory functions of a backend whose memory is the host's.
class HostBackend : public Backend {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override;
  void release(const Allocation& memory) noexcept override;
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override;
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  Result<std::byte*> map(const Allocation& memory) override;
  void* native_handle(const Allocation* memory) noexcept override;

 protected:
  explicit HostBackend(DeviceInfo info) : info_(std::move(info)) {}

  DeviceInfo info_;
};

// Copies step_bytes to the front of the view; bytes that do not fit are left out.
void write_step(const BoundView& step, std::span<const std::byte> step_bytes) noexcept;

// The launches of a recording with everything a kernel call needs, independent of the recording.
class TaskList {
 public:
  // An error when a launch has no CPU kernel. Workers, at least 1, run tiles at the same time.
  static Result<TaskList> bind(const Recording& recording, std::uint32_t workers = 1);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(tasks_.size()); }
  // Calls of run(i, ...) that make the launch: at least 1, also for a fence.
  std::uint32_t tiles(std::uint32_t i) const noexcept { return tasks_[i].args.tiles; }
  void run(std::uint32_t i, std::uint32_t tile, std::uint32_t worker = 0) const noexcept {
    const Task& task = tasks_[i];
    if (!task.kernel) return;
    KernelArgs args = task.args;
    args.tile = tile;
    if (!group_memory_.empty()) args.group_memory = group_memory_[worker * group_lines_].bytes;
    task.kernel(args);
  }

 private:
  struct Task {
    CpuKernelFn kernel = nullptr;  // null: nothing to do
    KernelArgs args;
  };
  struct Constants {
    alignas(16) std::array<std::byte, 128> params;
    Launch launch;
    Grid grid;
  };

  struct alignas(64) Line {
    std::byte bytes[64];
  };

  std::vector<Task> tasks_;
  mutable std::vector<Line> group_memory_;  // group_lines_ for each worker
  std::size_t group_lines_ = 0;
  std::vector<Constants> constants_;
  std::vector<std::byte*> data_;
  std::vector<std::uint64_t> bytes_;
  std::shared_ptr<void> keep_alive_;
};

}  // namespace onepass
