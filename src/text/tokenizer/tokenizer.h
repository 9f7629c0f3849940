// Text to token ids and back.
//
//   ONEPASS_ASSIGN(Tokenizer tokenizer, Tokenizer::from_json(tokenizer_json));
//   ONEPASS_ASSIGN(std::vector<std::uint32_t> ids, tokenizer.encode("Once upon a time"));
//   Detokenizer stream(tokenizer, {.at_start = false});
//   for (std::uint32_t id : generated) ONEPASS_ASSIGN(std::string text, stream.next(id));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/result.h"

namespace onepass::llm {

namespace text {
struct Spec;
}
struct VocabularyData;

struct EncodeOptions {
  bool add_special = true;     // begin and end tokens as the vocabulary asks for
  bool parse_special = false;  // read control tokens written in the text as such
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t max_tokens = std::size_t{1} << 26;
};

struct DecodeOptions {
  bool special = false;          // print control and unknown tokens
  bool at_start = true;          // drop the space that encode put in front of the text
  bool clean_up_spaces = false;  // "Hello , world" -> "Hello, world"
};

struct SpecialIds {
  std::optional<std::uint32_t> bos, eos, eot, eom, unknown, padding, separator, mask;
};

// Immutable; copies share one vocabulary, and threads may share a copy.
class Tokenizer {
 public:
  static Result<Tokenizer> create(text::Spec spec);
  static Result<Tokenizer> from_vocabulary(VocabularyData data);
  // The text of tokenizer.json, and of tokenizer_config.json where there is one; tokens after which
  // a reply is complete, besides those that these say.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json,
                                     std::string_view config_json = {},
                                     std::span<const std::uint32_t> reply_ends = {});

  // Any bytes; those that are no UTF-8 go through byte tokens.
  Result<std::vector<std::uint32_t>> encode(std::string_view text,
                                            const EncodeOptions& options = {}) const;
  // Bytes; not UTF-8 where the ids are not.
  Result<std::string> decode(std::span<const std::uint32_t> ids,
                             const DecodeOptions& options = {}) const;

  // What a token stands for in text; for control tokens, their name.
  Result<std::string_view> piece(std::uint32_t id) const;
  // The token with exactly this text as the file writes it.
  std::optional<std::uint32_t> find(std::string_view token_text) const noexcept;
  std::size_t size() const noexcept;
  const SpecialIds& special_ids() const noexcept;
  bool is_control(std::uint32_t id) const noexcept;
  // A token after which a reply is complete: eos, eot, eom and well-known end-of-turn names.
  bool ends_reply(std::uint32_t id) const noexcept;
  // The file asks for decoded text to be cleaned up.
  bool cleans_up_spaces() const noexcept;

  struct State;

 private:
  friend class Detokenizer;
  explicit Tokenizer(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Decodes one token at a time. Every returned text is valid UTF-8 and never ends inside a code
// point; invalid sequences become U+FFFD, one for each maximal part of a code point.
class Detokenizer {
 public:
  // clean_up_spaces is ignored: it would need text that is not there yet.
  explicit Detokenizer(Tokenizer tokenizer, const DecodeOptions& options = {});

  Result<std::string> next(std::uint32_t id);
  // What is left of an unfinished code point, as U+FFFD; ready for another text afterwards.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  bool strip_space_ = false;
  std::string pending_;  // at most three bytes
};

}  // namespace onepass::llm
