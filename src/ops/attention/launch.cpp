#include "ops/launch.h"

#include <algorithm>
#include <limits>

#include "onepass/step_state.h"
#include "ops/attention/kernels.h"
#include "ops/attention/params.h"

namespace onepass::ops {

Status launch_attention(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const AttentionParams p = d.params_as<AttentionParams>();
  const std::uint64_t row_heads = product({p.rows, p.heads});
  const std::uint64_t q = matrix_bytes(DType::f32, row_heads, p.head_dim);
  const std::uint64_t keys = product({p.slots, p.kv_heads, p.capacity});
  const DType v_type = p.v_is_f16 != 0 ? DType::f16 : DType::f32;
  ONEPASS_TRY(expect_views(
      d, {q, matrix_bytes(d.format, keys, p.head_dim), matrix_bytes(v_type, keys, p.head_dim),
          p.has_step != 0 ? StepState::size_bytes(1, 1) : 0, q}));
  if (p.kv_heads == 0 || p.heads % p.kv_heads != 0 ||
      (p.has_step == 0 && (p.kv_len > p.capacity || p.kv_len < p.rows || p.slots == 0)) ||
      row_heads > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::invalid_argument, "attention: params do not fit together", d.file,
                d.line);
  }
  launch.tiles = std::max(static_cast<std::uint32_t>(row_heads), 1u);
  // With a step the length is unknown: one full slot is assumed.
  const std::uint64_t length = p.has_step != 0 ? p.capacity : p.kv_len;
  const std::uint64_t seen = p.window != 0 ? std::min<std::uint64_t>(length, p.window) : length;
  launch.bytes_moved = 2 * q + matrix_bytes(d.format, product({p.kv_heads, seen}), p.head_dim) +
                       matrix_bytes(v_type, product({p.kv_heads, seen}), p.head_dim);
  launch.flops = product({row_heads, seen, p.head_dim, 4});
  return {};
}

}  // namespace onepass::ops
