// Text in, text out, with the model in the box.
#include "run/generate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <new>

#include "backends/cpu/cpu.h"
#include "core/device_state.h"
#include "onepass/backends/cpu.h"
#include "support/backends/fault.h"
#include "support/random_model.h"
#include "support/tokenizer_vocabularies.h"

namespace onepass::test::generate_test {
namespace {

using llm::GenerateOptions;
using llm::GenerateReport;
using llm::Generator;
using llm::Piece;
using llm::SamplingOptions;
using llm::StopReason;

constexpr const char* stories = ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf";
constexpr SamplingOptions sampling{.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .seed = 1};

class GenerateTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_.emplace(Device::open("cpu", {.backend = {CpuOptions{.threads = 2}}}).value());
    model_.emplace(llm::open_text_model(*device_, stories).value());
  }
  static void TearDownTestSuite() {
    model_.reset();
    device_.reset();
  }
  static Generator create(const llm::DecoderOptions& options = {}) {
    return Generator::create(*model_, options).value();
  }
  // Runs and collects the text.
  static GenerateReport run(Generator& g, std::string_view prompt, GenerateOptions options,
                            std::string* text = nullptr) {
    auto report = g.run(prompt, options, [&](const Piece& p) -> Status {
      if (text != nullptr) *text += p.text;
      return {};
    });
    EXPECT_TRUE(report) << report.error().to_string();
    return report ? *report : GenerateReport{};
  }

  inline static std::optional<Device> device_;
  inline static std::optional<llm::TextModel> model_;
};

TEST_F(GenerateTest, TellsAStory) {
  Generator g = create();
  std::string text;
  const GenerateReport r =
      run(g, "Once upon a time", {.max_tokens = 24, .sampling = sampling}, &text);
  EXPECT_EQ(r.stop, StopReason::max_tokens);
  EXPECT_EQ(r.prompt_tokens, 5u);
  EXPECT_EQ(r.tokens.size(), 24u);
  EXPECT_EQ(r.decoded, 23u);
  EXPECT_GT(r.first_token_ns, 0u);
  EXPECT_GE(r.first_token_ns, r.prefill_ns);
  std::vector<std::uint32_t> all =
      llm::encode_prompt(*model_->tokenizer, "Once upon a time").value();
  all.insert(all.end(), r.tokens.begin(), r.tokens.end());
  EXPECT_EQ("Once upon a time" + text, model_->tokenizer->decode(all).value());
}

// Without a prompt the text begins with a word, not with the space that words have in front.
TEST_F(GenerateTest, BeginsATextOfItsOwn) {
  Generator g = create();
  std::string text;
  run(g, "", {.max_tokens = 8}, &text);
  ASSERT_FALSE(text.empty());
  EXPECT_NE(text[0], ' ');
  Generator again = create();
  std::string more;
  run(again, "Once", {.max_tokens = 3}, &more);
  EXPECT_EQ(more[0], ' ');
}

// Begin tokens once, end tokens never.
TEST_F(GenerateTest, PromptTokens) {
  const auto tokenizer = [](bool add_bos, bool add_eos, std::uint32_t eos) {
    llm::VocabularyData data = score_vocabulary({{"ab", 1.0f}});
    data.ids.bos = 1;
    data.ids.eos = eos;
    data.add_bos = add_bos;
    data.add_eos = add_eos;
    data.add_space_prefix = false;
    return made(data);
  };
  const auto ids = [](const llm::Tokenizer& t, std::string_view text,
                      const llm::PromptOptions& options = {}) {
    return llm::encode_prompt(t, text, options).value();
  };
  const std::uint32_t ab = 259;
  const llm::Tokenizer both = tokenizer(true, true, 2);
  EXPECT_EQ(both.encode("ab").value(), (Ids{1, ab, 2}));
  EXPECT_EQ(ids(both, "ab"), (Ids{1, ab}));
  EXPECT_EQ(ids(both, ""), (Ids{1}));
  EXPECT_EQ(ids(both, "ab", {.at_start = false}), (Ids{ab}));
  EXPECT_EQ(ids(both, "<s>ab</s>", {.parse_special = true}), (Ids{1, ab, 2}));
  EXPECT_EQ(ids(tokenizer(true, false, 2), "ab"), (Ids{1, ab}));
  EXPECT_EQ(ids(tokenizer(false, true, 2), "ab"), (Ids{ab}));
  EXPECT_EQ(ids(tokenizer(false, true, 2), ""), (Ids{}));
  EXPECT_EQ(ids(tokenizer(true, false, 1), "ab"), (Ids{1, ab}));
  EXPECT_EQ(ids(tokenizer(true, true, 1), "ab"), (Ids{1, ab}));
}

