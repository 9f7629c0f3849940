// The written-out splitting rules, as matchers at one position.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {

// A match starts at p < end and ends where the function says; p itself: no match.

struct Peeked {
  std::uint32_t value = 0;
  std::uint32_t bytes = 0;  // 0: at the end
  std::uint8_t flags = 0;

  bool is(std::uint8_t any_of) const noexcept { return (flags & any_of) != 0; }
  bool is_newline() const noexcept { return value == '\n' || value == '\r'; }
  // Neither white space, letter nor number.
  bool is_other() const noexcept {
    return bytes != 0 && !is(char_flag::space | char_flag::letter | char_flag::number);
  }
};

inline Peeked peek(const char* p, const char* end) noexcept {
  if (p >= end) return {};
  const Char c = decode(p, end);
  return {c.value, c.bytes, flags_of(c.value)};
}

template <class Is>
const char* skip_while(const char* p, const char* end, Is&& is) {
  for (Peeked c = peek(p, end); c.bytes != 0 && is(c); c = peek(p, end)) p += c.bytes;
  return p;
}

// After an apostrophe: s t re ve m ll d.
inline const char* match_contraction(const char* p, const char* end, bool fold, bool long_s) {
  if (p >= end || *p != '\'' || end - p < 2) return p;
  const auto lower = [fold](char c) {
    return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char a = lower(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end - p < 3) return p;
  const char b = lower(p[2]);
  if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  if (long_s && p[1] == '\xC5' && p[2] == '\xBF') return p + 3;
  return p;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at white space; without_lines leaves the first alternative out.
inline const char* match_space(const char* p, const char* end, bool without_lines) {
  const char* last = p;        // start of the last character of the run
  const char* after_line = p;  // end of its last newline
  const char* q = p;
  for (Peeked c = peek(q, end); c.is(char_flag::space); c = peek(q, end)) {
    last = q;
    q += c.bytes;
    if (c.is_newline()) after_line = q;
  }
  if (!without_lines && after_line != p) return after_line;
  return q == end || last == p ? q : last;
}

inline const char* match(const Gpt2Rule&, const char* p, const char* end) {
  if (const char* q = match_contraction(p, end, false, false); q != p) return q;
  const char* q = *p == ' ' ? p + 1 : p;
  const Peeked c = peek(q, end);
  if (c.is(char_flag::letter)) {
    return skip_while(q, end, [](const Peeked& x) { return x.is(char_flag::letter); });
  }
  if (c.is(char_flag::number)) {
    return skip_while(q, end, [](const Peeked& x) { return x.is(char_flag::number); });
  }
  if (c.is_other()) return skip_while(q, end, [](const Peeked& x) { return x.is_other(); });
  return match_space(p, end, true);
}

// U*V+ (first) or U+V* (else) at p.
template <class Upper, class Lower>
const char* match_cased(const char* p, const char* end, bool first, Upper&& upper, Lower&& lower) {
  const char* q = p;
  const char* both_end = p;  // end of the last character of the U run that is also in V
  for (Peeked c = peek(q, end); c.bytes != 0 && upper(c); c = peek(q, end)) {
    q += c.bytes;
    if (lower(c)) both_end = q;
  }
  const char* r = skip_while(q, end, lower);
  if (!first) return q == p ? p : r;
  return r != q ? r : both_end;
}

inline const char* match_word(const WordRule& rule, const char* p, const char* end, bool first) {
  if (rule.cases == WordRule::Cases::ascii) {
    const auto upper = [](const Peeked& c) {
      return c.is(char_flag::letter) && !(c.value >= 'a' && c.value <= 'z');
    };
    const auto lower = [](const Peeked& c) {
      return c.is(char_flag::letter) && !(c.value >= 'A' && c.value <= 'Z');
    };
    return match_cased(p, end, first, upper, lower);
  }
  const auto both = [](const Peeked& c) {
    return c.is(char_flag::mark) ||
           (c.is(char_flag::letter) && !c.is(char_flag::upper | char_flag::lower));
  };
  return match_cased(
      p, end, first, [&](const Peeked& c) { return c.is(char_flag::upper) || both(c); },
      [&](const Peeked& c) { return c.is(char_flag::lower) || both(c); });
}

inline const char* match(const WordRule& rule, const char* p, const char* end) {
  const Peeked c = peek(p, end);
  const bool leads = !c.is_newline() && !c.is(char_flag::letter | char_flag::number);
  const char* after_lead = leads ? p + c.bytes : p;

  if (rule.cases == WordRule::Cases::none) {
    if (const char* q = match_contraction(p, end, true, rule.long_s); q != p) return q;
    const std::uint8_t word = rule.marks ? char_flag::letter | char_flag::mark : char_flag::letter;
    const auto in_word = [word](const Peeked& x) { return x.is(word); };
    if (const char* q = skip_while(after_lead, end, in_word); q != after_lead) return q;
    if (in_word(c)) return p + c.bytes;
  } else {
    for (const bool first : {true, false}) {
      const char* start = after_lead;
      const char* q = match_word(rule, start, end, first);
      if (q == start && leads) q = match_word(rule, start = p, end, first);
      if (q == start) continue;
      return rule.contraction_last ? match_contraction(q, end, true, rule.long_s) : q;
    }
  }
  if (c.is(char_flag::number)) {
    std::uint32_t n = 0;
    return skip_while(
        p, end, [&](const Peeked& x) { return x.is(char_flag::number) && n++ < rule.max_digits; });
  }
  const auto is_other = [&](const Peeked& x) {
    return x.is_other() && !(rule.marks && x.is(char_flag::mark));
  };
  const char* start = c.value == ' ' ? p + 1 : p;
  if (const char* q = skip_while(start, end, is_other); q != start) {
    while (q < end && (*q == '\r' || *q == '\n' || (rule.slash && *q == '/'))) ++q;
    return q;
  }
  return match_space(p, end, false);
}

bool in_class(CharClass chars, std::uint32_t code_point) noexcept;

inline const char* match(const RunRule& rule, const char* p, const char* end) {
  const auto run = [&](const char* start) {
    std::uint32_t n = 0;
    const char* q = skip_while(start, end, [&](const Peeked& x) {
      return n < rule.max && in_class(rule.chars, x.value) && ++n != 0;
    });
    return n >= rule.min ? q : p;
  };
  if (rule.optional_space) {
    const Peeked c = peek(p, end);
    if (c.is(char_flag::space)) {
      if (const char* q = run(p + c.bytes); q != p) return q;
    }
  }
  return run(p);
}

inline const char* match(const LinesRule&, const char* p, const char* end) {
  const bool newlines = *p == '\n';
  return std::find_if(p, end, [newlines](char c) { return (c == '\n') != newlines; });
}

}  // namespace onepass::llm::text
