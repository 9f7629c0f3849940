#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/vulkan_row.h"
#include "spirv/elementwise_vulkan_binary.h"
#include "spirv/elementwise_vulkan_cast.h"
#include "spirv/elementwise_vulkan_unary.h"

namespace onepass::ops {
namespace {

constexpr std::uint32_t group_threads = 64;

// function: as the kernel counts them.
template <std::uint32_t function>
Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_elementwise(device, d, launch));
  vulkan_values(launch, {type_value(d.format), function});
  vulkan_cover(device, launch, d.params_as<ElementwiseParams>().n_lo, group_threads);
  return {};
}

Status launch_cast_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_cast(device, d, launch));
  const auto p = d.params_as<CastParams>();
  vulkan_values(launch, {type_value(d.format), type_value(p.to)});
  vulkan_cover(device, launch, p.n_lo, group_threads);
  return {};
}

#define OP_ROWS(op, launch, words)                               \
  vulkan_row(Op::op, DType::f32, #op "_f32", launch, words),     \
      vulkan_row(Op::op, DType::f16, #op "_f16", launch, words), \
      vulkan_row(Op::op, DType::bf16, #op "_bf16", launch, words)
#define BINARY(op, function) OP_ROWS(op, launch_vulkan<function>, spirv::elementwise_vulkan_binary)
#define UNARY(op, function) OP_ROWS(op, launch_vulkan<function>, spirv::elementwise_vulkan_unary)

constexpr KernelRow kernels[] = {
    BINARY(add, 0),          BINARY(mul, 1),
    BINARY(silu_mul, 2),     BINARY(gelu_mul, 3),
    BINARY(gelu_erf_mul, 4), BINARY(sigmoid_mul, 5),
    UNARY(silu, 0),          UNARY(gelu, 1),
    UNARY(gelu_erf, 2),      UNARY(relu2, 3),
    UNARY(sigmoid, 4),       UNARY(softcap, 5),
    UNARY(scale, 6),         OP_ROWS(cast, launch_cast_vulkan, spirv::elementwise_vulkan_cast),
};

}  // namespace

std::span<const KernelRow> elementwise_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
