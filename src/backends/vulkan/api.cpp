#include "backends/vulkan/api.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string_view>

namespace onepass::vulkan {
namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

// Loads libvulkan once per process.
VkResult load() {
  static std::once_flag once;
  static VkResult result = VK_ERROR_INITIALIZATION_FAILED;
  std::call_once(once, [] { result = volkInitialize(); });
  return result;
}

bool has_extension(const char* layer, std::string_view name) {
  std::uint32_t n = 0;
  if (vkEnumerateInstanceExtensionProperties(layer, &n, nullptr) != VK_SUCCESS) return false;
  std::vector<VkExtensionProperties> all(n);
  if (vkEnumerateInstanceExtensionProperties(layer, &n, all.data()) < VK_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& e) { return name == e.extensionName; });
}

bool has_layer(std::string_view name) {
  std::uint32_t n = 0;
  if (vkEnumerateInstanceLayerProperties(&n, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> all(n);
  if (vkEnumerateInstanceLayerProperties(&n, all.data()) < VK_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(), [&](const auto& l) { return name == l.layerName; });
}

VKAPI_ATTR VkBool32 VKAPI_CALL tell(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                    VkDebugUtilsMessageTypeFlagsEXT,
                                    const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  const auto& told = *static_cast<const std::function<void(std::string_view)>*>(user);
  if (told && data->pMessage != nullptr) told(data->pMessage);
  return VK_FALSE;
}

int rank(VkPhysicalDevice device) {
  VkPhysicalDeviceProperties p{};
  vkGetPhysicalDeviceProperties(device, &p);
  switch (p.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 3;
    default:
      return 2;
  }
}

}  // namespace

const char* result_name(VkResult result) noexcept {
  switch (result) {
#define ONEPASS_NAME(code) \
  case code:               \
    return #code;
    ONEPASS_NAME(VK_SUCCESS)
    ONEPASS_NAME(VK_NOT_READY)
    ONEPASS_NAME(VK_TIMEOUT)
    ONEPASS_NAME(VK_INCOMPLETE)
    ONEPASS_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    ONEPASS_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    ONEPASS_NAME(VK_ERROR_INITIALIZATION_FAILED)
    ONEPASS_NAME(VK_ERROR_DEVICE_LOST)
    ONEPASS_NAME(VK_ERROR_MEMORY_MAP_FAILED)
    ONEPASS_NAME(VK_ERROR_LAYER_NOT_PRESENT)
    ONEPASS_NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
    ONEPASS_NAME(VK_ERROR_FEATURE_NOT_PRESENT)
    ONEPASS_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    ONEPASS_NAME(VK_ERROR_TOO_MANY_OBJECTS)
    ONEPASS_NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
    ONEPASS_NAME(VK_ERROR_FRAGMENTED_POOL)
    ONEPASS_NAME(VK_ERROR_FRAGMENTATION)
#undef ONEPASS_NAME
    default:
      return "an unknown error";
  }
}

ErrorCode error_code(VkResult result, ErrorCode otherwise) noexcept {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_FRAGMENTATION:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return ErrorCode::out_of_memory;
    case VK_ERROR_DEVICE_LOST:
      return ErrorCode::device_lost;
    default:
      return otherwise;
  }
}

Status check(VkResult result, const char* call, ErrorCode otherwise) {
  if (result == VK_SUCCESS) return {};
  return fail(error_code(result, otherwise),
              std::string("vulkan: ") + call + ": " + result_name(result));
}

