// The decoder's promises: limits, cancellation and failures leave it as it was.
#include "run/decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "backends/cpu/cpu.h"
#include "core/device_state.h"
#include "onepass/backends/cpu.h"
#include "support/backends/fault.h"
#include "support/random_model.h"

namespace onepass::test::decoder_test {
namespace {

using llm::Decoder;
using llm::Model;
using llm::SamplingOptions;

constexpr SamplingOptions warm{.temperature = 1.5f, .top_k = 30, .seed = 3};

class DecoderTest : public testing::Test {
 protected:
  void SetUp() override {
    const DeviceOptions options{.backend = {CpuOptions{.threads = 2}}};
    auto backend = std::make_unique<FaultBackend>(make_cpu_backend(options));
    fault_ = backend.get();
    device_ = Device(DeviceState::create(std::move(backend), options).value());
    const RandomModel random({.layers = 2, .vocab = 61, .context = 40}, 3);
    const TempFile path(random.writer.finish());
    const auto file = io::GgufFile::open(path.path());
    ASSERT_TRUE(file);
    auto model = Model::load(*device_, *file);
    ASSERT_TRUE(model) << model.error().to_string();
    model_ = *model;
  }
  Decoder create(const llm::DecoderOptions& options = {}) const {
    return Decoder::create(model_, options).value();
  }
  static std::vector<std::uint32_t> prompt(std::uint32_t n) {
    std::vector<std::uint32_t> tokens;
    for (std::uint32_t i = 0; i < n; ++i) tokens.push_back((i * 17 + 3) % 61);
    return tokens;
  }
  // The next n greedy tokens.
  static std::vector<std::uint32_t> follow(Decoder& d, int n) {
    std::vector<std::uint32_t> tokens;
    for (int i = 0; i < n; ++i) {
      const auto token = d.greedy();
      EXPECT_TRUE(token) << token.error().to_string();
      if (token) tokens.push_back(*token);
    }
    return tokens;
  }

  FaultBackend* fault_ = nullptr;
  std::optional<Device> device_;
  std::shared_ptr<const Model> model_;
};

TEST_F(DecoderTest, FeedBackOnTheDeviceEqualsTokensFromTheHost) {
  Decoder device_fed = create();
  ASSERT_TRUE(device_fed.append(prompt(5)));
  const std::vector<std::uint32_t> tokens = follow(device_fed, 20);
  EXPECT_EQ(device_fed.length(), 24u);

  Decoder host_fed = create();
  ASSERT_TRUE(host_fed.append(prompt(5)));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(host_fed.greedy().value(), tokens[i]) << i;
    ASSERT_TRUE(host_fed.append({&tokens[i], 1}));
  }
  EXPECT_EQ(host_fed.length(), 25u);
}

TEST_F(DecoderTest, QueuedTokensAreThoseOfOneAtATime) {
  for (const SamplingOptions& sampling : {SamplingOptions{}, warm}) {
    Decoder one_by_one = create();
    ASSERT_TRUE(one_by_one.append(prompt(5)));
    std::vector<std::uint32_t> tokens;
    for (int i = 0; i < 24; ++i) tokens.push_back(one_by_one.next(sampling).value());
    for (const std::size_t n : {1u, 2u, 7u, 20u}) {
      Decoder queued = create();
      ASSERT_TRUE(queued.append(prompt(5)));
      std::vector<std::uint32_t> made(tokens.size());
      for (std::size_t at = 0; at < made.size(); at += n) {
        const auto part = std::span(made).subspan(at, std::min(n, made.size() - at));
        ASSERT_TRUE(queued.next(part, sampling));
        EXPECT_EQ(queued.length(), 5 + at + part.size() - 1);
      }
      EXPECT_EQ(made, tokens) << n << " queued";
      EXPECT_EQ(queued.logits().value(), one_by_one.logits().value());
    }
  }
}

TEST_F(DecoderTest, AQueueThatDoesNotFitGivesNothing) {
  Decoder reference = create();
  ASSERT_TRUE(reference.append(prompt(5)));
  const std::vector<std::uint32_t> tokens = follow(reference, 4);
  Decoder full = create({.context = 8});
  ASSERT_TRUE(full.append(prompt(5)));
  EXPECT_EQ(full.left(), 4u);
  std::vector<std::uint32_t> made(5);
  const Status s = full.next(made, {});
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::limit);
  EXPECT_EQ(full.length(), 5u);
  made.resize(4);
  ASSERT_TRUE(full.next(made, {}));
  EXPECT_EQ(made, tokens);
  EXPECT_EQ(full.length(), 8u);
  EXPECT_EQ(full.left(), 0u);
  EXPECT_FALSE(full.greedy());
}

