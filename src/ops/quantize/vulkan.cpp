#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/vulkan_row.h"
#include "spirv/quantize_vulkan.h"

namespace onepass::ops {
namespace {

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_dequantize(device, d, launch));
  const auto p = d.params_as<QuantizeParams>();
  const FormatInfo& format = info(d.format);
  vulkan_values(launch, {type_value(d.format), format.block_elements, format.block_bytes});
  vulkan_cover(device, launch, std::uint64_t{p.rows} * p.cols / 32, 32);
  return {};
}

#define OP_ROW(format)                                                                     \
  vulkan_row(Op::dequantize, formats::format, "dequantize_" #format "_f32", launch_vulkan, \
             spirv::quantize_vulkan),
constexpr KernelRow kernels[] = {
#define VULKAN_FORMAT(name, number)
#define VULKAN_BLOCK(name, number) OP_ROW(name)
#include "ops/shared/vulkan_formats.def"
};

}  // namespace

std::span<const KernelRow> quantize_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
