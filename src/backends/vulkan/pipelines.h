// Compiled kernels of a device.
//
// What a kernel finds (docs/adr/0020-vulkan-rows.md): view i at binding i + 1 of set 0, scratch and
// persistent memory at binding 17 and 18; 128 bytes of push constants, the op's parameters and from
// byte 112 a byte per view, how far into its binding the view begins; specialization constants 0 to
// 2, the threads of a group, 3, which views are bound, one bit each, and from 4 on the values of
// the launch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "backends/vulkan/api.h"
#include "core/backend.h"

namespace onepass::vulkan {

inline constexpr std::uint32_t scratch_binding = 17, persistent_binding = 18;
inline constexpr std::size_t push_bytes = 128, residues_at = 112;
inline constexpr std::size_t n_constants = 4 + max_spec_values;

// Which bindings a kernel has: bit b for binding b.
std::uint32_t bindings_of(const RecordedLaunch& l) noexcept;

struct Layout {
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
  std::uint32_t bindings = 0;
};

// Thread-safe; what it hands out lives as long as it does.
class Pipelines {
 public:
  explicit Pipelines(const Gpu& gpu) : gpu_(gpu) {}
  ~Pipelines();

  struct Kernel {
    VkPipeline pipeline = VK_NULL_HANDLE;
    const Layout* layout = nullptr;
  };
  Status open();
  Result<Kernel> get(const RecordedLaunch& l);

 private:
  struct Key {
    const std::uint32_t* words = nullptr;
    std::uint32_t bindings = 0;
    std::array<std::uint32_t, n_constants> constants{};
    bool operator<(const Key& b) const noexcept {
      return std::tie(words, bindings, constants) < std::tie(b.words, b.bindings, b.constants);
    }
  };
  Result<const Layout*> layout_of(std::uint32_t bindings);
  Result<VkShaderModule> module_of(const SpirvModule& code);
  Result<VkPipeline> compile(const RecordedLaunch& l, const SpirvModule& code, const Key& key,
                             const Layout& layout);

  const Gpu& gpu_;
  std::mutex mutex_;  // guards the rest
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::map<std::uint32_t, Layout> layouts_;
  std::map<const std::uint32_t*, VkShaderModule> modules_;
  std::map<Key, VkPipeline> pipelines_;
};

}  // namespace onepass::vulkan
