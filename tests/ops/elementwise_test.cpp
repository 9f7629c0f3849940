#include <functional>
#include <limits>
#include <map>

#include "kernel_harness.h"
#include "ops/elementwise/params.h"

namespace onepass::test::elementwise_test {
namespace {

constexpr DType row_dtypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr std::uint32_t counts[] = {1, 17, 1000, 100003};

struct BinaryCase {
  Op op;
  std::function<double(double, double)> f;
  double relative, absolute;
};

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x * M_SQRT1_2); }

TEST(Elementwise, BinaryMatchesDoubleReference) {
  const BinaryCase cases[] = {
      {Op::add, [](double a, double b) { return a + b; }, 1e-7, 0},
      {Op::mul, [](double a, double b) { return a * b; }, 1e-7, 0},
      {Op::silu_mul, [](double a, double b) { return silu(a) * b; }, 6e-7, 0},
      {Op::sigmoid_mul, [](double a, double b) { return sigmoid(a) * b; }, 6e-7, 0},
      {Op::gelu_mul, [](double a, double b) { return gelu(a) * b; }, 1e-6, 4e-6},
      {Op::gelu_erf_mul, [](double a, double b) { return gelu_erf(a) * b; }, 4e-6, 0},
  };
  for (const BinaryCase& c : cases) {
    for (DType type : row_dtypes) {
      for (std::uint32_t n : counts) {
        const Stored a = store(type, random_floats(n, 1, 8.0f));
        const Stored b = store(type, random_floats(n, 2, 8.0f));
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) want[i] = c.f(a.values[i], b.values[i]);
        const ops::ElementwiseParams params{n, 0, 0.0f, 0};
        KernelRun run(c.op, type);
        run.params(params).in(a.bytes).in(b.bytes).out(a.bytes.size()).run();
        // f16 results below 2^-14 are spaced 2^-24.
        expect_close(decode(type, run, 2), want, c.relative + store_error(type),
                     c.absolute + (type == DType::f16 ? 0x1p-25 : 1e-12), info(c.op).name);

        KernelRun in_place(c.op, type);
        in_place.params(params).in(a.bytes).inout(b.bytes).same_as(1).run();
        EXPECT_EQ(in_place.get<std::byte>(2), run.get<std::byte>(2)) << info(c.op).name;
      }
    }
  }
}

TEST(Elementwise, RowsOfBRepeat) {
  for (Op op : {Op::add, Op::mul}) {
    for (DType type : row_dtypes) {
      for (std::uint32_t dim : {1u, 7u, 64u, 5000u}) {
        const std::uint32_t rows = 40000 / dim + 3, n = rows * dim;
        const Stored a = store(type, random_floats(n, 1, 8.0f));
        const Stored b = store(type, random_floats(dim, 2, 8.0f));
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) {
          const double x = a.values[i], y = b.values[i % dim];
          want[i] = op == Op::add ? x + y : x * y;
        }
        KernelRun run(op, type);
        run.params(ops::ElementwiseParams{n, 0, 0.0f, dim}).inout(a.bytes).in(b.bytes);
        run.same_as(0).run();
        ASSERT_GT(run.launch().tiles, 1u);
        expect_close(decode(type, run, 2), want, 1e-7 + store_error(type), 0x1p-25, info(op).name);
      }
    }
  }
  KernelRun run(Op::add, DType::f32);  // b too short for its row
  run.params(ops::ElementwiseParams{8, 0, 0.0f, 4}).in(std::vector<float>(8));
  run.in(std::vector<float>(3)).out(32);
  EXPECT_FALSE(run.launch_status().has_value());
}

