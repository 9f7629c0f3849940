// Whole models on the emulated card: its kernels, fusions and edges, and memory that the host does
// not see, driven the way a card is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "onepass/backends/cpu.h"
#include "run/generate.h"
#include "support/backends/fault.h"
#include "support/cuda_emu/backend.h"
#include "support/order_proof.h"
#include "support/random_model.h"

namespace onepass::test::card_test {
namespace {

using llm::Decoder;
using llm::Generator;
using llm::SamplingOptions;
using llm::TextModel;

using Rows = std::vector<std::vector<float>>;

// The order in which launches without an edge between them run differs from pass to pass.
Device open_card(std::uint64_t seed = 1) { return emu::open_cuda_emulator({.seed = seed}).value(); }

TextModel open_model(const Device& device, const std::string& name) {
  auto model = llm::open_text_model(device, name);
  EXPECT_TRUE(model) << model.error().to_string();
  return *model;
}

// The logits after each token: those of the first `chunk` in one pass, then token by token.
Rows logits_of(const TextModel& model, const std::vector<std::uint32_t>& tokens,
               std::size_t chunk) {
  Decoder d = Decoder::create(model.model, {.context = 64}).value();
  Rows rows;
  const auto keep = [&](std::size_t, std::span<const float> logits) -> Status {
    rows.emplace_back(logits.begin(), logits.end());
    return {};
  };
  const std::span<const std::uint32_t> all(tokens);
  EXPECT_TRUE(d.score(all.first(chunk), keep));
  for (const std::uint32_t& token : all.subspan(chunk)) {
    EXPECT_TRUE(d.append({&token, 1}));
    rows.push_back(d.logits().value());
  }
  return rows;
}

double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0.0, square = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double e = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    difference += e * e;
    square += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return difference / square;
}

class CardModels : public testing::TestWithParam<const char*> {};

// Launches start early there, and edges are added: what the card keeps is proven, and every edge is
// reported when it goes, or implied by the others.
TEST_P(CardModels, HaveAnOrderThatIsProvenEdgeByEdge) {
  const TextModel model = open_model(open_card(), std::string("synthetic:") + GetParam());
  const Decoder d = Decoder::create(model.model, {.context = 64}).value();
  Removals totals;
  for (const std::uint32_t rows : {1u, 16u}) {
    const auto plan = d.inspect(rows);
    ASSERT_TRUE(plan) << plan.error().to_string();
    const RecordedPass& pass = *plan->state().pass;
    EXPECT_EQ(check_removals(pass.recording, pass.order, totals), "") << rows;
  }
  EXPECT_EQ(totals.orders, 2u);
  EXPECT_GT(totals.reported, 20u);
  EXPECT_GT(totals.programmatic, 10u);
}

TEST_P(CardModels, GiveTheLogitsOfTheCpu) {
  const std::string name = std::string("synthetic:") + GetParam();
  const std::vector<std::uint32_t> tokens = {1, 4000, 17, 256, 3, 99, 2048, 5};
  const TextModel on_cpu =
      open_model(Device::open("cpu", {.backend = {CpuOptions{.threads = 2}}}).value(), name);
  const TextModel on_card = open_model(open_card(), name);
  const Rows want = logits_of(on_cpu, tokens, 5), got = logits_of(on_card, tokens, 5);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    // Where sums differ in their last bits an activation may round to another of its 255 steps.
    EXPECT_LT(nmse(got[i], want[i]), 1e-3) << "after token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CardModels,
                         testing::Values("tiny:q4_0", "tiny:q8_0", "tiny:q4_k", "tiny:q6_k",
                                         "tiny:f16", "tiny:bf16", "tiny-qwen2:q8_0",
                                         "tiny-qwen3:q4_0", "tiny-qwen3moe:q8_0",
                                         "tiny-gemma2:q8_0", "tiny-gemma3:q4_0", "tiny-phi3:q8_0"),
                         [](const auto& card) {
                           std::string name = card.param;
                           for (char& c : name) c = c == ':' || c == '-' ? '_' : c;
                           return name;
                         });

constexpr SamplingOptions greedy{};
constexpr SamplingOptions sampling{.temperature = 0.9f, .top_k = 40, .top_p = 0.9f, .seed = 3};
constexpr std::uint32_t prompt[] = {1, 2, 3};

// Of few tokens: choosing one is what takes the emulator longest. Heads as attention of one token
// wants them.
const TempFile& small_model() {
  static const RandomModel random({.layers = 2,
                                   .dim = 128,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 64,
                                   .vocab = 61,
                                   .matrix_type = 1});
  static const TempFile file(random.writer.finish());
  return file;
}

// What a queue gives is what single tokens give, bit for bit, in whatever order launches run.
TEST(Card, QueuesOfTokensChangeNothing) {
  for (const SamplingOptions& how : {greedy, sampling}) {
    std::vector<std::uint32_t> want(7);
    std::vector<float> logits;
    {
      const TextModel model = open_model(open_card(), small_model().path());
      Decoder d = Decoder::create(model.model, {.context = 64, .sampling = how}).value();
      ASSERT_TRUE(d.append(prompt));
      for (std::uint32_t& token : want) token = d.next(how).value();
      logits = d.logits().value();
    }
    const TextModel model = open_model(open_card(77), small_model().path());
    Decoder d = Decoder::create(model.model, {.context = 64, .sampling = how}).value();
    ASSERT_TRUE(d.append(prompt));
    std::vector<std::uint32_t> got(7);
    const std::span<std::uint32_t> all(got);
    ASSERT_TRUE(d.next(all.first(3), how));
    ASSERT_TRUE(d.next(all.subspan(3), how));
    EXPECT_EQ(got, want);
    EXPECT_EQ(d.logits().value(), logits);
    EXPECT_EQ(d.length(), std::size(prompt) + 6);
  }
}

// Cards get queues without being asked for them: fewer reads for the same text, also where the text
// ends inside a queue.
TEST(Card, TheGeneratorQueues) {
  // Passes run when they are waited for, with those before them.
  auto backend =
      std::make_unique<FaultBackend>(emu::make_cuda_emulator(), FaultOptions{.hold = true});
  const FaultBackend& calls = *backend;
  const TextModel model =
      open_model(Device(DeviceState::create(std::move(backend), {}).value()), small_model().path());
  const auto run = [&](std::uint32_t ahead, std::size_t stop) {
    Generator g = Generator::create(model).value();
    std::atomic<bool> cancel{false};
    std::size_t seen = 0;
    const std::uint64_t before = calls.calls(BackendCall::wait);
    const auto first = g.run(prompt, {.max_tokens = 6, .ahead = ahead, .cancel = &cancel},
                             [&](const llm::Piece&) -> Status {
                               cancel = ++seen == stop;
                               return {};
                             });
    const std::uint64_t waits = calls.calls(BackendCall::wait) - before;
    cancel = false;
    const auto rest = g.run(std::span<const std::uint32_t>(), {.max_tokens = 2}, nullptr);
    EXPECT_TRUE(first && rest);
    std::vector<std::uint32_t> tokens = first->tokens;
    tokens.insert(tokens.end(), rest->tokens.begin(), rest->tokens.end());
    return std::pair(tokens, waits);
  };
  for (const std::size_t stop : {0u, 2u}) {
    const auto [want, single] = run(1, stop);
    const auto [got, queued] = run(0, stop);
    EXPECT_EQ(got, want);
    if (stop == 0) {
      EXPECT_LT(queued, single);
    }
  }
}

}  // namespace
}  // namespace onepass::test::card_test
