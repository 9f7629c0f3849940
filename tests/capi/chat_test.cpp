// Chat templates through the C API, prompts as ids, and calls that another thread ends.
#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "capi/support.h"

namespace onepass::test::chat_test {
namespace {

using testing::HasSubstr;

constexpr const char* stories = ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf";

std::string chatml() {
  std::ifstream file(ONEPASS_SOURCE_DIR "/tests/text/chat_templates/chatml.jinja");
  return {std::istreambuf_iterator<char>(file), {}};
}

class CApiChat : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(onepass_model_load(device_.get(), stories, nullptr, &made_));
    model_.reset(made_);
    options_.chat_template = template_.c_str();
  }
  std::string render(const char* messages) {
    std::size_t n = 0;
    EXPECT_OK(onepass_chat_prompt(model_.get(), messages, &options_, nullptr, 0, &n));
    std::string text(n, '\0');
    EXPECT_OK(onepass_chat_prompt(model_.get(), messages, &options_, text.data(), n, &n));
    return text;
  }
  onepass_result refuse(const char* messages) {
    std::size_t n = 0;
    return onepass_chat_prompt(model_.get(), messages, &options_, nullptr, 0, &n);
  }

  const DeviceHandle device_ = open_cpu();
  onepass_model* made_ = nullptr;
  ModelHandle model_;
  const std::string template_ = chatml();
  onepass_chat_options options_ = sized<onepass_chat_options>();
};

TEST_F(CApiChat, WritesConversations) {
  constexpr const char* messages =
      R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi \"you\""}])";
  const std::string text = render(messages);
  EXPECT_THAT(text, HasSubstr("<|im_start|>user\nHi \"you\"<|im_end|>"));
  EXPECT_THAT(text, HasSubstr("Be brief."));
  options_.no_answer = 1;
  const std::string closed = render(messages);
  EXPECT_EQ(text, closed + "<|im_start|>assistant\n");
}

TEST_F(CApiChat, GivesTemplatesToolsVariablesAndFields) {
  options_.chat_template =
      "{{ tools[0].name }} {{ thinking }} {{ messages[0].name }} {{ messages[0].content[0].text }}";
  options_.tools = R"([{"name": "add"}])";
  options_.variables = R"({"thinking": false})";
  EXPECT_EQ(render(R"([{"role": "user", "name": "Tom", "content": [{"text": "hm"}]}])"),
            "add False Tom hm");
}

TEST_F(CApiChat, RefusesWhatItCannotRead) {
  EXPECT_FAILS(refuse("[{"), ONEPASS_PARSE, "messages");
  EXPECT_FAILS(refuse("{}"), ONEPASS_INVALID_ARGUMENT, "messages: expected a JSON list");
  EXPECT_FAILS(refuse("[1]"), ONEPASS_INVALID_ARGUMENT, "messages[0]: expected a JSON object");
  EXPECT_FAILS(refuse(R"([{"content": "a"}])"), ONEPASS_INVALID_ARGUMENT, "expected a role");
  EXPECT_FAILS(refuse(R"([{"role": 1}])"), ONEPASS_INVALID_ARGUMENT, "messages[0].role");
  options_.variables = "[]";
  EXPECT_FAILS(refuse("[]"), ONEPASS_INVALID_ARGUMENT, "variables: expected a JSON object");
  options_.variables = nullptr;
  options_.chat_template = "{% bad %}";
  EXPECT_NE(refuse("[]"), ONEPASS_OK);
  options_.chat_template = nullptr;  // the story model has none
  EXPECT_FAILS(refuse("[]"), ONEPASS_NOT_FOUND, "no chat template");
  EXPECT_FAILS(refuse("[]"), ONEPASS_NOT_FOUND, "no chat template");
}

TEST_F(CApiChat, PromptsHaveOneBeginTokenAndNoEnd) {
  const auto ids = [&](const std::string& text, std::uint32_t flags) {
    std::uint32_t out[64];
    std::size_t n = 0;
    EXPECT_OK(onepass_tokenize(model_.get(), text.data(), text.size(), flags, out, 64, &n));
    return std::vector<std::uint32_t>(out, out + n);
  };
  const auto plain = ids("Once", ONEPASS_NO_SPECIAL);
  const auto prompt = ids("Once", ONEPASS_AS_PROMPT);
  ASSERT_EQ(prompt.size(), plain.size() + 1);
  EXPECT_EQ(ids("Once", ONEPASS_AS_PROMPT | ONEPASS_NO_SPECIAL), plain);
  const auto written = ids("<s>Once", ONEPASS_AS_PROMPT | ONEPASS_PARSE_SPECIAL);
  EXPECT_EQ(written.front(), prompt.front());
  EXPECT_NE(written[1], prompt.front());
}

TEST_F(CApiChat, AnotherThreadEndsACall) {
  onepass_sequence* made = nullptr;
  ASSERT_OK(onepass_sequence_create(model_.get(), nullptr, &made));
  const SequenceHandle sequence(made);
  ASSERT_OK(onepass_sequence_cancel(sequence.get()));  // no call to end
  struct Seen {
    std::atomic<int> pieces{0};
    std::atomic<bool> go_on{false};
  } seen;
  auto options = sized<onepass_generate_options>();
  options.max_tokens = 200;
  options.user = &seen;
  options.piece = [](void* user, const onepass_piece*) {
    Seen& s = *static_cast<Seen*>(user);
    if (++s.pieces == 3) s.go_on.wait(false);
    return 0;
  };
  auto report = sized<onepass_generate_report>();
  std::thread worker(
      [&] { EXPECT_OK(onepass_generate(sequence.get(), "Once", 4, &options, &report)); });
  while (seen.pieces.load() < 3) std::this_thread::yield();
  EXPECT_OK(onepass_sequence_cancel(sequence.get()));
  seen.go_on.store(true);
  seen.go_on.notify_one();
  worker.join();
  EXPECT_EQ(report.stop, ONEPASS_STOP_CALLER);
  EXPECT_EQ(report.tokens, 3u);
  options.max_tokens = 5;
  EXPECT_OK(onepass_generate(sequence.get(), " a", 2, &options, &report));
  EXPECT_EQ(report.stop, ONEPASS_STOP_MAX_TOKENS);
}

}  // namespace
}  // namespace onepass::test::chat_test
