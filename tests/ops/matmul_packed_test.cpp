#include <cstring>
#include <functional>
#include <random>

#include "core/features.h"
#include "kernel_harness.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "ops/matmul/kernels.h"
#include "ops/products.h"
#include "ops/quantize/params.h"
#include "packed_rows.h"

namespace onepass::test::matmul_packed_test {
namespace {

constexpr std::uint32_t avx2 = feature_bits(Feature::avx2);
// Masks of the instruction sets below the machine's best.
const std::uint32_t feature_sets[] = {~0u, avx2, 0u};

struct Weights {
  Format type;
  std::vector<std::byte> packed;
  std::vector<float> values;
};

// Every packed format with a matrix of it.
std::vector<Weights> every_format(std::uint32_t n, std::uint32_t k, unsigned seed) {
  std::vector<Weights> all;
  for (DType native : packable_types) {
    NativeRows m = random_rows(native, n, k, seed);
    all.push_back(
        {Format{native, Layout::r16}, pack_matrix(native, n, k, m.bytes), std::move(m.values)});
  }
  for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    for (DType type : {DType::f32, DType::f16, DType::bf16}) {
      const std::uint32_t group = 32u << bits % 2u;
      AffineMatrix m = random_affine(bits, group, type, n, k, seed);
      const Format packed{quant::affine_type(bits, group, type).value(), Layout::r16};
      std::vector<std::byte> p(storage_bytes(packed, n, k).value());
      EXPECT_TRUE(quant::pack_affine(m.rows(), packed, n, k, p).has_value());
      all.push_back({packed, std::move(p), std::move(m.values)});
    }
  }
  return all;
}

std::vector<std::byte> as_bytes(const std::vector<float>& x) {
  std::vector<std::byte> bytes(x.size() * 4);
  std::memcpy(bytes.data(), x.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> quantized(const std::vector<float>& x, std::uint32_t rows,
                                 std::uint32_t features = ~0u) {
  const auto cols = static_cast<std::uint32_t>(x.size() / rows);
  KernelRun run(Op::quantize, DType::q8a, features);
  run.params(ops::QuantizeParams{rows, cols}).in(x).out(x.size() / 32 * 40).run();
  return run.get<std::byte>(1);
}

// What the kernel of this format reads as x.
std::vector<std::byte> input_for(Format type, const std::vector<float>& x, std::uint32_t rows) {
  return find_row(Op::matmul, type)->input == DType::q8a ? quantized(x, rows) : as_bytes(x);
}

std::vector<float> matmul(const Weights& w, const std::vector<float>& x, std::uint32_t m,
                          std::uint32_t n, std::uint32_t k, std::uint32_t features = ~0u) {
  KernelRun run(Op::matmul, w.type, features);
  run.params(product(m, n, k)).in(input_for(w.type, x, m)).in(w.packed);
  run.out(std::size_t{m} * n * 4).run();
  return run.get<float>(2);
}

// Begins of the blocks of weight rows that a product with m rows is cut into, and their end.
std::vector<std::size_t> block_begins(std::uint32_t workers, std::uint32_t m, std::uint32_t n,
                                      std::uint32_t k) {
  DeviceInfo device;
  device.compute_units = workers;
  Dispatch d;
  d.op = Op::matmul;
  d.format = formats::q4_0_r16;
  d.n_views = 3;
  d.views[0].bytes = std::uint64_t{m} * k / 32 * 40;
  d.views[1].bytes = storage_bytes(formats::q4_0_r16, n, k).value();
  d.views[2].bytes = std::uint64_t{m} * n * 4;
  const ops::MatmulParams params = product(m, n, k);
  std::memcpy(d.params.data(), &params, sizeof params);
  Launch launch;
  EXPECT_TRUE(ops::launch_matmul(device, d, launch).has_value());
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i <= std::size_t{launch.grid[0]} * launch.grid[2]; ++i) {
    begins.push_back(ops::matmul_block_begin(launch, i, (n + 15) / 16));
  }
  return begins;
}

TEST(MatmulPacked, BlocksCoverTheWeightsOnceWhateverTheWorkers) {
  for (const std::uint32_t workers : {0u, 1u, 2u, 3u, 7u, 64u, 1000u}) {
    for (const std::uint32_t n : {1u, 16u, 17u, 96u, 576u, 4096u, 151936u}) {
      for (const std::uint32_t k : {32u, 1024u, 8192u}) {
        for (const std::uint32_t m : {1u, 8u, 9u}) {
          const std::vector<std::size_t> begins = block_begins(workers, m, n, k);
          EXPECT_EQ(begins.front(), 0u);
          EXPECT_EQ(begins.back(), (n + 15) / 16);
          for (std::size_t i = 1; i < begins.size(); ++i) {
            ASSERT_LT(begins[i - 1], begins[i]) << workers << ' ' << n << ' ' << k << ' ' << m;
          }
        }
      }
    }
  }
}

TEST(MatmulPacked, BlocksOfFewRowsBecomeSmaller) {
  const std::vector<std::size_t> begins = block_begins(2, 1, 4096, 1024);
  EXPECT_EQ(begins, (std::vector<std::size_t>{0, 64, 128, 160, 192, 208, 224, 232, 240, 244, 248,
                                              250, 252, 254, 256}));
}

TEST(Quantize, BlocksHoldTheNearestNumbersAndTheirSums) {
  const std::uint32_t rows = 9, cols = 352;
  std::vector<float> x = random_floats(rows * cols, 1, 3.0f);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  std::fill_n(x.begin() + 64, 32, -2.0f);
  for (std::size_t i = 0; i < 32; ++i) x[96 + i] = (static_cast<float>(i) - 15.5f) * 0.5f;
  x[96] = 127.0f;  // the others of this block are ties and integers
  const std::vector<std::byte> q = quantized(x, rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::byte* row = q.data() + std::size_t{r} * cols / 32 * 40;
    for (std::uint32_t b = 0; b < cols / 32; ++b) {
      const float* values = x.data() + r * cols + b * 32;
      float largest = 0;
      for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[i]));
      float d;
      std::int16_t sums[2], expected[2] = {};
      std::memcpy(&d, row + cols + 8 * b, 4);
      std::memcpy(sums, row + cols + 8 * b + 4, 4);
      EXPECT_EQ(d, largest / 127.0f);
      for (int i = 0; i < 32; ++i) {
        const auto number = static_cast<std::int8_t>(row[32 * b + static_cast<std::uint32_t>(i)]);
        const float t = d > 0 ? values[i] * (1.0f / d) : 0.0f;
        EXPECT_EQ(static_cast<float>(number), std::nearbyint(t)) << values[i];
        expected[i / 16] = static_cast<std::int16_t>(expected[i / 16] + number);
      }
      EXPECT_EQ(sums[0], expected[0]);
      EXPECT_EQ(sums[1], expected[1]);
    }
  }
}

