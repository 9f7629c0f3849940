#include <algorithm>

#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/vulkan_row.h"
#include "spirv/norm_l2.h"
#include "spirv/norm_layer.h"
#include "spirv/norm_rms.h"

namespace onepass::ops {
namespace {

// The parameters of every op of the family begin alike, but for the form.
Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_norm(device, d, launch));
  const std::uint32_t rows =
      d.op == Op::rms_norm ? d.params_as<RmsNormParams>().rows : d.params_as<L2NormParams>().rows;
  vulkan_values(launch, {type_value(d.format)});
  vulkan_groups(device, launch, rows, 64);
  return {};
}

constexpr KernelRow rms_row(Format format, const char* name) noexcept {
  KernelRow row = vulkan_row(Op::rms_norm, format, name, launch_vulkan, spirv::norm_rms);
  row.forms = norm_forms & ~form_quantized;
  row.accepts = accepts_norm;
  return row;
}
#define OP_ROWS(op, words)                                              \
  vulkan_row(Op::op, DType::f32, #op "_f32", launch_vulkan, words),     \
      vulkan_row(Op::op, DType::f16, #op "_f16", launch_vulkan, words), \
      vulkan_row(Op::op, DType::bf16, #op "_bf16", launch_vulkan, words)

constexpr KernelRow kernels[] = {
    rms_row(DType::f32, "rms_norm_f32"),    rms_row(DType::f16, "rms_norm_f16"),
    rms_row(DType::bf16, "rms_norm_bf16"),  OP_ROWS(l2_norm, spirv::norm_l2),
    OP_ROWS(layer_norm, spirv::norm_layer),
};

}  // namespace

std::span<const KernelRow> norm_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
