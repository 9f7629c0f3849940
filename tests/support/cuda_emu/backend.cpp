#include "backend.h"

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
#include "core/device_state.h"
#include "core/features.h"
#include "core/kernel_desc.h"
#include "core/os.h"
#include "machine.h"

namespace onepass::emu {
namespace {

struct Task {
  void* kernel = nullptr;  // null: nothing to run
  cuda::Arguments args{};
  KernelLaunch launch;

  Failure run() const {
    if (const auto* own = std::get_if<CudaKernelArgs>(&args)) {
      return run_kernel(reinterpret_cast<CallersKernelFn>(kernel), *own, launch);
    }
    return run_kernel(reinterpret_cast<KernelFn>(kernel), std::get<CudaArgs>(args), launch);
  }
};

// What a launch reads before it waits and some launch of the recording writes.
struct EarlyBytes {
  std::byte* at;
  std::size_t bytes;
};

struct EmulatedPass final : Recorded {
  std::vector<Task> tasks;
  // Launches that must be complete, or only started, before one starts; a launch touches what it
  // does not read early when all of them are complete.
  std::vector<std::vector<std::uint32_t>> complete_first, start_first;
  std::vector<std::vector<EarlyBytes>> early;
  BoundView step;
  std::vector<TimeSpan> spans;  // empty: not timed
  std::vector<std::byte> blocks;
  std::shared_ptr<void> keep_alive;
};

class Emulator final : public HostBackend {
 public:
  explicit Emulator(const EmulatorOptions& options)
      : HostBackend(host_device_info("cuda-emu", 1)), seed_(options.seed) {
    info_.description = "CUDA kernels on the host";
    info_.compute_units = options.compute_units;
    info_.max_group_threads = 1024;
    info_.max_groups = {0x7fffffffu, 65535, 65535};
    info_.max_shared_bytes = 227u << 10;
    info_.view_alignment = 1;
    info_.subgroup_sizes = {32};
    info_.features = feature_bits(Feature::f16, Feature::tensor_cores, Feature::clusters);
    info_.unified_memory = false;
    info_.order = OrderKind::edges;
    info_.programmatic_edges = true;
    info_.paces_full_launches = true;
    for (const cuda::KernelImage& image : cuda::kernel_images()) lists_.push_back(image.rows);
  }

  KernelTable kernels() const noexcept override { return KernelTable(lists_); }

  Result<KernelCode> build(const KernelDesc& desc) override {
    if (desc.cuda.image.empty()) return no_kernel_code(desc, info_.name, "a CUDA image");
    const std::string& entry = entry_of(desc, desc.cuda.entry);
    void* const kernel = dlsym(RTLD_DEFAULT, entry.c_str());
    if (kernel == nullptr) {
      return fail(ErrorCode::kernel_build,
                  "add kernel '" + desc.name + "': " + info_.name + " has no entry point " + entry);
    }
    return KernelCode(BuiltKernel{reinterpret_cast<std::uint64_t>(kernel)});
  }

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

  Result<std::unique_ptr<Recorded>> record(const Recording& recording, const Order& order) override;
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

