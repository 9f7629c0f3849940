// Numbers written as decimal text, the same in every locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace onepass::io {

// Digits only; nothing where there is anything else or the number needs more than 64 bits.
std::optional<std::uint64_t> whole_value(std::string_view text) noexcept;

// The double nearest to "-12.5e3" or the like, no plus sign in front: infinite where it is too
// large, 0 where it is too small. Nothing where the text is not one such number.
std::optional<double> decimal_value(std::string_view text) noexcept;

}  // namespace onepass::io
