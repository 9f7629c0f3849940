#include "ops/norm/fusions.h"

#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/norm/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {

bool fuse_rms_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  if (first.format != second.format || first.n_views != 3 || second.n_views != 3) return false;
  const RmsNormParams norm = first.params_as<RmsNormParams>();
  const ElementwiseParams mul = second.params_as<ElementwiseParams>();
  if (mul.b_elements != 0) return false;
  if (join(mul.n_lo, mul.n_hi) != product({norm.rows, norm.dim})) return false;

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

}  // namespace onepass::ops