TEST(Quantize, EveryInstructionSetGivesTheSameBytesAlsoOfOddValues) {
  std::mt19937 g(4);
  std::vector<float> x = random_floats(64 * 96, 5, 100.0f);
  for (float& v : x) {
    if (g() % 50 == 0) v = ops::op_from_bits(static_cast<std::uint32_t>(g()));
  }
  const std::vector<std::byte> best = quantized(x, 64);
  for (std::uint32_t features : feature_sets) {
    const std::vector<std::byte> got = quantized(x, 64, features);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t in_row = i % (96 / 32 * 40);
      if (in_row >= 96 && (in_row - 96) % 8 < 4) continue;  // d, which may be a NaN
      ASSERT_EQ(got[i], best[i]) << i;
    }
  }
}

TEST(MatmulPacked, MatchesDoubleWithinTheStepOfTheActivations) {
  const std::uint32_t n = 37, k = 768;
  for (const Weights& w : every_format(n, k, 7)) {
    for (std::uint32_t m : {1u, 2u, 7u, 33u}) {
      const std::vector<float> x = random_floats(std::size_t{m} * k, m);
      const std::vector<float> got = matmul(w, x, m, n, k);
      const bool rounded = find_row(Op::matmul, w.type)->input == DType::q8a;
      for (std::uint32_t r = 0; r < m; ++r) {
        for (std::uint32_t c = 0; c < n; ++c) {
          double want = 0, bound = 0, magnitude = 0;
          for (std::uint32_t b = 0; b < k; b += 32) {
            double largest = 0;
            for (std::uint32_t i = b; i < b + 32; ++i) {
              largest = std::max(largest, std::abs(f64(x[r * k + i])));
            }
            for (std::uint32_t i = b; i < b + 32; ++i) {
              const double weight = f64(w.values[c * k + i]);
              want += f64(x[r * k + i]) * weight;
              magnitude += std::abs(f64(x[r * k + i]) * weight);
              if (rounded) bound += largest / 127.0 * 0.5001 * std::abs(weight);
            }
          }
          // Terms that cancel, as scale and minimum of q4_k, may be larger than the products.
          bound += k * 0x1p-24 * (rounded ? 30.0 : 1.0) * magnitude + 1e-5;
          ASSERT_NEAR(f64(got[r * n + c]), want, bound) << name(w.type) << " " << r << ", " << c;
        }
      }
    }
  }
}

