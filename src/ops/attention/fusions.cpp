#include "ops/attention/fusions.h"

#include "ops/attention/params.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

bool fuse_attention_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<AttentionParams>();
  const auto q = second.params_as<QuantizeParams>();
  if (second.format != DType::q8a || q.rows != p.rows) return false;
  if (q.cols != std::uint64_t{p.heads} * p.head_dim) return false;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 6; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

}  // namespace onepass::ops
