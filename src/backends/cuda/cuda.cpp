#include "backends/cuda/cuda.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "backends/cuda/driver.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/recording.h"
#include "core/features.h"
#include "core/free_memory.h"
#include "core/serial_ring.h"
#include "onepass/backends/cuda.h"

namespace onepass {
namespace cuda {
namespace {

// Pinned memory between the host and the device: uploads return while their last pieces are still
// being copied, so they and readbacks have pieces of their own.
constexpr std::size_t piece_bytes = 4u << 20;
constexpr std::size_t upload_pieces = 4, readback_pieces = 2;
constexpr std::size_t step_granularity = 256;

class CudaBackend final : public Backend, public FreeMemory {
 public:
  CudaBackend(const Driver& driver, std::span<const KernelImage> images,
              const DeviceOptions& options)
      : own_(backend_options<CudaOptions>(options)),
        in_flight_max_(std::clamp(options.command_buffers, 1u, 4096u)),
        ring_(in_flight_max_ + 1) {
    context_.driver = &driver;
    for (const KernelImage& image : images) lists_.push_back(image.rows);
  }
  ~CudaBackend() override;

  // After the constructor, once; the destructor gives back whatever it got.
  Status open(std::span<const KernelImage> images, std::uint32_t index);

  const DeviceInfo& info() const noexcept override { return info_; }
  KernelTable kernels() const noexcept override { return KernelTable(lists_); }
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override;
  void release(const Allocation& memory) noexcept override;
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override;
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  Result<std::byte*> map(const Allocation& memory) override;
  Result<KernelCode> build(const KernelDesc& desc) override;
  Result<std::unique_ptr<Recorded>> record(const Recording& recording, const Order& order) override;
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override;
  void wait(Completion& completion) override;
  bool poll(Completion& completion) override;
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override;
  void* native_handle(const Allocation* memory) noexcept override;
  void* native_stream() noexcept override { return context_.stream; }
  void* native_submission(const Completion& submission) noexcept override;
  std::uint64_t free_bytes() noexcept override;

 private:
  // A submission whose end was not seen yet.
  struct Entry {
    CUevent start = nullptr, end = nullptr;
    GraphPass* pass = nullptr;
    Completion* completion = nullptr;
  };

  const Driver& driver() const noexcept { return *context_.driver; }
  Status check(CUresult result, const char* call, ErrorCode otherwise) const {
    return cuda::check(driver(), result, call, otherwise);
  }
  Status read_info(std::uint32_t index);
  Status upload(CUdeviceptr to, std::span<const std::byte> bytes);
  Status open_streams();
  void close_streams() noexcept;
  void sync_lanes() noexcept;
  Status copy_in(CUdeviceptr to, std::span<const std::byte> bytes);
  Status copy_out(CUdeviceptr from, std::span<std::byte> bytes);
  Status reserve_step(std::uint64_t bytes);

  // Ends the oldest submission; the context must be current unless the result is an error.
  void finish_next_locked(CUresult result) noexcept;
  CUresult launch_locked(GraphPass& pass, std::uint64_t serial,
                         std::span<const std::byte> step_bytes, const char*& call) noexcept;

  Context context_;
  CUdevice device_ = 0;
  bool retained_ = false;
  DeviceInfo info_;
  std::vector<KernelList> lists_;
  const CudaOptions own_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<DeviceMemory> memory_;

  // A piece of pinned memory and the end of the last copy from or to it.
  struct Piece {
    std::byte* data = nullptr;
    CUevent copied = nullptr;
  };
  std::byte* pinned_ = nullptr;
  std::mutex upload_mutex_;  // guards the next two
  std::array<Piece, upload_pieces> uploads_;
  std::size_t next_upload_ = 0;
  std::mutex readback_mutex_;  // guards the next one
  std::array<Piece, readback_pieces> readbacks_;