// The double sum of the quantized activations leaves only roundings of f32.
TEST(MatmulPacked, MatchesDoubleOfTheQuantizedActivations) {
  const std::uint32_t m = 3, n = 48, k = 512;
  for (const Weights& w : every_format(n, k, 8)) {
    if (find_row(Op::matmul, w.type)->input != DType::q8a) continue;
    const std::vector<float> x = random_floats(std::size_t{m} * k, m);
    const std::vector<std::byte> q = quantized(x, m);
    const std::vector<float> got = matmul(w, x, m, n, k);
    for (std::uint32_t r = 0; r < m; ++r) {
      const std::byte* row = q.data() + r * k / 32 * 40;
      for (std::uint32_t c = 0; c < n; ++c) {
        double want = 0, magnitude = 0;
        for (std::uint32_t i = 0; i < k; ++i) {
          float d;
          std::memcpy(&d, row + k + i / 32 * 8, 4);
          const double term = f64(d) * static_cast<int>(static_cast<std::int8_t>(row[i])) *
                              f64(w.values[c * k + i]);
          want += term;
          magnitude += std::abs(term);
        }
        ASSERT_NEAR(f64(got[r * n + c]), want, 2e-5 * magnitude + 1e-5)
            << name(w.type) << " " << r << ", " << c;
      }
    }
  }
}

TEST(MatmulPacked, EveryInstructionSetGivesTheSameBits) {
  for (std::uint32_t n : {16u, 37u, 130u}) {
    const std::uint32_t k = 256 * (1 + n % 3);
    for (const Weights& w : every_format(n, k, n)) {
      for (std::uint32_t m : {1u, 2u, 7u, 33u}) {
        const std::vector<float> x = random_floats(std::size_t{m} * k, m + n, 2.0f);
        const std::vector<float> base = matmul(w, x, m, n, k, 0u);
        for (std::uint32_t features : feature_sets) {
          ASSERT_EQ(matmul(w, x, m, n, k, features), base) << name(w.type) << " " << m;
        }
      }
    }
  }
}

TEST(MatmulPacked, RowDoesNotDependOnHowManyRowsThereAre) {
  const std::uint32_t m = 75, n = 50, k = 512;
  for (const Weights& w : every_format(n, k, 11)) {
    const std::vector<float> x = random_floats(std::size_t{m} * k, 12);
    for (std::uint32_t features : feature_sets) {
      const std::vector<float> all = matmul(w, x, m, n, k, features);
      for (std::uint32_t r : {0u, 5u, 33u, 72u, 73u, 74u}) {
        const std::vector<float> row(x.begin() + r * k, x.begin() + (r + 1) * k);
        ASSERT_EQ(matmul(w, row, 1, n, k, features),
                  std::vector<float>(all.begin() + r * n, all.begin() + (r + 1) * n))
            << name(w.type) << " row " << r;
      }
    }
  }
}

// Rows of x beyond one block of m, and k of no whole number of 256 where the format allows it.
TEST(MatmulPacked, ManyRowsAndShortBlocks) {
  for (std::uint32_t k : {64u, 192u, 320u}) {
    const std::uint32_t m = 300, n = 40;
    const std::vector<float> x = random_floats(std::size_t{m} * k, k);
    std::vector<Weights> all;
    for (DType native : packable_types) {
      if (k % info(native).block_elements != 0) continue;
      NativeRows r = random_rows(native, n, k, k);
      all.push_back(
          {Format{native, Layout::r16}, pack_matrix(native, n, k, r.bytes), std::move(r.values)});
    }
    for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
      const std::uint32_t group = k % 64 == 0 ? 64 : 32;
      AffineMatrix a = random_affine(bits, group, DType::bf16, n, k, k);
      const Format packed{quant::affine_type(bits, group, DType::bf16).value(), Layout::r16};
      std::vector<std::byte> p(storage_bytes(packed, n, k).value());
      ASSERT_TRUE(quant::pack_affine(a.rows(), packed, n, k, p).has_value());
      all.push_back({packed, std::move(p), std::move(a.values)});
    }
    for (const Weights& w : all) {
      const std::vector<float> base = matmul(w, x, m, n, k, 0u);
      ASSERT_EQ(matmul(w, x, m, n, k), base) << name(w.type);
      const std::vector<float> last(x.end() - k, x.end());
      ASSERT_EQ(matmul(w, last, 1, n, k), std::vector<float>(base.end() - n, base.end()));
    }
  }
}

