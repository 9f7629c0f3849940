#include "backends/cuda_emu/backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/cuda/arguments.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda_emu/machine.h"
#include "core/device_state.h"
#include "core/os.h"

namespace onepass::emu {
namespace {

struct Task {
  KernelFn kernel = nullptr;  // null: nothing to run
  CudaArgs args{};
  KernelLaunch launch;
};

struct EmulatedPass final : Recorded {
  std::vector<Task> tasks;
  std::vector<std::vector<std::uint32_t>> preds;
  BoundView step;
  std::vector<TimeSpan> spans;  // empty: not timed
  std::shared_ptr<void> keep_alive;
};

class Emulator final : public HostBackend {
 public:
  explicit Emulator(const EmulatorOptions& options)
      : HostBackend(host_device_info("cuda-emu", 1)), seed_(options.seed) {
    info_.description = "CUDA kernels on the host";
    info_.compute_units = options.compute_units;
    info_.max_group_threads = 1024;
    info_.max_shared_bytes = 227u << 10;
    info_.view_alignment = 1;
    info_.subgroup_sizes = {32};
    info_.features = static_cast<std::uint32_t>(Feature::f16) |
                     static_cast<std::uint32_t>(Feature::tensor_cores) |
                     static_cast<std::uint32_t>(Feature::clusters);
    info_.unified_memory = false;
    info_.model = ExecutionModel::edges;
    for (const cuda::KernelImage& image : cuda::kernel_images()) {
      rows_.insert(rows_.end(), image.rows.begin(), image.rows.end());
    }
  }

  std::span<const KernelRow> kernels() const noexcept override { return rows_; }

  // Memory of its own, exactly as large as asked for, that the layers above cannot touch.
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    void* memory = ::operator new (size, std::align_val_t{256}, std::nothrow);
    if (!memory) {
      return fail(ErrorCode::out_of_memory,
                  "cuda-emu: cannot allocate " + std::to_string(bytes) + " bytes");
    }
    std::memset(memory, zero ? 0 : 0xff, size);
    auto* host = static_cast<std::byte*>(memory);
    return Allocation{reinterpret_cast<std::uint64_t>(memory),
                      kind == MemoryKind::device ? nullptr : host, bytes};
  }
  void release(const Allocation& memory) noexcept override {
    ::operator delete (reinterpret_cast<void*>(memory.handle), std::align_val_t{256});
  }
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override {
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(memory.handle) + offset);
    return {};
  }
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override {
    const auto* from = reinterpret_cast<const std::byte*>(memory.handle) + offset;
    std::copy(from, from + bytes.size(), bytes.begin());
    return {};
  }
  Result<std::byte*> map(const Allocation& memory) override {
    if (!memory.host) return fail(ErrorCode::unsupported, "map: cuda-emu has memory of its own");
    return memory.host;
  }

  Result<std::unique_ptr<Recorded>> record(const Recording& recording) override;
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override;
  void wait(Completion&) override {}
  bool poll(Completion& completion) override {
    return completion.done.load(std::memory_order_acquire);
  }
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override {
    const auto& pass = static_cast<const EmulatedPass&>(recorded);
    std::copy_n(pass.spans.begin(), std::min(out.size(), pass.spans.size()), out.begin());
    return {};
  }
  void* native_handle(const Allocation* memory) noexcept override {
    return memory ? reinterpret_cast<void*>(memory->handle) : this;
  }

 private:
  std::uint64_t random() {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return seed_ >> 33;
  }

  std::vector<KernelRow> rows_;
  std::mutex mutex_;  // guards the rest, and runs one submission at a time
  std::uint64_t seed_;
  std::uint64_t serial_ = 0;
};

Result<Task> bind(const RecordedLaunch& l) {
  Task task;
  if (cuda::is_empty(l)) return task;
  const char* symbol = symbol_of(*l.kernel, l.launch);
  void* entry = symbol ? dlsym(RTLD_DEFAULT, symbol) : nullptr;
  if (!entry) {
    return fail(ErrorCode::kernel_build,
                std::string("cuda-emu: no kernel ") + (symbol ? symbol : l.kernel->name));
  }
  task.kernel = reinterpret_cast<KernelFn>(entry);
  task.args = cuda::arguments_of(l);
  task.launch.name = symbol;
  task.launch.grid = l.launch.grid;
  task.launch.group = l.launch.group;
  task.launch.shared_bytes = l.launch.shared_bytes;
  task.launch.cluster = l.launch.cluster;
  task.launch.waits_first = l.kernel->waits_first;
  task.launch.reads_early = l.kernel->reads_early;
  task.launch.n_views = l.n_views;
  task.launch.scratch_bytes = l.scratch.bytes;
  task.launch.persistent_bytes = l.persistent.bytes;
  return task;
}