Result<std::unique_ptr<Instance>> Instance::create(const VulkanOptions& options) {
  if (load() != VK_SUCCESS) return fail(ErrorCode::not_found, "vulkan: no loader");
  if (options.validate && !has_layer(validation_layer)) {
    return fail(ErrorCode::unsupported,
                std::string("vulkan: ") + validation_layer + " is not installed");
  }
  std::unique_ptr<Instance> made(new Instance);
  std::vector<const char*> extensions, layers;
  VkInstanceCreateFlags flags = 0;
  if (has_extension(nullptr, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  const VkValidationFeatureEnableEXT enables[] = {
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  VkValidationFeaturesEXT features{};
  features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = enables;
  if (options.validate) {
    layers.push_back(validation_layer);
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (has_extension(validation_layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
      extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    }
  }
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pEngineName = "onepass";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pNext = options.validate ? &features : nullptr;
  info.flags = flags;
  info.pApplicationInfo = &application;
  info.enabledLayerCount = static_cast<std::uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  ONEPASS_TRY(check(vkCreateInstance(&info, nullptr, &made->handle_), "vkCreateInstance",
                    ErrorCode::not_found));
  volkLoadInstanceOnly(made->handle_);
  if (options.validate) ONEPASS_TRY(made->listen(options));
  return made;
}

Status Instance::listen(const VulkanOptions& options) {
  on_message_ = options.on_message;
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = tell;
  info.pUserData = &on_message_;
  return check(vkCreateDebugUtilsMessengerEXT(handle_, &info, nullptr, &messenger_),
               "vkCreateDebugUtilsMessengerEXT", ErrorCode::unsupported);
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (handle_ != VK_NULL_HANDLE) vkDestroyInstance(handle_, nullptr);
}

Result<std::vector<VkPhysicalDevice>> Instance::devices() const {
  std::uint32_t n = 0;
  ONEPASS_TRY(check(vkEnumeratePhysicalDevices(handle_, &n, nullptr), "vkEnumeratePhysicalDevices",
                    ErrorCode::not_found));
  std::vector<VkPhysicalDevice> all(n);
  if (n != 0) {
    ONEPASS_TRY(check(vkEnumeratePhysicalDevices(handle_, &n, all.data()),
                      "vkEnumeratePhysicalDevices", ErrorCode::not_found));
  }
  all.resize(n);
  std::erase_if(all, [](VkPhysicalDevice d) {
    VkPhysicalDeviceProperties p{};
    vkGetPhysicalDeviceProperties(d, &p);
    return p.apiVersion < VK_API_VERSION_1_1 || Gpu::compute_family(d) == ~0u;
  });
  std::stable_sort(all.begin(), all.end(),
                   [](VkPhysicalDevice a, VkPhysicalDevice b) { return rank(a) < rank(b); });
  return all;
}

DeviceText describe(VkPhysicalDevice device) {
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceIDProperties ids{};
  ids.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
  ids.pNext = &driver;
  VkPhysicalDeviceProperties2 p{};
  p.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  p.pNext = &ids;
  vkGetPhysicalDeviceProperties2(device, &p);
  DeviceText text;
  text.name = p.properties.deviceName;
  text.is_software = p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  text.description = text.name;
  if (driver.driverName[0] != '\0') {
    text.description += std::string(", driver ") + driver.driverName;
    if (driver.driverInfo[0] != '\0') text.description += std::string(" ") + driver.driverInfo;
  }
  if (text.is_software) text.description += ", software";
  return text;
}

std::uint32_t Gpu::compute_family(VkPhysicalDevice device) {
  std::uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(device, &n, families.data());
  std::uint32_t found = ~0u;
  for (std::uint32_t i = 0; i < n; ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if ((flags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    if ((flags & VK_QUEUE_GRAPHICS_BIT) == 0) return i;
    if (found == ~0u) found = i;
  }
  return found;
}

Status Gpu::open(VkPhysicalDevice which) {
  physical = which;
  vkGetPhysicalDeviceProperties(physical, &properties);
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  family = compute_family(physical);
  std::uint32_t n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
  timestamp_bits = families[family].timestampValidBits;

  // Drivers over another API, such as MoltenVK, want to be asked for what they are.
  std::vector<const char*> extensions;
  std::uint32_t n_extensions = 0;
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &n_extensions, nullptr);
  std::vector<VkExtensionProperties> offered(n_extensions);
  vkEnumerateDeviceExtensionProperties(physical, nullptr, &n_extensions, offered.data());
  constexpr const char* portability = "VK_KHR_portability_subset";
  for (const VkExtensionProperties& e : offered) {
    if (std::strcmp(e.extensionName, portability) == 0) extensions.push_back(portability);
  }
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue_info{};
  queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info.queueFamilyIndex = family;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  ONEPASS_TRY(check(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice",
                    ErrorCode::not_found));
  volkLoadDeviceTable(&api, device);
  api.vkGetDeviceQueue(device, family, 0, &queue);
  return {};
}

Gpu::~Gpu() {
  if (device != VK_NULL_HANDLE) api.vkDestroyDevice(device, nullptr);
}

}  // namespace onepass::vulkan