std::vector<float> plus(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i % b.size()];
  return a;
}

TEST(MatmulFused, BiasAndResidualGiveTheBitsOfSeparateAdditions) {
  const std::uint32_t n = 45, k = 256;
  for (const Weights& w : every_format(n, k, 13)) {
    for (std::uint32_t m : {1u, 6u}) {
      const std::vector<float> x = random_floats(std::size_t{m} * k, 14);
      const std::vector<float> bias = random_floats(n, 15), res = random_floats(m * n, 16);
      const std::vector<std::byte> input = input_for(w.type, x, m);
      const std::vector<float> plain = matmul(w, x, m, n, k);
      for (std::uint32_t features : feature_sets) {
        const std::size_t bytes = m * n * 4;
        KernelRun a(Op::matmul, w.type, features);
        a.params(product(m, n, k, ops::form_bias)).in(input).in(w.packed).out(bytes).in(bias).run();
        EXPECT_EQ(a.get<float>(2), plus(plain, bias)) << name(w.type);
        KernelRun b(Op::matmul, w.type, features);
        b.params(product(m, n, k, ops::form_residual)).in(input).in(w.packed).out(bytes);
        b.at(ops::matmul_residual).in(res).run();
        EXPECT_EQ(b.get<float>(2), plus(plain, res)) << name(w.type);
        KernelRun in_place(Op::matmul, w.type, features);
        in_place.params(product(m, n, k, ops::form_residual)).in(input).in(w.packed).inout(res);
        in_place.at(ops::matmul_residual).same_as(2);
        EXPECT_EQ(in_place.run().get<float>(2), plus(plain, res)) << name(w.type);
        KernelRun c(Op::matmul, w.type, features);
        c.params(product(m, n, k, ops::form_bias | ops::form_residual)).in(input).in(w.packed);
        c.out(bytes).in(bias).at(ops::matmul_residual).in(res).run();
        EXPECT_EQ(c.get<float>(2), plus(plus(plain, bias), res)) << name(w.type);
      }
    }
  }
}

TEST(MatmulFused, ThreeProductsGiveTheBitsOfThree) {
  const std::uint32_t n[] = {70, 17, 32}, k = 256;
  std::vector<std::vector<Weights>> w;
  for (std::uint32_t i = 0; i < 3; ++i) w.push_back(every_format(n[i], k, 20 + i));
  for (std::size_t f = 0; f < w[0].size(); ++f) {
    for (std::uint32_t m : {1u, 9u}) {
      const std::vector<float> x = random_floats(std::size_t{m} * k, 24);
      for (bool third : {true, false}) {
        const std::vector<float> bias = random_floats(n[1], 25);
        KernelRun run(Op::matmul, w[0][f].type);
        run.params(product(m, n[0], k, ops::form_parts | ops::form_bias, n[1], third ? n[2] : 0));
        run.in(input_for(w[0][f].type, x, m)).in(w[0][f].packed).out(m * n[0] * 4).none();
        run.in(w[1][f].packed).out(m * n[1] * 4).in(bias);
        if (third) run.in(w[2][f].packed).out(m * n[2] * 4);
        run.run();
        EXPECT_EQ(run.get<float>(2), matmul(w[0][f], x, m, n[0], k)) << name(w[0][f].type);
        EXPECT_EQ(run.get<float>(5), plus(matmul(w[1][f], x, m, n[1], k), bias));
        if (third) {
          EXPECT_EQ(run.get<float>(8), matmul(w[2][f], x, m, n[2], k));
        }
      }
    }
  }
}

