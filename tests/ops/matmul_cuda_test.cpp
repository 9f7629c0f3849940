// Launch arithmetic of the CUDA kernels; no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "core/features.h"
#include "onepass/device.h"
#include "ops/launch.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/launch_cuda.h"
#include "ops/matmul/params.h"

namespace onepass::ops::matmul_cuda_test {
namespace {

DeviceInfo h200() {
  DeviceInfo info;
  info.compute_units = 132;
  info.max_shared_bytes = 227u << 10;
  info.features = feature_bits(Feature::tensor_cores);
  return info;
}

Dispatch make(Op op, DType format, std::uint32_t m, std::uint32_t n, std::uint32_t k,
              std::uint64_t weight_offset = 0) {
  Dispatch d = make_dispatch(op, format);
  const std::uint64_t x = matrix_bytes(matmul_input(format), m, k), w = matrix_bytes(format, n, k);
  const std::uint64_t out = matrix_bytes(DType::f32, m, n);
  const auto bind = [&](std::uint64_t bytes, std::uint64_t offset = 0) {
    d.bind(View{{1, 1}, offset, bytes});
  };
  bind(x);
  bind(w, weight_offset);
  switch (op) {
    case Op::matmul_glu:
    case Op::matmul_glu_q:
      bind(w);
      bind(op == Op::matmul_glu ? out : matrix_bytes(DType::q8a, m, n));
      d.set_params(MatmulGluParams{m, n, k, 0});
      break;
    case Op::matmul_3:
      bind(w);
      bind(w);
      for (int i = 0; i < 3; ++i) bind(0);
      for (int i = 0; i < 3; ++i) bind(out);
      d.set_params(Matmul3Params{m, k, n, n, n});
      break;
    case Op::matmul_id:
      bind(matrix_bytes(DType::u32, m, 1));
      bind(out);
      d.set_params(MatmulIdParams{m, 1, 1, n, k, 0, 0, 0});
      break;
    default:
      bind(out);
      d.set_params(MatmulParams{m, n, k});
  }
  return d;
}

// One normed row.
Dispatch make_normed(Op op, DType format, std::uint32_t n, std::uint32_t k) {
  const Op plain = op == Op::norm_matmul_3       ? Op::matmul_3
                   : op == Op::norm_matmul_glu_q ? Op::matmul_glu_q
                                                 : Op::matmul;
  const Dispatch product = make(plain, format, 1, n, k);
  Dispatch d = make_dispatch(op, format);
  d.bind(View{{1, 1}, 0, std::uint64_t{4} * k});
  for (std::size_t i = 1; i < product.n_views; ++i) d.bind(product.views[i]);
  d.bind(View{{1, 1}, 0, std::uint64_t{4} * k});
  if (op == Op::norm_matmul_3) {
    d.set_params(NormMatmul3Params{1, k, n, n, n, 0.5f});
  } else if (op == Op::norm_matmul_glu_q) {
    d.set_params(NormMatmulGluParams{1, n, k, 0, 0.5f});
  } else {
    d.set_params(NormMatmulParams{1, n, k, 0.5f});
  }
  return d;
}

Launch launch_of(const Dispatch& d, const DeviceInfo& device = h200()) {
  Launch launch;
  const Status status = launch_matmul_cuda(device, d, launch);
  EXPECT_TRUE(status) << status.error().message;
  return launch;
}

std::uint32_t value(const Launch& l, MatmulValue index) {
  for (std::size_t i = 0; i < l.n_spec; ++i) {
    if (l.spec[i].index == index) return static_cast<std::uint32_t>(l.spec[i].value);
  }
  ADD_FAILURE() << "no value " << index;
  return 0;
}

constexpr DType fast_formats[] = {
    DType::f32,      DType::f16,      DType::bf16,       DType::q4_0_s16,    DType::q8_0_s16,
    DType::q4_k_s16, DType::q6_k_s16, DType::a4_f16_s16, DType::a8_bf16_s16,
};
struct Size {
  std::uint32_t n, k;
};
// Products of the models in the benchmarks, and odd ones.
constexpr Size sizes[] = {{3072, 768},  {3072, 2048}, {16384, 2048},  {2048, 8192},
                          {6144, 4096}, {4096, 4096}, {28672, 4096},  {4096, 14336},
                          {32, 256},    {96, 53248},  {128256, 4096}, {1536, 768}};

TEST(MatmulCuda, EveryLaunchCoversItsOutputsWithinTheLimits) {
  for (const DType format : fast_formats) {
    for (const Op op : {Op::matmul, Op::matmul_3, Op::matmul_glu, Op::matmul_glu_q}) {
      for (const std::uint32_t m : {1u, 2u, 3u, 8u, 33u}) {
        for (const auto [n, k] : sizes) {
          const Launch l = launch_of(make(op, format, m, n, k));
          const std::string text = std::string(name(format)) + " " + info(op).name + " " +
                                   std::to_string(m) + " x " + std::to_string(n) + " x " +
                                   std::to_string(k);
          EXPECT_LE(l.shared_bytes, h200().max_shared_bytes) << text;
          EXPECT_EQ(l.group[0] % 32, 0u) << text;
          if (l.variant == variant_any) {
            EXPECT_EQ(k, 53248u) << text;
            EXPECT_GE(l.grid[1] * any_rows, m) << text;
            continue;
          }
          if (l.variant == variant_tile) {
            EXPECT_EQ(m, 33u) << text;
            const std::uint32_t warps = l.group[0] / 32, columns = warps == 8 ? 128 : 64;
            const std::uint64_t width = n * (op == Op::matmul_3 ? 3u : op == Op::matmul ? 1u : 2u);
            EXPECT_GE(std::uint64_t{l.grid[0]} * columns, width) << text;
            EXPECT_GE(l.grid[1] * (warps == 8 ? 128 : 64), m) << text;
            continue;
          }
          if (l.variant >= variant_line_1) {
            EXPECT_EQ(m, 1u) << text;
            const bool gate = op == Op::matmul_glu || op == Op::matmul_glu_q;
            EXPECT_EQ(l.variant >= variant_gate_1, gate) << text;
            const std::uint32_t outputs = matmul_line_rows(l.variant);
            const std::uint32_t warps = matmul_line_warps(l.variant);
            const std::uint64_t sets = (n + outputs - 1) / outputs * (op == Op::matmul_3 ? 3 : 1);
            const std::uint64_t per_block = l.group[0] / (32 * warps);
            EXPECT_EQ(l.group[0] % (32 * warps), 0u) << text;
            EXPECT_LE(l.group[0], op == Op::matmul_glu_q ? 1024u : 256u) << text;
            EXPECT_EQ(l.grid[0], (sets + per_block - 1) / per_block) << text;
            if (op == Op::matmul_glu_q) {
              EXPECT_EQ(per_block * outputs, 32u) << text;
            }
            continue;
          }
          const std::uint32_t team = 1u << value(l, matmul_team), rows = value(l, matmul_rows);
          const std::uint32_t rounds = value(l, matmul_rounds), teams = l.group[0] / team;
          EXPECT_EQ(l.variant, rows == 1 ? variant_vector : variant_rows) << text;
          EXPECT_GE(team, 4u) << text;
          EXPECT_LE(team, l.group[0]) << text;
          EXPECT_LE(l.group[0], rows == 1 ? 512u : 256u) << text;
          EXPECT_GE(rows * l.grid[1], m) << text;
          EXPECT_GE(l.shared_bytes, rows * matmul_x_bytes(matmul_input(format) == DType::q8a, k) +
                                        matmul_sum_bytes(l.group[0], rows))
              << text;
          if (op == Op::matmul_glu_q) {
            EXPECT_EQ(teams * rounds, 32u) << text;
          }
          // No block without work.
          const std::uint64_t sets = op == Op::matmul     ? (n + 1) / 2
                                     : op == Op::matmul_3 ? 3 * ((n + 1) / 2)
                                                          : n;
          EXPECT_LE(l.grid[0], (sets + teams * rounds - 1) / (teams * rounds)) << text;
        }
      }
    }
  }
}

// 16 bytes of each of two rows are on their way twice per thread.
TEST(MatmulCuda, DecodeKeepsEnoughBytesInFlight) {
  for (const DType format : {DType::q4_0_s16, DType::q8_0_s16, DType::q4_k_s16, DType::f16}) {
    for (const auto [n, k] : {Size{6144, 4096}, Size{4096, 4096}, Size{28672, 4096},
                              Size{4096, 14336}, Size{2048, 8192}, Size{128256, 4096}}) {
      const Launch l = launch_of(make(Op::matmul, format, 1, n, k));
      const std::uint64_t in_flight = std::uint64_t{l.grid[0]} * l.group[0] * 64;
      EXPECT_GE(in_flight, 4u << 20) << name(format) << " " << n << " x " << k;
    }
  }
  for (const std::uint32_t n : {8192u, 14336u}) {
    const Launch l = launch_of(make(Op::matmul_glu_q, DType::q4_0_s16, 1, n, 4096));
    EXPECT_GE(std::uint64_t{l.grid[0]} * l.group[0] * 64, 4u << 20) << n;
  }
}

TEST(MatmulCuda, FewRowsAreSharedByWarpsManyShareAWarp) {
  const auto variant = [](DType format, std::uint32_t n, std::uint32_t k) {
    return launch_of(make(Op::matmul, format, 1, n, k)).variant;
  };
  EXPECT_EQ(variant(DType::q4_0_s16, 28672, 4096), variant_line_2);
  EXPECT_EQ(variant(DType::q4_0_s16, 4096, 4096), variant_line_2);
  EXPECT_EQ(variant(DType::q8_0_s16, 6144, 4096), variant_line_2_deep);
  EXPECT_EQ(variant(DType::q8_0_s16, 4096, 4096), variant_line_1);
  EXPECT_EQ(variant(DType::q4_0_s16, 4096, 14336), variant_line_1);
  EXPECT_EQ(variant(DType::q4_0_s16, 2048, 8192), variant_line_2_by_4);
  EXPECT_EQ(variant(DType::q8_0_s16, 1024, 3072), variant_line_1_by_2);
  EXPECT_EQ(variant(DType::q8_0_s16, 49152, 576), variant_line_4);
  EXPECT_EQ(launch_of(make(Op::matmul_glu_q, DType::q8_0_s16, 1, 1536, 576)).variant,
            variant_gate_1);
  EXPECT_EQ(launch_of(make(Op::matmul_glu_q, DType::q8_0_s16, 1, 8192, 2048)).variant,
            variant_gate_2);
}

TEST(MatmulCuda, NarrowRowsShareAWarp) {
  const Launch l = launch_of(make(Op::matmul, DType::q8_0_s16, 2, 49152, 576));  // 36 pieces
  EXPECT_EQ(value(l, matmul_team), 4u);
}

TEST(MatmulCuda, WhatWideLoadsCannotReachGoesToTheGeneralKernel) {
  EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_0_s16, 1, 64, 64, 16)).variant, variant_line_1);
  Dispatch odd = make(Op::matmul, DType::q4_0_s16, 1, 64, 64);
  odd.views[0].offset = 8;
  EXPECT_EQ(launch_of(odd).variant, variant_vector);
  for (const std::uint64_t offset : {2u, 6u, 74u}) {
    EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_0_s16, 1, 64, 64, offset)).variant, variant_any);
  }
  EXPECT_EQ(launch_of(make(Op::matmul, DType::f16, 1, 64, 33)).variant, variant_any);
  EXPECT_EQ(launch_of(make(Op::matmul, DType::f16, 1, 64, 40)).variant, variant_vector);
  // The only kernel of a format that is not packed is its first.
  EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_1, 1, 64, 64)).variant, 0u);
  EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_1, 1, 65, 64)).grid[0], 3u);
}

