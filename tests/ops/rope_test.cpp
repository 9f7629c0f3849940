#include "kernel_harness.h"
#include "ops/rope/params.h"

namespace onepass::test::rope_test {
namespace {

enum class Mode { interleaved, neox, neox_full };

struct Case {
  Mode mode;
  std::uint32_t rows, heads, head_dim, rope_dim;
  bool factors;
};

ops::RopeParams params_of(const Case& c, double theta) {
  const std::uint32_t dim = c.mode == Mode::neox_full ? c.head_dim : c.rope_dim;
  const double ratio = std::pow(theta, -2.0 / dim);
  ops::RopeParams p{};
  p.rows = c.rows;
  p.heads = c.heads;
  p.head_dim = c.head_dim;
  p.angles.pairs = c.rope_dim / 2;
  p.angles.step = c.mode == Mode::interleaved ? 2 : 1;
  p.angles.distance = c.mode == Mode::interleaved ? 1 : dim / 2;
  p.angles.ratio_hi = static_cast<float>(ratio);
  p.angles.ratio_lo = static_cast<float>(ratio - f64(p.angles.ratio_hi));
  p.angles.freq_scale = 1.0f;
  p.angles.yarn_range = 1.0f;
  p.angles.magnitude = 1.0f;
  return p;
}

// Written from the three definitions, not from pair steps and distances.
std::vector<double> reference(const Case& c, double theta, const std::vector<double>& x,
                              const std::vector<float>& factors,
                              const std::vector<std::uint32_t>& positions) {
  std::vector<double> y = x;
  for (std::size_t r = 0; r < c.rows; ++r) {
    for (std::size_t h = 0; h < c.heads; ++h) {
      const std::size_t head = (r * c.heads + h) * c.head_dim;
      for (std::size_t i = 0; i < c.rope_dim / 2; ++i) {
        const double dim = c.mode == Mode::neox_full ? c.head_dim : c.rope_dim;
        double angle = positions[r] * std::pow(theta, -2.0 * static_cast<double>(i) / dim);
        if (c.factors) angle /= f64(factors[i]);
        std::size_t a = i, b = i + c.rope_dim / 2;
        if (c.mode == Mode::interleaved) {
          a = 2 * i;
          b = 2 * i + 1;
        } else if (c.mode == Mode::neox_full) {
          b = i + c.head_dim / 2;
        }
        const double x0 = x[head + a], x1 = x[head + b];
        y[head + a] = x0 * std::cos(angle) - x1 * std::sin(angle);
        y[head + b] = x0 * std::sin(angle) + x1 * std::cos(angle);
      }
    }
  }
  return y;
}

constexpr Case cases[] = {
    {Mode::interleaved, 3, 2, 8, 8, false}, {Mode::interleaved, 2, 3, 64, 32, true},
    {Mode::neox, 5, 4, 128, 128, false},    {Mode::neox, 2, 1, 256, 64, true},
    {Mode::neox_full, 4, 2, 64, 64, true},  {Mode::neox_full, 3, 2, 256, 128, false},
    {Mode::interleaved, 1, 1, 2, 2, false}, {Mode::neox, 300, 2, 64, 64, false},
};

TEST(Rope, MatchesDoubleReference) {
  for (DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const Case& c : cases) {
      const std::size_t n = std::size_t{c.rows} * c.heads * c.head_dim;
      const Stored x = store(type, random_floats(n, 1));
      std::vector<float> factors = random_floats(c.rope_dim / 2, 2);
      for (float& f : factors) f = 2.0f + f;
      std::vector<std::uint32_t> positions(c.rows);
      for (std::uint32_t r = 0; r < c.rows; ++r) positions[r] = r * 4099 + 7;

      ops::RopeParams p = params_of(c, 10000.0);
      p.positions_are_u32 = 1;
      KernelRun run(Op::rope, type);
      run.params(p).in(x.bytes).in(positions);
      c.factors ? run.in(factors) : run.none();
      run.out(x.bytes.size()).run();
      // bf16 keeps 8 bits; both products may be as large as x.
      expect_close(decode(type, run, 3), reference(c, 10000.0, x.values, factors, positions),
                   store_error(type), 1e-6, std::string("rope ") + name(type));

      KernelRun in_place(Op::rope, type);
      in_place.params(p).inout(x.bytes).in(positions);
      c.factors ? in_place.in(factors) : in_place.none();
      in_place.same_as(0).run();
      EXPECT_EQ(in_place.get<std::byte>(3), run.get<std::byte>(3));
    }
  }
}

TEST(Rope, PositionsOfAStepAndRowsBeyondIt) {
  const Case c{Mode::neox, 4, 2, 16, 16, false};
  const std::vector<float> x = random_floats(4 * 2 * 16, 3);
  const std::vector<std::uint32_t> positions = {9, 2, 100, 5};
  std::vector<StepRow> rows;
  for (std::uint32_t position : positions) rows.push_back({1, position, 0, 0});
  ops::RopeParams p = params_of(c, 10000.0);
  KernelRun step(Op::rope, DType::f32);
  step.params(p).in(x).in(step_bytes(rows, {{0, 0, 0, 0}}, 3)).none().out(x.size() * 4);
  step.run(false);
  p.positions_are_u32 = 1;
  KernelRun plain(Op::rope, DType::f32);
  plain.params(p).in(x).in(positions).none().out(x.size() * 4).run();

  const std::vector<std::uint8_t> got = step.get<std::uint8_t>(3);
  const std::vector<std::uint8_t> want = plain.get<std::uint8_t>(3);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], i < got.size() / 4 * 3 ? want[i] : 0xa5) << i;
  }
}

