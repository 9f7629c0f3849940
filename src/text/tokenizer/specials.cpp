#include "text/tokenizer/specials.h"

#include <algorithm>
#include <map>

#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

constexpr std::size_t max_special_bytes = 16u << 20;
constexpr std::uint32_t none = ~std::uint32_t{0};

std::uint64_t edge(std::uint32_t state, unsigned char byte) noexcept {
  return std::uint64_t{state} << 8 | byte;
}

// Start of the code point that ends before p.
const char* previous(const char* begin, const char* p) noexcept {
  const char* q = p - 1;
  for (int i = 0; i < 3 && q > begin && (static_cast<unsigned char>(*q) & 0xC0) == 0x80; ++i) --q;
  return q + decode(q, p).bytes == p ? q : p - 1;
}

bool is_space_at(const char* p, const char* end) noexcept {
  return (flags_of(decode(p, end).value) & char_flag::space) != 0;
}

bool is_word_at(const char* p, const char* end) noexcept {
  const std::uint32_t c = decode(p, end).value;
  return c == '_' || (flags_of(c) & (char_flag::letter | char_flag::number | char_flag::mark)) != 0;
}

}  // namespace

std::uint32_t SpecialFinder::child(std::uint32_t state, unsigned char byte) const noexcept {
  if (state == 0) return root_[byte];
  const auto found = edges_.find(edge(state, byte));
  return found == edges_.end() ? 0 : found->second;
}

std::uint32_t SpecialFinder::step(std::uint32_t state, unsigned char byte) const noexcept {
  while (true) {
    const std::uint32_t next = child(state, byte);
    if (next != 0 || state == 0) return next;
    state = states_[state].fail;
  }
}

Status SpecialFinder::build(std::vector<SpecialToken> tokens, bool leftmost) {
  tokens_ = std::move(tokens);
  leftmost_ = leftmost;
  states_.assign(1, State{});
  std::size_t total = 0;
  std::vector<std::uint64_t> parents(1);  // edge that leads to each state
  for (std::uint32_t t = 0; t < tokens_.size(); ++t) {
    const std::string& text = tokens_[t].text;
    total += text.size();
    if (total > max_special_bytes) {
      return fail(ErrorCode::limit,
                  "special tokens have more than " + std::to_string(max_special_bytes) + " bytes");
    }
    std::uint32_t state = 0;
    for (auto c = text.rbegin(); c != text.rend(); ++c) {
      const auto byte = static_cast<unsigned char>(*c);
      std::uint32_t next = child(state, byte);
      if (next == 0) {
        next = static_cast<std::uint32_t>(states_.size());
        states_.push_back({.depth = states_[state].depth + 1});
        parents.push_back(edge(state, byte));
        if (state == 0) {
          root_[byte] = next;
        } else {
          edges_.emplace(edge(state, byte), next);
        }
      }
      state = next;
    }
    if (state != 0 && states_[state].token == none) states_[state].token = t;
  }
  // Fail links need those of all shorter states.
  std::vector<std::uint32_t> order(states_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    return states_[a].depth < states_[b].depth;
  });
  for (const std::uint32_t i : order) {
    State& state = states_[i];
    if (state.depth > 1) {
      const auto parent = static_cast<std::uint32_t>(parents[i] >> 8);
      state.fail = step(states_[parent].fail, static_cast<unsigned char>(parents[i]));
    }
    const State& fail = states_[state.fail];
    state.shorter = fail.token != none ? state.fail : fail.shorter;
  }
  return {};
}

