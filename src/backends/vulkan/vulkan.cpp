#include "backends/vulkan/vulkan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "backends/vulkan/copies.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/recording.h"
#include "core/serial_ring.h"

namespace onepass {
namespace vulkan {
namespace {

constexpr std::size_t most_step_bytes = 65536;  // vkCmdUpdateBuffer's

class VulkanBackend final : public Backend {
 public:
  VulkanBackend(std::unique_ptr<Instance> instance, const DeviceOptions& options)
      : own_(backend_options<VulkanOptions>(options)),
        instance_(std::move(instance)),
        memory_(gpu_, own_.staged_memory),
        copies_(gpu_, memory_, queue_mutex_),
        pipelines_(gpu_),
        in_flight_max_(std::clamp(options.command_buffers, 1u, 4096u)),
        ring_(in_flight_max_ + 1) {}
  ~VulkanBackend() override;

  // After the constructor, once; the destructor gives back whatever it got.
  Status open(VkPhysicalDevice device, std::uint32_t index);

  const DeviceInfo& info() const noexcept override { return info_; }
  KernelTable kernels() const noexcept override { return KernelTable(kernel_lists()); }
  Result<KernelCode> build(const KernelDesc& desc) override {
    return no_kernel_code(desc, info_.name, "none of a caller's kernels yet");
  }
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override;
  void release(const Allocation& memory) noexcept override;
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override;
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  Result<std::byte*> map(const Allocation& memory) override;
  Result<std::unique_ptr<Recorded>> record(const Recording& recording, const Order& order) override;
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override;
  void wait(Completion& completion) override;
  bool poll(Completion& completion) override;
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override;
  void* native_handle(const Allocation* memory) noexcept override;
  void* native_stream() noexcept override { return gpu_.queue; }

 private:
  // A submission whose end was not seen yet, and what stands around its pass.
  struct Entry {
    VkFence done = VK_NULL_HANDLE;
    VkCommandBuffer before = VK_NULL_HANDLE, after = VK_NULL_HANDLE;
    CommandPass* pass = nullptr;
    Completion* completion = nullptr;
  };

  void read_info(std::uint32_t index);
  Status open_entries();
  Status fill_before(const Entry& e, std::uint32_t query, const CommandPass& pass,
                     std::span<const std::byte> step_bytes);
  Status fill_after(const Entry& e, std::uint32_t query);
  void finish_next_locked(VkResult result) noexcept;
  void barrier(VkCommandBuffer to, VkPipelineStageFlags from_stage, VkAccessFlags from_access,
               VkPipelineStageFlags to_stage, VkAccessFlags to_access) const noexcept;

  const VulkanOptions own_;
  std::unique_ptr<Instance> instance_;
  Gpu gpu_;
  DeviceInfo info_;
  std::mutex queue_mutex_;  // vkQueueSubmit
  Memory memory_;
  Copies copies_;
  Pipelines pipelines_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;  // start and end of each entry