TEST_F(DecoderTest, AQueueThatFailsLeavesTheSequence) {
  for (const SamplingOptions& sampling : {SamplingOptions{}, warm}) {
    Decoder reference = create();
    ASSERT_TRUE(reference.append(prompt(5)));
    std::vector<std::uint32_t> tokens(6);
    ASSERT_TRUE(reference.next(tokens, sampling));
    for (const BackendCall call : {BackendCall::submit, BackendCall::wait, BackendCall::read}) {
      for (const std::uint64_t nth : {1u, 2u, 4u}) {
        Decoder d = create({.sampling = sampling});
        ASSERT_TRUE(d.append(prompt(5)));
        ASSERT_EQ(d.next(sampling).value(), tokens[0]);
        fault_->arm({.call = call, .nth = nth});
        std::vector<std::uint32_t> made(5);
        const Status failed = d.next(made, sampling);
        fault_->disarm();
        if (failed) continue;  // the call was not needed
        EXPECT_EQ(d.length(), 5u);
        ASSERT_TRUE(d.next(made, sampling)) << nth;
        EXPECT_EQ(made, std::vector(tokens.begin() + 1, tokens.end())) << nth;
      }
    }
  }
}

// The choice that append made is still there when a queue behind it fails.
TEST_F(DecoderTest, AFirstQueueThatFailsKeepsTheChoice) {
  Decoder reference = create();
  ASSERT_TRUE(reference.append(prompt(5)));
  const std::vector<std::uint32_t> tokens = follow(reference, 4);
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(5)));
  std::vector<std::uint32_t> made(4, 77);
  fault_->arm({.call = BackendCall::submit, .nth = 1});
  EXPECT_FALSE(d.next(made, {}));
  EXPECT_EQ(made[0], 77u);
  EXPECT_EQ(d.length(), 5u);
  ASSERT_TRUE(d.next(made, {}));
  EXPECT_EQ(made, tokens);
}

// Submissions are held until somebody waits, so that no wait can be spared by luck.
TEST_F(DecoderTest, AGeneratedTokenTakesOneWait) {
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(3)));
  ASSERT_TRUE(d.greedy());
  fault_->set_hold(true);
  for (const std::size_t n : {1u, 1u, 6u}) {
    const std::uint64_t waits = fault_->calls(BackendCall::wait);
    const std::uint64_t reads = fault_->calls(BackendCall::read);
    std::vector<std::uint32_t> made(n);
    ASSERT_TRUE(d.next(made, {}));
    EXPECT_EQ(fault_->calls(BackendCall::wait) - waits, 1u) << n;
    EXPECT_EQ(fault_->calls(BackendCall::read), reads) << n;
  }
  fault_->set_hold(false);
}

