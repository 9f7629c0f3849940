#include "backends/vulkan/recording.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace onepass::vulkan {

std::uint64_t ticks_to_ns(const Gpu& gpu, std::uint64_t ticks) noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(ticks) *
                                    static_cast<double>(gpu.properties.limits.timestampPeriod));
}

Result<std::unique_ptr<CommandPass>> CommandPass::create(const Gpu& gpu, Pipelines& pipelines,
                                                         const Recording& recording,
                                                         const Order& order,
                                                         const VulkanOptions& options) {
  std::unique_ptr<CommandPass> pass(new CommandPass(gpu));
  pass->step_ = recording.step;
  pass->timed_ = recording.timed;
  ONEPASS_TRY(pass->build(pipelines, recording, order, options));
  return pass;
}

CommandPass::~CommandPass() {
  const VolkDeviceTable& api = gpu_.api;
  if (commands_ != VK_NULL_HANDLE) api.vkDestroyCommandPool(gpu_.device, commands_, nullptr);
  if (descriptors_ != VK_NULL_HANDLE) {
    api.vkDestroyDescriptorPool(gpu_.device, descriptors_, nullptr);
  }
  if (queries_ != VK_NULL_HANDLE) api.vkDestroyQueryPool(gpu_.device, queries_, nullptr);
}

Status CommandPass::make_pools(const Recording& recording, std::size_t n_buffers) {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = gpu_.family;
  ONEPASS_TRY(check(api.vkCreateCommandPool(gpu_.device, &pool, nullptr, &commands_),
                    "vkCreateCommandPool", ErrorCode::out_of_memory));
  buffers_.resize(n_buffers);
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = commands_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = static_cast<std::uint32_t>(n_buffers);
  ONEPASS_TRY(check(api.vkAllocateCommandBuffers(gpu_.device, &info, buffers_.data()),
                    "vkAllocateCommandBuffers", ErrorCode::out_of_memory));
  std::uint32_t sets = 0, bindings = 0;
  for (const RecordedLaunch& l : recording.launches) {
    if (is_empty(l)) continue;
    ++sets;
    bindings += static_cast<std::uint32_t>(std::popcount(bindings_of(l)));
  }
  if (sets != 0) {
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(bindings, 1u)};
    VkDescriptorPoolCreateInfo descriptors{};
    descriptors.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    descriptors.maxSets = sets;
    descriptors.poolSizeCount = 1;
    descriptors.pPoolSizes = &size;
    ONEPASS_TRY(check(api.vkCreateDescriptorPool(gpu_.device, &descriptors, nullptr, &descriptors_),
                      "vkCreateDescriptorPool", ErrorCode::out_of_memory));
  }
  spans_.resize(recording.launches.size());
  ran_.resize(recording.launches.size());
  if (!timed_ || gpu_.timestamp_bits == 0 || recording.launches.empty()) return {};
  VkQueryPoolCreateInfo queries{};
  queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = static_cast<std::uint32_t>(2 * recording.launches.size());
  return check(api.vkCreateQueryPool(gpu_.device, &queries, nullptr, &queries_),
               "vkCreateQueryPool", ErrorCode::out_of_memory);
}

Status CommandPass::begin_buffer() {
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;  // submissions may be queued
  return check(gpu_.api.vkBeginCommandBuffer(buffers_[open_], &info), "vkBeginCommandBuffer",
               ErrorCode::out_of_memory);
}

Status CommandPass::end_buffer() {
  return check(gpu_.api.vkEndCommandBuffer(buffers_[open_++]), "vkEndCommandBuffer",
               ErrorCode::out_of_memory);
}

void CommandPass::add_barrier() {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  gpu_.api.vkCmdPipelineBarrier(buffers_[open_], VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                nullptr);
}

Status CommandPass::build(Pipelines& pipelines, const Recording& recording, const Order& order,
                          const VulkanOptions& options) {
  const std::size_t n = recording.launches.size();
  const bool split = options.split_launches;
  ONEPASS_TRY(make_pools(recording, split ? std::max<std::size_t>(n, 1) : 1));
  ONEPASS_TRY(begin_buffer());
  if (queries_ != VK_NULL_HANDLE) {
    gpu_.api.vkCmdResetQueryPool(buffers_[open_], queries_, 0, static_cast<std::uint32_t>(2 * n));
  }
  std::uint32_t level = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (split && i != 0) {
      ONEPASS_TRY(end_buffer());
      ONEPASS_TRY(begin_buffer());
    }
    // In order, every launch is a level.
    const bool starts = order.kind == OrderKind::levels
                            ? level + 1 < order.n_levels() && order.level_offsets[level + 1] == i
                            : i != 0;
    if (starts) {
      ++level;
      add_barrier();
    }
    if (!is_empty(recording.launches[i])) {
      ONEPASS_TRY(add(pipelines, recording.launches[i], i));
    }
  }
  return end_buffer();
}