  std::mutex mutex_;  // guards the rest
  const std::uint32_t in_flight_max_;
  // One more than may be in flight: the end of the submission before the oldest is where the
  // device's clock is read from.
  SerialRing<Entry> ring_;
  std::byte* step_ring_ = nullptr;  // pinned, one piece per entry
  std::size_t step_stride_ = 0;
  std::uint64_t submitted_ = 0, finished_ = 0;  // serials; the first is 1
  std::uint64_t clock_ns_ = 0;                  // end of submission finished_
};

Status CudaBackend::read_info(std::uint32_t index) {
  const Driver& d = driver();
  int count = 0;
  ONEPASS_TRY(check(d.cuDeviceGetCount(&count), "cuDeviceGetCount", ErrorCode::not_found));
  if (index >= static_cast<std::uint32_t>(std::max(count, 0))) {
    return fail(ErrorCode::not_found, "cuda: there are " + std::to_string(count) +
                                          " devices, none is cuda:" + std::to_string(index));
  }
  ONEPASS_TRY(
      check(d.cuDeviceGet(&device_, static_cast<int>(index)), "cuDeviceGet", ErrorCode::not_found));
  char name[128] = {};
  ONEPASS_TRY(check(d.cuDeviceGetName(name, sizeof name, device_), "cuDeviceGetName",
                    ErrorCode::not_found));
  std::size_t memory = 0;
  ONEPASS_TRY(
      check(d.cuDeviceTotalMem(&memory, device_), "cuDeviceTotalMem", ErrorCode::not_found));
  const auto attribute = [&](CUdevice_attribute which, std::uint32_t& out) -> Status {
    int value = 0;
    ONEPASS_TRY(check(d.cuDeviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute",
                      ErrorCode::not_found));
    out = static_cast<std::uint32_t>(std::max(value, 0));
    return {};
  };
  std::uint32_t warp = 32, major = 0;
  ONEPASS_TRY(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, info_.compute_units));
  ONEPASS_TRY(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, info_.max_group_threads));
  ONEPASS_TRY(
      attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, info_.max_shared_bytes));
  ONEPASS_TRY(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, warp));
  ONEPASS_TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major));

  info_.name = "cuda:" + std::to_string(index);
  info_.description = name;
  info_.memory_bytes = memory;
  info_.max_buffer_bytes = memory;
  info_.view_alignment = 1;
  info_.max_groups = {0x7fffffffu, 65535, 65535};
  info_.subgroup_sizes = {warp};
  info_.features = feature_bits(Feature::f16);
  if (major >= 7) info_.features |= feature_bits(Feature::tensor_cores);
  if (major >= 9) info_.features |= feature_bits(Feature::clusters);
  info_.unified_memory = false;
  info_.order = OrderKind::edges;
  info_.programmatic_edges = !own_.plain_edges && major >= 9;
  info_.paces_full_launches = true;
  return {};
}

Status CudaBackend::open(std::span<const KernelImage> images, std::uint32_t index) {
  const Driver& d = driver();
  ONEPASS_TRY(read_info(index));
  ONEPASS_TRY(check(d.cuDevicePrimaryCtxRetain(&context_.handle, device_),
                    "cuDevicePrimaryCtxRetain", ErrorCode::device_lost));
  retained_ = true;
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::device_lost));
  ONEPASS_TRY(open_streams());
  for (Entry& e : ring_) {
    for (CUevent* event : {&e.start, &e.end}) {
      ONEPASS_TRY(check(d.cuEventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate",
                        ErrorCode::out_of_memory));
    }
  }
  void* pinned = nullptr;
  ONEPASS_TRY(check(d.cuMemHostAlloc(&pinned, (upload_pieces + readback_pieces) * piece_bytes,
                                     CU_MEMHOSTALLOC_PORTABLE),
                    "cuMemHostAlloc", ErrorCode::out_of_memory));
  pinned_ = static_cast<std::byte*>(pinned);
  std::byte* data = pinned_;
  for (const std::span<Piece> pieces : {std::span<Piece>(uploads_), std::span<Piece>(readbacks_)}) {
    for (Piece& piece : pieces) {
      piece.data = std::exchange(data, data + piece_bytes);
      ONEPASS_TRY(check(d.cuEventCreate(&piece.copied, CU_EVENT_DISABLE_TIMING), "cuEventCreate",
                        ErrorCode::out_of_memory));
    }
  }
  modules_ = std::make_unique<Modules>(d, images);
  memory_ = std::make_unique<DeviceMemory>(d, info_.name, own_.exact_memory);
  // Submission 0, which is done: the clock starts here.
  return check(d.cuEventRecord(ring_[0].end, context_.stream), "cuEventRecord",
               ErrorCode::device_lost);
}

Status CudaBackend::open_streams() {
  const Driver& d = driver();
  const auto stream = [&](CUstream& out) {
    return check(d.cuStreamCreate(&out, CU_STREAM_NON_BLOCKING), "cuStreamCreate",
                 ErrorCode::device_lost);
  };
  const auto event = [&](CUevent& out) {
    return check(d.cuEventCreate(&out, CU_EVENT_DISABLE_TIMING), "cuEventCreate",
                 ErrorCode::out_of_memory);
  };
  ONEPASS_TRY(stream(context_.stream));
  ONEPASS_TRY(event(context_.forked));
  for (Lane& lane : context_.lanes) {
    ONEPASS_TRY(stream(lane.stream));
    ONEPASS_TRY(event(lane.done));
  }
  return {};
}

