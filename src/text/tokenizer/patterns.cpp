#include <algorithm>
#include <array>
#include <iterator>

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

struct PreRow {
  std::string_view name;
  Make make;
};
constexpr PreRow pre_rows[] = {
    {"", make_default},
    {"command-r", make_starcoder},
    {"deepseek-coder", make_deepseek_coder},
    {"deepseek-llm", make_deepseek_llm},
    {"deepseek-r1-qwen", make_qwen2},
    {"default", make_default},
    {"exaone4", make_gpt2},
    {"falcon", make_falcon},
    {"falcon3", make_llama3},
    {"gemma4", make_gemma4},
    {"gpt-2", make_gpt2},
    {"gpt-4o", make_gpt4o},
    {"lfm2", make_llama3},
    {"llama-bpe", make_llama3},
    {"llama-v3", make_llama3},
    {"llama3", make_llama3},
    {"megrez", make_qwen2},
    {"mpt", make_gpt2},
    {"phi-2", make_gpt2},
    {"pixtral", make_llama3},
    {"qwen2", make_qwen2},
    {"qwen35", make_qwen35},
    {"refact", make_starcoder},
    {"smollm", make_starcoder},
    {"starcoder", make_starcoder},
    {"tekken", make_tekken},
};

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
  const auto* row = std::find_if(std::begin(pre_rows), std::end(pre_rows),
                                 [pre](const PreRow& r) { return r.name == pre; });
  if (row != std::end(pre_rows)) return row->make();
  Error error = make_error(ErrorCode::unsupported,
                           "pre-tokenizer '" + std::string(pre.substr(0, 64)) + "' is not known");
  error.field = "tokenizer.ggml.pre";
  return error;
}

Result<Rule> rule_for(std::string_view pattern) {
  for (const PatternRow& row : pattern_rows) {
    if (row.pattern == pattern) return row.make();
  }
  ONEPASS_ASSIGN(RegexRule regex, Regex::compile(pattern));
  return Rule(std::move(regex));
}

}  // namespace onepass::llm::text
