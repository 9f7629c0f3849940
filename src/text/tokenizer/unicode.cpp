#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

namespace onepass::llm::text {
namespace {

struct ByteAlphabet {
  std::array<std::uint32_t, 256> code_points{};
  std::array<std::int16_t, 0x144> bytes{};
};

constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet a;
  for (auto& b : a.bytes) b = -1;
  std::uint32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool prints =
        (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    a.code_points[b] = prints ? b : next++;
    a.bytes[a.code_points[b]] = static_cast<std::int16_t>(b);
  }
  return a;
}

constexpr ByteAlphabet byte_alphabet = make_byte_alphabet();

}  // namespace

Char decode_multibyte(const char* p, const char* end) noexcept {
  const auto at = [p](int i) { return static_cast<unsigned char>(p[i]); };
  const auto n = end - p;
  const unsigned first = at(0);
  const auto follows = [&](int i) { return (at(i) & 0xC0) == 0x80; };
  if (first >= 0xC2 && first <= 0xDF && n >= 2 && follows(1)) {
    return {(first & 0x1Fu) << 6 | (at(1) & 0x3Fu), 2};
  }
  if (first >= 0xE0 && first <= 0xEF && n >= 3 && follows(1) && follows(2)) {
    const std::uint32_t v = (first & 0x0Fu) << 12 | (at(1) & 0x3Fu) << 6 | (at(2) & 0x3Fu);
    if (v >= 0x800 && (v < 0xD800 || v > 0xDFFF)) return {v, 3};
  }
  if (first >= 0xF0 && first <= 0xF4 && n >= 4 && follows(1) && follows(2) && follows(3)) {
    const std::uint32_t v =
        (first & 0x07u) << 18 | (at(1) & 0x3Fu) << 12 | (at(2) & 0x3Fu) << 6 | (at(3) & 0x3Fu);
    if (v >= 0x10000 && v <= 0x10FFFF) return {v, 4};
  }
  return {0xFFFD, 1};
}

void append_utf8(std::string& out, std::uint32_t c) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) noexcept {
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Char c = decode(p, end);
    if (c.is_invalid()) return false;
    p += c.bytes;
  }
  return true;
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Char c = decode(p, end);
    append_utf8(out, c.value);
    p += c.bytes;
  }
  return out;
}

std::uint8_t wide_flags(std::uint32_t c) noexcept {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return char_flag::letter | char_flag::upper;
    case UTF8PROC_CATEGORY_LL:
      return char_flag::letter | char_flag::lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return char_flag::letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return char_flag::mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return char_flag::number;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return char_flag::punctuation;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return char_flag::space;
    default:
      return c == 0x85 ? char_flag::space : std::uint8_t{0};
  }
}

std::uint32_t byte_to_alphabet(unsigned char byte) noexcept {
  return byte_alphabet.code_points[byte];
}

int alphabet_to_byte(std::uint32_t c) noexcept {
  return c < byte_alphabet.bytes.size() ? byte_alphabet.bytes[c] : -1;
}

std::string to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) append_utf8(out, byte_to_alphabet(static_cast<unsigned char>(b)));
  return out;
}

bool from_alphabet(std::string_view text, std::string& out) {
  out.clear();
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const Char c = decode(p, end);
    const int byte = alphabet_to_byte(c.value);
    if (byte < 0) return false;
    out.push_back(static_cast<char>(byte));
    p += c.bytes;
  }
  return true;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (!from.empty()) {
    const std::size_t hit = text.find(from, at);
    if (hit == std::string_view::npos) break;
    out.append(text, at, hit - at).append(to);
    at = hit + from.size();
  }
  return out.append(text, at);
}

}  // namespace onepass::llm::text
