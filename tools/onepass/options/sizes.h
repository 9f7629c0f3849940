// Sizes as people write them: 32k, 1.5G.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

#include "onepass/result.h"

namespace onepass::tool {

// "32k" is 32768, "1.5M" 1572864: k, M, G and T, in either case and with iB or B behind them or
// not, are powers of 1024. Nothing: the text does not have this form, or has no unit. An error: it
// has, but stands for no whole number below 2^64.
Result<std::optional<std::uint64_t>> parse_size(std::string_view text);

// Lets every option of the command, and of those below it, that takes whole numbers take sizes too.
void accept_sizes(CLI::App& app);

}  // namespace onepass::tool
