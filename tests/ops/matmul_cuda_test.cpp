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
#include "ops/products.h"

namespace onepass::ops::matmul_cuda_test {
namespace {

DeviceInfo h200() {
  DeviceInfo info;
  info.compute_units = 132;
  info.max_shared_bytes = 227u << 10;
  info.features = feature_bits(Feature::tensor_cores);
  return info;
}

enum class Kind { plain, three, gate, gate_q, experts };
const char* text_of(Kind kind) {
  constexpr const char* names[] = {"plain", "three", "gate", "gate_q", "experts"};
  return names[static_cast<std::size_t>(kind)];
}
bool is_gate(Kind kind) { return kind == Kind::gate || kind == Kind::gate_q; }

Dispatch make(Kind kind, Format format, std::uint32_t m, std::uint32_t n, std::uint32_t k,
              std::uint64_t weight_offset = 0, bool normed = false) {
  Dispatch d = make_dispatch(kind == Kind::experts ? Op::matmul_id : Op::matmul, format);
  const std::uint64_t w = matrix_bytes(format, n, k), out = matrix_bytes(DType::f32, m, n);
  const auto bind = [&](op_u32 slot, std::uint64_t bytes, std::uint64_t offset = 0) {
    while (d.n_views < slot) d.bind(View{});
    d.bind(View{{1, 1}, offset, bytes});
  };
  MatmulParams p = test::product(m, n, k);
  bind(matmul_x, normed ? std::uint64_t{4} * k : matrix_bytes(matmul_input(format), m, k));
  bind(matmul_weight(0), w, weight_offset);
  bind(matmul_out(0), kind == Kind::gate_q ? matrix_bytes(DType::q8a, m, n) : out);
  if (is_gate(kind)) {
    p = test::gate(m, n, k, 0, kind == Kind::gate_q ? form_quantized : 0);
    bind(matmul_weight(1), w);
  } else if (kind == Kind::three) {
    p = test::product(m, n, k, form_parts, n, n);
    for (const op_u32 part : {1u, 2u}) {
      bind(matmul_weight(part), w);
      bind(matmul_out(part), out);
    }
  }
  if (normed) {
    p.form |= form_normed;
    p.eps = 0.5f;
    bind(matmul_norm, std::uint64_t{4} * k);
  }
  if (kind == Kind::experts) {
    bind(matmul_ids, matrix_bytes(DType::u32, m, 1));
    d.set_params(MatmulIdParams{p, 1, 1, 0, 0, 0});
  } else {
    d.set_params(p);
  }
  return d;
}

// One normed row.
Dispatch make_normed(Kind kind, Format format, std::uint32_t n, std::uint32_t k) {
  return make(kind, format, 1, n, k, 0, true);
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

constexpr Format fast_formats[] = {
    formats::f32,      formats::f16,        formats::bf16,
    formats::q4_0_s16, formats::q8_0_s16,   formats::q4_k_s16,
    formats::q6_k_s16, formats::a4_f16_s16, formats::a8_bf16_s16,
};
struct Size {
  std::uint32_t n, k;
};
// Products of the models in the benchmarks, and odd ones.
constexpr Size sizes[] = {{3072, 768},  {3072, 2048}, {16384, 2048},  {2048, 8192},
                          {6144, 4096}, {4096, 4096}, {28672, 4096},  {4096, 14336},
                          {32, 256},    {96, 53248},  {128256, 4096}, {1536, 768}};

TEST(MatmulCuda, EveryLaunchCoversItsOutputsWithinTheLimits) {
  for (const Format format : fast_formats) {
    for (const Kind op : {Kind::plain, Kind::three, Kind::gate, Kind::gate_q}) {
      for (const std::uint32_t m : {1u, 2u, 3u, 8u, 33u}) {
        for (const auto [n, k] : sizes) {
          const Launch l = launch_of(make(op, format, m, n, k));
          const std::string text = std::string(name(format)) + " " + text_of(op) + " " +
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
            const std::uint64_t width = n * (op == Kind::three ? 3u : op == Kind::plain ? 1u : 2u);
            EXPECT_GE(std::uint64_t{l.grid[0]} * columns, width) << text;
            EXPECT_GE(l.grid[1] * (warps == 8 ? 128 : 64), m) << text;
            continue;
          }
          if (l.variant >= variant_line_1) {
            EXPECT_EQ(m, 1u) << text;
            const bool gate = is_gate(op);
            EXPECT_EQ(l.variant >= variant_gate_1, gate) << text;
            const std::uint32_t outputs = matmul_line_rows(l.variant);
            const std::uint32_t warps = matmul_line_warps(l.variant);
            const std::uint64_t sets = (n + outputs - 1) / outputs * (op == Kind::three ? 3 : 1);
            const std::uint64_t per_block = l.group[0] / (32 * warps);
            EXPECT_EQ(l.group[0] % (32 * warps), 0u) << text;
            EXPECT_LE(l.group[0], op == Kind::gate_q ? 1024u : 256u) << text;
            EXPECT_EQ(l.grid[0], (sets + per_block - 1) / per_block) << text;
            if (op == Kind::gate_q) {
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
          if (op == Kind::gate_q) {
            EXPECT_EQ(teams * rounds, 32u) << text;
          }
          // No block without work.
          const std::uint64_t sets = op == Kind::plain   ? (n + 1) / 2
                                     : op == Kind::three ? 3 * ((n + 1) / 2)
                                                         : n;
          EXPECT_LE(l.grid[0], (sets + teams * rounds - 1) / (teams * rounds)) << text;
        }
      }
    }
  }
}

// 16 bytes of each of two rows are on their way twice per thread.
TEST(MatmulCuda, DecodeKeepsEnoughBytesInFlight) {
  for (const Format format :
       {formats::q4_0_s16, formats::q8_0_s16, formats::q4_k_s16, formats::f16}) {
    for (const auto [n, k] : {Size{6144, 4096}, Size{4096, 4096}, Size{28672, 4096},
                              Size{4096, 14336}, Size{2048, 8192}, Size{128256, 4096}}) {
      const Launch l = launch_of(make(Kind::plain, format, 1, n, k));
      const std::uint64_t in_flight = std::uint64_t{l.grid[0]} * l.group[0] * 64;
      EXPECT_GE(in_flight, 4u << 20) << name(format) << " " << n << " x " << k;
    }
  }
  for (const std::uint32_t n : {8192u, 14336u}) {
    const Launch l = launch_of(make(Kind::gate_q, formats::q4_0_s16, 1, n, 4096));
    EXPECT_GE(std::uint64_t{l.grid[0]} * l.group[0] * 64, 4u << 20) << n;
  }
}

TEST(MatmulCuda, FewRowsAreSharedByWarpsManyShareAWarp) {
  const auto variant = [](Format format, std::uint32_t n, std::uint32_t k) {
    return launch_of(make(Kind::plain, format, 1, n, k)).variant;
  };
  EXPECT_EQ(variant(formats::q4_0_s16, 28672, 4096), variant_line_2);
  EXPECT_EQ(variant(formats::q4_0_s16, 4096, 4096), variant_line_2);
  EXPECT_EQ(variant(formats::q8_0_s16, 6144, 4096), variant_line_2_deep);
  EXPECT_EQ(variant(formats::q8_0_s16, 4096, 4096), variant_line_1);
  EXPECT_EQ(variant(formats::q4_0_s16, 4096, 14336), variant_line_1);
  EXPECT_EQ(variant(formats::q4_0_s16, 2048, 8192), variant_line_2_by_4);
  EXPECT_EQ(variant(formats::q8_0_s16, 1024, 3072), variant_line_1_by_2);
  EXPECT_EQ(variant(formats::q8_0_s16, 49152, 576), variant_line_4);
  EXPECT_EQ(launch_of(make(Kind::gate_q, formats::q8_0_s16, 1, 1536, 576)).variant, variant_gate_1);
  EXPECT_EQ(launch_of(make(Kind::gate_q, formats::q8_0_s16, 1, 8192, 2048)).variant,
            variant_gate_2);
}

TEST(MatmulCuda, NarrowRowsShareAWarp) {
  const Launch l = launch_of(make(Kind::plain, formats::q8_0_s16, 2, 49152, 576));  // 36 pieces
  EXPECT_EQ(value(l, matmul_team), 4u);
}

TEST(MatmulCuda, WhatWideLoadsCannotReachGoesToTheGeneralKernel) {
  EXPECT_EQ(launch_of(make(Kind::plain, formats::q4_0_s16, 1, 64, 64, 16)).variant, variant_line_1);
  Dispatch odd = make(Kind::plain, formats::q4_0_s16, 1, 64, 64);
  odd.views[0].offset = 8;
  EXPECT_EQ(launch_of(odd).variant, variant_vector);
  for (const std::uint64_t offset : {2u, 6u, 74u}) {
    EXPECT_EQ(launch_of(make(Kind::plain, formats::q4_0_s16, 1, 64, 64, offset)).variant,
              variant_any);
  }
  EXPECT_EQ(launch_of(make(Kind::plain, DType::f16, 1, 64, 33)).variant, variant_any);
  EXPECT_EQ(launch_of(make(Kind::plain, DType::f16, 1, 64, 40)).variant, variant_vector);
  // The only kernel of a format that is not packed is its first.
  EXPECT_EQ(launch_of(make(Kind::plain, DType::q4_1, 1, 64, 64)).variant, 0u);
  EXPECT_EQ(launch_of(make(Kind::plain, DType::q4_1, 1, 65, 64)).grid[0], 3u);
}

TEST(MatmulCuda, ManyRowsUseTheTensorCores) {
  const auto variant = [](Format format, std::uint32_t m, const DeviceInfo& device = h200()) {
    return launch_of(make(Kind::plain, format, m, 4096, 4096), device).variant;
  };
  EXPECT_EQ(variant(formats::q4_0_s16, 8), variant_rows);
  EXPECT_EQ(variant(formats::q4_0_s16, 9), variant_tile);
  EXPECT_EQ(variant(DType::f16, 9), variant_tile);
  DeviceInfo old = h200();
  old.features = 0;
  EXPECT_EQ(variant(formats::q4_0_s16, 9, old), variant_rows);
  EXPECT_EQ(launch_of(make(Kind::plain, formats::q4_0_s16, 512, 4096, 4096)).group[0], 256u);
  EXPECT_EQ(launch_of(make(Kind::plain, formats::q4_0_s16, 512, 576, 576)).group[0], 64u);
  Dispatch odd = make(Kind::plain, formats::q4_0_s16, 16, 4096, 4096);
  odd.views[0].offset = 2;
  EXPECT_EQ(launch_of(odd).variant, variant_rows);
  odd = make(Kind::plain, DType::f16, 16, 4096, 4096);
  odd.views[0].offset = 8;
  EXPECT_EQ(launch_of(odd).variant, variant_rows);
}

TEST(MatmulCuda, NormedRowsKeepToTwoLargeBlocksPerProcessor) {
  for (const Format format : {formats::q4_0_s16, formats::q8_0_s16, formats::q6_k_s16}) {
    for (const Kind op : {Kind::plain, Kind::three, Kind::gate_q}) {
      for (const auto [n, k] : sizes) {
        if (k > norm_matmul_max_k) continue;
        const Launch l = launch_of(make_normed(op, format, n, k));
        const std::string text = std::string(name(format)) + " " + text_of(op) + " " +
                                 std::to_string(n) + " x " + std::to_string(k);
        const bool gate = op == Kind::gate_q;
        EXPECT_EQ(l.variant >= variant_norm_gate_1, gate) << text;
        EXPECT_GE(l.variant, variant_norm_1) << text;
        const std::uint64_t outputs = matmul_line_rows(l.variant), warps = l.group[0] / 32;
        const std::uint64_t sets =
            gate ? n / 32 : (n + outputs - 1) / outputs * (op == Kind::three ? 3 : 1);
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
      }
    }
  }
  EXPECT_EQ(launch_of(make_normed(Kind::three, formats::q8_0_s16, 320, 576)).variant,
            variant_norm_1);
  EXPECT_EQ(launch_of(make_normed(Kind::plain, formats::q8_0_s16, 49152, 576)).variant,
            variant_norm_4);
  EXPECT_EQ(launch_of(make_normed(Kind::plain, formats::q4_0_s16, 128256, 4096)).variant,
            variant_norm_2);
}

TEST(MatmulCuda, NormedRowsThatTheKernelsCannotReadAreRefused) {
  const Dispatch good = make_normed(Kind::three, formats::q4_0_s16, 64, 64);
  ASSERT_TRUE(accepts_normed_matmul(h200(), good));
  for (const std::size_t view : {0u, 1u, 4u, 7u, 11u}) {
    Dispatch d = good;
    d.views[view].offset = 8;
    EXPECT_FALSE(accepts_normed_matmul(h200(), d)) << view;
    d = good;
    d.views[view].bytes -= 1;
    Launch launch;
    EXPECT_FALSE(launch_matmul_cuda(h200(), d, launch)) << view;
  }
  EXPECT_FALSE(
      accepts_normed_matmul(h200(), make(Kind::plain, formats::q4_0_s16, 2, 64, 64, 0, true)));
  EXPECT_FALSE(accepts_normed_matmul(
      h200(), make_normed(Kind::plain, formats::q4_0_s16, 32, norm_matmul_max_k + 32)));
  EXPECT_FALSE(accepts_normed_matmul(h200(), make_normed(Kind::gate, formats::q4_0_s16, 64, 64)));
}

TEST(MatmulCuda, ExpertsAreChosenPairByPair) {
  const Launch l = launch_of(make(Kind::experts, formats::q4_0_s16, 7, 64, 64));
  EXPECT_EQ(l.variant, variant_vector);
  EXPECT_EQ(l.grid[1], 7u);
  EXPECT_EQ(value(l, matmul_rows), 1u);
  EXPECT_EQ(launch_of(make(Kind::experts, formats::q4_0_s16, 70000, 64, 64)).variant, variant_any);
}

TEST(MatmulCuda, NothingToDoIsAnEmptyGrid) {
  EXPECT_EQ(launch_of(make(Kind::plain, DType::f32, 1, 0, 32)).grid[0], 0u);
  EXPECT_EQ(launch_of(make(Kind::plain, DType::f32, 0, 8, 32)).grid[0], 0u);
}

TEST(MatmulCuda, ShortViewsAreRefused) {
  Dispatch d = make(Kind::plain, formats::q4_0_s16, 1, 64, 64);
  d.views[1].bytes -= 1;
  Launch launch;
  EXPECT_FALSE(launch_matmul_cuda(h200(), d, launch));
}

}  // namespace
}  // namespace onepass::ops::matmul_cuda_test
