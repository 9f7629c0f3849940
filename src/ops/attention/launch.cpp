#include "ops/launch.h"

#include <algorithm>
#include <limits>

#include "onepass/device.h"
#include "onepass/step_state.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_tiling.h"
#include "ops/attention/params.h"

namespace onepass::ops {
namespace {

constexpr std::uint64_t max_split_scratch = 64ull << 20;

bool is_cache_type(std::uint32_t type) noexcept {
  return type == static_cast<std::uint32_t>(DType::f32) ||
         type == static_cast<std::uint32_t>(DType::f16) ||
         type == static_cast<std::uint32_t>(DType::q8_0);
}

}  // namespace

Status launch_attention(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  const AttentionParams p = d.params_as<AttentionParams>();
  const bool to_q8a = d.op == Op::attention_q;
  const bool paged = d.n_views > 4 && d.views[4].bytes != 0;
  const bool has_sinks = d.n_views > 5 && d.views[5].bytes != 0;
  const auto refuse = [&d](const char* why) {
    return fail(ErrorCode::invalid_argument, std::string(info(d.op).name) + ": " + why, d.file,
                d.line);
  };
  if (!is_cache_type(p.v_type)) return refuse("no such type of v");
  const auto v_type = static_cast<DType>(p.v_type);
  const std::uint64_t row_heads = product({p.rows, p.heads});
  const std::uint64_t q = matrix_bytes(DType::f32, row_heads, p.head_dim);
  const std::uint64_t keys = product({p.slots, p.kv_heads, p.capacity});
  const std::uint64_t out =
      to_q8a ? matrix_bytes(DType::q8a, p.rows, product({p.heads, p.head_dim})) : q;
  ONEPASS_TRY(expect_views(
      d, {q, matrix_bytes(d.format, keys, p.head_dim), matrix_bytes(v_type, keys, p.head_dim),
          p.has_step != 0 ? StepState::size_bytes(1, 1) : 0, 0,
          has_sinks ? product({p.heads, 4}) : 0, out}));
  if (p.head_dim == 0 || p.head_dim > max_head_dim) {
    return refuse("heads of 0 or of more than 512 elements");
  }
  if (p.kv_heads == 0 || p.heads == 0 || p.heads % p.kv_heads != 0 || p.rows == 0 ||
      p.capacity == 0 || (paged && (p.capacity != page_positions || p.ring != 0)) ||
      (p.has_step == 0 && (p.kv_len < p.rows || p.slots == 0)) ||
      (p.has_step == 0 && p.ring == 0 && !paged && p.kv_len > p.capacity) ||
      row_heads > std::numeric_limits<std::uint32_t>::max()) {
    return refuse("params do not fit together");
  }
  const AttentionTiling tiling(p, paged ? d.views[4].bytes / 4 : 0);
  const std::uint64_t groups = tiling.row_blocks * p.kv_heads;
  const std::uint64_t part_bytes = product({row_heads, tiling.part_floats, 4});
  const std::uint64_t wanted = (8ull * device.compute_units + groups - 1) / groups;
  std::uint64_t shares = std::clamp<std::uint64_t>(wanted, 1, tiling.max_chunks);
  if (product({part_bytes, tiling.max_chunks}) > max_split_scratch) shares = 1;
  if (groups * shares > std::numeric_limits<std::uint32_t>::max()) return refuse("too many rows");
  launch.tiles = static_cast<std::uint32_t>(groups * shares);
  launch.scratch_bytes = shares > 1 ? part_bytes * tiling.max_chunks : part_bytes;
  // Counters of finished tiles, where a row's result comes from several (cpu_simd.h).
  const bool heads_share_blocks = to_q8a && p.heads / p.kv_heads * p.head_dim % 32 != 0;
  launch.persistent_bytes = shares > 1 || heads_share_blocks ? groups * 4 : 0;
  // With a step the length is unknown: one full slot is assumed.
  const std::uint64_t length = p.has_step != 0 ? p.capacity : p.kv_len;
  const std::uint64_t seen = p.window != 0 ? std::min<std::uint64_t>(length, p.window) : length;
  launch.bytes_moved = q + out + matrix_bytes(d.format, product({p.kv_heads, seen}), p.head_dim) +
                       matrix_bytes(v_type, product({p.kv_heads, seen}), p.head_dim);
  launch.flops = product({row_heads, seen, p.head_dim, 4});
  return {};
}

}  // namespace onepass::ops