TEST(MatmulCuda, ManyRowsUseTheTensorCores) {
  const auto variant = [](DType format, std::uint32_t m, const DeviceInfo& device = h200()) {
    return launch_of(make(Op::matmul, format, m, 4096, 4096), device).variant;
  };
  EXPECT_EQ(variant(DType::q4_0_s16, 8), variant_rows);
  EXPECT_EQ(variant(DType::q4_0_s16, 9), variant_tile);
  EXPECT_EQ(variant(DType::f16, 9), variant_tile);
  DeviceInfo old = h200();
  old.features = 0;
  EXPECT_EQ(variant(DType::q4_0_s16, 9, old), variant_rows);
  EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_0_s16, 512, 4096, 4096)).group[0], 256u);
  EXPECT_EQ(launch_of(make(Op::matmul, DType::q4_0_s16, 512, 576, 576)).group[0], 64u);
  Dispatch odd = make(Op::matmul, DType::q4_0_s16, 16, 4096, 4096);
  odd.views[0].offset = 2;
  EXPECT_EQ(launch_of(odd).variant, variant_rows);
  odd = make(Op::matmul, DType::f16, 16, 4096, 4096);
  odd.views[0].offset = 8;
  EXPECT_EQ(launch_of(odd).variant, variant_rows);
}

