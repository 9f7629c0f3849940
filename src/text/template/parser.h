// Tokens to a tree.
#pragma once

#include <string_view>

#include "text/template/ast.h"

namespace onepass::llm::chat {

// source is normalized; errors tell row and column in it. max_depth bounds what is nested in what,
// and with it how deep anything that walks the tree recurses.
Result<Body> parse_template(std::string_view source, std::uint32_t max_depth);

}  // namespace onepass::llm::chat
