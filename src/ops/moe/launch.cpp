#include "ops/launch.h"

#include <string>

#include "ops/moe/kernels.h"
#include "ops/moe/params.h"

namespace onepass::ops {

Status launch_moe_gate(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MoeGateParams p = d.params_as<MoeGateParams>();
  const std::uint64_t per_expert = product({p.experts, 4}), out = product({p.tokens, p.used, 4});
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(DType::f32, p.tokens, p.experts), p.has_bias != 0 ? per_expert : 0,
          p.has_expert_scale != 0 ? per_expert : 0, out, out}));
  if (p.experts == 0 || p.experts > max_experts || p.used == 0 || p.used > p.experts) {
    return fail(ErrorCode::invalid_argument,
                "moe_gate: params choose " + std::to_string(p.used) + " of " +
                    std::to_string(p.experts) + " experts, at most " + std::to_string(max_experts),
                d.file, d.line);
  }
  launch.tiles = tiles_for(p.tokens, product({p.experts, p.used}));
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.tokens, p.experts, 20});
  return {};
}

Status launch_moe_reduce(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MoeReduceParams p = d.params_as<MoeReduceParams>();
  const std::uint64_t row = matrix_bytes(DType::f32, p.tokens, p.dim);
  ONEPASS_TRY(
      expect_views(d, {product({p.tokens, p.used, p.dim, 4}), product({p.tokens, p.used, 4}),
                       p.has_residual != 0 ? row : 0, p.has_shared != 0 ? row : 0,
                       p.has_shared_gate != 0 ? product({p.tokens, 4}) : 0, row,
                       p.experts != 0 ? product({p.tokens, p.used, 4}) : 0,
                       matrix_bytes(DType::f32, p.experts, p.dim)}));
  launch.tiles = tiles_for(product({p.tokens, p.dim}), p.used);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.tokens, p.used, p.dim, 2});
  return {};
}

Status launch_gated(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const GatedParams p = d.params_as<GatedParams>();
  const bool quantized = (p.form & form_quantized) != 0;
  const std::uint64_t rows = matrix_bytes(DType::f32, p.rows, p.dim);
  const std::uint64_t bias = matrix_bytes(DType::f32, p.experts, p.dim);
  ONEPASS_TRY(expect_views(d, {rows, rows, p.experts != 0 ? product({p.rows, 4}) : 0, bias, bias,
                               quantized ? matrix_bytes(DType::q8a, p.rows, p.dim) : rows}));
  if (p.activation >= gated_activations || (quantized && p.dim % 32 != 0)) {
    return fail(ErrorCode::invalid_argument,
                "gated: activation " + std::to_string(p.activation) + " of rows of " +
                    std::to_string(p.dim),
                d.file, d.line);
  }
  launch.tiles = tiles_for(product({p.rows, gated_units(p.dim)}), 32);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.dim, 20});
  return {};
}

bool accepts_gated(const DeviceInfo&, const Dispatch& d) {
  const GatedParams p = d.params_as<GatedParams>();
  return (p.form & form_quantized) == 0 || p.dim % 32 == 0;
}

Status launch_gated_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_gated(device, d, launch));
  const GatedParams p = d.params_as<GatedParams>();
  cover(launch, product({p.rows, gated_units(p.dim), 32}), 128);
  return {};
}

Status launch_moe_gate_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_moe_gate(device, d, launch));
  const MoeGateParams p = d.params_as<MoeGateParams>();
  cover(launch, product({p.tokens, 32}), p.tokens == 1 ? 32 : 128);
  return {};
}

Status launch_moe_reduce_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_moe_reduce(device, d, launch));
  const MoeReduceParams p = d.params_as<MoeReduceParams>();
  cover(launch, product({p.tokens, (std::uint64_t{p.dim} + 3) / 4}), 128);
  return {};
}

}  // namespace onepass::ops