std::vector<SpecialFinder::Candidate> SpecialFinder::candidates(std::string_view text) const {
  std::vector<Candidate> found;
  std::uint32_t state = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    state = step(state, static_cast<unsigned char>(text[i]));
    if (state == 0) continue;
    const std::uint32_t token = states_[state].token != none ? state : states_[state].shorter;
    if (token != 0) found.push_back({static_cast<std::uint32_t>(i), token});
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<SpecialFinder::Candidate> SpecialFinder::pick_leftmost(
    const std::vector<Candidate>& found) const {
  std::vector<Candidate> picked;
  std::size_t at = 0;
  for (const Candidate& c : found) {
    if (c.begin < at) continue;
    picked.push_back(c);
    at = c.begin + states_[c.state].depth;
  }
  return picked;
}

Status SpecialFinder::pick_cluster(const Candidate* first, const Candidate* last,
                                   std::size_t& budget, std::vector<Candidate>& picked) const {
  std::map<std::uint32_t, std::vector<Candidate>, std::greater<>> by_length;
  for (const Candidate* c = first; c != last; ++c) by_length[states_[c->state].depth].push_back(*c);
  std::map<std::size_t, Candidate> taken;  // by end
  while (!by_length.empty()) {
    auto group = by_length.extract(by_length.begin());
    auto& list = group.mapped();
    const auto by_begin = [](const Candidate& a, const Candidate& b) { return a.begin < b.begin; };
    if (!std::is_sorted(list.begin(), list.end(), by_begin)) {
      std::sort(list.begin(), list.end(), by_begin);
    }
    for (const Candidate& c : list) {
      const std::size_t end = c.begin + std::size_t{group.key()};
      const auto next = taken.upper_bound(c.begin);  // first that ends after c begins
      if (next == taken.end() || next->second.begin >= end) {
        taken.emplace_hint(next, end, c);
        continue;
      }
      const std::uint32_t shorter = states_[c.state].shorter;
      if (next->second.begin <= c.begin || shorter == 0) continue;
      if (budget-- == 0) {
        return fail(ErrorCode::limit, "special tokens overlap too often in this text");
      }
      by_length[states_[shorter].depth].push_back({c.begin, shorter});
    }
  }
  for (const auto& [end, c] : taken) picked.push_back(c);
  return {};
}

Result<std::vector<SpecialFinder::Candidate>> SpecialFinder::pick_longest(
    std::vector<Candidate> found, std::size_t text_bytes) const {
  std::size_t budget = 16 * text_bytes + 1'000'000;
  std::vector<Candidate> picked;
  for (std::size_t i = 0; i < found.size();) {
    std::size_t end = found[i].begin + std::size_t{states_[found[i].state].depth};
    std::size_t j = i + 1;
    for (; j < found.size() && found[j].begin < end; ++j) {
      end = std::max(end, found[j].begin + std::size_t{states_[found[j].state].depth});
    }
    if (j == i + 1) {
      picked.push_back(found[i]);
    } else {
      ONEPASS_TRY(pick_cluster(found.data() + i, found.data() + j, budget, picked));
    }
    i = j;
  }
  return picked;
}

Result<std::vector<SpecialFinder::Hit>> SpecialFinder::find(std::string_view text) const {
  std::vector<Hit> hits;
  if (tokens_.empty() || text.empty()) return hits;
  std::vector<Candidate> picked = candidates(text);
  if (leftmost_) {
    picked = pick_leftmost(picked);
  } else {
    ONEPASS_ASSIGN(picked, pick_longest(std::move(picked), text.size()));
  }
  const char* begin = text.data();
  const char* end = begin + text.size();
  std::size_t at = 0;  // end of the last hit
  for (const Candidate& c : picked) {
    if (c.begin < at) continue;
    const SpecialToken& token = tokens_[states_[c.state].token];
    const char* left = begin + c.begin;
    const char* right = left + token.text.size();
    if (token.single_word && ((left > begin && is_word_at(previous(begin, left), end)) ||
                              (right < end && is_word_at(right, end)))) {
      continue;
    }
    if (token.strip_left) {
      const char* stop = begin + at;
      while (left > stop && is_space_at(previous(stop, left), end)) left = previous(stop, left);
    }
    if (token.strip_right) {
      while (right < end && is_space_at(right, end)) right += decode(right, end).bytes;
    }
    at = static_cast<std::size_t>(right - begin);
    hits.push_back({static_cast<std::size_t>(left - begin), at, token.id});
  }
  return hits;
}

}  // namespace onepass::llm::text
