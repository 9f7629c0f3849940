// Options that only the Vulkan backend understands.
//
//   const onepass::DeviceOptions options{.backend = {onepass::VulkanOptions{.validate = true}}};
//   const onepass::Result<onepass::Device> device = onepass::Device::open("vulkan:0", options);
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace onepass {

struct VulkanOptions {
  // Loads VK_LAYER_KHRONOS_validation with synchronization validation, also of what follows each
  // other on the queue. unsupported where it is not installed.
  bool validate = false;
  // Told of what the layer finds, from any thread, inside record and submit.
  std::function<void(std::string_view message)> on_message = nullptr;
  // A command buffer for each launch, all in one submission: the layer finds hazards there that it
  // does not look for inside one command buffer.
  bool split_launches = false;
  // How many threads launches are to take for one subgroup; 0: as many as the device says. No
  // kernel relies on it.
  std::uint32_t subgroup_size = 0;
  bool staged_memory = false;  // the host copies through staging memory even where it needs not
};

}  // namespace onepass
