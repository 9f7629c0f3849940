#include "kernel_harness.h"
#include "ops/elementwise/params.h"
#include "ops/norm/params.h"
#include "ops/shared/fusions.h"
#include "support/float64.h"

namespace onepass::test::norm_test {
namespace {

constexpr DType row_dtypes[] = {DType::f32, DType::f16, DType::bf16};

std::vector<double> reference(const std::vector<double>& x, const std::vector<double>& weight,
                              std::size_t dim, double eps) {
  std::vector<double> y = x;
  rms_norm(y, weight.empty() ? std::vector<double>(dim, 1.0) : weight, eps);
  return y;
}

struct Case {
  std::uint32_t rows, dim;
};
constexpr Case cases[] = {{1, 1}, {3, 5}, {2, 64}, {7, 127}, {1, 4096}, {40, 1031}};

TEST(RmsNorm, MatchesDoubleReference) {
  for (DType type : row_dtypes) {
    for (bool f32_weight : {true, false}) {
      for (const Case& c : cases) {
        const std::size_t n = std::size_t{c.rows} * c.dim;
        const Stored x = store(type, random_floats(n, 1, 3.0f));
        const Stored w = store(f32_weight ? DType::f32 : type, random_floats(c.dim, 2));
        const bool same = f32_weight || type == DType::f32;
        KernelRun run(Op::rms_norm, type);
        run.params(ops::RmsNormParams{0, c.rows, c.dim, 1e-5f, same ? 1u : 0u});
        run.in(x.bytes).in(w.bytes).out(x.bytes.size()).run();
        expect_close(decode(type, run, 2), reference(x.values, w.values, c.dim, 1e-5),
                     2e-6 + store_error(type), 1e-7, std::string("rms_norm ") + name(type));
      }
    }
  }
}

TEST(RmsNorm, WithoutWeightAndInPlace) {
  for (DType type : row_dtypes) {
    for (const Case& c : cases) {
      const Stored x = store(type, random_floats(std::size_t{c.rows} * c.dim, 3, 0.01f));
      KernelRun run(Op::rms_norm, type);
      run.params(ops::RmsNormParams{0, c.rows, c.dim, 1e-6f, 1});
      run.in(x.bytes).none().out(x.bytes.size()).run();
      expect_close(decode(type, run, 2), reference(x.values, {}, c.dim, 1e-6),
                   2e-6 + store_error(type), 1e-7, "rms_norm without weight");

      KernelRun in_place(Op::rms_norm, type);
      in_place.params(ops::RmsNormParams{0, c.rows, c.dim, 1e-6f, 1});
      in_place.inout(x.bytes).none().same_as(0).run();
      EXPECT_EQ(in_place.get<std::byte>(2), run.get<std::byte>(2));
    }
  }
}

TEST(RmsNorm, RowDoesNotDependOnItsNeighbours) {
  const std::uint32_t dim = 100, rows = 500;
  const std::vector<float> x = random_floats(std::size_t{rows} * dim, 4);
  const std::vector<float> w = random_floats(dim, 5);
  KernelRun all(Op::rms_norm, DType::f32);
  all.params(ops::RmsNormParams{0, rows, dim, 1e-5f, 1}).in(x).in(w).out(x.size() * 4).run();
  ASSERT_GT(all.launch().tiles, 1u);
  const std::vector<float> y = all.get<float>(2);
  for (std::uint32_t r : {0u, 1u, 250u, 499u}) {
    const std::vector<float> row(x.begin() + r * dim, x.begin() + (r + 1) * dim);
    KernelRun one(Op::rms_norm, DType::f32);
    one.params(ops::RmsNormParams{0, 1, dim, 1e-5f, 1}).in(row).in(w).out(dim * 4).run();
    EXPECT_EQ(one.get<float>(2),
              std::vector<float>(y.begin() + r * dim, y.begin() + (r + 1) * dim));
  }
}

TEST(RmsNormMul, SameBitsAsTheTwoOps) {
  for (DType type : row_dtypes) {
    for (const Case& c : cases) {
      const std::size_t n = std::size_t{c.rows} * c.dim;
      const Stored x = store(type, random_floats(n, 6)), w = store(type, random_floats(c.dim, 7));
      const Stored scale = store(type, random_floats(n, 8));
      ops::RmsNormParams norm{0, c.rows, c.dim, 1e-5f, type == DType::f32 ? 1u : 0u};
      const ops::ElementwiseParams mul{static_cast<std::uint32_t>(n), 0, 0.0f, 0};

      KernelRun first(Op::rms_norm, type);
      first.params(norm).in(x.bytes).in(w.bytes).out(x.bytes.size()).run();
      KernelRun second(Op::mul, type);
      second.params(mul).in(first.get<std::byte>(2)).in(scale.bytes).out(x.bytes.size()).run();
      norm.form = ops::form_product;
      KernelRun fused(Op::rms_norm, type);
      fused.params(norm).in(x.bytes).in(w.bytes).out(x.bytes.size()).in(scale.bytes).run();
      EXPECT_EQ(fused.get<std::byte>(2), second.get<std::byte>(2)) << name(type) << " " << c.dim;
      KernelRun kept(Op::rms_norm, type);
      kept.params(norm).in(x.bytes).in(w.bytes).out(x.bytes.size()).in(scale.bytes);
      kept.out(x.bytes.size()).run();
      EXPECT_EQ(kept.get<std::byte>(2), second.get<std::byte>(2)) << name(type) << " " << c.dim;
      EXPECT_EQ(kept.get<std::byte>(4), first.get<std::byte>(2)) << name(type) << " " << c.dim;
    }
  }
}

// The two ops one after the other: first, then second with its output as the given view.
std::vector<std::byte> add(DType type, const std::vector<std::byte>& a,
                           const std::vector<std::byte>& b, std::size_t n) {
  KernelRun run(Op::add, type);
  run.params(ops::ElementwiseParams{static_cast<std::uint32_t>(n), 0, 0.0f, 0});
  run.in(a).in(b).out(a.size()).run();
  return run.get<std::byte>(2);
}

std::vector<std::byte> norm(DType type, const std::vector<std::byte>& x,
                            const std::vector<std::byte>& w, ops::RmsNormParams p) {
  p.form = 0;
  KernelRun run(Op::rms_norm, type);
  run.params(p).in(x);
  w.empty() ? run.none() : run.in(w);
  run.out(x.size()).run();
  return run.get<std::byte>(2);
}

TEST(AddRmsNorm, SameBitsAsTheTwoOps) {
  for (DType type : row_dtypes) {
    for (bool weighted : {true, false}) {
      for (const Case& c : cases) {
        const std::size_t n = std::size_t{c.rows} * c.dim;
        const Stored x = store(type, random_floats(n, 9)), r = store(type, random_floats(n, 10));
        const Stored w = store(type, weighted ? random_floats(c.dim, 11) : std::vector<float>{});
        ops::RmsNormParams p{0, c.rows, c.dim, 1e-5f, type == DType::f32 ? 1u : 0u};
        const std::vector<std::byte> sum = add(type, x.bytes, r.bytes, n);
        p.form = ops::form_sum;
        KernelRun run(Op::rms_norm, type);
        run.params(p).in(x.bytes);
        weighted ? run.in(w.bytes) : run.none();
        run.out(x.bytes.size()).in(r.bytes).out(x.bytes.size()).run();
        EXPECT_EQ(run.get<std::byte>(4), sum) << name(type) << " " << c.dim;
        EXPECT_EQ(run.get<std::byte>(2), norm(type, sum, w.bytes, p)) << name(type) << " " << c.dim;

        KernelRun in_place(Op::rms_norm, type);
        in_place.params(p).in(x.bytes);
        weighted ? in_place.in(w.bytes) : in_place.none();
        in_place.out(x.bytes.size()).inout(r.bytes).same_as(3).run();
        EXPECT_EQ(in_place.get<std::byte>(2), run.get<std::byte>(2));
        EXPECT_EQ(in_place.get<std::byte>(4), run.get<std::byte>(4));
      }
    }
  }
}

TEST(NormAdd, SameBitsAsTheTwoOps) {
  for (DType type : row_dtypes) {
    for (bool weighted : {true, false}) {
      for (const Case& c : cases) {
        const std::size_t n = std::size_t{c.rows} * c.dim;
        const Stored x = store(type, random_floats(n, 12)), r = store(type, random_floats(n, 13));
        const Stored w = store(type, weighted ? random_floats(c.dim, 14) : std::vector<float>{});
        ops::RmsNormParams p{0, c.rows, c.dim, 1e-5f, type == DType::f32 ? 1u : 0u};
        p.form = ops::form_residual;
        KernelRun run(Op::rms_norm, type);
        run.params(p).in(x.bytes);
        weighted ? run.in(w.bytes) : run.none();
        run.inout(r.bytes).same_as(2).run();
        EXPECT_EQ(run.get<std::byte>(2), add(type, r.bytes, norm(type, x.bytes, w.bytes, p), n))
            << name(type) << " " << c.dim;
      }
    }
  }
}

TEST(RmsNormQ, SameBitsAsTheNormThenQuantize) {
  for (const Case& c : {Case{1, 32}, Case{3, 64}, Case{2, 4096}, Case{70, 320}}) {
    for (bool weighted : {true, false}) {
      const std::size_t n = std::size_t{c.rows} * c.dim;
      std::vector<float> values = random_floats(n, 15, 5.0f);
      std::fill_n(values.begin(), 32, 0.0f);  // a block of zeros
      const Stored x = store(DType::f32, values), r = store(DType::f32, random_floats(n, 16));
      const Stored w =
          store(DType::f32, weighted ? random_floats(c.dim, 17) : std::vector<float>{});
      ops::RmsNormParams p{0, c.rows, c.dim, 1e-5f, 1};
      const std::size_t q8a_bytes = n / 32 * 40;

      p.form = ops::form_quantized;
      KernelRun plain(Op::rms_norm, DType::f32);
      plain.params(p).in(x.bytes);
      weighted ? plain.in(w.bytes) : plain.none();
      plain.out(q8a_bytes).run();
      EXPECT_EQ(plain.get<std::byte>(2), quantized(norm(DType::f32, x.bytes, w.bytes, p), c.dim));

      const std::vector<std::byte> sum = add(DType::f32, x.bytes, r.bytes, n);
      p.form = ops::form_quantized | ops::form_sum;
      KernelRun added(Op::rms_norm, DType::f32);
      added.params(p).in(x.bytes);
      weighted ? added.in(w.bytes) : added.none();
      added.out(q8a_bytes).in(r.bytes).out(x.bytes.size()).run();
      EXPECT_EQ(added.get<std::byte>(4), sum);
      EXPECT_EQ(added.get<std::byte>(2), quantized(norm(DType::f32, sum, w.bytes, p), c.dim));
    }
  }
}

TEST(L2Norm, MatchesDoubleReference) {
  for (DType type : row_dtypes) {
    for (const Case& c : cases) {
      const Stored x = store(type, random_floats(std::size_t{c.rows} * c.dim, 18));
      std::vector<double> want(x.values.size());
      for (std::size_t r = 0; r < want.size(); r += c.dim) {
        double squares = 0;
        for (std::size_t i = 0; i < c.dim; ++i) squares += x.values[r + i] * x.values[r + i];
        for (std::size_t i = 0; i < c.dim; ++i) {
          want[r + i] = x.values[r + i] / std::sqrt(squares + 1e-6);
        }
      }
      KernelRun run(Op::l2_norm, type);
      run.params(ops::L2NormParams{c.rows, c.dim, 1e-6f}).in(x.bytes).out(x.bytes.size()).run();
      expect_close(decode(type, run, 1), want, 2e-6 + store_error(type),
                   type == DType::f16 ? 0x1p-24 : 1e-9, "l2_norm");
    }
  }
}

TEST(LayerNorm, MatchesDoubleReference) {
  for (DType type : row_dtypes) {
    for (int form = 0; form < 8; ++form) {
      const bool weighted = (form & 1) != 0, biased = (form & 2) != 0, f32 = (form & 4) != 0;
      for (const Case& c : cases) {
        // Far from 0, where the mean of the squares would lose the variance.
        std::vector<float> values = random_floats(std::size_t{c.rows} * c.dim, 19);
        for (float& v : values) v += 30.0f;
        const Stored x = store(type, values);
        const DType weight_type = f32 ? DType::f32 : type;
        const Stored w = store(weight_type, random_floats(c.dim, 20));
        const Stored b = store(weight_type, random_floats(c.dim, 21));
        std::vector<double> want(x.values.size());
        for (std::size_t r = 0; r < want.size(); r += c.dim) {
          double mean = 0, variance = 0;
          for (std::size_t i = 0; i < c.dim; ++i) mean += x.values[r + i] / c.dim;
          for (std::size_t i = 0; i < c.dim; ++i) {
            variance += (x.values[r + i] - mean) * (x.values[r + i] - mean) / c.dim;
          }
          for (std::size_t i = 0; i < c.dim; ++i) {
            want[r + i] = (x.values[r + i] - mean) / std::sqrt(variance + 1e-3);
            if (weighted) want[r + i] *= w.values[i];
            if (biased) want[r + i] += b.values[i];
          }
        }
        KernelRun run(Op::layer_norm, type);
        run.params(ops::LayerNormParams{c.rows, c.dim, 1e-3f, f32 || type == DType::f32 ? 1u : 0u});
        run.in(x.bytes);
        weighted ? run.in(w.bytes) : run.none();
        biased ? run.in(b.bytes) : run.none();
        run.out(x.bytes.size()).run();
        expect_close(decode(type, run, 3), want, 1e-5 + store_error(type), 3e-5,
                     std::string("layer_norm ") + name(type));
      }
    }
  }
}

class FuseRmsNormMul : public ::testing::Test {
 protected:
  static constexpr std::uint32_t rows = 3, dim = 8;
  static constexpr std::uint64_t bytes = rows * dim * 4;

