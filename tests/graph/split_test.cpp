// Weights and tables larger than one binding: the same bits, and no launch binds more than a
// device's limit.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "quant/packed.h"
#include "support/backends/shuffle.h"
#include "support/devices.h"

namespace onepass::test::split_test {
namespace {

constexpr std::uint64_t limit = 8192;

Device open_limited(std::uint64_t max_binding_bytes) {
  return open_with(std::make_unique<ShuffleBackend>(ShuffleOptions{
      .order = ShuffleOrder::random, .seed = 5, .max_binding_bytes = max_binding_bytes}));
}

// A pass on a device: buffers of reproducible numbers, and what comes out.
struct Bench {
  explicit Bench(Device d) : device(std::move(d)) {}

  Device device;
  std::mt19937 rng{7};
  std::vector<Buffer> buffers;

  Tensor fill(Format type, Shape shape, const std::vector<std::byte>& bytes) {
    buffers.push_back(*device.allocate(bytes.size()));
    EXPECT_TRUE(device.write(buffers.back().view(), bytes));
    return tensor(buffers.back().view(), type, shape);
  }
  Tensor floats(Shape shape) {
    std::vector<float> v(shape.elements());
    for (float& x : v) x = std::uniform_real_distribution<float>(-1.0f, 1.0f)(rng);
    const auto raw = std::as_bytes(std::span(v));
    return fill(DType::f32, shape, {raw.begin(), raw.end()});
  }
  Tensor ids(Shape shape, std::uint32_t below) {
    std::vector<std::uint32_t> v(shape.elements());
    for (std::uint32_t& x : v) x = static_cast<std::uint32_t>(rng() % below);
    const auto raw = std::as_bytes(std::span(v));
    return fill(DType::u32, shape, {raw.begin(), raw.end()});
  }
  // Scales of blocks stay finite: every byte is below 0x38.
  Tensor weights(Format type, Shape shape) {
    if (type == DType::f32) return floats(shape);
    std::vector<std::byte> v(*storage_bytes(type, shape));
    for (std::byte& b : v) b = static_cast<std::byte>(rng() % 0x38);
    return fill(type, shape, v);
  }
  Tensor out(Shape shape) {
    return fill(DType::f32, shape, std::vector<std::byte>(4 * shape.elements(), std::byte{0x7f}));
  }
};

struct Run {
  std::vector<float> values;
  std::size_t launches = 0;
  std::uint64_t largest = 0;  // view of any launch
};

using Record = std::function<Tensor(Bench&, GraphSession&)>;

Run run(std::uint64_t max_binding_bytes, const Record& record) {
  Bench bench(open_limited(max_binding_bytes));
  const GraphExecutor executor(bench.device);
  GraphSession s = executor.begin_recorded();
  const Tensor out = record(bench, s);
  const auto plan = s.compile();
  Run r;
  EXPECT_TRUE(plan) << plan.error().to_string();
  if (!plan) return r;
  EXPECT_TRUE(plan->run());
  r.values.resize(out.shape.elements());
  EXPECT_TRUE(bench.device.read_as<float>(out.view, r.values));
  for (const RecordedLaunch& l : plan->state().pass->recording.launches) {
    ++r.launches;
    for (std::size_t v = 0; v < l.n_views; ++v) r.largest = std::max(r.largest, l.views[v].bytes);
  }
  return r;
}

void expect_same(const std::string& what, const Record& record) {
  const Run whole = run(~std::uint64_t{0}, record), split = run(limit, record);
  EXPECT_GT(whole.largest, limit) << what;
  EXPECT_LE(split.largest, limit) << what;
  EXPECT_GT(split.launches, whole.launches) << what;
  ASSERT_EQ(whole.values.size(), split.values.size()) << what;
  for (std::size_t i = 0; i < whole.values.size(); ++i) {
    ASSERT_EQ(whole.values[i], split.values[i]) << what << ", " << i;
  }
}

TEST(Split, ProductsOfLargeWeights) {
  for (const Format type : {formats::f32, formats::q8_0, formats::q4_0_r16, formats::q6_k_r16}) {
    for (const std::uint32_t m : {1u, 5u}) {
      // 200 rows: not a whole number of groups of 16.
      expect_same(std::string(name(type)) + ", m " + std::to_string(m), [&](Bench& b,
                                                                            GraphSession& s) {
        const std::uint32_t k = 256;
        const Tensor out = b.out({m, 200});
        ops::matmul(s, {.x = b.floats({m, k}), .weight = b.weights(type, {200, k}), .out = out});
        return out;
      });
    }
  }
}

TEST(Split, ProductsAreNotMergedBeyondTheLimit) {
  expect_same("bias and residual", [](Bench& b, GraphSession& s) {
    const Tensor x = b.floats({1, 64}), y = s.scratch(DType::f32, {1, 300});
    const Tensor out = b.out({1, 300});
    ops::matmul(s, {.x = x, .weight = b.floats({300, 64}), .out = y});
    ops::add(s, {.a = y, .b = b.floats({1, 300}), .out = out});
    return out;
  });
}

TEST(Split, AffineProducts) {
  for (const std::uint32_t m : {1u, 3u}) {
    expect_same("affine, m " + std::to_string(m), [&](Bench& b, GraphSession& s) {
      const std::uint32_t k = 256, n = 150;
      const Tensor out = b.out({m, n});
      ops::matmul_affine(s, {.x = b.floats({m, k}),
                             .weight = b.ids({n, k * 4 / 32}, ~0u),
                             .scales = b.floats({n, k / 64}),
                             .biases = b.floats({n, k / 64}),
                             .out = out,
                             .bits = 4,
                             .group_size = 64});
      return out;
    });
  }
}

TEST(Split, ProductsOfExperts) {
  for (const Format type : {formats::f32, formats::q4_0_r16}) {
    for (const std::uint32_t tokens : {1u, 9u}) {
      // One in nine ids names no expert.
      expect_same(std::string("experts ") + name(type) + ", " + std::to_string(tokens),
                  [&](Bench& b, GraphSession& s) {
                    const std::uint32_t used = 2, experts = 8, n = 32, k = 64;
                    const Tensor out = b.out({tokens, used, n});
                    ops::matmul_id(s, {.x = b.floats({tokens, k}),
                                       .weight = b.weights(type, {experts, n, k}),
                                       .ids = b.ids({tokens, used}, experts + 1),
                                       .out = out});
                    return out;
                  });
    }
  }
}

TEST(Split, TablesOfTokens) {
  for (const Format type : {formats::f32, formats::q8_0, formats::q4_0_r16}) {
    expect_same(std::string("embed ") + name(type), [&](Bench& b, GraphSession& s) {
      const Tensor out = b.out({7, 64});
      ops::embed(s, {.table = b.weights(type, {500, 64}),
                     .out = out,
                     .tokens = b.ids({7}, 560).view,
                     .tokens_are_u32 = true,
                     .scale = 2.0f});
      return out;
    });
  }
  expect_same("embed affine", [](Bench& b, GraphSession& s) {
    const Tensor out = b.out({6, 128});
    ops::embed_affine(s, {.weight = b.ids({300, 16}, ~0u),
                          .scales = b.floats({300, 2}),
                          .biases = b.floats({300, 2}),
                          .out = out,
                          .tokens = b.ids({6}, 320).view,
                          .tokens_are_u32 = true,
                          .bits = 4,
                          .group_size = 64});
    return out;
  });
}

TEST(Split, RowsThatAreGathered) {
  expect_same("gather", [](Bench& b, GraphSession& s) {
    const Tensor out = b.out({9, 40});
    ops::gather(s, {.x = b.floats({200, 40}), .indices = b.ids({9}, 230), .out = out});
    return out;
  });
}

TEST(Split, WhatCannotBeSplitIsRefused) {
  Bench b(open_limited(limit));
  const GraphExecutor executor(b.device);
  GraphSession s = executor.begin_recorded();
  const Tensor x = b.floats({4096}), out = b.out({4096});
  ops::add(s, {.a = x, .b = x, .out = out});
  const auto plan = s.compile();
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::limit);
  EXPECT_NE(plan.error().message.find("view 0 has 16384 bytes, one binding holds 8192"),
            std::string::npos)
      << plan.error().message;
}

// In a direct session, too, where the parts stand between the session's own barriers.
TEST(Split, InASessionThatRunsAtOnce) {
  std::vector<float> expected;
  for (const std::uint64_t max : {~std::uint64_t{0}, limit}) {
    for (const Barriers barriers : {Barriers::automatic, Barriers::manual}) {
      Bench b(open_with(std::make_unique<ShuffleBackend>(ShuffleOptions{
                            .order = ShuffleOrder::random, .max_binding_bytes = max}),
                        {.barriers = barriers}));
      const GraphExecutor executor(b.device);
      GraphSession s = executor.begin();
      const Tensor out = b.out({4, 200});
      ops::matmul(s, {.x = b.floats({4, 256}),
                      .weight = b.weights(formats::q4_0_r16, {200, 256}),
                      .out = out});
      ASSERT_TRUE(s.finish());
      std::vector<float> got(out.shape.elements());
      ASSERT_TRUE(b.device.read_as<float>(out.view, got));
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected);
    }
  }
}

}  // namespace
}  // namespace onepass::test::split_test
