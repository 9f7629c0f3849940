#include "ops/norm/fusions.h"

#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/norm/params.h"
#include "ops/quantize/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

bool has_elements(const ElementwiseParams& p, const RmsNormParams& norm) {
  return p.b_elements == 0 && join(p.n_lo, p.n_hi) == product({norm.rows, norm.dim});
}

// A quantize of exactly the norm's rows.
bool same_rows(const Dispatch& quantize, const RmsNormParams& norm) {
  const auto q = quantize.params_as<QuantizeParams>();
  return quantize.format == DType::q8a && q.rows == norm.rows && q.cols == norm.dim;
}

}  // namespace

bool fuse_rms_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  if (first.format != second.format || first.n_views != 3 || second.n_views != 3) return false;
  const RmsNormParams norm = first.params_as<RmsNormParams>();
  const ElementwiseParams mul = second.params_as<ElementwiseParams>();
  if (!has_elements(mul, norm)) return false;

  const View& normed = first.views[2];
  const bool is_left = second.views[0] == normed, is_right = second.views[1] == normed;
  if (is_left == is_right) return false;
  fused.format = first.format;
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(second.views[is_left ? 1 : 0]);
  fused.bind(second.views[2]);
  fused.set_params(norm);
  return true;
}

bool fuse_rms_norm_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = first.params_as<RmsNormParams>();
  if (first.format != DType::f32 || !same_rows(second, norm)) return false;
  fused.format = first.format;
  fused.set_params(norm);
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(second.views[1]);
  return true;
}

bool fuse_add_rms_norm(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = second.params_as<RmsNormParams>();
  if (first.format != DType::f32 || second.format != DType::f32) return false;
  if (second.views[0] != first.views[2]) return false;
  if (!has_elements(first.params_as<ElementwiseParams>(), norm)) return false;
  fused.format = first.format;
  fused.set_params(norm);
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(second.views[1]);
  fused.bind(first.views[2]);
  fused.bind(second.views[2]);
  return true;
}

bool fuse_add_rms_norm_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = first.params_as<RmsNormParams>();
  if (!same_rows(second, norm) || second.views[0] != first.views[4]) return false;
  fused.format = first.format;
  fused.set_params(norm);
  for (std::size_t i = 0; i < 4; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

bool fuse_norm_add(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = first.params_as<RmsNormParams>();
  if (first.format != DType::f32 || second.format != DType::f32) return false;
  if (!has_elements(second.params_as<ElementwiseParams>(), norm)) return false;
  const View& normed = first.views[2];
  const bool is_left = second.views[0] == normed, is_right = second.views[1] == normed;
  if (is_left == is_right) return false;
  fused.format = first.format;
  fused.set_params(norm);
  fused.bind(first.views[0]);
  fused.bind(first.views[1]);
  fused.bind(second.views[is_left ? 1 : 0]);
  fused.bind(second.views[2]);
  return true;
}

}  // namespace onepass::ops
