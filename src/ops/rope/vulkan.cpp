#include <algorithm>

#include "ops/rope/kernels.h"
#include "ops/rope/params.h"
#include "ops/vulkan_row.h"
#include "spirv/rope_vulkan.h"
#include "spirv/rope_vulkan_store.h"

namespace onepass::ops {
namespace {

Status launch_rope_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_rope(device, d, launch));
  const auto p = d.params_as<RopeParams>();
  vulkan_values(launch, {type_value(d.format)});
  vulkan_groups(device, launch, p.rows, 32);
  launch.grid[1] = p.rows >= 64 ? 1 : std::clamp(p.heads, 1u, 64u);
  return {};
}

// As many threads as a norm has: its sums are the same.
Status launch_store_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_rope_store(device, d, launch));
  const auto p = d.params_as<RopeStoreParams>();
  vulkan_values(launch, {type_value(p.k_type), type_value(p.v_type)});
  vulkan_groups(device, launch, p.rows * (std::uint64_t{p.heads} + 2ull * p.kv_heads), 64);
  return {};
}

#define OP_STORE(type)                                                              \
  vulkan_row(Op::rope_store, DType::type, "rope_store_" #type, launch_store_vulkan, \
             spirv::rope_vulkan_store)

constexpr KernelRow kernels[] = {
    vulkan_row(Op::rope, DType::f32, "rope_f32", launch_rope_vulkan, spirv::rope_vulkan),
    vulkan_row(Op::rope, DType::f16, "rope_f16", launch_rope_vulkan, spirv::rope_vulkan),
    vulkan_row(Op::rope, DType::bf16, "rope_bf16", launch_rope_vulkan, spirv::rope_vulkan),
    OP_STORE(f32),
    OP_STORE(f16),
    OP_STORE(q8_0),
};

}  // namespace

std::span<const KernelRow> rope_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
