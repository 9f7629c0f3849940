// Models through the C API: the one in the box, and synthetic ones.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "capi/support.h"

namespace onepass::test {
namespace {

using testing::HasSubstr;

constexpr const char* stories = ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf";

class CApiModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_ = open_cpu().release();
    ASSERT_OK(onepass_model_load(device_, stories, nullptr, &model_));
  }
  static void TearDownTestSuite() {
    onepass_model_close(model_);
    onepass_device_close(device_);
    model_ = nullptr;
    device_ = nullptr;
  }
  static SequenceHandle create(std::uint32_t context = 0) {
    auto options = sized<onepass_sequence_options>();
    options.context = context;
    onepass_sequence* sequence = nullptr;
    EXPECT_OK(onepass_sequence_create(model_, &options, &sequence));
    return SequenceHandle(sequence);
  }
  static std::vector<std::uint32_t> tokenize(const std::string& text, std::uint32_t flags = 0) {
    std::size_t n = 0;
    EXPECT_OK(onepass_tokenize(model_, text.data(), text.size(), flags, nullptr, 0, &n));
    std::vector<std::uint32_t> ids(n);
    EXPECT_OK(onepass_tokenize(model_, text.data(), text.size(), flags, ids.data(), n, &n));
    return ids;
  }
  static std::string detokenize(const std::vector<std::uint32_t>& ids, std::uint32_t flags = 0) {
    std::size_t n = 0;
    EXPECT_OK(onepass_detokenize(model_, ids.data(), ids.size(), flags, nullptr, 0, &n));
    std::string text(n, '\0');
    EXPECT_OK(onepass_detokenize(model_, ids.data(), ids.size(), flags, text.data(), n, &n));
    return text;
  }

  inline static onepass_device* device_ = nullptr;
  inline static onepass_model* model_ = nullptr;
};

struct Told {
  std::string text;
  std::vector<std::uint32_t> tokens;
  std::size_t stop_after = ~std::size_t{0};
  onepass_generate_report report = sized<onepass_generate_report>();

  static int piece(void* user, const onepass_piece* piece) {
    Told& told = *static_cast<Told*>(user);
    told.text.append(piece->text, piece->text_bytes);
    if (piece->has_token != 0) told.tokens.push_back(piece->token);
    return told.tokens.size() >= told.stop_after ? 1 : 0;
  }
};

Told tell(const SequenceHandle& sequence, const std::string& prompt, std::uint32_t max_tokens,
          std::size_t stop_after = ~std::size_t{0}) {
  Told told;
  told.stop_after = stop_after;
  auto options = sized<onepass_generate_options>();
  options.max_tokens = max_tokens;
  options.piece = Told::piece;
  options.user = &told;
  EXPECT_OK(onepass_generate(sequence.get(), prompt.data(), prompt.size(), &options, &told.report));
  return told;
}

TEST_F(CApiModel, TellsWhatItIs) {
  auto info = sized<onepass_model_info>();
  ASSERT_OK(onepass_model_get_info(model_, &info));
  EXPECT_STREQ(info.architecture, "llama");
  EXPECT_STREQ(info.tokenizer_error, "");
  EXPECT_GT(std::string(info.name).size(), 0u);
  EXPECT_GT(info.layers, 1u);
  EXPECT_GT(info.dim, 1u);
  EXPECT_GT(info.vocab, 256u);
  EXPECT_GT(info.context, 100u);
  EXPECT_GT(info.weight_bytes, 1u << 20);
}

TEST_F(CApiModel, TokenizesThereAndBack) {
  const std::string text = "Tom had a red ball. \xc3\xa9";
  const std::vector<std::uint32_t> ids = tokenize(text), plain = tokenize(text, ONEPASS_NO_SPECIAL);
  ASSERT_EQ(ids.size(), plain.size() + 1);  // the begin token
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), ids.begin() + 1));
  EXPECT_EQ(detokenize(ids), text);
  EXPECT_NE(detokenize(ids, ONEPASS_SHOW_SPECIAL), text);
  std::uint32_t id = 77;
  std::size_t n = 0;
  EXPECT_FAILS(onepass_tokenize(model_, text.data(), text.size(), 0, &id, 1, &n), ONEPASS_LIMIT,
               "room for 1");
  EXPECT_EQ(n, ids.size());
  EXPECT_EQ(id, 77u);
  EXPECT_FAILS(onepass_tokenize(model_, "a", 1, 64, &id, 1, &n), ONEPASS_INVALID_ARGUMENT, "flags");
  const std::uint32_t wrong = 0xffffffffu;
  EXPECT_NE(onepass_detokenize(model_, &wrong, 1, 0, nullptr, 0, &n), ONEPASS_OK);
  EXPECT_TRUE(tokenize("", ONEPASS_NO_SPECIAL).empty());
}

