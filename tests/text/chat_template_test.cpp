// What a chat template may do, and how it fails. That texts come out as Jinja makes them is checked
// by chat_jinja_test.py.
#include "text/template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace onepass::test::chat_template_test {
namespace {

using llm::ChatInput;
using llm::ChatLimits;
using llm::ChatTemplate;
using llm::chat::Value;
using testing::HasSubstr;

ChatInput conversation() {
  ChatInput input;
  input.messages = {{"system", "Be brief."}, {"user", "Hello"}};
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = 0;
  return input;
}

Result<std::string> render(std::string_view text, const ChatLimits& limits = {}) {
  ONEPASS_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(text, limits));
  return chat.render(conversation());
}

void expect_error(std::string_view text, ErrorCode code, std::string_view says,
                  const ChatLimits& limits = {}) {
  const auto result = render(text, limits);
  ASSERT_FALSE(result) << text.substr(0, 80) << " gives " << result->substr(0, 80);
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_THAT(result.error().message, HasSubstr(std::string(says)));
}

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(ChatTemplate, WritesTheConversation) {
  const auto chat = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  ASSERT_TRUE(chat) << chat.error().to_string();
  ChatInput input = conversation();
  EXPECT_EQ(chat->render(input).value(), "<s><system>Be brief.\n<user>Hello\n<assistant>");
  input.add_generation_prompt = false;
  input.messages = {{"user", "Hi"}};
  EXPECT_EQ(chat->render(input).value(), "<s><user>Hi\n");
}

TEST(ChatTemplate, SeesFieldsToolsAndVariables) {
  ChatInput input;
  input.messages = {{"assistant", Value(), {{"tool_calls", Value::list({1, 2})}}}};
  input.tools = Value::from_json(R"([{"name": "add", "n": -1.5e3}])").value();
  input.variables = {{"enable_thinking", false}};
  const auto chat = ChatTemplate::parse(
      "{{ messages[0].content is none }} {{ messages[0].tool_calls }} {{ tools | tojson }} "
      "{{ enable_thinking }}");
  ASSERT_TRUE(chat);
  EXPECT_EQ(chat->render(input).value(), R"(True [1, 2] [{"name": "add", "n": -1500.0}] False)");
}

