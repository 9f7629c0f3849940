// The small decoder: one set of bits for every way to run it, and close to a float64 forward pass.
#include "support/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "support/float64.h"

namespace onepass::block_test {
namespace {

constexpr std::uint64_t seed = 2024;
constexpr std::uint32_t tokens = 6, first_token = 17;

test::BlockShape shape() {
  return {.dim = 96,
          .layers = 3,
          .heads = 6,
          .kv_heads = 2,
          .head_dim = 16,
          .ffn = 160,
          .vocab = 131,
          .context = 32};
}

using Logits = std::vector<std::vector<float>>;  // per token

// ---- float64 reference ----

// The weights as the block makes them: SplitMix64, uniform in [-1, 1), in order of creation.
class Weights {
 public:
  explicit Weights(std::uint64_t s) : state_(s) {}
  std::vector<double> take(std::size_t count, std::size_t columns, bool norm = false) {
    const float scale = norm ? 0.1f : 1.7f / std::sqrt(static_cast<float>(columns));
    const float mean = norm ? 1.0f : 0.0f;
    std::vector<double> out(count);
    for (double& v : out) v = static_cast<double>(mean + scale * next());
    return out;
  }

 private:
  float next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * (1.0f / 8388608.0f) - 1.0f;
  }
  std::uint64_t state_;
};

using Vector = std::vector<double>;

class Reference {
 public:
  explicit Reference(const test::BlockShape& n) : n_(n) {
    Weights w(seed);
    const std::size_t q = std::size_t{n.heads} * n.head_dim,
                      kv = std::size_t{n.kv_heads} * n.head_dim;
    embedding_ = w.take(std::size_t{n.vocab} * n.dim, n.dim);
    for (std::uint32_t i = 0; i < n.layers; ++i) {
      Layer l;
      l.attn_norm = w.take(n.dim, n.dim, true);
      l.wq = w.take(q * n.dim, n.dim);
      l.wk = w.take(kv * n.dim, n.dim);
      l.wv = w.take(kv * n.dim, n.dim);
      l.wo = w.take(n.dim * q, q);
      l.ffn_norm = w.take(n.dim, n.dim, true);
      l.gate = w.take(std::size_t{n.ffn} * n.dim, n.dim);
      l.up = w.take(std::size_t{n.ffn} * n.dim, n.dim);
      l.down = w.take(std::size_t{n.dim} * n.ffn, n.ffn);
      layers_.push_back(std::move(l));
    }
    final_norm_ = w.take(n.dim, n.dim, true);
    head_ = w.take(std::size_t{n.vocab} * n.dim, n.dim);
  }

  Vector forward(std::uint32_t token, std::uint32_t position) {
    Vector h(embedding_.begin() + token * n_.dim, embedding_.begin() + (token + 1) * n_.dim);
    for (Layer& l : layers_) {
      const Vector x = norm(h, l.attn_norm);
      Vector q = matmul(l.wq, x), k = matmul(l.wk, x);
      const Vector v = matmul(l.wv, x);
      rotate(q, position);
      rotate(k, position);
      l.keys.push_back(k);
      l.values.push_back(v);
      h = add(h, matmul(l.wo, attention(q, l)));
      const Vector y = norm(h, l.ffn_norm);
      Vector m = matmul(l.gate, y);
      const Vector u = matmul(l.up, y);
      for (std::size_t i = 0; i < m.size(); ++i) m[i] = m[i] / (1 + std::exp(-m[i])) * u[i];
      h = add(h, matmul(l.down, m));
    }
    return matmul(head_, norm(h, final_norm_));
  }

 private:
  struct Layer {
    Vector attn_norm, wq, wk, wv, wo, ffn_norm, gate, up, down;
    std::vector<Vector> keys, values;  // per position
  };