  std::mutex mutex_;  // guards the rest
  const std::uint32_t in_flight_max_;
  SerialRing<Entry> ring_;
  std::vector<VkCommandBuffer> to_submit_;
  std::uint64_t submitted_ = 0, finished_ = 0;  // serials; the first is 1
};

void VulkanBackend::read_info(std::uint32_t index) {
  const VkPhysicalDeviceLimits& limits = gpu_.properties.limits;
  info_.name = "vulkan:" + std::to_string(index);
  info_.description = describe(gpu_.physical).description;
  for (std::uint32_t i = 0; i < gpu_.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = gpu_.memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) {
      info_.memory_bytes = std::max<std::uint64_t>(info_.memory_bytes, heap.size);
    }
  }
  VkPhysicalDeviceMaintenance3Properties most{};
  most.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  VkPhysicalDeviceSubgroupProperties subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  subgroup.pNext = &most;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &subgroup;
  vkGetPhysicalDeviceProperties2(gpu_.physical, &properties);
  info_.max_buffer_bytes = most.maxMemoryAllocationSize;
  // A binding may begin before its view and end behind it.
  info_.max_binding_bytes =
      std::uint64_t{limits.maxStorageBufferRange} / piece_alignment * piece_alignment -
      piece_alignment;
  info_.view_alignment = gpu_.view_alignment();
  info_.max_group_threads = std::min(limits.maxComputeWorkGroupInvocations, 256u);
  for (std::size_t i = 0; i < 3; ++i) info_.max_groups[i] = limits.maxComputeWorkGroupCount[i];
  info_.max_shared_bytes = limits.maxComputeSharedMemorySize;
  info_.subgroup_sizes = {own_.subgroup_size != 0 ? own_.subgroup_size
                                                  : std::max(subgroup.subgroupSize, 1u)};
  info_.unified_memory = false;
  info_.order = OrderKind::levels;
}

Status VulkanBackend::open(VkPhysicalDevice device, std::uint32_t index) {
  ONEPASS_TRY(gpu_.open(device));
  read_info(index);
  ONEPASS_TRY(copies_.open());
  ONEPASS_TRY(pipelines_.open());
  return open_entries();
}

Status VulkanBackend::open_entries() {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = gpu_.family;
  ONEPASS_TRY(check(api.vkCreateCommandPool(gpu_.device, &pool, nullptr, &pool_),
                    "vkCreateCommandPool", ErrorCode::out_of_memory));
  if (gpu_.timestamp_bits != 0) {
    VkQueryPoolCreateInfo queries{};
    queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
    queries.queryCount = static_cast<std::uint32_t>(2 * ring_.size());
    ONEPASS_TRY(check(api.vkCreateQueryPool(gpu_.device, &queries, nullptr, &queries_),
                      "vkCreateQueryPool", ErrorCode::out_of_memory));
  }
  std::vector<VkCommandBuffer> buffers(2 * ring_.size());
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = static_cast<std::uint32_t>(buffers.size());
  ONEPASS_TRY(check(api.vkAllocateCommandBuffers(gpu_.device, &info, buffers.data()),
                    "vkAllocateCommandBuffers", ErrorCode::out_of_memory));
  std::uint32_t i = 0;
  for (Entry& e : ring_) {
    VkFenceCreateInfo fence{};
    fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    ONEPASS_TRY(check(api.vkCreateFence(gpu_.device, &fence, nullptr, &e.done), "vkCreateFence",
                      ErrorCode::out_of_memory));
    e.before = buffers[2 * i];
    e.after = buffers[2 * i + 1];
    ONEPASS_TRY(fill_after(e, 2 * i + 1));
    ++i;
  }
  return {};
}

VulkanBackend::~VulkanBackend() {
  const VolkDeviceTable& api = gpu_.api;
  if (gpu_.device == VK_NULL_HANDLE) return;
  api.vkDeviceWaitIdle(gpu_.device);
  for (const Entry& e : ring_) {
    if (e.done != VK_NULL_HANDLE) api.vkDestroyFence(gpu_.device, e.done, nullptr);
  }
  if (queries_ != VK_NULL_HANDLE) api.vkDestroyQueryPool(gpu_.device, queries_, nullptr);
  if (pool_ != VK_NULL_HANDLE) api.vkDestroyCommandPool(gpu_.device, pool_, nullptr);
}

Result<Allocation> VulkanBackend::allocate(std::uint64_t bytes, MemoryKind kind, bool zero) {
  try {
    ONEPASS_ASSIGN(Piece* const piece, memory_.allocate(bytes, kind));
    if (zero) {
      if (piece->host != nullptr) {
        std::memset(piece->host, 0, piece->bytes);
      } else if (Status zeroed = copies_.zero(*piece); !zeroed) {
        memory_.release(piece);
        return zeroed.error();
      }
    }
    return Allocation{reinterpret_cast<std::uintptr_t>(piece), piece->host, bytes};
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, info_.name + ": no memory on the host");
  }
}

void VulkanBackend::release(const Allocation& memory) noexcept {
  if (memory.handle != 0) memory_.release(reinterpret_cast<Piece*>(memory.handle));
}

Status VulkanBackend::write(const Allocation& memory, std::uint64_t offset,
                            std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (memory.host == nullptr) return copies_.write(piece_of(memory), offset, bytes);
  std::memcpy(memory.host + offset, bytes.data(), bytes.size());
  return {};
}

Status VulkanBackend::read(const Allocation& memory, std::uint64_t offset,
                           std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  if (memory.host == nullptr) return copies_.read(piece_of(memory), offset, bytes);
  std::memcpy(bytes.data(), memory.host + offset, bytes.size());
  return {};
}

Result<std::byte*> VulkanBackend::map(const Allocation& memory) {
  if (memory.host != nullptr) return memory.host;
  return fail(ErrorCode::unsupported,
              "map: " + info_.name + " has memory of its own; use upload or readback memory");
}

Result<std::unique_ptr<Recorded>> VulkanBackend::record(const Recording& recording,
                                                        const Order& order) {
  try {
    if (recording.step.bytes > most_step_bytes) {
      return fail(ErrorCode::out_of_memory,
                  info_.name + ": a step of " + std::to_string(recording.step.bytes) +
                      " bytes, at most " + std::to_string(most_step_bytes));
    }
    ONEPASS_ASSIGN(std::unique_ptr<CommandPass> pass,
                   CommandPass::create(gpu_, pipelines_, recording, order, own_));
    const std::lock_guard lock(mutex_);
    to_submit_.reserve(pass->buffers().size() + 2);
    return std::unique_ptr<Recorded>(std::move(pass));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, info_.name + ": no memory to record " +
                                              std::to_string(recording.launches.size()) +
                                              " launches");
  }
}

