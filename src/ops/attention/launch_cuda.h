// How attention is cut on CUDA, for kernels and launch arithmetic.
//
// Few rows: a block is one row, up to 8 query heads of one kv head, and every n-th chunk of
// keys; chunks start at absolute positions. A block folds its chunks in order, and the last block
// of a row and kv head to finish combines their results in order. Which chunks meet in a block
// depends on the shape class alone, so no bit of a result depends on the capacity of the cache.
//
// One row that is turned and stored first: a cluster of blocks has a kv head, tiles of 16 keys go
// around its blocks, then around their warps, by absolute position. Small blocks, so that they fit
// beside those of the products before and after.
//
// Many rows: a warp is 8 queries of one kv head and goes over all keys they see, 16 at a time.
#pragma once

#include <cstdint>

#include "ops/attention/params.h"

namespace onepass::ops {

inline constexpr std::uint32_t split_keys = 128;   // of a chunk
inline constexpr std::uint32_t split_queries = 8;  // of a block
inline constexpr std::uint32_t split_threads = 256;
inline constexpr std::uint32_t max_splits = 64;
inline constexpr std::uint32_t max_split_dim = 512;

inline constexpr std::uint32_t cluster_blocks = 8, cluster_threads = 128;
inline constexpr std::uint32_t tile_keys = 16;
inline constexpr std::uint32_t cluster_stages = 3;  // tiles of a warp that are on their way

inline constexpr std::uint32_t many_threads = 128;
inline constexpr std::uint32_t many_queries = 32;  // of a block
inline constexpr std::uint32_t few_rows = 8;       // up to which rows are split
// Blocks per row and kv head that there are at least, where there are that many chunks.
constexpr std::uint32_t split_rows_least(std::uint32_t rows) { return rows <= few_rows ? 8 : 1; }

// Blocks that share the heads of a kv head.
OP_FN std::uint32_t head_groups(const AttentionParams& p) {
  return (p.heads / p.kv_heads + split_queries - 1) / split_queries;
}

// Floats of a row of values that warps leave in shared memory.
OP_FN std::uint32_t split_stride(std::uint32_t head_dim) { return head_dim + 4; }

// Shared memory of a block of a cluster. The strides of rows keep lanes that read together apart.
template <int Dim>
struct ClusterTile {
  unsigned short keys[tile_keys][Dim + 32];
  unsigned short values[tile_keys][Dim + 8];
};
template <int Dim>
struct ClusterMemory {
  static constexpr int warps = cluster_threads / 32;
  // A warp's tiles; when it has gone through them, its values.
  union Warp {
    ClusterTile<Dim> tiles[cluster_stages];
    float values[split_queries][Dim + 4];
  };
  Warp warp[warps];
  float queries[split_queries][Dim];    // turned; at the end the block's values
  unsigned short key[Dim], value[Dim];  // of the new position, as the caches have them
  float top[warps][split_queries], sum[warps][split_queries];
  float tops[split_queries], sums[split_queries];  // of the block
};

// Scratch of one query's part: maximum and sum, then values, in arrays of their own.
struct SplitScratch {
  std::uint64_t values_at, rows_at;  // in floats; rows_at: finished rows, where heads share blocks
};
OP_FN SplitScratch split_scratch(const AttentionParams& p, std::uint32_t splits) {
  SplitScratch s;
  const std::uint64_t parts = std::uint64_t{p.rows} * p.heads * splits;
  s.values_at = (2 * parts + 63) / 64 * 64;
  s.rows_at = s.values_at + parts * p.head_dim;
  return s;
}

// Blocks of 32 of a quantized row that cross kv heads.
OP_FN bool heads_share_blocks(const AttentionParams& p) {
  return p.heads / p.kv_heads * p.head_dim % 32 != 0;
}

}  // namespace onepass::ops
