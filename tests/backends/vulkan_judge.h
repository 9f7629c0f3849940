// Khronos validation as a judge of orders: records a pass again with an order of the test's own and
// counts what the layer reports.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/vulkan/vulkan.h"
#include "core/device_state.h"
#include "onepass/backends/vulkan.h"

namespace onepass::test {

// A validated device of one recording form.
class Judge {
 public:
  // Null where there is no loader, device or layer.
  static std::unique_ptr<Judge> open(bool split) {
    // Of the layer: it looks at the queue only when told so, which no structure can do.
    setenv("VK_LAYER_ENABLES", "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT",
           1);
    std::unique_ptr<Judge> judge(new Judge);
    VulkanOptions own{.validate = true, .split_launches = split};
    own.on_message = [j = judge.get()](std::string_view text) { j->hear(text); };
    DeviceOptions options{.backend = {own}};
    auto backend = open_vulkan(0, options);
    if (!backend) return nullptr;
    judge->device_ = std::make_unique<Device>(*DeviceState::create(std::move(*backend), options));
    return judge;
  }

  const Device& device() const { return *device_; }
  std::size_t messages() const { return messages_; }
  std::string first_message() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

  // How many messages there are when the pass runs in this order.
  std::size_t run(const RecordedPass& pass, const Order& order) {
    const std::size_t before = messages_;
    Backend& backend = device_->state().backend();
    auto recorded = backend.record(pass.recording, order);
    EXPECT_TRUE(recorded) << recorded.error().to_string();
    if (!recorded) return 0;
    Completion done;
    EXPECT_TRUE(backend.submit(**recorded, {}, done));
    backend.wait(done);
    EXPECT_FALSE(done.failed) << done.text;
    return messages_ - before;
  }

 private:
  Judge() = default;
  void hear(std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (messages_++ == 0) first_ = text;
  }

  mutable std::mutex mutex_;
  std::string first_;
  std::atomic<std::size_t> messages_{0};
  std::unique_ptr<Device> device_;
};

// The order with levels k - 1 and k as one: the barrier between them is gone.
inline Order without_barrier(Order order, std::uint32_t k) {
  order.level_offsets.erase(order.level_offsets.begin() + k);
  return order;
}

}  // namespace onepass::test