TEST(MatmulFused, GatedUnitsGiveTheBitsOfTheirParts) {
  const std::uint32_t k = 256;
  for (std::uint32_t n : {64u, 45u}) {
    const std::vector<Weights> gates = every_format(n, k, 30), up = every_format(n, k, 31);
    for (std::size_t f = 0; f < gates.size(); ++f) {
      for (std::uint32_t m : {1u, 5u}) {
        const std::vector<float> x = random_floats(std::size_t{m} * k, 32);
        const std::vector<float> g = matmul(gates[f], x, m, n, k), u = matmul(up[f], x, m, n, k);
        float (*const activations[])(float) = {ops::op_silu, ops::op_gelu, ops::op_gelu_erf};
        for (std::uint32_t activation = 0; activation < 3; ++activation) {
          std::vector<float> want(g.size());
          for (std::size_t i = 0; i < g.size(); ++i) want[i] = activations[activation](g[i]) * u[i];
          for (std::uint32_t features : feature_sets) {
            KernelRun run(Op::matmul, gates[f].type, features);
            run.params(gate(m, n, k, activation)).in(input_for(gates[f].type, x, m));
            run.in(gates[f].packed).out(m * n * 4).at(ops::matmul_weight(1)).in(up[f].packed).run();
            ASSERT_EQ(run.get<float>(2), want) << name(gates[f].type) << " " << activation;
            KernelRun q(Op::matmul, gates[f].type, features);
            q.params(gate(m, n, k, activation, ops::form_quantized));
            q.in(input_for(gates[f].type, x, m)).in(gates[f].packed).out(m * n / 32 * 40 + 40);
            q.at(ops::matmul_weight(1)).in(up[f].packed);
            if (n % 32 != 0) {
              EXPECT_FALSE(q.is_accepted());
              continue;
            }
            q.run(false);
            std::vector<std::byte> got = q.get<std::byte>(2);
            got.resize(m * n / 32 * 40);
            ASSERT_EQ(got, quantized(want, m)) << name(gates[f].type) << " " << activation;
          }
        }
      }
    }
  }
}

TEST(MatmulFused, UnknownActivationIsAnError) {
  const std::vector<float> x(32), w(32 * 16);
  for (const std::uint32_t form : {0u, ops::form_quantized}) {
    KernelRun run(Op::matmul, formats::f32_r16);
    run.params(gate(1, 32, 32, 3, form)).in(x).in(w).out(128).at(ops::matmul_weight(1)).in(w);
    ASSERT_FALSE(run.launch_status());
    EXPECT_EQ(run.launch_status().error().code, ErrorCode::unsupported);
  }
}

// The fused forms on weights that are not packed.
TEST(MatmulFused, UnpackedFormats) {
  const std::uint32_t m = 35, n = 9, k = 256;
  for (DType type : packable_types) {
    const NativeRows w = random_rows(type, n, k, 40), w2 = random_rows(type, n, k, 41);
    const std::vector<float> x = random_floats(m * k, 42), bias = random_floats(n, 43);
    const std::vector<float> res = random_floats(m * n, 44);
    const auto plain = [&](const NativeRows& weights) {
      KernelRun run(Op::matmul, type);
      run.params(product(m, n, k)).in(x).in(weights.bytes).out(m * n * 4).run();
      return run.get<float>(2);
    };
    const std::vector<float> y = plain(w), y2 = plain(w2);
    KernelRun all(Op::matmul, type);
    all.params(product(m, n, k, ops::form_bias | ops::form_residual)).in(x).in(w.bytes);
    all.out(m * n * 4).in(bias).at(ops::matmul_residual).in(res).run();
    EXPECT_EQ(all.get<float>(2), plus(plus(y, bias), res)) << name(type);
    KernelRun two(Op::matmul, type);
    two.params(product(m, n, k, ops::form_parts | ops::form_bias, n)).in(x).in(w.bytes);
    two.out(m * n * 4).in(bias).in(w2.bytes).out(m * n * 4).run();
    EXPECT_EQ(two.get<float>(2), plus(y, bias));
    EXPECT_EQ(two.get<float>(5), y2);
    float (*const activations[])(float) = {ops::op_silu, ops::op_gelu, ops::op_gelu_erf};
    for (std::uint32_t activation = 0; activation < 3; ++activation) {
      KernelRun glu(Op::matmul, type);
      glu.params(gate(m, n, k, activation)).in(x).in(w.bytes).out(m * n * 4);
      glu.at(ops::matmul_weight(1)).in(w2.bytes).run();
      std::vector<float> want(y.size());
      for (std::size_t i = 0; i < y.size(); ++i) want[i] = activations[activation](y[i]) * y2[i];
      EXPECT_EQ(glu.get<float>(2), want) << name(type) << " " << activation;
    }
  }
}