TEST(ChatTemplate, ErrorsTellLineAndColumn) {
  const struct {
    const char* text;
    ErrorCode code;
    const char* says;
  } cases[] = {
      {"a\n{% frobnicate %}", ErrorCode::unsupported, "line 2, column 4: unknown tag 'frobnicate'"},
      {"{% include 'x' %}", ErrorCode::unsupported, "line 1, column 4: tag 'include'"},
      {"é {{ 'x' | frobnicate }}", ErrorCode::unsupported,
       "line 1, column 12: filter 'frobnicate'"},
      {"{{ 1 is frobnicated }}", ErrorCode::unsupported, "line 1, column 9: test 'frobnicated'"},
      {"{% if 1 %}\n{{ 1 | frobnicate }}{% endif %}", ErrorCode::unsupported, "line 2, column 8"},
      {"{{ 1 +\n }}", ErrorCode::parse, "line 2, column 2: expected a value, got }}"},
      {"{{ (1 }}", ErrorCode::parse, "line 1, column 7: unexpected '}'"},
      {"{{ 'abc }}", ErrorCode::parse, "line 1, column 4: the string has no end"},
      {"{{ 1 ? 2 }}", ErrorCode::parse, "line 1, column 6: unexpected character '?'"},
      {"x\n\n  {% if 1 %}", ErrorCode::parse, "line 3, column 13: expected {% endif %}"},
      {"{% for x of y %}", ErrorCode::parse, "expected 'in', got 'of'"},
      {"{# never ends", ErrorCode::parse, "line 1, column 1: the comment has no end"},
      {"{{ nothing.here }}", ErrorCode::invalid_argument,
       "line 1, column 12: 'nothing' is undefined"},
      {"\n{{ messages[7].role }}", ErrorCode::invalid_argument,
       "line 2, column 16: list has no element 7"},
      {"{{ 'a' + 1 }}", ErrorCode::invalid_argument, "column 8: no operator + for str and int"},
      {"{{ raise_exception('no tools') }}", ErrorCode::invalid_argument,
       "the template refuses the conversation: no tools"},
      {"{% macro f(a) %}{{ a.b.c }}{% endmacro %}\n{{ f({}) }}", ErrorCode::invalid_argument,
       "line 1, column 24: dict has no attribute 'b'"},
      {"{{ [].append(1) }}", ErrorCode::invalid_argument, "'append' would change the list"},
      {"{{ ''.__class__.__mro__ }}", ErrorCode::invalid_argument,
       "str has no attribute '__class__'"},
      {"{{ strftime_now('%Q') }}", ErrorCode::unsupported, "%Q"},
      {"{{ 9223372036854775807 + 1 }}", ErrorCode::limit, "64 bits"},
      {"{{ -9223372036854775807 - 2 }}", ErrorCode::limit, "64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", ErrorCode::limit, "64 bits"},
      {"{{ 10 ** 30 }}", ErrorCode::limit, "64 bits"},
      {"\xFF", ErrorCode::parse, "UTF-8"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    expect_error(c.text, c.code, c.says);
  }
}

TEST(ChatTemplate, WorkIsBounded) {
  expect_error("{% for i in range(1000000000) %}x{% endfor %}", ErrorCode::limit, "range");
  expect_error("{{ 'a' * 1000000000 }}", ErrorCode::limit, "repeated text");
  expect_error("{{ [1] * 1000000000 }}", ErrorCode::limit, "repeated list");
  expect_error("{{ '' * 9223372036854775807 ~ [] * 9223372036854775807 ~ nothing.x }}",
               ErrorCode::invalid_argument, "undefined");
  expect_error("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
               ErrorCode::limit, "steps");
  expect_error("{% for i in range(100000) %}{{ 'abcdefgh' * 1000 }}{% endfor %}", ErrorCode::limit,
               "output");
  expect_error(
      "{% set n = namespace(s='ab') %}{% for i in range(100) %}{% set n.s = n.s ~ n.s %}"
      "{% endfor %}",
      ErrorCode::limit, "bytes");
  expect_error(
      "{% set n = namespace(s=[1, 2]) %}{% for i in range(100) %}{% set n.s = n.s + n.s %}"
      "{% endfor %}",
      ErrorCode::limit, "steps");
  expect_error(
      "{% set n = namespace(s='ab') %}{% for i in range(40) %}{% set n.s = "
      "n.s | replace('a', 'aaaaaaaa') %}{% endfor %}",
      ErrorCode::limit, "bytes");
}

TEST(ChatTemplate, SlowCasesCostMore) {
  const std::string texts = "{% set s = 'a' * 1000000 %}{% set t = 'a' * 500000 ~ 'b' %}";
  for (const char* use :
       {"{{ t in s }}", "{{ s.replace(t, '') }}", "{{ s.split(t) }}", "{{ s.find(t) }}",
        "{{ s.rsplit(t) }}", "{{ s.count(t) }}", "{{ s.partition(t) }}"}) {
    SCOPED_TRACE(use);
    expect_error(texts + use, ErrorCode::limit, "steps");
  }
  std::string sets;
  for (int i = 0; i < 3000; ++i) sets += "{% set v" + std::to_string(i) + " = 1 %}";
  expect_error("{% for i in range(100) %}" + sets + "{% endfor %}", ErrorCode::limit, "steps");
}

TEST(ChatTemplate, DepthIsBounded) {
  expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ErrorCode::limit, "nest");
  expect_error("{% macro f(x) %}{% call f(x) %}{{ caller() }}{% endcall %}{% endmacro %}{{ f(1) }}",
               ErrorCode::limit, "nest");
  expect_error(
      "{% set n = namespace(s=[]) %}{% for i in range(1000) %}{% set n.s = [n.s] %}"
      "{% endfor %}",
      ErrorCode::limit, "levels");
  for (const char* part :
       {"(", "[", "{1:", "-", "not ", "1 + (", "x[", "f(", "1 if ", "x.y[0]('a'|"}) {
    SCOPED_TRACE(part);
    const auto result = render("{{ " + repeated(part, 100000));
    ASSERT_FALSE(result);
  }
  for (const char* part :
       {".a", "|trim", "[0]", " + 1", " is defined()", "()", " and 1", " if 1"}) {
    SCOPED_TRACE(part);
    expect_error("{{ bos_token" + repeated(part, 50000) + " }}", ErrorCode::limit, "nested");
  }
  expect_error(repeated("{% if 1 %}", 10000) + repeated("{% endif %}", 10000), ErrorCode::limit,
               "nested");
  expect_error(repeated("{% for x in [1] %}", 500) + repeated("{% endfor %}", 500),
               ErrorCode::limit, "nested");
  EXPECT_EQ(render("{{ " + repeated("(", 90) + "1" + repeated(")", 90) + " }}").value(), "1");
  EXPECT_EQ(render("{{ 1" + repeated(" + 1", 300) + " }}").value(), "301");
  EXPECT_EQ(render("{{ 1" + repeated(" ~ 1", 3000) + " }}").value(), std::string(3001, '1'));
  EXPECT_EQ(render("{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{{ n }},{% endmacro %}"
                   "{{ f(50) }}")
                .value()
                .substr(0, 6),
            "0,1,2,");
}

