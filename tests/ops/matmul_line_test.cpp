// Every kernel for one row of x, on rows longer than its first loads and on counts of rows that
// fill neither its sets nor its blocks.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

// The language of the kernel headers below.
// clang-format off
#include "support/cuda_emu/kernel.h"
// clang-format on

#include "ops/matmul/launch_cuda.h"
#include "ops/products.h"
#include "quant/split.h"
#include "support/float64.h"

namespace onepass::ops::matmul_line_test {
namespace {

constexpr const char* names[] = {
    "line_1", "line_2", "line_2_deep", "line_4", "line_1_by_2", "line_2_by_4", "gate_1",
    "gate_2", "norm_1", "norm_2",      "norm_4", "norm_gate_1", "norm_gate_2"};
constexpr float eps = 1e-5f;

struct Aligned {
  alignas(16) std::uint8_t bytes[16];
};
using Bytes = std::vector<Aligned>;
std::uint8_t* data(Bytes& b) { return b.front().bytes; }

template <class Split>
class Case {
 public:
  Case(const char* format, std::uint32_t k) : format_(format), k_(k), x_(k / 32 * 40 / 16 + 1) {
    for (std::uint32_t i = 0; i < k; ++i) {
      data(x_)[i] = static_cast<std::uint8_t>(static_cast<int>(random_() % 255) - 127);
    }
    for (std::uint32_t b = 0; b < k / 32; ++b) {
      const float d = 0.01f * static_cast<float>(1 + random_() % 9);
      std::int16_t sums[2] = {};
      for (std::uint32_t i = 0; i < 32; ++i) {
        const int q = static_cast<std::int8_t>(data(x_)[32 * b + i]);
        values_.push_back(static_cast<double>(d) * q);
        sums[i / 16] = static_cast<std::int16_t>(sums[i / 16] + q);
      }
      std::memcpy(data(x_) + k + 8 * b, &d, 4);
      std::memcpy(data(x_) + k + 8 * b + 4, sums, 4);
    }
  }

  // x and the weight of a norm, and what their product is as q8a, times the norm's factor. A block
  // of x is zero.
  void use_norm() {
    x_ = Bytes(k_ / 4);
    norm_ = Bytes(k_ / 4);
    values_.clear();
    auto* x = reinterpret_cast<float*>(data(x_));
    auto* w = reinterpret_cast<float*>(data(norm_));
    for (std::uint32_t i = 0; i < k_; ++i) {
      x[i] =
          i / 32 == 1 ? 0.0f : static_cast<float>(static_cast<int>(random_() % 2001) - 1000) / 64;
      w[i] = static_cast<float>(random_() % 1000) / 500;
    }
    const double factor = test::rms_factor(std::span(x, k_), static_cast<double>(eps));
    for (std::uint32_t b = 0; b < k_; b += 32) {
      float top = 0.0f;
      for (std::uint32_t i = b; i < b + 32; ++i) top = std::max(top, std::fabs(x[i] * w[i]));
      const float d = top / 127.0f, inverse = d > 0.0f ? 1.0f / d : 0.0f;
      for (std::uint32_t i = b; i < b + 32; ++i) {
        const float q = std::nearbyint(std::clamp(x[i] * w[i] * inverse, -127.0f, 127.0f));
        values_.push_back(static_cast<double>(d) * static_cast<double>(q) * factor);
      }
    }
  }

  // Random numbers; scales of about a hundredth.
  Bytes weights(std::uint32_t n) {
    const std::uint64_t group = quant::split_group_bytes<Split>(k_), groups = (n + 15) / 16;
    Bytes w(static_cast<std::size_t>(group * groups / 16));
    const std::uint64_t scales = Split::scales(k_, 0);
    for (std::uint64_t i = 0; i < group * groups; i += 2) {
      std::uint16_t v = static_cast<std::uint16_t>(random_());
      if (i % group >= scales) v = static_cast<std::uint16_t>(0x2000 + v % 0x400);
      std::memcpy(data(w) + i, &v, 2);
    }
    return w;
  }

  double product(Bytes& w, std::uint32_t row, double& size) const {
    double sum = 0;
    for (std::uint32_t b = 0; b < k_ / 32; ++b) {
      float values[32];
      quant::split_block<Split>(data(w), k_, row, b, values);
      for (std::uint32_t i = 0; i < 32; ++i) {
        sum += static_cast<double>(values[i]) * values_[32 * b + i];
        size += std::fabs(static_cast<double>(values[i]) * values_[32 * b + i]);
      }
    }
    return sum;
  }

