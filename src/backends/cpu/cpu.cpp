#include "backends/cpu/cpu.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "backends/cpu/pool.h"
#include "core/os.h"

namespace onepass {
namespace {

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const CpuOptions& own, std::uint32_t command_buffers)
      : HostBackend(host_device_info("cpu", 1)),
        pool_(own.threads == 0 ? os::core_count() : own.threads, own.pin_threads, own.spin_us,
              command_buffers) {
    info_.compute_units = pool_.threads();
    info_.features &= own.features;
  }

  KernelTable kernels() const noexcept override { return cpu_kernel_rows(); }

  Result<std::unique_ptr<Recorded>> record(const Recording& recording,
                                           const Order& order) override {
    try {
      ONEPASS_ASSIGN(std::unique_ptr<cpu::RecordedTasks> pass,
                     cpu::RecordedTasks::create(pool_, recording, order));
      return std::unique_ptr<Recorded>(std::move(pass));
    } catch (const std::bad_alloc&) {
      return fail(
          ErrorCode::out_of_memory,
          "cpu: no memory to record " + std::to_string(recording.launches.size()) + " launches");
    }
  }
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override {
    pool_.submit(static_cast<cpu::RecordedTasks&>(recorded), step_bytes, completion);
    return {};
  }
  void wait(Completion& completion) override { pool_.wait(completion.serial); }
  bool poll(Completion& completion) override {
    return completion.done.load(std::memory_order_acquire);
  }
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override {
    const auto& pass = static_cast<const cpu::RecordedTasks&>(recorded);
    if (!pass.timed())
      return fail(ErrorCode::invalid_state, "timestamps: the recording was not timed");
    const std::size_t n = std::min<std::size_t>(out.size(), pass.size());
    for (std::size_t i = 0; i < n; ++i) out[i] = pass.span(static_cast<std::uint32_t>(i));
    return {};
  }
  void append_slices(Recorded& recorded, std::vector<WorkSlice>& out) override {
    static_cast<const cpu::RecordedTasks&>(recorded).append_slices(out);
  }

 private:
  cpu::Pool pool_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const DeviceOptions& options) {
  return std::make_unique<CpuBackend>(backend_options<CpuOptions>(options),
                                      options.command_buffers);
}

Result<Allocation> HostBackend::allocate(std::uint64_t bytes, MemoryKind, bool zero) {
  // Systems that overcommit hand out more than they have and kill the process later.
  void* p = bytes <= info_.max_buffer_bytes ? os::allocate(bytes, zero) : nullptr;
  if (!p) {
    return fail(ErrorCode::out_of_memory, info_.name + ": cannot allocate " +
                                              std::to_string(bytes) + " bytes, the machine has " +
                                              std::to_string(info_.memory_bytes));
  }
  return Allocation{reinterpret_cast<std::uintptr_t>(p), static_cast<std::byte*>(p), bytes};
}

void HostBackend::release(const Allocation& memory) noexcept {
  os::release(memory.host, memory.bytes);
}

Status HostBackend::write(const Allocation& memory, std::uint64_t offset,
                          std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(memory.host + offset, bytes.data(), bytes.size());
  return {};
}

Status HostBackend::read(const Allocation& memory, std::uint64_t offset,
                         std::span<std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(bytes.data(), memory.host + offset, bytes.size());
  return {};
}

Result<std::byte*> HostBackend::map(const Allocation& memory) { return memory.host; }

void* HostBackend::native_handle(const Allocation*) noexcept { return nullptr; }

void write_step(const BoundView& step, std::span<const std::byte> step_bytes) noexcept {
  const std::size_t n =
      static_cast<std::size_t>(std::min<std::uint64_t>(step_bytes.size(), step.bytes));
  if (n > 0 && step.host()) std::memcpy(step.host(), step_bytes.data(), n);
}

Result<TaskList> TaskList::bind(const Recording& recording, std::uint32_t workers) {
  TaskList list;
  const std::size_t n = recording.launches.size();
  std::size_t n_views = 0;
  for (const RecordedLaunch& l : recording.launches) n_views += l.n_views;
  list.tasks_.resize(n);
  list.constants_.resize(n);
  list.data_.reserve(n_views);
  list.bytes_.reserve(n_views);
  list.keep_alive_ = recording.keep_alive;

  for (std::size_t i = 0; i < n; ++i) {
    const RecordedLaunch& from = recording.launches[i];
    if (from.is_fence()) continue;
    const CpuKernelFn function = cpu_function(*from.kernel);
    if (!function) {
      return fail(ErrorCode::kernel_build,
                  std::string("kernel ") + from.kernel->name + " has no CPU code");
    }
    Constants& constants = list.constants_[i];
    constants.params = from.params;
    constants.launch = from.launch;
    constants.grid = from.grid;
    if (from.kernel->op == Op::custom) {
      const std::size_t lines = (from.launch.shared_bytes + sizeof(Line) - 1) / sizeof(Line);
      list.group_lines_ = std::max(list.group_lines_, lines);
    }

    Task& task = list.tasks_[i];
    // No tiles: nothing to do, but the launch still has its place in the order.
    task.kernel = from.launch.tiles > 0 ? function : nullptr;
    task.args.data = list.data_.data() + list.data_.size();
    task.args.bytes = list.bytes_.data() + list.bytes_.size();
    task.args.n_views = from.n_views;
    task.args.tiles = std::max(from.launch.tiles, 1u);
    task.args.params = constants.params.data();
    task.args.launch = &constants.launch;
    task.args.grid = &constants.grid;
    task.args.extra = from.extra;
    task.args.scratch = from.scratch.host();
    task.args.persistent = from.persistent.host();
    task.args.user = from.kernel->user;
    for (std::size_t v = 0; v < from.n_views; ++v) {
      list.data_.push_back(from.views[v].host());
      list.bytes_.push_back(from.views[v].bytes);
    }
  }
  list.group_memory_.resize(list.group_lines_ * workers);
  return list;
}

}  // namespace onepass
