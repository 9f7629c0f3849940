#include "text/tokenizer/pretokenize.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "text/tokenizer/split.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

struct Range {
  std::uint32_t first, last;
};

constexpr Range deepseek_letters[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},
    {0xD8, 0xF6},       {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},
    {0x295, 0x2AF},     {0x370, 0x373},     {0x376, 0x376},     {0x377, 0x377},
    {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
    {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},
    {0x48A, 0x52F},     {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},
    {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},
    {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},
    {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},
    {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},
    {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},
    {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},
    {0x213C, 0x213F},   {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2183},
    {0x2184, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},
    {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},
    {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},
    {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},
    {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2},
    {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};
constexpr Range deepseek_symbols[] = {{0x21, 0x2F},     {0x3A, 0x7E},     {0x2018, 0x201F},
                                      {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};

template <std::size_t n>
bool in_ranges(const Range (&ranges)[n], std::uint32_t c) noexcept {
  const Range* r = std::lower_bound(std::begin(ranges), std::end(ranges), c,
                                    [](const Range& a, std::uint32_t b) { return a.last < b; });
  return r != std::end(ranges) && c >= r->first;
}

bool is_one_of(std::string_view set, std::uint32_t c) noexcept {
  return c < 128 && set.find(static_cast<char>(c)) != std::string_view::npos;
}

}  // namespace

bool in_class(CharClass chars, std::uint32_t c) noexcept {
  switch (chars) {
    case CharClass::number:
      return (flags_of(c) & char_flag::number) != 0;
    case CharClass::ascii_digit:
      return c >= '0' && c <= '9';
    case CharClass::newline:
      return c == '\n' || c == '\r';
    case CharClass::letter:
      return (flags_of(c) & char_flag::letter) != 0;
    case CharClass::punctuation:
      return (flags_of(c) & char_flag::punctuation) != 0;
    case CharClass::ascii_punctuation:
      return (flags_of(c) & char_flag::punctuation) != 0 || is_one_of("$+<=>^`|~", c);
    case CharClass::default_symbols:
      return (flags_of(c) & char_flag::punctuation) != 0 || is_one_of("$+<=>^~|", c);
    case CharClass::falcon_symbols:
      return (flags_of(c) & char_flag::punctuation) != 0 || is_one_of("$+<=>^~|`", c);
    case CharClass::deepseek_letters:
      return in_ranges(deepseek_letters, c);
    case CharClass::deepseek_symbols:
      return in_ranges(deepseek_symbols, c);
    case CharClass::cjk:
      return (c >= 0x800 && c <= 0x9FA5) || (c >= 0xAC00 && c <= 0xD7FF);
  }
  return false;
}

namespace {

using Found = Regex::Found;

template <class R>
Status each_match(const R& rule, std::string_view text, Found found) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  for (const char* p = begin; p < end;) {
    const char* q = match(rule, p, end);
    if (q == p) {
      p += decode(p, end).bytes;
      continue;
    }
    if (!found(static_cast<std::size_t>(p - begin), static_cast<std::size_t>(q - begin))) break;
    p = q;
  }
  return {};
}

Status each_match(const TrailingSpaceRule&, std::string_view text, Found found) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* run = begin;  // after the last character that is no white space
  for (const char* p = begin; p < end;) {
    const Peeked c = peek(p, end);
    p += c.bytes;
    if (!c.is(char_flag::space)) run = p;
  }
  if (run != end) found(static_cast<std::size_t>(run - begin), text.size());
  return {};
}

Status each_match(const LiteralRule& rule, std::string_view text, Found found) {
  if (rule.text.empty()) return {};
  for (std::size_t at = text.find(rule.text); at != std::string_view::npos;
       at = text.find(rule.text, at + rule.text.size())) {
    if (!found(at, at + rule.text.size())) break;
  }
  return {};
}

Status each_match(const RegexRule& rule, std::string_view text, Found found) {
  return rule->each_match(text, found);
}

// Turns matches and the text between them into pieces.
class Pieces {
 public:
  Pieces(const Split& rule, std::string_view text, PieceSink emit)
      : rule_(rule), text_(text), emit_(emit) {}

  bool add_match(std::size_t begin, std::size_t end) {
    return add(at_, begin, false) && add(begin, end, true);
  }
  bool finish() { return add(at_, text_.size(), false) && flush(); }

 private:
  // A segment that is a match, or lies between matches.
  bool add(std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return true;
    at_ = end;
    is_match = is_match != rule_.invert;
    bool extends = false;
    switch (rule_.behavior) {
      case Behavior::isolated:
        break;
      case Behavior::removed:
        if (is_match) return flush();
        break;
      case Behavior::merged_with_previous:
        extends = is_match && !last_is_match_;
        break;
      case Behavior::merged_with_next:
        extends = !is_match && last_is_match_;
        break;
      case Behavior::contiguous:
        extends = is_match == last_is_match_;
        break;
    }
    if (!extends || held_begin_ == held_end_) {
      if (!flush()) return false;
      held_begin_ = begin;
    }
    held_end_ = end;
    last_is_match_ = is_match;
    return true;
  }

  bool flush() {
    if (held_begin_ == held_end_) return true;
    const auto piece = text_.substr(held_begin_, held_end_ - held_begin_);
    held_begin_ = held_end_ = 0;
    return emit_(piece);
  }

  const Split& rule_;
  std::string_view text_;
  PieceSink emit_;
  std::size_t at_ = 0;
  std::size_t held_begin_ = 0, held_end_ = 0;
  bool last_is_match_ = false;
};

}  // namespace

Result<bool> split(const Split& rule, std::string_view text, PieceSink emit) {
  Pieces pieces(rule, text, emit);
  bool goes_on = true;
  const auto found = [&](std::size_t begin, std::size_t end) {
    return goes_on = pieces.add_match(begin, end);
  };
  ONEPASS_TRY(std::visit([&](const auto& r) { return each_match(r, text, found); }, rule.rule));
  return goes_on && pieces.finish();
}

}  // namespace onepass::llm::text
