#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

using Cases = WordRule::Cases;

Stage run(CharClass chars) { return Split{RunRule{chars}}; }
Stage spaced_run(CharClass chars) { return Split{RunRule{.chars = chars, .optional_space = true}}; }
Stage exactly(CharClass chars, std::uint32_t n) { return Split{RunRule{chars, n, n}}; }
Stage gpt2() { return Split{Gpt2Rule{}}; }
Stage word(const WordRule& rule) { return Split{rule}; }

using Make = std::vector<Stage> (*)();

std::vector<Stage> make_default() {
  return {run(CharClass::default_symbols), gpt2(), run(CharClass::number),
          exactly(CharClass::ascii_digit, 3)};
}
std::vector<Stage> make_gpt2() { return {gpt2()}; }
std::vector<Stage> make_llama3() { return {word({.max_digits = 3})}; }
std::vector<Stage> make_qwen2() { return {word({})}; }
std::vector<Stage> make_qwen35() { return {word({.marks = true})}; }
std::vector<Stage> make_deepseek_llm() {
  return {exactly(CharClass::newline, 1),
          spaced_run(CharClass::deepseek_letters),
          spaced_run(CharClass::deepseek_symbols),
          Split{TrailingSpaceRule{}},
          run(CharClass::cjk),
          run(CharClass::number)};
}
std::vector<Stage> make_deepseek_coder() {
  return {exactly(CharClass::newline, 1), spaced_run(CharClass::letter),
          spaced_run(CharClass::punctuation), run(CharClass::cjk), exactly(CharClass::number, 1)};
}
std::vector<Stage> make_falcon() {
  return {run(CharClass::falcon_symbols), gpt2(), exactly(CharClass::ascii_digit, 3)};
}
std::vector<Stage> make_starcoder() { return {exactly(CharClass::number, 1), gpt2()}; }
std::vector<Stage> make_tekken() { return {word({.slash = true, .cases = Cases::ascii})}; }
std::vector<Stage> make_gpt4o() {
  return {word({.max_digits = 3, .slash = true, .contraction_last = true, .cases = Cases::ascii})};
}
std::vector<Stage> make_gemma4() { return {Split{LinesRule{}}}; }

// Names that no rule is written out for: regular expressions, one after the other.
#define ONEPASS_FOLDED "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define ONEPASS_ENDS "|\\s+(?!\\S)|\\s+"
constexpr const char* deepseek_v3[] = {
    "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}"
    "\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+" ONEPASS_ENDS};
constexpr const char* bailingmoe[] = {
    "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]" ONEPASS_ENDS};
constexpr const char* seed_coder[] = {
    ONEPASS_FOLDED
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+"
    "|\\s*[\\r\\n]+" ONEPASS_ENDS};
constexpr const char* exaone_moe[] = {
    ONEPASS_FOLDED
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]" ONEPASS_ENDS};
constexpr const char* minicpm5[] = {
    "\\p{N}{1,3}", ONEPASS_FOLDED
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]"
    "+" ONEPASS_ENDS};
constexpr const char* ufakzeka[] = {
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]"
    "+" ONEPASS_ENDS};