void CudaBackend::close_streams() noexcept {
  const Driver& d = driver();
  for (const Lane& lane : context_.lanes) {
    if (lane.done) d.cuEventDestroy(lane.done);
    if (lane.stream) d.cuStreamDestroy(lane.stream);
  }
  if (context_.forked) d.cuEventDestroy(context_.forked);
  if (context_.stream) d.cuStreamDestroy(context_.stream);
}

// After a launch that failed half way lanes may have work that the stream does not wait for.
void CudaBackend::sync_lanes() noexcept {
  driver().cuStreamSynchronize(context_.stream);
  for (const Lane& lane : context_.lanes) driver().cuStreamSynchronize(lane.stream);
}

CudaBackend::~CudaBackend() {
  if (!retained_) return;
  const Driver& d = driver();
  {
    const Current current(context_);
    if (current.result() == CUDA_SUCCESS) {
      if (context_.stream) d.cuStreamSynchronize(context_.stream);
      modules_.reset();
      memory_.reset();
      for (const Entry& e : ring_) {
        if (e.start) d.cuEventDestroy(e.start);
        if (e.end) d.cuEventDestroy(e.end);
      }
      for (const std::span<Piece> pieces :
           {std::span<Piece>(uploads_), std::span<Piece>(readbacks_)}) {
        for (const Piece& piece : pieces) {
          if (piece.copied) d.cuEventDestroy(piece.copied);
        }
      }
      if (pinned_) d.cuMemFreeHost(pinned_);
      if (step_ring_) d.cuMemFreeHost(step_ring_);
      close_streams();
    }
  }
  d.cuDevicePrimaryCtxRelease(device_);
}

Result<Allocation> CudaBackend::allocate(std::uint64_t bytes, MemoryKind kind, bool zero) {
  const Driver& d = driver();
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::device_lost));
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const auto no_memory = [&](CUresult result, const char* call) {
    return fail(error_code(result, ErrorCode::out_of_memory),
                info_.name + ": cannot allocate " + std::to_string(bytes) + " of " +
                    std::to_string(info_.memory_bytes) + " bytes: " + describe(d, result, call));
  };
  CUdeviceptr address = 0;
  if (kind == MemoryKind::device) {
    ONEPASS_ASSIGN(address, memory_->allocate(size));
    if (zero) {
      // Later work is on the same stream.
      if (const CUresult r = d.cuMemsetD8Async(address, 0, size, context_.stream);
          r != CUDA_SUCCESS) {
        memory_->release(address);
        return no_memory(r, "cuMemsetD8Async");
      }
    }
    return Allocation{address, nullptr, bytes};
  }
  void* host = nullptr;
  if (const CUresult r =
          d.cuMemHostAlloc(&host, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
      r != CUDA_SUCCESS) {
    return no_memory(r, "cuMemHostAlloc");
  }
  if (const CUresult r = d.cuMemHostGetDevicePointer(&address, host, 0); r != CUDA_SUCCESS) {
    d.cuMemFreeHost(host);
    return no_memory(r, "cuMemHostGetDevicePointer");
  }
  if (zero) std::memset(host, 0, size);
  return Allocation{address, static_cast<std::byte*>(host), bytes};
}

void CudaBackend::release(const Allocation& memory) noexcept {
  if (memory.handle == 0) return;
  const Current current(context_);
  if (current.result() != CUDA_SUCCESS) return;
  if (memory.host) {
    driver().cuMemFreeHost(memory.host);
  } else {
    memory_->release(memory.handle);
  }
}

Status CudaBackend::write(const Allocation& memory, std::uint64_t offset,
                          std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (memory.host) {
    std::memcpy(memory.host + offset, bytes.data(), bytes.size());
    return {};
  }
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::submission_failed));
  return upload(memory.handle + offset, bytes);
}

// Returns before the copies are done; later work on the stream sees the bytes.
Status CudaBackend::upload(CUdeviceptr to, std::span<const std::byte> bytes) {
  const std::lock_guard lock(upload_mutex_);
  const Status copied = copy_in(to, bytes);
  // The event of the last piece may be missing, and the next upload would overwrite that piece.
  if (!copied) driver().cuStreamSynchronize(context_.stream);
  return copied;
}

