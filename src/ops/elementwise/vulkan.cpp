#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/vulkan_row.h"
#include "spirv/elementwise_vulkan_binary.h"
#include "spirv/elementwise_vulkan_cast.h"
#include "spirv/elementwise_vulkan_unary.h"

namespace onepass::ops {
namespace {

constexpr std::uint32_t group_threads = 64;

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_elementwise(device, d, launch));
  const Op first = info(d.op).n_slots == 3 ? Op::add : Op::silu;
  vulkan_values(launch, {type_value(d.format),
                         static_cast<std::uint32_t>(d.op) - static_cast<std::uint32_t>(first)});
  vulkan_cover(device, launch, d.params_as<ElementwiseParams>().n_lo, group_threads);
  return {};
}

Status launch_cast_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_cast(device, d, launch));
  vulkan_values(launch, {type_value(d.format)});
  vulkan_cover(device, launch, d.params_as<CastParams>().n_lo, group_threads);
  return {};
}

#define OP_ROWS(op, launch, words)                               \
  vulkan_row(Op::op, DType::f32, #op "_f32", launch, words),     \
      vulkan_row(Op::op, DType::f16, #op "_f16", launch, words), \
      vulkan_row(Op::op, DType::bf16, #op "_bf16", launch, words)
#define BINARY(op) OP_ROWS(op, launch_vulkan, spirv::elementwise_vulkan_binary)
#define UNARY(op) OP_ROWS(op, launch_vulkan, spirv::elementwise_vulkan_unary)

constexpr KernelRow kernels[] = {
    BINARY(add),          BINARY(mul),
    BINARY(silu_mul),     BINARY(gelu_mul),
    BINARY(gelu_erf_mul), BINARY(sigmoid_mul),
    UNARY(silu),          UNARY(gelu),
    UNARY(gelu_erf),      UNARY(relu2),
    UNARY(sigmoid),       UNARY(softcap),
    UNARY(scale),         OP_ROWS(cast, launch_cast_vulkan, spirv::elementwise_vulkan_cast),
};

}  // namespace

std::span<const KernelRow> elementwise_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