TEST_F(GenerateTest, EndsWhereTheStoryEnds) {
  Generator g = create();
  const GenerateReport r = run(g, "Tom saw a cat. The end was near", {.max_tokens = 480});
  ASSERT_EQ(r.stop, StopReason::end_of_text);
  for (const std::uint32_t id : r.tokens) EXPECT_FALSE(model_->tokenizer->ends_reply(id));
}

TEST_F(GenerateTest, RunsContinue) {
  Generator whole = create();
  std::string expected;
  const GenerateReport all =
      run(whole, "Lily had a", {.max_tokens = 20, .sampling = sampling}, &expected);
  Generator parts = create();
  std::string text;
  std::vector<std::uint32_t> tokens;
  for (const std::uint32_t n : {7u, 1u, 0u, 12u}) {
    const GenerateReport r = run(parts, tokens.empty() ? "Lily had a" : "",
                                 {.max_tokens = n, .sampling = sampling}, &text);
    tokens.insert(tokens.end(), r.tokens.begin(), r.tokens.end());
  }
  EXPECT_EQ(tokens, all.tokens);
  EXPECT_EQ(text, expected);
}

TEST_F(GenerateTest, CancelKeepsWhatIsThere) {
  Generator whole = create();
  const GenerateReport all = run(whole, "Once", {.max_tokens = 12, .sampling = sampling});
  Generator g = create();
  std::atomic<bool> cancel{false};
  std::size_t seen = 0;
  const GenerateOptions options{.max_tokens = 12, .sampling = sampling, .cancel = &cancel};
  const auto stopped = g.run("Once", options, [&](const Piece&) -> Status {
    if (++seen == 5) cancel = true;
    return {};
  });
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->stop, StopReason::cancelled);
  EXPECT_EQ(stopped->tokens.size(), 5u);
  cancel = false;
  const GenerateReport rest = run(g, "", {.max_tokens = 7, .sampling = sampling});
  std::vector<std::uint32_t> tokens = stopped->tokens;
  tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(tokens, all.tokens);

  cancel = true;
  Generator never = create();
  const auto nothing = never.run("Once", options, nullptr);
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->stop, StopReason::cancelled);
  EXPECT_TRUE(nothing->tokens.empty());
  EXPECT_EQ(never.decoder().length(), 0u);
}

// However many tokens are queued at a time, text, state and logits are those of one at a time.
TEST_F(GenerateTest, QueuesChangeNothing) {
  struct End {
    GenerateReport report;
    std::string text;
    std::uint32_t length;
    std::vector<float> logits;
  };
  // stop: after so many tokens by the flag; 0: never.
  const auto go = [&](std::string_view prompt, std::uint32_t ahead, std::uint32_t max_tokens,
                      std::size_t stop, std::uint32_t context, const SamplingOptions& how) {
    Generator g = create({.context = context});
    End end;
    std::atomic<bool> cancel{false};
    const GenerateOptions options{
        .max_tokens = max_tokens, .sampling = how, .ahead = ahead, .cancel = &cancel};
    std::size_t seen = 0;
    const auto report = g.run(prompt, options, [&](const Piece& p) -> Status {
      end.text += p.text;
      cancel = ++seen == stop;
      return {};
    });
    EXPECT_TRUE(report);
    if (report) end.report = *report;
    end.length = g.decoder().length();
    end.logits = g.decoder().logits().value();
    // The text goes on as if nothing had been queued.
    if (end.length + 6 < context) {
      const GenerateReport more = run(g, " and", {.max_tokens = 3, .sampling = how}, &end.text);
      end.report.tokens.insert(end.report.tokens.end(), more.tokens.begin(), more.tokens.end());
    }
    return end;
  };
  const struct {
    const char* prompt;
    std::uint32_t max_tokens;
    std::size_t stop;
    std::uint32_t context;
    SamplingOptions sampling;
    StopReason reason;
  } cases[] = {
      {"Once upon a time", 21, 0, 512, sampling, StopReason::max_tokens},
      {"Once upon a time", 21, 5, 512, {}, StopReason::cancelled},
      {"Once upon a time", 21, 6, 512, sampling, StopReason::cancelled},
      {"Once upon a time", 50, 0, 24, {}, StopReason::context_full},
      {"Tom saw a cat. The end was near", 480, 0, 512, {}, StopReason::end_of_text},
  };
  for (const auto& c : cases) {
    const End want = go(c.prompt, 1, c.max_tokens, c.stop, c.context, c.sampling);
    EXPECT_EQ(want.report.stop, c.reason);
    for (const std::uint32_t ahead : {2u, 3u, 8u, 64u}) {
      const End got = go(c.prompt, ahead, c.max_tokens, c.stop, c.context, c.sampling);
      EXPECT_EQ(got.report.stop, c.reason) << ahead;
      EXPECT_EQ(got.report.tokens, want.report.tokens) << ahead;
      EXPECT_EQ(got.report.decoded, want.report.decoded) << ahead;
      EXPECT_EQ(got.text, want.text) << ahead;
      EXPECT_EQ(got.length, want.length) << ahead;
      EXPECT_EQ(got.logits, want.logits) << ahead;
    }
  }
}