  static Vector add(const Vector& a, const Vector& b) {
    Vector out(a);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += b[i];
    return out;
  }
  static Vector matmul(const Vector& w, const Vector& x) {
    Vector out(w.size() / x.size());
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) out[r] += w[r * x.size() + c] * x[c];
    }
    return out;
  }
  static Vector norm(const Vector& x, const Vector& w) {
    Vector out(x);
    test::rms_norm(out, w, 1e-5);
    return out;
  }
  // Pairs (2i, 2i + 1), angle position / 10000^(2i / head_dim).
  void rotate(Vector& x, std::uint32_t position) const {
    for (std::size_t base = 0; base < x.size(); base += n_.head_dim) {
      for (std::uint32_t i = 0; i < n_.head_dim; i += 2) {
        const double angle = position / std::pow(10000.0, static_cast<double>(i) / n_.head_dim);
        const double a = x[base + i], b = x[base + i + 1];
        x[base + i] = a * std::cos(angle) - b * std::sin(angle);
        x[base + i + 1] = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }
  Vector attention(const Vector& q, const Layer& l) const {
    Vector out(q.size());
    const std::uint32_t d = n_.head_dim;
    for (std::uint32_t head = 0; head < n_.heads; ++head) {
      const std::size_t from = std::size_t{head} * d;
      const std::size_t kv = std::size_t{head / (n_.heads / n_.kv_heads)} * d;
      Vector score(l.keys.size());
      double sum = 0;
      for (std::size_t p = 0; p < score.size(); ++p) {
        for (std::uint32_t i = 0; i < d; ++i) score[p] += q[from + i] * l.keys[p][kv + i];
        score[p] = std::exp(score[p] / std::sqrt(static_cast<double>(d)));
        sum += score[p];
      }
      for (std::size_t p = 0; p < score.size(); ++p) {
        for (std::uint32_t i = 0; i < d; ++i) {
          out[from + i] += score[p] / sum * l.values[p][kv + i];
        }
      }
    }
    return out;
  }

  test::BlockShape n_;
  Vector embedding_, final_norm_, head_;
  std::vector<Layer> layers_;
};

// ---- ways to run it ----

struct Runner {
  explicit Runner(const DeviceOptions& options)
      : device(Device::open("cpu", options).value()),
        executor(device),
        block(test::Block::create(device, shape(), seed).value()) {}

  // A fresh pass per token.
  Logits passes(bool recorded, const FinishOptions& options) {
    Logits all;
    EXPECT_TRUE(block.restart(first_token, 0));
    for (std::uint32_t i = 0; i < tokens; ++i) {
      GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
      block.forward(s);
      const Result<FinishReport> report = s.finish(options);
      EXPECT_TRUE(report) << report.error().to_string();
      if (!report) return {};
      read(all);
    }
    return all;
  }
  Logits plan(const PlanOptions& options) {
    GraphSession s = executor.begin_recorded();
    block.forward(s);
    const Result<Plan> p = s.compile(options);
    EXPECT_TRUE(p) << p.error().to_string();
    if (!p) return {};
    Logits all;
    EXPECT_TRUE(p->run(SingleStep(first_token, 0).values()));
    read(all);
    for (std::uint32_t i = 1; i < tokens; ++i) {
      EXPECT_TRUE(p->run());
      read(all);
    }
    return all;
  }
  void read(Logits& all) {
    std::vector<float> one(shape().vocab);
    EXPECT_TRUE(device.read_as<float>(block.logits().view, one));
    all.push_back(std::move(one));
  }

  Device device;
  GraphExecutor executor;
  test::Block block;
};

// The bits that all others must have.
const Logits& baseline() {
  static const Logits logits =
      Runner({.backend = {CpuOptions{.threads = 1}}, .serial = true}).passes(false, {});
  return logits;
}

std::uint32_t argmax(const std::vector<float>& v) {
  return static_cast<std::uint32_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

TEST(Block, MatchesAFloat64ForwardPass) {
  Reference reference(shape());
  std::uint32_t token = first_token;
  ASSERT_EQ(baseline().size(), tokens);
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const Vector expected = reference.forward(token, i);
    double error = 0, power = 0;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double d = static_cast<double>(baseline()[i][k]) - expected[k];
      error += d * d;
      power += expected[k] * expected[k];
    }
    EXPECT_LE(error / power, 1e-9) << "token " << i;
    EXPECT_GT(power, 1.0);
    token = argmax(baseline()[i]);  // the block feeds its own choice back
  }
}

TEST(Block, TokensDiffer) {
  for (std::uint32_t i = 1; i < tokens; ++i) EXPECT_NE(baseline()[i], baseline()[i - 1]);
}

class BlockDevices : public ::testing::TestWithParam<DeviceOptions> {};

