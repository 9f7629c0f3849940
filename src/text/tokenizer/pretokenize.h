// Cutting text into the words that merges never cross.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "onepass/result.h"
#include "text/tokenizer/function_ref.h"
#include "text/tokenizer/regex.h"

namespace onepass::llm::text {

// Splitting rules. Those of known vocabularies are written out: each is a fixed regular
// expression, matched in linear time and constant space.

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2Rule {};

// contraction | X?W+ | \p{N}{1,max_digits} | ?O+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
// with X = [^\r\n\p{L}\p{N}], W = \p{L}, O = [^\s\p{L}\p{N}].
struct WordRule {
  // How W+ tells upper from lower case: not at all; U*V+|U+V* with U = \p{L} without a-z and
  // V = \p{L} without A-Z; or the same with U = \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M} and
  // V = \p{Ll}\p{Lm}\p{Lo}\p{M}. Rules with cases have no contraction in front.
  enum class Cases : std::uint8_t { none, ascii, categories };

  std::uint32_t max_digits = 1;
  bool marks = false;             // W = [\p{L}\p{M}], O without \p{M}
  bool slash = false;             // [\r\n/]* instead of [\r\n]*
  bool long_s = false;            // 's also matches U+017F, as case folding does
  bool contraction_last = false;  // (contraction)? at the end of a word
  Cases cases = Cases::none;
};

enum class CharClass : std::uint8_t {
  number,
  ascii_digit,
  newline,  // [\r\n]
  letter,
  punctuation,        // \p{P}
  ascii_punctuation,  // \p{P} and ASCII symbols
  default_symbols,    // [\p{P}\$\+<=>\^~\|]
  falcon_symbols,     // the same and `
  deepseek_letters,
  deepseek_symbols,
  cjk,
};

// \s?C{min,max}, longest first.
struct RunRule {
  CharClass chars = CharClass::number;
  std::uint32_t min = 1;
  std::uint32_t max = std::numeric_limits<std::uint32_t>::max();
  bool optional_space = false;
};

// \s+$
struct TrailingSpaceRule {};

// [^\n]+|[\n]+
struct LinesRule {};

struct LiteralRule {
  std::string text;
};

using RegexRule = std::shared_ptr<const Regex>;
using Rule =
    std::variant<Gpt2Rule, WordRule, RunRule, TrailingSpaceRule, LinesRule, LiteralRule, RegexRule>;

// What becomes of a match: a piece of its own; nothing; part of the piece before or after; part of
// a run of matches.
enum class Behavior : std::uint8_t {
  isolated,
  removed,
  merged_with_previous,
  merged_with_next,
  contiguous,
};

struct Split {
  Rule rule;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // matches and the text between them change places
};

struct Prepend {
  std::string text;
  bool only_at_start = false;   // of the whole text, not after special tokens
  bool unless_present = false;  // not where the text already starts so
};

struct Replace {
  std::variant<std::string, RegexRule> from;
  std::string to;
};

// From here on text is in the byte alphabet; words go back to bytes at the end.
struct ToByteAlphabet {};

enum class UnicodeForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

using Normalizer = std::variant<UnicodeForm, Prepend, Replace>;
using Stage = std::variant<Split, Prepend, Replace, ToByteAlphabet>;

// Returns false to stop.
using PieceSink = FunctionRef<bool(std::string_view)>;

// Calls emit for every piece of text, from left to right; none is empty. False where emit stopped.
Result<bool> split(const Split& rule, std::string_view text, PieceSink emit);

Result<std::string> normalize(const Normalizer& step, std::string_view text, bool at_start);
// NFC and the other forms, in linear time; bytes that are no UTF-8 stay as they are.
std::string unicode_form(UnicodeForm form, std::string_view text);

// The stages for a value of tokenizer.ggml.pre ("" or "default": the default ones).
Result<std::vector<Stage>> stages_for(std::string_view pre);
// What else such a value means.
struct PreFlags {
  bool cleans_up_spaces = false;  // in front of marks, where tokens become text
  bool whole_words = false;       // a word that is a token stays whole, whatever the merges say
  bool adds_bos = false;          // where no key says
};
PreFlags pre_flags(std::string_view pre) noexcept;
// The written-out rule for a regular expression of tokenizer.json, else a compiled one.
Result<Rule> rule_for(std::string_view pattern);

}  // namespace onepass::llm::text
