// Conversations with the model in the box, which a template of three lines makes one for chats.
#include "run/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_files.h"
#include "onepass/backends/cpu.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace onepass::test::chat_session_test {
namespace {

using llm::ChatReply;
using llm::ChatSession;
using llm::ChatTemplate;
using llm::GenerateOptions;
using testing::HasSubstr;

constexpr const char* stories = ONEPASS_SOURCE_DIR "/models/stories-12m-q8_0.gguf";
constexpr const char* plain =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
    "{% else %}{{ ' ' + m.content + '\n' }}{% endif %}{% endfor %}";

Result<std::string> chat_template_of(const std::string& path) {
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(path));
  return files->chat_template();
}

class ChatSessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    device_.emplace(Device::open("cpu", {.backend = {CpuOptions{.threads = 2}}}).value());
    model_.emplace(llm::open_text_model(*device_, stories).value());
  }
  static void TearDownTestSuite() {
    model_.reset();
    device_.reset();
  }
  static ChatSession create(const char* text = plain, std::uint32_t context = 256) {
    return ChatSession::create(*model_, ChatTemplate::parse(text).value(), {.context = context})
        .value();
  }
  inline static std::optional<Device> device_;
  inline static std::optional<llm::TextModel> model_;
};

TEST_F(ChatSessionTest, ReusesWhatTheCacheHas) {
  const GenerateOptions options{.max_tokens = 12};
  ChatSession chat = create();
  std::string streamed;
  const auto first = chat.ask("Once upon a time", options, [&](std::string_view text) -> Status {
    streamed += text;
    return {};
  });
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(first->reused_tokens, 0u);
  EXPECT_EQ(first->report.tokens.size(), 12u);
  EXPECT_EQ(streamed, first->text);
  EXPECT_FALSE(first->text.empty());
  EXPECT_NE(first->text.front(), ' ');

  const auto second = chat.ask("Tom had a ball.", options, nullptr);
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_GE(second->reused_tokens, first->prompt_tokens);
  EXPECT_GT(second->prompt_tokens, second->reused_tokens);
  ASSERT_EQ(chat.input().messages.size(), 4u);
  EXPECT_EQ(chat.input().messages[1].role, "assistant");
  EXPECT_EQ(chat.input().messages[1].content.bytes(), first->text);

  // The same conversation without a cache.
  ChatSession fresh = create();
  fresh.input().messages = {{"user", "Once upon a time"}, {"assistant", first->text}};
  const auto alone = fresh.ask("Tom had a ball.", options, nullptr);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->reused_tokens, 0u);
  EXPECT_EQ(alone->prompt_tokens, second->prompt_tokens);
  EXPECT_EQ(alone->report.tokens, second->report.tokens);
}

TEST_F(ChatSessionTest, AnotherConversationForgetsTheRest) {
  const GenerateOptions options{.max_tokens = 8};
  ChatSession chat = create();
  const auto first = chat.ask("Once upon a time", options, nullptr);
  ASSERT_TRUE(first);
  chat.input().messages.clear();
  const auto same = chat.ask("Once upon a time", options, nullptr);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->reused_tokens, first->prompt_tokens - 1);  // one is needed to go on
  EXPECT_EQ(same->text, first->text);
  chat.input().messages.clear();
  const auto other = chat.ask("The dog ran.", options, nullptr);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->reused_tokens, 1u);  // the begin token
  ChatSession fresh = create();
  EXPECT_EQ(fresh.ask("The dog ran.", options, nullptr)->report.tokens, other->report.tokens);
}

