// UTF-8 and the character properties that pre-tokenizers ask for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace onepass::llm::text {

struct Char {
  std::uint32_t value = 0;
  std::uint32_t bytes = 1;

  // A byte that belongs to no code point counts as U+FFFD of one byte.
  bool is_invalid() const noexcept { return value == 0xFFFD && bytes == 1; }
};

Char decode_multibyte(const char* p, const char* end) noexcept;

// p < end. Surrogates, overlong forms and values above U+10FFFF are invalid.
inline Char decode(const char* p, const char* end) noexcept {
  const auto first = static_cast<unsigned char>(*p);
  return first < 0x80 ? Char{first, 1} : decode_multibyte(p, end);
}

void append_utf8(std::string& out, std::uint32_t code_point);
bool is_valid_utf8(std::string_view text) noexcept;
// Every byte of an invalid sequence becomes one U+FFFD.
std::string replace_invalid(std::string_view text);

namespace char_flag {
inline constexpr std::uint8_t letter = 1;
inline constexpr std::uint8_t upper = 2;  // Lu and Lt; a letter with neither case bit is caseless
inline constexpr std::uint8_t lower = 4;
inline constexpr std::uint8_t mark = 8;
inline constexpr std::uint8_t number = 16;
inline constexpr std::uint8_t punctuation = 32;
inline constexpr std::uint8_t space = 64;  // White_Space
}  // namespace char_flag

constexpr std::uint8_t ascii_flags(unsigned c) noexcept {
  if (c >= 'a' && c <= 'z') return char_flag::letter | char_flag::lower;
  if (c >= 'A' && c <= 'Z') return char_flag::letter | char_flag::upper;
  if (c >= '0' && c <= '9') return char_flag::number;
  if (c == ' ' || (c >= '\t' && c <= '\r')) return char_flag::space;
  return std::string_view("!\"#%&'()*,-./:;?@[\\]_{}").find(static_cast<char>(c)) !=
                 std::string_view::npos
             ? char_flag::punctuation
             : std::uint8_t{0};
}

inline constexpr std::array<std::uint8_t, 128> ascii_flag_table = [] {
  std::array<std::uint8_t, 128> table{};
  for (unsigned c = 0; c < 128; ++c) table[c] = ascii_flags(c);
  return table;
}();

std::uint8_t wide_flags(std::uint32_t code_point) noexcept;
inline std::uint8_t flags_of(std::uint32_t code_point) noexcept {
  return code_point < 128 ? ascii_flag_table[code_point] : wide_flags(code_point);
}

// The printable alphabet of byte-level vocabularies: one code point below U+0144 for each byte.
std::uint32_t byte_to_alphabet(unsigned char byte) noexcept;
// -1: not in the alphabet.
int alphabet_to_byte(std::uint32_t code_point) noexcept;
std::string to_alphabet(std::string_view bytes);
// False, with out unspecified, where a character is not in the alphabet.
bool from_alphabet(std::string_view text, std::string& out);

inline constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace onepass::llm::text