TEST_P(BlockDevices, DirectRecordedAndPlanGiveTheSameBits) {
  Runner run(GetParam());
  EXPECT_EQ(run.passes(false, {}), baseline());
  EXPECT_EQ(run.passes(true, {}), baseline());
  EXPECT_EQ(run.passes(true, {.command_buffers = 2, .first_min = 5}), baseline());
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(run.plan({.step = &run.block.step()}), baseline());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, BlockDevices,
    ::testing::Values(
        DeviceOptions{.backend = {CpuOptions{.threads = 1}}},
        DeviceOptions{.backend = {CpuOptions{.threads = 2}}},
        DeviceOptions{.backend = {CpuOptions{.threads = 3}}},
        DeviceOptions{.backend = {CpuOptions{.threads = 8}}},
        DeviceOptions{.backend = {CpuOptions{.threads = 2}}, .serial = true},
        DeviceOptions{.backend = {CpuOptions{.threads = 2, .spin_us = 0}}},
        DeviceOptions{.backend = {CpuOptions{.threads = 2}}, .command_buffers = 2},
        DeviceOptions{.backend = {CpuOptions{.threads = 2}}, .retain = Retain::caller},
        DeviceOptions{.backend = {CpuOptions{.threads = 2}}, .profile = Profile::submissions},
        DeviceOptions{.backend = {CpuOptions{.threads = 3}},
                      .profile = Profile::dispatches,
                      .time_barriers = true}),
    [](const auto& p) {
      const DeviceOptions& o = p.param;
      const auto cpu = backend_options<CpuOptions>(o);
      return "threads_" + std::to_string(cpu.threads) + (o.serial ? "_serial" : "") +
             (cpu.spin_us == 0 ? "_no_spin" : "") + (o.command_buffers == 2 ? "_two_buffers" : "") +
             (o.retain == Retain::caller ? "_caller" : "") +
             (o.profile == Profile::none ? "" : "_profile_" + std::to_string(int(o.profile)));
    });

TEST(Block, EveryPassSettingGivesTheSameBits) {
  Runner run({.backend = {CpuOptions{.threads = 2}}});
  for (unsigned bits = 0; bits < 64; ++bits) {
    FinishOptions o;
    o.fuse = bits & 1;
    o.close_fusions = bits & 2;
    o.reorder = bits & 4;
    o.policy = bits & 8 ? Policy::greedy64 : Policy::exact;
    o.barriers = bits & 16 ? BarrierSource::recorded : BarrierSource::recomputed;
    o.command_buffers = bits & 32 ? 2 : 1;
    o.first_min = 7;
    EXPECT_EQ(run.passes(true, o), baseline()) << "setting " << bits;
  }
  for (unsigned bits = 0; bits < 16; ++bits) {
    PlanOptions o;
    o.step = &run.block.step();
    o.fuse = bits & 1;
    o.close_fusions = bits & 2;
    o.alias_scratch = bits & 4;
    o.validate = bits & 8;
    EXPECT_EQ(run.plan(o), baseline()) << "plan setting " << bits;
  }
}

// Every split of the pass into two command buffers.
TEST(Block, EverySplitGivesTheSameBits) {
  Runner run({.backend = {CpuOptions{.threads = 2}}});
  GraphSession s = run.executor.begin_recorded();
  run.block.forward(s);
  const Result<FinishReport> whole = s.finish();
  ASSERT_TRUE(whole);
  for (std::uint32_t first = 1; first <= whole->dispatches + 1; ++first) {
    EXPECT_EQ(run.passes(true, {.command_buffers = 2, .first_min = first, .first_percent = 0}),
              baseline())
        << "split after " << first;
  }
}

// R replays are R fresh passes, also when they are queued without waiting.
TEST(Block, QueuedReplaysAreFreshPasses) {
  Runner run({.backend = {CpuOptions{.threads = 2}}});
  GraphSession s = run.executor.begin_recorded();
  run.block.forward(s);
  const Plan plan = s.compile({.step = &run.block.step()}).value();
  for (std::uint32_t r = 1; r <= tokens; ++r) {
    std::vector<Submission> queued{plan.run_async(SingleStep(first_token, 0).values()).value()};
    while (queued.size() < r) queued.push_back(plan.run_async().value());
    ASSERT_TRUE(queued.back().wait());
    Logits last;
    run.read(last);
    EXPECT_EQ(last[0], baseline()[r - 1]) << r << " replays";
  }
}

TEST(Block, ProfileCountsEveryDispatch) {
  Runner run({.backend = {CpuOptions{.threads = 2}}, .profile = Profile::dispatches});
  GraphSession s = run.executor.begin_recorded();
  run.block.forward(s);
  const Plan plan = s.compile({.step = &run.block.step(), .label = "block"}).value();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(plan.run(SingleStep(1, 0).values()));
  const ProfileReport report = run.device.profile();
  EXPECT_EQ(report.samples.size() + report.dropped, 4u * plan.report().dispatches);
  EXPECT_EQ(report.dropped, 0u);
  for (const DispatchSample& d : report.samples) EXPECT_LE(d.start_ns, d.end_ns) << d.name;
}

}  // namespace
}  // namespace onepass::block_test
