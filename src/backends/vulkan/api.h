// The Vulkan loader, found at run time, and what every file of the backend needs of it.
#pragma once

#include <volk.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onepass/backends/vulkan.h"
#include "onepass/result.h"

namespace onepass::vulkan {

const char* result_name(VkResult result) noexcept;
ErrorCode error_code(VkResult result, ErrorCode otherwise) noexcept;
Status check(VkResult result, const char* call, ErrorCode otherwise);

// A VkInstance with its loader functions; destroyed last.
class Instance {
 public:
  // not_found: "vulkan: no loader". Without validation no layer of ours is asked for.
  static Result<std::unique_ptr<Instance>> create(const VulkanOptions& options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  VkInstance handle() const noexcept { return handle_; }
  // Those with a queue for kernels: discrete cards first, then integrated and virtual ones,
  // software last.
  Result<std::vector<VkPhysicalDevice>> devices() const;

 private:
  Instance() = default;
  Status listen(const VulkanOptions& options);

  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::function<void(std::string_view)> on_message_;
};

struct DeviceText {
  std::string name;         // as the driver says it
  std::string description;  // with driver and kind
  bool is_software = false;
};
DeviceText describe(VkPhysicalDevice device);

// A device with its functions and one queue. Everything of the backend refers to it.
struct Gpu {
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memory{};
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  std::uint32_t timestamp_bits = 0;
  VolkDeviceTable api{};

  // Bindings begin at multiples of it; 4 to 256.
  std::uint32_t view_alignment() const noexcept {
    const VkDeviceSize asked = properties.limits.minStorageBufferOffsetAlignment;
    return asked < 4 ? 4 : static_cast<std::uint32_t>(asked);
  }
  // A queue family that runs kernels, one that draws nothing where there is one; ~0: none.
  static std::uint32_t compute_family(VkPhysicalDevice device);
  Status open(VkPhysicalDevice which);
  ~Gpu();
};

}  // namespace onepass::vulkan
