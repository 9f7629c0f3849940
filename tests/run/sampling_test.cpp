// Tokens that the decoder samples on the device.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "backends/cpu/cpu.h"
#include "core/device_state.h"
#include "onepass/backends/cpu.h"
#include "onepass/ops.h"
#include "run/decoder.h"
#include "support/backends/fault.h"
#include "support/random_model.h"

namespace onepass::test::sampling_test {
namespace {

using llm::Decoder;
using llm::Model;
using llm::SamplingOptions;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t vocab = 61;
constexpr SamplingOptions warm{
    .temperature = 1.5f, .top_k = 20, .top_p = 0.9f, .min_p = 0.01f, .seed = 12345678901234u};

class SamplingTest : public testing::Test {
 protected:
  void SetUp() override {
    const RandomModel random({.layers = 2, .vocab = vocab, .context = 80}, 3);
    file_.emplace(random.writer.finish());
    model_ = load(2);
  }
  std::shared_ptr<const Model> load(std::uint32_t threads) {
    const DeviceOptions options{.backend = {CpuOptions{.threads = threads}}};
    auto backend = std::make_unique<FaultBackend>(make_cpu_backend(options));
    fault_ = backend.get();
    const Device device(DeviceState::create(std::move(backend), options).value());
    return Model::open(device, file_->path()).value();
  }
  Decoder create(const llm::DecoderOptions& options = {}) const {
    return Decoder::create(model_, options).value();
  }
  static Tokens prompt(std::uint32_t n) {
    Tokens tokens;
    for (std::uint32_t i = 0; i < n; ++i) tokens.push_back((i * 17 + 3) % vocab);
    return tokens;
  }
  static Tokens follow(Decoder& d, int n, const SamplingOptions& options) {
    Tokens tokens;
    for (int i = 0; i < n; ++i) {
      const auto token = d.next(options);
      EXPECT_TRUE(token) << token.error().to_string();
      if (token) tokens.push_back(*token);
    }
    return tokens;
  }
  // The op alone on logits from the host, for the row at `position`.
  std::uint32_t sample(std::span<const float> logits, std::uint32_t position,
                       const SamplingOptions& o) const {
    const Device& device = model_->device();
    const Buffer values = device.allocate(logits.size_bytes()).value();
    const Buffer out = device.allocate(4).value();
    const StepState step = StepState::create(device, 1, 1).value();
    EXPECT_TRUE(device.write_as<float>(values.view(), logits));
    std::vector<std::byte> bytes(step.view().bytes);
    EXPECT_TRUE(step.serialize(SingleStep(0, position).values(o.seed), bytes));
    EXPECT_TRUE(device.write(step.view(), bytes));
    GraphSession s = GraphExecutor(device).begin();
    ops::sample(s, {.logits = values.tensor(DType::f32, {1, vocab}),
                    .out = out.tensor(DType::u32, {1}),
                    .step = step.view(),
                    .temperature = o.temperature,
                    .top_k = o.top_k,
                    .top_p = o.top_p,
                    .min_p = o.min_p});
    EXPECT_TRUE(s.finish());
    std::uint32_t token = vocab;
    EXPECT_TRUE(device.read_as<std::uint32_t>(out.view(), {&token, 1}));
    return token;
  }

  std::optional<TempFile> file_;
  FaultBackend* fault_ = nullptr;
  std::shared_ptr<const Model> model_;
};

TEST_F(SamplingTest, TokensAreThoseOfTheOpOnTheLogits) {
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(5)));
  std::size_t not_greedy = 0;
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t token = d.next(warm).value();
    const std::vector<float> logits = d.logits().value();
    ASSERT_EQ(token, sample(logits, d.length() - 1, warm)) << i;
    not_greedy += token != sample(logits, d.length() - 1, {}) ? 1 : 0;
  }
  EXPECT_GT(not_greedy, 5u);
}

TEST_F(SamplingTest, SameSeedSameTokens) {
  Decoder one = create({.chunk_rows = 1});
  ASSERT_TRUE(one.append(prompt(19)));
  const Tokens expected = follow(one, 30, warm);
  SamplingOptions other = warm;
  ++other.seed;
  for (const std::uint32_t threads : {1u, 2u, 3u}) {
    model_ = load(threads);
    for (const std::uint32_t chunk : {2u, 16u, 512u}) {
      for (const std::uint32_t context : {50u, 80u, 200u}) {
        for (const bool announced : {false, true}) {
          llm::DecoderOptions options{.context = context, .chunk_rows = chunk};
          if (announced) options.sampling = warm;
          Decoder d = create(options);
          ASSERT_TRUE(d.append(prompt(19)));
          ASSERT_EQ(follow(d, 30, warm), expected) << threads << " " << chunk << " " << context;
        }
      }
    }
    Decoder d = create();
    ASSERT_TRUE(d.append(prompt(19)));
    EXPECT_NE(follow(d, 30, other), expected);
  }
}

