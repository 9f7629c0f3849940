#include "ops/launch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "onepass/device.h"
#include "onepass/step_state.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_cuda.h"
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
  const bool to_q8a = (p.form & form_quantized) != 0;
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

namespace {

AttentionVariant variant_of(DType k_type, const AttentionParams& p) noexcept {
  if (k_type != DType::f16 || static_cast<DType>(p.v_type) != DType::f16) {
    return AttentionVariant::plain;
  }
  const bool many = p.rows > few_rows;
  return p.head_dim == 64    ? many ? AttentionVariant::rows_64 : AttentionVariant::f16_64
         : p.head_dim == 128 ? many ? AttentionVariant::rows_128 : AttentionVariant::f16_128
         : p.head_dim == 256 ? AttentionVariant::f16_256
                             : AttentionVariant::plain;
}

// Chunks of split_keys that one row can see.
std::uint64_t most_chunks(const AttentionParams& p, std::uint64_t n_pages) noexcept {
  std::uint64_t seen = n_pages != 0                     ? n_pages * page_positions
                       : p.has_step == 0 && p.ring == 0 ? p.kv_len
                                                        : p.capacity;
  if (p.causal != 0 && p.window != 0) seen = std::min<std::uint64_t>(seen, p.window);
  return (seen + split_keys - 2) / split_keys + 1;
}

}  // namespace

Status launch_attention_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_attention(device, d, launch));
  const AttentionParams p = d.params_as<AttentionParams>();
  const AttentionVariant variant = variant_of(d.format.type, p);
  launch.variant = static_cast<std::uint16_t>(variant);
  const std::uint64_t y = std::uint64_t{p.kv_heads} * head_groups(p);
  if (p.rows > max_cuda_grid_y || p.kv_heads > max_cuda_grid_y || y > max_cuda_grid_x) {
    return fail(ErrorCode::limit,
                std::string(info(d.op).name) + ": " + std::to_string(p.rows) + " rows and " +
                    std::to_string(p.kv_heads) + " kv heads, at most 65535 each",
                d.file, d.line);
  }
  if (variant == AttentionVariant::rows_64 || variant == AttentionVariant::rows_128) {
    const std::uint64_t queries = std::uint64_t{p.rows} * (p.heads / p.kv_heads);
    launch.grid = {static_cast<std::uint32_t>((queries + many_queries - 1) / many_queries),
                   p.kv_heads, 1};
    launch.group = {many_threads, 1, 1};
    launch.scratch_bytes = launch.persistent_bytes = 0;
    return {};
  }
  // A power of two that depends on the shape class alone.
  std::uint32_t splits = max_splits;
  while (splits > 1 && product({p.rows, y, splits}) > 512 && splits > split_rows_least(p.rows)) {
    splits /= 2;
  }
  const std::uint64_t n_pages = d.views[4].bytes / 4;
  splits = static_cast<std::uint32_t>(std::min<std::uint64_t>(splits, most_chunks(p, n_pages)));
  // Blocks with the same part of the keys start together: those without work come last.
  launch.grid = {static_cast<std::uint32_t>(y), splits, p.rows};
  launch.group = {split_threads, 1, 1};

  const bool whole_rows = (p.form & form_quantized) != 0 && heads_share_blocks(p);
  const SplitScratch scratch = split_scratch(p, splits);
  launch.scratch_bytes = launch.persistent_bytes = 0;
  if (splits > 1 || whole_rows) {
    launch.scratch_bytes =
        4 * (scratch.rows_at + (whole_rows ? product({p.rows, p.heads, p.head_dim}) : 0));
    launch.persistent_bytes = product({p.rows, y, 4});
  }
  const std::uint32_t queries = std::min(split_queries, p.heads / p.kv_heads);
  const std::uint32_t slot_floats = queries * split_stride(p.head_dim);
  launch.shared_bytes = variant == AttentionVariant::plain
                            ? 4 * (slot_floats + queries * (p.head_dim + split_keys))
                            : 4 * (split_threads / 32) * slot_floats;
  return {};
}

bool accepts_rope_attention(const DeviceInfo&, const Dispatch& d) {
  const RopeStoreParams p = d.params_as<RopeAttentionParams>().store;
  const auto half = static_cast<std::uint32_t>(DType::f16);
  const auto has = [&d](std::size_t i) { return i < d.n_views && d.views[i].bytes != 0; };
  return p.rows == 1 && d.format == DType::f16 && p.k_type == half && p.v_type == half &&
         (p.head_dim == 64 || p.head_dim == 128) && 2 * p.angles.pairs == p.head_dim &&
         p.kv_heads != 0 && p.heads != 0 && p.heads % p.kv_heads == 0 &&
         p.heads / p.kv_heads <= split_queries && p.kv_heads <= max_cuda_grid_x &&
         p.capacity != 0 && product({p.slots, p.kv_heads, p.capacity}) < ~0u && d.n_views == 12 &&
         d.views[10].offset % 16 == 0 && d.views[11].offset % 16 == 0 &&
         (!has(7) || (p.capacity == page_positions && p.ring == 0));
}

Status launch_rope_attention_cuda(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const auto params = d.params_as<RopeAttentionParams>();
  const RopeStoreParams& p = params.store;
  const auto has = [&d](std::size_t i) { return i < d.n_views && d.views[i].bytes != 0; };
  const std::uint64_t q = matrix_bytes(DType::f32, p.heads, p.head_dim);
  const std::uint64_t kv = matrix_bytes(DType::f32, p.kv_heads, p.head_dim);
  const std::uint64_t norm = product({p.head_dim, 4});
  const std::uint64_t cache =
      matrix_bytes(DType::f16, product({p.slots, p.kv_heads, p.capacity}), p.head_dim);
  ONEPASS_TRY(
      expect_views(d, {q, has(1) ? norm : 0, kv, has(3) ? norm : 0, kv, StepState::size_bytes(1, 1),
                       has(6) ? 4ull * p.angles.pairs : 0, 0, has(8) ? product({p.heads, 4}) : 0,
                       matrix_bytes(DType::q8a, 1, product({p.heads, p.head_dim})), cache, cache}));
  launch.variant = p.head_dim == 64 ? 0 : 1;
  launch.grid = {p.kv_heads, cluster_blocks, 1};
  launch.group = {cluster_threads, 1, 1};
  launch.shared_bytes = p.head_dim == 64 ? sizeof(ClusterMemory<64>) : sizeof(ClusterMemory<128>);
  const std::uint64_t seen =
      params.window != 0 ? std::min<std::uint64_t>(p.capacity, params.window) : p.capacity;
  launch.bytes_moved = q + 4 * kv + d.views[9].bytes +
                       2 * matrix_bytes(DType::f16, product({p.kv_heads, seen}), p.head_dim);
  launch.flops = product({p.heads, seen, p.head_dim, 4});
  return {};
}

}  // namespace onepass::ops