  // Two products beside each other, the second with a bias.
  struct Pair {
    std::uint32_t n[2];
    Bytes w[2];
    std::vector<float> out[2], bias;
    CudaArgs args{};
  };
  void set_up(Pair& pair, std::uint32_t n0, std::uint32_t n1) {
    pair.n[0] = n0;
    pair.n[1] = n1;
    pair.bias.resize(n1);
    bind(pair.args, matmul_x, data(x_), x_.size() * 16);
    for (op_u32 p = 0; p < 2; ++p) {
      pair.w[p] = weights(pair.n[p]);
      pair.out[p].assign(pair.n[p] + 4, -7.0f);
      bind(pair.args, matmul_weight(p), data(pair.w[p]), pair.w[p].size() * 16);
      bind(pair.args, matmul_out(p), pair.out[p].data(), pair.n[p] * 4);
    }
    for (float& b : pair.bias) b = static_cast<float>(random_() % 100);
    bind(pair.args, matmul_bias(1), pair.bias.data(), n1 * 4);
  }

  void check_line(std::uint32_t variant, std::uint32_t threads, std::uint32_t n0,
                  std::uint32_t n1) {
    Pair pair;
    set_up(pair, n0, n1);
    auto& [n, w, out, bias, args] = pair;
    set_params(args, test::product(1, n0, k_, form_parts | form_bias, n1));
    const std::uint32_t rows = matmul_line_rows(variant), warps = matmul_line_warps(variant);
    const std::uint32_t sets = (n0 + rows - 1) / rows + (n1 + rows - 1) / rows;
    run(args, variant, (sets * 32 * warps + threads - 1) / threads, threads);
    for (int p = 0; p < 2; ++p) {
      for (std::uint32_t i = 0; i < n[p]; ++i) {
        double size = 0;
        const double wanted = product(w[p], i, size) + static_cast<double>(p == 1 ? bias[i] : 0.0f);
        ASSERT_NEAR(out[p][i], wanted, 1e-6 * (size + 100))
            << text_ << " part " << p << " row " << i;
      }
      for (std::uint32_t i = n[p]; i < out[p].size(); ++i) EXPECT_EQ(out[p][i], -7.0f) << text_;
    }
  }

  void check_norm(std::uint32_t variant, std::uint32_t blocks, std::uint32_t threads,
                  std::uint32_t n0, std::uint32_t n1) {
    Pair pair;
    set_up(pair, n0, n1);
    auto& [n, w, out, bias, args] = pair;
    bind(args, matmul_norm, data(norm_), norm_.size() * 16);
    set_params(args, test::product(1, n0, k_, form_parts | form_bias | form_normed, n1));
    run(args, variant, blocks, threads);
    for (int p = 0; p < 2; ++p) {
      for (std::uint32_t i = 0; i < n[p]; ++i) {
        double size = 0;
        const double wanted = product(w[p], i, size) + static_cast<double>(p == 1 ? bias[i] : 0.0f);
        ASSERT_NEAR(out[p][i], wanted, 2e-6 * (size + 100))
            << text_ << " part " << p << " row " << i;
      }
      for (std::uint32_t i = n[p]; i < out[p].size(); ++i) EXPECT_EQ(out[p][i], -7.0f) << text_;
    }
  }

  // Several rounds of 32 columns; the output is q8a.
  void check_norm_gate(std::uint32_t variant, std::uint32_t blocks, std::uint32_t n) {
    Bytes w[2] = {weights(n), weights(n)}, out(n / 32 * 40 / 8 + 2);
    for (Aligned& a : out) std::fill(std::begin(a.bytes), std::end(a.bytes), 0xee);
    CudaArgs args{};
    bind(args, matmul_x, data(x_), x_.size() * 16);
    bind(args, matmul_weight(0), data(w[0]), w[0].size() * 16);
    bind(args, matmul_weight(1), data(w[1]), w[1].size() * 16);
    bind(args, matmul_out(0), data(out), n / 32 * 40);
    bind(args, matmul_norm, data(norm_), norm_.size() * 16);
    set_params(args, test::gate(1, n, k_, 0, form_quantized | form_normed));
    run(args, variant, blocks, 1024 / matmul_line_rows(variant));
    for (std::uint32_t i = 0; i < n; ++i) {
      double size = 0, other = 0;
      const double gate = product(w[0], i, size), up = product(w[1], i, other);
      const double wanted = gate / (1 + std::exp(-gate)) * up;
      float d;
      std::memcpy(&d, data(out) + n + i / 32 * 8, 4);
      const double got = static_cast<double>(d) * static_cast<std::int8_t>(data(out)[i]);
      ASSERT_NEAR(got, wanted, 0.501 * static_cast<double>(d) + 2e-6 * (size + 1) * (other + 1))
          << text_ << " column " << i;
    }
    EXPECT_EQ(data(out)[n / 32 * 40], 0xee) << text_;
  }

