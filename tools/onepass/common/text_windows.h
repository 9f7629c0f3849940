// A text cut into windows of equally many tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onepass/result.h"
#include "text/tokenizer/tokenizer.h"

namespace onepass::tool {

// A file, or - for stdin.
Result<std::string> read_input(const std::string& path);
// Each window starts with the begin token where texts of this vocabulary do, or always. `command`
// is for errors.
Result<std::optional<std::uint32_t>> begin_token(const llm::Tokenizer& tokenizer, bool always,
                                                 const char* command);
// A whole number of windows, two at least.
Result<std::vector<std::uint32_t>> read_windows(const std::string& text, std::uint32_t window,
                                                const llm::Tokenizer& tokenizer,
                                                const char* command);

}  // namespace onepass::tool
