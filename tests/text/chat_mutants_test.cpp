// Damaged templates: an error or a text, but no crash and no hang.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "text/template/chat_template.h"

namespace onepass::test::chat_mutants_test {
namespace {

using llm::chat::Value;

constexpr std::size_t n_mutants = 12000;

std::vector<std::string> templates() {
  std::vector<std::string> paths, texts;
  for (const auto& entry :
       std::filesystem::directory_iterator(ONEPASS_SOURCE_DIR "/tests/text/chat_templates")) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

llm::ChatInput conversation() {
  llm::ChatInput input;
  const Value call = Value::from_json(R"([{"type": "function", "id": "1", "function":
      {"name": "add", "arguments": {"a": [1, 2.5, null]}}}])")
                         .value();
  input.messages = {{"system", " Be brief "},
                    {"user", "Grüße"},
                    {"assistant", "<think>x</think>", {{"tool_calls", call}}},
                    {"tool", "3.5"},
                    {"user", "Why?"}};
  input.tools = Value::from_json(R"([{"type": "function", "function": {"name": "add",
      "description": "Adds", "parameters": {"type": "object", "properties":
      {"a": {"type": "array", "items": {"type": "number"}}}, "required": ["a"]}}}])")
                    .value();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = 0;
  return input;
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> originals) : originals_(std::move(originals)) {}

  std::string next() {
    std::string text = pick(originals_);
    const std::size_t n = 1 + below(3);
    for (std::size_t i = 0; i < n && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  void change(std::string& text) {
    static const std::vector<std::string> words = {"{{",
                                                   "}}",
                                                   "{%",
                                                   "%}",
                                                   "{%-",
                                                   "-%}",
                                                   "{#",
                                                   "#}",
                                                   "(",
                                                   ")",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "'",
                                                   "\"",
                                                   "\\",
                                                   "|",
                                                   ".",
                                                   ",",
                                                   ":",
                                                   "::-1",
                                                   "*",
                                                   "**",
                                                   "//",
                                                   "%",
                                                   "~",
                                                   "+",
                                                   "-",
                                                   "=",
                                                   "==",
                                                   "!=",
                                                   "<",
                                                   " if ",
                                                   " else ",
                                                   " for ",
                                                   " in ",
                                                   " not ",
                                                   " is ",
                                                   " and ",
                                                   " or ",
                                                   " none ",
                                                   "true",
                                                   "loop",
                                                   "loop.index",
                                                   "messages",
                                                   "tools",
                                                   "range(9)",
                                                   "range(99999999)",
                                                   "namespace()",
                                                   "|tojson",
                                                   "|list",
                                                   "|length",
                                                   "|join",
                                                   "|map('upper')",
                                                   "|selectattr('role')",
                                                   "|sort",
                                                   "|int",
                                                   "|first",
                                                   "|default",
                                                   "|items",
                                                   ".items()",
                                                   ".split()",
                                                   ".strip()",
                                                   "[0]",
                                                   "[-1]",
                                                   "[1:]",
                                                   "[::0]",
                                                   "99999999999",
                                                   "1e999",
                                                   "0",
                                                   "-1",
                                                   "'a' * 99999999",
                                                   "{% endif %}",
                                                   "{% endfor %}",
                                                   "{% else %}",
                                                   "{% elif x %}",
                                                   "{% set x = ",
                                                   "{% set x %}",
                                                   "{% endset %}",
                                                   "{% for x in x %}",
                                                   "{% macro f(x) %}{{ f(x) }}",
                                                   "{% endmacro %}",
                                                   "{% raw %}",
                                                   "{% endraw %}",
                                                   "{% break %}",
                                                   "{% continue %}",
                                                   "{% generation %}",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "é",
                                                   "🙂",
                                                   "\x80",
                                                   std::string(1, '\0')};
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(20));
    switch (below(16)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, pick(words));
        break;
      case 2:
        text.replace(at, length, pick(words));
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 4:
        text[at] = static_cast<char>(below(128));
        break;
      case 5: {  // the end of another one
        const std::string& other = pick(originals_);
        text = text.substr(0, at) + other.substr(below(other.size()));
        break;
      }
      case 6: {  // one tag in the place of another
        const std::size_t tag = text.find("{%", at), end = text.find("%}", at);
        const std::size_t from = text.find("{%");
        if (tag != text.npos && end != text.npos && from != text.npos) {
          text.insert(tag, text.substr(from, text.find("%}", from) + 2 - from));
        }
        break;
      }
      case 7:
        text.resize(at);
        break;
      default:
        exchange_word(text, at);
    }
  }

  // A name, number or operator behind `at` becomes another one; most of these still parse.
  void exchange_word(std::string& text, std::size_t at) {
    static const std::vector<std::string> names = {
        "messages",  "message",   "role",     "content", "tools",   "tool_calls",
        "function",  "arguments", "loop",     "ns",      "index0",  "last",
        "first",     "trim",      "tojson",   "length",  "list",    "join",
        "string",    "mapping",   "iterable", "none",    "defined", "true",
        "items",     "split",     "strip",    "x",       "range",   "namespace",
        "upper",     "sort",      "reverse",  "map",     "select",  "raise_exception",
        "bos_token", "caller"};
    static const std::vector<std::string> others = {"0", "1",     "-1",  "2",
                                                    "7", "99999", "0.5", "1e300"};
    static const std::vector<std::string> operators = {
        " + ", " ~ ", " == ", " * ", " - ", " and ", " or ", " in ", " // ", " % ", " < ", "|"};
    const std::size_t word = text.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789+~=", at);
    if (word == text.npos) return;
    const bool is_digit = text[word] >= '0' && text[word] <= '9';
    const bool is_letter = text[word] >= 'a' && text[word] <= 'z';
    const std::string_view set = is_letter  ? "abcdefghijklmnopqrstuvwxyz_0123456789"
                                 : is_digit ? "0123456789"
                                            : "+~=";
    const std::size_t end = std::min(text.find_first_not_of(set, word), text.size());
    text.replace(word, end - word, pick(is_letter ? names : is_digit ? others : operators));
  }

  std::vector<std::string> originals_;
  std::mt19937_64 random_{20240611};
};

TEST(ChatMutants, NeitherCrashNorHang) {
  const std::vector<std::string> originals = templates();
  ASSERT_GE(originals.size(), 20u);
  const llm::ChatInput input = conversation();
  const llm::ChatLimits limits{.steps = 100'000, .output_bytes = 1 << 20};
  for (const std::string& text : originals) {
    const auto chat = llm::ChatTemplate::parse(text, limits);
    ASSERT_TRUE(chat) << chat.error().to_string();
  }
  Mutator mutator(originals);
  std::size_t parsed = 0, rendered = 0;
  for (std::size_t i = 0; i < n_mutants; ++i) {
    const auto chat = llm::ChatTemplate::parse(mutator.next(), limits);
    if (!chat) {
      EXPECT_FALSE(chat.error().message.empty());
      continue;
    }
    ++parsed;
    const auto text = chat->render(input);
    rendered += text ? 1 : 0;
    if (!text) {
      EXPECT_NE(text.error().code, ErrorCode::internal) << text.error().to_string();
    }
  }
  // Neither all broken nor all harmless.
  EXPECT_GT(parsed, n_mutants / 10);
  EXPECT_LT(parsed, n_mutants * 9 / 10);
  EXPECT_GT(rendered, n_mutants / 50);
}

}  // namespace
}  // namespace onepass::test::chat_mutants_test
