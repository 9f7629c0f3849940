#include "kernel_harness.h"
#include "ops/rope/params.h"

namespace onepass::test {
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

TEST(Rope, LaunchRefusesPairsOutsideTheHead) {
  ops::RopeParams p = params_of({Mode::neox, 1, 1, 8, 8, false}, 10000.0);
  p.positions_are_u32 = 1;
  p.angles.distance = 5;
  KernelRun run(Op::rope, DType::f32);
  run.params(p).in(std::vector<float>(8)).in(std::vector<std::uint32_t>(1)).none().out(32);
  EXPECT_FALSE(run.launch_status().has_value());
}

}  // namespace
}  // namespace onepass::test
