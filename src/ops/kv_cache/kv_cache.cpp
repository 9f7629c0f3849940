#include <algorithm>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/kv_cache/checks.h"
#include "ops/kv_cache/params.h"
#include "ops/shared/cache.h"

namespace onepass::ops {

View check_pages(Checks& c, const View& pages, const Tensor& cache, bool ring) noexcept {
  if (!pages.buffer) return {};
  const View view = c.memory("pages", pages, 4, true);
  c.require(pages.bytes % 4 == 0, "pages has ", pages.bytes, " bytes, expected a multiple of 4");
  c.require(cache.shape[2] == page_positions, "the cache is ", cache.shape,
            ", with pages its third dimension is ", page_positions);
  c.require(!ring, "a cache is a ring or has pages, not both");
  return view;
}

void kv_store(GraphSession& s, const KvStore& a, Here here) {
  Checks c(s, "kv_store", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View cache = c.tensor("cache", a.cache, cache_types);
  const View step = c.step("step", a.step);
  c.rank("x", a.x, 3);
  c.rank("cache", a.cache, 4);
  c.require(a.x.shape[1] == a.cache.shape[1] && a.x.shape[2] == a.cache.shape[3], "x is ",
            a.x.shape, ", cache is ", a.cache.shape);
  const View pages = c.failed() ? View{} : check_pages(c, a.pages, a.cache, a.ring);
  c.require(c.failed() || (!overlap(cache, x) && !overlap(cache, step) && !overlap(cache, pages)),
            "cache overlaps x, step or pages");
  if (c.failed()) return;

  Dispatch d = dispatch(Op::kv_store, a.cache.dtype, here);
  d.set_params(KvStoreParams{a.x.shape[0], a.x.shape[1], a.x.shape[2], a.cache.shape[0],
                             a.cache.shape[2], a.ring ? 1u : 0u});
  d.bind(x);
  d.bind(step);
  d.bind(pages);
  d.bind(cache);
  s.encode(d);
}

void kv_copy(GraphSession& s, const KvCopy& a, Here here) {
  Checks c(s, "kv_copy", here);
  const View cache = c.tensor("cache", a.cache, cache_types);
  c.rank("cache", a.cache, 4);
  if (c.failed()) return;
  const std::uint32_t slots = a.cache.shape[0], capacity = a.cache.shape[2];
  c.require(a.from < slots, "from is slot ", a.from, ", the cache has ", slots);
  c.require(a.to < slots, "to is slot ", a.to, ", the cache has ", slots);
  c.require(a.from != a.to, "from and to are both slot ", a.from);
  c.require(a.n > 0 && (a.ring || a.n <= capacity), "n is ", a.n, ", expected 1 to ", capacity,
            " (capacity)");
  if (c.failed()) return;

  const std::uint64_t slot_bytes = cache.bytes / slots;
  Dispatch d = dispatch(Op::kv_copy, a.cache.dtype, here);
  d.set_params(KvCopyParams{a.cache.shape[1], a.cache.shape[3], capacity, std::min(a.n, capacity)});
  d.bind(View{cache.buffer, cache.offset + a.from * slot_bytes, slot_bytes});
  d.bind(View{cache.buffer, cache.offset + a.to * slot_bytes, slot_bytes});
  s.encode(d);
}

}  // namespace onepass::ops
