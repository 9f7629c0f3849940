// What a vocabulary file says, in one form for every source. Tokenizer::create compiles it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/tokenizer.h"

namespace onepass::llm::text {

// Real vocabularies stay far below each of these.
inline constexpr std::size_t max_vocabulary = std::size_t{1} << 22;
inline constexpr std::size_t max_merges = std::size_t{1} << 24;
inline constexpr std::size_t max_token_bytes = 64u << 10;

enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

struct SpecialToken {
  std::uint32_t id = 0;
  std::string text;
  bool is_control = true;   // found only with parse_special
  bool strip_left = false;  // takes the white space before it along
  bool strip_right = false;
  bool single_word = false;  // only between characters that are neither letters, digits nor '_'
  bool normalized = false;   // looked for after normalization instead of before
};

enum class ModelKind : std::uint8_t {
  scores,      // pairs whose text is a token merge, highest score first; symbols are code points
  byte_pairs,  // listed merges; symbols are bytes
  char_pairs,  // listed merges; symbols are code points
};

struct Spec {
  ModelKind kind = ModelKind::byte_pairs;
  std::vector<std::string> tokens;  // as in the file; byte_pairs: in the byte alphabet
  std::vector<TokenType> types;
  // Tokens the merges can reach; empty: all. Added tokens of some files are outside the model.
  std::vector<bool> in_model;
  std::vector<float> scores;  // empty: all 0
  std::vector<std::pair<std::string, std::string>> merges;

  bool ignore_merges = false;   // a word that is a token is not merged
  bool whole_newlines = false;  // the same for words of newlines only
  bool byte_fallback = false;   // what no token covers becomes <0xHH> tokens
  bool fuse_unknown = false;
  std::optional<std::uint32_t> unknown;  // where there is no byte token either

  std::vector<Normalizer> normalizers;
  std::vector<Stage> stages;
  std::vector<SpecialToken> specials;
  bool leftmost_specials = false;     // leftmost-longest; else the longest anywhere comes first
  std::vector<std::uint32_t> prefix;  // ids that add_special puts around the text
  std::vector<std::uint32_t> suffix;

  SpecialIds ids;
  std::vector<std::uint32_t> reply_ends;  // besides eos, eot and eom
  bool space_marks = false;               // U+2581 in tokens stands for a space
  bool strip_leading_space = false;       // of decoded text
  bool cleans_up_spaces = false;
};

// tokenizer.json, and tokenizer_config.json where there is one.
Result<Spec> spec_from_json(std::string_view tokenizer_json, std::string_view config_json);

// "<0x0A>" -> 10; -1 for any other text.
int byte_token_value(std::string_view text) noexcept;

}  // namespace onepass::llm::text
