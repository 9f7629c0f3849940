// Copies between the host and memory that it does not see.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>

#include "backends/vulkan/memory.h"

namespace onepass::vulkan {

// One at a time, each done when it returns. Nothing else is submitted while they run.
class Copies {
 public:
  Copies(const Gpu& gpu, Memory& memory, std::mutex& queue_mutex)
      : gpu_(gpu), memory_(memory), queue_mutex_(queue_mutex) {}
  ~Copies();
  Status open();

  Status write(const Piece& to, VkDeviceSize offset, std::span<const std::byte> bytes);
  Status read(const Piece& from, VkDeviceSize offset, std::span<std::byte> bytes);
  Status zero(const Piece& piece);

 private:
  // Records with `fill(command buffer)`, submits and waits.
  template <class Fill>
  Status run(Fill fill);

  const Gpu& gpu_;
  Memory& memory_;
  std::mutex& queue_mutex_;
  std::mutex mutex_;  // guards the rest
  Piece* staging_ = nullptr;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence done_ = VK_NULL_HANDLE;
};

}  // namespace onepass::vulkan