TEST_F(ChatSessionTest, ErrorsChangeNothing) {
  const GenerateOptions options{.max_tokens = 4};
  ChatSession chat = create(
      "{{ bos_token }}{% for m in messages %}{% if m.content == 'bad' %}"
      "{{ raise_exception('bad word') }}{% endif %}{{ m.content }} {% endfor %}",
      24);
  const auto first = chat.ask("Once", options, nullptr);
  ASSERT_TRUE(first);
  const auto refused = chat.ask("bad", options, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("bad word"));
  std::string much;
  for (int i = 0; i < 40; ++i) much += "dog cat ";
  const auto too_long = chat.ask(much, options, nullptr);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::limit);
  EXPECT_THAT(too_long.error().message, HasSubstr("the context holds 24"));
  const auto stopped = chat.ask(
      "More", options, [](std::string_view) -> Status { return fail(ErrorCode::io, "disk full"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::io);
  EXPECT_EQ(chat.input().messages.size(), 2u);
  const auto after = chat.ask("More", options, nullptr);
  ASSERT_TRUE(after) << after.error().to_string();
  ChatSession fresh =
      create("{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}", 24);
  fresh.input().messages = {{"user", "Once"}, {"assistant", first->text}};
  EXPECT_EQ(fresh.ask("More", options, nullptr)->report.tokens, after->report.tokens);
}

TEST_F(ChatSessionTest, TheOldestTurnsMakeRoom) {
  ChatSession chat = create(plain, 64);
  const std::string words = "the dog ran to the big tree";
  chat.input().messages = {{"system", "A story."}};
  for (const char* user : {"first", "second", "third"}) {
    chat.input().messages.push_back({"user", user});
    chat.input().messages.push_back({"assistant", words});
  }
  const auto all = chat.input().messages.size();
  EXPECT_EQ(chat.make_room("Hi", 4).value(), 0u);
  // Only the message and what is said to the model stay, where nothing else helps.
  ChatSession full = create(plain, 64);
  full.input().messages = chat.input().messages;
  EXPECT_EQ(full.make_room("Hi", 64).value(), all - 1);
  ASSERT_EQ(full.input().messages.size(), 1u);
  EXPECT_EQ(full.input().messages[0].role, "system");
  // As few turns as are needed, each with its answer.
  const auto dropped = chat.make_room("Hi", 30).value();
  EXPECT_GT(dropped, 0u);
  EXPECT_LT(dropped, all - 1);
  EXPECT_EQ(dropped % 2, 0u);
  EXPECT_EQ(chat.input().messages[1].role, "user");
  const auto reply = chat.ask("Hi", {.max_tokens = 1}, nullptr);
  ASSERT_TRUE(reply);
  EXPECT_LE(reply->prompt_tokens + 30, 64u);
  // An error changes nothing.
  ChatSession refuses = create("{{ raise_exception('no') }}", 64);
  refuses.input().messages = {{"user", "a"}, {"assistant", "b"}};
  EXPECT_FALSE(refuses.make_room("Hi", 64));
  EXPECT_EQ(refuses.input().messages.size(), 2u);
}

TEST_F(ChatSessionTest, TwoHundredTurnsInAFullContext) {
  const GenerateOptions options{.max_tokens = 12};
  constexpr std::uint32_t context = 96;
  ChatSession chat = create(plain, context);
  chat.input().messages = {{"system", "A story."}};
  std::size_t dropped = 0;
  for (int turn = 0; turn < 200; ++turn) {
    const std::string user = "Then number " + std::to_string(turn) + " came.";
    const auto n = chat.make_room(user, 16);
    ASSERT_TRUE(n) << n.error().to_string();
    dropped += *n;
    const std::vector<llm::ChatMessage> kept = chat.input().messages;
    ASSERT_EQ(kept[0].role, "system");
    const auto reply = chat.ask(user, options, nullptr);
    ASSERT_TRUE(reply) << reply.error().to_string();
    ChatSession fresh = create(plain, context);
    fresh.input().messages = kept;
    const auto alone = fresh.ask(user, options, nullptr);
    ASSERT_TRUE(alone);
    ASSERT_EQ(alone->text, reply->text) << "turn " << turn;
  }
  EXPECT_GT(dropped, 300u);
}

TEST_F(ChatSessionTest, CancelKeepsTheText) {
  std::atomic<bool> cancel{false};
  GenerateOptions options{.max_tokens = 50};
  options.cancel = &cancel;
  ChatSession chat = create();
  const auto reply = chat.ask("Once upon a time", options, [&](std::string_view) -> Status {
    cancel = true;
    return {};
  });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->report.stop, llm::StopReason::cancelled);
  ASSERT_EQ(chat.input().messages.size(), 2u);
  EXPECT_EQ(chat.input().messages[1].content.bytes(), reply->text);
  const auto nothing = chat.ask("And then?", options, nullptr);
  ASSERT_TRUE(nothing);
  EXPECT_EQ(chat.input().messages.size(), 2u);
  cancel = false;
  EXPECT_TRUE(chat.ask("And then?", options, nullptr));
  EXPECT_EQ(chat.input().messages.size(), 4u);
}

TEST_F(ChatSessionTest, ModelWithoutTokenizer) {
  llm::TextModel model{model_->model, make_error(ErrorCode::not_found, "no tokenizer here")};
  const auto chat = ChatSession::create(model, ChatTemplate::parse(plain).value());
  ASSERT_FALSE(chat);
  EXPECT_THAT(chat.error().message, HasSubstr("no tokenizer here"));
}

TEST(ModelTemplate, ComesFromFilesAndFolders) {
  const TempFolder folder, files;
  GgufWriter w;
  w.set("general.architecture", "llama").set("tokenizer.chat_template", "{{ 'from gguf' }}");
  EXPECT_EQ(chat_template_of(files.write("a.gguf", w.finish())).value(), "{{ 'from gguf' }}");
  const auto none = chat_template_of(stories);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("has no chat template"));

  const std::string path = folder.path().string();
  EXPECT_EQ(chat_template_of(path).error().code, ErrorCode::not_found);
  folder.write_text("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": null})");
  EXPECT_EQ(chat_template_of(path).error().code, ErrorCode::not_found);
  folder.write_text("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(chat_template_of(path).value(), "one");
  folder.write_text("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"},
                    {"name": "default", "template": "two"}]})");
  EXPECT_EQ(chat_template_of(path).value(), "two");
  folder.write_text("tokenizer_config.json", R"({"chat_template": [{"name": "rag"}]})");
  EXPECT_EQ(chat_template_of(path).error().code, ErrorCode::unsupported);
  folder.write_text("chat_template.json", R"({"chat_template": "three"})");
  EXPECT_EQ(chat_template_of(path).value(), "three");
  folder.write_text("chat_template.jinja", "four");
  EXPECT_EQ(chat_template_of(path).value(), "four");
  EXPECT_EQ(chat_template_of("/no/such").error().code, ErrorCode::not_found);
  EXPECT_EQ(chat_template_of("synthetic:tiny:q8_0").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace onepass::test::chat_session_test