  void check_gate(std::uint32_t variant, std::uint32_t threads, std::uint32_t n) {
    Bytes w[2] = {weights(n), weights(n)};
    std::vector<float> out(n + 4, -7.0f);
    CudaArgs args{};
    bind(args, matmul_x, data(x_), x_.size() * 16);
    bind(args, matmul_weight(0), data(w[0]), w[0].size() * 16);
    bind(args, matmul_weight(1), data(w[1]), w[1].size() * 16);
    bind(args, matmul_out(0), out.data(), n * 4);
    set_params(args, test::gate(1, n, k_));
    const std::uint32_t per_block = matmul_line_rows(variant) * threads / 32;
    run(args, variant, (n + per_block - 1) / per_block, threads);
    for (std::uint32_t i = 0; i < n; ++i) {
      double size = 0, other = 0;
      const double gate = product(w[0], i, size), up = product(w[1], i, other);
      const double wanted = gate / (1 + std::exp(-gate)) * up;
      ASSERT_NEAR(out[i], wanted, 1e-6 * (size + 1) * (other + 1)) << text_ << " column " << i;
    }
    for (std::uint32_t i = n; i < out.size(); ++i) EXPECT_EQ(out[i], -7.0f) << text_;
  }

 private:
  static void set_params(CudaArgs& args, MatmulParams params) {
    params.eps = eps;
    std::memcpy(args.params, &params, sizeof params);
  }
  static void bind(CudaArgs& args, op_u32 view, void* p, std::uint64_t bytes) {
    args.views[view] = p;
    args.bytes[view] = bytes;
  }

  void run(CudaArgs& args, std::uint32_t variant, std::uint32_t blocks, std::uint32_t threads) {
    const bool normed = variant >= variant_norm_1;
    const std::uint32_t early =
        1u << matmul_weight(0) | 1u << matmul_weight(1) | (normed ? 1u << matmul_norm : 0u);
    const std::string symbol = "matmul_" + format_ + "_" + names[variant - variant_line_1];
    text_ = symbol + " k " + std::to_string(k_) + " threads " + std::to_string(threads);
    const auto kernel = reinterpret_cast<emu::KernelFn>(dlsym(RTLD_DEFAULT, symbol.c_str()));
    ASSERT_NE(kernel, nullptr) << symbol;
    EXPECT_EQ(emu::run_kernel(kernel, args,
                              {.name = symbol.c_str(),
                               .grid = {blocks, 1, 1},
                               .group = {threads, 1, 1},
                               .shared_bytes = normed ? matmul_x_bytes(true, k_) : 0,
                               .waits_first = true,
                               .reads_early = early,
                               .n_views = matmul_norm + 1}),
              "")
        << text_;
  }

  std::string format_, text_;
  std::uint32_t k_;
  Bytes x_, norm_;
  std::vector<double> values_;
  std::minstd_rand random_{5};
};

template <class Split>
void check_format(const char* format) {
  for (const std::uint32_t k : {64u, 1088u, 9280u}) {
    Case<Split> c(format, k);
    for (std::uint32_t v = variant_line_1; v <= variant_line_2_by_4; ++v) {
      c.check_line(v, 256, 37, 19);
      c.check_line(v, 128, 5, 18);
    }
    for (const std::uint32_t v : {variant_gate_1, variant_gate_2}) {
      c.check_gate(v, 256, 37);
    }
    c.use_norm();
    for (std::uint32_t v = variant_norm_1; v <= variant_norm_4; ++v) {
      c.check_norm(v, 1, 32, 5, 9);     // one warp does it all
      c.check_norm(v, 3, 192, 37, 19);  // some warps have several sets, some none
      c.check_norm(v, 2, 512, 5, 18);
    }
    for (const std::uint32_t v : {variant_norm_gate_1, variant_norm_gate_2}) {
      c.check_norm_gate(v, 1, 32);
      c.check_norm_gate(v, 2, 160);
    }
  }
}

TEST(MatmulLine, EveryKernelOfQ4_0) { check_format<quant::SplitQ4_0>("q4_0_s16"); }
TEST(MatmulLine, EveryKernelOfQ8_0) { check_format<quant::SplitQ8_0>("q8_0_s16"); }
TEST(MatmulLine, EveryKernelOfA4) { check_format<quant::SplitA4F16>("a4_f16_s16"); }
TEST(MatmulLine, EveryKernelOfA8) { check_format<quant::SplitA8F16>("a8_f16_s16"); }

}  // namespace
}  // namespace onepass::ops::matmul_line_test
