// argmax, argsort, top_k and sample.
#include <limits>

#include "kernel_harness.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "ops/sample/params.h"
#include "ops/shared/philox.h"

namespace onepass::test::sample_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// Few different values, so that there are many ties, and some strange ones.
std::vector<float> awkward_floats(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> x(n);
  for (float& v : x) {
    const auto kind = generator() % 40;
    v = kind == 0   ? nan_value
        : kind == 1 ? inf
        : kind == 2 ? -inf
        : kind == 3 ? -0.0f
        : kind < 20 ? static_cast<float>(static_cast<int>(generator() % 21) - 10)
                    : static_cast<float>(generator() % 2000001) / 1e5f - 10.0f;
  }
  return x;
}

// Indices in the order of the ops, by a stable sort.
std::vector<std::uint32_t> sorted_ids(const float* x, std::uint32_t n) {
  std::vector<std::uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0u);
  std::stable_sort(ids.begin(), ids.end(), [x](std::uint32_t a, std::uint32_t b) {
    if (std::isnan(x[a]) || std::isnan(x[b])) return !std::isnan(x[a]) && std::isnan(x[b]);
    return x[a] > x[b];
  });
  return ids;
}

struct Rows {
  std::uint32_t rows, cols;
};
constexpr Rows shapes[] = {{1, 1}, {3, 7}, {500, 64}, {2, 8192}, {3, 8193}, {2, 30011}};

TEST(Argmax, LowestIndexOfTheLargest) {
  const std::vector<float> x = {
      1,         5,         5,         2,          // tie
      -inf,      -inf,      -inf,      -inf,       //
      nan_value, -3,        nan_value, -2,         // numbers win
      nan_value, nan_value, nan_value, nan_value,  //
      inf,       0,         inf,       nan_value,  //
      -0.0f,     0.0f,      -1,        -1,         // zeros are equal
  };
  KernelRun run(Op::argmax, DType::f32);
  run.params(ops::ArgmaxParams{6, 4}).in(x).out(24).run();
  EXPECT_EQ(run.get<std::uint32_t>(1), (std::vector<std::uint32_t>{1, 0, 3, 0, 0, 0}));
}

TEST(Argmax, EveryShape) {
  for (const Rows& s : shapes) {
    const std::vector<float> x = awkward_floats(std::size_t{s.rows} * s.cols, 5);
    std::vector<std::uint32_t> want;
    for (std::uint32_t r = 0; r < s.rows; ++r) {
      want.push_back(sorted_ids(x.data() + std::size_t{r} * s.cols, s.cols)[0]);
    }
    KernelRun run(Op::argmax, DType::f32);
    run.params(ops::ArgmaxParams{s.rows, s.cols}).in(x).out(s.rows * 4).run();
    EXPECT_EQ(run.get<std::uint32_t>(1), want) << s.cols;
    if (s.cols > 8192) {
      EXPECT_GT(run.launch().tiles, s.rows);
    }
  }
}

TEST(Argsort, EveryShape) {
  for (const Rows& s : shapes) {
    const std::vector<float> x = awkward_floats(std::size_t{s.rows} * s.cols, 6);
    std::vector<std::uint32_t> want;
    for (std::uint32_t r = 0; r < s.rows; ++r) {
      const auto ids = sorted_ids(x.data() + std::size_t{r} * s.cols, s.cols);
      want.insert(want.end(), ids.begin(), ids.end());
    }
    KernelRun run(Op::argsort, DType::f32);
    run.params(ops::ArgmaxParams{s.rows, s.cols}).in(x).out(want.size() * 4).run();
    EXPECT_EQ(run.get<std::uint32_t>(1), want) << s.cols;
  }
}

