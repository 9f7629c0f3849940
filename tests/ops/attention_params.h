// The params most attention tests start from.
#pragma once

#include <cmath>
#include <cstdint>

#include "onepass/dtype.h"
#include "ops/attention/params.h"

namespace onepass::test {

inline ops::AttentionParams attention_params(std::uint32_t rows, std::uint32_t heads,
                                             std::uint32_t kv_heads, std::uint32_t head_dim,
                                             std::uint32_t slots, std::uint32_t capacity,
                                             DType v_type = DType::f32) {
  ops::AttentionParams p{};
  p.rows = rows;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = head_dim;
  p.slots = slots;
  p.capacity = capacity;
  p.causal = 1;
  p.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.v_type = static_cast<std::uint32_t>(v_type);
  return p;
}

}  // namespace onepass::test
