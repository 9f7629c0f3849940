#include "ops/attention/kernels.h"
#include "ops/attention/params.h"
#include "ops/vulkan_row.h"
#include "spirv/attention_vulkan.h"

namespace onepass::ops {
namespace {

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_attention(device, d, launch));
  const auto p = d.params_as<AttentionParams>();
  vulkan_values(launch, {type_value(d.format), type_value(p.v_type)});
  vulkan_groups(device, launch, std::uint64_t{p.rows} * p.heads, 64);
  return {};
}

#define OP_ROW(type)                                                               \
  vulkan_row(Op::attention, DType::type, "attention_" #type "_f32", launch_vulkan, \
             spirv::attention_vulkan)
constexpr KernelRow kernels[] = {OP_ROW(f32), OP_ROW(f16), OP_ROW(q8_0)};

}  // namespace

std::span<const KernelRow> attention_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
