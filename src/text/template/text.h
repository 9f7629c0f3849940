// Strings as Python has them: UTF-8 outside, code points inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onepass::llm::chat {

std::size_t count_code_points(std::string_view text) noexcept;
// The byte where code point `index` starts; the size of the text behind the last one.
std::size_t byte_of(std::string_view text, std::size_t index) noexcept;
std::vector<std::string_view> code_points(std::string_view text);

bool is_space(std::uint32_t code_point) noexcept;
bool is_printable(std::uint32_t code_point) noexcept;

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
// A capital after everything that is no letter.
std::string title(std::string_view text);
bool is_upper(std::string_view text) noexcept;  // and has a letter with case
bool is_lower(std::string_view text) noexcept;
// Of every code point: 'a' letter, '0' digit, ' ' space, '.' something else.
bool consists_of(std::string_view text, std::string_view kinds) noexcept;

// Cuts white space, or every code point that is in `set`.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip_left(std::string_view text, std::string_view set);
std::string_view strip_right(std::string_view text, std::string_view set);

// At most max_splits parts are cut off; negative: all.
std::vector<std::string_view> split_space(std::string_view text, std::int64_t max_splits,
                                          bool from_right);
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t max_splits, bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

std::string html_escaped(std::string_view text);
// Shortest form that reads back as the same number.
std::string real_text(double value);
// Nothing where the text is not one whole number. Independent of the locale.
std::optional<double> read_real(std::string_view text);
// In quotes, with escapes.
std::string quoted(std::string_view text);

}  // namespace onepass::llm::chat