// Wherever a queue breaks off, the text can go on from there.
TEST_F(GenerateTest, AQueueThatBreaksOffKeepsTheText) {
  const DeviceOptions device_options{.backend = {CpuOptions{.threads = 2}}};
  auto backend = std::make_unique<FaultBackend>(make_cpu_backend(device_options));
  FaultBackend& fault = *backend;
  const Device device(DeviceState::create(std::move(backend), device_options).value());
  const auto model = llm::open_text_model(device, "synthetic:tiny:q8_0");
  ASSERT_TRUE(model) << model.error().to_string();
  const std::uint32_t ids[] = {1, 2, 3};
  Generator whole = Generator::create(*model).value();
  const std::vector<std::uint32_t> all = whole.run(ids, {.max_tokens = 30}, nullptr)->tokens;

  enum class Break { error, no_memory, cancel_and_submit_fails };
  for (const Break how : {Break::error, Break::no_memory, Break::cancel_and_submit_fails}) {
    for (std::size_t at = 1; at <= 16; ++at) {
      Generator g = Generator::create(*model).value();
      std::atomic<bool> cancel{false};
      const GenerateOptions options{.max_tokens = 30, .ahead = 8, .cancel = &cancel};
      std::size_t seen = 0;
      const auto broken = g.run(ids, options, [&](const Piece&) -> Status {
        if (++seen != at) return {};
        if (how == Break::error) return fail(ErrorCode::io, "disk full");
        if (how == Break::no_memory) throw std::bad_alloc();
        cancel = true;
        fault.arm({.call = BackendCall::submit, .nth = 1});
        return {};
      });
      fault.disarm();
      cancel = false;
      EXPECT_EQ(seen, at);
      EXPECT_TRUE(!broken || how == Break::cancel_and_submit_fails);
      // What was told stays; where the device failed, the last token may come once more.
      const auto rest =
          g.run(std::span<const std::uint32_t>(), {.max_tokens = 5, .ahead = 1}, nullptr);
      ASSERT_TRUE(rest) << at;
      const std::size_t from = broken ? at : how == Break::cancel_and_submit_fails ? at - 1 : at;
      EXPECT_EQ(rest->tokens, std::vector(all.begin() + static_cast<std::ptrdiff_t>(from),
                                          all.begin() + static_cast<std::ptrdiff_t>(from) + 5))
          << static_cast<int>(how) << " at " << at;
    }
  }
}

TEST_F(GenerateTest, TheCallersErrorEndsTheRun) {
  Generator g = create();
  std::size_t seen = 0;
  const GenerateOptions options{.max_tokens = 12, .ahead = 4};
  const auto r = g.run("Once", options, [&](const Piece&) -> Status {
    if (++seen == 5) return fail(ErrorCode::io, "disk full");
    return {};
  });
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, ErrorCode::io);
  EXPECT_EQ(seen, 5u);
  EXPECT_EQ(g.decoder().length(), 2u + 4);  // all but the last one told
}