TEST(MatmulCuda, NormedRowsKeepToTwoLargeBlocksPerProcessor) {
  for (const DType format : {DType::q4_0_s16, DType::q8_0_s16, DType::q6_k_s16}) {
    for (const Op op : {Op::norm_matmul, Op::norm_matmul_3, Op::norm_matmul_glu_q}) {
      for (const auto [n, k] : sizes) {
        if (k > norm_matmul_max_k) continue;
        const Launch l = launch_of(make_normed(op, format, n, k));
        const std::string text = std::string(name(format)) + " " + info(op).name + " " +
                                 std::to_string(n) + " x " + std::to_string(k);
        const bool gate = op == Op::norm_matmul_glu_q;
        EXPECT_EQ(l.variant >= variant_norm_gate_1, gate) << text;
        EXPECT_GE(l.variant, variant_norm_1) << text;
        const std::uint64_t outputs = matmul_line_rows(l.variant), warps = l.group[0] / 32;
        const std::uint64_t sets =
            gate ? n / 32 : (n + outputs - 1) / outputs * (op == Op::norm_matmul_3 ? 3 : 1);
        EXPECT_LE(l.grid[0], sets) << text;
        EXPECT_LE(std::uint64_t{l.grid[0]} * l.group[0], 132u * 1024u) << text;
        EXPECT_LE(l.group[0], l.variant == variant_norm_gate_1 ? 1024u : 512u) << text;
        EXPECT_EQ(l.group[0] % 32, 0u) << text;
        if (gate) {
          EXPECT_EQ(warps * outputs, 32u) << text;
        }
        // No processor without work while others have a second set.
        EXPECT_GE(l.grid[0], std::min<std::uint64_t>(sets, 132)) << text;
        EXPECT_EQ(l.shared_bytes, matmul_x_bytes(true, k)) << text;
        EXPECT_EQ(value(l, matmul_eps), std::bit_cast<std::uint32_t>(0.5f)) << text;
      }
    }
  }
  EXPECT_EQ(launch_of(make_normed(Op::norm_matmul_3, DType::q8_0_s16, 320, 576)).variant,
            variant_norm_1);
  EXPECT_EQ(launch_of(make_normed(Op::norm_matmul, DType::q8_0_s16, 49152, 576)).variant,
            variant_norm_4);
  EXPECT_EQ(launch_of(make_normed(Op::norm_matmul, DType::q4_0_s16, 128256, 4096)).variant,
            variant_norm_2);
}