Result<std::unique_ptr<Recorded>> Emulator::record(const Recording& recording) {
  auto pass = std::make_unique<EmulatedPass>();
  const std::size_t n = recording.launches.size();
  pass->step = recording.step;
  pass->keep_alive = recording.keep_alive;
  pass->preds.resize(n);
  if (recording.timed) pass->spans.resize(n);
  const ExecutionModel model = recording.model();
  for (std::uint32_t i = 0; i < n; ++i) {
    const RecordedLaunch& l = recording.launches[i];
    if (l.launch.shared_bytes > info_.max_shared_bytes) {
      return fail(ErrorCode::kernel_build, std::string(l.kernel->name) + " wants " +
                                               std::to_string(l.launch.shared_bytes) +
                                               " bytes of shared memory, there are " +
                                               std::to_string(info_.max_shared_bytes));
    }
    ONEPASS_ASSIGN(Task task, bind(l));
    pass->tasks.push_back(task);
    std::vector<std::uint32_t>& preds = pass->preds[i];
    if (model == ExecutionModel::edges) {
      preds.assign(recording.preds.begin() + recording.pred_offsets[i],
                   recording.preds.begin() + recording.pred_offsets[i + 1]);
    } else if (model == ExecutionModel::in_order) {
      if (i > 0) preds.push_back(i - 1);
    } else if (l.level > 0) {
      preds.resize(recording.level_offsets[l.level] - recording.level_offsets[l.level - 1]);
      std::iota(preds.begin(), preds.end(), recording.level_offsets[l.level - 1]);
    }
  }
  return std::unique_ptr<Recorded>(std::move(pass));
}

Status Emulator::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                        Completion& completion) {
  auto& pass = static_cast<EmulatedPass&>(recorded);
  const std::lock_guard lock(mutex_);
  completion.failed.store(false, std::memory_order_relaxed);
  completion.done.store(false, std::memory_order_relaxed);
  completion.serial = ++serial_;
  completion.span.start_ns = os::now_ns();
  std::copy_n(step_bytes.begin(), std::min<std::size_t>(step_bytes.size(), pass.step.bytes),
              static_cast<std::byte*>(cuda::address_of(pass.step)));

  const std::size_t n = pass.tasks.size();
  std::vector<std::size_t> left(n);
  std::vector<std::vector<std::uint32_t>> succs(n);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < n; ++i) {
    left[i] = pass.preds[i].size();
    for (const std::uint32_t p : pass.preds[i]) succs[p].push_back(i);
    if (left[i] == 0) ready.push_back(i);
  }
  Failure failure;
  while (!ready.empty() && failure.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::uint32_t i = ready.back();
    ready.pop_back();
    const std::uint64_t start = os::now_ns();
    Task& task = pass.tasks[i];
    task.launch.seed = random();
    if (task.kernel) failure = run_kernel(task.kernel, task.args, task.launch);
    if (!pass.spans.empty()) pass.spans[i] = {start, os::now_ns()};
    for (const std::uint32_t s : succs[i]) {
      if (--left[s] == 0) ready.push_back(s);
    }
  }
  if (!failure.empty()) {
    completion.code = ErrorCode::submission_failed;
    std::snprintf(completion.text, sizeof completion.text, "%s", failure.c_str());
    std::fprintf(stderr, "cuda-emu: %s\n", failure.c_str());
    completion.failed.store(true, std::memory_order_relaxed);
  }
  completion.span.end_ns = os::now_ns();
  completion.done.store(true, std::memory_order_release);
  return {};
}

}  // namespace

std::unique_ptr<Backend> make_cuda_emulator(const EmulatorOptions& options) {
  return std::make_unique<Emulator>(options);
}

Result<Device> open_cuda_emulator(const EmulatorOptions& options,
                                  const DeviceOptions& device_options) {
  ONEPASS_ASSIGN(std::shared_ptr<DeviceState> state,
                 DeviceState::create(make_cuda_emulator(options), device_options));
  return Device(std::move(state));
}

}  // namespace onepass::emu
