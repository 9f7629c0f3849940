#include <functional>

#include "kernel_harness.h"
#include "ops/elementwise/params.h"

namespace onepass::test {
namespace {

constexpr DType row_dtypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr std::uint32_t counts[] = {1, 17, 1000, 100003};

struct BinaryCase {
  Op op;
  std::function<double(double, double)> f;
  double relative;
};

double silu(double x) { return x / (1.0 + std::exp(-x)); }

TEST(Elementwise, BinaryMatchesDoubleReference) {
  const BinaryCase cases[] = {
      {Op::add, [](double a, double b) { return a + b; }, 1e-7},
      {Op::mul, [](double a, double b) { return a * b; }, 1e-7},
      {Op::silu_mul, [](double a, double b) { return silu(a) * b; }, 6e-7},
  };
  for (const BinaryCase& c : cases) {
    for (DType type : row_dtypes) {
      for (std::uint32_t n : counts) {
        const Stored a = store(type, random_floats(n, 1, 8.0f));
        const Stored b = store(type, random_floats(n, 2, 8.0f));
        std::vector<double> want(n);
        for (std::size_t i = 0; i < n; ++i) want[i] = c.f(a.values[i], b.values[i]);
        const ops::ElementwiseParams params{n, 0, 0.0f};
        KernelRun run(c.op, type);
        run.params(params).in(a.bytes).in(b.bytes).out(a.bytes.size()).run();
        // f16 results below 2^-14 are spaced 2^-24.
        expect_close(decode(type, run, 2), want, c.relative + store_error(type),
                     type == DType::f16 ? 0x1p-25 : 1e-12, info(c.op).name);

        KernelRun in_place(c.op, type);
        in_place.params(params).in(a.bytes).inout(b.bytes).same_as(1).run();
        EXPECT_EQ(in_place.get<std::byte>(2), run.get<std::byte>(2)) << info(c.op).name;
      }
    }
  }
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Elementwise, GeluAndSoftcapMatchDoubleReference) {
  for (DType type : row_dtypes) {
    for (std::uint32_t n : counts) {
      const Stored x = store(type, random_floats(n, 3, 12.0f));
      std::vector<double> want_gelu(n), want_cap(n);
      for (std::size_t i = 0; i < n; ++i) {
        want_gelu[i] = gelu(x.values[i]);
        want_cap[i] = 3.0 * std::tanh(x.values[i] / 3.0);
      }
      KernelRun g(Op::gelu, type);
      g.params(ops::ElementwiseParams{n, 0, 0.0f}).in(x.bytes).out(x.bytes.size()).run();
      expect_close(decode(type, g, 1), want_gelu, 1e-6 + store_error(type), 5e-7, "gelu");
      KernelRun cap(Op::softcap, type);
      cap.params(ops::ElementwiseParams{n, 0, 3.0f}).inout(x.bytes).same_as(0).run();
      expect_close(decode(type, cap, 1), want_cap, 1e-6 + store_error(type), 1e-7, "softcap");
    }
  }
}

TEST(Elementwise, GeluSaturates) {
  const std::vector<float> x = {1e30f, -1e30f, 0.0f, -20.0f};
  KernelRun run(Op::gelu, DType::f32);
  run.params(ops::ElementwiseParams{4, 0, 0.0f}).in(x).out(16).run();
  EXPECT_EQ(run.get<float>(1), (std::vector<float>{1e30f, -0.0f, 0.0f, -0.0f}));
}

TEST(Copy, EveryTypeToTheLastByte) {
  for (int t = 0; t < static_cast<int>(DType::count_); ++t) {
    const auto type = static_cast<DType>(t);
    for (std::size_t blocks : {1u, 3u, 40001u}) {
      std::vector<std::uint8_t> bytes(blocks * info(type).block_bytes);
      std::mt19937 generator(7);
      for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(generator());
      KernelRun run(Op::copy, type);
      run.params(ops::CopyParams{static_cast<std::uint32_t>(bytes.size()), 0});
      run.in(bytes).out(bytes.size()).run();
      EXPECT_EQ(run.get<std::uint8_t>(1), bytes) << name(type);
    }
  }
}

TEST(Elementwise, CountsAbove32BitsAreNotCut) {
  KernelRun run(Op::add, DType::f32);
  run.params(ops::ElementwiseParams{4, 1, 0.0f});
  run.in(std::vector<float>(4)).in(std::vector<float>(4)).out(16);
  EXPECT_FALSE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test
