#include <limits>

#include "kernel_harness.h"
#include "ops/softmax/params.h"

namespace onepass::test {
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

TEST(Softmax, MatchesDoubleReference) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (Case c :
         {Case{1, 1}, Case{3, 33}, Case{5, 66}, Case{2, 97}, Case{70, 1000}, Case{1, 40001}}) {
      const Stored x = store(type, random_floats(std::size_t{c.rows} * c.cols, 1, 20.0f));
      KernelRun run(Op::softmax, type);
      run.params(ops::SoftmaxParams{c.rows, c.cols}).in(x.bytes).out(x.bytes.size()).run();
      expect_close(decode(type, run, 1), reference(x.values, c.cols), 3e-6 + store_error(type),
                   type == DType::f16 ? 0x1p-24 : 1e-30, std::string("softmax ") + name(type));
      KernelRun in_place(Op::softmax, type);
      in_place.params(ops::SoftmaxParams{c.rows, c.cols}).inout(x.bytes).same_as(0).run();
      EXPECT_EQ(in_place.get<std::byte>(1), run.get<std::byte>(1));
    }
  }
}

TEST(Softmax, LargeAndMaskedScores) {
  const float masked = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {3e38f, masked, 3e38f, masked};
  KernelRun run(Op::softmax, DType::f32);
  run.params(ops::SoftmaxParams{1, 4}).in(x).out(16).run();
  EXPECT_EQ(run.get<float>(1), (std::vector<float>{0.5f, 0.0f, 0.5f, 0.0f}));
}

}  // namespace
}  // namespace onepass::test
