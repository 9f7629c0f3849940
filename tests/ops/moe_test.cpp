#include <limits>

#include "kernel_harness.h"
#include "ops/moe/params.h"

namespace onepass::test::moe_test {
namespace {

struct Choice {
  std::vector<std::uint32_t> ids;
  std::vector<double> weights;
};

Choice reference_gate(const std::vector<float>& logits, const std::vector<float>& bias,
                      const std::vector<float>& expert_scale, const ops::MoeGateParams& p) {
  Choice all;
  for (std::uint32_t t = 0; t < p.tokens; ++t) {
    const float* x = logits.data() + std::size_t{t} * p.experts;
    std::vector<double> score(p.experts), rank;
    const double largest = f64(*std::max_element(x, x + p.experts));
    double sum = 0;
    for (std::uint32_t e = 0; e < p.experts; ++e) sum += std::exp(f64(x[e]) - largest);
    for (std::uint32_t e = 0; e < p.experts; ++e) {
      score[e] =
          p.sigmoid != 0 ? 1 / (1 + std::exp(-f64(x[e]))) : std::exp(f64(x[e]) - largest) / sum;
    }
    rank = score;
    if (p.has_bias != 0) {
      for (std::uint32_t e = 0; e < p.experts; ++e) rank[e] += f64(bias[e]);
    }
    std::vector<std::uint32_t> ids(p.experts);
    std::iota(ids.begin(), ids.end(), 0u);
    std::stable_sort(ids.begin(), ids.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return rank[a] > rank[b]; });
    ids.resize(p.used);
    double total = 0;
    for (std::uint32_t e : ids) total += score[e];
    for (std::uint32_t e : ids) {
      double w = score[e];
      if (p.renormalise != 0) w /= std::max(total, 6.103515625e-5);
      w *= f64(p.scale);
      if (p.has_expert_scale != 0) w *= f64(expert_scale[e]);
      all.ids.push_back(e);
      all.weights.push_back(w);
    }
  }
  return all;
}

TEST(MoeGate, EveryMode) {
  struct Size {
    std::uint32_t tokens, experts, used;
  };
  for (const Size& s :
       {Size{1, 1, 1}, Size{5, 8, 2}, Size{300, 128, 8}, Size{3, 60, 60}, Size{2, 1024, 10}}) {
    for (std::uint32_t mode = 0; mode < 16; ++mode) {
      const ops::MoeGateParams p{
          s.tokens,      s.experts,     s.used,        mode & 1,
          mode >> 1 & 1, mode >> 2 & 1, mode >> 3 & 1, mode % 3 == 0 ? 2.5f : 1.0f};
      const std::vector<float> logits = random_floats(std::size_t{s.tokens} * s.experts, 1, 6.0f);
      const std::vector<float> bias = random_floats(s.experts, 2, 0.3f);
      const std::vector<float> scale = random_floats(s.experts, 3, 2.0f);
      const Choice want = reference_gate(logits, bias, scale, p);
      KernelRun run(Op::moe_gate, DType::f32);
      run.params(p).in(logits);
      p.has_bias != 0 ? run.in(bias) : run.none();
      p.has_expert_scale != 0 ? run.in(scale) : run.none();
      run.out(want.ids.size() * 4).out(want.ids.size() * 4).run();
      EXPECT_EQ(run.get<std::uint32_t>(3), want.ids) << s.experts << " mode " << mode;
      expect_close(decode(DType::f32, run, 4), want.weights, 3e-6, 1e-12, "weights");
    }
  }
}

TEST(MoeGate, TiesTakeTheLowestIdAndTinySumsAreNotDividedBy) {
  const std::vector<float> logits = {2, 3, 3, 3, -100, -100, -100, -100};
  KernelRun run(Op::moe_gate, DType::f32);
  run.params(ops::MoeGateParams{2, 4, 2, 1, 1, 0, 0, 1.0f}).in(logits).none().none();
  run.out(16).out(16).run();
  EXPECT_EQ(run.get<std::uint32_t>(3), (std::vector<std::uint32_t>{1, 2, 0, 1}));
  const std::vector<float> w = run.get<float>(4);
  EXPECT_EQ(w[0], 0.5f);
  EXPECT_EQ(w[1], 0.5f);
  EXPECT_LT(w[2], 1e-30f);
}

TEST(MoeGate, StrangeLogitsStillGiveDistinctExperts) {
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {nan_value, nan_value, nan_value, nan_value,  //
                                     -inf,      -inf,      -inf,      -inf,       //
                                     inf,       0,         inf,       -inf};
  KernelRun run(Op::moe_gate, DType::f32);
  run.params(ops::MoeGateParams{3, 4, 2, 0, 1, 0, 0, 1.0f}).in(logits).none().none();
  run.out(24).out(24).run();
  EXPECT_EQ(run.get<std::uint32_t>(3), (std::vector<std::uint32_t>{0, 1, 0, 1, 0, 2}));
}

TEST(MoeGate, ParamsThatDoNotFit) {
  for (const auto& [experts, used] : {std::pair{4u, 5u}, {4u, 0u}, {1025u, 2u}}) {
    KernelRun run(Op::moe_gate, DType::f32);
    run.params(ops::MoeGateParams{1, experts, used, 0, 1, 0, 0, 1.0f});
    run.in(std::vector<float>(experts)).none().none().out(64).out(64);
    EXPECT_FALSE(run.launch_status().has_value());
  }
}

TEST(MoeReduce, EveryCombinationOfInputs) {
  struct Size {
    std::uint32_t tokens, used, dim;
  };
  for (const Size& s : {Size{1, 1, 1}, Size{3, 2, 100}, Size{7, 8, 2048}, Size{40, 4, 333}}) {
    const std::size_t n = std::size_t{s.tokens} * s.dim;
    const std::vector<float> y = random_floats(n * s.used, 1),
                             w = random_floats(s.tokens * s.used, 2);
    const std::vector<float> residual = random_floats(n, 3), shared = random_floats(n, 4);
    const std::vector<float> gate = random_floats(s.tokens, 5, 4.0f);
    for (std::uint32_t mode : {0u, 1u, 2u, 3u, 6u, 7u}) {
      const ops::MoeReduceParams p{s.tokens, s.used, s.dim, mode & 1, mode >> 1 & 1, mode >> 2, 0};
      std::vector<double> want(n);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t t = i / s.dim;
        for (std::size_t k = 0; k < s.used; ++k) {
          want[i] += f64(w[t * s.used + k]) * f64(y[(t * s.used + k) * s.dim + i % s.dim]);
        }
        const double g = p.has_shared_gate != 0 ? 1 / (1 + std::exp(-f64(gate[t]))) : 1;
        if (p.has_shared != 0) want[i] += g * f64(shared[i]);
        if (p.has_residual != 0) want[i] += f64(residual[i]);
      }
      KernelRun run(Op::moe_reduce, DType::f32);
      run.params(p).in(y).in(w);
      p.has_residual != 0 ? run.in(residual) : run.none();
      p.has_shared != 0 ? run.in(shared) : run.none();
      p.has_shared_gate != 0 ? run.in(gate) : run.none();
      run.out(n * 4).none().none().run();
      expect_close(decode(DType::f32, run, 5), want, 1e-6, 1e-6, "moe_reduce");

      if (p.has_residual == 0) continue;
      KernelRun in_place(Op::moe_reduce, DType::f32);
      in_place.params(p).in(y).in(w).inout(residual);
      p.has_shared != 0 ? in_place.in(shared) : in_place.none();
      p.has_shared_gate != 0 ? in_place.in(gate) : in_place.none();
      in_place.same_as(2).none().none().run();
      EXPECT_EQ(in_place.get<float>(5), run.get<float>(5));
    }
  }
}

}  // namespace
}  // namespace onepass::test::moe_test