void VulkanBackend::barrier(VkCommandBuffer to, VkPipelineStageFlags from_stage,
                            VkAccessFlags from_access, VkPipelineStageFlags to_stage,
                            VkAccessFlags to_access) const noexcept {
  VkMemoryBarrier b{};
  b.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  b.srcAccessMask = from_access;
  b.dstAccessMask = to_access;
  gpu_.api.vkCmdPipelineBarrier(to, from_stage, to_stage, 0, 1, &b, 0, nullptr, 0, nullptr);
}

// A submission begins when the ones before it have ended.
Status VulkanBackend::fill_before(const Entry& e, std::uint32_t query, const CommandPass& pass,
                                  std::span<const std::byte> step_bytes) {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  ONEPASS_TRY(check(api.vkBeginCommandBuffer(e.before, &begin), "vkBeginCommandBuffer",
                    ErrorCode::submission_failed));
  if (queries_ != VK_NULL_HANDLE) {
    api.vkCmdResetQueryPool(e.before, queries_, query, 2);
  }
  constexpr VkPipelineStageFlags all =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  barrier(e.before, all, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, all,
          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  if (queries_ != VK_NULL_HANDLE) {
    api.vkCmdWriteTimestamp(e.before, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries_, query);
  }
  const std::uint64_t n = std::min<std::uint64_t>(step_bytes.size(), pass.step().bytes) / 4 * 4;
  if (n != 0) {
    api.vkCmdUpdateBuffer(e.before, piece_of(pass.step().memory).buffer, place_of(pass.step()), n,
                          step_bytes.data());
    barrier(e.before, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  }
  return check(api.vkEndCommandBuffer(e.before), "vkEndCommandBuffer",
               ErrorCode::submission_failed);
}

// Recorded once: the end of any pass. The host may read what it wrote.
Status VulkanBackend::fill_after(const Entry& e, std::uint32_t query) {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  ONEPASS_TRY(check(api.vkBeginCommandBuffer(e.after, &begin), "vkBeginCommandBuffer",
                    ErrorCode::out_of_memory));
  barrier(e.after, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
          VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  if (queries_ != VK_NULL_HANDLE) {
    api.vkCmdWriteTimestamp(e.after, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, query);
  }
  return check(api.vkEndCommandBuffer(e.after), "vkEndCommandBuffer", ErrorCode::out_of_memory);
}

Status VulkanBackend::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                             Completion& completion) {
  auto& pass = static_cast<CommandPass&>(recorded);
  const VolkDeviceTable& api = gpu_.api;
  const std::lock_guard lock(mutex_);
  while (submitted_ - finished_ >= in_flight_max_) {
    const VkFence oldest = ring_[finished_ + 1].done;
    finish_next_locked(api.vkWaitForFences(gpu_.device, 1, &oldest, VK_TRUE, ~std::uint64_t{0}));
  }
  const std::uint64_t serial = submitted_ + 1;
  Entry& e = ring_[serial];
  ONEPASS_TRY(check(api.vkResetFences(gpu_.device, 1, &e.done), "vkResetFences",
                    ErrorCode::submission_failed));
  const auto query = static_cast<std::uint32_t>(2 * ring_.place(serial));
  ONEPASS_TRY(fill_before(e, query, pass, step_bytes));
  to_submit_.assign(1, e.before);
  to_submit_.insert(to_submit_.end(), pass.buffers().begin(), pass.buffers().end());
  to_submit_.push_back(e.after);
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = static_cast<std::uint32_t>(to_submit_.size());
  info.pCommandBuffers = to_submit_.data();
  {
    const std::lock_guard queue_lock(queue_mutex_);
    ONEPASS_TRY(check(api.vkQueueSubmit(gpu_.queue, 1, &info, e.done), "vkQueueSubmit",
                      ErrorCode::submission_failed));
  }
  e.pass = &pass;
  e.completion = &completion;
  completion.serial = serial;
  completion.failed.store(false, std::memory_order_relaxed);
  submitted_ = serial;
  return {};
}

void VulkanBackend::finish_next_locked(VkResult result) noexcept {
  const std::uint64_t serial = finished_ + 1;
  Entry& e = ring_[serial];
  Completion& completion = *e.completion;
  if (result == VK_SUCCESS) {
    std::uint64_t ticks[2] = {};
    const auto query = static_cast<std::uint32_t>(2 * ring_.place(serial));
    if (queries_ != VK_NULL_HANDLE &&
        gpu_.api.vkGetQueryPoolResults(gpu_.device, queries_, query, 2, sizeof ticks, ticks,
                                       sizeof ticks[0], VK_QUERY_RESULT_64_BIT) == VK_SUCCESS) {
      completion.span = {ticks_to_ns(gpu_, ticks[0]), ticks_to_ns(gpu_, ticks[1])};
    }
    if (e.pass->timed()) e.pass->read_spans();
  } else {
    completion.code = error_code(result, ErrorCode::submission_failed);
    std::snprintf(completion.text, sizeof completion.text, "vulkan: %s", result_name(result));
    completion.failed.store(true, std::memory_order_relaxed);
  }
  e.pass = nullptr;
  e.completion = nullptr;
  finished_ = serial;
  // From here on the caller may destroy the completion and the pass.
  completion.done.store(true, std::memory_order_release);
}

void VulkanBackend::wait(Completion& completion) {
  if (completion.done.load(std::memory_order_acquire)) return;
  VkFence done = VK_NULL_HANDLE;
  {
    const std::lock_guard lock(mutex_);
    if (completion.done.load(std::memory_order_acquire)) return;
    done = ring_[completion.serial].done;
  }
  const VkResult result =
      gpu_.api.vkWaitForFences(gpu_.device, 1, &done, VK_TRUE, ~std::uint64_t{0});
  const std::lock_guard lock(mutex_);
  while (!completion.done.load(std::memory_order_acquire)) finish_next_locked(result);
}

bool VulkanBackend::poll(Completion& completion) {
  if (completion.done.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  while (!completion.done.load(std::memory_order_acquire)) {
    const VkResult result = gpu_.api.vkGetFenceStatus(gpu_.device, ring_[finished_ + 1].done);
    if (result == VK_NOT_READY) return false;
    finish_next_locked(result);
  }
  return true;
}

Status VulkanBackend::timestamps(Recorded& recorded, std::span<TimeSpan> out) {
  const auto& pass = static_cast<const CommandPass&>(recorded);
  if (!pass.timed()) {
    return fail(ErrorCode::invalid_state, "timestamps: the recording was not timed");
  }
  const std::lock_guard lock(mutex_);
  const std::size_t n = std::min(out.size(), pass.spans().size());
  std::copy_n(pass.spans().begin(), n, out.begin());
  return {};
}

void* VulkanBackend::native_handle(const Allocation* memory) noexcept {
  return memory ? reinterpret_cast<void*>(piece_of(*memory).buffer)
                : static_cast<void*>(gpu_.device);
}

}  // namespace
}  // namespace vulkan

std::vector<DeviceListing> list_vulkan() {
  const auto unavailable = [](const std::string& why) {
    return std::vector<DeviceListing>{{"vulkan", "", false, why}};
  };
  const auto instance = vulkan::Instance::create({});
  if (!instance) return unavailable(instance.error().message);
  const auto devices = (*instance)->devices();
  if (!devices) return unavailable(devices.error().message);
  if (devices->empty()) return unavailable("vulkan: no device");
  std::vector<DeviceListing> list;
  for (const VkPhysicalDevice device : *devices) {
    list.push_back(
        {"vulkan:" + std::to_string(list.size()), vulkan::describe(device).description, true, ""});
  }
  return list;
}

Result<std::unique_ptr<Backend>> open_vulkan(std::uint32_t index, const DeviceOptions& options) {
  try {
    ONEPASS_ASSIGN(std::unique_ptr<vulkan::Instance> instance,
                   vulkan::Instance::create(backend_options<VulkanOptions>(options)));
    ONEPASS_ASSIGN(const std::vector<VkPhysicalDevice> devices, instance->devices());
    if (index >= devices.size()) {
      return fail(ErrorCode::not_found, "vulkan: there are " + std::to_string(devices.size()) +
                                            " devices, none is vulkan:" + std::to_string(index));
    }
    auto backend = std::make_unique<vulkan::VulkanBackend>(std::move(instance), options);
    ONEPASS_TRY(backend->open(devices[index], index));
    return std::unique_ptr<Backend>(std::move(backend));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "vulkan: no memory to open a device");
  }
}

}  // namespace onepass