Status CudaBackend::copy_in(CUdeviceptr to, std::span<const std::byte> bytes) {
  const Driver& d = driver();
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    const Piece& piece = uploads_[next_upload_++ % upload_pieces];
    const std::size_t n = std::min(piece_bytes, bytes.size() - at);
    ONEPASS_TRY(check(d.cuEventSynchronize(piece.copied), "cuEventSynchronize",
                      ErrorCode::submission_failed));
    std::memcpy(piece.data, bytes.data() + at, n);
    ONEPASS_TRY(check(d.cuMemcpyHtoDAsync(to + at, piece.data, n, context_.stream),
                      "cuMemcpyHtoDAsync", ErrorCode::submission_failed));
    ONEPASS_TRY(check(d.cuEventRecord(piece.copied, context_.stream), "cuEventRecord",
                      ErrorCode::submission_failed));
  }
  return {};
}

Status CudaBackend::read(const Allocation& memory, std::uint64_t offset,
                         std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (memory.host) {
    std::memcpy(bytes.data(), memory.host + offset, bytes.size());
    return {};
  }
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::submission_failed));
  const std::lock_guard lock(readback_mutex_);
  const Status copied = copy_out(memory.handle + offset, bytes);
  if (!copied) driver().cuStreamSynchronize(context_.stream);
  return copied;
}

// The host takes one piece over while the next one is being filled.
Status CudaBackend::copy_out(CUdeviceptr from, std::span<std::byte> bytes) {
  const Driver& d = driver();
  const std::size_t chunks = (bytes.size() + piece_bytes - 1) / piece_bytes;
  const auto length = [&](std::size_t i) {
    return std::min(piece_bytes, bytes.size() - i * piece_bytes);
  };
  for (std::size_t i = 0; i <= chunks; ++i) {
    if (i < chunks) {
      const Piece& piece = readbacks_[i % readback_pieces];
      ONEPASS_TRY(
          check(d.cuMemcpyDtoHAsync(piece.data, from + i * piece_bytes, length(i), context_.stream),
                "cuMemcpyDtoHAsync", ErrorCode::submission_failed));
      ONEPASS_TRY(check(d.cuEventRecord(piece.copied, context_.stream), "cuEventRecord",
                        ErrorCode::submission_failed));
    }
    if (i > 0) {
      const std::size_t last = i - 1;
      const Piece& piece = readbacks_[last % readback_pieces];
      ONEPASS_TRY(check(d.cuEventSynchronize(piece.copied), "cuEventSynchronize",
                        ErrorCode::submission_failed));
      std::memcpy(bytes.data() + last * piece_bytes, piece.data, length(last));
    }
  }
  return {};
}

Result<std::byte*> CudaBackend::map(const Allocation& memory) {
  if (!memory.host) {
    return fail(ErrorCode::unsupported,
                "map: " + info_.name + " has memory of its own; use upload or readback memory");
  }
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::submission_failed));
  return memory.host;
}

// Makes the pieces of the step ring large enough. Waits for what still reads the old ones.
Status CudaBackend::reserve_step(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= step_stride_) return {};
  const Driver& d = driver();
  const std::size_t stride = (static_cast<std::size_t>(bytes) + step_granularity - 1) /
                             step_granularity * step_granularity;
  void* grown = nullptr;
  ONEPASS_TRY(check(d.cuMemHostAlloc(&grown, stride * ring_.size(), CU_MEMHOSTALLOC_PORTABLE),
                    "cuMemHostAlloc", ErrorCode::out_of_memory));
  if (const CUresult r = d.cuStreamSynchronize(context_.stream); r != CUDA_SUCCESS) {
    d.cuMemFreeHost(grown);
    return check(r, "cuStreamSynchronize", ErrorCode::device_lost);
  }
  if (step_ring_) d.cuMemFreeHost(step_ring_);
  step_ring_ = static_cast<std::byte*>(grown);
  step_stride_ = stride;
  return {};
}

Result<KernelCode> CudaBackend::build(const KernelDesc& desc) {
  if (desc.cuda.image.empty()) return no_kernel_code(desc, info_.name, "a CUDA image");
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::kernel_build));
  ONEPASS_ASSIGN(const std::uint64_t handle, modules_->build(desc));
  return KernelCode(BuiltKernel{handle});
}

