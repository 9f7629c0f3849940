// Norms that products take in: where it happens, and that it stays close to the separate kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "quant/packed.h"
#include "quant/q4_0.h"
#include "support/cuda_emu/backend.h"

namespace onepass::norm_matmul_test {
namespace {

constexpr std::uint32_t k = 96, n = 64;

struct Options {
  std::uint32_t rows = 1;
  std::uint64_t x_offset = 0, weight_offset = 0;  // bytes
  bool in_place = false;                          // the product replaces x
  bool read_twice = false;                        // a second, other product of norm(x)
  bool close = true;
  std::uint32_t products = 1;  // with 4: a gate, stored as q8a
};

class NormMatmul : public ::testing::Test {
 public:
  // Runs a plan and returns its outputs.
  std::vector<float> run(const Device& device, Format format, const Options& o) {
    const GraphExecutor executor(device);
    std::vector<Buffer> kept;
    const auto memory = [&](Format type, const Shape& shape, std::uint64_t offset = 0) {
      kept.push_back(device.allocate(*storage_bytes(type, shape) + offset).value());
      return kept.back().tensor(type, shape, offset);
    };
    const auto values = [&](const Tensor& t, std::size_t count, float step) {
      std::vector<float> v(count);
      for (std::size_t i = 0; i < count; ++i) v[i] = std::sin(step * static_cast<float>(i + 1));
      EXPECT_TRUE(device.write_as<float>(t.view, v));
    };
    const Tensor x = memory(DType::f32, {o.rows, k}, o.x_offset);
    const Tensor norm = memory(DType::f32, {k});
    values(x, std::size_t{o.rows} * k, 0.7f);
    values(norm, k, 0.3f);
    const auto weight = [&](std::uint32_t rows) {
      std::vector<std::byte> blocks(std::size_t{rows} * k / 32 * sizeof(quant::BlockQ4_0));
      for (std::size_t i = 0; i < std::size_t{rows} * k / 32; ++i) {
        float v[32];
        for (std::size_t j = 0; j < 32; ++j) v[j] = std::cos(static_cast<float>(32 * i + j));
        quant::BlockQ4_0 block;
        quant::quantize(v, block);
        std::memcpy(blocks.data() + i * sizeof(block), &block, sizeof(block));
      }
      const Tensor t = memory(format, {rows, k}, o.weight_offset);
      std::vector<std::byte> packed(t.view.bytes);
      EXPECT_TRUE(quant::pack(format, rows, k, blocks, packed));
      EXPECT_TRUE(device.write(t.view, packed));
      return t;
    };

    GraphSession s = executor.begin_recorded();
    const Tensor normed = s.scratch(DType::f32, {o.rows, k});
    ops::rms_norm(s, {.x = x, .weight = norm, .out = normed});
    std::vector<Tensor> outs;
    for (std::uint32_t i = 0; i < std::min(o.products, 3u); ++i) {
      const std::uint32_t rows = o.products == 4 ? n : o.in_place ? k : n + 3 * i;
      outs.push_back(o.in_place        ? x
                     : o.products == 4 ? s.scratch(DType::f32, {o.rows, rows})
                                       : memory(DType::f32, {o.rows, rows}));
      if (o.products == 4 && i == 2) break;
      ops::matmul(s, {.x = normed, .weight = weight(rows), .out = outs.back()});
    }
    if (o.products == 4) {
      const Tensor q8a = memory(DType::q8a, {o.rows, n});
      ops::silu_mul(s, {.a = outs[0], .b = outs[1], .out = outs[2]});
      ops::quantize(s, {.x = outs[2], .out = q8a});
      const Tensor out = memory(DType::f32, {o.rows, n});
      ops::dequantize(s, {.x = q8a, .out = out});
      outs = {out};
    }
    if (o.read_twice) {
      const Tensor out = memory(DType::f32, {o.rows, k});
      ops::scale(s, {.x = normed, .out = out, .factor = 2.0f});
      outs.push_back(out);
    }
    Result<Plan> plan = s.compile({.close_fusions = o.close});
    EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
    if (!plan) return {};
    dispatches_ = plan->report().dispatches;
    EXPECT_TRUE(plan->run());
    std::vector<float> all;
    for (const Tensor& t : outs) {
      std::vector<float> v(t.shape.elements());
      EXPECT_TRUE(device.read_as<float>(t.view, v));
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  }

  std::uint32_t count(const Device& device, Format format, const Options& o) {
    run(device, format, o);
    return dispatches_;
  }

  std::uint32_t dispatches_ = 0;
  Device cuda_ = emu::open_cuda_emulator().value();
};

TEST_F(NormMatmul, IsOneKernelCloseToTheSeparateOnes) {
  for (const std::uint32_t products : {1u, 2u, 3u, 4u}) {
    Options o{.products = products};
    const std::vector<float> fused = run(cuda_, formats::q4_0_s16, o);
    EXPECT_EQ(dispatches_, products == 4 ? 2u : 1u) << products;
    o.close = false;
    const std::vector<float> separate = run(cuda_, formats::q4_0_s16, o);
    EXPECT_EQ(dispatches_, products == 4 ? 3u : 2u) << products;
    ASSERT_EQ(fused.size(), separate.size());
    float top = 0.0f;
    for (const float v : separate) top = std::max(top, std::fabs(v));
    for (std::size_t i = 0; i < fused.size(); ++i) {
      EXPECT_NEAR(fused[i], separate[i], 0.02f * top) << products << ", " << i;
    }
    EXPECT_EQ(run(cuda_, formats::q4_0_s16, {.products = products}), fused)
        << "the same bits again";
  }
}

TEST_F(NormMatmul, StaysAKernelOfItsOwnWhereTheFusedOneCouldNotRead) {
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.x_offset = 48, .weight_offset = 80}), 1u);
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.rows = 2}), 2u);
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.x_offset = 8}), 2u);
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.weight_offset = 2}), 2u);
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.in_place = true}), 2u);
  // The norm's result as f32 is wanted, too: it is stored beside what is quantized of it.
  EXPECT_EQ(count(cuda_, formats::q4_0_s16, {.read_twice = true}), 3u);
}

TEST_F(NormMatmul, HasNoKernelOnTheCpu) {
  const Device cpu = Device::open("cpu").value();
  EXPECT_EQ(count(cpu, formats::q4_0_r16, {}), 2u);
  EXPECT_EQ(count(cpu, formats::q4_0_r16, {.products = 3}), 2u);
}

}  // namespace
}  // namespace onepass::norm_matmul_test
