// A norm and a product in buffers of the caller's, fused and not, on any device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "onepass/ops.h"
#include "support/devices.h"

namespace onepass::test {

struct NormProduct {
  DType type = DType::f32;
  std::uint32_t rows = 2, dim = 7;
  bool in_place = false;      // the product over its input
  bool over_x = false;        // the norm over its input
  bool factor_first = false;  // factor * norm
  std::uint32_t times = 1;    // layers, which use the same buffer for their norms
};

struct NormProductResult {
  FinishReport report;
  std::vector<std::byte> norm, out;
};

inline NormProductResult run_norm_product(const Device& device, const NormProduct& c, bool fuse) {
  const Shape shape{c.rows, c.dim};
  const std::uint64_t bytes = *storage_bytes(c.type, shape);
  std::vector<Buffer> kept;
  const auto tensor = [&](unsigned seed, Shape s) {
    kept.push_back(*device.allocate(*storage_bytes(c.type, s)));
    std::vector<std::byte> values(kept.back().bytes());
    // Numbers of any of the types: small, positive and negative, no infinities.
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_top = i % info(c.type).block_bytes + 1 == info(c.type).block_bytes;
      values[i] =
          std::byte(is_top ? 0x3c + 0x80 * ((i / 4 + seed) % 2) : (i * 37 + seed * 11) % 256);
    }
    EXPECT_TRUE(device.write(kept.back().view(), values));
    return kept.back().tensor(c.type, s);
  };
  const Tensor weight = tensor(1, {c.dim}), norm = tensor(2, shape);
  Tensor out;
  GraphSession s = GraphExecutor(device).begin_recorded();
  for (std::uint32_t i = 0; i < c.times; ++i) {
    const Tensor x = tensor(3 + i, shape), factor = tensor(30 + i, shape);
    const Tensor normed = c.over_x ? x : norm;
    out = c.in_place ? normed : tensor(60 + i, shape);
    ops::rms_norm(s, {.x = x, .weight = weight, .out = normed});
    const Tensor a = c.factor_first ? factor : normed, b = c.factor_first ? normed : factor;
    ops::mul(s, {.a = a, .b = b, .out = out});
  }
  NormProductResult result;
  result.norm.resize(bytes);
  result.out.resize(bytes);
  auto report = s.finish({.fuse = fuse});
  EXPECT_TRUE(is_ok(report));
  if (report) result.report = *report;
  EXPECT_TRUE(device.read(norm.view, result.norm));
  EXPECT_TRUE(device.read(out.view, result.out));
  return result;
}

// One dispatch for each norm and its product, the same bytes in all buffers.
inline void expect_norm_product_fuses(const Device& device) {
  std::vector<NormProduct> all;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::uint32_t dim : {7u, 64u, 600u}) all.push_back({.type = type, .dim = dim});
  }
  all.push_back({.in_place = true});
  all.push_back({.over_x = true});
  all.push_back({.factor_first = true});
  all.push_back({.times = 3});
  all.push_back({.in_place = true, .times = 3});
  for (const NormProduct& c : all) {
    SCOPED_TRACE(std::string(name(c.type)) + " dim " + std::to_string(c.dim) + " times " +
                 std::to_string(c.times) + (c.in_place ? " in place" : ""));
    const NormProductResult apart = run_norm_product(device, c, false);
    const NormProductResult fused = run_norm_product(device, c, true);
    EXPECT_EQ(apart.report.dispatches, 2 * c.times);
    EXPECT_EQ(fused.report.dispatches, c.times);
    EXPECT_TRUE(fused.report.fused.kept.empty());
    EXPECT_EQ(fused.norm, apart.norm);
    EXPECT_EQ(fused.out, apart.out);
  }
}

}  // namespace onepass::test