TEST(Elementwise, UnaryMatchesDoubleReference) {
  struct Case {
    Op op;
    double (*f)(double);
    double relative, absolute;
  };
  const Case cases[] = {
      {Op::gelu, gelu, 1e-6, 5e-7},
      {Op::gelu_erf, gelu_erf, 5e-6, 0},
      {Op::silu, silu, 6e-7, 0},
      {Op::sigmoid, sigmoid, 6e-7, 0},
      {Op::relu2, [](double x) { return x > 0 ? x * x : 0; }, 1e-7, 0},
      {Op::softcap, [](double x) { return 3.0 * std::tanh(x / 3.0); }, 1e-6, 1e-7},
      {Op::scale, [](double x) { return 3.0 * x; }, 1e-7, 0},
  };
  for (const Case& c : cases) {
    for (DType type : row_dtypes) {
      for (std::uint32_t n : counts) {
        const Stored x = store(type, random_floats(n, 3, 12.0f));
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) want[i] = c.f(x.values[i]);
        const ops::ElementwiseParams params{n, 0, 3.0f, 0};
        KernelRun run(c.op, type);
        run.params(params).in(x.bytes).out(x.bytes.size()).run();
        expect_close(decode(type, run, 1), want, c.relative + store_error(type),
                     c.absolute + (type == DType::f16 ? 0x1p-25 : 1e-37), info(c.op).name);
        KernelRun in_place(c.op, type);
        in_place.params(params).inout(x.bytes).same_as(0).run();
        EXPECT_EQ(in_place.get<std::byte>(1), run.get<std::byte>(1)) << info(c.op).name;
      }
    }
  }
}

TEST(Elementwise, ActivationsAtTheEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0.0f, 1e30f, -1e30f, 100.0f, -100.0f, inf, nan_value};
  const std::map<Op, std::vector<float>> want = {
      {Op::gelu_erf, {0.0f, 1e30f, -0.0f, 100.0f, -0.0f, inf}},
      {Op::relu2, {0.0f, inf, 0.0f, 10000.0f, 0.0f, inf}},
      {Op::sigmoid, {0.5f, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f}},
      {Op::silu, {0.0f, 1e30f, -0.0f, 100.0f, -0.0f, inf}},
  };
  for (const auto& [op, values] : want) {
    KernelRun run(op, DType::f32);
    run.params(ops::ElementwiseParams{7, 0, 0.0f, 0}).in(x).out(28).run();
    std::vector<float> got = run.get<float>(1);
    EXPECT_TRUE(std::isnan(got.back())) << info(op).name;
    got.pop_back();
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i] == values[i] ? 0.0 : f64(got[i] - values[i]), 0.0, 1e-40)
          << info(op).name << " of " << x[i];
    }
  }
}

TEST(Cast, EveryPairOfTypes) {
  for (DType from : row_dtypes) {
    for (DType to : row_dtypes) {
      for (std::uint32_t n : counts) {
        const Stored x = store(from, random_floats(n, 8, 300.0f));
        std::vector<float> values(x.values.begin(), x.values.end());  // exact
        KernelRun run(Op::cast, from);
        run.params(ops::CastParams{n, 0, static_cast<std::uint32_t>(to)}).in(x.bytes);
        run.out(n * info(to).block_bytes).run();
        EXPECT_EQ(run.get<std::byte>(1), store(to, values).bytes) << name(from) << name(to);
      }
    }
  }
  KernelRun run(Op::cast, DType::f32);
  run.params(ops::CastParams{4, 0, static_cast<std::uint32_t>(DType::q8_0)});
  run.in(std::vector<float>(4)).out(16);
  EXPECT_FALSE(run.launch_status().has_value());
}

TEST(Elementwise, GeluSaturates) {
  const std::vector<float> x = {1e30f, -1e30f, 0.0f, -20.0f, 0};
  KernelRun run(Op::gelu, DType::f32);
  run.params(ops::ElementwiseParams{4, 0, 0.0f, 0}).in(x).out(16).run();
  EXPECT_EQ(run.get<float>(1), (std::vector<float>{1e30f, -0.0f, 0.0f, -0.0f}));
}

TEST(Elementwise, CountsAbove32BitsAreNotCut) {
  KernelRun run(Op::add, DType::f32);
  run.params(ops::ElementwiseParams{4, 1, 0.0f, 0});
  run.in(std::vector<float>(4)).in(std::vector<float>(4)).out(16);
  EXPECT_FALSE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test::elementwise_test
