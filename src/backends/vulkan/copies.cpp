#include "backends/vulkan/copies.h"

#include <algorithm>
#include <cstring>

namespace onepass::vulkan {
namespace {

constexpr std::size_t staging_bytes = 4u << 20;

void wait_for_all(const Gpu& gpu, VkCommandBuffer commands, VkPipelineStageFlags from,
                  VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = written;
  barrier.dstAccessMask = used;
  gpu.api.vkCmdPipelineBarrier(commands, from, to, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

Status Copies::open() {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = gpu_.family;
  ONEPASS_TRY(check(api.vkCreateCommandPool(gpu_.device, &pool, nullptr, &pool_),
                    "vkCreateCommandPool", ErrorCode::out_of_memory));
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  ONEPASS_TRY(check(api.vkAllocateCommandBuffers(gpu_.device, &info, &commands_),
                    "vkAllocateCommandBuffers", ErrorCode::out_of_memory));
  VkFenceCreateInfo fence{};
  fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  return check(api.vkCreateFence(gpu_.device, &fence, nullptr, &done_), "vkCreateFence",
               ErrorCode::out_of_memory);
}

Copies::~Copies() {
  const VolkDeviceTable& api = gpu_.api;
  if (done_ != VK_NULL_HANDLE) api.vkDestroyFence(gpu_.device, done_, nullptr);
  if (pool_ != VK_NULL_HANDLE) api.vkDestroyCommandPool(gpu_.device, pool_, nullptr);
  if (staging_ != nullptr) memory_.release(staging_);
}

template <class Fill>
Status Copies::run(Fill fill) {
  const VolkDeviceTable& api = gpu_.api;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  ONEPASS_TRY(check(api.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer",
                    ErrorCode::out_of_memory));
  fill(commands_);
  ONEPASS_TRY(
      check(api.vkEndCommandBuffer(commands_), "vkEndCommandBuffer", ErrorCode::out_of_memory));
  ONEPASS_TRY(check(api.vkResetFences(gpu_.device, 1, &done_), "vkResetFences",
                    ErrorCode::submission_failed));
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  {
    const std::lock_guard lock(queue_mutex_);
    ONEPASS_TRY(check(api.vkQueueSubmit(gpu_.queue, 1, &submit, done_), "vkQueueSubmit",
                      ErrorCode::submission_failed));
  }
  return check(api.vkWaitForFences(gpu_.device, 1, &done_, VK_TRUE, ~std::uint64_t{0}),
               "vkWaitForFences", ErrorCode::submission_failed);
}

Status Copies::write(const Piece& to, VkDeviceSize offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (staging_ == nullptr) {
    ONEPASS_ASSIGN(staging_, memory_.allocate(staging_bytes, MemoryKind::upload));
  }
  for (std::size_t at = 0; at < bytes.size(); at += staging_bytes) {
    const std::size_t n = std::min(staging_bytes, bytes.size() - at);
    std::memcpy(staging_->host, bytes.data() + at, n);
    const VkBufferCopy region{staging_->offset, to.offset + offset + at, n};
    ONEPASS_TRY(run([&](VkCommandBuffer c) {
      wait_for_all(gpu_, c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                   VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
      gpu_.api.vkCmdCopyBuffer(c, staging_->buffer, to.buffer, 1, &region);
      wait_for_all(gpu_, c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                   VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    }));
  }
  return {};
}

Status Copies::read(const Piece& from, VkDeviceSize offset, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (staging_ == nullptr) {
    ONEPASS_ASSIGN(staging_, memory_.allocate(staging_bytes, MemoryKind::readback));
  }
  for (std::size_t at = 0; at < bytes.size(); at += staging_bytes) {
    const std::size_t n = std::min(staging_bytes, bytes.size() - at);
    const VkBufferCopy region{from.offset + offset + at, staging_->offset, n};
    ONEPASS_TRY(run([&](VkCommandBuffer c) {
      wait_for_all(gpu_, c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                   VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
      gpu_.api.vkCmdCopyBuffer(c, from.buffer, staging_->buffer, 1, &region);
      wait_for_all(gpu_, c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                   VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    }));
    std::memcpy(bytes.data() + at, staging_->host, n);
  }
  return {};
}

Status Copies::zero(const Piece& piece) {
  const std::lock_guard lock(mutex_);
  return run([&](VkCommandBuffer c) {
    wait_for_all(gpu_, c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
                 VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    gpu_.api.vkCmdFillBuffer(c, piece.buffer, piece.offset, piece.bytes, 0);
    wait_for_all(gpu_, c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                 VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                 VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
  });
}

}  // namespace onepass::vulkan
