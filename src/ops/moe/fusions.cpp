#include "ops/quantize/fusions.h"

#include "ops/moe/params.h"
#include "ops/shared/fusions.h"

namespace onepass::ops {

// gated, then quantize of its rows.
bool fuse_gated_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  auto p = first.params_as<GatedParams>();
  if (p.form != 0 || !quantizes(second, first.views[5], p.rows, p.dim)) return false;
  p.form = form_quantized;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 5; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

}  // namespace onepass::ops
