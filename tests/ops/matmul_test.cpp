#include "kernel_harness.h"
#include "ops/products.h"

namespace onepass::test::matmul_test {
namespace {

constexpr DType weight_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0};

struct Case {
  std::uint32_t m, n, k;
};

// Bound of the sum's rounding error: a tree of 16 lanes of k / 16 additions each.
double sum_error(std::uint32_t k, double scale) {
  return (static_cast<double>(k) / 16.0 + 8.0) * 0x1p-24 * scale;
}

// out[m, n] and, for the error bound, the sum of magnitudes.
struct Product {
  std::vector<double> out, magnitude;
};
Product reference(const std::vector<float>& x, const std::vector<double>& w, const Case& c) {
  Product p;
  for (std::size_t m = 0; m < c.m; ++m) {
    for (std::size_t n = 0; n < c.n; ++n) {
      double sum = 0, magnitude = 0;
      for (std::size_t k = 0; k < c.k; ++k) {
        const double term = f64(x[m * c.k + k]) * w[n * c.k + k];
        sum += term;
        magnitude += std::abs(term);
      }
      p.out.push_back(sum);
      p.magnitude.push_back(magnitude);
    }
  }
  return p;
}

void expect_product(const std::vector<float>& got, const Product& want, std::uint32_t k,
                    const std::string& what) {
  ASSERT_EQ(got.size(), want.out.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(f64(got[i]), want.out[i], sum_error(k, want.magnitude[i]) + 1e-30)
        << what << " at " << i;
  }
}

TEST(Matmul, EveryFormatMatchesDoubleReference) {
  for (DType type : weight_dtypes) {
    for (Case c : {Case{1, 1, 32}, Case{1, 300, 1056}, Case{5, 67, 96}, Case{33, 9, 544},
                   Case{70, 130, 64}}) {
      const Stored w = store(type, random_floats(std::size_t{c.n} * c.k, 1));
      const std::vector<float> x = random_floats(std::size_t{c.m} * c.k, 2);
      KernelRun run(Op::matmul, type);
      run.params(product(c.m, c.n, c.k)).in(x).in(w.bytes);
      run.out(std::size_t{c.m} * c.n * 4).run();
      expect_product(run.get<float>(2), reference(x, w.values, c), c.k, name(type));
    }
  }
}

TEST(Matmul, OddSizesOfPlainTypes) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (Case c : {Case{1, 1, 1}, Case{2, 3, 5}, Case{3, 7, 513}, Case{1, 2, 1027}}) {
      const Stored w = store(type, random_floats(std::size_t{c.n} * c.k, 3));
      const std::vector<float> x = random_floats(std::size_t{c.m} * c.k, 4);
      KernelRun run(Op::matmul, type);
      run.params(product(c.m, c.n, c.k)).in(x).in(w.bytes);
      run.out(std::size_t{c.m} * c.n * 4).run();
      expect_product(run.get<float>(2), reference(x, w.values, c), c.k, name(type));
    }
  }
}

TEST(Matmul, RowDoesNotDependOnHowManyRowsThereAre) {
  const Case c{75, 40, 608};
  for (DType type : weight_dtypes) {
    const Stored w = store(type, random_floats(std::size_t{c.n} * c.k, 5));
    const std::vector<float> x = random_floats(std::size_t{c.m} * c.k, 6);
    KernelRun all(Op::matmul, type);
    all.params(product(c.m, c.n, c.k)).in(x).in(w.bytes).out(c.m * c.n * 4u).run();
    ASSERT_GT(all.launch().tiles, 2u);
    const std::vector<float> y = all.get<float>(2);
    for (std::uint32_t m : {0u, 31u, 32u, 74u}) {
      const std::vector<float> row(x.begin() + m * c.k, x.begin() + (m + 1) * c.k);
      KernelRun one(Op::matmul, type);
      one.params(product(1, c.n, c.k)).in(row).in(w.bytes).out(c.n * 4u).run();
      EXPECT_EQ(one.get<float>(2),
                std::vector<float>(y.begin() + m * c.n, y.begin() + (m + 1) * c.n));
    }
  }
}

// Packs numbers into a little-endian bit stream, one bit at a time.
std::vector<std::uint8_t> pack(const std::vector<std::uint32_t>& q, std::uint32_t bits) {
  std::vector<std::uint8_t> bytes(q.size() * bits / 8);
  for (std::size_t i = 0; i < q.size(); ++i) {
    for (std::uint32_t b = 0; b < bits; ++b) {
      const std::size_t at = i * bits + b;
      if ((q[i] >> b & 1u) != 0)
        bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] | 1u << at % 8);
    }
  }
  return bytes;
}

TEST(MatmulAffine, EveryWidthGroupAndScaleType) {
  for (std::uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    for (std::uint32_t group : {32u, 64u, 128u}) {
      for (DType type : {DType::f32, DType::f16, DType::bf16}) {
        for (Case c : {Case{1, 37, 128}, Case{35, 5, 640}}) {
          std::mt19937 generator(bits * group);
          std::vector<std::uint32_t> q(std::size_t{c.n} * c.k);
          for (std::uint32_t& v : q)
            v = static_cast<std::uint32_t>(generator() & ((1u << bits) - 1));
          const std::size_t groups = c.k / group;
          const Stored scales = store(type, random_floats(c.n * groups, 8));  // also negative
          const Stored biases = store(type, random_floats(c.n * groups, 9));
          std::vector<double> w(q.size());
          for (std::size_t i = 0; i < w.size(); ++i) {
            const std::size_t g = i / c.k * groups + i % c.k / group;
            w[i] = q[i] * scales.values[g] + biases.values[g];
          }
          const std::vector<float> x = random_floats(std::size_t{c.m} * c.k, 10);
          KernelRun run(Op::matmul_affine, type);
          run.params(ops::MatmulAffineParams{product(c.m, c.n, c.k), bits, group});
          run.in(x).in(pack(q, bits)).out(std::size_t{c.m} * c.n * 4);
          run.at(ops::matmul_scales).in(scales.bytes).in(biases.bytes).run();
          Product want = reference(x, w, c);
          // A weight itself carries two roundings of numbers up to 2^bits.
          for (double& magnitude : want.magnitude) magnitude += (1u << bits) * 0.1 * c.k / 16.0;
          expect_product(run.get<float>(2), want, c.k, std::to_string(bits) + " bits");
        }
      }
    }
  }
}

