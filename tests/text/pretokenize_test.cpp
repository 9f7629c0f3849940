// Written-out splitting rules against the regular expressions they stand for, matched by PCRE2.
#include "text/tokenizer/pretokenize.h"

#include <functional>

#include "tokenizer_support.h"

namespace onepass::test::pretokenize_test {
namespace {

using namespace llm::text;

#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
#define FOLDED R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define CASED R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+)"
#define CASED_2 R"(|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*)"

constexpr const char* deepseek_letters =
    R"(\x{0041}-\x{005A}\x{0061}-\x{007A}\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6})"
    R"(\x{00F8}-\x{01BA}\x{01BC}-\x{01BF}\x{01C4}-\x{0293}\x{0295}-\x{02AF}\x{0370}-)"
    R"(\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F}\x{0386}\x{0388}-\x{038A}\x{038C})"
    R"(\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481}\x{048A}-\x{052F}\x{0531}-)"
    R"(\x{0556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-)"
    R"(\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57})"
    R"(\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC})"
    R"(\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-)"
    R"(\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
    R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-)"
    R"(\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

struct PreCase {
  const char* name;
  std::vector<std::string> patterns;
};

std::vector<PreCase> pre_cases() {
  return {
      {"default", {R"([\p{P}\$\+<=>\^~\|]+)", GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {"gpt-2", {GPT2}},
      {"mpt", {GPT2}},
      {"llama-bpe",
       {FOLDED R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES}},
      {"qwen2", {FOLDED R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES}},
      {"qwen35",
       {FOLDED R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" SPACES}},
      {"deepseek-llm",
       {R"([\r\n])", R"(\s?[)" + std::string(deepseek_letters) + "]+",
        R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
        R"(\s+$)", R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N}+)"}},
      {"deepseek-coder",
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
        R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"}},
      {"falcon", {R"([\p{P}\$\+<=>\^~\|`]+)", GPT2, "[0-9][0-9][0-9]"}},
      {"starcoder", {R"(\p{N})", GPT2}},
      {"refact", {R"(\p{N})", GPT2}},
      {"smollm", {R"(\p{N})", GPT2}},
      {"command-r", {R"(\p{N})", GPT2}},
      {"tekken", {CASED CASED_2 R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES}},
      {"gpt-4o",
       {CASED FOLDED "?" CASED_2 FOLDED R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES}},
      {"gemma4", {R"([^\n]+|[\n]+)"}},
      {"glm4", {FOLDED R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES}},
      {"stablelm2", {FOLDED R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" SPACES}},
      {"exaone", {R"(\p{N})", GPT2}},
      {"olmo", {GPT2}},
      {"deepseek-v3",
       {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
        R"(| ?[\p{P}\p{S}]+[\r\n]*)" SPACES}},
  };
}

// Published forms for which rule_for has a written-out rule.
const std::vector<std::string>& json_patterns() {
  static const std::vector<std::string> patterns = {
      GPT2 R"(|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([\r\n])",
      R"(\s?\p{L}+)",
      R"(\s?\p{P}+)",
      R"(\p{N})",
      R"(\p{N}+)",
      R"(\p{N}{1,3})",
      "[0-9][0-9][0-9]",
  };
  return patterns;
}

std::vector<std::string> pieces_of(const std::vector<Stage>& stages, const std::string& text) {
  std::vector<std::string> pieces{text};
  for (const Stage& stage : stages) {
    std::vector<std::string> next;
    for (const std::string& piece : pieces) {
      const auto done = split(std::get<Split>(stage), piece, [&](std::string_view p) {
        next.emplace_back(p);
        return true;
      });
      EXPECT_TRUE(done.has_value() && *done);
    }
    pieces = std::move(next);
  }
  if (text.empty()) pieces.clear();
  return pieces;
}

Rule compiled(const std::string& pattern) {
  auto regex = Regex::compile(pattern);
  if (!regex) throw std::runtime_error(regex.error().to_string());
  return *regex;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const auto& p : pieces) all += p;
  return all;
}

std::string listed(const std::vector<std::string>& pieces) {
  std::string all;
  for (const auto& p : pieces) all += "[" + shown(p) + "]";
  return all;
}

TEST(pretokenize, rules_match_their_expressions) {
  for (const PreCase& pre : pre_cases()) {
    auto stages = stages_for(pre.name);
    ASSERT_TRUE(stages.has_value()) << pre.name;
    std::vector<Stage> reference;
    for (const auto& pattern : pre.patterns) reference.push_back(Split{compiled(pattern)});
    std::mt19937_64 random(7);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random_text(random, 40);
      const auto got = pieces_of(*stages, text);
      ASSERT_EQ(joined(got), text) << pre.name;
      const auto expected = pieces_of(reference, text);
      ASSERT_EQ(got, expected) << pre.name << " text " << shown(text) << "\n"
                               << listed(got) << "\n"
                               << listed(expected);
    }
  }
}

TEST(pretokenize, published_expressions_have_written_out_rules) {
  for (const std::string& pattern : json_patterns()) {
    auto rule = rule_for(pattern);
    ASSERT_TRUE(rule.has_value()) << pattern;
    EXPECT_FALSE(std::holds_alternative<RegexRule>(*rule)) << pattern;
    const std::vector<Stage> stages{Split{*rule}};
    const std::vector<Stage> reference{Split{compiled(pattern)}};
    std::mt19937_64 random(8);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = random_text(random, 40);
      const auto got = pieces_of(stages, text);
      const auto expected = pieces_of(reference, text);
      ASSERT_EQ(got, expected) << pattern << "\ntext " << shown(text) << "\n"
                               << listed(got) << "\n"
                               << listed(expected);
    }
  }
}

TEST(pretokenize, unknown_names_and_expressions_are_errors) {
  const auto stages = stages_for("no-such-pre");
  ASSERT_FALSE(stages.has_value());
  EXPECT_EQ(stages.error().code, ErrorCode::unsupported);
  EXPECT_EQ(stages.error().field, "tokenizer.ggml.pre");
  for (const char* pattern : {"(", "[a", "a{2,1}", "(?<=a+)b", "\\C"}) {
    const auto rule = rule_for(pattern);
    ASSERT_FALSE(rule.has_value()) << pattern;
    EXPECT_EQ(rule.error().code, ErrorCode::parse) << pattern;
  }
  EXPECT_EQ(rule_for("[a-z&&[^b]]").error().code, ErrorCode::unsupported);
}

TEST(pretokenize, behaviors_place_matches) {
  const auto pieces = [](Behavior behavior, bool invert) {
    return listed(pieces_of({Split{LiteralRule{"-"}, behavior, invert}}, "-a--bc-"));
  };
  EXPECT_EQ(pieces(Behavior::isolated, false), "[-][a][-][-][bc][-]");
  EXPECT_EQ(pieces(Behavior::removed, false), "[a][bc]");
  EXPECT_EQ(pieces(Behavior::merged_with_previous, false), "[-][a-][-][bc-]");
  EXPECT_EQ(pieces(Behavior::merged_with_next, false), "[-a][-][-bc][-]");
  EXPECT_EQ(pieces(Behavior::contiguous, false), "[-][a][--][bc][-]");
  EXPECT_EQ(pieces(Behavior::removed, true), "[-][-][-][-]");
}

TEST(pretokenize, catastrophic_expression_is_a_limit) {
  const auto regex = Regex::compile("(?:a|aa|a+)+c");
  ASSERT_TRUE(regex.has_value());
  const auto found = (*regex)->each_match(std::string(500, 'a') + "bc",
                                          [](std::size_t, std::size_t) { return true; });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::limit);
}

TEST(pretokenize, invalid_bytes_stay_in_place) {
  std::mt19937_64 random(9);
  auto own = stages_for("llama-bpe");
  ASSERT_TRUE(own.has_value());
  const std::vector<Stage> regex{Split{compiled(pre_cases()[3].patterns[0])}};
  for (int i = 0; i < 3000; ++i) {
    std::string text = random_text(random, 20);
    for (std::size_t n = random() % 6; n > 0; --n) {
      text.insert(random() % (text.size() + 1), 1, "\xFF\xC0\xF8"[random() % 3]);
    }
    if (i % 3 == 0) text.resize(text.size() / 2);
    const auto pieces = pieces_of(*own, text);
    ASSERT_EQ(joined(pieces), text);
    ASSERT_EQ(pieces, pieces_of(regex, text)) << shown(text);
  }
}

TEST(pretokenize, unicode_forms) {
  EXPECT_EQ(unicode_form(UnicodeForm::nfc, "Cafe\u0301 \uFB01"), "Caf\u00E9 \uFB01");
  EXPECT_EQ(unicode_form(UnicodeForm::nfd, "Caf\u00E9"), "Cafe\u0301");
  EXPECT_EQ(unicode_form(UnicodeForm::nfkc, "\uFB01\u00B2"), "fi2");
  EXPECT_EQ(unicode_form(UnicodeForm::nfc, "\u1112\u1161\u11AB"), "\uD55C");
  // Marks are ordered by class before they compose: dot below (220), then acute (230).
  EXPECT_EQ(unicode_form(UnicodeForm::nfc, "a\u0301\u0323"), "\u1EA1\u0301");
  EXPECT_EQ(unicode_form(UnicodeForm::nfc, "a\xFF\u0301\xC3"), "a\xFF\u0301\xC3");
}

}  // namespace
}  // namespace onepass::test::pretokenize_test
