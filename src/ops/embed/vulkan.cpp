#include "ops/embed/kernels.h"
#include "ops/embed/params.h"
#include "ops/vulkan_row.h"
#include "spirv/embed_affine.h"
#include "spirv/embed_plain.h"

namespace onepass::ops {
namespace {

Status launch_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  if (d.op == Op::embed) {
    ONEPASS_TRY(launch_embed(device, d, launch));
  } else {
    ONEPASS_TRY(launch_embed_affine(device, d, launch));
  }
  const FormatInfo& format = info(d.format);
  vulkan_values(launch, {type_value(d.format), format.block_elements, format.block_bytes});
  vulkan_groups(device, launch, d.params_as<EmbedParams>().rows, 32);
  return {};
}

constexpr KernelRow row(Op op, Format format, const char* name,
                        std::span<const std::uint32_t> words) {
  KernelRow r = vulkan_row(op, format, name, launch_vulkan, words);
  r.lower = op == Op::embed ? lower_embed : lower_embed_affine;
  return r;
}

#define PLAIN(format) row(Op::embed, formats::format, "embed_" #format "_f32", spirv::embed_plain),
#define AFFINE(format) \
  row(Op::embed_affine, formats::format, "embed_affine_" #format, spirv::embed_affine),

constexpr KernelRow kernels[] = {
#define VULKAN_FORMAT(name, number) PLAIN(name)
#include "ops/shared/vulkan_formats.def"
    AFFINE(f32) AFFINE(f16) AFFINE(bf16)};

}  // namespace

std::span<const KernelRow> embed_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