TEST(ChatTemplate, SharedListsCostWhatTheyShow) {
  const std::string grow =
      "{% set n = namespace(s=[1]) %}{% for i in range(90) %}{% set n.s = [n.s, n.s] %}{% endfor "
      "%}";
  for (const char* use : {"{{ n.s }}", "{{ n.s | tojson }}", "{{ n.s == [n.s[0], n.s[1]] }}",
                          "{{ n.s | string }}", "{{ n.s in [n.s[0]] }}"}) {
    SCOPED_TRACE(use);
    const auto result = render(grow + use);
    if (!result) {
      EXPECT_EQ(result.error().code, ErrorCode::limit);
    }
  }
}

TEST(ChatTemplate, LimitsAreOptions) {
  const std::string_view text = "{% for i in range(50) %}{{ i }}{% endfor %}";
  EXPECT_TRUE(render(text));
  expect_error(text, ErrorCode::limit, "20 steps", {.steps = 20});
  expect_error(text, ErrorCode::limit, "30 bytes", {.output_bytes = 30});
  expect_error(text, ErrorCode::limit, "10 numbers", {.range = 10});
  expect_error(text, ErrorCode::limit, "at most 8", {.template_bytes = 8});
  expect_error("{{ ((((1)))) }}", ErrorCode::limit, "3 levels", {.depth = 3});
}

TEST(ChatTemplate, NamespacesMayHoldThemselves) {
  EXPECT_EQ(
      render("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n, [n]] %}{{ n.n.n.l[0] "
             "== n }}{% macro f() %}{% endmacro %}{% set n.f = f %}{{ n.f() }}")
          .value(),
      "True");
  expect_error("{% set n = namespace() %}{% set n.n = n %}{{ n }}", ErrorCode::unsupported,
               "cannot print a namespace");
  // What a macro saw stays alive.
  EXPECT_EQ(
      render("{% set n = namespace() %}{% for i in [1, 2] %}{% macro f() %}{{ i }}{{ loop.index "
             "}}{% endmacro %}{% set n.f = f %}{% set n.loop = loop %}{% endfor %}{{ n.f() }}"
             "{{ n.loop.nextitem }}{{ n.loop.previtem }}{{ n.loop.last }}")
          .value()
          .substr(0, 1),
      "2");
}

TEST(ChatTemplate, ThreadsMayShareOne) {
  const auto chat = ChatTemplate::parse(
      "{% set l = [3, 1, 2] %}{% for i in l | sort %}{{ i }}{% endfor %}{{ messages | length }}");
  ASSERT_TRUE(chat);
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) text = chat->render(conversation()).value();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(texts, testing::Each("1232"));
}

TEST(ChatValue, ReadsJson) {
  const auto value = Value::from_json(R"({"a": [1, -2, 2.5, "é\n", null, true], "b": {}})");
  ASSERT_TRUE(value) << value.error().to_string();
  llm::chat::Budget budget(1000);
  EXPECT_EQ(llm::chat::to_json(*value, {}, budget).value(),
            R"({"a": [1, -2, 2.5, "é\n", null, true], "b": {}})");
  EXPECT_EQ(llm::chat::to_text(*value, budget).value(),
            R"({'a': [1, -2, 2.5, 'é\n', None, True], 'b': {}})");
  for (const char* bad : {"", "{", "[1,]", "1 2", "{\"a\" 1}", "nul", "99999999999999999999"}) {
    EXPECT_FALSE(Value::from_json(bad)) << bad;
  }
  EXPECT_FALSE(Value::from_json(repeated("[", 100000)));
}

}  // namespace
}  // namespace onepass::test::chat_template_test
