#include <initializer_list>

#include "ops/move/kernels.h"
#include "ops/move/params.h"
#include "ops/vulkan_row.h"
#include "spirv/move_columns.h"
#include "spirv/move_concat.h"
#include "spirv/move_copy.h"
#include "spirv/move_gather.h"
#include "spirv/move_transpose.h"

namespace onepass::ops {
namespace {

// Units for `bytes` to move, where the sizes are multiples of them and so are the views' places.
void set_units(const DeviceInfo& device, const Dispatch& d, std::uint64_t bytes,
               std::initializer_list<std::uint32_t> sizes, Launch& launch) {
  std::uint64_t all = 0;
  for (const std::uint32_t size : sizes) all |= size;
  for (std::size_t i = 0; i < d.n_views; ++i) all |= d.views[i].offset;
  const std::uint32_t unit = all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
  vulkan_values(launch, {unit});
  vulkan_cover(device, launch, bytes / unit, 64);
}

Status launch_copy_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_copy(device, d, launch));
  const auto p = d.params_as<CopyParams>();
  set_units(device, d, p.bytes_lo, {p.bytes_lo}, launch);
  return {};
}

Status launch_gather_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_gather(device, d, launch));
  const auto p = d.params_as<GatherParams>();
  set_units(device, d, std::uint64_t{p.rows} * p.row_bytes, {p.row_bytes}, launch);
  return {};
}

Status launch_transpose_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_transpose(device, d, launch));
  const auto p = d.params_as<TransposeParams>();
  set_units(device, d, std::uint64_t{p.batch} * p.rows * p.cols * p.unit, {p.unit}, launch);
  return {};
}

Status launch_columns_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_columns(device, d, launch));
  const auto p = d.params_as<ColumnsParams>();
  set_units(device, d, std::uint64_t{p.rows} * p.bytes,
            {p.from, p.from_stride, p.to, p.to_stride, p.bytes}, launch);
  return {};
}

Status launch_concat_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_concat(device, d, launch));
  const auto p = d.params_as<ConcatParams>();
  set_units(device, d, p.rows * (std::uint64_t{p.a_bytes} + p.b_bytes), {p.a_bytes, p.b_bytes},
            launch);
  return {};
}

#define OP_ROW(op, type, words) \
  vulkan_row(Op::op, formats::type, #op "_" #type, launch_##words##_vulkan, spirv::move_##words)
#define OP_ROWS(op, words)                                                                        \
  OP_ROW(op, f32, words), OP_ROW(op, f16, words), OP_ROW(op, bf16, words), OP_ROW(op, u8, words), \
      OP_ROW(op, u16, words), OP_ROW(op, u32, words), OP_ROW(op, i32, words)

constexpr KernelRow gather_row(Format format, const char* name) noexcept {
  KernelRow row = vulkan_row(Op::gather, format, name, launch_gather_vulkan, spirv::move_gather);
  row.lower = lower_gather;
  return row;
}

constexpr KernelRow kernels[] = {
#define FORMAT(name, ggml_id, elements, bytes) \
  OP_ROW(copy, name, copy), gather_row(formats::name, "gather_" #name),
#define LAYOUT(type, layout, elements, bytes, Form) OP_ROW(copy, type##_##layout, copy),
#include "onepass/tables/formats.def"
    OP_ROWS(transpose, transpose),
    OP_ROWS(slice, columns),
    OP_ROWS(put, columns),
    OP_ROWS(concat, concat),
};

}  // namespace

std::span<const KernelRow> move_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
