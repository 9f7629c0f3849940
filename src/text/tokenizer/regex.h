// Regular expressions of tokenizer.json, matched by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "onepass/result.h"
#include "text/tokenizer/function_ref.h"

namespace onepass::llm::text {

class Regex {
 public:
  struct Code;

  // Ruby's rules where they differ from Perl's: ^ and $ match at lines, \s is White_Space.
  static Result<std::shared_ptr<const Regex>> compile(std::string_view pattern);
  // Calls found(begin, end) for all matches that are not empty, from left to right, until it
  // returns false. Invalid bytes match as U+FFFD. Patterns that backtrack too much on this text
  // give ErrorCode::limit.
  using Found = FunctionRef<bool(std::size_t, std::size_t)>;
  Status each_match(std::string_view text, Found found) const;

  explicit Regex(std::unique_ptr<Code> code) noexcept;
  ~Regex();

 private:
  std::unique_ptr<Code> code_;
};

}  // namespace onepass::llm::text