TEST(TopK, EveryShapeAndCount) {
  for (const Rows& s : shapes) {
    for (unsigned order = 0; order < 3; ++order) {
      std::vector<float> x = awkward_floats(std::size_t{s.rows} * s.cols, 7);
      // Rising rows replace the kept numbers all the time, falling ones never.
      if (order == 1) std::sort(x.begin(), x.end());
      if (order == 2) std::sort(x.rbegin(), x.rend());
      if (order > 0)
        std::replace_if(
            x.begin(), x.end(), [](float v) { return v != v; }, 0.5f);
      for (std::uint32_t k : {1u, 5u, 256u, 512u, 513u, 5000u, 9000u, s.cols}) {
        if (k > s.cols) continue;
        std::vector<std::uint32_t> want;
        for (std::uint32_t r = 0; r < s.rows; ++r) {
          const auto ids = sorted_ids(x.data() + std::size_t{r} * s.cols, s.cols);
          want.insert(want.end(), ids.begin(), ids.begin() + k);
        }
        KernelRun run(Op::top_k, DType::f32);
        run.params(ops::TopKParams{s.rows, s.cols, k}).in(x);
        run.out(want.size() * 4).out(want.size() * 4).run();
        ASSERT_EQ(run.get<std::uint32_t>(2), want) << s.cols << " columns, k " << k;
        const std::vector<float> values = run.get<float>(1);
        for (std::size_t i = 0; i < want.size(); ++i) {
          const float expected = x[i / k * s.cols + want[i]];
          ASSERT_EQ(ops::op_to_bits(values[i]), ops::op_to_bits(expected));
        }
      }
    }
  }
  for (std::uint32_t k : {0u, 9u}) {
    KernelRun run(Op::top_k, DType::f32);
    run.params(ops::TopKParams{1, 8, k}).in(std::vector<float>(8)).out(64).out(64);
    EXPECT_FALSE(run.launch_status().has_value());
  }
}