TEST_F(CApiModel, GeneratesAndContinues) {
  const SequenceHandle whole = create(256), parts = create(256);
  const Told all = tell(whole, "Once upon a time", 24);
  EXPECT_EQ(all.tokens.size(), 24u);
  EXPECT_EQ(all.report.tokens, 24u);
  EXPECT_EQ(all.report.prompt_tokens, 5u);
  EXPECT_EQ(all.report.stop, ONEPASS_STOP_MAX_TOKENS);
  EXPECT_GT(all.report.prefill_ns, 0u);
  EXPECT_GT(all.report.first_token_ns, all.report.prefill_ns);
  EXPECT_GT(all.report.decode_ns, 0u);
  EXPECT_THAT(all.text, HasSubstr(" "));

  const Told first = tell(parts, "Once upon a time", 10);
  const Told second = tell(parts, "", 14);
  std::vector<std::uint32_t> tokens = first.tokens;
  tokens.insert(tokens.end(), second.tokens.begin(), second.tokens.end());
  EXPECT_EQ(tokens, all.tokens);
}

TEST_F(CApiModel, StopsWhereTheCallerSays) {
  const SequenceHandle sequence = create(256);
  const Told told = tell(sequence, "Once upon a time", 24, 7);
  EXPECT_EQ(told.tokens.size(), 7u);
  EXPECT_EQ(told.report.tokens, 7u);
  EXPECT_EQ(told.report.stop, ONEPASS_STOP_CALLER);
  const Told last = tell(create(256), "Once upon a time", 7, 7);
  EXPECT_EQ(last.tokens, told.tokens);
}

TEST_F(CApiModel, EqualSeedsTellEqualStories) {
  const auto sampled = [&](std::uint64_t seed) {
    const SequenceHandle sequence = create(256);
    Told told;
    auto options = sized<onepass_generate_options>();
    options.max_tokens = 24;
    options.temperature = 1.0f;
    options.seed = seed;
    options.piece = Told::piece;
    options.user = &told;
    EXPECT_OK(onepass_generate(sequence.get(), "One day", 7, &options, nullptr));
    return told.text;
  };
  EXPECT_EQ(sampled(3), sampled(3));
  EXPECT_NE(sampled(3), sampled(4));
}

TEST_F(CApiModel, LogitsNameTheGreedyToken) {
  const SequenceHandle sequence = create(64);
  const std::vector<std::uint32_t> ids = tokenize("Once upon a time");
  auto info = sized<onepass_model_info>();
  ASSERT_OK(onepass_model_get_info(model_, &info));
  std::vector<float> logits(info.vocab);
  EXPECT_NE(onepass_sequence_logits(sequence.get(), logits.data(), logits.size()), ONEPASS_OK);
  ASSERT_OK(onepass_sequence_append(sequence.get(), ids.data(), ids.size()));
  std::uint32_t length = 0, context = 0;
  ASSERT_OK(onepass_sequence_length(sequence.get(), &length, &context));
  EXPECT_EQ(length, ids.size());
  EXPECT_EQ(context, 64u);
  EXPECT_FAILS(onepass_sequence_logits(sequence.get(), logits.data(), logits.size() - 1),
               ONEPASS_INVALID_ARGUMENT, std::to_string(info.vocab));
  ASSERT_OK(onepass_sequence_logits(sequence.get(), logits.data(), logits.size()));
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  const Told told = tell(create(64), "Once upon a time", 1);
  ASSERT_EQ(told.tokens.size(), 1u);
  EXPECT_EQ(told.tokens[0], static_cast<std::uint32_t>(best));

  // The same tokens again, after a step back.
  ASSERT_OK(onepass_sequence_truncate(sequence.get(), 2));
  ASSERT_OK(onepass_sequence_append(sequence.get(), ids.data() + 2, ids.size() - 2));
  std::vector<float> again(info.vocab);
  ASSERT_OK(onepass_sequence_logits(sequence.get(), again.data(), again.size()));
  EXPECT_EQ(again, logits);
}