  FuseRmsNormMul() {
    first.set_params(ops::RmsNormParams{0, rows, dim, 1e-5f, 1});
    for (std::uint32_t b : {0u, 1u, 2u}) first.bind(View{{b, 1}, 0, b == 1 ? dim * 4 : bytes});
    second.set_params(ops::ElementwiseParams{rows * dim, 0, 0.0f, 0});
    for (std::uint32_t b : {2u, 3u, 4u}) second.bind(View{{b, 1}, 0, bytes});
  }
  bool fuse() {
    fused = make_dispatch(Op::rms_norm, DType::u8);
    return ops::fuse_norm_mul(first, second, fused);
  }

  Dispatch first = make_dispatch(Op::rms_norm), second = make_dispatch(Op::mul);
  Dispatch fused;
};

TEST_F(FuseRmsNormMul, TakesParamsAndFormatOfTheNorm) {
  ASSERT_TRUE(fuse());
  EXPECT_EQ(fused.format, DType::f32);
  EXPECT_EQ(fused.params_bytes, sizeof(ops::RmsNormParams));
  EXPECT_EQ(fused.params_as<ops::RmsNormParams>().dim, dim);
  EXPECT_EQ(fused.params_as<ops::RmsNormParams>().form, ops::form_product);
  EXPECT_EQ(fused.views[ops::norm_other], second.views[1]);
  EXPECT_EQ(fused.views[ops::norm_out], second.views[2]);
  std::swap(second.views[0], second.views[1]);
  ASSERT_TRUE(fuse());
  EXPECT_EQ(fused.views[ops::norm_other], second.views[0]);
}

TEST_F(FuseRmsNormMul, RefusesOtherCounts) {
  second.set_params(ops::ElementwiseParams{rows * dim - 1, 0, 0.0f, 0});
  EXPECT_FALSE(fuse());
}

TEST_F(FuseRmsNormMul, RefusesARowThatRepeats) {
  second.set_params(ops::ElementwiseParams{rows * dim, 0, 0.0f, dim});
  EXPECT_FALSE(fuse());
}

TEST_F(FuseRmsNormMul, RefusesOtherTypes) {
  second.format = DType::f16;
  EXPECT_FALSE(fuse());
}

TEST_F(FuseRmsNormMul, RefusesSquares) {
  second.views[1] = second.views[0];
  EXPECT_FALSE(fuse());
}

TEST(RmsNorm, LaunchRefusesShortViews) {
  const std::vector<float> x(8), w(8);
  KernelRun run(Op::rms_norm, DType::f32);
  run.params(ops::RmsNormParams{0, 2, 8, 1e-5f, 1}).in(x).in(w).out(64);
  const Status status = run.launch_status();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(status.error().message.find("view 0 has 32 bytes"), std::string::npos);
}

}  // namespace
}  // namespace onepass::test::norm_test