TEST(MatmulCuda, NormedRowsThatTheKernelsCannotReadAreRefused) {
  const Dispatch good = make_normed(Op::norm_matmul_3, DType::q4_0_s16, 64, 64);
  Launch launch;
  ASSERT_TRUE(launch_matmul_cuda(h200(), good, launch));
  for (const std::size_t view : {0u, 1u, 2u, 3u, 10u}) {
    Dispatch d = good;
    d.views[view].offset = 8;
    const Status status = launch_matmul_cuda(h200(), d, launch);
    ASSERT_FALSE(status) << view;
    EXPECT_EQ(status.error().code, ErrorCode::unsupported) << view;
    d = good;
    d.views[view].bytes -= 1;
    EXPECT_FALSE(launch_matmul_cuda(h200(), d, launch)) << view;
  }
  Dispatch two = good;
  two.set_params(NormMatmul3Params{2, 64, 32, 32, 32, 0.5f});
  EXPECT_FALSE(launch_matmul_cuda(h200(), two, launch));
  EXPECT_FALSE(launch_matmul_cuda(
      h200(), make_normed(Op::norm_matmul, DType::q4_0_s16, 32, norm_matmul_max_k + 32), launch));
  EXPECT_FALSE(
      launch_matmul_cuda(h200(), make_normed(Op::norm_matmul, DType::f16, 32, 64), launch));
}

TEST(MatmulCuda, ExpertsAreChosenPairByPair) {
  const Launch l = launch_of(make(Op::matmul_id, DType::q4_0_s16, 7, 64, 64));
  EXPECT_EQ(l.variant, variant_vector);
  EXPECT_EQ(l.grid[1], 7u);
  EXPECT_EQ(value(l, matmul_rows), 1u);
  EXPECT_EQ(launch_of(make(Op::matmul_id, DType::q4_0_s16, 70000, 64, 64)).variant, variant_any);
}

TEST(MatmulCuda, NothingToDoIsAnEmptyGrid) {
  EXPECT_EQ(launch_of(make(Op::matmul, DType::f32, 1, 0, 32)).grid[0], 0u);
  EXPECT_EQ(launch_of(make(Op::matmul, DType::f32, 0, 8, 32)).grid[0], 0u);
}

TEST(MatmulCuda, ShortViewsAreRefused) {
  Dispatch d = make(Op::matmul, DType::q4_0_s16, 1, 64, 64);
  d.views[1].bytes -= 1;
  Launch launch;
  EXPECT_FALSE(launch_matmul_cuda(h200(), d, launch));
}

}  // namespace
}  // namespace onepass::ops::matmul_cuda_test