TEST_F(GenerateTest, ContextLimit) {
  Generator small = create({.context = 12});
  std::string text;
  const GenerateReport r = run(small, "Once upon a time", {.max_tokens = 50}, &text);
  EXPECT_EQ(r.stop, StopReason::context_full);
  EXPECT_EQ(r.tokens.size(), 8u);  // 5 of the prompt, 7 in the cache, one after them
  EXPECT_FALSE(text.empty());
  Generator tiny = create({.context = 3});
  const auto none = tiny.run("Once upon a time", {.max_tokens = 50}, nullptr);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::limit);
  EXPECT_NE(none.error().message.find("5"), std::string::npos) << none.error().message;
  EXPECT_NE(none.error().message.find("3"), std::string::npos) << none.error().message;
}

TEST_F(GenerateTest, ModelsWithoutATokenizerTakeIds) {
  auto model = llm::open_text_model(*device_, "synthetic:tiny:q8_0");
  ASSERT_TRUE(model) << model.error().to_string();
  ASSERT_FALSE(model->tokenizer);
  Generator g = Generator::create(*model).value();
  EXPECT_EQ(g.run("Once", {}, nullptr).error().code, ErrorCode::not_found);
  const std::uint32_t ids[] = {1, 2, 3};
  std::vector<std::uint32_t> handed_out;
  const auto r = g.run(ids, {.max_tokens = 4}, [&](const Piece& p) -> Status {
    EXPECT_TRUE(p.text.empty());
    handed_out.push_back(p.token.value());
    return {};
  });
  ASSERT_TRUE(r);
  EXPECT_EQ(handed_out, r->tokens);
  EXPECT_EQ(r->tokens.size(), 4u);
  Generator fresh = Generator::create(*model).value();
  EXPECT_EQ(fresh.run(std::span<const std::uint32_t>(), {}, nullptr).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(GenerateTest, LoadingTellsItsProgress) {
  std::uint64_t last = 0, total = 0;
  llm::OpenOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t all) -> Status {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    return {};
  };
  ASSERT_TRUE(llm::open_text_model(*device_, stories, options));
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 12'000'000u);
}

TEST_F(GenerateTest, LoadingCanBeEnded) {
  ASSERT_TRUE(device_->fence());
  const std::uint64_t before = device_->live_bytes();
  llm::OpenOptions options;
  options.progress = [](std::uint64_t done, std::uint64_t) -> Status {
    if (done > 5'000'000) return fail(ErrorCode::cancelled, "enough");
    return {};
  };
  const auto model = llm::open_text_model(*device_, stories, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::cancelled);
  ASSERT_TRUE(device_->fence());
  EXPECT_EQ(device_->live_bytes(), before);
}

// The first bytes of a real file, and a file that becomes shorter while its weights are read.
TEST_F(GenerateTest, AShortenedFileIsAnError) {
  std::ifstream in(stories, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const TempFile whole(std::as_bytes(std::span(bytes)));
  llm::OpenOptions options;
  options.progress = [&](std::uint64_t, std::uint64_t) -> Status {
    std::filesystem::resize_file(whole.path(), 1'000'000);
    return {};
  };
  const auto shortened = llm::open_text_model(*device_, whole.path(), options);
  ASSERT_FALSE(shortened);
  EXPECT_EQ(shortened.error().code, ErrorCode::io) << shortened.error().to_string();
  const auto short_file = llm::open_text_model(*device_, whole.path());
  ASSERT_FALSE(short_file);
  EXPECT_EQ(short_file.error().code, ErrorCode::parse) << short_file.error().to_string();
}

TEST_F(GenerateTest, ADeletedFileKeepsRunning) {
  std::ifstream in(stories, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::optional<TempFile> file(std::in_place, std::as_bytes(std::span(bytes)));
  auto model = llm::open_text_model(*device_, file->path());
  ASSERT_TRUE(model);
  std::ofstream(file->path(), std::ios::trunc) << "something else";
  file.reset();
  Generator g = Generator::create(std::move(*model)).value();
  Generator other = create();
  EXPECT_EQ(run(g, "Once", {.max_tokens = 5}).tokens, run(other, "Once", {.max_tokens = 5}).tokens);
}

}  // namespace
}  // namespace onepass::test::generate_test