Result<std::unique_ptr<Recorded>> CudaBackend::record(const Recording& recording,
                                                      const Order& order) {
  try {
    const Current current(context_);
    ONEPASS_TRY(current.status(ErrorCode::kernel_build));
    ONEPASS_TRY(reserve_step(recording.step.bytes));
    const InlineBlocks blocks(recording);
    CUdeviceptr blocks_at = 0;
    if (!blocks.bytes.empty()) {
      ONEPASS_ASSIGN(blocks_at, memory_->allocate(blocks.bytes.size()));
    }
    DeviceBytes owner = blocks_at ? DeviceBytes(*memory_, blocks_at) : DeviceBytes();
    if (blocks_at) ONEPASS_TRY(upload(blocks_at, blocks.bytes));
    ONEPASS_ASSIGN(
        std::unique_ptr<GraphPass> pass,
        GraphPass::create(context_, *modules_, recording, order, blocks, std::move(owner)));
    return std::unique_ptr<Recorded>(std::move(pass));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, info_.name + ": no memory to record " +
                                              std::to_string(recording.launches.size()) +
                                              " launches");
  }
}

// The calls of a submission that must all succeed before its work counts as running.
CUresult CudaBackend::launch_locked(GraphPass& pass, std::uint64_t serial,
                                    std::span<const std::byte> step_bytes,
                                    const char*& call) noexcept {
  const Driver& d = driver();
  call = "cuEventRecord";
  CUresult r = d.cuEventRecord(ring_[serial].start, context_.stream);
  const std::size_t n = static_cast<std::size_t>(
      std::min<std::uint64_t>({step_bytes.size(), pass.step_bytes(), step_stride_}));
  if (r == CUDA_SUCCESS && n > 0) {
    std::byte* piece = step_ring_ + ring_.place(serial) * step_stride_;
    std::memcpy(piece, step_bytes.data(), n);
    call = "cuMemcpyHtoDAsync";
    r = d.cuMemcpyHtoDAsync(pass.step(), piece, n, context_.stream);
  }
  return r == CUDA_SUCCESS ? pass.launch(call) : r;
}

Status CudaBackend::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                           Completion& completion) {
  auto& pass = static_cast<GraphPass&>(recorded);
  const Driver& d = driver();
  const Current current(context_);
  ONEPASS_TRY(current.status(ErrorCode::submission_failed));
  const std::lock_guard lock(mutex_);
  while (submitted_ - finished_ >= in_flight_max_) {
    finish_next_locked(d.cuEventSynchronize(ring_[finished_ + 1].end));
  }
  const std::uint64_t serial = submitted_ + 1;
  const char* call = "";
  if (const CUresult r = launch_locked(pass, serial, step_bytes, call); r != CUDA_SUCCESS) {
    // The piece of the step ring is used again by the next submission.
    sync_lanes();
    return check(r, call, ErrorCode::submission_failed);
  }
  Entry& e = ring_[serial];
  e.pass = &pass;
  e.completion = &completion;
  completion.serial = serial;
  completion.failed.store(false, std::memory_order_relaxed);
  submitted_ = serial;
  // The work runs whatever happens here. Without an end to look for, wait for all of it.
  if (d.cuEventRecord(e.end, context_.stream) != CUDA_SUCCESS) {
    const CUresult r = d.cuStreamSynchronize(context_.stream);
    while (finished_ < serial) finish_next_locked(r);
  }
  return {};
}

void CudaBackend::finish_next_locked(CUresult result) noexcept {
  const std::uint64_t serial = finished_ + 1;
  Entry& e = ring_[serial];
  Completion& completion = *e.completion;
  if (result == CUDA_SUCCESS) {
    const std::uint64_t start = clock_ns_ + elapsed_ns(driver(), ring_[finished_].end, e.start);
    clock_ns_ = start + elapsed_ns(driver(), e.start, e.end);
    completion.span = {start, clock_ns_};
    if (e.pass->timed()) e.pass->read_spans(e.start, start);
  } else {
    const char* name = nullptr;
    driver().cuGetErrorName(result, &name);
    completion.code = error_code(result, ErrorCode::submission_failed);
    std::snprintf(completion.text, sizeof completion.text, "cuda: %s",
                  name ? name : "unknown error");
    completion.failed.store(true, std::memory_order_relaxed);
  }
  e.pass = nullptr;
  e.completion = nullptr;
  finished_ = serial;
  // From here on the caller may destroy the completion and the pass.
  completion.done.store(true, std::memory_order_release);
}

