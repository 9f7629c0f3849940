#include <array>

#include "backends/vulkan/vulkan.h"
#include "ops/attention/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embed/kernels.h"
#include "ops/kv_cache/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/moe/kernels.h"
#include "ops/move/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/softmax/kernels.h"

namespace onepass::vulkan {

std::span<const KernelList> kernel_lists() noexcept {
  static const std::array<KernelList, 12> lists{
      ops::attention_vulkan_kernels(), ops::elementwise_vulkan_kernels(),
      ops::embed_vulkan_kernels(),     ops::kv_cache_vulkan_kernels(),
      ops::matmul_vulkan_kernels(),    ops::moe_vulkan_kernels(),
      ops::move_vulkan_kernels(),      ops::norm_vulkan_kernels(),
      ops::quantize_vulkan_kernels(),  ops::rope_vulkan_kernels(),
      ops::sample_vulkan_kernels(),    ops::softmax_vulkan_kernels(),
  };
  return lists;
}

}  // namespace onepass::vulkan