constexpr const char* tiny_aya[] = {
    "\\d{1,3}(?=(?:\\d{3})*\\b)",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "+" ONEPASS_FOLDED
    "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "*" ONEPASS_FOLDED "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+" ONEPASS_ENDS};
constexpr const char* bloom[] = {
    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"};
constexpr const char* viking[] = {bloom[0], "\\p{N}"};

struct PreRow {
  std::string_view name;
  PreFlags flags{};
  Make make = nullptr;
  std::span<const char* const> patterns{};  // instead
};
constexpr PreFlags cleans{.cleans_up_spaces = true};
constexpr PreFlags keeps{};
constexpr PreFlags clean_whole{.cleans_up_spaces = true, .whole_words = true};
constexpr PreFlags clean_whole_bos{.cleans_up_spaces = true, .whole_words = true, .adds_bos = true};
constexpr PreFlags whole_bos{.whole_words = true, .adds_bos = true};
constexpr PreRow pre_rows[] = {
    {"", cleans, make_default},
    {"a.x-4.0", cleans, make_gpt2},
    {"bailingmoe", keeps, nullptr, bailingmoe},
    {"bailingmoe2", keeps, nullptr, bailingmoe},
    {"bloom", cleans, nullptr, bloom},
    {"chatglm-bpe", cleans, make_llama3},
    {"codeshell", cleans, make_starcoder},
    {"cohere2moe", keeps, nullptr, tiny_aya},
    {"command-r", keeps, make_starcoder},
    {"dbrx", cleans, make_llama3},
    {"deepseek-coder", keeps, make_deepseek_coder},
    {"deepseek-llm", keeps, make_deepseek_llm},
    {"deepseek-r1-qwen", keeps, make_qwen2},
    {"deepseek-v3", keeps, nullptr, deepseek_v3},
    {"default", cleans, make_default},
    {"exaone", cleans, make_starcoder},
    {"exaone-moe", cleans, nullptr, exaone_moe},
    {"exaone4", cleans, make_gpt2},
    {"f2llmv2", keeps, make_qwen2},
    {"falcon", cleans, make_falcon},
    {"falcon-h1", clean_whole_bos, make_llama3},
    {"falcon3", clean_whole_bos, make_llama3},
    {"gemma4", cleans, make_gemma4},
    {"gigachat", cleans, make_gpt2},
    {"glm4", clean_whole, make_llama3},
    {"glm5", clean_whole, make_llama3},
    {"gpt-2", cleans, make_gpt2},
    {"gpt-4o", keeps, make_gpt4o},
    {"gpt3-finnish", cleans, nullptr, bloom},
    {"granite-docling", keeps, make_gpt2},
    {"grok-2", keeps, make_qwen2},
    {"hunyuan", keeps, make_qwen2},
    {"hunyuan-dense", keeps, nullptr, deepseek_v3},
    {"hy_v4", keeps, nullptr, deepseek_v3},
    {"jais", cleans, make_gpt2},
    {"joyai-llm", keeps, nullptr, deepseek_v3},
    {"kanana2", keeps, make_gpt4o},
    {"kormo", keeps, make_qwen2},
    {"lfm2", clean_whole_bos, make_llama3},
    {"llada-moe", keeps, nullptr, bailingmoe},
    {"llama-bpe", clean_whole_bos, make_llama3},
    {"llama-v3", clean_whole_bos, make_llama3},
    {"llama3", clean_whole_bos, make_llama3},
    {"llama4", keeps, make_gpt4o},
    {"megrez", keeps, make_qwen2},
    {"mellum", cleans, make_gpt2},
    {"mellum2", cleans, make_starcoder},
    {"midm-2.0", clean_whole_bos, make_llama3},
    {"minerva-7b", cleans, make_starcoder},
    {"minicpm5", clean_whole, nullptr, minicpm5},
    {"minimax-m2", keeps, make_gpt4o},
    {"mpt", cleans, make_gpt2},
    {"olmo", cleans, make_gpt2},
    {"phi-2", cleans, make_gpt2},
    {"pixtral", clean_whole_bos, make_llama3},
    {"poro-chat", keeps, nullptr, bloom},
    {"qwen2", keeps, make_qwen2},
    {"qwen35", keeps, make_qwen35},
    {"refact", cleans, make_starcoder},
    {"seed-coder", keeps, nullptr, seed_coder},
    {"smaug-bpe", cleans, make_llama3},
    {"smollm", keeps, make_starcoder},
    {"solar-open", keeps, make_qwen2},
    {"stablelm2", cleans, make_qwen2},
    {"starcoder", cleans, make_starcoder},
    {"talkie", keeps, make_gpt4o},
    {"tekken", whole_bos, make_tekken},
    {"tiny_aya", keeps, nullptr, tiny_aya},
    {"trillion", keeps, make_gpt2},
    {"ufakzeka", keeps, nullptr, ufakzeka},
    {"viking", keeps, nullptr, viking},
};
const PreRow* find_pre(std::string_view name) noexcept {
  const auto* row = std::find_if(std::begin(pre_rows), std::end(pre_rows),
                                 [name](const PreRow& r) { return r.name == name; });
  return row != std::end(pre_rows) ? row : nullptr;
}

// Regular expressions as published in tokenizer.json files.
#define ONEPASS_CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define ONEPASS_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ONEPASS_OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define ONEPASS_OTHERS_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define ONEPASS_LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define ONEPASS_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define ONEPASS_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define ONEPASS_SUFFIX "(?i:" ONEPASS_CONTRACTIONS ")?"

struct PatternRow {
  std::string_view pattern;
  Rule (*make)();
};
const PatternRow pattern_rows[] = {
    {ONEPASS_CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     [] { return Rule(Gpt2Rule{}); }},
    {ONEPASS_CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)",
     [] { return Rule(Gpt2Rule{}); }},
    {"(?i:" ONEPASS_CONTRACTIONS ")|" ONEPASS_LEAD
     "\\p{L}+|\\p{N}{1,3}" ONEPASS_OTHERS ONEPASS_SPACES,
     [] { return Rule(WordRule{.max_digits = 3, .long_s = true}); }},
    {"(?i:" ONEPASS_CONTRACTIONS ")|" ONEPASS_LEAD "\\p{L}+|\\p{N}" ONEPASS_OTHERS ONEPASS_SPACES,
     [] { return Rule(WordRule{.long_s = true}); }},
    {"(?i:" ONEPASS_CONTRACTIONS ")|" ONEPASS_LEAD
     "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" ONEPASS_SPACES,
     [] { return Rule(WordRule{.marks = true, .long_s = true}); }},
    {ONEPASS_LEAD ONEPASS_UPPER "*" ONEPASS_LOWER "+|" ONEPASS_LEAD ONEPASS_UPPER "+" ONEPASS_LOWER
                                "*|\\p{N}" ONEPASS_OTHERS_SLASH ONEPASS_SPACES,
     [] { return Rule(WordRule{.slash = true, .cases = Cases::categories}); }},
    {ONEPASS_LEAD ONEPASS_UPPER "*" ONEPASS_LOWER "+" ONEPASS_SUFFIX "|" ONEPASS_LEAD ONEPASS_UPPER
                                "+" ONEPASS_LOWER "*" ONEPASS_SUFFIX
                                "|\\p{N}{1,3}" ONEPASS_OTHERS_SLASH ONEPASS_SPACES,
     [] {
       return Rule(WordRule{.max_digits = 3,
                            .slash = true,
                            .long_s = true,
                            .contraction_last = true,
                            .cases = Cases::categories});
     }},
    {"[\\r\\n]",
     [] {
       return Rule(RunRule{CharClass::newline, 1, 1});
     }},
    {"\\s?\\p{L}+",
     [] { return Rule(RunRule{.chars = CharClass::letter, .optional_space = true}); }},
    {"\\s?\\p{P}+",
     [] { return Rule(RunRule{.chars = CharClass::punctuation, .optional_space = true}); }},
    {"\\p{N}",
     [] {
       return Rule(RunRule{CharClass::number, 1, 1});
     }},
    {"\\p{N}+", [] { return Rule(RunRule{CharClass::number}); }},
    {"\\p{N}{1,3}",
     [] {
       return Rule(RunRule{CharClass::number, 1, 3});
     }},
    {"[0-9][0-9][0-9]",
     [] {
       return Rule(RunRule{CharClass::ascii_digit, 3, 3});
     }},
};

}  // namespace

Result<std::vector<Stage>> stages_for(std::string_view pre) {
  const PreRow* row = find_pre(pre);
  if (row == nullptr) {
    Error error = make_error(ErrorCode::unsupported,
                             "pre-tokenizer '" + std::string(pre.substr(0, 64)) + "' is not known");
    error.field = "tokenizer.ggml.pre";
    return error;
  }
  if (row->make != nullptr) return row->make();
  std::vector<Stage> stages;
  for (const char* pattern : row->patterns) {
    ONEPASS_ASSIGN(Rule rule, rule_for(pattern));
    stages.push_back(Split{std::move(rule)});
  }
  return stages;
}

PreFlags pre_flags(std::string_view pre) noexcept {
  const PreRow* row = find_pre(pre);
  return row != nullptr ? row->flags : PreFlags{};
}

Result<Rule> rule_for(std::string_view pattern) {
  for (const PatternRow& row : pattern_rows) {
    if (row.pattern == pattern) return row.make();
  }
  ONEPASS_ASSIGN(RegexRule regex, Regex::compile(pattern));
  return Rule(std::move(regex));
}

}  // namespace onepass::llm::text
