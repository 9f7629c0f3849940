#include <algorithm>

#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/vulkan_row.h"
#include "spirv/matmul_affine.h"
#include "spirv/matmul_id.h"
#include "spirv/matmul_plain.h"

namespace onepass::ops {
namespace {

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  std::uint32_t columns = 4;
  if (d.op == Op::matmul_affine) {
    ONEPASS_TRY(launch_matmul_affine(device, d, launch));
  } else if (d.op == Op::matmul_id) {
    ONEPASS_TRY(launch_matmul_id(device, d, launch));
    columns = 1;
  } else {
    ONEPASS_TRY(launch_matmul(device, d, launch));
  }
  const auto p = d.params_as<MatmulParams>();  // the others' begin with it
  const FormatInfo& format = info(d.format);
  // Software drivers have subgroups of a few threads; what waits costs much there.
  const bool alone = device.subgroup_sizes.front() <= 8;
  vulkan_values(launch,
                {type_value(d.format), format.block_elements, format.block_bytes, alone ? 1u : 0u});
  // As many threads as run together, but no more than there is work for.
  const std::uint32_t together = std::clamp(device.subgroup_sizes.front(), 8u, 64u);
  if (alone) {
    vulkan_cover(device, launch, p.n0, 8);
  } else {
    vulkan_groups(device, launch, p.n0, together);
  }
  launch.grid[1] = std::clamp(p.m / columns + (p.m % columns != 0 ? 1 : 0), 1u, 65535u);
  return {};
}

constexpr KernelRow row(Op op, Format format, const char* name,
                        std::span<const std::uint32_t> words) {
  KernelRow r = vulkan_row(op, format, name, launch_vulkan, words);
  r.lower = matmul_lower(op);
  if (op == Op::matmul) r.forms = form_bias | form_residual;
  return r;
}

#define AFFINE(format) \
  row(Op::matmul_affine, formats::format, "matmul_affine_" #format "_f32", spirv::matmul_affine),
#define FORMAT_ROWS(format)                                                        \
  row(Op::matmul, formats::format, "matmul_" #format "_f32", spirv::matmul_plain), \
      row(Op::matmul_id, formats::format, "matmul_id_" #format "_f32", spirv::matmul_id),

constexpr KernelRow kernels[] = {
#define VULKAN_FORMAT(name, number) FORMAT_ROWS(name)
#include "ops/shared/vulkan_formats.def"
    AFFINE(f32) AFFINE(f16) AFFINE(bf16)};

}  // namespace

std::span<const KernelRow> matmul_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
