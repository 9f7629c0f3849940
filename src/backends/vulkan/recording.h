// From a Recording to command buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipelines.h"
#include "core/backend.h"

namespace onepass::vulkan {

// Launches of a level follow each other without a barrier; one global memory barrier stands before
// every level but the first.
class CommandPass final : public Recorded {
 public:
  static Result<std::unique_ptr<CommandPass>> create(const Gpu& gpu, Pipelines& pipelines,
                                                     const Recording& recording, const Order& order,
                                                     const VulkanOptions& options);
  ~CommandPass() override;

  std::span<const VkCommandBuffer> buffers() const noexcept { return buffers_; }
  const BoundView& step() const noexcept { return step_; }
  bool timed() const noexcept { return timed_; }
  std::span<const TimeSpan> spans() const noexcept { return spans_; }
  // Takes over the times of the last submission, which is done.
  void read_spans() noexcept;

 private:
  explicit CommandPass(const Gpu& gpu) : gpu_(gpu) {}
  Status build(Pipelines& pipelines, const Recording& recording, const Order& order,
               const VulkanOptions& options);
  Status make_pools(const Recording& recording, std::size_t n_buffers);
  Status begin_buffer();
  Status end_buffer();
  Result<VkDescriptorSet> bind(const Layout& layout, const RecordedLaunch& l);
  Status add(Pipelines& pipelines, const RecordedLaunch& l, std::uint32_t index);
  void add_barrier();

  const Gpu& gpu_;
  VkCommandPool commands_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;  // two per launch, where they are timed
  std::vector<VkCommandBuffer> buffers_;
  std::size_t open_ = 0;  // of buffers_: the one being filled
  BoundView step_;
  bool timed_ = false;
  std::vector<TimeSpan> spans_;
  std::vector<bool> ran_;  // launch i has times
};

inline const Piece& piece_of(const Allocation& memory) noexcept {
  return *reinterpret_cast<const Piece*>(memory.handle);
}
// Where a view begins in its buffer.
inline VkDeviceSize place_of(const BoundView& view) noexcept {
  return piece_of(view.memory).offset + view.offset;
}

std::uint64_t ticks_to_ns(const Gpu& gpu, std::uint64_t ticks) noexcept;

}  // namespace onepass::vulkan