// Each token chosen with other options than the one before, against a decoder that is fed the
// tokens by the host.
TEST_F(SamplingTest, OptionsMayChangeWithEveryToken) {
  const SamplingOptions turns[] = {
      warm,
      {},
      {.temperature = 0.8f, .seed = 0},
      {.temperature = 0.8f, .seed = 5},
      {.temperature = 0.8f, .seed = 6},
      {.temperature = 3.0f, .top_p = 0.5f, .seed = 6},
      {},
      warm,
  };
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(4)));
  Decoder host = create();
  ASSERT_TRUE(host.append(prompt(4)));
  for (int i = 0; i < 30; ++i) {
    const SamplingOptions& o = turns[static_cast<std::size_t>(i) % std::size(turns)];
    const std::uint32_t expected = sample(host.logits().value(), host.length() - 1, o);
    ASSERT_EQ(d.next(o).value(), expected) << i;
    ASSERT_TRUE(host.append({&expected, 1}));
  }
}

// Nothing is computed again when the first token after append is asked for as announced.
TEST_F(SamplingTest, ATokenTakesOneSubmission) {
  Decoder d = create({.sampling = warm});
  ASSERT_TRUE(d.append(prompt(3)));
  const std::uint64_t first = fault_->calls(BackendCall::submit);
  follow(d, 1, warm);
  EXPECT_EQ(fault_->calls(BackendCall::submit), first);
  follow(d, 2, warm);
  const std::uint64_t submits = fault_->calls(BackendCall::submit);
  const std::uint64_t records = fault_->calls(BackendCall::record);
  const std::uint64_t writes = fault_->calls(BackendCall::write);
  follow(d, 10, warm);
  EXPECT_EQ(fault_->calls(BackendCall::submit) - submits, 10u);
  EXPECT_EQ(fault_->calls(BackendCall::write), writes);
  SamplingOptions other = warm;
  other.seed = 3;
  follow(d, 2, other);
  EXPECT_EQ(fault_->calls(BackendCall::record), records);
  EXPECT_EQ(d.recorded_plans(), 2u);  // two rows of the prompt, one token
}

TEST_F(SamplingTest, WrongOptionsChangeNothing) {
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(3)));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const SamplingOptions wrong[] = {
      {.temperature = -0.1f},
      {.temperature = nan},
      {.temperature = infinite},
      {.temperature = 1.0f, .top_p = 0.0f},
      {.temperature = 1.0f, .top_p = 1.5f},
      {.temperature = 1.0f, .top_p = nan},
      {.temperature = 1.0f, .min_p = -1.0f},
      {.temperature = 1.0f, .min_p = 2.0f},
      {.temperature = 1.0f, .min_p = nan},
  };
  for (const SamplingOptions& o : wrong) {
    const auto token = d.next(o);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(d.length(), 3u);
    EXPECT_FALSE(Decoder::create(model_, {.sampling = o}));
  }
  Decoder undisturbed = create();
  ASSERT_TRUE(undisturbed.append(prompt(3)));
  EXPECT_EQ(follow(d, 5, warm), follow(undisturbed, 5, warm));
}

// Every call of the backend fails once while tokens are sampled and options change.
TEST_F(SamplingTest, FailuresChangeNothing) {
  const SamplingOptions second{.temperature = 1.0f, .seed = 9};
  Decoder good = create({.chunk_rows = 4});
  ASSERT_TRUE(good.append(prompt(6)));
  Tokens expected = follow(good, 4, warm);
  for (const std::uint32_t t : follow(good, 4, second)) expected.push_back(t);

  int fired = 0;
  fault_->set_hold(true);  // nothing is done before somebody waits
  for (const BackendCall call : {BackendCall::allocate, BackendCall::record, BackendCall::submit,
                                 BackendCall::wait, BackendCall::read, BackendCall::write}) {
    for (std::uint64_t nth = 1; nth <= 6; ++nth) {
      Decoder d = create({.chunk_rows = 4});
      ASSERT_TRUE(d.append(prompt(6)));
      fault_->arm({.call = call, .nth = nth});
      Tokens tokens;
      while (tokens.size() < expected.size()) {
        const std::uint32_t before = d.length();
        const auto token = d.next(tokens.size() < 4 ? warm : second);
        if (token) {
          tokens.push_back(*token);
        } else {
          ++fired;
          ASSERT_LT(fired, 1000);
          ASSERT_EQ(d.length(), before);
        }
      }
      fault_->disarm();
      ASSERT_EQ(tokens, expected) << static_cast<int>(call) << " " << nth;
    }
  }
  fault_->set_hold(false);
  EXPECT_GT(fired, 12);
}

// The token that was chosen stays when what follows it cannot be appended.
TEST_F(SamplingTest, AFailedAppendKeepsTheChoice) {
  Decoder d = create({.context = 12, .sampling = warm});
  ASSERT_TRUE(d.append(prompt(6)));
  Decoder undisturbed = create({.sampling = warm});
  ASSERT_TRUE(undisturbed.append(prompt(6)));
  EXPECT_EQ(d.append(prompt(7)).error().code, ErrorCode::limit);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(d.append(prompt(3), &cancel).error().code, ErrorCode::cancelled);
  EXPECT_EQ(follow(d, 6, warm), follow(undisturbed, 6, warm));
}

}  // namespace
}  // namespace onepass::test::sampling_test