TEST_F(CApiModel, RefusesWhatItCannotDo) {
  const SequenceHandle sequence = create(8);
  std::string prompt;
  for (int i = 0; i < 20; ++i) prompt += "Once upon a time ";
  EXPECT_FAILS(onepass_generate(sequence.get(), prompt.data(), prompt.size(), nullptr, nullptr),
               ONEPASS_LIMIT, "8");
  auto options = sized<onepass_generate_options>();
  options.temperature = -1.0f;
  EXPECT_FAILS(onepass_generate(sequence.get(), "a", 1, &options, nullptr),
               ONEPASS_INVALID_ARGUMENT, "temperature");
  auto short_report = onepass_generate_report{};
  EXPECT_FAILS(onepass_generate(sequence.get(), "a", 1, nullptr, &short_report),
               ONEPASS_INVALID_ARGUMENT, "onepass_generate_report.size is 0");
  const std::uint32_t wrong = 0xffffffffu;
  EXPECT_NE(onepass_sequence_append(sequence.get(), &wrong, 1), ONEPASS_OK);
  std::uint32_t length = 9;
  ASSERT_OK(onepass_sequence_length(sequence.get(), &length, nullptr));
  EXPECT_EQ(length, 0u);
  const Told told = tell(sequence, "Once", 100);
  EXPECT_EQ(told.report.stop, ONEPASS_STOP_CONTEXT_FULL);
}

// A callback that uses the sequence is told so, and the text goes on.
TEST_F(CApiModel, SequencesAreForOneCallAtATime) {
  struct Inner {
    onepass_sequence* sequence;
    onepass_result result = ONEPASS_OK;
    int pieces = 0;
  } inner{nullptr};
  const SequenceHandle sequence = create(64);
  inner.sequence = sequence.get();
  auto options = sized<onepass_generate_options>();
  options.max_tokens = 3;
  options.user = &inner;
  options.piece = [](void* user, const onepass_piece*) {
    Inner& i = *static_cast<Inner*>(user);
    i.result = onepass_sequence_truncate(i.sequence, 0);
    ++i.pieces;
    return 0;
  };
  EXPECT_OK(onepass_generate(sequence.get(), "Once", 4, &options, nullptr));
  EXPECT_EQ(inner.result, ONEPASS_INVALID_STATE);
  EXPECT_GE(inner.pieces, 3);
  EXPECT_OK(onepass_sequence_truncate(sequence.get(), 0));
}

TEST_F(CApiModel, SequencesOutliveTheirModel) {
  onepass_device* device = open_cpu(1).release();
  onepass_model* model = nullptr;
  ASSERT_OK(onepass_model_load(device, "synthetic:tiny:q4_0", nullptr, &model));
  auto info = sized<onepass_model_info>();
  ASSERT_OK(onepass_model_get_info(model, &info));
  EXPECT_THAT(info.tokenizer_error, HasSubstr("synthetic"));
  std::size_t n = 0;
  EXPECT_FAILS(onepass_tokenize(model, "a", 1, 0, nullptr, 0, &n), ONEPASS_NOT_FOUND, "token ids");
  auto sequence_options = sized<onepass_sequence_options>();
  sequence_options.context = 32;
  sequence_options.kv_f32 = 1;
  onepass_sequence* made = nullptr;
  ASSERT_OK(onepass_sequence_create(model, &sequence_options, &made));
  const SequenceHandle sequence(made);
  onepass_model_close(model);
  onepass_device_close(device);
  Told told;
  auto options = sized<onepass_generate_options>();
  options.max_tokens = 4;
  options.piece = Told::piece;
  options.user = &told;
  const std::uint32_t ids[] = {1, 2, 3};
  ASSERT_OK(onepass_generate_tokens(sequence.get(), ids, 3, &options, &told.report));
  EXPECT_EQ(told.tokens.size(), 4u);
  EXPECT_EQ(told.text, "");
  EXPECT_NE(onepass_generate(sequence.get(), "a", 1, nullptr, nullptr), ONEPASS_OK);
}

TEST_F(CApiModel, LoadingFailsAndStops) {
  onepass_model* model = nullptr;
  EXPECT_FAILS(onepass_model_load(device_, "/nowhere/model.gguf", nullptr, &model),
               ONEPASS_NOT_FOUND, "model.gguf");
  EXPECT_NE(onepass_model_load(device_, "synthetic:tiny:q9", nullptr, &model), ONEPASS_OK);
  auto options = sized<onepass_model_options>();
  int calls = 0;
  options.user = &calls;
  options.progress = [](void* user, std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    return ++*static_cast<int*>(user) == 3 ? 1 : 0;
  };
  EXPECT_FAILS(onepass_model_load(device_, stories, &options, &model), ONEPASS_CANCELLED,
               "stopped");
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(model, nullptr);
  options = sized<onepass_model_options>();
  options.no_tokenizer = 1;
  ASSERT_OK(onepass_model_load(device_, stories, &options, &model));
  auto info = sized<onepass_model_info>();
  EXPECT_OK(onepass_model_get_info(model, &info));
  EXPECT_THAT(info.tokenizer_error, HasSubstr("without its tokenizer"));
  onepass_model_close(model);
}

}  // namespace
}  // namespace onepass::test