TEST(DecoderOnNull, AGeneratedTokenTakesOneWait) {
  auto backend = std::make_unique<FaultBackend>(make_null_backend({}));
  FaultBackend* const fault = backend.get();
  const auto& null = static_cast<const NullBackend&>(fault->inner());
  const Device device(DeviceState::create(std::move(backend), {}).value());
  const RandomModel random({.layers = 1, .vocab = 61, .context = 40}, 3);
  const TempFile path(random.writer.finish());
  auto model = Model::load(device, io::GgufFile::open(path.path()).value());
  ASSERT_TRUE(model) << model.error().to_string();
  Decoder d = Decoder::create(*model).value();
  const std::vector<std::uint32_t> prompt{3, 1, 4};
  ASSERT_TRUE(d.append(prompt));
  ASSERT_TRUE(d.greedy());
  fault->set_hold(true);
  const std::uint64_t waits = null.count(BackendCall::wait);
  const std::uint64_t reads = null.count(BackendCall::read);
  ASSERT_TRUE(d.greedy());
  EXPECT_EQ(null.count(BackendCall::wait) - waits, 1u);
  EXPECT_EQ(null.count(BackendCall::read), reads);
}

TEST_F(DecoderTest, AGeneratedTokenTakesOneSubmission) {
  Decoder d = create();
  ASSERT_TRUE(d.append(prompt(3)));
  follow(d, 2);
  const std::uint64_t submits = fault_->calls(BackendCall::submit);
  const std::uint64_t records = fault_->calls(BackendCall::record);
  const std::uint64_t writes = fault_->calls(BackendCall::write);
  follow(d, 10);
  EXPECT_EQ(fault_->calls(BackendCall::submit) - submits, 10u);
  EXPECT_EQ(fault_->calls(BackendCall::record), records);
  EXPECT_EQ(fault_->calls(BackendCall::write), writes);
}

TEST_F(DecoderTest, SessionsOfTheCallersOwnChooseTheSameTokens) {
  for (const SamplingOptions& sampling : {SamplingOptions{}, warm}) {
    Decoder own = create();
    ASSERT_TRUE(own.append(prompt(5)));
    std::vector<std::uint32_t> tokens;
    for (int i = 0; i < 12; ++i) tokens.push_back(own.next(sampling).value());

    Decoder d = create();
    ASSERT_TRUE(d.append(prompt(5)));
    const StepState step = StepState::create(*device_, 1, 1).value();
    std::vector<std::byte> bytes(step.view().bytes);
    const SingleStep first(tokens[0], 5);
    ASSERT_TRUE(step.serialize(first.values(sampling.seed), bytes));
    ASSERT_TRUE(device_->write(step.view(), bytes));
    const GraphExecutor executor(*device_);
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      GraphSession s = i % 2 == 0 ? executor.begin() : executor.begin_recorded();
      d.record_token(s, step.view(), sampling);
      ASSERT_TRUE(s.finish());
    }
    std::vector<std::uint32_t> chosen(40 + 1);
    ASSERT_TRUE(device_->read_as<std::uint32_t>(d.chosen().view, chosen));
    for (std::size_t i = 1; i < tokens.size(); ++i) EXPECT_EQ(chosen[5 + i], tokens[i]) << i;
    EXPECT_EQ(d.length(), 5u);
    ASSERT_TRUE(d.append({&tokens[0], 1}));
    EXPECT_EQ(d.next(sampling).value(), tokens[1]);
  }
}

TEST_F(DecoderTest, ContextLimitIsAnErrorWithNumbers) {
  Decoder d = create({.context = 10});
  ASSERT_TRUE(d.append(prompt(7)));
  const Status s = d.append(prompt(4));
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::limit);
  for (const char* number : {"4", "7", "10"}) {
    EXPECT_NE(s.error().message.find(number), std::string::npos) << s.error().message;
  }
  EXPECT_EQ(d.length(), 7u);
  follow(d, 4);  // reads one, appends three
  EXPECT_EQ(d.length(), 10u);
  const std::vector<float> logits = d.logits().value();
  const auto full = d.greedy();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::limit);
  EXPECT_EQ(d.length(), 10u);
  EXPECT_EQ(d.logits().value(), logits);
}

