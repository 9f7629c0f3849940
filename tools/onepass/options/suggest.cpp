#include "suggest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace onepass::tool {
namespace {

constexpr std::size_t max_word = 100;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: one of a's letters and the two before it.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string closest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > max_word) return {};
  const std::string asked = lower(word);
  // A third of the letters may be wrong; of short words one.
  std::size_t best = std::max<std::size_t>(asked.size() / 3, 1) + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    const std::string known = lower(candidate);
    std::size_t distance = edit_distance(asked, known);
    // A word that was not finished.
    if (asked.size() >= 3 && known.starts_with(asked))
      distance = std::min<std::size_t>(distance, 1);
    if (distance < best && distance < known.size()) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = closest(word, candidates);
  return found.empty() ? "" : "; did you mean '" + found + "'?";
}

}  // namespace onepass::tool