void CudaBackend::wait(Completion& completion) {
  if (completion.done.load(std::memory_order_acquire)) return;
  const Current current(context_);
  CUevent end = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (completion.done.load(std::memory_order_acquire)) return;
    end = ring_[completion.serial].end;
  }
  const CUresult result =
      current.result() == CUDA_SUCCESS ? driver().cuEventSynchronize(end) : current.result();
  const std::lock_guard lock(mutex_);
  while (!completion.done.load(std::memory_order_acquire)) finish_next_locked(result);
}

bool CudaBackend::poll(Completion& completion) {
  if (completion.done.load(std::memory_order_acquire)) return true;
  const Current current(context_);
  const std::lock_guard lock(mutex_);
  while (!completion.done.load(std::memory_order_acquire)) {
    const CUresult result = current.result() == CUDA_SUCCESS
                                ? driver().cuEventQuery(ring_[finished_ + 1].end)
                                : current.result();
    if (result == CUDA_ERROR_NOT_READY) return false;
    finish_next_locked(result);
  }
  return true;
}

Status CudaBackend::timestamps(Recorded& recorded, std::span<TimeSpan> out) {
  const auto& pass = static_cast<const GraphPass&>(recorded);
  if (!pass.timed()) {
    return fail(ErrorCode::invalid_state, "timestamps: the recording was not timed");
  }
  const std::lock_guard lock(mutex_);
  const std::size_t n = std::min(out.size(), pass.spans().size());
  std::copy_n(pass.spans().begin(), n, out.begin());
  return {};
}

void* CudaBackend::native_handle(const Allocation* memory) noexcept {
  return memory ? reinterpret_cast<void*>(memory->handle) : static_cast<void*>(context_.handle);
}

void* CudaBackend::native_submission(const Completion& submission) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t serial = submission.serial;
  return serial != 0 && serial + ring_.size() > submitted_ ? ring_[serial].end : nullptr;
}

std::uint64_t CudaBackend::free_bytes() noexcept {
  const Current current(context_);
  std::size_t free = 0, total = 0;
  if (current.result() != CUDA_SUCCESS) return 0;
  return driver().cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

// "GPU-" and the bytes as drivers print them.
std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    char digits[4];
    const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    std::snprintf(digits, sizeof digits, "%s%02x", dash ? "-" : "",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += digits;
  }
  return text;
}

}  // namespace

std::vector<DeviceListing> list_devices(const Driver& driver) {
  int count = 0;
  if (const CUresult r = driver.cuDeviceGetCount(&count); r != CUDA_SUCCESS) {
    return {{"cuda", "", false, "cuda: " + describe(driver, r, "cuDeviceGetCount")}};
  }
  if (count <= 0) return {{"cuda", "", false, "cuda: no device"}};
  std::vector<DeviceListing> devices;
  for (int i = 0; i < count; ++i) {
    DeviceListing listing;
    listing.name = "cuda:" + std::to_string(i);
    CUdevice device = 0;
    char name[128] = {};
    CUresult r = driver.cuDeviceGet(&device, i);
    if (r == CUDA_SUCCESS) r = driver.cuDeviceGetName(name, sizeof name, device);
    listing.available = r == CUDA_SUCCESS;
    listing.description = name;
    CUuuid uuid = {};
    if (r == CUDA_SUCCESS && driver.cuDeviceGetUuid != nullptr &&
        driver.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
      listing.description += " (" + uuid_text(uuid) + ")";
    }
    if (r != CUDA_SUCCESS) listing.reason = "cuda: " + describe(driver, r, "cuDeviceGetName");
    devices.push_back(std::move(listing));
  }
  return devices;
}

Result<std::unique_ptr<Backend>> open_device(const Driver& driver,
                                             std::span<const KernelImage> images,
                                             std::uint32_t index, const DeviceOptions& options) {
  try {
    auto backend = std::make_unique<CudaBackend>(driver, images, options);
    ONEPASS_TRY(backend->open(images, index));
    return std::unique_ptr<Backend>(std::move(backend));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "cuda: no memory to open a device");
  }
}

}  // namespace cuda

std::vector<DeviceListing> list_cuda() {
  const Result<const cuda::Driver*> driver = cuda::load_driver();
  if (!driver) return {{"cuda", "", false, driver.error().message}};
  return cuda::list_devices(**driver);
}

Result<std::unique_ptr<Backend>> open_cuda(std::uint32_t index, const DeviceOptions& options) {
  ONEPASS_ASSIGN(const cuda::Driver* driver, cuda::load_driver());
  return cuda::open_device(*driver, cuda::kernel_images(), index, options);
}

}  // namespace onepass