TEST_F(DecoderTest, WrongArguments) {
  Decoder d = create();
  EXPECT_EQ(d.greedy().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(d.logits().error().code, ErrorCode::invalid_state);
  const std::uint32_t outside[] = {1, 61};
  const Status s = d.append(outside);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(d.length(), 0u);
  EXPECT_TRUE(d.append({}));
  EXPECT_EQ(d.truncate(1).error().code, ErrorCode::invalid_argument);
  const auto code = [&](const llm::DecoderOptions& options) {
    return Decoder::create(model_, options).error().code;
  };
  EXPECT_EQ(code({.kv = DType::q8_0}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.chunk_rows = 0}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.chunk_rows = 3}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.chunk_rows = 1024}), ErrorCode::invalid_argument);
  EXPECT_EQ(code({.context = 0xffffffffu}), ErrorCode::limit);
  EXPECT_EQ(Decoder::create(nullptr).error().code, ErrorCode::invalid_argument);
}

TEST_F(DecoderTest, CancelledPrefillChangesNothing) {
  Decoder d = create({.chunk_rows = 4});
  ASSERT_TRUE(d.append(prompt(6)));
  const std::vector<float> logits = d.logits().value();
  const std::atomic<bool> cancel{true};
  const Status s = d.append(prompt(20), &cancel);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::cancelled);
  EXPECT_EQ(d.length(), 6u);
  EXPECT_EQ(d.logits().value(), logits);
  Decoder undisturbed = create({.chunk_rows = 4});
  ASSERT_TRUE(undisturbed.append(prompt(6)));
  EXPECT_EQ(follow(d, 8), follow(undisturbed, 8));
}

TEST_F(DecoderTest, ScoresAreTheLogitsOfEveryToken) {
  const std::vector<std::uint32_t> tokens = prompt(23);
  Decoder one = create();
  std::vector<std::vector<float>> expected;
  for (const std::uint32_t token : tokens) {
    ASSERT_TRUE(one.append({&token, 1}));
    expected.push_back(one.logits().value());
  }
  for (const std::uint32_t chunk : {1u, 4u, 512u}) {
    Decoder d = create({.chunk_rows = chunk});
    std::size_t seen = 0;
    ASSERT_TRUE(d.append(std::span(tokens).first(2)));
    const Status s = d.score(
        std::span(tokens).subspan(2), [&](std::size_t i, std::span<const float> logits) -> Status {
          EXPECT_EQ(i, seen++);
          const std::vector<float>& e = expected[i + 2];
          EXPECT_EQ(logits.size(), e.size());
          EXPECT_EQ(std::memcmp(logits.data(), e.data(), logits.size_bytes()), 0) << i;
          return {};
        });
    ASSERT_TRUE(s) << s.error().to_string();
    EXPECT_EQ(seen, 21u);
    EXPECT_EQ(d.length(), 23u);
    EXPECT_EQ(d.logits().value(), expected.back());
    EXPECT_EQ(d.greedy().value(), one.greedy().value());
    ASSERT_TRUE(one.truncate(22));
    ASSERT_TRUE(one.append({&tokens.back(), 1}));
  }
}

TEST_F(DecoderTest, ScoreEndsWithTheCallersErrorAndChangesNothing) {
  Decoder d = create({.chunk_rows = 4});
  ASSERT_TRUE(d.append(prompt(3)));
  const Status s = d.score(prompt(9), [](std::size_t i, std::span<const float>) -> Status {
    if (i == 5) return fail(ErrorCode::io, "disk full");
    return {};
  });
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::io);
  EXPECT_EQ(d.length(), 3u);
  const std::atomic<bool> cancel{true};
  const auto ignore = [](std::size_t, std::span<const float>) -> Status { return {}; };
  EXPECT_EQ(d.score(prompt(9), ignore, &cancel).error().code, ErrorCode::cancelled);
  EXPECT_EQ(d.score(prompt(38), ignore).error().code, ErrorCode::limit);
  EXPECT_EQ(d.score(prompt(2), nullptr).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(d.length(), 3u);
  Decoder undisturbed = create({.chunk_rows = 4});
  ASSERT_TRUE(undisturbed.append(prompt(3)));
  EXPECT_EQ(follow(d, 8), follow(undisturbed, 8));
}

