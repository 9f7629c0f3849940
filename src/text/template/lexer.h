// Cuts a template into text and the tokens of its tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/result.h"

namespace onepass::llm::chat {

enum class TokenKind : std::uint8_t {
  data,          // text between tags, white space already cut
  output_begin,  // {{
  output_end,
  block_begin,  // {%
  block_end,
  name,
  string,  // escapes decoded
  integer,
  real,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::uint32_t offset = 0;  // in the source
  std::string text;
};

// One kind of line end, and no line end behind the last line.
std::string normalized(std::string_view source);
// Both block options of transformers are on: the line end behind a block is dropped, and so is the
// white space in front of one that starts its line. The last token is `end`.
Result<std::vector<Token>> tokenize(std::string_view normalized_source);

// An error that tells row and column, both from 1.
Error error_at(std::string_view source, std::uint32_t offset, ErrorCode code,
               std::string_view message, const char* file = __builtin_FILE(),
               int line = __builtin_LINE());

}  // namespace onepass::llm::chat
