#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"
#include "ops/vulkan_row.h"
#include "spirv/softmax_vulkan.h"

namespace onepass::ops {
namespace {

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_softmax(device, d, launch));
  vulkan_values(launch, {type_value(d.format)});
  vulkan_groups(device, launch, d.params_as<SoftmaxParams>().rows, 64);
  return {};
}

#define OP_ROW(type) \
  vulkan_row(Op::softmax, DType::type, "softmax_" #type, launch_vulkan, spirv::softmax_vulkan)
constexpr KernelRow kernels[] = {OP_ROW(f32), OP_ROW(f16), OP_ROW(bf16)};

}  // namespace

std::span<const KernelRow> softmax_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
