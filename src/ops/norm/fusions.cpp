#include "ops/quantize/fusions.h"

#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/norm/params.h"
#include "ops/shared/fusions.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

bool has_elements(const ElementwiseParams& p, const RmsNormParams& norm) {
  return p.b_elements == 0 && join(p.n_lo, p.n_hi) == product({norm.rows, norm.dim});
}

void bind_norm(const Dispatch& norm, const RmsNormParams& p, const View& out, Dispatch& fused) {
  fused.format = norm.format;
  fused.set_params(p);
  fused.bind(norm.views[norm_x]);
  fused.bind(norm.views[norm_weight_slot]);
  fused.bind(out);
}

// A plain norm, then an elementwise op of its output and one other tensor: a norm of that form.
bool then(std::uint32_t form, const Dispatch& norm, const Dispatch& second, Dispatch& fused) {
  auto p = norm.params_as<RmsNormParams>();
  if (p.form != 0 || norm.format != second.format) return false;
  if (!has_elements(second.params_as<ElementwiseParams>(), p)) return false;
  const View& normed = norm.views[norm_out];
  const bool is_left = second.views[0] == normed, is_right = second.views[1] == normed;
  if (is_left == is_right) return false;
  p.form = form;
  bind_norm(norm, p, second.views[2], fused);
  fused.bind(second.views[is_left ? 1 : 0]);
  return true;
}

}  // namespace

// rms_norm, then mul by a tensor of its output's shape.
bool fuse_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  return then(form_product, first, second, fused);
}

// The same, and the norm is stored as well.
bool fuse_norm_mul_kept(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  if (!then(form_product, first, second, fused)) return false;
  fused.bind(first.views[norm_out]);
  return true;
}

// rms_norm, then add of a tensor of its output's shape.
bool fuse_norm_add(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  return first.format == DType::f32 && then(form_residual, first, second, fused);
}

// add, then rms_norm of the sum, which is stored as well.
bool fuse_add_norm(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  auto p = second.params_as<RmsNormParams>();
  if (p.form != 0 || first.format != DType::f32 || second.format != DType::f32) return false;
  if (second.views[norm_x] != first.views[2]) return false;
  if (!has_elements(first.params_as<ElementwiseParams>(), p)) return false;
  p.form = form_sum;
  fused.format = first.format;
  fused.set_params(p);
  fused.bind(first.views[0]);
  fused.bind(second.views[norm_weight_slot]);
  fused.bind(second.views[norm_out]);
  fused.bind(first.views[1]);
  fused.bind(first.views[2]);
  return true;
}

// rms_norm, then quantize of its rows.
bool fuse_norm_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  auto p = first.params_as<RmsNormParams>();
  if ((p.form & ~form_sum) != 0 || first.format != DType::f32) return false;
  if (!quantizes(second, first.views[norm_out], p.rows, p.dim)) return false;
  p.form |= form_quantized;
  bind_norm(first, p, second.views[1], fused);
  for (std::size_t i = norm_other; i < first.n_views; ++i) fused.bind(first.views[i]);
  return true;
}

// The same, and what is quantized is stored as well.
bool fuse_norm_quantized_kept(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  if (first.n_views > norm_plain || !fuse_norm_quantized(first, second, fused)) return false;
  while (fused.n_views < norm_plain) fused.bind(View{});
  fused.bind(first.views[norm_out]);
  return true;
}

}  // namespace onepass::ops
