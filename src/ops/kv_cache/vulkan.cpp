#include <algorithm>

#include "ops/kv_cache/kernels.h"
#include "ops/kv_cache/params.h"
#include "ops/shared/cache.h"
#include "ops/vulkan_row.h"
#include "spirv/kv_cache_vulkan_copy.h"
#include "spirv/kv_cache_vulkan_store.h"

namespace onepass::ops {
namespace {

Status launch_store_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_kv_store(device, d, launch));
  const auto p = d.params_as<KvStoreParams>();
  vulkan_values(launch, {type_value(d.format)});
  vulkan_groups(device, launch, std::uint64_t{p.rows} * p.kv_heads, 32);
  return {};
}

Status launch_copy_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_kv_copy(device, d, launch));
  const auto p = d.params_as<KvCopyParams>();
  const auto row = static_cast<std::uint32_t>(cache_row_bytes(d.format.type, p.head_dim));
  const std::uint64_t places = d.views[0].offset | d.views[1].offset | row;
  const std::uint32_t unit = places % 4 == 0 ? 4 : 2;
  vulkan_values(launch, {row, unit});
  vulkan_cover(device, launch, std::uint64_t{p.positions} * row / unit, 64);
  launch.grid[1] = std::clamp(p.kv_heads, 1u, 65535u);
  return {};
}

#define OP_ROWS(op, launch, words)                               \
  vulkan_row(Op::op, DType::f32, #op "_f32", launch, words),     \
      vulkan_row(Op::op, DType::f16, #op "_f16", launch, words), \
      vulkan_row(Op::op, DType::q8_0, #op "_q8_0", launch, words)

constexpr KernelRow kernels[] = {
    OP_ROWS(kv_store, launch_store_vulkan, spirv::kv_cache_vulkan_store),
    OP_ROWS(kv_copy, launch_copy_vulkan, spirv::kv_cache_vulkan_copy),
};

}  // namespace

std::span<const KernelRow> kv_cache_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