TEST_F(DecoderTest, TruncateGoesBack) {
  Decoder d = create();
  const std::vector<std::uint32_t> tokens = prompt(12);
  ASSERT_TRUE(d.append(tokens));
  const std::vector<float> expected = d.logits().value();
  follow(d, 9);
  ASSERT_TRUE(d.truncate(11));
  EXPECT_EQ(d.length(), 11u);
  EXPECT_FALSE(d.logits());
  EXPECT_FALSE(d.greedy());
  ASSERT_TRUE(d.append({&tokens.back(), 1}));
  const std::vector<float> again = d.logits().value();
  EXPECT_EQ(std::memcmp(again.data(), expected.data(), expected.size() * sizeof(float)), 0);
}

// Every call of the backend fails once, during prefill and during generation: an error, the state
// of before, and the same tokens when it is tried again.
TEST_F(DecoderTest, FailuresChangeNothing) {
  Decoder good = create({.chunk_rows = 4});
  ASSERT_TRUE(good.append(prompt(4)));
  const std::vector<std::uint32_t> first = follow(good, 3);
  ASSERT_TRUE(good.append(prompt(9)));
  const std::vector<std::uint32_t> second = follow(good, 6);

  int fired = 0;
  fault_->set_hold(true);  // nothing is done before somebody waits
  for (const BackendCall call : {BackendCall::allocate, BackendCall::record, BackendCall::submit,
                                 BackendCall::wait, BackendCall::read, BackendCall::write}) {
    for (std::uint64_t nth = 1; nth <= 8; ++nth) {
      Decoder d = create({.chunk_rows = 4});
      ASSERT_TRUE(d.append(prompt(4)));
      ASSERT_EQ(follow(d, 3), first);
      fault_->arm({.call = call, .nth = nth});
      if (const Status s = d.append(prompt(9)); !s) {
        ++fired;
        ASSERT_EQ(d.length(), 6u);
        ASSERT_TRUE(d.append(prompt(9))) << name(s.error().code);
      }
      ASSERT_EQ(d.length(), 15u);
      std::vector<std::uint32_t> tokens;
      while (tokens.size() < second.size()) {
        const std::uint32_t before = d.length();
        const auto token = d.greedy();
        if (token) {
          tokens.push_back(*token);
        } else {
          ++fired;
          ASSERT_EQ(d.length(), before);
        }
      }
      fault_->disarm();
      ASSERT_EQ(tokens, second) << static_cast<int>(call) << " " << nth;
    }
  }
  fault_->set_hold(false);
  EXPECT_GT(fired, 16);
}

// Fails on the way in: nothing stays allocated.
TEST_F(DecoderTest, FailedLoadLeavesNothing) {
  const RandomModel random({.layers = 1}, 4);
  const TempFile path(random.writer.finish());
  const auto file = io::GgufFile::open(path.path());
  ASSERT_TRUE(file);
  const std::uint64_t before = device_->live_bytes();
  int failed = 0;
  for (std::uint64_t nth = 1; nth < 40; ++nth) {
    fault_->arm({.call = BackendCall::allocate, .nth = nth});
    {
      const auto model = Model::load(*device_, *file);
      if (model) {
        const auto d = Decoder::create(*model);
        failed += d ? 0 : 1;
      } else {
        ++failed;
        EXPECT_EQ(model.error().code, ErrorCode::out_of_memory);
      }
    }
    fault_->disarm();
    ASSERT_TRUE(device_->fence());
    ASSERT_EQ(device_->live_bytes(), before) << nth;
  }
  EXPECT_GT(failed, 14);
}

}  // namespace
}  // namespace onepass::test::decoder_test