TEST(Philox, KnownAnswers) {
  // From the generator's published test vectors.
  struct Case {
    ops::OpPhilox counter;
    std::uint32_t key[2];
    ops::OpPhilox want;
  };
  const std::uint32_t ones = 0xffffffffu;
  const Case cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
      {{ones, ones, ones, ones},
       {ones, ones},
       {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
      {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
       {0xa4093822u, 0x299f31d0u},
       {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
  };
  for (const Case& c : cases) {
    const ops::OpPhilox got = ops::op_philox(c.counter, c.key[0], c.key[1]);
    EXPECT_EQ(got.x, c.want.x);
    EXPECT_EQ(got.y, c.want.y);
    EXPECT_EQ(got.z, c.want.z);
    EXPECT_EQ(got.w, c.want.w);
  }
  EXPECT_EQ(ops::op_unit(0), 0.0f);
  EXPECT_EQ(ops::op_unit(0xffffffffu), 1.0f - 0x1p-24f);
}

struct Settings {
  float temperature;
  std::uint32_t top_k;
  float top_p, min_p;
};

float unit(std::uint64_t seed, std::uint32_t position, std::uint32_t slot) {
  return ops::op_unit(ops::op_philox({position, slot, 0, 0}, static_cast<std::uint32_t>(seed),
                                     static_cast<std::uint32_t>(seed >> 32))
                          .x);
}

// The definition, step by step, with a full sort. Also the probabilities of what may be drawn.
std::uint32_t reference(const float* x, std::uint32_t n, const Settings& s, float u,
                        std::vector<double>* probabilities = nullptr) {
  std::vector<float> scaled(x, x + n);
  for (float& v : scaled) v = s.temperature == 0 ? v : v / s.temperature;
  std::vector<std::uint32_t> ids = sorted_ids(scaled.data(), n);
  if (s.temperature == 0) return ids[0];
  if (s.top_k != 0 && s.top_k < n) ids.resize(s.top_k);
  const float largest = scaled[ids[0]];
  if (std::isnan(largest) || largest == -inf) return ids[0];
  std::vector<float> weights;
  float sum = 0;
  for (std::uint32_t id : ids) {
    const float v = scaled[id];
    weights.push_back(std::isnan(v) ? 0.0f : v == largest ? 1.0f : ops::op_exp(v - largest));
    sum += weights.back();
  }
  if (s.top_p < 1) {
    float reached = 0;
    std::size_t kept = 0;
    do {
      reached += weights[kept++] / sum;
    } while (kept < ids.size() && reached < s.top_p);
    weights.resize(kept);
  }
  if (s.min_p > 0) {
    std::size_t kept = 1;
    while (kept < weights.size() && weights[kept] / sum >= s.min_p * (1.0f / sum)) ++kept;
    weights.resize(kept);
  }
  float total = 0;
  for (float w : weights) total += w;
  if (probabilities != nullptr) {
    probabilities->assign(n, 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      (*probabilities)[ids[i]] = f64(weights[i]) / f64(total);
    }
  }
  float passed = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    passed += weights[i];
    if (passed > u * total) return ids[i];
  }
  return ids[weights.size() - 1];
}

std::vector<std::byte> seeded_step(std::vector<StepRow> rows, std::uint32_t n_rows,
                                   std::uint64_t seed) {
  std::vector<std::byte> bytes = step_bytes(std::move(rows), {{0, 0, 0, 0}}, n_rows);
  const auto lo = static_cast<std::uint32_t>(seed), hi = static_cast<std::uint32_t>(seed >> 32);
  std::memcpy(bytes.data() + offsetof(StepHeader, seed_lo), &lo, 4);
  std::memcpy(bytes.data() + offsetof(StepHeader, seed_hi), &hi, 4);
  return bytes;
}

std::vector<std::uint32_t> draw(const std::vector<float>& x, std::uint32_t rows, std::uint32_t cols,
                                const Settings& s, const std::vector<std::byte>& step,
                                bool all_rows = true) {
  KernelRun run(Op::sample, DType::f32);
  run.params(ops::SampleParams{rows, cols, s.top_k, s.temperature, s.top_p, s.min_p});
  run.in(x).in(step).out(rows * 4).run(all_rows);
  return run.get<std::uint32_t>(2);
}

constexpr Settings settings[] = {
    {0.0f, 0, 1.0f, 0.0f},  {1.0f, 0, 1.0f, 0.0f},    {0.7f, 40, 1.0f, 0.0f},
    {1.3f, 0, 0.9f, 0.0f},  {1.0f, 0, 1.0f, 0.05f},   {0.8f, 100, 0.95f, 0.02f},
    {1.0f, 1, 1.0f, 0.0f},  {1e-3f, 256, 0.5f, 0.0f}, {2.0f, 600, 0.999f, 0.001f},
    {1.0f, 0, 1e-6f, 0.0f}, {1.0f, 0, 1.0f, 1.0f},    {1.0f, 0xffffffffu, 0.7f, 0.1f},
};

TEST(Sample, FollowsTheDefinitionToTheBit) {
  for (const Rows& s : shapes) {
    const std::vector<float> normal = random_floats(std::size_t{s.rows} * s.cols, 31, 9.0f);
    const std::vector<float> awkward = awkward_floats(std::size_t{s.rows} * s.cols, 8);
    for (const std::vector<float>* x : {&normal, &awkward}) {
      for (const Settings& set : settings) {
        const std::uint64_t seed = 0x123456789abcdefu;
        std::vector<StepRow> rows;
        std::vector<std::uint32_t> want;
        for (std::uint32_t r = 0; r < s.rows; ++r) {
          rows.push_back({0, 1000 * r + s.cols, r % 3, 0});
          want.push_back(reference(x->data() + std::size_t{r} * s.cols, s.cols, set,
                                   unit(seed, rows[r].position, rows[r].slot)));
        }
        EXPECT_EQ(draw(*x, s.rows, s.cols, set, seeded_step(rows, s.rows, seed)), want)
            << s.cols << " columns, temperature " << set.temperature << " top_k " << set.top_k
            << " top_p " << set.top_p << " min_p " << set.min_p;
      }
    }
  }
}

TEST(Sample, FrequenciesMatchTheProbabilities) {
  const std::uint32_t vocab = 24, draws = 4000;
  const std::vector<float> row = random_floats(vocab, 77, 3.0f);
  std::vector<float> x;
  std::vector<StepRow> rows;
  for (std::uint32_t r = 0; r < draws; ++r) {
    x.insert(x.end(), row.begin(), row.end());
    rows.push_back({0, r, 0, 0});
  }
  for (const Settings& s : {Settings{1.0f, 0, 1.0f, 0.0f}, Settings{0.8f, 10, 0.9f, 0.05f}}) {
    std::vector<double> p;
    reference(row.data(), vocab, s, 0.5f, &p);
    std::vector<double> seen(vocab);
    for (std::uint32_t id : draw(x, draws, vocab, s, seeded_step(rows, draws, 42))) ++seen[id];
    double chi = 0;
    for (std::uint32_t i = 0; i < vocab; ++i) {
      if (p[i] == 0) {
        EXPECT_EQ(seen[i], 0.0) << i;
      } else {
        chi += (seen[i] - draws * p[i]) * (seen[i] - draws * p[i]) / (draws * p[i]);
      }
    }
    EXPECT_LT(chi, 70.0);  // 23 degrees of freedom: beyond one in a million
  }
}

TEST(Sample, SeedPositionAndSlotDecide) {
  const std::uint32_t vocab = 1000;
  const std::vector<float> x(vocab);  // all equal
  const Settings s{1.0f, 0, 1.0f, 0.0f};
  const auto one = [&](std::uint64_t seed, std::uint32_t position, std::uint32_t slot) {
    return draw(x, 1, vocab, s, seeded_step({{0, position, slot, 0}}, 1, seed))[0];
  };
  EXPECT_EQ(one(1, 2, 0), one(1, 2, 0));
  EXPECT_NE(one(1, 2, 0), one(2, 2, 0));
  EXPECT_NE(one(1, 2, 0), one(1ull << 32 | 1, 2, 0));
  EXPECT_NE(one(1, 2, 0), one(1, 3, 0));
  EXPECT_NE(one(1, 2, 0), one(1, 2, 1));
}

TEST(Sample, RowsBeyondTheStepStay) {
  for (std::uint32_t vocab : {50u, 20000u}) {
    const std::vector<float> x = random_floats(std::size_t{4} * vocab, 3);
    const auto step = seeded_step({{0, 1, 0, 0}, {0, 2, 0, 0}, {0, 3, 0, 0}, {0, 4, 0, 0}}, 2, 9);
    const auto got = draw(x, 4, vocab, {1.0f, 5, 1.0f, 0.0f}, step, false);
    EXPECT_LT(got[0], vocab);
    EXPECT_LT(got[1], vocab);
    EXPECT_EQ(got[2], 0xa5a5a5a5u);
    EXPECT_EQ(got[3], 0xa5a5a5a5u);
  }
}

// The scratch of a usual setting must not grow with the vocabulary squared or sort it all.
TEST(Sample, FewAreKeptOfALargeVocabulary) {
  KernelRun run(Op::sample, DType::f32);
  const std::uint32_t vocab = 151936;
  run.params(ops::SampleParams{1, vocab, 40, 1.0f, 0.95f, 0.0f});
  run.in(random_floats(vocab, 1, 5.0f)).in(seeded_step({{0, 7, 0, 0}}, 1, 5)).out(4).run();
  EXPECT_EQ(run.launch().tiles, 19u);
  EXPECT_EQ(run.launch().scratch_bytes, 19u * 40 * 8);
  EXPECT_EQ(run.launch().persistent_bytes, 4u);
}

// Replays that feed themselves, on one and on several threads: every position draws anew, and the
// counters of the parts are ready for the next pass.
TEST(Sample, ReplaysOnADevice) {
  const std::uint32_t vocab = 50021;
  const std::vector<float> x = random_floats(vocab, 13, 6.0f);
  const Settings set{0.9f, 50, 0.98f, 0.0f};
  for (std::uint32_t threads : {1u, 2u, 5u}) {
    const Result<Device> device =
        Device::open("cpu", {.backend = {CpuOptions{.threads = threads}}});
    ASSERT_TRUE(device) << device.error().to_string();
    const Result<Buffer> memory = device->allocate(vocab * 4 + 256);
    const Result<StepState> step = StepState::create(*device, 1, 1);
    ASSERT_TRUE(memory && step);
    const Tensor token = memory->tensor(DType::u32, {1});
    const Tensor logits = memory->tensor(DType::f32, {1, vocab}, 256);
    ASSERT_TRUE(device->write_as<float>(logits.view, x));

    const GraphExecutor executor(*device);
    GraphSession s = executor.begin_recorded();
    ops::sample(s, {.logits = logits,
                    .out = token,
                    .step = step->view(),
                    .temperature = set.temperature,
                    .top_k = set.top_k,
                    .top_p = set.top_p});
    ops::step_advance(s, {.tokens = token, .step = step->view()});
    Result<Plan> plan = s.compile({.step = &*step});
    ASSERT_TRUE(plan) << plan.error().to_string();
    const std::uint64_t seed = 99;
    for (std::uint32_t position = 0; position < 20; ++position) {
      const Status run = position == 0 ? plan->run(SingleStep(1, 0).values(seed)) : plan->run();
      ASSERT_TRUE(run) << run.error().to_string();
      std::vector<std::uint32_t> got(1);
      ASSERT_TRUE(device->read_as<std::uint32_t>(token.view, got));
      EXPECT_EQ(got[0], reference(x.data(), vocab, set, unit(seed, position, 0)))
          << threads << " threads, position " << position;
    }
  }
}

}  // namespace
}  // namespace onepass::test::sample_test
