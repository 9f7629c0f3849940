// Launch arithmetic of the CUDA kernels; no device.
#include "ops/attention/launch_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "onepass/device.h"
#include "onepass/step_state.h"
#include "ops/attention/kernels.h"
#include "ops/attention/params.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/launch.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#include "ops/matmul/params.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/products.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"
#include "ops/sample/kernels.h"
#include "ops/sample/launch_cuda.h"
#include "ops/sample/params.h"

namespace onepass::ops::launch_cuda_test {
namespace {

DeviceInfo h200() {
  DeviceInfo info;
  info.compute_units = 132;
  info.max_shared_bytes = 227u << 10;
  return info;
}

Dispatch with_views(Op op, Format format, std::initializer_list<std::uint64_t> bytes) {
  Dispatch d = make_dispatch(op, format);
  for (const std::uint64_t n : bytes) d.bind(View{{1, 1}, 0, n});
  return d;
}

struct Sizes {
  std::uint32_t rows = 1, heads = 32, kv_heads = 8, head_dim = 128, capacity = 4096, window = 0;
  bool quantized = true;
  DType type = DType::f16;
};

Launch attention_launch(const Sizes& s) {
  const std::uint64_t cache =
      matrix_bytes(s.type, std::uint64_t{s.kv_heads} * s.capacity, s.head_dim);
  const std::uint64_t q = std::uint64_t{4} * s.rows * s.heads * s.head_dim;
  Dispatch d = with_views(
      Op::attention, s.type,
      {q, cache, cache, StepState::size_bytes(s.rows, 1), 0, 0, s.quantized ? q / 128 * 40 : q});
  AttentionParams p{};
  p.form = s.quantized ? form_quantized : 0;
  p.rows = s.rows;
  p.heads = s.heads;
  p.kv_heads = s.kv_heads;
  p.head_dim = s.head_dim;
  p.slots = 1;
  p.capacity = s.capacity;
  p.has_step = p.causal = 1;
  p.window = s.window;
  p.scale = 0.1f;
  p.v_type = static_cast<std::uint32_t>(s.type);
  d.set_params(p);
  Launch launch;
  const Status status = launch_attention_cuda(h200(), d, launch);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  return launch;
}

TEST(LaunchCuda, AttentionSplitsTheKeysOfOneRowOverTheCard) {
  const Launch launch = attention_launch({});
  EXPECT_EQ(launch.variant, static_cast<std::uint16_t>(AttentionVariant::f16_128));
  EXPECT_EQ(launch.grid[0], 8u);
  // Positions [0, 4096) are 32 chunks; a window may begin anywhere, so there is one more.
  EXPECT_GE(launch.grid[1], 32u);
  EXPECT_LE(launch.grid[1], 33u);
  EXPECT_GE(launch.grid[0] * launch.grid[1], 132u);
  EXPECT_LE(launch.shared_bytes, h200().max_shared_bytes / 2);
}

// Which chunks a block folds may depend on nothing but the shape class: there are as many blocks
// as chunks, or the same number for every capacity.
TEST(LaunchCuda, AttentionSplitsDoNotDependOnTheCapacity) {
  for (const std::uint32_t rows : {1u, 2u, 8u}) {
    const std::uint32_t most = attention_launch({.rows = rows, .capacity = 1u << 20}).grid[1];
    EXPECT_GE(most, 8u);
    EXPECT_LE(most, max_splits);
    for (const std::uint32_t capacity : {1u, 100u, 500u, 1000u, 5000u, 100000u}) {
      const std::uint32_t splits = attention_launch({.rows = rows, .capacity = capacity}).grid[1];
      EXPECT_GE(splits, std::min(most, (capacity + split_keys - 1) / split_keys)) << capacity;
      EXPECT_LE(splits, most);
    }
  }
}

TEST(LaunchCuda, AttentionOfManyRowsHasAKernelOfItsOwn) {
  const Launch launch = attention_launch({.rows = 512});
  EXPECT_EQ(launch.variant, static_cast<std::uint16_t>(AttentionVariant::rows_128));
  EXPECT_EQ(launch.grid[0] * many_queries, 512u * 4);
  EXPECT_EQ(launch.grid[1], 8u);
  EXPECT_EQ(launch.scratch_bytes, 0u);
}

TEST(LaunchCuda, AttentionTakesThePlainKernelForOtherHeadsAndTypes) {
  for (const Sizes& s :
       {Sizes{.heads = 4, .kv_heads = 4, .head_dim = 40, .quantized = false},
        Sizes{.heads = 4, .kv_heads = 2, .type = DType::q8_0}, Sizes{.type = DType::f32},
        Sizes{.rows = 100, .head_dim = 80}, Sizes{.heads = 64, .kv_heads = 1, .head_dim = 512}}) {
    const Launch launch = attention_launch(s);
    EXPECT_EQ(launch.variant, static_cast<std::uint16_t>(AttentionVariant::plain));
    EXPECT_LE(launch.shared_bytes, h200().max_shared_bytes);
    EXPECT_EQ(launch.grid[2], s.rows);
  }
  // Query heads beyond eight go to further blocks.
  EXPECT_EQ(attention_launch({.heads = 64, .kv_heads = 2, .head_dim = 64}).grid[0], 8u);
}

// Blocks of 32 values that cross heads are written by the last block of the row, from scratch.
TEST(LaunchCuda, QuantizedAttentionKeepsRowsWhereHeadsShareBlocks) {
  const Sizes apart{.heads = 4, .kv_heads = 4, .head_dim = 40, .capacity = 64, .quantized = false};
  Sizes shared = apart;
  shared.quantized = true;
  EXPECT_EQ(attention_launch(apart).scratch_bytes > 0, attention_launch(apart).grid[1] > 1);
  EXPECT_GE(attention_launch(shared).scratch_bytes,
            attention_launch(apart).scratch_bytes + 4 * 4 * 40);
  EXPECT_GT(attention_launch(shared).persistent_bytes, 0u);
}

TEST(LaunchCuda, ArgmaxCutsLongRows) {
  for (const auto& [rows, cols] : {std::pair{1u, 128256u}, {1u, 100u}, {300u, 5000u}}) {
    Dispatch d = with_views(Op::argmax, DType::f32,
                            {std::uint64_t{4} * rows * cols, std::uint64_t{4} * rows});
    d.set_params(ArgmaxParams{rows, cols});
    Launch launch;
    ASSERT_TRUE(launch_argmax_cuda(h200(), d, launch));
    EXPECT_EQ(launch.grid[0] > 1, rows == 1 && cols > 10000);
    EXPECT_EQ(launch.scratch_bytes, launch.grid[0] > 1 ? 8ull * rows * launch.grid[0] : 0);
    EXPECT_EQ(launch.grid[1], rows);
    EXPECT_EQ(launch.group[0] % 32, 0u);
  }
}

TEST(LaunchCuda, WholeSortsShareScratch) {
  Dispatch d = with_views(Op::argsort, DType::f32, {4ull * 100 * 5000, 4ull * 100 * 5000});
  d.set_params(ArgmaxParams{100, 5000});
  Launch launch;
  ASSERT_TRUE(launch_argsort_cuda(h200(), d, launch));
  EXPECT_EQ(launch.grid[0], select_sorts);
  EXPECT_EQ(launch.scratch_bytes, 16ull * 5000 * select_sorts);
  EXPECT_LE(launch.shared_bytes, 48u << 10);
}

TEST(LaunchCuda, RopeStoreHasAWarpForEveryHead) {
  Dispatch d =
      with_views(Op::rope_store, DType::f16,
                 {4 * 32 * 128, 0, 4 * 8 * 128, 0, 4 * 8 * 128, StepState::size_bytes(1, 1), 0, 0,
                  4 * 32 * 128, 2 * 8 * 512 * 128, 2 * 8 * 512 * 128});
  RopeStoreParams p{};
  p.rows = 1;
  p.heads = 32;
  p.kv_heads = 8;
  p.head_dim = 128;
  p.slots = 1;
  p.capacity = 512;
  p.k_type = p.v_type = static_cast<std::uint32_t>(DType::f16);
  p.angles.pairs = 64;
  p.angles.step = 1;
  p.angles.distance = 64;
  d.set_params(p);
  Launch launch;
  ASSERT_TRUE(launch_rope_store_cuda(h200(), d, launch));
  EXPECT_EQ(launch.grid[0] * launch.group[0], 48u * 32);
}

TEST(LaunchCuda, MatmulCoversEveryColumnWithinTheGridsLimits) {
  struct MatmulSizes {
    std::uint32_t m, n, k;
  };
  for (const auto [m, n, k] : {MatmulSizes{1, 1, 32}, MatmulSizes{1, 4097, 64},
                               MatmulSizes{5, 128256, 4096}, MatmulSizes{1000000, 3, 32}}) {
    Dispatch d = with_views(
        Op::matmul, DType::q8_0,
        {std::uint64_t{4} * m * k, std::uint64_t{n} * k / 32 * 34, std::uint64_t{4} * m * n});
    d.set_params(test::product(m, n, k));
    Launch launch;
    ASSERT_TRUE(launch_matmul_cuda(DeviceInfo{}, d, launch));
    EXPECT_GE(std::uint64_t{launch.grid[0]} * any_columns, n);
    EXPECT_LT(std::uint64_t{launch.grid[0] - 1} * any_columns, n);
    EXPECT_GE(launch.grid[1], 1u);
    EXPECT_LE(launch.grid[1], 65535u);
    EXPECT_EQ(launch.group[0] % 32, 0u);
    EXPECT_GT(launch.bytes_moved, std::uint64_t{n} * k);
  }
}

TEST(LaunchCuda, NormHasWholeWarpsForEveryRow) {
  for (const std::uint32_t dim : {1u, 129u, 4096u, 100000u}) {
    Dispatch d =
        with_views(Op::rms_norm, DType::f32,
                   {std::uint64_t{12} * dim, std::uint64_t{4} * dim, std::uint64_t{12} * dim});
    d.set_params(RmsNormParams{0, 3, dim, 1e-5f, 1});
    Launch launch;
    ASSERT_TRUE(launch_norm_cuda(DeviceInfo{}, d, launch));
    EXPECT_EQ(launch.grid[0], dim <= norm_warp_dim ? 1u : 3u);
    EXPECT_EQ(launch.group[0] % 32, 0u);
    EXPECT_LE(launch.group[0], 1024u);
    EXPECT_GE(launch.group[0], dim <= norm_warp_dim ? 96u : std::min(1024u, dim / 8));
  }
}

TEST(LaunchCuda, ElementwiseCoversEveryElementWithinTheGridsLimits) {
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{1025}, std::uint64_t{1} << 42}) {
    Dispatch d = with_views(Op::add, DType::f32, {4 * n, 4 * n, 4 * n});
    d.set_params(ElementwiseParams{static_cast<std::uint32_t>(n),
                                   static_cast<std::uint32_t>(n >> 32), 0.0f, 0});
    Launch launch;
    ASSERT_TRUE(launch_elementwise_cuda(DeviceInfo{}, d, launch));
    EXPECT_LE(launch.grid[0], 0x7fffffffu);
    const std::uint64_t covered = std::uint64_t{4} * launch.grid[0] * launch.group[0];
    EXPECT_TRUE(covered >= n || launch.grid[0] == 0x7fffffffu);
    Dispatch short_view = with_views(Op::add, DType::f32, {4 * n, 4 * n, 4 * n - 4});
    short_view.params = d.params;
    EXPECT_FALSE(launch_elementwise_cuda(DeviceInfo{}, short_view, launch));
  }
}

}  // namespace
}  // namespace onepass::ops::launch_cuda_test
