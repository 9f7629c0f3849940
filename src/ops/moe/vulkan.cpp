#include "ops/moe/kernels.h"
#include "ops/moe/params.h"
#include "ops/vulkan_row.h"
#include "spirv/moe_vulkan_gate.h"
#include "spirv/moe_vulkan_gated.h"
#include "spirv/moe_vulkan_reduce.h"

namespace onepass::ops {
namespace {

static_assert(max_experts <= 1024);  // what vulkan_gate.comp has room for

Status launch_gate_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_moe_gate(device, d, launch));
  vulkan_values(launch, {});
  vulkan_groups(device, launch, d.params_as<MoeGateParams>().tokens, 32);
  return {};
}

Status launch_reduce_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_moe_reduce(device, d, launch));
  const auto p = d.params_as<MoeReduceParams>();
  vulkan_values(launch, {});
  vulkan_cover(device, launch, std::uint64_t{p.tokens} * p.dim, 64);
  return {};
}

Status launch_gated_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_gated(device, d, launch));
  const auto p = d.params_as<GatedParams>();
  vulkan_values(launch, {});
  vulkan_cover(device, launch, std::uint64_t{p.rows} * p.dim, 64);
  return {};
}

constexpr KernelRow kernels[] = {
    vulkan_row(Op::gated, DType::f32, "gated_f32", launch_gated_vulkan, spirv::moe_vulkan_gated),
    vulkan_row(Op::moe_gate, DType::f32, "moe_gate_f32", launch_gate_vulkan,
               spirv::moe_vulkan_gate),
    vulkan_row(Op::moe_reduce, DType::f32, "moe_reduce_f32", launch_reduce_vulkan,
               spirv::moe_vulkan_reduce),
};

}  // namespace

std::span<const KernelRow> moe_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
