#include <algorithm>
#include <bit>
#include <string>

#include "ops/launch.h"
#include "ops/sample/kernels.h"
#include "ops/sample/params.h"
#include "ops/vulkan_row.h"
#include "spirv/sample_argmax.h"
#include "spirv/sample_argsort.h"
#include "spirv/sample_drawn.h"
#include "spirv/sample_greedy.h"
#include "spirv/sample_top_k.h"
#include "spirv/sample_vulkan_advance.h"

namespace onepass::ops {
namespace {

constexpr std::uint32_t most_sorts = 64;  // rows sorted at the same time

Status sort(const DeviceInfo& device, const Dispatch& d, std::uint32_t rows, std::uint32_t cols,
            std::uint32_t keep, Launch& launch) {
  if (cols > 1u << 24) {
    return fail(ErrorCode::limit,
                std::string(info(d.op).name) + ": rows of " + std::to_string(cols) +
                    " numbers, at most 16777216",
                d.file, d.line);
  }
  const std::uint32_t padded = std::bit_ceil(std::max(cols, 2u));
  vulkan_values(launch, {padded, keep});
  vulkan_groups(device, launch, std::min(rows, most_sorts), 64);
  launch.scratch_bytes = product({launch.grid[0], padded, 8});
  return {};
}

Status launch_argmax_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_argmax(device, d, launch));
  vulkan_values(launch, {});
  vulkan_groups(device, launch, d.params_as<ArgmaxParams>().rows, 64);
  return {};
}

Status launch_argsort_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_argsort(device, d, launch));
  const auto p = d.params_as<ArgmaxParams>();
  return sort(device, d, p.rows, p.cols, p.cols, launch);
}

Status launch_top_k_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_top_k(device, d, launch));
  const auto p = d.params_as<TopKParams>();
  return sort(device, d, p.rows, p.cols, p.k, launch);
}

bool is_greedy(const DeviceInfo&, const Dispatch& d) {
  return d.params_as<SampleParams>().temperature == 0.0f;
}

Status launch_sample_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_sample(device, d, launch));
  const auto p = d.params_as<SampleParams>();
  if (p.temperature != 0.0f) {
    return sort(device, d, p.rows, p.cols, sample_keeps(p.cols, p.top_k, p.temperature), launch);
  }
  vulkan_values(launch, {});
  vulkan_groups(device, launch, p.rows, 64);
  return {};
}

Status launch_advance_vulkan(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_step_advance(device, d, launch));
  vulkan_values(launch, {});
  vulkan_groups(device, launch, 1, 1);
  return {};
}

constexpr KernelRow greedy_row() noexcept {
  KernelRow row = vulkan_row(Op::sample, DType::f32, "sample_greedy_f32", launch_sample_vulkan,
                             spirv::sample_greedy);
  row.accepts = is_greedy;
  return row;
}

constexpr KernelRow kernels[] = {
    vulkan_row(Op::argmax, DType::f32, "argmax_f32", launch_argmax_vulkan, spirv::sample_argmax),
    vulkan_row(Op::argsort, DType::f32, "argsort_f32", launch_argsort_vulkan,
               spirv::sample_argsort),
    vulkan_row(Op::top_k, DType::f32, "top_k_f32", launch_top_k_vulkan, spirv::sample_top_k),
    greedy_row(),
    vulkan_row(Op::sample, DType::f32, "sample_f32", launch_sample_vulkan, spirv::sample_drawn),
    vulkan_row(Op::step_advance, DType::u32, "step_advance", launch_advance_vulkan,
               spirv::sample_vulkan_advance),
};

}  // namespace

std::span<const KernelRow> sample_vulkan_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