// YaRN as its definition has it: bounds from the context, a ramp between them.
TEST(Rope, LinearScalingAndYarn) {
  struct Scaling {
    double factor, ext, attention, low, high;
  };
  for (const Scaling& k : {Scaling{8.0, 0.0, 1.0, 0.0, 1.0}, Scaling{4.0, 1.0, 1.0, 20.0, 45.0},
                           Scaling{40.0, 1.0, 0.7, 10.0, 23.0}, Scaling{3.0, 0.5, 1.0, 5.0, 5.0}}) {
    for (const Case& c : cases) {
      const std::size_t n = std::size_t{c.rows} * c.heads * c.head_dim;
      const std::vector<float> x = random_floats(n, 4);
      std::vector<float> factors = random_floats(c.rope_dim / 2, 5);
      for (float& f : factors) f = 2.0f + f;
      std::vector<std::uint32_t> positions(c.rows);
      for (std::uint32_t r = 0; r < c.rows; ++r) positions[r] = r * 40009 + 3;
      const auto freq_scale = static_cast<float>(1.0 / k.factor);
      const double range = std::max(0.001, k.high - k.low);
      const double magnitude = k.attention * (k.ext != 0.0 ? 1.0 + 0.1 * std::log(k.factor) : 1.0);

      std::vector<double> want(x.begin(), x.end());
      for (std::size_t r = 0; r < c.rows; ++r) {
        for (std::size_t i = 0; i < c.rope_dim / 2; ++i) {
          const double dim = c.mode == Mode::neox_full ? c.head_dim : c.rope_dim;
          const auto pair = static_cast<double>(i);
          double t = positions[r] * std::pow(10000.0, -2.0 * pair / dim);
          if (c.factors) t /= f64(factors[i]);
          const double mix = k.ext * (1.0 - std::clamp((pair - k.low) / range, 0.0, 1.0));
          const double angle = f64(freq_scale) * t * (1.0 - mix) + t * mix;
          const std::size_t a = c.mode == Mode::interleaved ? 2 * i : i;
          const std::size_t b = c.mode == Mode::interleaved ? a + 1
                                : c.mode == Mode::neox      ? a + c.rope_dim / 2
                                                            : a + c.head_dim / 2;
          for (std::size_t h = 0; h < c.heads; ++h) {
            const std::size_t head = (r * c.heads + h) * c.head_dim;
            const double x0 = f64(x[head + a]), x1 = f64(x[head + b]);
            want[head + a] = magnitude * (x0 * std::cos(angle) - x1 * std::sin(angle));
            want[head + b] = magnitude * (x0 * std::sin(angle) + x1 * std::cos(angle));
          }
        }
      }
      ops::RopeParams p = params_of(c, 10000.0);
      p.positions_are_u32 = 1;
      p.angles.freq_scale = freq_scale;
      p.angles.ext_factor = static_cast<float>(k.ext);
      p.angles.yarn_low = static_cast<float>(k.low);
      p.angles.yarn_range = static_cast<float>(range);
      p.angles.magnitude = static_cast<float>(magnitude);
      KernelRun run(Op::rope, DType::f32);
      run.params(p).in(x).in(positions);
      c.factors ? run.in(factors) : run.none();
      run.out(n * 4).run();
      // Positions reach 12,000,000, where 2^-40 of the angle is 1e-5.
      expect_close(decode(DType::f32, run, 3), want, 1e-6, c.rows > 5 ? 3e-5 : 2e-6, "yarn");
    }
  }
}

// Lanes of the vector code against the scalar definition, bit by bit.
TEST(Rope, SameBitsAsScalarAngles) {
  for (float ext : {0.0f, 1.0f, 0.3f}) {
    ops::RopeParams p = params_of({Mode::neox, 3, 1, 1024, 1024, false}, 500000.0);
    p.positions_are_u32 = 1;
    p.angles.freq_scale = 0.1f;
    p.angles.ext_factor = ext;
    p.angles.yarn_low = 30.0f;
    p.angles.yarn_range = 170.0f;
    const std::vector<std::uint32_t> positions = {0, 131071, 4000000000u};
    std::vector<float> x(3 * 1024, 0.0f);
    for (std::size_t r = 0; r < 3; ++r)
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(r) * 1024, 512, 1.0f);
    KernelRun run(Op::rope, DType::f32);
    run.params(p).in(x).in(positions).none().out(x.size() * 4).run();
    const std::vector<float> got = run.get<float>(3);
    for (std::uint32_t r = 0; r < 3; ++r) {
      for (std::uint32_t i = 0; i < 512; ++i) {
        const ops::OpPair f =
            ops::op_pair_mul(ops::op_rope_frequency(i, p.angles.ratio_hi, p.angles.ratio_lo, 1.0f),
                             ops::op_yarn_scale(i, 0.1f, ext, 30.0f, 170.0f));
        const ops::OpPair want = ops::op_cos_sin_turns(ops::op_turns(f, positions[r]));
        ASSERT_EQ(got[r * 1024 + i], want.hi) << i;
        ASSERT_EQ(got[r * 1024 + 512 + i], want.lo) << i;
      }
    }
  }
}

TEST(Rope, LaunchRefusesPairsOutsideTheHead) {
  ops::RopeParams p = params_of({Mode::neox, 1, 1, 8, 8, false}, 10000.0);
  p.positions_are_u32 = 1;
  p.angles.distance = 5;
  KernelRun run(Op::rope, DType::f32);
  run.params(p).in(std::vector<float>(8)).in(std::vector<std::uint32_t>(1)).none().out(32);
  EXPECT_FALSE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test::rope_test
