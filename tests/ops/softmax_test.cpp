#include <limits>

#include "kernel_harness.h"
#include "ops/softmax/params.h"

namespace onepass::test::softmax_test {
namespace {

struct Case {
  std::uint32_t rows, cols;
};

std::vector<double> reference(const std::vector<double>& x, std::size_t cols) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r < x.size(); r += cols) {
    double top = -HUGE_VAL, total = 0;
    for (std::size_t i = 0; i < cols; ++i) top = std::max(top, x[r + i]);
    for (std::size_t i = 0; i < cols; ++i) total += std::exp(x[r + i] - top);
    for (std::size_t i = 0; i < cols; ++i) y[r + i] = std::exp(x[r + i] - top) / total;
  }
  return y;
}

ops::SoftmaxParams plain(std::uint32_t rows, std::uint32_t cols) {
  return {rows, cols, 1.0f, 0, 0};
}

TEST(Softmax, MatchesDoubleReference) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (Case c :
         {Case{1, 1}, Case{3, 33}, Case{5, 66}, Case{2, 97}, Case{70, 1000}, Case{1, 40001}}) {
      const Stored x = store(type, random_floats(std::size_t{c.rows} * c.cols, 1, 20.0f));
      KernelRun run(Op::softmax, type);
      run.params(plain(c.rows, c.cols)).in(x.bytes).none().out(x.bytes.size()).run();
      expect_close(decode(type, run, 2), reference(x.values, c.cols), 3e-6 + store_error(type),
                   type == DType::f16 ? 0x1p-24 : 1e-30, std::string("softmax ") + name(type));
      KernelRun in_place(Op::softmax, type);
      in_place.params(plain(c.rows, c.cols)).inout(x.bytes).none().same_as(0).run();
      EXPECT_EQ(in_place.get<std::byte>(2), run.get<std::byte>(2));
    }
  }
}

TEST(Softmax, LargeAndMaskedScores) {
  const float masked = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {3e38f, masked, 3e38f, masked};
  KernelRun run(Op::softmax, DType::f32);
  run.params(plain(1, 4)).in(x).none().out(16).run();
  EXPECT_EQ(run.get<float>(2), (std::vector<float>{0.5f, 0.0f, 0.5f, 0.0f}));
}

TEST(Softmax, ScaledAndMasked) {
  const float hidden = -std::numeric_limits<float>::infinity();
  const std::uint32_t rows = 6, mask_rows = 3;
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (DType mask_type : {DType::f32, DType::bf16}) {
      for (std::uint32_t cols : {1u, 15u, 16u, 33u, 66u, 300u}) {
        const Stored x = store(type, random_floats(std::size_t{rows} * cols, 2, 8.0f));
        std::vector<float> values = random_floats(std::size_t{mask_rows} * cols, 3, 2.0f);
        // Row 0 sees some, row 1 all but the last, row 2 the first only.
        for (std::uint32_t i = 0; i < cols; ++i) {
          if (i % 3 == 1) values[i] = hidden;
          if (i > 0 && i == cols - 1) values[cols + i] = -1e30f;
          if (i > 0) values[2 * cols + i] = hidden;
        }
        const Stored mask = store(mask_type, values);
        std::vector<double> scores(x.values);
        for (std::size_t i = 0; i < scores.size(); ++i) {
          scores[i] = scores[i] * 0.25 + mask.values[i % (mask_rows * cols)];
        }
        KernelRun run(Op::softmax, type);
        run.params(
            ops::SoftmaxParams{rows, cols, 0.25f, mask_rows, mask_type == DType::f32 ? 1u : 0u});
        run.in(x.bytes).in(mask.bytes).out(x.bytes.size()).run();
        expect_close(decode(type, run, 2), reference(scores, cols), 4e-6 + store_error(type),
                     type == DType::f16 ? 0x1p-24 : 1e-30, std::string("softmax ") + name(type));
      }
    }
  }
}

TEST(Softmax, RowsWithNothingToSeeAreZero) {
  const float hidden = -std::numeric_limits<float>::infinity();
  for (std::uint32_t cols : {5u, 16u, 40u}) {
    const std::vector<float> x = random_floats(std::size_t{2} * cols, 4);
    for (float mask_value : {hidden, -3e38f, -1e30f}) {
      const std::vector<float> mask(cols, mask_value);
      KernelRun run(Op::softmax, DType::f32);
      run.params(ops::SoftmaxParams{2, cols, 1.0f, 1, 1}).in(x).in(mask).out(x.size() * 4).run();
      EXPECT_EQ(run.get<float>(2), std::vector<float>(x.size(), 0.0f)) << mask_value;
    }
    KernelRun bare(Op::softmax, DType::f32);
    bare.params(plain(1, cols)).in(std::vector<float>(cols, hidden)).none().out(cols * 4).run();
    EXPECT_EQ(bare.get<float>(2), std::vector<float>(cols, 0.0f));
  }
}

TEST(Softmax, NotANumberShows) {
  std::vector<float> x(20, std::numeric_limits<float>::quiet_NaN());
  KernelRun all(Op::softmax, DType::f32);
  all.params(plain(1, 20)).in(x).none().out(80).run();
  for (float v : all.get<float>(2)) EXPECT_TRUE(std::isnan(v));
  x.assign(20, 1.0f);
  x[17] = std::numeric_limits<float>::quiet_NaN();
  KernelRun one(Op::softmax, DType::f32);
  one.params(plain(1, 20)).in(x).none().out(80).run();
  for (float v : one.get<float>(2)) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace onepass::test::softmax_test