  std::vector<KernelList> lists_;
  std::mutex mutex_;  // guards the rest, and runs one submission at a time
  std::uint64_t seed_;
  std::uint64_t serial_ = 0;
};

// blocks: where the launch's inline blocks are.
Result<Task> task_of(const RecordedLaunch& l, const std::byte* blocks) {
  Task task;
  if (is_empty(l)) return task;
  const char* symbol = symbol_of(*l.kernel, l.launch);
  task.kernel = reinterpret_cast<void*>(built_handle(*l.kernel));
  if (symbol) task.kernel = dlsym(RTLD_DEFAULT, symbol);
  if (!task.kernel) {
    return fail(ErrorCode::kernel_build,
                std::string("cuda-emu: no kernel ") + (symbol ? symbol : l.kernel->name));
  }
  task.args = cuda::arguments_of(l, reinterpret_cast<std::uint64_t>(blocks));
  task.launch.name = symbol ? symbol : l.kernel->name;
  task.launch.grid = l.launch.grid;
  task.launch.group = l.launch.group;
  task.launch.shared_bytes = l.launch.shared_bytes;
  task.launch.cluster = l.kernel->cluster;
  task.launch.waits_first = l.kernel->start.waits_first;
  task.launch.reads_early = l.kernel->start.reads_early;
  task.launch.n_views = l.n_views;
  task.launch.scratch_bytes = l.scratch.bytes;
  task.launch.persistent_bytes = l.persistent.bytes;
  return task;
}

// Only bytes that are written by the recording can change between start and wait.
std::vector<EarlyBytes> early_bytes(const Recording& r, std::uint32_t launch) {
  std::vector<EarlyBytes> out;
  const RecordedLaunch& l = r.launches[launch];
  if (l.is_fence() || l.kernel->start.reads_early == 0) return out;
  const auto is_written = [&](const PhysicalRange& read) {
    return std::any_of(r.ranges.begin(), r.ranges.end(), [&](const PhysicalRange& w) {
      return w.write && w.region == read.region && w.lo < read.hi && read.lo < w.hi;
    });
  };
  const auto ranges = r.ranges_of(launch);
  if (std::none_of(ranges.begin(), ranges.end(),
                   [&](const PhysicalRange& p) { return p.early && is_written(p); })) {
    return out;
  }
  for (std::size_t v = 0; v < l.n_views; ++v) {
    if ((l.kernel->start.reads_early >> v & 1) == 0 || l.views[v].bytes == 0) continue;
    out.push_back({static_cast<std::byte*>(cuda::address_of(l.views[v])), l.views[v].bytes});
  }
  return out;
}

Result<std::unique_ptr<Recorded>> Emulator::record(const Recording& recording, const Order& order) {
  auto pass = std::make_unique<EmulatedPass>();
  const auto n = static_cast<std::uint32_t>(recording.launches.size());
  pass->step = recording.step;
  pass->keep_alive = recording.keep_alive;
  pass->complete_first.resize(n);
  pass->start_first.resize(n);
  if (recording.timed) pass->spans.resize(n);
  cuda::InlineBlocks blocks(recording);
  pass->blocks = std::move(blocks.bytes);
  for (std::uint32_t i = 0; i < n; ++i) {
    const RecordedLaunch& l = recording.launches[i];
    if (l.launch.shared_bytes > info_.max_shared_bytes) {
      return fail(ErrorCode::kernel_build, std::string(l.kernel->name) + " wants " +
                                               std::to_string(l.launch.shared_bytes) +
                                               " bytes of shared memory, there are " +
                                               std::to_string(info_.max_shared_bytes));
    }
    ONEPASS_ASSIGN(Task task, task_of(l, pass->blocks.data() + blocks.offsets[i]));
    pass->tasks.push_back(task);
    pass->early.push_back(early_bytes(recording, i));
    if (order.kind == OrderKind::in_order && i > 0) pass->complete_first[i].push_back(i - 1);
    if (order.kind != OrderKind::edges) continue;
    for (const Edge& e : order.edges_into(i)) {
      (e.programmatic ? pass->start_first : pass->complete_first)[i].push_back(e.from);
    }
  }
  for (std::uint32_t level = 1; level < order.n_levels(); ++level) {
    const std::uint32_t before = order.level_offsets[level - 1], begin = order.level_offsets[level];
    std::vector<std::uint32_t> all(begin - before);
    std::iota(all.begin(), all.end(), before);
    for (std::uint32_t i = begin; i < order.level_offsets[level + 1]; ++i) {
      pass->complete_first[i] = all;
    }
  }
  return std::unique_ptr<Recorded>(std::move(pass));
}

// One submission: every launch starts as early as the order allows, and of those that have all they
// wait for any runs next.
class Run {
 public:
  explicit Run(EmulatedPass& pass)
      : pass_(pass), n_(pass.tasks.size()), to_start_(n_), to_run_(n_), after_(n_), at_start_(n_) {
    for (std::uint32_t i = 0; i < n_; ++i) {
      to_start_[i] = pass.complete_first[i].size() + pass.start_first[i].size();
      to_run_[i] = 1 + to_start_[i];  // itself must have started
      for (const std::uint32_t p : pass.complete_first[i]) after_[p].push_back({i, false});
      for (const std::uint32_t p : pass.start_first[i]) after_[p].push_back({i, true});
    }
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (pass.complete_first[i].empty() && pass.start_first[i].empty()) start(i);
    }
  }

  std::vector<std::uint32_t>& ready() { return ready_; }
  std::span<const KernelLaunch::AtStart> at_start(std::uint32_t i) const { return at_start_[i]; }

  void complete(std::uint32_t i) {
    for (const After& a : after_[i]) {
      if (!a.on_start && --to_start_[a.launch] == 0) start(a.launch);
      count_down(a.launch);
    }
  }

 private:
  struct After {
    std::uint32_t launch;
    bool on_start;
  };

  void start(std::uint32_t i) {
    for (const EarlyBytes& e : pass_.early[i]) {
      at_start_[i].push_back({e.at, std::vector<std::byte>(e.at, e.at + e.bytes)});
    }
    count_down(i);
    for (const After& a : after_[i]) {
      if (a.on_start && --to_start_[a.launch] == 0) start(a.launch);
    }
  }
  void count_down(std::uint32_t i) {
    if (--to_run_[i] == 0) ready_.push_back(i);
  }

  EmulatedPass& pass_;
  std::size_t n_;
  std::vector<std::size_t> to_start_, to_run_;
  std::vector<std::vector<After>> after_;
  std::vector<std::vector<KernelLaunch::AtStart>> at_start_;
  std::vector<std::uint32_t> ready_;
};

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

  Run run(pass);
  Failure failure;
  while (!run.ready().empty() && failure.empty()) {
    std::swap(run.ready()[random() % run.ready().size()], run.ready().back());
    const std::uint32_t i = run.ready().back();
    run.ready().pop_back();
    const std::uint64_t start = os::now_ns();
    Task& task = pass.tasks[i];
    task.launch.seed = random();
    task.launch.at_start = run.at_start(i);
    if (task.kernel) failure = task.run();
    if (!pass.spans.empty()) pass.spans[i] = {start, os::now_ns()};
    run.complete(i);
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
