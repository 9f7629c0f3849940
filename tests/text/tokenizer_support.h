// encode() and decode() that report errors as test failures.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "support/tokenizer_vocabularies.h"

namespace onepass::test {

inline Ids encoded(const llm::Tokenizer& tokenizer, std::string_view text,
                   const llm::EncodeOptions& options = {.add_special = false}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.has_value()) << (ids ? "" : ids.error().to_string()) << " " << shown(text);
  return ids ? *ids : Ids{};
}

inline std::string decoded(const llm::Tokenizer& tokenizer, const Ids& ids,
                           const llm::DecodeOptions& options = {}) {
  auto text = tokenizer.decode(ids, options);
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().to_string());
  return text ? *text : std::string();
}

}  // namespace onepass::test