TEST(MatmulIdPacked, EveryPairGivesTheBitsOfItsExpertsMatmul) {
  const std::uint32_t experts = 5, n = 37, k = 256, used = 2;
  std::vector<std::vector<Weights>> w;
  for (std::uint32_t e = 0; e < experts; ++e) w.push_back(every_format(n, k, 50 + e));
  for (std::size_t f = 0; f < w[0].size(); ++f) {
    std::vector<std::byte> stacked;
    for (const auto& expert : w) {
      stacked.insert(stacked.end(), expert[f].packed.begin(), expert[f].packed.end());
    }
    for (std::uint32_t tokens : {1u, 2u, 90u}) {
      for (std::uint32_t pair_rows : {0u, 1u}) {
        std::mt19937 g(tokens);
        std::vector<std::uint32_t> ids(tokens * used);
        for (std::uint32_t& id : ids) id = static_cast<std::uint32_t>(g() % (experts + 1));
        const std::uint32_t rows = pair_rows != 0 ? tokens * used : tokens;
        const std::vector<float> x = random_floats(std::size_t{rows} * k, 60);
        for (std::uint32_t features : feature_sets) {
          KernelRun run(Op::matmul_id, w[0][f].type, features);
          run.params(
              ops::MatmulIdParams{product(tokens * used, n, k), used, experts, pair_rows, 0, 0});
          run.in(input_for(w[0][f].type, x, rows)).in(stacked);
          run.out(std::size_t{tokens} * used * n * 4).at(ops::matmul_ids).in(ids).run();
          const std::vector<float> got = run.get<float>(2);
          for (std::uint32_t p = 0; p < tokens * used; p += 1 + tokens / 4) {
            const std::uint32_t r = pair_rows != 0 ? p : p / used;
            const std::vector<float> row(x.begin() + r * k, x.begin() + (r + 1) * k);
            const std::vector<float> want =
                ids[p] < experts ? matmul(w[ids[p]][f], row, 1, n, k) : std::vector<float>(n, 0.0f);
            ASSERT_EQ(std::vector<float>(got.begin() + p * n, got.begin() + (p + 1) * n), want)
                << name(w[0][f].type) << " pair " << p << " of " << tokens * used;
          }
        }
      }
    }
  }
}

// Through a session: the op quantizes x itself, and the bits do not depend on the threads.
TEST(MatmulPacked, SessionQuantizesAndThreadsDoNotMatter) {
  const std::uint32_t m = 3, n = 300, k = 512;
  for (const Weights& w : every_format(n, k, 70)) {
    const std::vector<float> x = random_floats(std::size_t{m} * k, 71);
    const std::vector<float> want = matmul(w, x, m, n, k);
    for (std::uint32_t threads : {1u, 3u}) {
      Device device = Device::open("cpu", {.backend = {CpuOptions{.threads = threads}}}).value();
      Buffer xb = device.allocate(x.size() * 4).value();
      Buffer wb = device.allocate(w.packed.size()).value();
      Buffer yb = device.allocate(want.size() * 4).value();
      ASSERT_TRUE(device.write_as<float>(xb.view(), x));
      ASSERT_TRUE(device.write(wb.view(), w.packed));
      GraphExecutor executor(device);
      GraphSession s = executor.begin_recorded();
      ops::matmul(s, {tensor(xb.view(), DType::f32, {m, k}), tensor(wb.view(), w.type, {n, k}),
                      tensor(yb.view(), DType::f32, {m, n})});
      const Result<FinishReport> report = s.finish();
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->dispatches, find_row(Op::matmul, w.type)->input == DType::q8a ? 2u : 1u);
      std::vector<float> got(want.size());
      ASSERT_TRUE(device.read_as<float>(yb.view(), got));
      ASSERT_EQ(got, want) << name(w.type) << " with " << threads;
    }
  }
}

}  // namespace
}  // namespace onepass::test::matmul_packed_test
