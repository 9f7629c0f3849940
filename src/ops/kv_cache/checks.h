// Checks shared by the ops that read or write a cache.
#pragma once

#include "ops/checks.h"

namespace onepass::ops {

inline constexpr TypeSet cache_types = types(DType::f32, DType::f16, DType::q8_0);

// A page list or none; the cache [pages, kv heads, 256, head_dim] it goes with.
View check_pages(Checks& c, const View& pages, const Tensor& cache, bool ring) noexcept;

}  // namespace onepass::ops