TEST(MatmulAffine, PackedGoldenWords) {
  // A weight row of 32 numbers against unit vectors shows the numbers themselves.
  const auto numbers = [](const std::vector<std::uint8_t>& row, std::uint32_t bits) {
    std::vector<float> unit(32 * 32, 0.0f);
    for (std::size_t i = 0; i < 32; ++i) unit[i * 33] = 1.0f;
    KernelRun run(Op::matmul_affine, DType::f32);
    run.params(ops::MatmulAffineParams{product(32, 1, 32), bits, 32}).in(unit).in(row);
    run.out(32 * 4).at(ops::matmul_scales).in(std::vector<float>{1.0f});
    run.in(std::vector<float>{0.0f}).run();
    return run.get<float>(2);
  };
  std::vector<std::uint8_t> four(16);
  const std::uint32_t word = 0x87654321;
  std::memcpy(four.data(), &word, 4);
  const std::vector<float> a = numbers(four, 4);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(a[i], static_cast<float>(i + 1));
  std::vector<std::uint8_t> six(24);
  six[0] = 0x81;
  six[1] = 0xe0;
  six[2] = 0xff;
  const std::vector<float> b = numbers(six, 6);
  EXPECT_EQ(std::vector<float>(b.begin(), b.begin() + 5),
            (std::vector<float>{1.0f, 2.0f, 62.0f, 63.0f, 0.0f}));
}

TEST(MatmulId, PicksTheExpertsRows) {
  const std::uint32_t tokens = 4, used = 2, experts = 3, n = 70, k = 96;
  for (DType type : weight_dtypes) {
    const Stored w = store(type, random_floats(std::size_t{experts} * n * k, 11));
    const std::vector<float> x = random_floats(std::size_t{tokens} * k, 12);
    // 7 does not exist; token 2 names one expert twice.
    const std::vector<std::uint32_t> ids = {2, 0, 7, 1, 1, 1, 0, 2};
    KernelRun run(Op::matmul_id, type);
    run.params(ops::MatmulIdParams{product(tokens * used, n, k), used, experts, 0, 0, 0});
    run.in(x).in(w.bytes).out(std::size_t{tokens} * used * n * 4).at(ops::matmul_ids).in(ids).run();
    const std::vector<float> y = run.get<float>(2);
    const std::size_t row_bytes = w.bytes.size() / (experts * n);
    for (std::size_t pair = 0; pair < ids.size(); ++pair) {
      const std::vector<float> got(y.begin() + static_cast<std::ptrdiff_t>(pair * n),
                                   y.begin() + static_cast<std::ptrdiff_t>((pair + 1) * n));
      if (ids[pair] >= experts) {
        EXPECT_EQ(got, std::vector<float>(n, 0.0f));
        continue;
      }
      // The same bits as a plain matmul with that expert.
      const auto begin = static_cast<std::ptrdiff_t>(ids[pair] * n * row_bytes);
      const std::vector<std::byte> expert(
          w.bytes.begin() + begin,
          w.bytes.begin() + begin + static_cast<std::ptrdiff_t>(n * row_bytes));
      const auto token = static_cast<std::ptrdiff_t>(pair / used * k);
      const std::vector<float> row(x.begin() + token, x.begin() + token + k);
      KernelRun plain(Op::matmul, type);
      plain.params(product(1, n, k)).in(row).in(expert).out(n * 4).run();
      EXPECT_EQ(got, plain.get<float>(2)) << name(type) << " pair " << pair;
    }
  }
}

TEST(Matmul, LaunchCountsWork) {
  KernelRun run(Op::matmul, DType::q4_0);
  const std::size_t weight_bytes = 64 * 128 / 32 * 18;
  run.params(product(2, 64, 128)).in(std::vector<float>(2 * 128));
  run.in(std::vector<std::uint8_t>(weight_bytes)).out(2 * 64 * 4).run();
  EXPECT_EQ(run.launch().flops, 2u * 2 * 64 * 128);
  EXPECT_EQ(run.launch().bytes_moved, 2u * 128 * 4 + weight_bytes + 2 * 64 * 4);
  run.dispatch().set_params(product(2, 64, 100));  // no whole blocks
  EXPECT_FALSE(run.launch_status().has_value());
}

TEST(MatmulAffine, LaunchRefusesUnknownWidths) {
  KernelRun run(Op::matmul_affine, DType::f32);
  const std::vector<float> x(1024);
  run.params(ops::MatmulAffineParams{product(1, 1, 32), 7, 32}).in(x).in(x).out(4096);
  run.at(ops::matmul_scales).in(x).in(x);
  EXPECT_FALSE(run.launch_status().has_value());
  run.dispatch().set_params(ops::MatmulAffineParams{product(1, 1, 32), 4, 48});
  EXPECT_FALSE(run.launch_status().has_value());
  run.dispatch().set_params(ops::MatmulAffineParams{product(1, 1, 32), 4, 32});
  EXPECT_TRUE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test::matmul_test
