// Merging of adjacent symbols by priority, for any kind of vocabulary.
//
// A Rules type gives
//   struct Symbol                                 a symbol; Symbol::bytes() is its length
//   Symbol first(const char* p, const char* end)  the initial symbol at p
//   std::uint32_t join(a, b, Symbol& joined)      rank of the pair, no_id if it never merges
// The pair of lowest rank merges first, of equal ranks the leftmost one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "text/tokenizer/tables.h"

namespace onepass::llm::text {

template <class Rules>
class Merger {
 public:
  using Symbol = typename Rules::Symbol;

  // Fills out with the final symbols of text. O(n) for a fixed vocabulary.
  void run(const Rules& rules, std::string_view text, std::vector<Symbol>& out) {
    out.clear();
    if (text.size() <= short_text) {
      merge_short(rules, text, out);
    } else if (text.size() <= first_window) {
      merge_long(rules, text, out);
    } else {
      merge_windows(rules, text, out);
    }
  }

 private:
  static constexpr std::size_t short_text = 40;      // bytes
  static constexpr std::size_t first_window = 4096;  // bytes
  static constexpr std::uint32_t none = no_id;

  struct Item {
    Symbol symbol;
    Symbol joined;  // with the next item, where rank is not none
    std::uint32_t rank;
  };
  struct Link {
    Symbol symbol;
    Symbol joined;
    std::uint32_t rank;
    std::uint32_t previous, next;
  };

  void merge_short(const Rules& rules, std::string_view text, std::vector<Symbol>& out) {
    Item items[short_text];
    std::size_t n = 0;
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end; ++n) {
      items[n].symbol = rules.first(p, end);
      p += items[n].symbol.bytes();
    }
    const auto rate = [&](std::size_t i) {
      items[i].rank =
          i + 1 < n ? rules.join(items[i].symbol, items[i + 1].symbol, items[i].joined) : none;
    };
    for (std::size_t i = 0; i < n; ++i) rate(i);
    while (true) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < n; ++i) {
        if (items[i].rank < items[best].rank) best = i;
      }
      if (n == 0 || items[best].rank == none) break;
      items[best].symbol = items[best].joined;
      std::copy(items + best + 2, items + n, items + best + 1);
      --n;
      rate(best);
      if (best > 0) rate(best - 1);
    }
    for (std::size_t i = 0; i < n; ++i) out.push_back(items[i].symbol);
  }

  void merge_long(const Rules& rules, std::string_view text, std::vector<Symbol>& out) {
    links_.clear();
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const Symbol symbol = rules.first(p, end);
      const auto i = static_cast<std::uint32_t>(links_.size());
      links_.push_back({symbol, symbol, none, i - 1, i + 1});
      p += symbol.bytes();
    }
    const auto n = static_cast<std::uint32_t>(links_.size());
    if (n == 0) return;
    heap_.clear();
    const auto rate = [&](std::uint32_t i) {
      Link& link = links_[i];
      link.rank =
          link.next < n ? rules.join(link.symbol, links_[link.next].symbol, link.joined) : none;
      return link.rank != none;
    };
    const auto key = [&](std::uint32_t i) { return std::uint64_t{links_[i].rank} << 32 | i; };
    for (std::uint32_t i = 0; i < n; ++i) {
      if (rate(i)) heap_.push_back(key(i));
    }
    const auto later = std::greater<std::uint64_t>();
    std::make_heap(heap_.begin(), heap_.end(), later);
    const auto push = [&](std::uint32_t i) {
      if (!rate(i)) return;
      heap_.push_back(key(i));
      std::push_heap(heap_.begin(), heap_.end(), later);
    };
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const std::uint64_t top = heap_.back();
      heap_.pop_back();
      const auto i = static_cast<std::uint32_t>(top);
      Link& link = links_[i];
      // An entry is stale where its pair has changed; a symbol merged away has rank none.
      if (link.rank != static_cast<std::uint32_t>(top >> 32)) continue;
      Link& gone = links_[link.next];
      link.symbol = link.joined;
      link.next = gone.next;
      gone.rank = none;
      if (link.next < n) links_[link.next].previous = i;
      push(i);
      if (i > 0) push(link.previous);
    }
    for (std::uint32_t i = 0; i < n; i = links_[i].next) out.push_back(links_[i].symbol);
  }

  // A sequence of symbols is the result for its text exactly if every two neighbours are the
  // result for theirs: merges inside a symbol and across its borders depend on nothing farther
  // away. So results of overlapping windows may be joined at any symbol both contain. Where two
  // windows have none in common the text starts again with larger ones.
  void merge_windows(const Rules& rules, std::string_view text, std::vector<Symbol>& out) {
    for (std::size_t window = first_window;; window *= 4) {
      out.clear();
      if (window >= text.size()) return merge_long(rules, text, out);
      if (joined_windows(rules, text, window, out)) return;
    }
  }

  bool joined_windows(const Rules& rules, std::string_view text, std::size_t window,
                      std::vector<Symbol>& out) {
    const std::size_t overlap = window / 8;
    std::size_t begin = 0;  // of the last window
    std::size_t first = 0;  // its first symbol in out
    std::size_t at = 0;     // byte where that symbol starts
    while (true) {
      const std::string_view piece = whole_symbols(text, begin, window);
      next_.clear();
      merge_long(rules, piece, next_);
      if (begin == 0) {
        out.insert(out.end(), next_.begin(), next_.end());
      } else {
        // Find a symbol with the same bytes in both; out's symbols from `first` start at `at`.
        std::size_t i = first, j = 0, i_at = at, j_at = begin;
        while (i < out.size() && j < next_.size() &&
               !(i_at == j_at && out[i].bytes() == next_[j].bytes())) {
          if (i_at + out[i].bytes() <= j_at + next_[j].bytes()) {
            i_at += out[i++].bytes();
          } else {
            j_at += next_[j++].bytes();
          }
        }
        if (i == out.size() || j == next_.size()) return false;
        out.resize(i);
        out.insert(out.end(), next_.begin() + static_cast<std::ptrdiff_t>(j), next_.end());
      }
      const std::size_t end = begin + piece.size();
      if (end == text.size()) return true;
      first = out.size();
      at = end;
      while (first > 0 && end - at < overlap) at -= out[--first].bytes();
      if (at <= begin) return false;
      begin = at;
    }
  }

  // About `window` bytes of text from begin on, cut between two initial symbols.
  static std::string_view whole_symbols(std::string_view text, std::size_t begin,
                                        std::size_t window) {
    if (text.size() - begin <= window) return text.substr(begin);
    // Initial symbols are single bytes or whole code points: one starts at each byte that
    // continues none, and among four continuation bytes at each that no lead byte reaches.
    std::size_t size = window;
    for (std::size_t back = 0; back < 4; ++back) {
      if ((static_cast<unsigned char>(text[begin + window - back]) & 0xC0) != 0x80) {
        size = window - back;
        break;
      }
    }
    return text.substr(begin, size);
  }

  std::vector<Link> links_;
  std::vector<std::uint64_t> heap_;
  std::vector<Symbol> next_;
};

}  // namespace onepass::llm::text
