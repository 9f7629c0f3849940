#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/kv_cache/params.h"

namespace onepass::ops {

void kv_store(GraphSession& s, const KvStore& a, Here here) {
  Checks c(s, "kv_store", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View cache = c.tensor("cache", a.cache, types(DType::f32, DType::f16));
  const View step = c.step("step", a.step);
  c.rank("x", a.x, 3);
  c.rank("cache", a.cache, 4);
  c.require(a.x.shape[1] == a.cache.shape[1] && a.x.shape[2] == a.cache.shape[3], "x is ",
            a.x.shape, ", cache is ", a.cache.shape);
  c.require(c.failed() || (!overlap(cache, x) && !overlap(cache, step)),
            "cache overlaps x or step");
  if (c.failed()) return;

  Dispatch d = dispatch(Op::kv_store, a.cache.dtype, here);
  d.set_params(
      KvStoreParams{a.x.shape[0], a.x.shape[1], a.x.shape[2], a.cache.shape[0], a.cache.shape[2]});
  d.bind(x);
  d.bind(step);
  d.bind(cache);
  s.encode(d);
}

}  // namespace onepass::ops