Status CommandPass::add(Pipelines& pipelines, const RecordedLaunch& l, std::uint32_t index) {
  const VolkDeviceTable& api = gpu_.api;
  const VkCommandBuffer to = buffers_[open_];
  ONEPASS_ASSIGN(const Pipelines::Kernel kernel, pipelines.get(l));
  ONEPASS_ASSIGN(const VkDescriptorSet set, bind(*kernel.layout, l));
  std::array<std::byte, push_bytes> push;
  std::memcpy(push.data(), l.params.data(), residues_at);
  for (std::size_t i = 0; i < max_views; ++i) {
    push[residues_at + i] = static_cast<std::byte>(
        i < l.n_views && l.views[i].bytes != 0 ? place_of(l.views[i]) % gpu_.view_alignment() : 0);
  }
  api.vkCmdBindPipeline(to, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline);
  api.vkCmdBindDescriptorSets(to, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout->pipeline, 0, 1,
                              &set, 0, nullptr);
  api.vkCmdPushConstants(to, kernel.layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes,
                         push.data());
  if (queries_ != VK_NULL_HANDLE) {
    api.vkCmdWriteTimestamp(to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries_, 2 * index);
  }
  api.vkCmdDispatch(to, l.launch.grid[0], l.launch.grid[1], l.launch.grid[2]);
  if (queries_ != VK_NULL_HANDLE) {
    api.vkCmdWriteTimestamp(to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries_, 2 * index + 1);
    ran_[index] = true;
  }
  return {};
}

namespace {

// Bytes from an aligned place before the view to a whole word behind it.
VkDescriptorBufferInfo binding_of(const BoundView& view, std::uint32_t alignment) {
  const VkDeviceSize at = place_of(view), begin = at / alignment * alignment;
  return {piece_of(view.memory).buffer, begin, (at - begin + view.bytes + 3) / 4 * 4};
}

}  // namespace

// A view that is not there is bound to another one of the launch with the same access: the kernel
// does not touch it, and it adds no hazard.
Result<VkDescriptorSet> CommandPass::bind(const Layout& layout, const RecordedLaunch& l) {
  VkDescriptorSetAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  info.descriptorPool = descriptors_;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout.set;
  VkDescriptorSet set = VK_NULL_HANDLE;
  ONEPASS_TRY(check(gpu_.api.vkAllocateDescriptorSets(gpu_.device, &info, &set),
                    "vkAllocateDescriptorSets", ErrorCode::out_of_memory));
  const OpInfo& op = onepass::info(l.kernel->op);
  const BoundView* read = nullptr;
  const BoundView* written = nullptr;
  for (std::size_t i = 0; i < l.n_views; ++i) {
    if (l.views[i].bytes == 0) continue;
    const BoundView*& first = op.slots[i] == 'i' ? read : written;
    if (first == nullptr) first = &l.views[i];
  }
  std::array<VkDescriptorBufferInfo, 32> buffers;
  std::array<VkWriteDescriptorSet, 32> writes;
  std::uint32_t n = 0;
  for (std::uint32_t b = 0; b < 32; ++b) {
    if ((layout.bindings >> b & 1u) == 0) continue;
    const BoundView* view = b == scratch_binding      ? &l.scratch
                            : b == persistent_binding ? &l.persistent
                            : b - 1 < l.n_views       ? &l.views[b - 1]
                                                      : nullptr;
    if (view == nullptr || view->bytes == 0) {
      view = op.slots[b - 1] == 'i' && read != nullptr ? read : written;
    }
    if (view == nullptr) {
      return fail(ErrorCode::kernel_build,
                  std::string("vulkan: ") + l.kernel->name + " has nothing to write");
    }
    buffers[n] = binding_of(*view, gpu_.view_alignment());
    VkWriteDescriptorSet& w = writes[n];
    w = {};
    w.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    w.dstSet = set;
    w.dstBinding = b;
    w.descriptorCount = 1;
    w.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    w.pBufferInfo = &buffers[n];
    ++n;
  }
  gpu_.api.vkUpdateDescriptorSets(gpu_.device, n, writes.data(), 0, nullptr);
  return set;
}

void CommandPass::read_spans() noexcept {
  for (std::uint32_t i = 0; i < spans_.size(); ++i) {
    std::uint64_t ticks[2] = {};
    if (!ran_[i] ||
        gpu_.api.vkGetQueryPoolResults(gpu_.device, queries_, 2 * i, 2, sizeof ticks, ticks,
                                       sizeof ticks[0], VK_QUERY_RESULT_64_BIT) != VK_SUCCESS) {
      // What ran nothing ends where the launch before it ends.
      const std::uint64_t at = i == 0 ? 0 : spans_[i - 1].end_ns;
      spans_[i] = {at, at};
      continue;
    }
    spans_[i] = {ticks_to_ns(gpu_, ticks[0]), ticks_to_ns(gpu_, ticks[1])};
  }
}

}  // namespace onepass::vulkan
